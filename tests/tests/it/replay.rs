//! `fleetwright history` and `fleetwright replay`: a server's decisions are replayed bit for bit
//! from its database or through any server, and changed data is detected. The second test is
//! skipped without PostgreSQL.

use std::time::{Duration, Instant};

use e2e::{ExitResult, Postgres, Program, RunningProcess, TempDir};
use serde_json::Value;

use crate::{PROGRAM, SIMULATOR, TIMEOUT, fleetwright, simulator};

#[test]
fn every_decision_of_a_demo_is_replayed_bit_for_bit() {
    let ended = simulator(&["demo", "--for", "60s", "--seed", "2", "--clusters", "2", "--replay"]);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    let line = ended.stdout.lines().find(|line| line.contains("0 different, 0 unreadable")).unwrap_or_default();
    let replayed = ended.stdout.lines().filter(|line| line.contains("input identical, plan identical")).count();
    assert!(line.contains(&format!("replayed {replayed} decisions: {replayed} identical")), "{}", ended.stdout);
    assert!(replayed >= 4, "two clusters with a script each decide more than once:\n{}", ended.stdout);
}

/// Decisions of `cluster` that a plan was made for, latest first.
fn planned(url: &str, cluster: &str) -> Vec<Value> {
    let ended = ask(url, &["history", "--cluster", cluster, "-o", "json"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let rows: Vec<Value> = serde_json::from_str(&ended.stdout).expect("history prints a list");
    rows.into_iter().filter(|row| row["nodes"].is_u64()).collect()
}

fn ask(url: &str, arguments: &[&str]) -> ExitResult {
    Program::new(PROGRAM, arguments).env("DATABASE_URL", url).run(TIMEOUT)
}

/// A server on this database, and its address.
fn serve(url: &str) -> (RunningProcess, String) {
    let listen = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--store-database-url", url];
    let server = Program::new(SIMULATOR, &listen).start();
    let [grpc, _dashboard] = server.wait_for_urls(TIMEOUT);
    (server, grpc)
}

/// Runs a server with one cluster until it has made enough decisions.
fn decide(url: &str, cluster: &str) {
    let (server, grpc) = serve(url);
    let script = ["simulated-agent", "--server", &grpc, "--cluster-name", cluster, "--seed", "1", "--log", "warn"];
    let agent = Program::new(SIMULATOR, &script).start();
    let end = Instant::now() + TIMEOUT;
    while planned(url, cluster).len() < 2 {
        assert!(Instant::now() < end, "waited for two plans; there are {:?}", planned(url, cluster));
        std::thread::park_timeout(Duration::from_millis(200));
    }
    drop(agent);
    assert_eq!(server.stop(TIMEOUT), 0);
}

/// A server that made no decision itself returns the decisions in the database.
fn a_server_returns_the_same_decisions(url: &str, cluster: &str, first: &str) {
    let (server, grpc) = serve(url);
    for question in [
        &["history", "--cluster", cluster, "-o", "json"][..],
        &["history", first, "-o", "json"],
        &["replay", first],
        &["replay", "--all", "--cluster", cluster],
    ] {
        let [here, there] = [ask(url, question), fleetwright(&[question, &["--server", &grpc]].concat())];
        assert_eq!((there.status, &there.stdout), (here.status, &here.stdout), "{question:?}: {}", there.stderr);
    }
    let unknown = fleetwright(&["replay", "12345", "--server", &grpc]);
    assert_eq!(unknown.status, 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("there is no decision 12345"), "{}", unknown.stderr);
    assert_eq!(server.stop(TIMEOUT), 0);
}

const POOL_OF_SPOT: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: extra}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default},
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}}}
";

#[test]
fn a_servers_decisions_are_replayed_from_its_database_and_a_change_there_is_found() {
    let test = "a_servers_decisions_are_replayed_from_its_database_and_a_change_there_is_found";
    let Some(postgres) = Postgres::start(test) else { return };
    let (url, cluster) = (&*postgres.url(), "shop".to_owned());
    decide(url, &cluster);
    let first = planned(url, &cluster).last().unwrap()["decision"].as_u64().unwrap().to_string();

    let one = ask(url, &["replay", &first]);
    assert_eq!(one.status, 0, "{}\n{}", one.stdout, one.stderr);
    let head = format!("replayed decision {first} of cluster {cluster}: input identical, plan identical (sha256");
    assert!(one.stdout.starts_with(&head), "{}", one.stdout);
    let all = ask(url, &["replay", "--all", "--cluster", &cluster]);
    assert_eq!(all.status, 0, "{}\n{}", all.stdout, all.stderr);
    assert!(all.stdout.contains("0 different, 0 unreadable"), "{}", all.stdout);
    let whole = ask(url, &["history", &first]);
    assert!(whole.stdout.contains("an hour; lower bound $"), "{}", whole.stdout);

    a_server_returns_the_same_decisions(url, &cluster, &first);

    let folder = TempDir::new();
    let file = folder.write_file("extra.yaml", POOL_OF_SPOT);
    let otherwise = ask(url, &["replay", &first, "--with-policy", &file, "-o", "json"]);
    assert_eq!(otherwise.status, 0, "{}", otherwise.stderr);
    let compared: Value = serde_json::from_str(&otherwise.stdout).unwrap();
    let dollars = |which: &str| compared[which]["costPerHour"].as_f64().unwrap();
    let table = ask(url, &["replay", &first, "--with-policy", &file]);
    assert!(table.stdout.contains("\nMACHINES (- then, + otherwise)\n"), "{}", table.stdout);
    let difference = compared["costPerHourDifference"].as_f64().unwrap();
    // Both are sums of whole micro-dollars: they agree to less than half of one.
    assert!((dollars("otherwise") - dollars("then") - difference).abs() < 5e-7, "{compared:#}");

    // One byte in the middle of the event that the first decision depends on.
    let changed = postgres.query(&format!(
        "UPDATE log_chunks SET bytes = set_byte(bytes, length(bytes) / 2, (get_byte(bytes, length(bytes) / 2) + 1) % 256)
         WHERE scope = 'cluster/{cluster}' AND segment = (SELECT segment FROM decisions WHERE number = {first})
           AND first_sequence = 1 RETURNING 1"
    ));
    assert_eq!(changed, "1", "one chunk holds the first event");
    let changed = ask(url, &["replay", &first]);
    assert_eq!(changed.status, 1, "{}\n{}", changed.stdout, changed.stderr);
    assert!(changed.stdout.contains("event 1 of segment"), "{}", changed.stdout);
    assert!(changed.stdout.contains("was changed after it was written"), "{}", changed.stdout);
}
