//! Two servers by the same settings on one PostgreSQL, and one cloud that outlives both: who decides when one of them is
//! killed, stopped, paused, or loses sight of an agent. What was bought is read in the cloud's own book, who decides in the
//! database. Without a PostgreSQL on this machine these tests say so and prove nothing.

mod collection;
mod world;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use e2e::Signal;
use fleetwright_proto::simulation::v1;

use crate::fleetwright;
use crate::serve::get;
use world::{World, fleet_of};

/// Long enough that nothing here takes so long: a lease that changes hands before was given back.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Short enough to wait for.
const SHORT: Duration = Duration::from_secs(6);

/// A figure for whoever reads the test's output; no test depends on it.
fn figure(text: &str) {
    let _ = writeln!(std::io::stderr(), "figure: {text}");
}

/// A launch is on its way: the cloud has it, and the server has no answer.
fn in_flight(book: &v1::BookResponse) -> Option<v1::LaunchCall> {
    let open = |call: &&v1::LaunchCall| call.answered_us.is_none() && !call.instance.is_empty();
    book.launches.iter().find(open).cloned()
}

/// Kills the first server while a launch is on its way, and waits until the second has asked for that launch again. Answers
/// the world and the launch.
fn killed_while_buying(test: &str, cloud: &[&str]) -> Option<(World, v1::LaunchCall)> {
    let world = World::start(test, SHORT, cloud)?;
    world.weather(v1::WeatherRequest {
        answer_ms: Some(v1::Span { least: 2_000, most: 2_000 }),
        ..v1::WeatherRequest::default()
    });
    let agent = world.agent("shop");
    let call = world.until_book("a launch on its way", in_flight);
    world.first.signal(Signal::Kill);
    world.board.lead_to(world.second.grpc);
    let before = world.lease("cluster/shop");
    // Every look is dated by the database's clock, as leases are.
    let after = world.until_lease("cluster/shop", |lease| {
        if lease.now < before.expires {
            assert_eq!((&lease.owner, lease.epoch), (&before.owner, before.epoch), "it had not expired");
        }
        lease.epoch > before.epoch
    });
    assert_ne!(after.owner, before.owner, "two servers by one file have names of their own");
    figure(&format!("taken over at most {:.1} s after the lease had expired", after.now - before.expires));
    let again = |book: &v1::BookResponse| {
        let of_claim = book.launches.iter().filter(|other| other.cluster == call.cluster && other.claim == call.claim);
        let mut again = of_claim.filter(|other| other.answered_us.is_some() && other.number > call.number);
        again.next_back().cloned()
    };
    let again = world.until_book("the launch asked for again", again);
    assert_eq!(again.token, call.token, "whoever does not know how an attempt ended repeats it");
    drop(agent);
    Some((world, again))
}

#[test]
fn a_killed_server_is_succeeded_when_its_lease_has_expired_and_its_launches_are_completed_once() {
    let test = "a_killed_server_is_succeeded_when_its_lease_has_expired_and_its_launches_are_completed_once";
    let Some((world, again)) = killed_while_buying(test, &[]) else { return };
    assert_eq!(world.doubles(), Vec::<String>::new());
    let second = world.second.lines();
    assert!(second.iter().any(|line| line.contains("shop") && line.contains("decides for it")), "it was refused first");
    assert!(!again.instance.is_empty(), "the same token gives the same machine");
}

#[test]
fn in_a_cloud_that_ignores_tokens_the_same_succession_buys_a_machine_twice() {
    let test = "in_a_cloud_that_ignores_tokens_the_same_succession_buys_a_machine_twice";
    let Some((world, again)) = killed_while_buying(test, &["--ignore-tokens"]) else { return };
    assert!(world.doubles().contains(&format!("{}/{}", again.cluster, again.claim)), "{:?}", world.doubles());
}

#[test]
fn a_server_that_is_stopped_hands_over_long_before_its_leases_would_have_expired() {
    let test = "a_server_that_is_stopped_hands_over_long_before_its_leases_would_have_expired";
    let Some(world) = World::start(test, FOR_EVER, &[]) else { return };
    let clusters = ["shop", "bank", "mill"];
    let agents = clusters.map(|cluster| world.agent(cluster));
    let before = clusters.map(|cluster| world.until_lease(&format!("cluster/{cluster}"), |_| true));
    world.until_fleet(&world.first, "every cluster with its pods", |fleet| {
        clusters.iter().all(|name| fleet_of(fleet, name).is_some_and(|cluster| cluster["connected"] == true))
    });
    world.board.lead_to(world.second.grpc);
    let asked = world.database_now();
    world.first.signal(Signal::Terminate);
    let region = world.until_lease("region/default/us-east-1", |lease| lease.epoch > 1);
    let mut last = asked;
    for (cluster, before) in clusters.iter().zip(&before) {
        let after = world.until_lease(&format!("cluster/{cluster}"), |lease| lease.epoch > before.epoch);
        assert_ne!(after.owner, before.owner);
        // A lease runs for its whole duration from the moment that it was taken.
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
    let Some(world) = World::start(test, FOR_EVER, &[]) else { return };
    world.weather(v1::WeatherRequest { no_capacity: Some(true), ..v1::WeatherRequest::default() });
    let shop = world.agent("shop");
    world.until_fleet(&world.first, "offerings that are sold out", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["soldOut"].as_u64() > Some(0))
    });
    // A frozen fleet asks for nothing, so what the other server knows of offerings it has from the first.
    let second = format!("http://{}", world.second.grpc);
    let frozen = fleetwright(&["freeze", "--server", &second, "--reason", "it is to ask for nothing"]);
    assert_eq!(frozen.status, 0, "{}", frozen.stderr);
    world.board.lead_to(world.second.grpc);
    let bank = world.agent("bank");
    world.until_fleet(&world.second, "what the first server was refused", |fleet| {
        fleet_of(fleet, "bank").is_some_and(|bank| bank["soldOut"].as_u64() > Some(0))
    });
    let asked = world.book().launches.into_iter().filter(|call| call.cluster == "bank").count();
    assert_eq!(asked, 0);
    assert_ne!(world.lease("cluster/shop").owner, world.lease("cluster/bank").owner);
    drop((shop, bank));
}

