use std::time::Duration;

use agent_session::{AgentHello, SessionEvent};
use cluster::Observation;
use controller::executor::CommandId;
use controller::{ClusterEvent, Event, Settings};

use super::*;
use crate::Call;
use store::StoreError;
use store::guardrails::AuditEntry;
use store::lease::{LeaseOutcome, Renewal};
use store::listing::StoredListing;

fn region() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "east".to_owned() }
}

fn lease(scope: Scope) -> Lease {
    Lease { scope, owner: "me".to_owned(), epoch: 4 }
}

fn granted(scope: Scope) -> Result<LeaseOutcome, StoreError> {
    Ok(LeaseOutcome::Granted { lease: lease(scope), open: Box::default() })
}

/// A replica that owns `blue`, whose agent is connected, and the region's lease; at 0.
fn replica() -> Replica {
    let mut replica = Replica::new(Settings::default(), 1, region());
    let now = Timestamp::from_millis(0);
    let (cluster, answer) = ("blue".into(), granted(Scope::cluster("blue")));
    replica.handle(Input::LeaseAnswered { cluster, answer, past: Vec::new(), moves: Vec::new() }, now);
    replica.handle(Input::RegionLeaseAnswered(granted(region())), now);
    happens(&mut replica, Event::AgentConnected.of("blue"), 0);
    replica
}

fn happens(replica: &mut Replica, event: ClusterEvent, at: i64) -> Vec<Output> {
    replica.handle(Input::Session(SessionEvent::ClusterEvent(event)), Timestamp::from_millis(at))
}

/// Another replica requests `scope`; whether the lease is released for that.
fn is_handed_over(replica: &mut Replica, scope: Scope, at: i64) -> bool {
    let renewal = Renewal { lost: Vec::new(), requested: vec![(lease(scope), "another".to_owned())] };
    let outputs = replica.handle(Input::Renewed(renewal), Timestamp::from_millis(at));
    outputs.iter().any(|output| matches!(output, Output::Call(Call::ReleaseLeases(_))))
}

fn releases_lease(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Call(Call::ReleaseLeases(_))))
}

#[test]
fn a_requested_cluster_is_handed_over_shortly_after_its_agent_disconnects() {
    let blue = || Scope::cluster("blue");
    let cluster = || ClusterName::from("blue");
    let mut replica = replica();
    assert!(!is_handed_over(&mut replica, blue(), 600_000), "its agent is connected here");
    happens(&mut replica, Event::AgentDisconnected.of(cluster()), 700_000);
    // 700,000 + 500.
    assert!(replica.next_wakeup().is_some_and(|at| at <= Timestamp::from_millis(700_500)));
    assert!(!releases_lease(&replica.handle(Input::Time, Timestamp::from_millis(700_499))), "it may reconnect");
    happens(&mut replica, Event::AgentConnected.of(cluster()), 700_499);
    assert!(!releases_lease(&replica.handle(Input::Time, Timestamp::from_millis(710_000))), "it reconnected");
    happens(&mut replica, Event::AgentDisconnected.of(cluster()), 710_000);
    assert!(releases_lease(&replica.handle(Input::Time, Timestamp::from_millis(710_500))));
    assert!(!is_handed_over(&mut replica, blue(), 710_501), "it has another owner");
}

#[test]
fn a_lease_request_from_before_the_agent_reconnected_is_discarded() {
    let mut replica = replica();
    assert!(!is_handed_over(&mut replica, Scope::cluster("blue"), 1_000));
    let (cluster, answer) = ("blue".into(), granted(Scope::cluster("blue")));
    replica.handle(
        Input::LeaseAnswered { cluster, answer, past: Vec::new(), moves: Vec::new() },
        Timestamp::from_millis(2_000),
    );
    happens(&mut replica, Event::AgentDisconnected.of("blue"), 3_000);
    assert!(!releases_lease(&replica.handle(Input::Time, Timestamp::from_millis(60_000))));
}

#[test]
fn a_region_lease_is_not_handed_over_on_request() {
    let mut replica = replica();
    assert!(!is_handed_over(&mut replica, region(), 600_000));
    let held: Vec<Scope> = replica.leases().map(|lease| lease.scope.clone()).collect();
    assert_eq!(held, [Scope::cluster("blue"), region()], "both are renewed, and released on shutdown");
}

fn renewals(outputs: &[Output]) -> usize {
    outputs.iter().filter(|output| matches!(output, Output::Call(Call::RenewLeases(_)))).count()
}

