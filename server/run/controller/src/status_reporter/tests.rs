mod conditions;
mod documents;
mod drains;
mod interruptions;
mod machines;
mod nodes;
mod pods;

use std::sync::Arc;

use crate::status::{ConditionStatus, EventOrder, ObjectRef, StatusPatch};
use crate::testing::SynchronousController;
use crate::{ClusterCall, Effect, Event, EventReason, FeatureGates, Instruction, InstructionId, PlanOutcome, Settings};
use cluster::testing::{bound_to, claim, cpu, initialized_cluster, node, pod, pool, text};
use cluster::{
    ClaimDriftFacts, ClaimRecord, ClassRecord, ClusterSnapshot, ConditionDigest, NodeRecord, Object, Observation,
    PodBudgetRecord, PodRecord, PoolRecord, UnmetCondition,
};
use model::disruption_policy::{Budget, BudgetLimit};
use model::input::PlanningInput;
use model::node_class::{NodeClassQuery, NodeClassStatus, Resolution, ResolvedNodeClass, SubnetEntry};
use model::plan::{Plan, PlanReport, Reason, ReasonCode, Unschedulable};
use model::{LabelSelector, Millis, NotReady, Resources, Text, Timestamp};

fn nothing(input: &PlanningInput) -> PlanOutcome {
    let pods: Vec<u32> = (0..u32::try_from(input.pods.len()).unwrap_or(0)).collect();
    let reason = || Reason { pool: None, code: ReasonCode::Resources, message: "no pool is large enough".to_owned() };
    let entry = |pod: &u32| Unschedulable { pod: *pod, reasons: [reason()].into(), fits_if: [].into() };
    let report = PlanReport { unschedulable: pods.iter().map(entry).collect(), ..PlanReport::default() };
    Ok((Plan { unschedulable: pods, ..Plan::default() }, report))
}

/// A controller, and what it has written so far; every write is answered at once, unless `mute`.
struct Fixture {
    controller: SynchronousController,
    written: Vec<(ObjectRef, StatusPatch)>,
    events: Vec<EventOrder>,
    unanswered: Vec<InstructionId>,
    mute: bool,
}

impl Fixture {
    fn new(snapshot: ClusterSnapshot, settings: Settings) -> Self {
        Self::planned_by(nothing, snapshot, settings)
    }

    fn planned_by(planner: fn(&PlanningInput) -> PlanOutcome, snapshot: ClusterSnapshot, settings: Settings) -> Self {
        let controller = SynchronousController::new(settings, planner);
        let mut world =
            Self { controller, written: Vec::new(), events: Vec::new(), unanswered: Vec::new(), mute: false };
        world.handle(0, Event::AgentConnected);
        world.observe(0, Observation::Snapshot(Box::new(snapshot)));
        world
    }

    fn handle(&mut self, at: i64, event: Event) -> Vec<Effect> {
        let effects = self.controller.handle(event, Timestamp::from_millis(at));
        let mut instructions = Vec::new();
        for effect in &effects {
            let Effect::Instruct { id, instruction } = effect else { continue };
            match instruction.as_ref() {
                Instruction::WriteStatus(order) => {
                    self.written.push((order.subject.clone(), order.patch.clone()));
                    instructions.push(*id);
                }
                Instruction::RecordEvent(order) => self.events.push(order.clone()),
                _ => {}
            }
        }
        if self.mute {
            self.unanswered.extend(instructions);
        } else {
            for instruction in instructions {
                self.controller.handle(Event::InstructionAcked(instruction), Timestamp::from_millis(at));
            }
        }
        effects
    }

    fn observe(&mut self, at: i64, observation: Observation) {
        self.handle(at, Event::Observed(observation));
    }

    fn tick(&mut self, at: i64) -> Vec<Effect> {
        self.handle(at, Event::Tick)
    }

    /// The conditions that were last written for `subject`, as `Type=Status Reason`.
    fn conditions(&self, subject: &ObjectRef) -> Vec<String> {
        let last = self.written.iter().rev().find(|(about, _)| about == subject);
        let last = last.into_iter().flat_map(|(_, patch)| &patch.conditions);
        last.map(|one| format!("{}={} {}", one.kind, one.status.as_str(), one.reason)).collect()
    }

