//! Relists that lack objects: sent by an agent as removals and, after a restart of the server, as a
//! snapshot; and a second cluster with the same name. No instance with running pods is removed, and
//! the reason of the quarantine is shown.

pub(crate) mod fake_agent;

use e2e::{Postgres, Program, RunningProcess, authority};
use serde_json::Value;

use crate::serve::only_cluster;
use crate::{SIMULATOR, TIMEOUT, fleetwright};
use fake_agent::{FakeAgent, Kind, MACHINES, PODS};

/// A server: the process, its gRPC address as a URL, its HTTP address.
struct Server {
    process: RunningProcess,
    grpc: String,
    http: String,
}

impl Server {
    fn start(database: &str) -> Self {
        let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let process = Program::new(SIMULATOR, &arguments).env("FLEETWRIGHT_STORE_DATABASE_URL", database);
        let process = process.env("FLEETWRIGHT_LEASE_OWNER", "the-only-one").start();
        let [grpc, dashboard] = process.wait_for_urls(TIMEOUT);
        Self { grpc, http: authority(&dashboard).to_owned(), process }
    }

    fn cluster(&self) -> Value {
        only_cluster(&self.http)
    }

    /// The reason of the cluster's quarantine; `None` without one.
    fn quarantine_reason(&self) -> Option<String> {
        self.cluster()["guardrails"]["quarantineReason"].as_str().filter(|why| !why.is_empty()).map(str::to_owned)
    }

    /// Whether the server has accepted the complete snapshot.
    fn has_full_snapshot(&self) -> bool {
        let records = self.cluster();
        let pods = (MACHINES * (PODS + 1)) as u64;
        records["guardrails"]["quarantineReason"] == ""
            && records["nodeCount"] == MACHINES
            && records["podCount"].as_u64() == Some(pods)
    }
}

async fn wait_until_synced(agent: &mut FakeAgent, server: &Server) {
    agent.wait_until("the whole cluster, believed", |_| server.has_full_snapshot().then_some(())).await;
    assert_eq!(agent.removed, Vec::<String>::new());
}

/// Hides objects of these kinds in a relist, and then shows them again.
async fn relist(agent: &mut FakeAgent, server: &Server, hidden: &[Kind], output: &str) {
    agent.relist(hidden).await;
    let why = agent.wait_until("a quarantine", |_| server.quarantine_reason()).await;
    assert!(why.contains(output), "{hidden:?}: {why}");
    assert!(why.contains("fleetwright quarantine release shop"), "{why}");
    agent.relist(&[]).await;
    wait_until_synced(agent, server).await;
}

#[test]
fn relists_that_lack_pods_nodes_claims_or_everything_remove_no_instance_before_and_after_a_restart() {
    let test = "relists_that_lack_pods_nodes_claims_or_everything_remove_no_instance_before_and_after_a_restart";
    let Some(postgres) = Postgres::start(test) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(&postgres.url());
        let mut agent = FakeAgent::new("shop", "uid-1");
        agent.connect(&server.grpc).await;
        wait_until_synced(&mut agent, &server).await;
        relist(&mut agent, &server, &[Kind::Pods], "pods").await;
        relist(&mut agent, &server, &[Kind::Nodes], "nodes").await;
        relist(&mut agent, &server, &[Kind::Claims], "machines that run").await;
        relist(&mut agent, &server, &[Kind::Pools, Kind::Claims, Kind::Nodes, Kind::Pods], "machines that run").await;

        // After a restart the new process has no state, and the first snapshot lacks the pods.
        let kept = || postgres.query("SELECT pods FROM observed_extents WHERE scope = 'cluster/shop'") == "30";
        agent.wait_until("the extent, written down", |_| kept().then_some(())).await;
        assert_eq!(server.process.stop(TIMEOUT), 0);
        agent.disconnect();
        agent.hide_objects(&[Kind::Pods]);
        let server = Server::start(&postgres.url());
        agent.connect(&server.grpc).await;
        let why = agent.wait_until("a quarantine", |_| server.quarantine_reason()).await;
        assert!(
            why.contains("lacks 30 of 30 bound pods: no decisions are made until an operator releases it"),
            "{why}"
        );
        agent.relist(&[]).await;
        wait_until_synced(&mut agent, &server).await;

        // Ordinary terminations are accepted, so only the snapshots caused the quarantine.
        agent.end_pods_on(0).await;
        agent.wait_until("the drain of the one empty machine", |agent| agent.removed.first().cloned()).await;
        assert!(agent.removed.iter().all(|claim| claim == "m0"), "{:?}", agent.removed);
        assert_eq!(server.process.stop(TIMEOUT), 0);
        let server = Server::start(&postgres.url());
        second_cluster_takes_the_name(&server, &mut agent).await;
        assert_eq!(server.process.stop(TIMEOUT), 0);
    });
}

/// Another cluster with the same name connects first after a restart.
async fn second_cluster_takes_the_name(server: &Server, agent: &mut FakeAgent) {
    agent.disconnect();
    let mut other = FakeAgent::new("shop", "uid-2");
    other.connect(&server.grpc).await;
    let rejection = other.wait_until("a rejection", |other| other.rejection.clone()).await;
    let output = ["belongs to the cluster with UID uid-1", "fleetwright clusters accept-uid shop uid-2"];
    assert!(
        output.iter().all(|output| rejection.message().contains(output)),
        "{rejection}: {}",
        server.process.take_stderr_lines().join("\n")
    );
    let ended = fleetwright(&["clusters", "accept-uid", "shop", "uid-2", "--server", &server.grpc]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    other.connect(&server.grpc).await;
    wait_until_synced(&mut other, server).await;
    let output = fleetwright(&["audit", "--server", &server.grpc, "-o", "json"]).stdout;
    let audit: Value = serde_json::from_str(&output).expect("the audit as JSON");
    assert_eq!((&audit[0]["what"], &audit[0]["scope"]), (&Value::from("accept-uid"), &Value::from("cluster/shop")));
    agent.connect(&server.grpc).await;
    let rejection = agent.wait_until("a rejection of the former cluster", |agent| agent.rejection.clone()).await;
    assert!(rejection.message().contains("uid-2"), "{rejection}");
}
