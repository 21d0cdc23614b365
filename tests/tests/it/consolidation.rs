//! Consolidation with the real programs: a Node whose pod fits on another one is removed, its decision replays bit
//! for bit, and the server answers why a Node is there and why another one went.

mod fake_cluster;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::Target;
use e2e::{ExitResult, Program, RunningProcess, TempDir};
use fleetwright_rpc::simulation::v1::simulated_cloud_service_client::SimulatedCloudServiceClient;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::removals::{Server, UID, launch_instance};
use crate::{SIMULATOR, TIMEOUT, fleetwright};
use fake_cluster::{CLUSTER, FakeCluster};

/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A simulated cloud, a server, and an agent of the fake cluster.
struct Environment {
    server: Server,
    cluster: Arc<FakeCluster>,
    _runtime: Runtime,
    _cloud: RunningProcess,
    _folder: TempDir,
}

impl Environment {
    fn start(disruption: Value) -> Self {
        let flags = ["simulated-cloud", "--until-input-ends", "--boot", "50ms", "--seed", "1"];
        let cloud = Program::new(SIMULATOR, &flags).start_with_stdout();
        let address = cloud.next_stdout_line(TIMEOUT);
        let runtime = Runtime::new().expect("a runtime");
        let channel = {
            let _inside = runtime.enter();
            Channel::from_shared(address.clone()).expect("the cloud logs its address").connect_lazy()
        };
        let client = SimulatedCloudServiceClient::new(channel);
        let instances = (0..2).map(|n| launch_instance(&runtime, client.clone(), n, UID)).collect();
        let folder = TempDir::new();
        let settings = folder.write_file("fleetwright.toml", SETTINGS);
        let server = Server::start(&settings, &address);
        let cluster = FakeCluster::new(instances, disruption);
        let target = Target {
            server: server.grpc(),
            credentials: agent::config::Credentials::default(),
            cluster_name: CLUSTER.to_owned(),
            region: "us-east-1".to_owned(),
            karpenter_absent: false,
            seed: 1,
        };
        runtime.spawn(agent::run(Arc::clone(&cluster), target, std::future::pending()));
        Self { server, cluster, _runtime: runtime, _cloud: cloud, _folder: folder }
    }

    /// Runs a command against the server.
    fn ask(&self, arguments: &[&str]) -> ExitResult {
        fleetwright(&[arguments, &["--server", &self.server.grpc()]].concat())
    }

    /// Repeats a command until `matches` accepts its result.
    fn ask_until(&self, arguments: &[&str], matches: impl Fn(&ExitResult) -> bool) -> ExitResult {
        let end = Instant::now() + TIMEOUT;
        loop {
            let ended = self.ask(arguments);
            if matches(&ended) {
                return ended;
            }
            let (out, err, status) = (&ended.stdout, &ended.stderr, ended.status);
            assert!(Instant::now() < end, "waited for {arguments:?}; status {status}\n{out}\n{err}\n{}", self.logged());
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// What the server says of a node, once `matches` accepts it.
    fn why_until(&self, node: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let read = |ended: &ExitResult| serde_json::from_str::<Value>(&ended.stdout).unwrap_or_default();
        let question = ["why", "node", node, "--cluster", CLUSTER, "-o", "json"];
        read(&self.ask_until(&question, |ended| ended.status == 0 && matches(&read(ended))))
    }

    fn logged(&self) -> String {
        self.server.logged()
    }

    /// Waits until one machine has gone; returns its number and that of the one that stays.
    fn wait_until_one_left(&self) -> (usize, usize) {
        let end = Instant::now() + TIMEOUT;
        while self.cluster.machines().len() > 1 {
            assert!(Instant::now() < end, "waited for a removal\n{}", self.logged());
            std::thread::park_timeout(POLL_INTERVAL);
        }
        let stays = self.cluster.machines()[0];
        (1 - stays, stays)
    }
}

/// A short batch window, and plans of disruption every second.
const SETTINGS: &str = r#"
[listen]
grpc = "127.0.0.1:0"
http = "127.0.0.1:0"
[control]
batch-idle = "100ms"
batch-max = "500ms"
[store]
memory = true
[disruption]
interval = "1s"
"#;

fn consolidated() -> Value {
    json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "1"}]})
}