    /// The Events of this reason, as `object: message`.
    fn said(&self, reason: EventReason) -> Vec<String> {
        let events = self.events.iter().filter(|event| event.reason == reason);
        events.map(|event| format!("{}: {}", event.subject, event.message)).collect()
    }

    fn reasons(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.reason.as_str()).collect()
    }
}

fn p() -> ObjectRef {
    ObjectRef::Pool(text("p"))
}

fn class() -> ClassRecord {
    ClassRecord { name: text("default"), generation: 1, ..ClassRecord::default() }
}

fn snapshot(machines: &[&str]) -> ClusterSnapshot {
    let state = initialized_cluster(pool(), machines);
    ClusterSnapshot {
        pools: vec![pool()],
        classes: vec![class()],
        nodes: state.nodes().cloned().collect(),
        claims: state.claims().cloned().collect(),
        ..ClusterSnapshot::default()
    }
}

#[test]
fn a_pool_status_has_its_usage_and_readiness() {
    let world = Fixture::new(snapshot(&["m0", "m1"]), Settings::default());
    let (_, patch) = world.written.iter().find(|(subject, _)| *subject == p()).unwrap();
    // Two machines of 2 CPUs and 20 pods each.
    let expected = Resources::from_iter([("cpu", 4_000), ("pods", 40), ("nodes", 2)]);
    assert_eq!(patch.usage.as_ref(), Some(&expected));
    let last = [
        "NodeClassReady=True NodeClassReady",
        "NodeRegistrationHealthy=Unknown AwaitingReconciliation",
        "Ready=True Ready",
        "ValidationSucceeded=True ValidationSucceeded",
    ];
    assert_eq!(world.conditions(&p()), last);
}

#[test]
fn a_deleted_or_missing_class_makes_its_pools_not_ready() {
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    world.observe(2_000, Observation::upsert(Object::Class(ClassRecord { deleting: true, ..class() })));
    let terminating = world.conditions(&p());
    assert_eq!(terminating[0], "NodeClassReady=False NodeClassTerminating");
    assert_eq!(terminating[2], "Ready=False UnhealthyDependents");
    let mut lonely = pool();
    lonely.pool.not_ready = Some(NotReady::NodeClass(text("there is no EC2NodeClass default")));
    let missing =
        Fixture::new(ClusterSnapshot { pools: vec![lonely], ..ClusterSnapshot::default() }, Settings::default());
    assert_eq!(missing.conditions(&p())[0], "NodeClassReady=False NodeClassNotFound");
    let mut odd = pool();
    odd.meta.invalid = Some(text("requirements: odd"));
    let invalid = Fixture::new(ClusterSnapshot { pools: vec![odd], ..snapshot(&[]) }, Settings::default());
    assert_eq!(invalid.conditions(&p())[3], "ValidationSucceeded=False NodePoolValidationFailed");
}

#[test]
fn an_unchanged_status_is_not_written_again_and_a_burst_is_one_write() {
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    let before = world.written.len();
    for second in 1..100 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(bound_to("m9", pod("a", second)))));
    }
    assert_eq!(world.written.len(), before, "pods concern no status");
    let claims: Vec<String> = (0..50).map(|number| format!("x{number}")).collect();
    for name in &claims {
        world.observe(200_000, Observation::upsert(Object::Claim(ClaimRecord { ours: false, ..claim(name) })));
    }
    world.tick(201_000);
    let pools = world.written[before..].iter().filter(|(subject, _)| *subject == p()).count();
    // One for the first claim, one a second later for the 49 others.
    assert_eq!(pools, 2);
}

#[test]
fn an_object_has_one_write_in_flight_and_a_failed_one_is_retried_a_minute_later() {
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    world.mute = true;
    world.observe(10_000, Observation::upsert(Object::Claim(ClaimRecord { ours: false, ..claim("x0") })));
    let (count, first) = (world.written.len(), world.unanswered[0]);
    world.observe(20_000, Observation::upsert(Object::Claim(ClaimRecord { ours: false, ..claim("x1") })));
    assert_eq!(world.written.len(), count, "the first is not answered yet");
    let failed =
        Event::InstructionFailed { instruction: first, reason: "the API server is away".to_owned(), unmet: false };
    world.handle(30_000, failed);
    assert_eq!(world.written.len(), count);
    assert_eq!(world.controller.next_wakeup(), Some(Timestamp::from_millis(90_000)));
    world.tick(90_000);
    assert_eq!(world.written.len(), count + 1);
    let (_, patch) = world.written.last().unwrap();
    assert_eq!(patch.usage.as_ref().map(|usage| usage.get("nodes")), Some(2), "what is true by then is written");
}

