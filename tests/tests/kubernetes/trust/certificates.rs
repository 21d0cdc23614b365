//! Agents with certificates; the certificates of both sides are replaced while they are connected.

use std::sync::Arc;

use anyhow::{Context, ensure};
use e2e::kubernetes::certificate_authority::{CertificateAuthority, server_certificate};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::environment::{CLUSTER, Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use rustls::pki_types::CertificateDer;

use super::{ADMITTED, Files, REJECTED, TIMEOUT, clear, credentials, one_kind, wait_until_logged, wait_until_served};

/// The name in the agent's certificate.
const AGENTS_NAME: &str = "e2e.agents.example.com";

struct CertificateScenario {
    test_bed: Arc<TestBed>,
    environment: Environment,
    files: Files,
    authority: CertificateAuthority,
}

/// Replaces the server's certificate while a stream is open; rejects agents without a valid
/// certificate; then replaces the authority of the agents' certificates, and the agent continues
/// with its new certificate.
pub(in super::super) async fn authenticate_one_cluster(test_bed: Arc<TestBed>) -> ScenarioResult {
    let files = Files::new(&format!("[[agents]]\ncluster = '{CLUSTER}'\ncertificate-name = '{AGENTS_NAME}'\n"))?;
    let authority = CertificateAuthority::new("agents")?;
    files.write("agents-ca.crt", authority.pem())?;
    files.certify("agent", &authority, AGENTS_NAME)?;
    let mut server = files.of_server();
    server.push(("FLEETWRIGHT_LISTEN_CLIENT_CA", files.path("agents-ca.crt").display().to_string()));
    let options = Options { credentials: credentials(server, files.with_certificate("agent")), ..Options::default() };
    let environment = Environment::start(&test_bed, "certificates", options).await?;
    let mut scenario = CertificateScenario { test_bed, environment, files, authority };
    scenario.all().await.with_context(|| scenario.environment.log_tails())
}

impl CertificateScenario {
    async fn all(&mut self) -> ScenarioResult {
        wait_until_logged(&self.environment, &[ADMITTED, CLUSTER], 1).await?;
        one_kind(&self.environment).await?;
        wait_until_served(&self.environment, 1).await?;
        self.replace_the_servers().await?;
        let refused = self.reject_impostors().await?;
        // Served over the stream that was opened with the first certificate.
        wait_until_served(&self.environment, 2).await?;
        self.verify_no_disconnect()?;
        self.replace_the_agents().await?;
        wait_until_served(&self.environment, 3).await?;
        clear(&self.environment).await?;
        Ok(format!(
            "the server's certificate replaced under an open stream, the agent's with its authority; refused: {refused}"
        ))
    }

    async fn presented_certificate(&self) -> anyhow::Result<CertificateDer<'static>> {
        let (address, ca_file) = (self.environment.grpc.clone(), self.files.path("ca.crt"));
        tokio::task::spawn_blocking(move || server_certificate(&address, &ca_file)).await?
    }

    async fn replace_the_servers(&self) -> anyhow::Result<()> {
        let first = self.presented_certificate().await?;
        self.files.certify_server()?;
        let pem = std::fs::read(self.files.path("server.crt"))?;
        let second = rustls::pki_types::pem::PemObject::from_pem_slice(&pem)?;
        ensure!(first != second, "the same certificate twice");
        let poll = || async {
            let shown = self.presented_certificate().await?;
            Ok(if shown == second { Poll::Ready(()) } else { Poll::Pending("the first certificate".to_owned()) })
        };
        wait_until("a handshake presents the second certificate", TIMEOUT, poll).await?;
        self.verify_no_disconnect()
    }

    /// Verifies that the agent has not been disconnected; the agent logs every disconnect.
    fn verify_no_disconnect(&self) -> anyhow::Result<()> {
        let disconnects = self.environment.agent.count_lines(&["disconnected from the server"]);
        ensure!(disconnects == 0, "the agent's stream has ended");
        ensure!(self.environment.server.count_lines(&[ADMITTED, CLUSTER]) == 1, "an agent was admitted again");
        Ok(())
    }

    /// Agents without a valid certificate that have full permissions in this cluster.
    async fn reject_impostors(&self) -> ScenarioResult {
        let kubeconfig = self.test_bed.control_plane.lock().await.kubeconfig().to_owned();
        let unknown_authority = CertificateAuthority::new("unknown")?;
        self.files.certify("forged", &unknown_authority, AGENTS_NAME)?;
        self.files.certify("namesake", &self.authority, "other.agents.example.com")?;
        let only_ca = self.files.with_token("").into_iter().take(1).collect();
        let cases = [
            ("forged", self.files.with_certificate("forged"), "TLS handshake failed"),
            ("namesake", self.files.with_certificate("namesake"), "has no agent with this certificate"),
            ("empty-handed", only_ca, "no bearer token and no client certificate presented"),
        ];
        let names = cases.each_ref().map(|(name, ..)| *name).join(", ");
        for (name, shown, expected) in cases {
            let at = (&self.environment, kubeconfig.as_path());
            let mut impostor = self.files.start_impostor(&self.test_bed, (name, CLUSTER), at, shown)?;
            let words = if expected.contains("handshake") { vec![expected] } else { vec![REJECTED, expected] };
            wait_until_logged(&self.environment, &words, 1).await?;
            impostor.wait_for_line(&["cannot connect to the server"], TIMEOUT).await?;
        }
        Ok(names)
    }

    /// A certificate of the former authority opens no new stream, and its open streams end; the
    /// agent reads its certificate again when it reconnects.
    async fn replace_the_agents(&mut self) -> anyhow::Result<()> {
        let authority = CertificateAuthority::new("agents, second")?;
        self.files.write("agents-ca.crt", authority.pem())?;
        let kubeconfig = self.test_bed.control_plane.lock().await.kubeconfig().to_owned();
        let at = (&self.environment, kubeconfig.as_path());
        let refused = ["TLS handshake failed"];
        let before = self.environment.server.count_lines(&refused);
        let former = self.files.with_certificate("agent");
        let mut former = self.files.start_impostor(&self.test_bed, ("former", CLUSTER), at, former)?;
        wait_until_logged(&self.environment, &refused, before + 1).await?;
        former.kill()?;
        // The streams that the former authority's certificate opened end too.
        self.environment.agent.wait_for_line(&["no longer authorized for this cluster"], TIMEOUT).await?;
        self.files.certify("agent", &authority, AGENTS_NAME)?;
        wait_until_logged(&self.environment, &[ADMITTED, CLUSTER], 2).await
    }
}
