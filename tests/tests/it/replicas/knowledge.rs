//! What a replica knows of the others, from its start to their ends.

use std::time::Duration;

use e2e::Signal;

use super::environment::{Environment, fleet_of};
use crate::serve::{get, json};

const SHORT: Duration = Duration::from_secs(6);

#[test]
fn a_replica_that_has_just_started_knows_the_clusters_of_the_others_once_it_is_ready() {
    let test = "a_replica_that_has_just_started_knows_the_clusters_of_the_others_once_it_is_ready";
    let Some(environment) = Environment::start(test, SHORT, &[]) else { return };
    let agent = environment.agent("shop");
    environment.wait_until_fleet(&environment.first, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["connected"] == true && shop["nodeCount"].as_u64() > Some(0))
    });
    let third = environment.start_another();
    environment.wait_until("a replica that is ready", || get(&third.http, "/readyz").starts_with("HTTP/1.1 200"));
    // Asked once.
    let shop = json(&third.http, "/v1/clusters/shop");
    assert_eq!((&shop["stale"], &shop["connected"]), (&false.into(), &true.into()), "{shop:#}");
    assert!(shop["nodeCount"].as_u64() > Some(0), "{shop:#}");
    let problems = json(&third.http, "/v1/problems");
    assert!(!problems.to_string().contains("NoOwner"), "{problems:#}");
    drop(agent);
}

#[test]
fn a_killed_replica_is_the_first_problem_of_the_other_with_its_clusters_below() {
    let test = "a_killed_replica_is_the_first_problem_of_the_other_with_its_clusters_below";
    // The lease of the killed one outlasts the test, so that its cluster has no owner.
    let Some(environment) = Environment::start(test, Duration::from_secs(600), &[]) else { return };
    let agent = environment.agent("shop");
    environment.wait_until_fleet(&environment.second, "the cluster of the first server", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["connected"] == true)
    });
    environment.first.signal(Signal::Kill);
    let first = || json(&environment.second.http, "/v1/problems")["problems"][0].clone();
    environment.wait_until("the lost replica with its cluster", || {
        let problem = first();
        problem["code"] == "ReplicaUnreachable"
            && problem["severity"] == "SEVERITY_CRITICAL"
            && problem["effects"][0].as_str().is_some_and(|effect| effect == "no server decides (shop)")
    });
    assert!(first()["startTime"].is_string(), "{:#}", first());
    let metrics = get(&environment.second.http, "/metrics");
    assert!(metrics.contains("\nfleetwright_replicas_unreachable 1\n"), "{metrics}");
    assert!(get(&environment.second.http, "/readyz").starts_with("HTTP/1.1 200"), "the other one goes on");
    drop(agent);
}