#[test]
fn pools_managed_by_karpenter_and_their_classes_get_no_status() {
    let mut with_karpenter = snapshot(&[]);
    with_karpenter.autoscalers =
        vec![cluster::AutoscalerRecord { name: text("karpenter"), live: true, evidence: text("") }];
    let world = Fixture::new(with_karpenter, Settings::default());
    assert_eq!(world.written, []);
}

/// The query for the EC2NodeClass among `effects`.
fn node_class_query(effects: &[Effect]) -> Option<Box<NodeClassQuery>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::ResolveNodeClass(query)) => Some(query.clone()),
        _ => None,
    })
}

#[test]
fn a_class_gets_the_conditions_and_the_status_that_it_is_resolved_to() {
    let default = ObjectRef::Class(text("default"));
    let mut with_spec = snapshot(&[]);
    with_spec.classes = vec![ClassRecord { spec: Some(Arc::default()), ..class() }];
    let settings = Settings { class_facts: crate::ClassFacts::Resolved, ..Settings::default() };
    let mut real = Fixture::new(with_spec, settings);
    assert_eq!(real.conditions(&default), Vec::<String>::new(), "the previous conditions stay until it is resolved");
    // The first request is not answered; it is sent again after two minutes.
    let query = node_class_query(&real.tick(120_000)).unwrap();
    assert_eq!((query.cluster.as_ref(), query.name.as_ref()), ("c", "default"));
    let subnet = SubnetEntry { id: text("subnet-1"), zone: "z".into(), zone_id: None };
    let missing = Resolution::Missing { reason: text("SecurityGroupsNotFound"), message: text("no group has the tag") };
    let unknown = Resolution::Unknown { reason: text("RequestFailed"), message: text("IAM does not answer") };
    let resolved = ResolvedNodeClass {
        status: NodeClassStatus { subnets: Some(vec![subnet]), ..NodeClassStatus::default() },
        conditions: [
            ("AMIsReady", Resolution::Met),
            ("CapacityReservationsReady", Resolution::Met),
            ("InstanceProfileReady", unknown),
            ("SecurityGroupsReady", missing),
            ("SubnetsReady", Resolution::Met),
            ("ValidationSucceeded", Resolution::Met),
        ]
        .into(),
        ..ResolvedNodeClass::default()
    };
    let event = |query| Event::NodeClassResolved { query, resolved: Box::new(resolved.clone()) };
    let effects = real.handle(130_000, event(query));
    assert_eq!(
        real.conditions(&default),
        [
            "AMIsReady=True AMIsReady",
            "CapacityReservationsReady=True CapacityReservationsReady",
            "InstanceProfileReady=Unknown RequestFailed",
            "Ready=False UnhealthyDependents",
            "SecurityGroupsReady=False SecurityGroupsNotFound",
            "SubnetsReady=True SubnetsReady",
            "ValidationSucceeded=True ValidationSucceeded",
        ]
    );
    let (_, patch) = real.written.iter().rev().find(|(subject, _)| *subject == default).unwrap();
    assert_eq!(patch.node_class.as_deref(), Some(&resolved.status));
    assert_eq!((patch.zones.as_ref(), patch.add_finalizer), (None, Some("karpenter.k8s.aws/termination")));
    let findings = effects.iter().filter(|effect| matches!(effect, Effect::ReportFinding(_))).count();
    assert_eq!(findings, 2, "one for each condition that is not met");
    // The next resolution follows after a minute and this cluster's share of the spread.
    assert_eq!(node_class_query(&real.tick(189_000)), None);
    let again = node_class_query(&real.tick(210_000)).unwrap();
    let effects = real.handle(211_000, event(again));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::ReportFinding(_))), "nothing has changed");
}

/// Its NodePools are gone, so nothing resolves it any more.
#[test]
fn a_deleted_class_that_was_not_resolved_loses_its_finalizer() {
    let default = ObjectRef::Class(text("default"));
    let going = ClassRecord { deleting: true, has_finalizer: true, spec: Some(Arc::default()), ..class() };
    let settings = Settings { class_facts: crate::ClassFacts::Resolved, ..Settings::default() };
    let alone = ClusterSnapshot { classes: vec![going], ..ClusterSnapshot::default() };
    let world = Fixture::new(alone, settings);
    let (_, patch) = world.written.iter().find(|(subject, _)| *subject == default).expect("a write");
    assert_eq!(patch.remove_finalizer, Some("karpenter.k8s.aws/termination"));
}

