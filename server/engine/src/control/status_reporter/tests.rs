use crate::cluster::testing::{claim, in_service, node, on, pod, pool, text};
use crate::cluster::{
    Budget, BudgetLimit, ClaimRecord, ClassRecord, ClusterSnapshot, ConditionDigest, NodeRecord, Object, Observation,
    PodBudgetRecord, PodRecord, PoolRecord,
};
use crate::control::status::{ConditionStatus, EventOrder, ObjectRef, StatusPatch};
use crate::control::testing::Planned;
use crate::control::{Effect, Event, Instruction, InstructionId, Settings};
use crate::input::PlanningInput;
use crate::model::{LabelSelector, NotReady, Resources, Text, Timestamp};
use crate::plan::{Plan, PlanReport, Reason, ReasonCode, Unschedulable};
use crate::schedule::CompileCache;

fn nothing(input: &PlanningInput, _: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    let pods: Vec<u32> = (0..u32::try_from(input.pods.len()).unwrap_or(0)).collect();
    let reason = || Reason { pool: None, code: ReasonCode::Resources, message: "no pool is large enough".to_owned() };
    let entry = |pod: &u32| Unschedulable { pod: *pod, reasons: vec![reason()], fits_if: Vec::new() };
    let report = PlanReport { unschedulable: pods.iter().map(entry).collect(), ..PlanReport::default() };
    Ok((Plan { unschedulable: pods, ..Plan::default() }, report))
}

/// A controller, and what it has written so far; every write is answered at once, unless `mute`.
struct World {
    controller: Planned,
    written: Vec<(ObjectRef, StatusPatch)>,
    events: Vec<EventOrder>,
    unanswered: Vec<InstructionId>,
    mute: bool,
}

impl World {
    fn new(snapshot: ClusterSnapshot, settings: Settings) -> Self {
        let controller = Planned::new(settings, nothing);
        let mut world =
            Self { controller, written: Vec::new(), events: Vec::new(), unanswered: Vec::new(), mute: false };
        world.handle(0, Event::AgentConnected { cluster: text("c") });
        world.see(0, Observation::Snapshot(Box::new(snapshot)));
        world
    }

    fn handle(&mut self, at: i64, event: Event) -> Vec<Effect> {
        let effects = self.controller.handle(event, Timestamp(at));
        let mut asked = Vec::new();
        for effect in &effects {
            let Effect::Instruct { id, instruction, .. } = effect else { continue };
            match instruction.as_ref() {
                Instruction::WriteStatus(order) => {
                    self.written.push((order.subject.clone(), order.content.clone()));
                    asked.push(*id);
                }
                Instruction::RecordEvent(order) => self.events.push(order.clone()),
                _ => {}
            }
        }
        if self.mute {
            self.unanswered.extend(asked);
        } else {
            for instruction in asked {
                self.controller.handle(Event::InstructionAcked { cluster: text("c"), instruction }, Timestamp(at));
            }
        }
        effects
    }

    fn see(&mut self, at: i64, observation: Observation) {
        self.handle(at, Event::Observed { cluster: text("c"), observation });
    }

    fn tick(&mut self, at: i64) -> Vec<Effect> {
        self.handle(at, Event::Tick)
    }

    /// The conditions that were last written for `subject`, as `Type=Status Reason`.
    fn conditions(&self, subject: &ObjectRef) -> Vec<String> {
        let last = self.written.iter().rev().find(|(about, _)| about == subject);
        let said = last.into_iter().flat_map(|(_, content)| &content.conditions);
        said.map(|one| format!("{}={} {}", one.kind, one.verdict.as_str(), one.reason)).collect()
    }

    fn reasons(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.reason).collect()
    }
}

fn p() -> ObjectRef {
    ObjectRef::Pool(text("p"))
}

fn class() -> ClassRecord {
    ClassRecord { name: text("default"), generation: 1, ..ClassRecord::default() }
}

