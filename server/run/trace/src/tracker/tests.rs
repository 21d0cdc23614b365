use std::sync::Arc;

use cluster::{LaunchedFacts, NodeRecord, Object, Observation, PodPhase, PodRecord, Scheduling};
use controller::executor::Retry;
use controller::{ClaimOrder, DecisionReason, PlannedMachine, Removal};
use model::{CapacityType, Labels, LaunchOrder, PriorityLane, Requirements, Resources};

use super::*;

const INSTANCE: &str = "aws:///us-east-1a/i-1";

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn pod(name: &str, node: Option<&str>) -> PodRecord {
    PodRecord {
        key: PodKey { namespace: "shop".into(), name: name.into() },
        uid: format!("uid-{name}").into(),
        shape: Arc::default(),
        labels: Arc::default(),
        volumes: None,
        local_volumes: Box::default(),
        node: node.map(Into::into),
        nominated: None,
        own_nomination: None,
        phase: PodPhase::Pending,
        terminating: false,
        scheduling: Scheduling::Unschedulable,
        created: Some(at(1_000)),
        started: None,
        workload: Text::default(),
        daemon: None,
        mirror: false,
        do_not_disrupt: None,
        has_invalid_protection: false,
        other_scheduler: None,
        stated_cost: 0,
        invalid: None,
        ready: false,
        external_scale_up: None,
    }
}

fn machine(claim: &str, pods: &[&str]) -> PlannedMachine {
    PlannedMachine {
        claim: ClaimOrder {
            name: claim.into(),
            pool: "general".into(),
            node_class: Text::default(),
            labels: Labels::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Requirements::default(),
            requests: Resources::new(),
            expire_after: None,
            termination_grace_period: None,
            pool_hash: None,
            class_hash: None,
        },
        launch: order(claim),
        pods: pods.iter().map(|name| pod(name, None).key).collect(),
        reason: Text::default(),
    }
}

fn order(claim: &str) -> LaunchOrder {
    LaunchOrder {
        cluster: "blue".into(),
        cluster_uid: Text::default(),
        claim: claim.into(),
        attempt: 1,
        token: Text::default(),
        pool: "general".into(),
        node_class: Text::default(),
        capacity_type: CapacityType::Spot,
        options: Vec::new(),
        reservation: None,
        terms: Text::default(),
        template: None,
        lane: PriorityLane::default(),
        repeats: false,
    }
}

fn decision(id: u64, launches: Vec<PlannedMachine>, removals: &[&str]) -> ClusterCall {
    let mut decision = Decision::new(DecisionId(id), "blue".into(), DecisionReason::Provision, 1, at(2_000));
    let removal = |claim: &&str| Removal { claim: (*claim).into(), node: "n1".into(), reason: Text::default() };
    decision.due = at(1_900);
    decision.launches = launches;
    decision.removals = removals.iter().map(removal).collect();
    ClusterCall::RecordDecision(Box::new(decision))
}

fn launched(claim: &str) -> Outcome {
    Ok(Some(Event::Launched(Box::new(Launched {
        claim: claim.into(),
        attempt: 1,
        provider_id: INSTANCE.into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        image: Text::default(),
        unavailable: Vec::new(),
    }))))
}

fn tracker() -> Tracker {
    Tracker::new("blue".into(), "us-east-1".into())
}

fn acked(id: u64) -> Event {
    Event::InstructionAcked(InstructionId(id))
}

fn observed(object: Object) -> Event {
    Event::Observed(Observation::upsert(object))
}

fn node(ready: bool) -> Event {
    let node = NodeRecord { name: "n1".into(), provider_id: INSTANCE.into(), ready, ..NodeRecord::default() };
    observed(Object::Node(node))
}

/// Name, start and end of each span, sorted by the two.
fn times(spans: &[Span]) -> Vec<(&str, i64, i64)> {
    let mut times: Vec<_> =
        spans.iter().map(|span| (&*span.name, span.start.as_millis(), span.end.as_millis())).collect();
    times.sort_by_key(|(name, start, end)| (*start, *end, *name));
    times
}

fn create(claim: &str) -> Instruction {
    Instruction::CreateClaim(machine(claim, &[]).claim)
}

fn register(claim: &str) -> Instruction {
    let (labels, nominations) = (Labels::new(), Vec::new());
    Instruction::RegisterNode { claim: claim.into(), node: "n1".into(), labels, taints: Vec::new(), nominations }
}

fn mark(claim: &str) -> Instruction {
    let facts = LaunchedFacts {
        provider_id: INSTANCE.into(),
        labels: Labels::new(),
        capacity: Resources::new(),
        allocatable: Resources::new(),
        image: Text::default(),
    };
    Instruction::MarkLaunched { claim: claim.into(), facts }
}

