//! Authentication of agents: by tokens of the API server for the agent's account ([`tokens`]), or
//! by certificates ([`certificates`]). Server and agents are processes that connect over TLS; their
//! credentials are temporary and change while they run.

pub(super) mod certificates;
pub(super) mod tokens;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use e2e::TempDir;
use e2e::kubernetes::certificate_authority::CertificateAuthority;
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::deploy::AGENT;
use e2e::kubernetes::environment::{Credentials, Environment, agent};
use e2e::kubernetes::process::Process;
use e2e::kubernetes::suite::TestBed;
use serde_json::json;

pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

/// Server log message of an accepted agent.
const ADMITTED: &str = "acquired cluster lease";
/// Server log message of a rejected agent.
const REJECTED: &str = "agent rejected";

/// Files with the credentials of server and agents.
pub(super) struct Files {
    folder: TempDir,
    pub(super) authority: CertificateAuthority,
}

impl Files {
    /// Creates a certificate authority, a certificate of the server, and the file `auth.toml`.
    pub(super) fn new(trust: &str) -> anyhow::Result<Self> {
        let files = Self { folder: TempDir::new(), authority: CertificateAuthority::new("fleetwright e2e")? };
        files.write("ca.crt", files.authority.pem())?;
        files.certify_server()?;
        files.write("auth.toml", trust)?;
        Ok(files)
    }

    /// Issues a new certificate for the server's address.
    pub(super) fn certify_server(&self) -> anyhow::Result<()> {
        self.certify("server", &self.authority, "127.0.0.1")
    }

    /// Issues a certificate in `<file>.crt` with its key in `<file>.key`.
    pub(super) fn certify(&self, file: &str, by: &CertificateAuthority, name: &str) -> anyhow::Result<()> {
        let made = by.issue_certificate(&[name])?;
        self.write(&format!("{file}.key"), &made.key)?;
        self.write(&format!("{file}.crt"), &made.certificate)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Replaces a file atomically, as a kubelet does.
    pub(super) fn write(&self, name: &str, content: &str) -> anyhow::Result<()> {
        let fresh = self.folder.write_file(&format!("{name}.fresh"), content);
        std::fs::rename(fresh, self.path(name)).with_context(|| format!("cannot write {name}"))
    }

    /// Settings that enable authentication on the server.
    pub(super) fn of_server(&self) -> Vec<(&'static str, String)> {
        vec![
            ("FLEETWRIGHT_LISTEN_TLS_CERTIFICATE", self.text("server.crt")),
            ("FLEETWRIGHT_LISTEN_TLS_KEY", self.text("server.key")),
            ("FLEETWRIGHT_AUTH_FILE", self.text("auth.toml")),
        ]
    }

    /// Settings with which an agent accepts the server's certificate and presents the token in this
    /// file.
    pub(super) fn with_token(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![
            ("FLEETWRIGHT_AGENT_SERVER_CA_FILE", self.text("ca.crt")),
            ("FLEETWRIGHT_AGENT_SERVER_TOKEN_FILE", self.text(token)),
        ]
    }

    pub(super) fn with_certificate(&self, file: &str) -> Vec<(&'static str, String)> {
        vec![
            ("FLEETWRIGHT_AGENT_SERVER_CA_FILE", self.text("ca.crt")),
            ("FLEETWRIGHT_AGENT_SERVER_CLIENT_CERTIFICATE", self.text(&format!("{file}.crt"))),
            ("FLEETWRIGHT_AGENT_SERVER_CLIENT_KEY", self.text(&format!("{file}.key"))),
        ]
    }

    /// Starts a second agent with a separate lease and the rights of `kubeconfig`, which connects
    /// as `cluster` with the credentials `shown`. `name` is the name of its log.
    pub(super) fn start_impostor(
        &self,
        test_bed: &TestBed,
        (name, cluster): (&str, &str),
        (environment, kubeconfig): (&Environment, &Path),
        shown: Vec<(&'static str, String)>,
    ) -> anyhow::Result<Process> {
        let server = format!("https://{}", environment.grpc);
        let mut process =
            agent(&test_bed.programs.agent, cluster, &server, kubeconfig, self.path(&format!("{name}.log")));
        process = process.envs(shown);
        process = process.env("FLEETWRIGHT_AGENT_KUBERNETES_LEASE", format!("impostor-{name}"));
        process = process.env("FLEETWRIGHT_AGENT_KUBERNETES_NAMESPACE", AGENT.0);
        process.start()?;
        Ok(process)
    }
}

/// Waits until the server's log has `times` lines with all of `words`.
pub(super) async fn wait_until_logged(environment: &Environment, words: &[&str], times: usize) -> anyhow::Result<()> {
    let poll = || async {
        let count = environment.server.count_lines(words);
        Ok(if count >= times { Poll::Ready(()) } else { Poll::Pending(format!("{count} of {times} times")) })
    };
    wait_until(&format!("the server logs {words:?}"), TIMEOUT, poll).await
}

/// m5.large has 1930 millicores for pods, so every pod of 1500 millicores needs a node of its own.
pub(super) async fn one_kind(environment: &Environment) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    environment.apply_pool("default", requirements, json!({})).await?;
    environment.cluster.deploy("web", 0, "1500m", "1Gi", json!({})).await
}

/// Scales to so many pods and waits until they run on as many machines, which requires an admitted
/// agent.
pub(super) async fn wait_until_served(environment: &Environment, pods: u32) -> anyhow::Result<()> {
    environment.cluster.scale("web", pods).await?;
    environment.cluster.wait_until_ready(i32::try_from(pods)?, TIMEOUT).await?;
    environment.wait_until_ledger_matches_cluster(TIMEOUT).await.map(drop)
}

/// Deletes everything and waits until no instance is left.
pub(super) async fn clear(environment: &Environment) -> anyhow::Result<()> {
    environment.cluster.scale("web", 0).await?;
    environment.cluster.wait_until_nodes(0, TIMEOUT).await?;
    crate::scale::wait_until_nothing_is_paid(environment).await?;
    environment.ensure_no_double_launches().await
}

pub(super) fn credentials(
    server: Vec<(&'static str, String)>,
    agent: Vec<(&'static str, String)>,
) -> Option<Credentials> {
    Some(Credentials { server, agent })
}

/// Seconds since 1970.
pub(super) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
