//! Lists that lack what is there, told by an agent one by one and, after the server was restarted, all at once; and another
//! cluster that takes the name of one. No machine goes that pods run on, and people see what is held and why.

mod played;

use e2e::{Postgres, Program, Running};
use serde_json::Value;

use crate::serve::get;
use crate::{PATIENCE, PROGRAM, fleetwright};
use played::{Kind, MACHINES, PODS, Played};

/// A server: the process, its gRPC address as a URL, its HTTP address.
struct Server {
    process: Running,
    grpc: String,
    http: String,
}

impl Server {
    fn start(database: &str) -> Self {
        let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let process = Program::new(PROGRAM, &arguments).env("FLEETWRIGHT_STORE_DATABASE_URL", database);
        let process = process.env("FLEETWRIGHT_LEASE_OWNER", "the-only-one").start();
        let line = process.line_with(&["grpc://", "http://"], PATIENCE);
        let address = |scheme: &str| {
            let rest = line.split(scheme).nth(1).expect("the address stands behind its scheme");
            rest.split([';', '/', ' ', '"']).next().expect("an address").to_owned()
        };
        Self { grpc: format!("http://{}", address("grpc://")), http: address("http://"), process }
    }

    fn cluster(&self) -> Value {
        let answer = get(&self.http, "/api/fleet");
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        // The body may come in chunks; the JSON is its one line that begins with a brace.
        let json = body.lines().find(|line| line.starts_with('{')).unwrap_or("{}");
        let fleet: Value = serde_json::from_str(json).unwrap_or_default();
        fleet["clusters"][0].clone()
    }

    /// Why the agent is not believed.
    fn held(&self) -> Option<String> {
        self.cluster()["rails"]["quarantine"].as_str().map(str::to_owned)
    }

    /// Whether everything is seen and believed.
    fn is_whole(&self) -> bool {
        let seen = self.cluster();
        let pods = (MACHINES * (PODS + 1)) as u64;
        seen["rails"]["quarantine"].is_null() && seen["nodes"] == MACHINES && seen["pods"].as_u64() == Some(pods)
    }
}

async fn until_whole(agent: &mut Played, server: &Server) {
    agent.until("the whole cluster, believed", |_| server.is_whole().then_some(())).await;
    assert_eq!(agent.removed, Vec::<String>::new());
}

/// Lists lack objects of these kinds, and then have them again.
async fn relist(agent: &mut Played, server: &Server, lacks: &[Kind], told: &str) {
    agent.relist(lacks).await;
    let why = agent.until("a quarantine", |_| server.held()).await;
    assert!(why.contains(told), "{lacks:?}: {why}");
    assert!(why.contains("fleetwright quarantine release shop"), "{why}");
    agent.relist(&[]).await;
    until_whole(agent, server).await;
}

#[test]
fn relists_that_lack_pods_nodes_claims_or_everything_cost_no_machine_before_and_after_a_restart() {
    let test = "relists_that_lack_pods_nodes_claims_or_everything_cost_no_machine_before_and_after_a_restart";
    let Some(postgres) = Postgres::start(test) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(&postgres.url());
        let mut agent = Played::new("shop", "uid-1");
        agent.connect(&server.grpc).await;
        until_whole(&mut agent, &server).await;
        relist(&mut agent, &server, &[Kind::Pods], "pods").await;
        relist(&mut agent, &server, &[Kind::Nodes], "nodes").await;
        relist(&mut agent, &server, &[Kind::Claims], "machines that run").await;
        relist(&mut agent, &server, &[Kind::Pools, Kind::Claims, Kind::Nodes, Kind::Pods], "machines that run").await;

        // A restart between: the new process has seen nothing, and the first snapshot has no pods.
        let kept = || postgres.ask("SELECT pods FROM observed_extents WHERE scope = 'cluster/shop'") == "30";
        agent.until("the extent, written down", |_| kept().then_some(())).await;
        assert_eq!(server.process.stop(PATIENCE), 0);
        agent.part();
        agent.forget(&[Kind::Pods]);
        let server = Server::start(&postgres.url());
        agent.connect(&server.grpc).await;
        let why = agent.until("a quarantine", |_| server.held()).await;
        assert!(why.contains("lacks 30 of 30 bound pods: nothing is decided until a person releases it"), "{why}");
        agent.relist(&[]).await;
        until_whole(&mut agent, &server).await;

        // What ends in good order is believed, and so nothing held these machines but what was told of them.
        agent.end_pods_on(0).await;
        agent.until("the drain of the one empty machine", |agent| agent.removed.first().cloned()).await;
        assert!(agent.removed.iter().all(|claim| claim == "m0"), "{:?}", agent.removed);
        assert_eq!(server.process.stop(PATIENCE), 0);
        let server = Server::start(&postgres.url());
        takes_the_name(&server, &mut agent).await;
        assert_eq!(server.process.stop(PATIENCE), 0);
    });
}

/// Another cluster has the same name, and comes first after a restart.
async fn takes_the_name(server: &Server, agent: &mut Played) {
    agent.part();
    let mut other = Played::new("shop", "uid-2");
    other.connect(&server.grpc).await;
    let refusal = other.until("a refusal", |other| other.refusal.clone()).await;
    let told = ["belongs to the cluster with UID uid-1", "fleetwright clusters accept-uid shop uid-2"];
    assert!(
        told.iter().all(|told| refusal.message().contains(told)),
        "{refusal}: {}",
        server.process.read_lines().join("\n")
    );
    let ended = fleetwright(&["clusters", "accept-uid", "shop", "uid-2", "--server", &server.grpc]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    other.connect(&server.grpc).await;
    until_whole(&mut other, server).await;
    let told = fleetwright(&["audit", "--server", &server.grpc, "-o", "json"]).stdout;
    let audit: Value = serde_json::from_str(&told).expect("the audit as JSON");
    assert_eq!((&audit[0]["what"], &audit[0]["scope"]), (&Value::from("accept-uid"), &Value::from("cluster/shop")));
    agent.connect(&server.grpc).await;
    let refusal = agent.until("a refusal of the former cluster", |agent| agent.refusal.clone()).await;
    assert!(refusal.message().contains("uid-2"), "{refusal}");
}
