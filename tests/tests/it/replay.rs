//! `fleetwright history` and `fleetwright replay`: what a server has decided is made again from its database alone, bit for
//! bit, and what was changed there is found. Without a PostgreSQL on this machine the second test says so and proves nothing.

use std::io::Write as _;
use std::time::Instant;

use e2e::{Ended, Folder, Postgres, Program};
use serde_json::Value;

use crate::{PATIENCE, PROGRAM, fleetwright};

#[test]
fn every_decision_of_a_demo_is_replayed_bit_for_bit() {
    let ended = fleetwright(&["demo", "--for", "60s", "--seed", "2", "--clusters", "2", "--replay"]);
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
    let rows: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    rows.into_iter().filter(|row| row["nodes"].is_u64()).collect()
}

fn ask(url: &str, arguments: &[&str]) -> Ended {
    Program::new(PROGRAM, arguments).env("DATABASE_URL", url).run(PATIENCE)
}

/// A server decides for a cluster until it has decided often enough, and ends.
fn decide(url: &str, cluster: &str) {
    let listen = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--store-database-url", url];
    let server = Program::new(PROGRAM, &listen).start();
    let line = server.line_with(&["grpc://"], PATIENCE);
    let address = line.split("grpc://").nth(1).unwrap().split([';', ' ', '"']).next().unwrap();
    let grpc = format!("http://{address}");
    let script = ["simulated-agent", "--server", &grpc, "--cluster-name", cluster, "--seed", "1", "--log", "warn"];
    let agent = Program::new(PROGRAM, &script).start();
    let end = Instant::now() + PATIENCE;
    while planned(url, cluster).len() < 4 {
        assert!(Instant::now() < end, "waited for four plans; there are {:?}", planned(url, cluster));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    agent.stop(PATIENCE);
    assert_eq!(server.stop(PATIENCE), 0);
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
    let Some(postgres) = Postgres::find_or_start() else {
        // Written past the test harness, which shows what a passing test prints only when asked.
        let test = "a_servers_decisions_are_replayed_from_its_database_and_a_change_there_is_found";
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no PostgreSQL is installed and DATABASE_URL is not set");
        return;
    };
    let (url, cluster) = (postgres.url(), format!("replay-{}", std::process::id()));
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
    assert!(whole.stdout.contains("an hour; no plan costs less than $"), "{}", whole.stdout);

    let folder = Folder::new();
    let file = folder.file("extra.yaml", POOL_OF_SPOT);
    let otherwise = ask(url, &["replay", &first, "--with-policy", &file, "-o", "json"]);
    assert_eq!(otherwise.status, 0, "{}", otherwise.stderr);
    let compared: Value = serde_json::from_str(&otherwise.stdout).unwrap();
    let dollars = |which: &str| compared[which]["costPerHour"].as_f64().unwrap();
    let said = compared["costPerHourDifference"].as_f64().unwrap();
    // Both are sums of whole micro-dollars: they agree to less than half of one.
    assert!((dollars("otherwise") - dollars("then") - said).abs() < 5e-7, "{compared:#}");

    // One byte in the middle of the event that the first decision stands on.
    postgres.run(&format!(
        "UPDATE log_chunks SET bytes = set_byte(bytes, length(bytes) / 2, (get_byte(bytes, length(bytes) / 2) + 1) % 256)
         WHERE scope = 'cluster/{cluster}' AND segment = (SELECT segment FROM decisions WHERE number = {first})
           AND first_sequence = 1"
    ));
    let changed = ask(url, &["replay", &first]);
    assert_eq!(changed.status, 1, "{}\n{}", changed.stdout, changed.stderr);
    assert!(changed.stdout.contains("event 1 of segment"), "{}", changed.stdout);
    assert!(changed.stdout.contains("was changed after it was written"), "{}", changed.stdout);
}
