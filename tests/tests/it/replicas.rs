//! Two servers with the same settings on one PostgreSQL, and one cloud that outlives both: which of
//! them owns a cluster when one is killed, stopped, paused, or loses its agent. Launches are read
//! from the cloud's ledger, ownership from the database. Skipped without PostgreSQL.

mod clients;
mod collection;
mod completion;
mod environment;
mod fleet_api;
mod holds;
mod knowledge;
mod quotes;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use e2e::Signal;
use fleetwright_proto::simulation::v1;

use crate::fleetwright;
use crate::serve::get;
use environment::{Environment, fleet_of};

/// Lease duration longer than any test: a lease that changes its owner before then was released.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Lease duration short enough to wait for.
const SHORT: Duration = Duration::from_secs(6);

/// Prints a figure; no assertion depends on it.
pub(crate) fn figure(text: &str) {
    let _ = writeln!(std::io::stderr(), "figure: {text}");
}

/// A launch call that the cloud has received and not answered.
fn in_flight(ledger: &v1::ReadLedgerResponse) -> Option<v1::LaunchCall> {
    let open = |call: &&v1::LaunchCall| call.answered_us.is_none() && !call.instance.is_empty();
    ledger.launches.iter().find(open).cloned()
}

/// Kills the first server during a launch, and waits until the second has repeated the request.
/// Returns the environment and the launch.
fn kill_during_launch(test: &str, cloud: &[&str]) -> Option<(Environment, v1::LaunchCall)> {
    let environment = Environment::start(test, SHORT, cloud)?;
    environment.set_faults(v1::SetFaultProfileRequest {
        answer_ms: Some(v1::Span { least: 2_000, most: 2_000 }),
        ..v1::SetFaultProfileRequest::default()
    });
    let agent = environment.agent("shop");
    let call = environment.wait_until_ledger("a launch in progress", in_flight);
    environment.first.signal(Signal::Kill);
    environment.proxy.set_target(environment.second.grpc);
    let before = environment.lease("cluster/shop");
    // Every poll has a time by the database's clock, as leases do.
    let after = environment.wait_until_lease("cluster/shop", |lease| {
        if lease.now < before.expires {
            assert_eq!((&lease.owner, lease.epoch), (&before.owner, before.epoch), "it had not expired");
        }
        lease.epoch > before.epoch
    });
    assert_ne!(after.owner, before.owner, "two servers with one configuration have different names");
    figure(&format!("lease acquired at most {:.1} s after its expiry", after.now - before.expires));
    let again = |ledger: &v1::ReadLedgerResponse| {
        let of_claim =
            ledger.launches.iter().filter(|other| other.cluster == call.cluster && other.claim == call.claim);
        let mut again = of_claim.filter(|other| other.answered_us.is_some() && other.number > call.number);
        again.next_back().cloned()
    };
    let again = environment.wait_until_ledger("the repeated launch", again);
    assert_eq!(again.token, call.token, "a server without the outcome of an attempt repeats its request");
    drop(agent);
    Some((environment, again))
}

#[test]
fn a_killed_server_is_succeeded_when_its_lease_has_expired_and_its_launches_are_completed_once() {
    let test = "a_killed_server_is_succeeded_when_its_lease_has_expired_and_its_launches_are_completed_once";
    let Some((environment, again)) = kill_during_launch(test, &[]) else { return };
    assert_eq!(environment.double_launches(), Vec::<String>::new());
    let second = environment.second.lines();
    assert!(
        second.iter().any(|line| line.contains("shop") && line.contains("holds the cluster's lease")),
        "its first request was rejected"
    );
    assert!(!again.instance.is_empty(), "the same token gives the same instance");
}

#[test]
fn in_a_cloud_that_ignores_tokens_the_same_succession_launches_an_instance_twice() {
    let test = "in_a_cloud_that_ignores_tokens_the_same_succession_launches_an_instance_twice";
    let Some((environment, again)) = kill_during_launch(test, &["--ignore-tokens"]) else { return };
    assert!(
        environment.double_launches().contains(&format!("{}/{}", again.cluster, again.claim)),
        "{:?}",
        environment.double_launches()
    );
}