#[test]
fn classes_of_a_simulated_cloud_are_ready() {
    let default = ObjectRef::Class(text("default"));
    let simulated = Fixture::new(snapshot(&[]), Settings::default());
    let (_, patch) = simulated.written.iter().find(|(subject, _)| *subject == default).unwrap();
    assert_eq!(patch.zones, Some(vec![text("z")]));
    assert!(patch.conditions.iter().all(|one| one.status == ConditionStatus::True));
}

#[test]
fn a_class_that_is_deleted_stays_until_its_last_node_claim_is_gone() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    let going = ClassRecord { deleting: true, has_finalizer: true, ..class() };
    world.observe(2_000, Observation::upsert(Object::Class(going)));
    let default = ObjectRef::Class(text("default"));
    let last = |world: &Fixture| {
        world.written.iter().rev().find(|(s, _)| *s == default).map(|(_, c)| (c.add_finalizer, c.remove_finalizer))
    };
    assert_eq!(last(&world), Some((None, None)));
    assert!(world.reasons().contains(&"WaitingOnNodeClaimTermination"));
    // Its instance ends first: a NodeClaim deleted before it still counts as long as the instance
    // exists.
    world.handle(3_000, Event::InstanceGone(text("aws:///z/i-m0")));
    world.observe(3_000, Observation::Delete(cluster::Key::Claim(text("m0"))));
    world.tick(4_000);
    assert_eq!(last(&world), Some((None, Some("karpenter.k8s.aws/termination"))));
}

#[test]
fn a_node_claim_status_names_what_its_node_lacks_and_stays_initialized() {
    let claim_subject = ObjectRef::Claim(text("m0"));
    let mut young = node("m0");
    young.ready = false;
    young.labels.remove(model::labels::INITIALIZED);
    let waiting = ClusterSnapshot { nodes: vec![young], claims: vec![claim("m0")], ..snapshot(&[]) };
    let mut world = Fixture::new(waiting, Settings::default());
    world.tick(1_000);
    let last = world.conditions(&claim_subject);
    assert_eq!(
        last,
        [
            "Initialized=Unknown NodeNotReady",
            "Launched=True Launched",
            "Ready=Unknown UnhealthyDependents",
            "Registered=True Registered",
        ]
    );
    world.observe(5_000, Observation::upsert(Object::Node(node("m0"))));
    let last = world.conditions(&claim_subject);
    assert_eq!(
        &last[..2],
        ["ConsistentStateFound=True ConsistentStateFound", "Consolidatable=False PodEvents"],
        "consolidateAfter is 30 s"
    );
    assert_eq!(
        &last[2..],
        ["Initialized=True Initialized", "Launched=True Launched", "Ready=True Ready", "Registered=True Registered"]
    );
    assert_eq!(world.reasons(), ["Initialized", "ConsistentStateFound", "Ready"], "two conditions have changed");
}

#[test]
fn a_drifted_machine_has_the_condition_drifted_until_it_matches_its_pool_again() {
    let template = |hash: &str| {
        let mut pool = pool();
        pool.drift.own_hash = Some((text(hash), text("1")));
        pool.disruption.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
        pool
    };
    let drift = |since: Option<i64>| ClaimDriftFacts {
        own_hash: Some((text("old"), text("1"))),
        drifted_since: since.map(Timestamp::from_millis),
        ..ClaimDriftFacts::default()
    };
    let mut shown = snapshot(&["m0"]);
    shown.pools = vec![template("old")];
    shown.claims[0].drift = drift(None);
    let m0 = ObjectRef::Claim(text("m0"));
    let mut world = Fixture::new(shown.clone(), Settings::default());
    assert_eq!(world.conditions(&m0)[2], "Initialized=True Initialized");
    world.observe(5_000, Observation::upsert(Object::Pool(template("new"))));
    world.tick(10_000);
    assert_eq!(world.conditions(&m0)[2], "Drifted=True NodePoolDrifted");
    let removed = |world: &Fixture| {
        let last = world.written.iter().rev().find(|(about, _)| *about == m0);
        last.map(|(_, patch)| patch.remove_conditions.clone()).unwrap_or_default()
    };
    assert_eq!(removed(&world), Vec::<&str>::new());
    // The cluster shows the condition, and then the template is changed back.
    let claim = ClaimRecord { drift: drift(Some(10_000)), ..shown.claims[0].clone() };
    world.observe(11_000, Observation::upsert(Object::Claim(claim)));
    world.observe(15_000, Observation::upsert(Object::Pool(template("old"))));
    world.tick(20_000);
    assert_eq!((removed(&world), world.conditions(&m0).len()), (vec!["Drifted"], 6));
    let claim = ClaimRecord { drift: drift(None), ..shown.claims[0].clone() };
    world.observe(21_000, Observation::upsert(Object::Claim(claim)));
    world.tick(40_000);
    assert_eq!(removed(&world), Vec::<&str>::new());
}