#[test]
fn one_renewal_is_in_flight_at_a_time_and_is_repeated_if_requested_meanwhile() {
    let mut replica = replica();
    let mut happens = |input| renewals(&replica.handle(input, Timestamp::from_millis(1_000)));
    let done = || Input::Renewed(Renewal::default());
    assert_eq!(happens(Input::RenewalDue), 1);
    assert_eq!(happens(Input::RenewalDue) + happens(Input::RenewalDue), 0, "one is in flight");
    assert_eq!(happens(done()), 1, "two requests, one call");
    assert_eq!(happens(done()), 0);
    assert_eq!(happens(Input::RenewalDue), 1);
}

#[test]
fn successive_lease_requests_cause_few_renewals() {
    let mut replica = replica();
    let mut at = |input, at| renewals(&replica.handle(input, Timestamp::from_millis(at)));
    assert_eq!(at(Input::LeaseRequested, 1_000) + at(Input::Time, 1_000), 1);
    assert_eq!(at(Input::Renewed(Renewal::default()), 1_100), 0);
    assert_eq!(at(Input::LeaseRequested, 1_150) + at(Input::LeaseRequested, 1_200), 0);
    // 1,100 + 250.
    assert_eq!(at(Input::Time, 1_349), 0);
    assert_eq!(at(Input::Time, 1_350), 1);
}

#[test]
fn a_replica_that_lost_its_leases_refuses_the_agent_and_stops_listing_at_the_cloud() {
    let mut replica = replica();
    let lost = vec![lease(Scope::cluster("blue")), lease(region())];
    let outputs =
        replica.handle(Input::Renewed(Renewal { lost, requested: Vec::new() }), Timestamp::from_millis(1_000));
    let refused = |output: &Output| matches!(output, Output::Refuse { cluster, .. } if *cluster == "blue");
    assert!(outputs.iter().any(refused), "{outputs:?}");
    assert_eq!((replica.leases().count(), replica.clusters().count()), (0, 0));
    // Later events of its agent and the cloud are ignored, and no cluster without an owner is
    // published.
    let cluster = || ClusterName::from("blue");
    happens(&mut replica, Event::AgentDisconnected.of(cluster()), 1_500);
    let gone = Event::InstanceGone("aws:///z/i-1".into()).of(cluster());
    assert!(happens(&mut replica, gone, 1_500).is_empty());
    assert_eq!(replica.clusters().count(), 0);
    let listing = replica.handle(Input::ListingDue, Timestamp::from_millis(2_000));
    assert!(matches!(&listing[..], [Output::Call(Call::ReadListing { clusters, .. })] if clusters.is_empty()));
}

#[test]
fn operator_events_of_clusters_owned_by_other_replicas_are_ignored() {
    let mut replica = replica();
    assert!(happens(&mut replica, Event::QuarantineReleased.of("green"), 1_000).is_empty());
    let known: Vec<&ClusterName> = replica.clusters().map(|(cluster, _)| cluster).collect();
    assert_eq!(known, [&ClusterName::from("blue")]);
}

#[test]
fn a_listing_reaches_only_the_clusters_of_this_replica() {
    let mut replica = replica();
    let asked_about = vec![ClusterName::from("blue"), ClusterName::from("green")];
    let kept = StoredListing { number: 1, age: Duration::ZERO, machines: Vec::new() };
    let overheard =
        Input::ListingRead { asked: Timestamp::from_millis(1_000), clusters: asked_about, answer: Ok(Some(kept)) };
    replica.handle(overheard, Timestamp::from_millis(1_000));
    let known: Vec<&ClusterName> = replica.clusters().map(|(cluster, _)| cluster).collect();
    assert_eq!(known, [&ClusterName::from("blue")], "green was handed over while its listing was read");
}

#[test]
fn the_karpenter_absent_override_is_audited_once() {
    let mut replica = replica();
    let mut audited = |karpenter_absent: bool| -> Vec<AuditEntry> {
        let greeting = AgentHello { karpenter_absent, ..greeting("blue") };
        replica.handle(Input::Session(SessionEvent::HelloReceived(greeting)), Timestamp::from_millis(0));
        let (cluster, answer) = ("blue".into(), granted(Scope::cluster("blue")));
        let granted = Input::LeaseAnswered { cluster, answer, past: Vec::new(), moves: Vec::new() };
        let entry = |output| match output {
            Output::Call(Call::Audit(entry)) => Some(entry),
            _ => None,
        };
        replica.handle(granted, Timestamp::from_millis(7)).into_iter().filter_map(entry).collect()
    };
    assert!(audited(false).is_empty());
    let lines = audited(true);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].what.as_str(), lines[0].scope.as_str()), ("karpenter-absent", "cluster/blue"));
    assert!(audited(true).is_empty(), "a reconnect is no new override");
}