#[test]
fn a_server_that_is_stopped_hands_over_long_before_its_leases_would_have_expired() {
    let test = "a_server_that_is_stopped_hands_over_long_before_its_leases_would_have_expired";
    let Some(environment) = Environment::start(test, FOR_EVER, &[]) else { return };
    let clusters = ["shop", "bank", "mill"];
    let agents = clusters.map(|cluster| environment.agent(cluster));
    let before = clusters.map(|cluster| environment.wait_until_lease(&format!("cluster/{cluster}"), |_| true));
    environment.wait_until_fleet(&environment.first, "every cluster with its pods", |fleet| {
        clusters.iter().all(|name| fleet_of(fleet, name).is_some_and(|cluster| cluster["connected"] == true))
    });
    environment.proxy.set_target(environment.second.grpc);
    let asked = environment.database_now();
    environment.first.signal(Signal::Terminate);
    let region = environment.wait_until_lease("region/default/us-east-1", |lease| lease.epoch > 1);
    let mut last = asked;
    for (cluster, before) in clusters.iter().zip(&before) {
        let after = environment.wait_until_lease(&format!("cluster/{cluster}"), |lease| lease.epoch > before.epoch);
        assert_ne!(after.owner, before.owner);
        // A lease lasts for its whole duration from its acquisition.
        let taken = after.expires - FOR_EVER.as_secs_f64();
        assert!(taken < before.expires, "{taken} is after {}: it expired instead", before.expires);
        last = last.max(taken);
    }
    figure(&format!("{} clusters decided for by another server {:.2} s after SIGTERM", clusters.len(), last - asked));
    let region = region.expires - FOR_EVER.as_secs_f64() - asked;
    figure(&format!("the region's lease taken {region:.2} s after SIGTERM"));
    drop(agents);
}

#[test]
fn offerings_unavailable_to_one_server_are_not_requested_by_the_other() {
    let test = "offerings_unavailable_to_one_server_are_not_requested_by_the_other";
    let Some(environment) = Environment::start(test, FOR_EVER, &[]) else { return };
    environment
        .set_faults(v1::SetFaultProfileRequest { no_capacity: Some(true), ..v1::SetFaultProfileRequest::default() });
    let cluster = environment.agent("shop");
    environment.wait_until_fleet(&environment.first, "unavailable offerings", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["unavailableOfferingCount"].as_u64() > Some(0))
    });
    // A frozen fleet requests nothing, so the second server learned the offerings from the first.
    let second = format!("http://{}", environment.second.grpc);
    let frozen = fleetwright(&["freeze", "--server", &second, "--reason", "no launch is expected"]);
    assert_eq!(frozen.status, 0, "{}", frozen.stderr);
    environment.proxy.set_target(environment.second.grpc);
    let bank = environment.agent("bank");
    environment.wait_until_fleet(
        &environment.second,
        "the offerings that the first server found unavailable",
        |fleet| fleet_of(fleet, "bank").is_some_and(|bank| bank["unavailableOfferingCount"].as_u64() > Some(0)),
    );
    let asked = environment.ledger().launches.into_iter().filter(|call| call.cluster == "bank").count();
    assert_eq!(asked, 0);
    assert_ne!(environment.lease("cluster/shop").owner, environment.lease("cluster/bank").owner);
    drop((cluster, bank));
}

