//! Two servers with the same settings on one PostgreSQL, and one cloud that outlives both: which of
//! them owns a cluster when one is killed, stopped, paused, or loses its agent. Launches are read
//! from the cloud's ledger, ownership from the database. Skipped without PostgreSQL.

mod collection;
mod environment;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use e2e::Signal;
use fleetwright_proto::simulation::v1;

use crate::fleetwright;
use crate::serve::get;
use environment::{Environment, fleet_of};

/// Longer than any test: a lease that changes its owner before then was released.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Short enough to wait for.
const SHORT: Duration = Duration::from_secs(6);

/// Prints a figure; no assertion depends on it.
fn figure(text: &str) {
    let _ = writeln!(std::io::stderr(), "figure: {text}");
}

/// A launch is on its way: the cloud has it, and the server has no answer.
fn in_flight(ledger: &v1::ReadLedgerResponse) -> Option<v1::LaunchCall> {
    let open = |call: &&v1::LaunchCall| call.answered_us.is_none() && !call.instance.is_empty();
    ledger.launches.iter().find(open).cloned()
}

/// Kills the first server during a launch, and waits until the second has repeated the request.
/// Returns the environment and the launch.
fn killed_while_buying(test: &str, cloud: &[&str]) -> Option<(Environment, v1::LaunchCall)> {
    let environment = Environment::start(test, SHORT, cloud)?;
    environment.set_faults(v1::SetFaultProfileRequest {
        answer_ms: Some(v1::Span { least: 2_000, most: 2_000 }),
        ..v1::SetFaultProfileRequest::default()
    });
    let agent = environment.agent("shop");
    let call = environment.wait_until_ledger("a launch on its way", in_flight);
    environment.first.signal(Signal::Kill);
    environment.proxy.set_target(environment.second.grpc);
    let before = environment.lease("cluster/shop");
    // Every look is dated by the database's clock, as leases are.
    let after = environment.wait_until_lease("cluster/shop", |lease| {
        if lease.now < before.expires {
            assert_eq!((&lease.owner, lease.epoch), (&before.owner, before.epoch), "it had not expired");
        }
        lease.epoch > before.epoch
    });
    assert_ne!(after.owner, before.owner, "two servers by one file have names of their own");
    figure(&format!("taken over at most {:.1} s after the lease had expired", after.now - before.expires));
    let again = |ledger: &v1::ReadLedgerResponse| {
        let of_claim =
            ledger.launches.iter().filter(|other| other.cluster == call.cluster && other.claim == call.claim);
        let mut again = of_claim.filter(|other| other.answered_us.is_some() && other.number > call.number);
        again.next_back().cloned()
    };
    let again = environment.wait_until_ledger("the launch asked for again", again);
    assert_eq!(again.token, call.token, "whoever does not know how an attempt ended repeats it");
    drop(agent);
    Some((environment, again))
}

#[test]
fn a_killed_server_is_succeeded_when_its_lease_has_expired_and_its_launches_are_completed_once() {
    let test = "a_killed_server_is_succeeded_when_its_lease_has_expired_and_its_launches_are_completed_once";
    let Some((environment, again)) = killed_while_buying(test, &[]) else { return };
    assert_eq!(environment.double_launches(), Vec::<String>::new());
    let second = environment.second.lines();
    assert!(
        second.iter().any(|line| line.contains("shop") && line.contains("holds the cluster's lease")),
        "it was refused first"
    );
    assert!(!again.instance.is_empty(), "the same token gives the same machine");
}

#[test]
fn in_a_cloud_that_ignores_tokens_the_same_succession_buys_a_machine_twice() {
    let test = "in_a_cloud_that_ignores_tokens_the_same_succession_buys_a_machine_twice";
    let Some((environment, again)) = killed_while_buying(test, &["--ignore-tokens"]) else { return };
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
fn what_the_cloud_refuses_one_server_the_other_does_not_ask_for() {
    let test = "what_the_cloud_refuses_one_server_the_other_does_not_ask_for";
    let Some(environment) = Environment::start(test, FOR_EVER, &[]) else { return };
    environment
        .set_faults(v1::SetFaultProfileRequest { no_capacity: Some(true), ..v1::SetFaultProfileRequest::default() });
    let cluster = environment.agent("shop");
    environment.wait_until_fleet(&environment.first, "offerings that are sold out", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["soldOut"].as_u64() > Some(0))
    });
    // A frozen fleet requests nothing, so the second server learned the offerings from the first.
    let second = format!("http://{}", environment.second.grpc);
    let frozen = fleetwright(&["freeze", "--server", &second, "--reason", "it is to ask for nothing"]);
    assert_eq!(frozen.status, 0, "{}", frozen.stderr);
    environment.proxy.set_target(environment.second.grpc);
    let bank = environment.agent("bank");
    environment.wait_until_fleet(&environment.second, "what the first server was refused", |fleet| {
        fleet_of(fleet, "bank").is_some_and(|bank| bank["soldOut"].as_u64() > Some(0))
    });
    let asked = environment.ledger().launches.into_iter().filter(|call| call.cluster == "bank").count();
    assert_eq!(asked, 0);
    assert_ne!(environment.lease("cluster/shop").owner, environment.lease("cluster/bank").owner);
    drop((cluster, bank));
}

