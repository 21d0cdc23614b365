use engine::control::Settings;

use super::*;
use crate::store::lease::Open;

fn region() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "east".to_owned() }
}

fn lease(scope: Scope) -> Lease {
    Lease { scope, owner: "me".to_owned(), epoch: 4 }
}

fn granted(scope: Scope) -> Result<LeaseAnswer, StoreError> {
    Ok(LeaseAnswer::Granted { lease: lease(scope), open: Open::default() })
}

/// A replica that decides for `blue`, whose agent is there, and lists the machines of its region; at 0.
fn replica() -> Replica {
    let mut replica = Replica::new(RegionController::new(Settings::default()), 1, region());
    let now = Timestamp(0);
    let (cluster, answer) = ("blue".into(), granted(Scope::cluster("blue")));
    replica.handle(Input::Leased { cluster, answer, past: Vec::new() }, now);
    replica.handle(Input::RegionTaken(granted(region())), now);
    happens(&mut replica, Event::AgentConnected { cluster: "blue".into() }, 0);
    replica
}

fn happens(replica: &mut Replica, event: Event, at: i64) -> Vec<Output> {
    replica.handle(Input::Heard(SessionEvent::Happened(event)), Timestamp(at))
}

/// Another replica would like to have `scope`; says whether it is given back for that.
fn is_handed_over(replica: &mut Replica, scope: Scope, at: i64) -> bool {
    let renewal = Renewal { lost: Vec::new(), wanted: vec![(lease(scope), "another".to_owned())] };
    let outputs = replica.handle(Input::Renewed(renewal), Timestamp(at));
    outputs.iter().any(|output| matches!(output, Output::Call(Call::Release(_))))
}

fn gives_back(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Call(Call::Release(_))))
}

#[test]
fn a_cluster_is_handed_over_for_a_wish_as_soon_as_its_agent_has_been_gone_for_a_moment() {
    let blue = || Scope::cluster("blue");
    let cluster = || ClusterId::from("blue");
    let mut replica = replica();
    assert!(!is_handed_over(&mut replica, blue(), 600_000), "its agent is here, whoever else it has said hello to");
    happens(&mut replica, Event::AgentDisconnected { cluster: cluster() }, 700_000);
    // 700,000 + 500.
    assert!(replica.next_wakeup().is_some_and(|at| at <= Timestamp(700_500)));
    assert!(!gives_back(&replica.handle(Input::Time, Timestamp(700_499))), "it may come back");
    happens(&mut replica, Event::AgentConnected { cluster: cluster() }, 700_499);
    assert!(!gives_back(&replica.handle(Input::Time, Timestamp(710_000))), "it came back");
    happens(&mut replica, Event::AgentDisconnected { cluster: cluster() }, 710_000);
    assert!(gives_back(&replica.handle(Input::Time, Timestamp(710_500))));
    assert!(!is_handed_over(&mut replica, blue(), 710_501), "it is somebody else's");
}

#[test]
fn a_wish_that_was_made_before_its_agent_came_back_is_forgotten() {
    let mut replica = replica();
    assert!(!is_handed_over(&mut replica, Scope::cluster("blue"), 1_000));
    let (cluster, answer) = ("blue".into(), granted(Scope::cluster("blue")));
    replica.handle(Input::Leased { cluster, answer, past: Vec::new() }, Timestamp(2_000));
    happens(&mut replica, Event::AgentDisconnected { cluster: "blue".into() }, 3_000);
    assert!(!gives_back(&replica.handle(Input::Time, Timestamp(60_000))));
}

#[test]
fn a_region_stays_where_it_is_whoever_wishes_for_it() {
    let mut replica = replica();
    assert!(!is_handed_over(&mut replica, region(), 600_000));
    let held: Vec<Scope> = replica.leases().map(|lease| lease.scope.clone()).collect();
    assert_eq!(held, [Scope::cluster("blue"), region()], "both are renewed, and given back at the end");
}

/// How many calls to renew follow.
fn renewals(outputs: &[Output]) -> usize {
    outputs.iter().filter(|output| matches!(output, Output::Call(Call::Renew(_)))).count()
}