fn greeting(cluster: &str) -> AgentHello {
    AgentHello {
        cluster: cluster.into(),
        cluster_uid: "u".to_owned(),
        highest_epoch: 0,
        region: String::new(),
        agent_version: String::new(),
        kubernetes_version: String::new(),
        karpenter_absent: false,
    }
}

#[test]
fn an_agent_of_another_region_is_refused() {
    let mut replica = Replica::new(Settings::default(), 1, region());
    let mut outputs = |region: &str| {
        let hello = AgentHello { region: region.to_owned(), ..greeting("green") };
        replica.handle(Input::Session(SessionEvent::HelloReceived(hello)), Timestamp::from_millis(0))
    };
    let refused = outputs("west");
    let [Output::Refuse { cluster, reason }] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(cluster.as_ref(), "green");
    assert!(
        reason.starts_with("the agent's cluster.region is west, and this server launches machines in east "),
        "{reason}"
    );
    assert!(leased_by(refused).is_empty());
    assert_eq!(leased_by(outputs("east")), ["green"]);
}

fn greet(replica: &mut Replica, cluster: &str, at: i64) -> Vec<ClusterName> {
    let greeting = greeting(cluster);
    leased_by(replica.handle(Input::Session(SessionEvent::HelloReceived(greeting)), Timestamp::from_millis(at)))
}

/// The clusters whose leases are to be acquired.
fn leased_by(outputs: Vec<Output>) -> Vec<ClusterName> {
    let taken = |output| match output {
        Output::Call(Call::TakeLease { cluster, .. }) => Some(cluster),
        _ => None,
    };
    outputs.into_iter().filter_map(taken).collect()
}

#[test]
fn clusters_are_admitted_one_after_the_other_and_none_is_dropped() {
    let names = ["a", "b", "c", "d"].map(ClusterName::from);
    let mut replica = Replica::new(Settings::default(), 1, region()).with_admission_limit(1);
    assert_eq!(greet(&mut replica, "a", 0), names[..1]);
    for waiting in &names[1..] {
        assert!(greet(&mut replica, waiting, 0).is_empty());
    }
    // The store refuses a: another replica owns it.
    let held = LeaseOutcome::Held { owner: "another".to_owned(), expires_in: Duration::ZERO };
    let leased =
        Input::LeaseAnswered { cluster: names[0].clone(), answer: Ok(held), past: Vec::new(), moves: Vec::new() };
    assert_eq!(leased_by(replica.handle(leased, Timestamp::from_millis(10))), names[1..2]);
    // b is accepted, and so is its snapshot.
    let answer = granted(Scope::cluster("b"));
    let leased = Input::LeaseAnswered { cluster: names[1].clone(), answer, past: Vec::new(), moves: Vec::new() };
    assert!(leased_by(replica.handle(leased, Timestamp::from_millis(20))).is_empty());
    let connected = happens(&mut replica, Event::AgentConnected.of(names[1].clone()), 30);
    assert!(leased_by(connected).is_empty());
    let observation = Observation::Snapshot(Box::default());
    let seen = happens(&mut replica, Event::Observed(observation).of(names[1].clone()), 40);
    assert_eq!(leased_by(seen), names[2..3]);
    // c disconnects before it is answered.
    let left = Input::Session(SessionEvent::HandshakeAbandoned { cluster: names[2].clone() });
    assert_eq!(leased_by(replica.handle(left, Timestamp::from_millis(50))), names[3..]);
}

#[test]
fn an_agent_waits_while_another_replica_holds_its_lease_and_is_accepted_after_the_release() {
    let held = || {
        let held = LeaseOutcome::Held { owner: "another".to_owned(), expires_in: Duration::from_secs(30) };
        Input::LeaseAnswered { cluster: "a".into(), answer: Ok(held), past: Vec::new(), moves: Vec::new() }
    };
    let mut replica = Replica::new(Settings::default(), 1, region());
    greet(&mut replica, "a", 0);
    let outputs = replica.handle(held(), Timestamp::from_millis(10));
    assert!(
        matches!(&outputs[..], [Output::Call(Call::RequestLease(scope))] if *scope == Scope::cluster("a")),
        "{outputs:?}"
    );
    // 10 + 1,000.
    assert!(replica.next_wakeup().is_some_and(|at| at <= Timestamp::from_millis(1_010)));
    assert!(leased_by(replica.handle(Input::Time, Timestamp::from_millis(1_009))).is_empty());
    assert_eq!(leased_by(replica.handle(Input::Time, Timestamp::from_millis(1_010))), [ClusterName::from("a")]);
    let answer = granted(Scope::cluster("a"));
    let accepted = replica.handle(
        Input::LeaseAnswered { cluster: "a".into(), answer, past: Vec::new(), moves: Vec::new() },
        Timestamp::from_millis(1_020),
    );
    assert!(accepted.iter().any(|output| matches!(output, Output::Accept { epoch: 4, .. })), "{accepted:?}");
    assert!(leased_by(replica.handle(Input::Time, Timestamp::from_millis(90_000))).is_empty());
    // A disconnected agent does not wait, whatever the store answers afterwards.
    let mut replica = Replica::new(Settings::default(), 1, region());
    greet(&mut replica, "a", 0);
    replica.handle(Input::Session(SessionEvent::HandshakeAbandoned { cluster: "a".into() }), Timestamp::from_millis(5));
    assert!(replica.handle(held(), Timestamp::from_millis(10)).is_empty());
    assert!(leased_by(replica.handle(Input::Time, Timestamp::from_millis(90_000))).is_empty());
}