#[test]
fn a_claim_without_the_current_hash_of_its_class_gets_it_unless_it_has_drifted() {
    let hash = |hash: &str, version: &str| Some((text(hash), text(version)));
    // What is written for a NodeClaim with this hash, whose NodePool has the template `template`.
    let written = |known: Option<(Text, Text)>, template: &str| {
        let mut pool = pool();
        pool.drift.own_hash = hash(template, "1");
        pool.drift.own_class_hash = hash("now", "2");
        pool.disruption.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
        let mut shown = ClusterSnapshot { pools: vec![pool], ..snapshot(&["m0"]) };
        let drift = ClaimDriftFacts { own_hash: hash("a", "1"), own_class_hash: known, ..ClaimDriftFacts::default() };
        shown.claims[0].drift = drift;
        let mut world = Fixture::new(shown.clone(), Settings::default());
        world.tick(10_000);
        let of_claim = world.written.iter().filter(|(about, _)| *about == ObjectRef::Claim(text("m0")));
        let annotations: Vec<String> = of_claim
            .flat_map(|(_, patch)| patch.annotations.iter().map(|(key, value)| format!("{key}={value}")))
            .collect();
        // The cluster shows what was written, and nothing is written again.
        let before = world.written.len();
        shown.claims[0].drift.own_class_hash = hash("now", "2");
        world.observe(11_000, Observation::upsert(Object::Claim(shown.claims[0].clone())));
        world.tick(40_000);
        let later: Vec<&StatusPatch> = world.written[before..].iter().map(|(_, patch)| patch).collect();
        assert!(later.iter().all(|patch| patch.annotations.is_empty()), "{later:?}");
        annotations
    };
    let both = |hash: &str| {
        [format!("fleetwright.dev/ec2nodeclass-hash={hash}"), "fleetwright.dev/ec2nodeclass-hash-version=2".to_owned()]
    };
    assert_eq!(written(hash("now", "2"), "a"), Vec::<String>::new());
    assert_eq!(written(hash("old", "2"), "a"), Vec::<String>::new(), "a hash of this version stays: the class changed");
    assert_eq!(written(None, "a"), both("now"), "a NodeClaim of Karpenter");
    assert_eq!(written(hash("old", "1"), "a"), both("now"), "a NodeClaim of an earlier version");
    assert_eq!(written(hash("old", "1"), "b"), both("old"), "it has drifted: only the version is written");
    assert_eq!(written(None, "b"), Vec::<String>::new(), "it has drifted, and has no hash");
}

#[test]
fn a_deleted_pool_launches_nothing_and_its_claims_are_removed_by_garbage_collection() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    let mut going: PoolRecord = pool();
    going.meta.deleting = true;
    going.pool.not_ready = Some(NotReady::NodePool(text("it is being deleted")));
    world.observe(2_000, Observation::upsert(Object::Pool(going)));
    assert_eq!(world.conditions(&p())[3], "ValidationSucceeded=True ValidationSucceeded");
    world.observe(3_000, Observation::Delete(cluster::Key::Pool(text("p"))));
    let effects = world.handle(
        4_000,
        Event::Observed(Observation::upsert(Object::Claim(ClaimRecord { deleting: true, ..claim("m0") }))),
    );
    let drains = |effect: &Effect| matches!(effect, Effect::Instruct { instruction, .. } if matches!(**instruction, Instruction::Drain { .. }));
    assert!(effects.iter().any(drains), "{effects:?}");
    world.tick(5_000);
    assert!(world.reasons().contains(&"DisruptionTerminating"), "{:?}", world.reasons());
}