#[test]
fn leases_are_renewed_by_one_call_at_a_time_and_once_more_when_somebody_asked_meanwhile() {
    let mut replica = replica();
    let mut happens = |input| renewals(&replica.handle(input, Timestamp(1_000)));
    let done = || Input::Renewed(Renewal::default());
    assert_eq!(happens(Input::RenewalDue), 1);
    assert_eq!(happens(Input::RenewalDue) + happens(Input::RenewalDue), 0, "one is under way");
    assert_eq!(happens(done()), 1, "two wishes, one call");
    assert_eq!(happens(done()), 0);
    assert_eq!(happens(Input::RenewalDue), 1);
}

#[test]
fn wishes_that_come_one_after_the_other_are_heard_in_few_renewals() {
    let mut replica = replica();
    let mut at = |input, at| renewals(&replica.handle(input, Timestamp(at)));
    assert_eq!(at(Input::Wished, 1_000) + at(Input::Time, 1_000), 1);
    assert_eq!(at(Input::Renewed(Renewal::default()), 1_100), 0);
    assert_eq!(at(Input::Wished, 1_150) + at(Input::Wished, 1_200), 0);
    // 1,100 + 250.
    assert_eq!(at(Input::Time, 1_349), 0);
    assert_eq!(at(Input::Time, 1_350), 1);
}

#[test]
fn who_has_lost_its_leases_tells_the_agent_and_asks_the_cloud_no_more() {
    let mut replica = replica();
    let lost = vec![lease(Scope::cluster("blue")), lease(region())];
    let outputs = replica.handle(Input::Renewed(Renewal { lost, wanted: Vec::new() }), Timestamp(1_000));
    let refused = |output: &Output| matches!(output, Output::Refuse { cluster, .. } if &**cluster == "blue");
    assert!(outputs.iter().any(refused), "{outputs:?}");
    assert_eq!((replica.leases().count(), replica.controller().clusters().count()), (0, 0));
    // What its agent and the cloud still say of it is for somebody else, and nobody is shown a cluster without an owner.
    let cluster = || ClusterId::from("blue");
    happens(&mut replica, Event::AgentDisconnected { cluster: cluster() }, 1_500);
    let gone = Event::InstanceGone { cluster: cluster(), provider_id: "aws:///z/i-1".into() };
    assert!(happens(&mut replica, gone, 1_500).is_empty());
    assert_eq!(replica.controller().clusters().count(), 0);
    let listing = replica.handle(Input::ListingDue, Timestamp(2_000));
    assert!(matches!(&listing[..], [Output::Call(Call::ReadListing { clusters, .. })] if clusters.is_empty()));
}

#[test]
fn peoples_word_for_a_cluster_that_somebody_else_decides_for_changes_nothing_here() {
    let mut replica = replica();
    assert!(happens(&mut replica, Event::QuarantineReleased { cluster: "green".into() }, 1_000).is_empty());
    let known: Vec<&ClusterId> = replica.controller().clusters().collect();
    assert_eq!(known, [&ClusterId::from("blue")]);
}

#[test]
fn a_listing_reaches_the_clusters_that_are_decided_for_here_and_no_others() {
    let mut replica = replica();
    let asked_about = vec![ClusterId::from("blue"), ClusterId::from("green")];
    let kept = KeptListing { number: 1, age: Duration::ZERO, machines: Vec::new() };
    let overheard = Input::Overheard { asked: Timestamp(1_000), clusters: asked_about, answer: Ok(Some(kept)) };
    replica.handle(overheard, Timestamp(1_000));
    let known: Vec<&ClusterId> = replica.controller().clusters().collect();
    assert_eq!(known, [&ClusterId::from("blue")], "green was handed over while its listing was read");
}