#[test]
fn an_agent_without_a_snapshot_delays_others_for_ten_seconds() {
    let mut replica = Replica::new(Settings::default(), 1, region()).with_admission_limit(1);
    greet(&mut replica, "a", 0);
    greet(&mut replica, "b", 0);
    let answer = granted(Scope::cluster("a"));
    replica.handle(
        Input::LeaseAnswered { cluster: "a".into(), answer, past: Vec::new(), moves: Vec::new() },
        Timestamp::from_millis(1_000),
    );
    happens(&mut replica, Event::AgentConnected.of("a"), 2_000);
    // 2,000 + 10,000.
    assert!(replica.next_wakeup().is_some_and(|due| due <= Timestamp::from_millis(12_000)));
    assert!(leased_by(replica.handle(Input::Time, Timestamp::from_millis(11_999))).is_empty());
    assert_eq!(leased_by(replica.handle(Input::Time, Timestamp::from_millis(12_000))), [ClusterName::from("b")]);
}

#[test]
fn a_refused_agent_gets_no_details_of_a_store_failure() {
    let mut replica = replica();
    let _asked = greet(&mut replica, "blue", 0);
    let fault = StoreError::Server { what: "take the lease", why: "10.0.0.7 refuses user fleetwright".to_owned() };
    let answer =
        Input::LeaseAnswered { cluster: "blue".into(), answer: Err(fault), past: Vec::new(), moves: Vec::new() };
    let outputs = replica.handle(answer, Timestamp::from_millis(1));
    let refused: Vec<&str> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Refuse { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(refused, ["cannot acquire the cluster's lease; connect again later"]);
}

#[test]
fn a_listing_is_processed_by_every_cluster_that_is_still_owned() {
    let mut replica = Replica::new(Settings::default(), 1, region());
    replica.handle(Input::RegionLeaseAnswered(granted(region())), Timestamp::from_millis(0));
    for name in ["c0", "c1", "c2"] {
        let (cluster, answer) = (ClusterName::from(name), granted(Scope::cluster(name)));
        replica.handle(
            Input::LeaseAnswered { cluster, answer, past: Vec::new(), moves: Vec::new() },
            Timestamp::from_millis(0),
        );
    }
    replica.handle(Input::ListingDue, Timestamp::from_millis(1_000));
    let lost = vec![lease(Scope::cluster("c1"))];
    replica.handle(Input::Renewed(Renewal { lost, requested: Vec::new() }), Timestamp::from_millis(1_500));
    let listed = Input::Listed { asked: Timestamp::from_millis(1_000), answer: Ok(Vec::new()) };
    let steps = replica.coordinator.handle(listed, Timestamp::from_millis(2_000));
    let delivered: Vec<&ClusterName> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Deliver(cluster, ClusterInput::Event(Event::Listed(_))) => Some(cluster),
            _ => None,
        })
        .collect();
    assert_eq!(delivered, ["c0", "c2"]);
}

#[test]
fn commands_and_plans_of_a_lost_cluster_reach_nothing() {
    let mut replica = replica();
    let ended = || Input::CommandEnded { cluster: "blue".into(), id: CommandId(1), outcome: Ok(None) };
    let delivered = |replica: &mut Replica| replica.coordinator.handle(ended(), Timestamp::from_millis(1_000)).len();
    assert_eq!(delivered(&mut replica), 1);
    let lost = vec![lease(Scope::cluster("blue"))];
    let outputs =
        replica.handle(Input::Renewed(Renewal { lost, requested: Vec::new() }), Timestamp::from_millis(1_500));
    assert!(matches!(&outputs[..], [Output::PublishView(_), Output::Refuse { .. }]), "{outputs:?}");
    assert_eq!(delivered(&mut replica), 0);
}