#[test]
fn an_initialized_machine_is_checked_every_ten_seconds_and_a_new_one_at_the_next_pass() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    let m0 = ObjectRef::Claim(text("m0"));
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=False PodEvents", "consolidateAfter is 30 s");
    // Full passes are at 0, 10, 20 and 30 s; then 30 s have passed since initialization.
    for second in 1..30 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(pod("a", second))));
    }
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=False PodEvents");
    world.observe(29_000, Observation::upsert(Object::Claim(claim("m1"))));
    world.observe(29_000, Observation::upsert(Object::Node(node("m1"))));
    world.tick(30_000);
    world.tick(31_000);
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=True Consolidatable");
    world.observe(32_000, Observation::upsert(Object::Pod(bound_to("m0", pod("b", 1)))));
    world.tick(33_000);
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=False PodEvents", "it is written with the pod event");
    assert_eq!(
        world.conditions(&ObjectRef::Claim(text("m1")))[2],
        "Initialized=True Initialized",
        "this one is at once"
    );
    let next = world.controller.next_wakeup().filter(|at| *at <= Timestamp::from_millis(41_000));
    assert!(next.is_some(), "a change is checked without another event");
    world.tick(41_000);
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=False PodEvents");
}

#[test]
fn a_failed_write_of_an_initialized_machine_is_retried_although_it_is_checked_rarely() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    world.mute = true;
    world.observe(40_000, Observation::upsert(Object::Pod(pod("a", 1))));
    let m0 = ObjectRef::Claim(text("m0"));
    let writes = |world: &Fixture| world.written.iter().filter(|(subject, _)| *subject == m0).count();
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=True Consolidatable");
    let before = writes(&world);
    for instruction in std::mem::take(&mut world.unanswered) {
        let reason = "the API server is away".to_owned();
        world.handle(42_000, Event::InstructionFailed { instruction, reason, unmet: false });
    }
    world.tick(101_999);
    assert_eq!(writes(&world), before, "a minute after 42 s");
    world.tick(102_000);
    assert_eq!(writes(&world), before + 1);
}

#[test]
fn conditions_written_by_another_process_are_not_written_again() {
    let m0 = ObjectRef::Claim(text("m0"));
    let holds = |standing: ConditionDigest, kind: &str| standing.with(kind, "True", kind, "");
    let launched = ["ConsistentStateFound", "Consolidatable", "Initialized", "Launched"];
    let launched = launched.into_iter().fold(ConditionDigest::default(), holds);
    let world = |standing| {
        let mut shown = snapshot(&["m0"]);
        shown.claims[0].condition_digest = standing;
        shown.pods = vec![bound_to("m0", pod("a", 1))];
        Fixture::new(shown, Settings::default())
    };
    // No written status has the condition `Registered`.
    let last = world(launched).conditions(&m0);
    assert_eq!(
        (last[1].as_str(), last[5].as_str()),
        ("Consolidatable=True Consolidatable", "Registered=True Registered")
    );
    let mut world = world(holds(launched, "Registered"));
    for at in [10_000, 20_000] {
        world.observe(at, Observation::upsert(Object::Pod(pod("b", at))));
        assert!(world.conditions(&m0).is_empty(), "all of it is written already, and no pod was added");
    }
    world.observe(25_000, Observation::upsert(Object::Pod(bound_to("m0", pod("c", 1)))));
    // The next full pass.
    world.tick(31_000);
    assert_eq!(world.conditions(&m0)[1], "Consolidatable=False PodEvents");
}

/// Later moments than before that were written into the NodeClaim `m0`, with those of the writes.
fn pod_events(world: &mut Fixture, seconds: std::ops::Range<i64>, event: impl Fn(i64) -> bool) -> Vec<(i64, i64)> {
    let last = |world: &Fixture| world.written.iter().filter_map(|(_, patch)| patch.last_pod_event).max();
    let mut written = Vec::new();
    for second in seconds {
        let before = last(world);
        if event(second) {
            let other = PodRecord { uid: Text::from(format!("u-{second}")), ..bound_to("m0", pod("a", 1)) };
            world.observe(second * 1_000 - 300, Observation::upsert(Object::Pod(other)));
        }
        world.tick(second * 1_000);
        written.extend(last(world).filter(|at| Some(*at) > before).map(|at| (second, at.as_millis() / 1_000)));
    }
    written
}