/// The decisions of the cluster, latest first.
fn decisions(environment: &Environment) -> Vec<Value> {
    let ended = environment.ask(&["history", "-o", "json"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("history prints a list")
}

#[test]
fn a_decision_by_consolidation_is_replayed_bit_for_bit_and_under_other_settings() {
    let environment = Environment::start(consolidated());
    environment.wait_until_one_left();
    let planned: Vec<Value> = decisions(&environment)
        .into_iter()
        .filter(|row| row["kind"] == "consolidation" && row["nodes"].is_u64())
        .collect();
    assert_eq!(planned.len(), 1, "{planned:#?}");
    let number = planned[0]["decision"].as_u64().expect("a number");

    let number = number.to_string();
    let plan = environment.ask(&["replay", &number]);
    assert_eq!(plan.status, 0, "{}\n{}", plan.stdout, plan.stderr);
    let head = format!("replayed decision {number} of cluster {CLUSTER}: input identical, plan identical (sha256");
    assert!(plan.stdout.starts_with(&head), "{}", plan.stdout);
    // The last decision removes the machine once its pod has another node, without a plan.
    let last = environment.ask(&["replay", "last"]);
    assert_eq!(last.status, 0, "{}\n{}", last.stdout, last.stderr);
    assert!(!last.stdout.starts_with(&head) && last.stdout.contains("plan identical"), "{}", last.stdout);
    let all = environment.ask(&["replay", "--all"]);
    assert_eq!(all.status, 0, "{}\n{}", all.stdout, all.stderr);
    assert!(all.stdout.contains("2 identical, 0 different, 0 unreadable"), "{}", all.stdout);

    // The machine costs less than a dollar an hour, so that nothing saves more.
    let folder = TempDir::new();
    let dear = folder.write_file("dear.toml", "[disruption]\nmin-savings-usd-per-hour = 1.0\n");
    let otherwise = environment.ask(&["replay", &number, "--with-policy", &dear, "-o", "json"]);
    assert_eq!(otherwise.status, 0, "{}", otherwise.stderr);
    let compared: Value = serde_json::from_str(&otherwise.stdout).expect("one comparison");
    assert_eq!((&compared["then"]["nodesRemoved"], &compared["otherwise"]["nodesRemoved"]), (&json!(1), &json!(0)));
    let table = environment.ask(&["replay", &number, "--with-policy", &dear]);
    assert!(table.stdout.contains("- Underutilized: n-"), "{}", table.stdout);

    // A removal reads the settings of its NodePool, and no prices.
    let refused = environment.ask(&["replay", "last", "--with-policy", &dear]);
    assert_ne!(refused.status, 0, "{}", refused.stdout);
    assert!(refused.stderr.contains("removes machines without a plan"), "{}", refused.stderr);
    let closed = folder.write_file(
        "closed.yaml",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec: {disruption: {consolidateAfter: 0s, \
         budgets: [{nodes: '0'}]}, template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, \
         requirements: []}}}\n",
    );
    let otherwise = environment.ask(&["replay", "last", "--with-policy", &closed, "-o", "json"]);
    assert_eq!(otherwise.status, 0, "{}", otherwise.stderr);
    let compared: Value = serde_json::from_str(&otherwise.stdout).expect("one comparison");
    assert_eq!((&compared["then"]["selected"], &compared["otherwise"]["selected"]), (&json!(1), &json!(0)));
}

/// The holds of a node against its removal as underutilized, as `code object`.
fn held_by(report: &Value) -> Vec<String> {
    let reasons = report["present"]["reasons"].as_array().cloned().unwrap_or_default();
    let holds = reasons.iter().filter(|reason| reason["reason"] == "Underutilized");
    let holds = holds.flat_map(|reason| reason["heldBy"].as_array().cloned().unwrap_or_default());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    holds.map(|hold| format!("{} {}", text(&hold["code"]), text(&hold["object"]))).collect()
}