fn snapshot(machines: &[&str]) -> ClusterSnapshot {
    let state = in_service(pool(), machines);
    ClusterSnapshot {
        pools: vec![pool()],
        classes: vec![class()],
        nodes: state.nodes().cloned().collect(),
        claims: state.claims().cloned().collect(),
        ..ClusterSnapshot::default()
    }
}

#[test]
fn a_pool_says_what_it_uses_and_that_it_is_ready() {
    let world = World::new(snapshot(&["m0", "m1"]), Settings::default());
    let (_, content) = world.written.iter().find(|(subject, _)| *subject == p()).unwrap();
    // Two machines of 2 CPUs and 20 pods each.
    let expected = Resources::from_iter([("cpu", 4_000), ("pods", 40), ("nodes", 2)]);
    assert_eq!(content.usage.as_ref(), Some(&expected));
    let said = [
        "NodeClassReady=True NodeClassReady",
        "NodeRegistrationHealthy=Unknown AwaitingReconciliation",
        "Ready=True Ready",
        "ValidationSucceeded=True ValidationSucceeded",
    ];
    assert_eq!(world.conditions(&p()), said);
}

#[test]
fn a_class_that_goes_or_is_missing_makes_its_pools_not_ready() {
    let mut world = World::new(snapshot(&[]), Settings::default());
    world.see(2_000, Observation::upsert(Object::Class(ClassRecord { deleting: true, ..class() })));
    let terminating = world.conditions(&p());
    assert_eq!(terminating[0], "NodeClassReady=False NodeClassTerminating");
    assert_eq!(terminating[2], "Ready=False UnhealthyDependents");
    let mut lonely = pool();
    lonely.pool.not_ready = Some(NotReady::NodeClass(text("there is no EC2NodeClass default")));
    let missing =
        World::new(ClusterSnapshot { pools: vec![lonely], ..ClusterSnapshot::default() }, Settings::default());
    assert_eq!(missing.conditions(&p())[0], "NodeClassReady=False NodeClassNotFound");
    let mut odd = pool();
    odd.meta.invalid = Some(text("requirements: odd"));
    let invalid = World::new(ClusterSnapshot { pools: vec![odd], ..snapshot(&[]) }, Settings::default());
    assert_eq!(invalid.conditions(&p())[3], "ValidationSucceeded=False NodePoolValidationFailed");
}

#[test]
fn what_has_not_changed_is_not_written_again_and_a_burst_is_one_write() {
    let mut world = World::new(snapshot(&[]), Settings::default());
    let before = world.written.len();
    for second in 1..100 {
        world.see(second * 1_000, Observation::upsert(Object::Pod(on("m9", pod("a", second)))));
    }
    assert_eq!(world.written.len(), before, "pods concern no status");
    let claims: Vec<String> = (0..50).map(|number| format!("x{number}")).collect();
    for name in &claims {
        world.see(200_000, Observation::upsert(Object::Claim(ClaimRecord { ours: false, ..claim(name) })));
    }
    world.tick(201_000);
    let pools = world.written[before..].iter().filter(|(subject, _)| *subject == p()).count();
    // One for the first claim, one a second later for the 49 others.
    assert_eq!(pools, 2);
}

#[test]
fn an_object_has_one_write_under_way_and_a_refused_one_is_tried_again_a_minute_later() {
    let mut world = World::new(snapshot(&[]), Settings::default());
    world.mute = true;
    world.see(10_000, Observation::upsert(Object::Claim(ClaimRecord { ours: false, ..claim("x0") })));
    let (count, first) = (world.written.len(), world.unanswered[0]);
    world.see(20_000, Observation::upsert(Object::Claim(ClaimRecord { ours: false, ..claim("x1") })));
    assert_eq!(world.written.len(), count, "the first is not answered yet");
    let failed = Event::InstructionFailed {
        cluster: text("c"),
        instruction: first,
        reason: "the API server is away".to_owned(),
        unmet: false,
    };
    world.handle(30_000, failed);
    assert_eq!(world.written.len(), count);
    assert_eq!(world.controller.next_wakeup(), Some(Timestamp(90_000)));
    world.tick(90_000);
    assert_eq!(world.written.len(), count + 1);
    let (_, content) = world.written.last().unwrap();
    assert_eq!(content.usage.as_ref().map(|usage| usage.get("nodes")), Some(2), "what is true by then is written");
}