#[test]
fn that_a_person_says_that_no_karpenter_is_there_is_audited_once() {
    let mut replica = replica();
    let mut audited = |karpenter_absent: bool| -> Vec<AuditEntry> {
        let greeting = Greeting { karpenter_absent, ..greeting("blue") };
        replica.handle(Input::Heard(SessionEvent::Greeted(greeting)), Timestamp(0));
        let (cluster, answer) = ("blue".into(), granted(Scope::cluster("blue")));
        let granted = Input::Leased { cluster, answer, past: Vec::new() };
        let entry = |output| match output {
            Output::Call(Call::Audit(entry)) => Some(entry),
            _ => None,
        };
        replica.handle(granted, Timestamp(7)).into_iter().filter_map(entry).collect()
    };
    assert!(audited(false).is_empty());
    let lines = audited(true);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].what.as_str(), lines[0].scope.as_str()), ("karpenter-absent", "cluster/blue"));
    assert!(audited(true).is_empty(), "an agent that comes back is no other order");
}

fn greeting(cluster: &str) -> Greeting {
    Greeting {
        cluster: cluster.into(),
        cluster_uid: "u".to_owned(),
        highest_epoch: 0,
        region: String::new(),
        agent_version: String::new(),
        kubernetes_version: String::new(),
        karpenter_absent: false,
    }
}

fn greet(replica: &mut Replica, cluster: &str, at: i64) -> Vec<ClusterId> {
    let greeting = greeting(cluster);
    leased_by(replica.handle(Input::Heard(SessionEvent::Greeted(greeting)), Timestamp(at)))
}

/// The clusters whose leases are to be taken.
fn leased_by(outputs: Vec<Output>) -> Vec<ClusterId> {
    let taken = |output| match output {
        Output::Call(Call::TakeLease { cluster, .. }) => Some(cluster),
        _ => None,
    };
    outputs.into_iter().filter_map(taken).collect()
}

#[test]
fn clusters_come_in_one_after_the_other_and_none_is_forgotten() {
    let names = ["a", "b", "c", "d"].map(ClusterId::from);
    let mut replica = Replica::new(RegionController::new(Settings::default()), 1, region()).admitting(1);
    assert_eq!(greet(&mut replica, "a", 0), names[..1]);
    for waiting in &names[1..] {
        assert!(greet(&mut replica, waiting, 0).is_empty());
    }
    // The store refuses a: somebody else decides for it.
    let held = LeaseAnswer::Held { owner: "another".to_owned(), expires_in: Duration::ZERO };
    let leased = Input::Leased { cluster: names[0].clone(), answer: Ok(held), past: Vec::new() };
    assert_eq!(leased_by(replica.handle(leased, Timestamp(10))), names[1..2]);
    // b is welcome, and its snapshot is believed.
    let answer = granted(Scope::cluster("b"));
    let leased = Input::Leased { cluster: names[1].clone(), answer, past: Vec::new() };
    assert!(leased_by(replica.handle(leased, Timestamp(20))).is_empty());
    let connected = happens(&mut replica, Event::AgentConnected { cluster: names[1].clone() }, 30);
    assert!(leased_by(connected).is_empty());
    let observation = Observation::Snapshot(Box::default());
    let seen = happens(&mut replica, Event::Observed { cluster: names[1].clone(), observation }, 40);
    assert_eq!(leased_by(seen), names[2..3]);
    // c goes before it is answered.
    let left = Input::Heard(SessionEvent::Left { cluster: names[2].clone() });
    assert_eq!(leased_by(replica.handle(left, Timestamp(50))), names[3..]);
}

#[test]
fn an_agent_waits_here_while_another_replica_decides_for_its_cluster_and_is_welcome_when_it_does_no_more() {
    let held = || {
        let held = LeaseAnswer::Held { owner: "another".to_owned(), expires_in: Duration::from_secs(30) };
        Input::Leased { cluster: "a".into(), answer: Ok(held), past: Vec::new() }
    };
    let mut replica = Replica::new(RegionController::new(Settings::default()), 1, region());
    greet(&mut replica, "a", 0);
    let told = replica.handle(held(), Timestamp(10));
    assert!(matches!(&told[..], [Output::Call(Call::AskFor(scope))] if *scope == Scope::cluster("a")), "{told:?}");
    // 10 + 1,000.
    assert!(replica.next_wakeup().is_some_and(|at| at <= Timestamp(1_010)));
    assert!(leased_by(replica.handle(Input::Time, Timestamp(1_009))).is_empty());
    assert_eq!(leased_by(replica.handle(Input::Time, Timestamp(1_010))), [ClusterId::from("a")]);
    let answer = granted(Scope::cluster("a"));
    let welcome = replica.handle(Input::Leased { cluster: "a".into(), answer, past: Vec::new() }, Timestamp(1_020));
    assert!(welcome.iter().any(|output| matches!(output, Output::Accept { epoch: 4, .. })), "{welcome:?}");
    assert!(leased_by(replica.handle(Input::Time, Timestamp(90_000))).is_empty());
    // One that leaves is not waited for, whatever is answered after that.
    let mut replica = Replica::new(RegionController::new(Settings::default()), 1, region());
    greet(&mut replica, "a", 0);
    replica.handle(Input::Heard(SessionEvent::Left { cluster: "a".into() }), Timestamp(5));
    assert!(replica.handle(held(), Timestamp(10)).is_empty());
    assert!(leased_by(replica.handle(Input::Time, Timestamp(90_000))).is_empty());
}