#[test]
fn a_paused_server_that_wakes_up_after_its_succession_calls_nobody_and_steps_back() {
    let test = "a_paused_server_that_wakes_up_after_its_succession_calls_nobody_and_steps_back";
    let Some(mut environment) = Environment::start(test, SHORT, &[]) else { return };
    // The cloud accepts one call in three seconds, so that a launch is always in progress.
    environment.set_faults(v1::SetFaultProfileRequest {
        allowance: Some(v1::Allowance { burst: 1, refill_ms: 3_000 }),
        ..v1::SetFaultProfileRequest::default()
    });
    let agent = environment.agent("shop");
    let turned_away = |ledger: &v1::ReadLedgerResponse| {
        let last = ledger.launches.last()?;
        (last.instance.is_empty() && last.answered_us.is_some()).then(|| last.token.clone())
    };
    let pending = environment.wait_until_ledger("a launch that is to be sent again", turned_away);
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
    let sold = |ledger: &v1::ReadLedgerResponse| ledger.sales.iter().any(|sale| sale.token == pending).then_some(());
    environment.wait_until_ledger("the successor's launch", sold);
    environment.wait_until_fleet(&environment.second, "every pod on a machine", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["pending"] == 0 && cluster["connected"] == true)
    });

    let calls = environment.ledger().launches.len();
    environment.first.signal(Signal::Continue);
    let stepped_back = environment.first.wait_for_line(&["lost cluster lease", "shop"]);
    assert!(stepped_back.contains(&format!("epoch={}", before.epoch)), "{stepped_back}");
    environment.wait_until_fleet(&environment.first, "nothing that the woken server decides for", |fleet| {
        fleet_of(fleet, "shop").is_none()
    });
    let late: Vec<v1::LaunchCall> = environment.ledger().launches.split_off(calls);
    assert!(
        late.iter().all(|call| !sent.contains(&call.token)),
        "the woken server went on with its launches: {late:?}"
    );
    assert_eq!(environment.double_launches(), Vec::<String>::new());
    let after = environment.lease("cluster/shop");
    assert_eq!((after.epoch > before.epoch, after.owner != before.owner), (true, true));
    assert!(environment.first.is_running() && get(&environment.first.http, "/readyz").starts_with("HTTP/1.1 200"));
    drop(agent);
}

#[test]
fn an_agent_whose_wire_hangs_goes_to_another_server_once_and_its_cluster_with_it() {
    let test = "an_agent_whose_wire_hangs_goes_to_another_server_once_and_its_cluster_with_it";
    // Renewed every ten seconds, when lease requests are handled as well.
    let Some(environment) = Environment::start(test, Duration::from_secs(30), &[]) else { return };
    let agent = environment.agent("shop");
    let before = environment.wait_until_lease("cluster/shop", |_| true);
    environment.wait_until_fleet(&environment.first, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["connected"] == true)
    });
    environment.proxy.set_target(environment.second.grpc);
    environment.proxy.stall_connections();
    let hung = environment.database_now();
    let mut seen = Vec::new();
    let after = environment.wait_until_lease("cluster/shop", |lease| {
        seen.push((lease.epoch, lease.owner.clone()));
        lease.epoch > before.epoch
    });
    figure(&format!("an agent whose wire hung was decided for elsewhere after {:.0} s", after.now - hung));
    seen.dedup();
    // The lease moved once: from the owner that lost the agent to the server that the agent
    // reached.
    let once = [(before.epoch, before.owner.clone()), (before.epoch + 1, after.owner.clone())];
    assert_eq!(seen, once);
    assert_ne!(before.owner, after.owner);
    environment.wait_until_fleet(&environment.second, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["connected"] == true)
    });
    // Drops the stalled connections, so that nothing is taken for the agent.
    environment.proxy.drop_connections();
    environment.wait_until_fleet(&environment.second, "an agent that is back", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["connected"] == true)
    });
    let last = environment.lease("cluster/shop");
    assert_eq!(last.owner, after.owner, "the first server has taken nothing back");
    drop(agent);
}
