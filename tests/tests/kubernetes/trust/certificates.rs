//! Agents that show certificates, and certificates of both sides that are replaced while they speak.

use std::sync::Arc;

use anyhow::{Context, ensure};
use e2e::kubernetes::authority::{Authority, shown_by};
use e2e::kubernetes::cluster::{Seen, until};
use e2e::kubernetes::suite::{Stage, Told};
use e2e::kubernetes::world::{CLUSTER, Options, World};
use rustls::pki_types::CertificateDer;

use super::{Files, LET_IN, PATIENCE, REFUSED, clear, one_kind, secured, until_said, until_served};

/// The name in the agent's certificate.
const AGENTS_NAME: &str = "e2e.agents.example.com";

struct Play {
    stage: Arc<Stage>,
    world: World,
    files: Files,
    /// Signs certificates of agents.
    authority: Authority,
}

/// The server's certificate is replaced while a stream is open; agents without a good certificate stay outside; then the
/// authority of the agents' certificates is replaced, and the agent goes on with the certificate that it has by then.
pub(in super::super) async fn speak_for_one_cluster(stage: Arc<Stage>) -> Told {
    let files = Files::new(&format!("[[agents]]\ncluster = '{CLUSTER}'\ncertificate-name = '{AGENTS_NAME}'\n"))?;
    let authority = Authority::new("agents")?;
    files.write("agents-ca.crt", authority.pem())?;
    files.certify("agent", &authority, AGENTS_NAME)?;
    let mut server = files.of_server();
    server.push(("FLEETWRIGHT_LISTEN_CLIENT_CA", files.path("agents-ca.crt").display().to_string()));
    let options = Options { secured: secured(server, files.with_certificate("agent")), ..Options::default() };
    let world = World::start(&stage, "certificates", options).await?;
    let mut play = Play { stage, world, files, authority };
    play.all().await.with_context(|| play.world.last_words())
}

impl Play {
    async fn all(&mut self) -> Told {
        until_said(&self.world, &[LET_IN, CLUSTER], 1).await?;
        one_kind(&self.world).await?;
        until_served(&self.world, 1).await?;
        self.replace_the_servers().await?;
        let refused = self.refuse_impostors().await?;
        // What goes over the stream that began with the first certificate.
        until_served(&self.world, 2).await?;
        self.never_parted()?;
        self.replace_the_agents().await?;
        until_served(&self.world, 3).await?;
        clear(&self.world).await?;
        Ok(format!(
            "the server's certificate replaced under an open stream, the agent's with its authority; refused: {refused}"
        ))
    }

    async fn shown(&self) -> anyhow::Result<CertificateDer<'static>> {
        let (address, ca_file) = (self.world.grpc.clone(), self.files.path("ca.crt"));
        tokio::task::spawn_blocking(move || shown_by(&address, &ca_file)).await?
    }

    async fn replace_the_servers(&self) -> anyhow::Result<()> {
        let first = self.shown().await?;
        self.files.certify_server()?;
        let pem = std::fs::read(self.files.path("server.crt"))?;
        let second = rustls::pki_types::pem::PemObject::from_pem_slice(&pem)?;
        ensure!(first != second, "the same certificate twice");
        let look = || async {
            let shown = self.shown().await?;
            Ok(if shown == second { Seen::Done(()) } else { Seen::NotYet("the first certificate".to_owned()) })
        };
        until("a handshake shows the second certificate", PATIENCE, look).await?;
        self.never_parted()
    }

    /// The agent tells of every stream that ends.
    fn never_parted(&self) -> anyhow::Result<()> {
        let partings = self.world.agent.times_said(&["no conversation with the server"]);
        ensure!(partings == 0, "the agent's stream has ended");
        ensure!(self.world.server.times_said(&[LET_IN, CLUSTER]) == 1, "an agent was let in again");
        Ok(())
    }

    /// Agents of this very cluster, which works with whoever may do everything in it.
    async fn refuse_impostors(&self) -> Told {
        let kubeconfig = self.stage.plane.lock().await.kubeconfig().to_owned();
        let nobody = Authority::new("nobody")?;
        self.files.certify("forged", &nobody, AGENTS_NAME)?;
        self.files.certify("namesake", &self.authority, "other.agents.example.com")?;
        let only_ca = self.files.with_token("").into_iter().take(1).collect();
        let cases = [
            ("forged", self.files.with_certificate("forged"), "a connection is refused: its handshake failed"),
            ("namesake", self.files.with_certificate("namesake"), "names no agent with this certificate"),
            ("empty-handed", only_ca, "neither a bearer token nor a certificate was shown"),
        ];
        let names = cases.each_ref().map(|(name, ..)| *name).join(", ");
        for (name, shown, said) in cases {
            let at = (&self.world, kubeconfig.as_path());
            let mut impostor = self.files.impostor(&self.stage, (name, CLUSTER), at, shown)?;
            let words = if said.contains("handshake") { vec![said] } else { vec![REFUSED, said] };
            until_said(&self.world, &words, 1).await?;
            impostor.line_with(&["no conversation with the server"], PATIENCE).await?;
        }
        Ok(names)
    }

    /// A certificate of the former authority opens no new stream and keeps none open, and the agent reads its certificate when it
    /// connects again.
    async fn replace_the_agents(&mut self) -> anyhow::Result<()> {
        let authority = Authority::new("agents, second")?;
        self.files.write("agents-ca.crt", authority.pem())?;
        let kubeconfig = self.stage.plane.lock().await.kubeconfig().to_owned();
        let at = (&self.world, kubeconfig.as_path());
        let refused = ["a connection is refused: its handshake failed"];
        let before = self.world.server.times_said(&refused);
        let former = self.files.with_certificate("agent");
        let mut former = self.files.impostor(&self.stage, ("former", CLUSTER), at, former)?;
        until_said(&self.world, &refused, before + 1).await?;
        former.kill()?;
        // It ends the stream that it opened, too.
        self.world.agent.line_with(&["does not prove the cluster any more"], PATIENCE).await?;
        self.files.certify("agent", &authority, AGENTS_NAME)?;
        until_said(&self.world, &[LET_IN, CLUSTER], 2).await
    }
}