#[test]
fn an_agent_that_sends_no_snapshot_holds_the_others_up_for_ten_seconds() {
    let mut replica = Replica::new(RegionController::new(Settings::default()), 1, region()).admitting(1);
    greet(&mut replica, "a", 0);
    greet(&mut replica, "b", 0);
    let answer = granted(Scope::cluster("a"));
    replica.handle(Input::Leased { cluster: "a".into(), answer, past: Vec::new() }, Timestamp(1_000));
    happens(&mut replica, Event::AgentConnected { cluster: "a".into() }, 2_000);
    // 2,000 + 10,000.
    assert!(replica.next_wakeup().is_some_and(|due| due <= Timestamp(12_000)));
    assert!(leased_by(replica.handle(Input::Time, Timestamp(11_999))).is_empty());
    assert_eq!(leased_by(replica.handle(Input::Time, Timestamp(12_000))), [ClusterId::from("b")]);
}

/// A replica that decides for so many clusters, whose agents are there.
fn replica_of(clusters: usize) -> Replica {
    let mut replica = Replica::new(RegionController::new(Settings::default()), 1, region());
    replica.handle(Input::RegionTaken(granted(region())), Timestamp(0));
    for number in 0..clusters {
        let name = format!("c{number:03}");
        let (cluster, answer) = (Text::from(name.as_str()), granted(Scope::cluster(&name)));
        replica.handle(Input::Leased { cluster: cluster.clone(), answer, past: Vec::new() }, Timestamp(0));
        happens(&mut replica, Event::AgentConnected { cluster }, 0);
    }
    replica
}

#[test]
fn a_listing_is_heard_by_a_few_clusters_at_a_time_and_by_all_of_them_in_the_end() {
    let mut replica = replica_of(20);
    replica.handle(Input::ListingDue, Timestamp(1_000));
    replica.handle(Input::Listed { asked: Timestamp(1_000), answer: Ok(Vec::new()) }, Timestamp(2_000));
    assert_eq!(replica.listings.len(), 12, "8 of 20 have heard of it");
    assert!(replica.next_wakeup().is_some_and(|at| at <= Timestamp(2_000)), "the others hear of it at once");
    // One of them is lost meanwhile, and hears of nothing.
    let lost = vec![lease(Scope::cluster("c010"))];
    replica.handle(Input::Renewed(Renewal { lost, wanted: Vec::new() }), Timestamp(2_000));
    replica.handle(Input::Time, Timestamp(2_000));
    assert_eq!(replica.listings.len(), 4);
    replica.handle(Input::Time, Timestamp(2_000));
    assert_eq!(replica.listings.len(), 0);
    assert!(replica.controller.state("c010").is_none());
}

#[test]
fn an_agent_whose_lease_could_not_be_taken_hears_nothing_of_the_store() {
    let mut replica = replica();
    let _asked = greet(&mut replica, "blue", 0);
    let fault = StoreError::Server { what: "take the lease", why: "10.0.0.7 refuses user fleetwright".to_owned() };
    let answer = Input::Leased { cluster: "blue".into(), answer: Err(fault), past: Vec::new() };
    let outputs = replica.handle(answer, Timestamp(1));
    let refused: Vec<&str> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Refuse { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(refused, ["its lease could not be taken; connect again later"]);
}
