//! Who speaks for a cluster: by the tokens that its API server gives to the agent's account ([`tokens`]), or by certificates
//! ([`certificates`]). Server and agents are processes that speak over TLS; nothing that they know each other by outlives the
//! scenario, and all of it changes while they run.

pub(super) mod certificates;
pub(super) mod tokens;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use e2e::Folder;
use e2e::kubernetes::authority::Authority;
use e2e::kubernetes::cluster::{Seen, until};
use e2e::kubernetes::process::Process;
use e2e::kubernetes::suite::Stage;
use e2e::kubernetes::world::{AGENT, Secured, World, agent};
use serde_json::json;

pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// What the log says of an agent that is let in.
const LET_IN: &str = "deciding for this cluster";
/// What it says of one that is not.
const REFUSED: &str = "an agent is refused";

/// Files by which server and agents know each other.
pub(super) struct Files {
    folder: Folder,
    pub(super) authority: Authority,
}

impl Files {
    /// An authority, a certificate of the server by it, and a trust file.
    pub(super) fn new(trust: &str) -> anyhow::Result<Self> {
        let files = Self { folder: Folder::new(), authority: Authority::new("fleetwright e2e")? };
        files.write("ca.crt", files.authority.pem())?;
        files.certify_server()?;
        files.write("trust.toml", trust)?;
        Ok(files)
    }

    /// A fresh certificate for the server's address.
    pub(super) fn certify_server(&self) -> anyhow::Result<()> {
        self.certify("server", &self.authority, "127.0.0.1")
    }

    /// A certificate in `<file>.crt` and its key in `<file>.key`.
    pub(super) fn certify(&self, file: &str, by: &Authority, name: &str) -> anyhow::Result<()> {
        let made = by.certify(&[name])?;
        self.write(&format!("{file}.key"), &made.key)?;
        self.write(&format!("{file}.crt"), &made.certificate)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Puts a file in the place of one that may be there, in one step, as a kubelet does.
    pub(super) fn write(&self, name: &str, content: &str) -> anyhow::Result<()> {
        let fresh = self.folder.file(&format!("{name}.fresh"), content);
        std::fs::rename(fresh, self.path(name)).with_context(|| format!("cannot write {name}"))
    }

    /// What makes a server ask everybody who they are.
    pub(super) fn of_server(&self) -> Vec<(&'static str, String)> {
        vec![
            ("FLEETWRIGHT_LISTEN_TLS_CERTIFICATE", self.text("server.crt")),
            ("FLEETWRIGHT_LISTEN_TLS_KEY", self.text("server.key")),
            ("FLEETWRIGHT_TRUST_FILE", self.text("trust.toml")),
        ]
    }

    /// What makes an agent believe the server, and show the token in this file.
    pub(super) fn with_token(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![("FLEETWRIGHT_AGENT_CA_FILE", self.text("ca.crt")), ("FLEETWRIGHT_AGENT_TOKEN_FILE", self.text(token))]
    }

    /// The same with a certificate.
    pub(super) fn with_certificate(&self, file: &str) -> Vec<(&'static str, String)> {
        vec![
            ("FLEETWRIGHT_AGENT_CA_FILE", self.text("ca.crt")),
            ("FLEETWRIGHT_AGENT_CLIENT_CERTIFICATE", self.text(&format!("{file}.crt"))),
            ("FLEETWRIGHT_AGENT_CLIENT_KEY", self.text(&format!("{file}.key"))),
        ]
    }

    /// An agent beside the cluster's own: it works under a lease of its own and with the rights of `kubeconfig`, says that it
    /// speaks for `cluster`, and shows what `shown` names. Its log is below the name `name`.
    pub(super) fn impostor(
        &self,
        stage: &Stage,
        (name, cluster): (&str, &str),
        (world, kubeconfig): (&World, &Path),
        shown: Vec<(&'static str, String)>,
    ) -> anyhow::Result<Process> {
        let server = format!("https://{}", world.grpc);
        let mut process = agent(&stage.programs.agent, cluster, &server, kubeconfig, self.path(&format!("{name}.log")));
        process = process.envs(shown);
        process = process.env("FLEETWRIGHT_AGENT_LEASE", format!("impostor-{name}"));
        process = process.env("FLEETWRIGHT_AGENT_NAMESPACE", AGENT.0);
        process.start()?;
        Ok(process)
    }
}

/// Waits until the server's log has a line with all of `words` so many times.
pub(super) async fn until_said(world: &World, words: &[&str], times: usize) -> anyhow::Result<()> {
    let look = || async {
        let said = world.server.times_said(words);
        Ok(if said >= times { Seen::Done(()) } else { Seen::NotYet(format!("{said} of {times} times")) })
    };
    until(&format!("the server says {words:?}"), PATIENCE, look).await
}

/// m5.large leaves 1930 millicores to pods, so every pod of 1500 millicores needs a machine of its own.
pub(super) async fn one_kind(world: &World) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    world.pool("default", requirements, json!({})).await?;
    world.cluster.deploy("web", 0, "1500m", "1Gi", json!({})).await
}

/// So many pods run on as many machines: server and agent understand each other.
pub(super) async fn until_served(world: &World, pods: u32) -> anyhow::Result<()> {
    world.cluster.scale("web", pods).await?;
    world.cluster.until_ready(i32::try_from(pods)?, PATIENCE).await?;
    world.until_book_and_cluster_agree(PATIENCE).await.map(drop)
}

/// Everything goes, machine by machine.
pub(super) async fn clear(world: &World) -> anyhow::Result<()> {
    world.cluster.scale("web", 0).await?;
    world.cluster.until_nodes(0, PATIENCE).await?;
    crate::scale::until_nothing_is_paid(world).await?;
    world.nothing_doubled().await
}

pub(super) fn secured(server: Vec<(&'static str, String)>, agent: Vec<(&'static str, String)>) -> Option<Secured> {
    Some(Secured { server, agent })
}

/// Seconds since 1970.
pub(super) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