/// A tracker whose decision 7 has launched `c1` for pod `a`, at 3,000.
fn with_a_launch() -> Tracker {
    let mut tracker = tracker();
    tracker.observe(&observed(Object::Pod(pod("a", None))), at(1_400));
    assert!(tracker.begin_call(CommandId(1), &decision(7, vec![machine("c1", &["a"])], &[]), at(2_000)).is_some());
    tracker.end_call(CommandId(1), &Ok(Some(Event::Recorded(DecisionId(7)))), at(2_010));
    tracker.instruct(InstructionId(10), &create("c1"), at(2_020));
    tracker.observe(&acked(10), at(2_050));
    assert!(tracker.begin_call(CommandId(2), &ClusterCall::Launch(Box::new(order("c1"))), at(2_060)).is_some());
    tracker.end_call(CommandId(2), &launched("c1"), at(3_000));
    tracker
}

#[test]
fn a_launch_is_one_trace_from_the_creation_of_its_first_pod_until_its_pods_are_bound() {
    let mut tracker = with_a_launch();
    tracker.instruct(InstructionId(11), &mark("c1"), at(3_010));
    tracker.observe(&acked(11), at(3_020));
    tracker.observe(&node(false), at(8_000));
    tracker.instruct(InstructionId(12), &register("c1"), at(8_010));
    tracker.observe(&acked(12), at(8_100));
    tracker.observe(&node(true), at(9_000));
    tracker.observe(&observed(Object::Pod(pod("a", Some("n1")))), at(9_400));
    let initialize = Instruction::InitializeNode { claim: "c1".into(), node: "n1".into() };
    tracker.instruct(InstructionId(13), &initialize, at(9_500));
    tracker.observe(&acked(13), at(9_600));
    let spans = tracker.take_finished();
    let expected = [
        ("observe", 1_000, 1_400),
        ("decision", 1_000, 9_600),
        ("plan", 1_900, 2_000),
        ("record", 2_000, 2_010),
        ("create", 2_020, 2_050),
        ("launch", 2_060, 3_000),
        ("register", 3_000, 8_100),
        ("mark_launched", 3_010, 3_020),
        ("ready", 8_100, 9_000),
        ("bound", 9_000, 9_400),
        ("initialize", 9_500, 9_600),
    ];
    assert_eq!(times(&spans), expected);
    let root = SpanContext::of_decision(&"blue".into(), 7, at(2_000));
    for span in &spans {
        assert_eq!(span.context.trace(), root.trace());
        assert_eq!(span.parent, (span.name != "decision").then_some(root.span()), "{span:?}");
        let of_instance = ["launch", "register", "mark_launched", "ready", "bound", "initialize"];
        assert_eq!(span.text("host.id") == Some("i-1"), of_instance.contains(&&*span.name), "{span:?}");
    }
    let uids = |name: &str| spans.iter().filter(|span| span.name == name).find_map(|span| span.text("k8s.pod.uid"));
    assert_eq!((uids("observe"), uids("bound")), (Some("uid-a"), Some("uid-a")));
}

#[test]
fn a_removal_is_one_trace_until_its_nodeclaim_is_deleted() {
    let mut tracker = tracker();
    tracker.begin_call(CommandId(1), &decision(8, Vec::new(), &["c1"]), at(2_000));
    tracker.end_call(CommandId(1), &Err(Retry { after: None, why: "no answer in time".into() }), at(2_100));
    tracker.begin_call(CommandId(1), &decision(8, Vec::new(), &["c1"]), at(2_200));
    tracker.end_call(CommandId(1), &Ok(None), at(2_300));
    let drain = Instruction::Drain {
        claim: "c1".into(),
        node: "n1".into(),
        provider_id: INSTANCE.into(),
        deadline: None,
        interruption: false,
        only_if_empty: false,
        reason: Text::default(),
    };
    tracker.instruct(InstructionId(20), &drain, at(2_400));
    tracker.observe(&acked(20), at(60_000));
    let (claim, provider_id) = (ClaimName::from("c1"), ProviderId::from(INSTANCE));
    let terminate =
        ClusterCall::Terminate { cluster_uid: Text::default(), claim: claim.clone(), provider_id: provider_id.clone() };
    for (id, begun) in [(2, 60_100), (3, 62_000)] {
        assert!(tracker.begin_call(CommandId(id), &terminate, at(begun)).is_some());
        tracker.end_call(CommandId(id), &Ok(None), at(begun + 10));
    }
    tracker.observe(&Event::InstanceGone(provider_id.clone()), at(65_000));
    let (node, reason) = (Some("n1".into()), Text::default());
    tracker.instruct(InstructionId(21), &Instruction::DeleteClaim { claim, node, provider_id, reason }, at(65_010));
    tracker.observe(&acked(21), at(65_100));
    let spans = tracker.take_finished();
    let expected = [
        ("plan", 1_900, 2_000),
        ("decision", 1_900, 65_100),
        ("record", 2_000, 2_100),
        ("record", 2_200, 2_300),
        ("drain", 2_400, 60_000),
        ("terminate", 60_100, 65_000),
        ("delete", 65_010, 65_100),
    ];
    assert_eq!(times(&spans), expected);
    let failed: Vec<_> = spans.iter().filter_map(|span| span.error.as_deref()).collect();
    assert_eq!(failed, ["no answer in time"], "the first try of the record");
    assert!(
        spans
            .iter()
            .filter(|span| ["drain", "terminate", "delete"].contains(&&*span.name))
            .all(|span| { span.text("host.id") == Some("i-1") && span.text("k8s.node.name") == Some("n1") })
    );
}