#[test]
fn pools_that_are_left_to_karpenter_and_their_classes_get_no_status() {
    let mut with_karpenter = snapshot(&[]);
    with_karpenter.autoscalers =
        vec![crate::cluster::AutoscalerRecord { name: text("karpenter"), live: true, evidence: text("") }];
    let world = World::new(with_karpenter, Settings::default());
    assert_eq!(world.written, []);
}

#[test]
fn what_is_not_looked_up_is_unknown_and_not_invented() {
    let default = ObjectRef::Class(text("default"));
    let real = World::new(snapshot(&[]), Settings::default());
    let said = real.conditions(&default);
    assert_eq!(said[2], "Ready=Unknown UnhealthyDependents");
    assert_eq!(said[4], "SubnetsReady=Unknown NotResolved");
    let (_, content) = real.written.iter().find(|(subject, _)| *subject == default).unwrap();
    assert_eq!((content.zones.as_ref(), content.hold), (None, Some("karpenter.k8s.aws/termination")));
    let settings = Settings { class_facts: crate::control::ClassFacts::Simulated, ..Settings::default() };
    let simulated = World::new(snapshot(&[]), settings);
    let (_, content) = simulated.written.iter().find(|(subject, _)| *subject == default).unwrap();
    assert_eq!(content.zones, Some(vec![text("z")]));
    assert!(content.conditions.iter().all(|one| one.verdict == ConditionStatus::True));
}

#[test]
fn a_class_that_is_deleted_stays_until_its_last_node_claim_is_gone() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    let going = ClassRecord { deleting: true, held: true, ..class() };
    world.see(2_000, Observation::upsert(Object::Class(going)));
    let default = ObjectRef::Class(text("default"));
    let last =
        |world: &World| world.written.iter().rev().find(|(s, _)| *s == default).map(|(_, c)| (c.hold, c.release));
    assert_eq!(last(&world), Some((None, None)));
    assert!(world.reasons().contains(&"WaitingOnNodeClaimTermination"));
    // Its machine is gone first: a NodeClaim that goes before it is reckoned with as long as the machine is.
    world.handle(3_000, Event::InstanceGone { cluster: text("c"), provider_id: text("aws:///z/i-m0") });
    world.see(3_000, Observation::Delete(crate::cluster::Key::Claim(text("m0"))));
    world.tick(4_000);
    assert_eq!(last(&world), Some((None, Some("karpenter.k8s.aws/termination"))));
}

#[test]
fn a_node_claim_tells_what_its_node_lacks_and_stays_in_service() {
    let claim_subject = ObjectRef::Claim(text("m0"));
    let mut young = node("m0");
    young.ready = false;
    young.labels.remove(crate::model::labels::INITIALIZED);
    let waiting = ClusterSnapshot { nodes: vec![young], claims: vec![claim("m0")], ..snapshot(&[]) };
    let mut world = World::new(waiting, Settings::default());
    world.tick(1_000);
    let said = world.conditions(&claim_subject);
    assert_eq!(
        said,
        [
            "Initialized=Unknown NodeNotReady",
            "Launched=True Launched",
            "Ready=Unknown UnhealthyDependents",
            "Registered=True Registered",
        ]
    );
    world.see(5_000, Observation::upsert(Object::Node(node("m0"))));
    let said = world.conditions(&claim_subject);
    assert_eq!(said[0], "Consolidatable=False PodEvents", "consolidateAfter is 30 s");
    assert_eq!(
        &said[1..],
        ["Initialized=True Initialized", "Launched=True Launched", "Ready=True Ready", "Registered=True Registered"]
    );
    assert_eq!(world.reasons(), ["Initialized"]);
}