fn is_held_by(hold: &str) -> impl Fn(&Value) -> bool {
    move |report| held_by(report).iter().any(|held| held == hold)
}

#[test]
fn the_server_says_what_holds_a_node() {
    let when_empty = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"});
    let environment = Environment::start(when_empty);
    let report = environment.why_until("n-0", is_held_by("Policy NodePool/default"));
    assert_eq!(
        (&report["state"], &report["nodeClaim"], &report["pool"]),
        (&json!("stays"), &json!("m0"), &json!("default"))
    );
    assert_eq!(held_by(&report), ["Policy NodePool/default"], "{report:#}");
    let by_claim = environment.why_until("m0", |report| report["state"] == "stays");
    assert_eq!(by_claim["node"], "n-0");

    let frozen = environment.ask(&["freeze", "--only", "disruption", "--cluster", CLUSTER, "--reason", "a bad day"]);
    assert_eq!(frozen.status, 0, "{}", frozen.stderr);
    environment.why_until("n-0", is_held_by("Frozen Freeze/1"));
    environment.cluster.set_disruption(json!({"consolidateAfter": "1h", "budgets": [{"nodes": "0"}]}));
    let report = environment.why_until("n-0", is_held_by("Budget NodePool/default"));
    assert_eq!(held_by(&report), ["Frozen Freeze/1", "Budget NodePool/default"], "the last pod event was in 1970");
    let table = environment.ask(&["why", "node", "n-0", "--cluster", CLUSTER]);
    assert!(table.stdout.contains("fleetwright thaw") && table.stdout.contains("a bad day"), "{}", table.stdout);

    let cluster = environment.ask(&["why", "node", "n-0", "--cluster", "shopp"]);
    assert_eq!(cluster.status, 2, "{}", cluster.stderr);
    assert!(cluster.stderr.contains("there is no cluster \"shopp\"; did you mean \"shop\"?"), "{}", cluster.stderr);
    let node = environment.ask(&["why", "node", "n0", "--cluster", CLUSTER]);
    assert_eq!(node.status, 2, "{}", node.stderr);
    assert!(
        node.stderr.contains("there is no node \"n0\"") && node.stderr.contains("did you mean \"n-0\"?"),
        "{}",
        node.stderr
    );
}

#[test]
fn the_server_says_why_a_node_went_and_what_the_other_one_is_kept_by() {
    let environment = Environment::start(consolidated());
    let (gone, stays) = environment.wait_until_one_left();
    let name = format!("n-{gone}");
    let report = environment.why_until(&name, |report| report["state"] == "gone");
    let departure = &report["departure"];
    assert_eq!(
        (&departure["removedBy"], &departure["decision"]["method"]),
        (&json!("Fleetwright"), &json!("consolidation"))
    );
    let plan = &departure["plan"];
    assert_eq!(
        (&plan["nodes"], &plan["launched"], &plan["movedPods"]),
        (&json!([name]), &json!(0), &json!(1)),
        "{report:#}"
    );
    assert!(plan["savingsUsdPerHour"].as_f64().is_some_and(|saved| saved > 0.0), "{report:#}");
    let command = plan["replay"].as_str().expect("a command").strip_prefix("fleetwright ").expect("the program");
    let replayed = environment.ask(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(replayed.status, 0, "{}\n{}", replayed.stdout, replayed.stderr);
    let table = environment.ask(&["why", "node", &name, "--cluster", CLUSTER]);
    assert!(table.stdout.contains("replay") && table.stdout.contains("moves 1 pod and saves $"), "{}", table.stdout);

    // The next plan finds that no other node has room and no machine is cheaper; the last one held the node by its budget.
    let other = format!("n-{stays}");
    let kept = environment.why_until(&other, |report| {
        held_by(report).iter().any(|held| ["NoSavings ", "NotPlanned "].iter().any(|code| held.starts_with(code)))
    });
    assert_eq!(kept["state"], "stays");

    environment.cluster.remove_by_hand(stays);
    let report = environment.why_until(&other, |report| report["state"] == "gone");
    assert_eq!(report["departure"]["removedBy"], "something else than Fleetwright", "{report:#}");
}