#[test]
fn a_paused_server_that_resumes_after_its_lease_was_acquired_by_another_makes_no_call() {
    let test = "a_paused_server_that_resumes_after_its_lease_was_acquired_by_another_makes_no_call";
    let Some(mut environment) = Environment::start(test, SHORT, &[]) else { return };
    // The cloud accepts one call in three seconds, so that a launch is always in progress.
    environment.set_faults(v1::SetFaultProfileRequest {
        allowance: Some(v1::Allowance { burst: 1, refill_ms: 3_000 }),
        ..v1::SetFaultProfileRequest::default()
    });
    let agent = environment.agent("shop");
    let throttled_call = |ledger: &v1::ReadLedgerResponse| {
        let last = ledger.launches.last()?;
        (last.instance.is_empty() && last.answered_us.is_some()).then(|| last.token.clone())
    };
    let pending = environment.wait_until_ledger("a throttled launch", throttled_call);
    environment.first.signal(Signal::Stop);
    let before = environment.lease("cluster/shop");
    let sent: BTreeSet<String> = environment.ledger().launches.into_iter().map(|call| call.token).collect();
    environment.proxy.set_target(environment.second.grpc);
    environment.proxy.drop_connections();
    environment.set_faults(v1::SetFaultProfileRequest {
        allowance: Some(v1::Allowance { burst: 1_000, refill_ms: 1 }),
        ..v1::SetFaultProfileRequest::default()
    });
    environment.wait_until_lease("cluster/shop", |lease| lease.epoch > before.epoch);
    let launched =
        |ledger: &v1::ReadLedgerResponse| ledger.entries.iter().any(|entry| entry.token == pending).then_some(());
    environment.wait_until_ledger("the successor's launch", launched);
    environment.wait_until_fleet(&environment.second, "no pending pods", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["pendingPodCount"] == 0 && cluster["connected"] == true)
    });

    let calls = environment.ledger().launches.len();
    environment.first.signal(Signal::Continue);
    let lost_lease = environment.first.wait_for_line(&["lost cluster lease", "shop"]);
    assert!(lost_lease.contains(&format!("epoch={}", before.epoch)), "{lost_lease}");
    let successor = environment.lease("cluster/shop").owner;
    environment.wait_until_fleet(&environment.first, "the cluster of the other server", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["replica"] == *successor)
    });
    let late: Vec<v1::LaunchCall> = environment.ledger().launches.split_off(calls);
    assert!(late.iter().all(|call| !sent.contains(&call.token)), "the resumed server continued its launches: {late:?}");
    assert_eq!(environment.double_launches(), Vec::<String>::new());
    let after = environment.lease("cluster/shop");
    assert_eq!((after.epoch > before.epoch, after.owner != before.owner), (true, true));
    assert!(environment.first.is_running() && get(&environment.first.http, "/readyz").starts_with("HTTP/1.1 200"));
    drop(agent);
}

#[test]
fn an_agent_with_a_stalled_connection_and_its_cluster_move_to_another_server_once() {
    let test = "an_agent_with_a_stalled_connection_and_its_cluster_move_to_another_server_once";
    // The lease is renewed every ten seconds; lease requests are handled at the same time.
    let Some(environment) = Environment::start(test, Duration::from_secs(30), &[]) else { return };
    let agent = environment.agent("shop");
    let before = environment.wait_until_lease("cluster/shop", |_| true);
    environment.wait_until_fleet(&environment.first, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["connected"] == true)
    });
    environment.proxy.set_target(environment.second.grpc);
    environment.proxy.stall_connections();
    let stalled_at = environment.database_now();
    let mut seen = Vec::new();
    let after = environment.wait_until_lease("cluster/shop", |lease| {
        seen.push((lease.epoch, lease.owner.clone()));
        lease.epoch > before.epoch
    });
    figure(&format!("the cluster of an agent with a stalled connection moved after {:.0} s", after.now - stalled_at));
    seen.dedup();
    // The lease moved once: from the owner that lost the agent to the server that the agent
    // reached.
    let once = [(before.epoch, before.owner.clone()), (before.epoch + 1, after.owner.clone())];
    assert_eq!(seen, once);
    assert_ne!(before.owner, after.owner);
    environment.wait_until_fleet(&environment.second, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["connected"] == true)
    });
    // Drops the stalled connections, so that no other connection is mistaken for that of the agent.
    environment.proxy.drop_connections();
    environment.wait_until_fleet(&environment.second, "a reconnected agent", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["connected"] == true)
    });
    let last = environment.lease("cluster/shop");
    assert_eq!(last.owner, after.owner, "the first server has not acquired the lease again");
    drop(agent);
}