#[test]
fn a_drain_that_a_budget_blocks_is_told_on_the_node_and_in_the_view() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    let budget = PodBudgetRecord {
        namespace: text("default"),
        name: text("web"),
        selector: Some(LabelSelector::default()),
        allowed: 0,
        frees_unhealthy: false,
    };
    world.see(2_000, Observation::upsert(Object::PodBudget(budget.clone())));
    world.see(2_000, Observation::upsert(Object::Pod(PodRecord { ready: true, ..on("m0", pod("a", 100)) })));
    world.see(3_000, Observation::upsert(Object::Node(NodeRecord { deleting: true, ..node("m0") })));
    let why = "PodDisruptionBudget default/web lets pod default/a not go now (disruptionsAllowed is 0)";
    let event = world.events.iter().find(|event| event.reason == "FailedDraining").unwrap();
    assert_eq!(
        (event.subject.clone(), event.warning, event.message.as_ref()),
        (ObjectRef::Node(text("n-m0")), true, why)
    );
    let blocked = |world: &World| world.controller.view("c").and_then(|view| view.machines[0].blocked.clone());
    assert_eq!(blocked(&world).as_deref(), Some(why));
    world.see(4_000, Observation::upsert(Object::PodBudget(PodBudgetRecord { allowed: 1, ..budget })));
    assert_eq!(blocked(&world), None);
    assert_eq!(world.conditions(&ObjectRef::Claim(text("m0")))[0], "Drained=Unknown Draining");
}

#[test]
fn what_bars_an_eviction_is_what_the_api_server_refuses_by() {
    let budget = |name: &str, allowed, frees_unhealthy| {
        Object::PodBudget(PodBudgetRecord {
            namespace: text("default"),
            name: text(name),
            selector: Some(LabelSelector::default()),
            allowed,
            frees_unhealthy,
        })
    };
    let barred = |budgets: Vec<Object>, ready| {
        let mut state = in_service(pool(), &["m0"]);
        let a = PodRecord { ready, ..on("m0", pod("a", 1)) };
        crate::cluster::testing::see(&mut state, 0, budgets.into_iter().chain([Object::Pod(a)]));
        state.drain_barred(&text("n-m0"), Timestamp(0)).len()
    };
    assert_eq!(barred(vec![], true), 0);
    assert_eq!(barred(vec![budget("a", 1, false)], true), 0);
    assert_eq!(barred(vec![budget("a", 0, false)], true), 1);
    assert_eq!(barred(vec![budget("a", 0, true)], true), 1, "a pod that is ready is guarded");
    assert_eq!(barred(vec![budget("a", 0, true)], false), 0, "one that is not may always go");
    assert_eq!(barred(vec![budget("a", 1, false), budget("b", 1, false)], true), 1, "two budgets bar every eviction");
}

#[test]
fn a_pool_whose_budget_keeps_empty_nodes_says_so() {
    let mut kept = pool();
    kept.life.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
    let mut world = World::new(ClusterSnapshot { pools: vec![kept], ..snapshot(&["m0"]) }, Settings::default());
    for second in 1..40 {
        world.tick(second * 1_000);
    }
    let event = world.events.iter().find(|event| event.reason == "DisruptionBlocked").unwrap();
    assert_eq!((event.subject.clone(), event.warning), (p(), false));
}

#[test]
fn pods_are_told_that_they_have_no_place_and_why() {
    let mut world = World::new(snapshot(&[]), Settings::default());
    let waiting = PodRecord { uid: text("u-1"), ..pod("a", 100) };
    world.see(2_000, Observation::upsert(Object::Pod(waiting)));
    world.tick(3_000);
    world.tick(4_000);
    let [event] = world.events.as_slice() else { panic!("{:?}", world.events) };
    assert_eq!((event.reason, event.warning, event.uid.as_ref()), ("FailedScheduling", true, "u-1"));
    assert_eq!(event.message.as_ref(), "no pool is large enough");
}