#[test]
fn the_next_owner_continues_the_trace_of_a_recorded_launch() {
    let mut tracker = tracker();
    let machine = machine("c1", &["a"]);
    let planned = DecidedLaunch { machine, decision: DecisionId(7), at: at(2_000) };
    let launch = OpenLaunch {
        claim: "c1".into(),
        attempt: 1,
        state: controller::LaunchState::Open,
        planned: Some(Box::new(planned)),
    };
    let acquired = Event::LeaseAcquired { uid: "u".into(), launches: vec![launch] };
    tracker.observe(&acquired, at(5_000));
    let context = tracker.begin_call(CommandId(1), &ClusterCall::Launch(Box::new(order("c1"))), at(6_000)).unwrap();
    assert_eq!(context.trace(), SpanContext::of_decision(&"blue".into(), 7, at(2_000)).trace());
    tracker.end_call(CommandId(1), &launched("c1"), at(7_000));
    tracker.close();
    assert_eq!(times(&tracker.take_finished()), [("launch", 6_000, 7_000)], "its beginning is not known");
}

#[test]
fn a_launch_that_never_becomes_ready_is_given_up_with_what_was_seen_of_it() {
    let mut tracker = with_a_launch();
    tracker.observe(&observed(Object::Pod(pod("a", Some("n9")))), at(9_400));
    let _until_launched = tracker.take_finished();
    tracker.observe(&Event::Tick, at(2_000) + GIVE_UP_LAUNCH_AFTER - Millis::new(1));
    assert!(tracker.take_finished().is_empty());
    tracker.observe(&Event::Tick, at(2_000) + GIVE_UP_LAUNCH_AFTER + SWEEP_INTERVAL);
    assert_eq!(times(&tracker.take_finished()), [("decision", 1_000, 9_400), ("bound", 9_400, 9_400)]);
    assert!(tracker.launches.is_empty() && tracker.decisions.is_empty() && tracker.planned.is_empty());
    assert!(tracker.instances.is_empty() && tracker.calls.is_empty() && tracker.instructions.is_empty());
}

#[test]
fn a_pod_that_is_planned_again_is_awaited_by_the_later_machine_alone() {
    let mut tracker = with_a_launch();
    tracker.begin_call(CommandId(9), &decision(8, vec![machine("c2", &["a"])], &[]), at(4_000));
    assert_eq!(tracker.planned.values().map(ToString::to_string).collect::<Vec<_>>(), ["c2"]);
    assert_eq!(tracker.launches["c1"].waiting_pods().count(), 0);
    assert_eq!(tracker.launches["c2"].waiting_pods().count(), 1);
}

#[test]
fn one_instruction_of_a_decision_carries_the_span_of_its_first_pod() {
    let mut tracker = tracker();
    tracker.observe(&observed(Object::Pod(pod("b", None))), at(1_400));
    tracker.observe(&observed(Object::Pod(pod("a", None))), at(1_500));
    let machines = vec![machine("c1", &["a"]), machine("c2", &["b"])];
    tracker.begin_call(CommandId(1), &decision(7, machines, &[]), at(2_000));
    let root = SpanContext::of_decision(&"blue".into(), 7, at(2_000));
    let first = tracker.instruct(InstructionId(10), &create("c1"), at(2_020)).unwrap();
    assert_eq!(first.first_pod, Some(("uid-b".into(), root.child("observe", ""))), "it arrived first");
    let second = tracker.instruct(InstructionId(11), &create("c2"), at(2_020)).unwrap();
    assert_eq!(second.first_pod, None);
    assert_ne!(first.span, second.span);
    let again = tracker.instruct(InstructionId(10), &create("c1"), at(3_000)).unwrap();
    assert_eq!(again.span, first.span, "an instruction that is sent again is the same span");
}

#[test]
fn decisions_beyond_the_bound_have_no_trace() {
    let mut tracker = tracker();
    let machines = (0..=MAX_MACHINES).map(|number| machine(&format!("c{number}"), &[])).collect();
    assert_eq!(tracker.begin_call(CommandId(1), &decision(7, machines, &[]), at(2_000)), None);
    assert!(tracker.take_finished().is_empty() && tracker.launches.is_empty());
}
