use std::time::Duration;

use cluster::{ClaimRecord, ClusterSnapshot, NodeRecord, Observation};
use controller::{ClusterCall, NoticeAnswer, Settings};

use super::*;
use crate::{Input, Output, Replica};
use agent_session::SessionEvent;
use store::interruptions::InterruptionRow;
use store::lease::{Lease, LeaseOutcome, Renewal};

fn scope() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "east".to_owned() }
}

fn lease(cluster: &str) -> Lease {
    Lease { scope: Scope::cluster(cluster), owner: "me".to_owned(), epoch: 4 }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn acquire(replica: &mut Replica, cluster: &str, now: i64) {
    let answer = Ok(LeaseOutcome::Granted { lease: lease(cluster), open: Box::default() });
    let input = Input::LeaseAnswered { cluster: cluster.into(), answer, past: Vec::new(), moves: Vec::new() };
    replica.handle(input, at(now));
    tell(replica, Event::AgentConnected.of(cluster), now);
}

fn tell(replica: &mut Replica, event: ClusterEvent, now: i64) -> Vec<Output> {
    replica.handle(Input::Session(SessionEvent::ClusterEvent(event)), at(now))
}

/// The agent of `cluster` sends a snapshot with a NodeClaim `CLUSTER-m` on the instance `i-CLUSTER`.
fn snapshot(replica: &mut Replica, cluster: &str, now: i64) {
    snapshot_of(replica, cluster, &[cluster], now);
}

/// The agent of `cluster` sends a snapshot with these machines: for each, a NodeClaim `NAME-m` on the instance `i-NAME`.
fn snapshot_of(replica: &mut Replica, cluster: &str, machines: &[&str], now: i64) {
    let (claims, nodes) = machines.iter().map(|name| machine(name)).unzip();
    let snapshot = ClusterSnapshot { claims, nodes, ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    tell(replica, Event::Observed(observation).of(cluster), now);
}

fn machine(name: &str) -> (ClaimRecord, NodeRecord) {
    let provider_id: model::ProviderId = format!("aws:///east-a/i-{name}").as_str().into();
    let labels = [("karpenter.sh/initialized", "true"), ("karpenter.sh/registered", "true")];
    let labels: model::Labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    let claim = ClaimRecord {
        name: format!("{name}-m").as_str().into(),
        uid: "u".into(),
        pool: "web".into(),
        provider_id: provider_id.clone(),
        ours: true,
        created: Some(at(0)),
        initialized_at: Some(at(0)),
        ..ClaimRecord::default()
    };
    let node = NodeRecord {
        name: format!("{name}-n").as_str().into(),
        provider_id,
        labels,
        ready: true,
        created: Some(at(0)),
        ..NodeRecord::default()
    };
    (claim, node)
}

/// A replica that owns these clusters, each with its snapshot; at 0.
fn replica(clusters: &[&str]) -> Replica {
    let mut replica = Replica::new(Settings::default(), 1, scope());
    for cluster in clusters {
        acquire(&mut replica, cluster, 0);
        snapshot(&mut replica, cluster, 0);
    }
    replica
}

/// A spot notice for the instance, stored `age` seconds ago.
fn stored(number: u64, instance: &str, age: u64) -> StoredInterruption {
    let row = InterruptionRow {
        instance: instance.to_owned(),
        kind: "spot_interrupted".to_owned(),
        sent_ms: 0,
        ends_ms: Some(120_000),
    };
    StoredInterruption { number, age: Duration::from_secs(age), row }
}

/// The NodeClaims that decisions among `outputs` remove.
fn removed(outputs: &[Output]) -> Vec<String> {
    let decisions = outputs.iter().filter_map(|output| match output {
        Output::Call(Call::RunCommand { call: ClusterCall::RecordDecision(decision), .. }) => Some(decision),
        _ => None,
    });
    decisions.flat_map(|decision| decision.removals.iter().map(|removal| removal.claim.to_string())).collect()
}

/// `outputs`, and those that follow when the cloud confirms every notice that it is asked about.
fn with_answers(replica: &mut Replica, mut outputs: Vec<Output>, now: i64) -> Vec<Output> {
    let mut next = 0;
    while let Some(output) = outputs.get(next) {
        next += 1;
        let Output::Call(Call::RunCommand { cluster, id, call: ClusterCall::ConfirmNotices(notices), .. }) = output
        else {
            continue;
        };
        let answer = NoticeAnswer::Shown(notices.iter().cloned().collect());
        let event = Event::NoticesAnswered { asked: notices.clone(), answer };
        let ended = Input::CommandEnded { cluster: cluster.clone(), id: *id, outcome: Ok(Some(event)) };
        outputs.extend(replica.handle(ended, at(now)));
    }
    outputs
}

/// One read at `now` which finds `rows`.
fn read(replica: &mut Replica, rows: Vec<StoredInterruption>, now: i64) -> Vec<String> {
    let begun = replica.handle(Input::InterruptionsDue, at(now));
    assert!(matches!(&begun[..], [Output::Call(Call::ReadInterruptions { .. })]), "{begun:?}");
    let outputs = replica.handle(Input::InterruptionsRead(Ok(rows)), at(now));
    removed(&with_answers(replica, outputs, now))
}

fn lose(replica: &mut Replica, cluster: &str, now: i64) {
    let lost = Renewal { lost: vec![lease(cluster)], requested: Vec::new() };
    replica.handle(Input::Renewed(lost), at(now));
}

#[test]
fn a_notice_reaches_the_cluster_of_its_instance_alone_and_once() {
    let mut replica = replica(&["blue", "red"]);
    let rows = vec![stored(1, "i-blue", 0), stored(2, "i-of-another-replica", 0)];
    assert_eq!(read(&mut replica, rows, 1), ["blue-m"]);
    assert_eq!(read(&mut replica, Vec::new(), 2), Vec::<String>::new());
    assert_eq!(read(&mut replica, vec![stored(3, "i-red", 0)], 3), ["red-m"]);
}

#[test]
fn a_read_continues_after_the_last_number_and_none_begins_before_its_answer() {
    let mut replica = replica(&["blue"]);
    let after = |outputs: &[Output]| match outputs {
        [Output::Call(Call::ReadInterruptions { after, .. })] => Some(*after),
        _ => None,
    };
    assert_eq!(after(&replica.handle(Input::InterruptionsDue, at(1))), Some(0));
    assert_eq!(after(&replica.handle(Input::InterruptionsDue, at(2))), None);
    replica.handle(Input::InterruptionsRead(Ok(vec![stored(7, "i-1", 0)])), at(2));
    assert_eq!(after(&replica.handle(Input::InterruptionsDue, at(3))), Some(7));
    let failed = StoreError::Server { what: "read", why: "down".to_owned() };
    replica.handle(Input::InterruptionsRead(Err(failed)), at(3));
    assert_eq!(after(&replica.handle(Input::InterruptionsDue, at(4))), Some(7));
    // A full page is followed by the next one at once.
    let page = (8..8 + INTERRUPTIONS_AT_ONCE as u64).map(|number| stored(number, "i-1", 0)).collect();
    let more = replica.handle(Input::InterruptionsRead(Ok(page)), at(4));
    assert_eq!(after(&more), Some(7 + INTERRUPTIONS_AT_ONCE as u64));
}

#[test]
fn a_notice_that_was_stored_before_the_cluster_was_taken_over_is_passed_when_its_machines_are_known() {
    let mut replica = replica(&["red"]);
    // Its owner has crashed.
    assert!(read(&mut replica, vec![stored(1, "i-blue", 0)], 1).is_empty());
    acquire(&mut replica, "blue", 20);
    assert!(read(&mut replica, Vec::new(), 21).is_empty(), "its NodeClaims are unknown");
    snapshot(&mut replica, "blue", 22);
    assert_eq!(read(&mut replica, Vec::new(), 23), ["blue-m"]);
}

#[test]
fn a_process_that_starts_reads_the_notices_of_the_last_fifteen_minutes() {
    let mut replica = Replica::new(Settings::default(), 1, scope());
    let begun = replica.handle(Input::InterruptionsDue, at(1_000));
    let expected = Call::ReadInterruptions { scope: scope(), after: 0, within: Millis::from_mins(15) };
    assert_eq!(format!("{begun:?}"), format!("{:?}", [Output::Call(expected)]));
    let rows = vec![stored(1, "i-blue", 890), stored(2, "i-red", 880)];
    replica.handle(Input::InterruptionsRead(Ok(rows)), at(1_000));
    for cluster in ["blue", "red"] {
        acquire(&mut replica, cluster, 1_010);
        snapshot(&mut replica, cluster, 1_010);
    }
    // At 1,010 s, that of blue is 900 s old, and that of red 890 s.
    assert_eq!(read(&mut replica, Vec::new(), 1_010), ["red-m"]);
}

#[test]
fn a_cluster_that_was_lost_and_acquired_again_gets_its_notices_again() {
    let mut replica = replica(&["blue"]);
    assert_eq!(read(&mut replica, vec![stored(1, "i-blue", 0)], 1), ["blue-m"]);
    lose(&mut replica, "blue", 10);
    assert!(read(&mut replica, Vec::new(), 11).is_empty());
    acquire(&mut replica, "blue", 20);
    snapshot(&mut replica, "blue", 20);
    assert_eq!(read(&mut replica, Vec::new(), 21), ["blue-m"]);
}

#[test]
fn a_notice_of_an_unknown_kind_is_skipped_and_read_no_more() {
    let mut replica = replica(&["blue"]);
    let mut strange = stored(5, "i-blue", 0);
    strange.row.kind = "teleported".to_owned();
    assert!(read(&mut replica, vec![strange], 1).is_empty());
    let next = replica.handle(Input::InterruptionsDue, at(2));
    assert!(matches!(&next[..], [Output::Call(Call::ReadInterruptions { after: 5, .. })]), "{next:?}");
}

#[test]
fn the_replica_that_lists_the_region_polls_instance_status_every_minute() {
    let mut replica = Replica::new(Settings::default(), 1, scope());
    let polls = |outputs: &[Output]| {
        outputs
            .iter()
            .any(|output| matches!(output, Output::Call(Call::PollInstanceStatus(polled)) if *polled == scope()))
    };
    assert!(!polls(&replica.handle(Input::InterruptionsDue, at(10))), "another replica lists the region");
    let region = Lease { scope: scope(), owner: "me".to_owned(), epoch: 1 };
    let granted = LeaseOutcome::Granted { lease: region, open: Box::default() };
    replica.handle(Input::RegionLeaseAnswered(Ok(granted)), at(10));
    assert!(polls(&replica.handle(Input::InterruptionsDue, at(11))));
    assert!(!polls(&replica.handle(Input::InterruptionsDue, at(71))), "the first poll has not ended");
    replica.handle(Input::InstanceStatusPolled(Err("denied".to_owned())), at(71));
    assert!(polls(&replica.handle(Input::InterruptionsDue, at(71))));
    replica.handle(Input::InstanceStatusPolled(Ok(())), at(72));
    assert!(!polls(&replica.handle(Input::InterruptionsDue, at(130))));
    assert!(polls(&replica.handle(Input::InterruptionsDue, at(131))));
}

#[test]
fn five_thousand_notices_reach_the_machines_of_a_thousand_clusters() {
    let mut replica = Replica::new(Settings::default(), 1, scope());
    let mut machines = Vec::new();
    for number in 0..1_000 {
        let (cluster, names) = (format!("c{number}"), ["a", "b", "c", "d", "e"].map(|name| format!("{number}{name}")));
        acquire(&mut replica, &cluster, 0);
        snapshot_of(&mut replica, &cluster, &names.each_ref().map(String::as_str), 0);
        machines.extend(names);
    }
    // In another order than that of the clusters: 7 and 5,000 have no common factor.
    let mixed: Vec<&String> = (0..5_000).map(|place| &machines[place * 7 % 5_000]).collect();
    let row = |(number, name): (u64, &&String)| stored(number, &format!("i-{name}"), 0);
    let mut removed = read(&mut replica, (1..).zip(&mixed).map(row).collect(), 1);
    removed.sort();
    let mut expected: Vec<String> = machines.iter().map(|name| format!("{name}-m")).collect();
    expected.sort();
    assert_eq!(removed, expected);
}