#[test]
fn a_pool_that_is_deleted_launches_nothing_and_its_claims_go_as_the_garbage_collector_deletes_them() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    let mut going: PoolRecord = pool();
    going.meta.deleting = true;
    going.pool.not_ready = Some(NotReady::NodePool(text("it is being deleted")));
    world.see(2_000, Observation::upsert(Object::Pool(going)));
    assert_eq!(world.conditions(&p())[3], "ValidationSucceeded=True ValidationSucceeded");
    world.see(3_000, Observation::Delete(crate::cluster::Key::Pool(text("p"))));
    let effects = world.handle(
        4_000,
        Event::Observed {
            cluster: text("c"),
            observation: Observation::upsert(Object::Claim(ClaimRecord { deleting: true, ..claim("m0") })),
        },
    );
    let drains = |effect: &Effect| matches!(effect, Effect::Instruct { instruction, .. } if matches!(**instruction, Instruction::Drain { .. }));
    assert!(effects.iter().any(drains), "{effects:?}");
    world.tick(5_000);
    assert!(world.reasons().contains(&"DisruptionTerminating"), "{:?}", world.reasons());
}

#[test]
fn a_machine_in_service_is_looked_at_every_ten_seconds_and_one_that_comes_into_service_at_the_next_look() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    let m0 = ObjectRef::Claim(text("m0"));
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=False PodEvents", "consolidateAfter is 30 s");
    // Looks at everything are at 0, 10, 20 and 30 s; then 30 s have passed since the machine came into service.
    for second in 1..30 {
        world.see(second * 1_000, Observation::upsert(Object::Pod(pod("a", second))));
    }
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=False PodEvents");
    world.see(29_000, Observation::upsert(Object::Claim(claim("m1"))));
    world.see(29_000, Observation::upsert(Object::Node(node("m1"))));
    world.tick(30_000);
    world.tick(31_000);
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=True Consolidatable");
    world.see(32_000, Observation::upsert(Object::Pod(on("m0", pod("b", 1)))));
    world.tick(33_000);
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=False PodEvents", "it is written with the pod event");
    assert_eq!(
        world.conditions(&ObjectRef::Claim(text("m1")))[1],
        "Initialized=True Initialized",
        "this one is at once"
    );
    let next = world.controller.next_wakeup().filter(|at| *at <= Timestamp(41_000));
    assert!(next.is_some(), "what has changed is looked at without another event");
    world.tick(41_000);
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=False PodEvents");
}

#[test]
fn what_was_refused_of_a_machine_in_service_is_tried_again_although_it_is_looked_at_rarely() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    world.mute = true;
    world.see(40_000, Observation::upsert(Object::Pod(pod("a", 1))));
    let m0 = ObjectRef::Claim(text("m0"));
    let writes = |world: &World| world.written.iter().filter(|(subject, _)| *subject == m0).count();
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=True Consolidatable");
    let before = writes(&world);
    for instruction in std::mem::take(&mut world.unanswered) {
        let reason = "the API server is away".to_owned();
        world.handle(42_000, Event::InstructionFailed { cluster: text("c"), instruction, reason, unmet: false });
    }
    world.tick(101_999);
    assert_eq!(writes(&world), before, "a minute after 42 s");
    world.tick(102_000);
    assert_eq!(writes(&world), before + 1);
}

#[test]
fn what_another_process_has_said_of_a_machine_is_not_said_again() {
    let m0 = ObjectRef::Claim(text("m0"));
    let holds = |standing: ConditionDigest, kind: &str| standing.with(kind, "True", kind, "");
    let launched = ["Consolidatable", "Initialized", "Launched"].into_iter().fold(ConditionDigest::default(), holds);
    let world = |standing| {
        let mut shown = snapshot(&["m0"]);
        shown.claims[0].standing = standing;
        shown.pods = vec![on("m0", pod("a", 1))];
        World::new(shown, Settings::default())
    };
    // That it is registered stands nowhere.
    let said = world(launched).conditions(&m0);
    assert_eq!(
        (said[0].as_str(), said[4].as_str()),
        ("Consolidatable=True Consolidatable", "Registered=True Registered")
    );
    let mut world = world(holds(launched, "Registered"));
    for at in [10_000, 20_000] {
        world.see(at, Observation::upsert(Object::Pod(pod("b", at))));
        assert!(world.conditions(&m0).is_empty(), "all of it stands there, and no pod has come to it");
    }
    world.see(25_000, Observation::upsert(Object::Pod(on("m0", pod("c", 1)))));
    // The next look at everything.
    world.tick(31_000);
    assert_eq!(world.conditions(&m0)[0], "Consolidatable=False PodEvents");
}

