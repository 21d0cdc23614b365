//! `fleetwright freeze`, `freezes`, `thaw` and `audit` against a running server with a cluster that
//! requests nodes.

use std::time::{Duration, Instant};

use e2e::{Program, RunningProcess, authority};
use serde_json::Value;

use crate::serve::{get, only_cluster};
use crate::{SIMULATOR, TIMEOUT, fleetwright};

/// Starts a server: the process, its gRPC address as a URL, its HTTP address.
fn server() -> (RunningProcess, String, String) {
    let server =
        Program::new(SIMULATOR, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    (server, grpc, authority(&dashboard).to_owned())
}

/// Waits until `matches` accepts the server's view of the cluster.
fn wait_for(http: &str, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        let seen = only_cluster(http);
        if matches(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "waited for {what}; the cluster is\n{seen:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn run(arguments: &[&str]) -> String {
    let ended = fleetwright(arguments);
    assert_eq!(ended.status, 0, "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn a_frozen_cluster_launches_nothing_until_it_is_thawed_and_both_are_audited() {
    let (server, grpc, http) = server();
    let output = run(&["freeze", "--server", &grpc, "--reason", "moving the network"]);
    assert_eq!(output, "frozen: fleet (freeze 1)\n");
    let agent = Program::new(
        SIMULATOR,
        &["simulated-agent", "--server", &grpc, "--cluster-name", "shop", "--seed", "1", "--log", "warn"],
    );
    let agent = agent.start();
    let has_decided =
        |seen: &Value| seen["pendingPodCount"].as_u64() > Some(0) && seen["guardrails"]["freezeReasons"][0].is_string();
    let seen = wait_for(&http, "pods that wait under the freeze", has_decided);
    assert!(seen["guardrails"]["freezeReasons"][0].as_str().unwrap().contains("moving the network"), "{seen:#}");
    // The decision that places no pod is made under the freeze.
    let refused = |page: &str| page.contains("is frozen by");
    wait_for(&http, "a decision that names the freeze", |_| {
        refused(&get(&http, "/v1/clusters/-/decisions?view=DECISION_VIEW_FULL"))
    });
    assert_eq!(only_cluster(&http)["machineCount"], 0);
    assert!(get(&http, "/metrics").contains("fleetwright_guardrails_freezes{cluster=\"shop\"} 1"));

    let rows: Value = serde_json::from_str(&run(&["freezes", "--server", &grpc, "-o", "json"])).unwrap();
    assert_eq!((&rows[0]["scope"], &rows[0]["untilMs"]), (&Value::from("fleet"), &Value::Null));
    assert!(run(&["freezes", "--server", &grpc]).contains("until thawed"));
    assert_eq!(run(&["thaw", "--server", &grpc]), "thawed: fleet (freeze 1)\n");
    wait_for(&http, "machines after the thaw", |seen| seen["machineCount"].as_u64() > Some(0));

    let audit: Value = serde_json::from_str(&run(&["audit", "--server", &grpc, "-o", "json"])).unwrap();
    let what = |row: usize| (audit[row]["what"].as_str().unwrap_or(""), audit[row]["scope"].as_str().unwrap_or(""));
    assert_eq!((what(0), what(1)), (("thaw", "fleet"), ("freeze", "fleet")));
    let who = audit[1]["who"].as_str().unwrap();
    assert!(who.contains('@') && who.ends_with(" (unverified, 127.0.0.1)"), "{audit:#}");
    assert_eq!(fleetwright(&["thaw", "--server", &grpc]).status, 1);
    // A freeze of a cluster that exists, and of one that does not.
    let freeze = |cluster: &str| fleetwright(&["freeze", "--server", &grpc, "--cluster", cluster, "--reason", "x"]);
    assert_eq!(freeze("shop").stdout, "frozen: cluster/shop (freeze 2)\n");
    let refused = freeze("shopp");
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("no cluster \"shopp\"; did you mean \"shop\"?"), "{}", refused.stderr);
    let _status = agent.stop(TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn a_freeze_of_disruption_lets_launches_go_on_and_is_listed_and_thawed_as_such() {
    let (server, grpc, http) = server();
    let output = run(&["freeze", "--server", &grpc, "--only", "disruption", "--reason", "keep the nodes"]);
    assert_eq!(output, "frozen: fleet, only disruption (freeze 1)\n");
    let agent = Program::new(
        SIMULATOR,
        &["simulated-agent", "--server", &grpc, "--cluster-name", "shop", "--seed", "1", "--log", "warn"],
    );
    let agent = agent.start();
    let launched = |seen: &Value| seen["machineCount"].as_u64() > Some(0);
    let seen = wait_for(&http, "machines under the freeze of disruption", launched);
    let sentence = seen["guardrails"]["freezeReasons"][0].as_str().unwrap_or_default();
    assert!(sentence.starts_with("voluntary disruption of the fleet is frozen by "), "{seen:#}");
    let rows: Value = serde_json::from_str(&run(&["freezes", "--server", &grpc, "-o", "json"])).unwrap();
    assert_eq!(rows[0]["onlyDisruption"], Value::Bool(true));
    assert_eq!(run(&["thaw", "--server", &grpc]), "thawed: fleet (freeze 1)\n");
    let _status = agent.stop(TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn invalid_freezes_are_rejected_with_a_remedy() {
    let (server, grpc, _http) = server();
    let ended = fleetwright(&["freeze", "--server", &grpc, "--reason", " "]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("a freeze needs a reason"), "{}", ended.stderr);
    let ended = fleetwright(&["quarantine", "release", "nowhere", "--server", &grpc]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("no replica has ever decided for a cluster \"nowhere\""), "{}", ended.stderr);
    let ended = fleetwright(&["freeze", "--server", &grpc, "--pool", "p", "--reason", "x"]);
    assert_eq!(ended.status, 2);
    assert_eq!(server.stop(TIMEOUT), 0);
    let ended = fleetwright(&["freezes", "--server", &grpc]);
    assert_eq!(ended.status, 3);
    assert!(ended.stderr.contains("cannot be reached"), "{}", ended.stderr);
}