#[test]
fn the_last_pod_event_is_written_at_once_and_then_at_most_every_ten_seconds() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    // Events at 49.7 s, 50.7 s … 54.7 s, rounded up: the first is written at once, the last when ten seconds are over.
    let written = pod_events(&mut world, 40..80, |second| (50..=55).contains(&second));
    assert_eq!(written, [(50, 50), (60, 55)]);
    // A while later: at once again. (A pass runs at most once a second.)
    let written = pod_events(&mut world, 80..120, |second| second == 90);
    assert_eq!(written, [(90, 90)]);
    // A pod event every second for ten minutes, written every ten seconds: 600 / 11 = 54 to
    // 600 / 10 = 60 writes.
    let written = pod_events(&mut world, 120..720, |_| true);
    assert!((54..=60).contains(&written.len()), "{written:?}");
}

#[test]
fn where_consolidation_waits_long_or_not_at_all_pod_events_are_written_once_a_minute() {
    for after in [None, Some(Millis::ZERO), Some(Millis::from_hours(1))] {
        let mut pool = pool();
        pool.disruption.consolidate_after = after;
        let mut world = Fixture::new(ClusterSnapshot { pools: vec![pool], ..snapshot(&["m0"]) }, Settings::default());
        let written = pod_events(&mut world, 100..700, |_| true);
        assert!((9..=11).contains(&written.len()), "{after:?}: {written:?}");
    }
}

#[test]
fn a_written_pod_event_is_not_written_again_after_a_restart() {
    let mut shown = snapshot(&["m0"]);
    shown.claims[0].last_pod_event = Some(Timestamp::from_millis(20_000));
    shown.pods = vec![bound_to("m0", pod("a", 1))];
    let mut world = Fixture::new(shown, Settings::default());
    assert_eq!(pod_events(&mut world, 100..160, |_| false), []);
    assert_eq!(pod_events(&mut world, 160..180, |second| second == 165), [(165, 165)]);
}

#[test]
fn a_pod_event_whose_write_failed_is_written_later() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    world.tick(90_000);
    world.mute = true;
    assert_eq!(pod_events(&mut world, 100..103, |second| second == 100), [(100, 100)]);
    for instruction in std::mem::take(&mut world.unanswered) {
        let reason = "the API server is away".to_owned();
        world.handle(103_000, Event::InstructionFailed { instruction, reason, unmet: false });
    }
    world.mute = false;
    let written = |world: &Fixture| world.written.iter().filter(|(_, patch)| patch.last_pod_event.is_some()).count();
    let before = written(&world);
    world.tick(162_999);
    assert_eq!(written(&world), before, "a minute after it was refused");
    world.tick(163_000);
    assert_eq!(written(&world), before + 1);
    assert_eq!(world.written.last().unwrap().1.last_pod_event, Some(Timestamp::from_millis(100_000)));
}

#[test]
fn a_node_with_less_than_was_promised_is_reported_on_its_node_claim() {
    let mut shown = snapshot(&["m0"]);
    shown.claims[0].requests = cpu(500);
    // Half of the promised 2,000 millicores.
    let with = |cpu: i64| Resources::from_iter([("cpu", cpu), ("pods", 20)]);
    shown.nodes[0].capacity = with(1_000);
    let mut world = Fixture::new(shown.clone(), Settings::default());
    let m0 = ObjectRef::Claim(text("m0"));
    assert_eq!(world.conditions(&m0)[0], "ConsistentStateFound=False ConsistencyCheckFailed");
    assert_eq!(world.reasons(), ["FailedConsistencyCheck"]);
    // The Node has all of it after a minute; ten minutes after the first check it is checked again.
    let whole = NodeRecord { capacity: with(2_000), ..shown.nodes[0].clone() };
    world.observe(60_000, Observation::upsert(Object::Node(whole)));
    assert_eq!(world.conditions(&m0)[0], "ConsistentStateFound=False ConsistencyCheckFailed");
    let next = world.controller.next_wakeup().filter(|at| *at <= Timestamp::from_millis(600_000));
    assert!(next.is_some(), "it is checked without another event");
    world.tick(600_000);
    assert_eq!(world.conditions(&m0)[0], "ConsistentStateFound=True ConsistentStateFound");
}