/// Later moments than before that were written into the NodeClaim `m0`, with those of the writes.
fn pod_events(world: &mut World, seconds: std::ops::Range<i64>, event: impl Fn(i64) -> bool) -> Vec<(i64, i64)> {
    let last = |world: &World| world.written.iter().filter_map(|(_, content)| content.last_pod_event).max();
    let mut written = Vec::new();
    for second in seconds {
        let before = last(world);
        if event(second) {
            let other = PodRecord { uid: Text::from(format!("u-{second}")), ..on("m0", pod("a", 1)) };
            world.see(second * 1_000 - 300, Observation::upsert(Object::Pod(other)));
        }
        world.tick(second * 1_000);
        written.extend(last(world).filter(|at| Some(*at) > before).map(|at| (second, at.0 / 1_000)));
    }
    written
}

#[test]
fn the_last_pod_event_is_written_at_once_and_then_at_most_every_ten_seconds() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    // Events at 49.7 s, 50.7 s … 54.7 s, rounded up: the first is written at once, the last when ten seconds are over.
    let written = pod_events(&mut world, 40..80, |second| (50..=55).contains(&second));
    assert_eq!(written, [(50, 50), (60, 55)]);
    // A while later: at once again. (A write is looked at once a second.)
    let written = pod_events(&mut world, 80..120, |second| second == 90);
    assert_eq!(written, [(90, 90)]);
    // A pod event every second for ten minutes, and a look at the next one after ten seconds: 600 / 11 = 54 to 600 / 10 = 60 writes.
    let written = pod_events(&mut world, 120..720, |_| true);
    assert!((54..=60).contains(&written.len()), "{written:?}");
}

#[test]
fn where_consolidation_waits_long_or_not_at_all_pod_events_are_written_once_a_minute() {
    for after in [None, Some(0), Some(3_600_000)] {
        let mut pool = pool();
        pool.life.consolidate_after_ms = after;
        let mut world = World::new(ClusterSnapshot { pools: vec![pool], ..snapshot(&["m0"]) }, Settings::default());
        let written = pod_events(&mut world, 100..700, |_| true);
        assert!((9..=11).contains(&written.len()), "{after:?}: {written:?}");
    }
}

#[test]
fn a_pod_event_that_stands_there_is_not_written_again_after_a_restart() {
    let mut shown = snapshot(&["m0"]);
    shown.claims[0].last_pod_event = Some(Timestamp(20_000));
    shown.pods = vec![on("m0", pod("a", 1))];
    let mut world = World::new(shown, Settings::default());
    assert_eq!(pod_events(&mut world, 100..160, |_| false), []);
    assert_eq!(pod_events(&mut world, 160..180, |second| second == 165), [(165, 165)]);
}

#[test]
fn a_pod_event_whose_write_was_refused_is_written_later() {
    let mut world = World::new(snapshot(&["m0"]), Settings::default());
    world.tick(90_000);
    world.mute = true;
    assert_eq!(pod_events(&mut world, 100..103, |second| second == 100), [(100, 100)]);
    for instruction in std::mem::take(&mut world.unanswered) {
        let reason = "the API server is away".to_owned();
        world.handle(103_000, Event::InstructionFailed { cluster: text("c"), instruction, reason, unmet: false });
    }
    world.mute = false;
    let written = |world: &World| world.written.iter().filter(|(_, content)| content.last_pod_event.is_some()).count();
    let before = written(&world);
    world.tick(162_999);
    assert_eq!(written(&world), before, "a minute after it was refused");
    world.tick(163_000);
    assert_eq!(written(&world), before + 1);
    assert_eq!(world.written.last().unwrap().1.last_pod_event, Some(Timestamp(100_000)));
}