#[test]
fn a_paused_server_that_wakes_up_after_its_succession_calls_nobody_and_steps_back() {
    let test = "a_paused_server_that_wakes_up_after_its_succession_calls_nobody_and_steps_back";
    let Some(mut world) = World::start(test, SHORT, &[]) else { return };
    // The cloud takes one call in three seconds, so that there is always a launch to be sent again.
    world.weather(v1::WeatherRequest {
        allowance: Some(v1::Allowance { burst: 1, refill_ms: 3_000 }),
        ..v1::WeatherRequest::default()
    });
    let agent = world.agent("shop");
    let turned_away = |book: &v1::BookResponse| {
        let last = book.launches.last()?;
        (last.instance.is_empty() && last.answered_us.is_some()).then(|| last.token.clone())
    };
    let pending = world.until_book("a launch that is to be sent again", turned_away);
    world.first.signal(Signal::Stop);
    let before = world.lease("cluster/shop");
    let sent: BTreeSet<String> = world.book().launches.into_iter().map(|call| call.token).collect();
    world.board.lead_to(world.second.grpc);
    world.board.cut();
    world.weather(v1::WeatherRequest {
        allowance: Some(v1::Allowance { burst: 1_000, refill_ms: 1 }),
        ..v1::WeatherRequest::default()
    });
    world.until_lease("cluster/shop", |lease| lease.epoch > before.epoch);
    let sold = |book: &v1::BookResponse| book.sales.iter().any(|sale| sale.token == pending).then_some(());
    world.until_book("the successor's launch", sold);
    world.until_fleet(&world.second, "every pod on a machine", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["pending"] == 0 && shop["connected"] == true)
    });

    let calls = world.book().launches.len();
    world.first.signal(Signal::Continue);
    let stepped_back = world.first.line_with(&["decides for the cluster no more", "shop"]);
    assert!(stepped_back.contains(&format!("epoch={}", before.epoch)), "{stepped_back}");
    world.until_fleet(&world.first, "nothing that the woken server decides for", |fleet| {
        fleet_of(fleet, "shop").is_none()
    });
    let late: Vec<v1::LaunchCall> = world.book().launches.split_off(calls);
    assert!(
        late.iter().all(|call| !sent.contains(&call.token)),
        "the woken server went on with its launches: {late:?}"
    );
    assert_eq!(world.doubles(), Vec::<String>::new());
    let after = world.lease("cluster/shop");
    assert_eq!((after.epoch > before.epoch, after.owner != before.owner), (true, true));
    assert!(world.first.is_running() && get(&world.first.http, "/readyz").starts_with("HTTP/1.1 200"));
    drop(agent);
}

#[test]
fn an_agent_whose_wire_hangs_goes_to_another_server_once_and_its_cluster_with_it() {
    let test = "an_agent_whose_wire_hangs_goes_to_another_server_once_and_its_cluster_with_it";
    // Renewed every ten seconds, when wishes are heard as well.
    let Some(world) = World::start(test, Duration::from_secs(30), &[]) else { return };
    let agent = world.agent("shop");
    let before = world.until_lease("cluster/shop", |_| true);
    world.until_fleet(&world.first, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["connected"] == true)
    });
    world.board.lead_to(world.second.grpc);
    world.board.hang();
    let hung = world.database_now();
    let mut seen = Vec::new();
    let after = world.until_lease("cluster/shop", |lease| {
        seen.push((lease.epoch, lease.owner.clone()));
        lease.epoch > before.epoch
    });
    figure(&format!("an agent whose wire hung was decided for elsewhere after {:.0} s", after.now - hung));
    seen.dedup();
    // It changed hands once: from its owner, who had lost the agent too, to the one that the agent had reached.
    let once = [(before.epoch, before.owner.clone()), (before.epoch + 1, after.owner.clone())];
    assert_eq!(seen, once);
    assert_ne!(before.owner, after.owner);
    world.until_fleet(&world.second, "the cluster", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["connected"] == true)
    });
    // The wires that hung end at last: nothing is left that anybody could mistake for the agent.
    world.board.cut();
    world.until_fleet(&world.second, "an agent that is back", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["connected"] == true)
    });
    let last = world.lease("cluster/shop");
    assert_eq!(last.owner, after.owner, "the first server has taken nothing back");
    drop(agent);
}
