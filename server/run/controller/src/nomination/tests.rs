//! Scenarios: what the cluster reports at which time, and which Nodes are registered and which pods
//! nominated in answer.
//!
//! A pod `a1` is planned on the machine `a`, which becomes the Node `n-a`; all machines of a
//! scenario belong to one decision unless it says otherwise. Machines have 2000 millicores, pods
//! request 500.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::testing::SynchronousController;
use super::super::{ClusterCall, Effect, Event, Instruction, InstructionId, Launched, PlanOutcome, Settings};
use cluster::testing::{node, pod, pool, text};
use cluster::{ClusterSnapshot, Key, NodeRecord, Object, Observation, PodRecord};
use model::input::PlanningInput;
use model::labels::{HOSTNAME, REGISTERED, ZONE};
use model::plan::{Plan, PlanReport, PlannedNode};
use model::pod::SpreadConstraint;
use model::{
    CapacityType, ClaimName, Effect as TaintEffect, LabelSelector, Labels, LaunchOrder, MicroUsd, Millis, NodeName,
    PodShape, ProviderId, Resources, Taint, Text, Timestamp,
};

/// One machine for all pods whose names begin with the same letter.
fn by_letter(input: &PlanningInput) -> PlanOutcome {
    let mut groups: BTreeMap<char, Vec<u32>> = BTreeMap::new();
    for (index, pod) in (0..).zip(&input.pods) {
        groups.entry(letter(&pod.name)).or_default().push(index);
    }
    let machine = |pods: Vec<u32>| PlannedNode {
        name: text("p-1"),
        pool: 0,
        capacity_type: CapacityType::Spot,
        zones: Arc::from([text("z")]),
        types: Arc::from([0]),
        price: MicroUsd(10_000),
        credits: MicroUsd(0),
        reservation: None,
        pods,
        labels: Arc::new(Labels::new()),
        taints: Arc::from([]),
        requests: Resources::new(),
    };
    let order = groups.values().flatten().copied().collect();
    let nodes = groups.into_values().map(machine).collect();
    Ok((Plan { nodes, order, ..Plan::default() }, PlanReport::default()))
}

fn letter(pod: &str) -> char {
    pod.chars().next().unwrap_or_default()
}

/// A cluster that reports objects, and the resulting actions on Nodes and nominations.
struct Scenario {
    controller: SynchronousController,
    /// Shapes of pods that are not as all others.
    special: BTreeMap<&'static str, Arc<PodShape>>,
    /// NodeClaims by letter.
    claims: BTreeMap<char, ClaimName>,
    nodes: BTreeMap<char, NodeRecord>,
    now: i64,
    actions: Vec<String>,
    /// The cluster shows nominations as soon as they are made.
    shows_nominations: bool,
}

impl Scenario {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let controller = SynchronousController::new(settings, by_letter);
        let (special, claims, nodes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut scenario =
            Self { controller, special, claims, nodes, now: 0, actions: Vec::new(), shows_nominations: true };
        scenario.handle(Event::AgentConnected);
        let snapshot = ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() };
        scenario.observe(Observation::Snapshot(Box::new(snapshot)));
        scenario
    }

    /// Runs the steps, one a line, `<milliseconds> <what> <which>`; returns the actions in the same
    /// form. Time advances from one wakeup of the controller to the next.
    fn run(&mut self, steps: &str) -> Vec<String> {
        for line in steps.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            self.run_to(words[0].parse().unwrap());
            for name in &words[2..] {
                self.show(words[1], name);
            }
            if words[1] == "plan" {
                self.handle(Event::Tick);
            }
        }
        // NodeClaims have names without meaning, and their order is that of the names.
        self.actions.sort_by_key(|line| {
            let (at, rest) = line.split_once(' ').unwrap();
            (at.parse::<i64>().unwrap(), rest.to_owned())
        });
        std::mem::take(&mut self.actions)
    }

    fn run_to(&mut self, end: i64) {
        while let Some(next) = self.controller.next_wakeup().filter(|next| next.as_millis() <= end) {
            self.now = self.now.max(next.as_millis());
            self.handle(Event::Tick);
            let again = self.controller.next_wakeup().is_some_and(|next| next.as_millis() <= self.now);
            assert!(!again, "stuck at {}", self.now);
        }
        self.now = end;
        self.handle(Event::Tick);
    }

    fn show(&mut self, what: &str, name: &str) {
        let here = self.pod(name);
        let machine = Some(NodeName::from(format!("n-{}", letter(name))));
        match what {
            "pending" => self.observe(Observation::upsert(Object::Pod(here))),
            "nominated-here" => {
                self.observe(Observation::upsert(Object::Pod(PodRecord { own_nomination: machine, ..here })))
            }
            "nominated" => {
                let nominated = Some(text("elsewhere"));
                self.observe(Observation::upsert(Object::Pod(PodRecord { nominated, ..here })));
            }
            "bound" => self.observe(Observation::upsert(Object::Pod(PodRecord { node: machine, ..here }))),
            "gone" => self.observe(Observation::Delete(Key::Pod(here.key))),
            "joins" => self.update_node(name, |node| node.ready = false),
            "starts" => self.update_node(name, |node| node.taints.push(taint("node.kubernetes.io/not-ready"))),
            "ready" => self.update_node(name, |_| {}),
            "opens" => self.update_node(name, |node| {
                node.taints.clear();
                node.labels.insert(text(REGISTERED), text("true"));
            }),
            "barred" => self.update_node(name, |node| {
                node.taints = vec![taint("startup")];
                node.labels.insert(text(REGISTERED), text("true"));
            }),
            "lost" => self.handle(Event::InstanceGone(ProviderId::from(format!("aws:///z/i-{name}")))),
            other => panic!("unknown step {other}"),
        }
    }

    fn pod(&self, name: &str) -> PodRecord {
        let usual = pod(name, 500);
        let shape = self.special.get(name).cloned().unwrap_or_else(|| Arc::clone(&usual.shape));
        let labels = Arc::new([(text("app"), text("web"))].into_iter().collect());
        PodRecord { shape, labels, ..usual }
    }

    /// Reports the Node of a machine as its kubelet created it, changed.
    fn update_node(&mut self, machine: &str, change: impl FnOnce(&mut NodeRecord)) {
        let now = Timestamp::from_millis(self.now);
        let known = self.nodes.entry(letter(machine)).or_insert_with(|| {
            let mut young = node(machine);
            young.labels.retain(|key, _| !key.starts_with("karpenter.sh/"));
            let unregistered = Taint { effect: TaintEffect::NoExecute, ..taint("karpenter.sh/unregistered") };
            NodeRecord { taints: vec![unregistered], created: Some(now), ..young }
        });
        let mut seen = known.clone();
        change(&mut seen);
        self.observe(Observation::upsert(Object::Node(seen)));
    }

    fn observe(&mut self, observation: Observation) {
        self.handle(Event::Observed(observation));
    }

    fn handle(&mut self, event: Event) {
        let effects = self.controller.handle(event, Timestamp::from_millis(self.now));
        for effect in effects {
            match effect {
                Effect::Call(ClusterCall::RecordDecision(decision)) => self.handle(Event::Recorded(decision.id)),
                Effect::Call(ClusterCall::Launch(order)) => self.launch(&order),
                Effect::Instruct { id, instruction } => self.instruct(id, *instruction),
                _ => {}
            }
        }
    }

    fn launch(&mut self, order: &LaunchOrder) {
        let letter = self.claims.iter().find(|(_, claim)| **claim == order.claim).map(|(letter, _)| *letter);
        self.handle(Event::Launched(Box::new(Launched {
            claim: order.claim.clone(),
            attempt: order.attempt,
            provider_id: ProviderId::from(format!("aws:///z/i-{}", letter.unwrap())),
            instance_type: text("t.2"),
            zone: text("z"),
            capacity_type: CapacityType::Spot,
            unavailable: Vec::new(),
            image: Text::default(),
        })));
    }

    fn instruct(&mut self, id: InstructionId, instruction: Instruction) {
        let names = |nominations: &[super::super::PodNomination]| {
            nominations.iter().map(|nomination| format!(" {}", nomination.pod.name)).collect()
        };
        match instruction {
            Instruction::CreateClaim(order) => {
                let decision = self.controller.view(&text("c")).unwrap().decisions[0].clone();
                let machine = decision.launches.iter().find(|machine| machine.claim.name == order.name).unwrap();
                self.claims.insert(letter(&machine.pods[0].name), order.name);
            }
            Instruction::MarkLaunched { .. } => {}
            Instruction::RegisterNode { node, nominations, .. } => {
                let pods: String = names(&nominations);
                // The answer arrives with the registered Node.
                return self.actions.push(format!("{} register {node}:{pods}", self.now));
            }
            Instruction::NominatePods { node, nominations } => {
                let pods: String = names(&nominations);
                self.actions.push(format!("{} nominate {node}:{pods}", self.now));
                let shown = if self.shows_nominations { nominations } else { Vec::new() };
                for nomination in shown {
                    let pod = PodRecord { own_nomination: Some(node.clone()), ..self.pod(&nomination.pod.name) };
                    self.observe(Observation::upsert(Object::Pod(pod)));
                }
            }
            _ => return,
        }
        self.handle(Event::InstructionAcked(id));
    }
}

fn taint(key: &str) -> Taint {
    Taint { key: text(key), value: Text::default(), effect: TaintEffect::NoSchedule }
}

/// The machines of the pods, planned and launched at 3 s.
const TWO: &str = "2000 pending a1 a2 b1
                   3000 plan";

/// Time and kind of each action.
fn action_names(actions: &[String]) -> Vec<&str> {
    actions.iter().filter_map(|line| line.split_once(':')).map(|(action, _)| action).collect()
}

#[test]
fn nodes_of_one_decision_are_nominated_and_registered_together() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(&format!(
        "{TWO}
         5000 joins a
         6000 ready a
         9000 joins b
         9500 starts b
         9900 ready b
         11000 plan"
    ));
    // The last is ready at 9.9 s; half a second later no nomination has changed.
    let nominations = ["9900 nominate n-a: a1 a2", "9900 nominate n-b: b1"];
    let open = ["10400 register n-a: a1 a2", "10400 register n-b: b1"];
    assert_eq!(actions, [nominations, open].concat());
}

#[test]
fn sabotage_without_waiting_for_one_another_the_first_node_is_registered_alone() {
    let mut scenario = Scenario::new(|settings| settings.open_together = Millis::ZERO);
    let actions = scenario.run(&format!(
        "{TWO}
         6000 ready a
         9900 ready b"
    ));
    assert_eq!(actions, ["6000 register n-a: a1 a2", "9900 register n-b: b1"]);
}

#[test]
fn a_nomination_lost_before_registration_is_repeated_before_registration() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(&format!(
        "{TWO}
         6000 ready a b
         6300 pending b1
         9000 plan"
    ));
    // Half a second after the first nomination the second is made at the earliest, and half a
    // second later all are stable.
    assert_eq!(
        action_names(&actions),
        ["6000 nominate n-a", "6000 nominate n-b", "6500 nominate n-b", "7000 register n-a", "7000 register n-b"]
    );
}

#[test]
fn without_visible_nominations_nodes_are_held_for_two_seconds_more() {
    let mut scenario = Scenario::new(|_| {});
    scenario.shows_nominations = false;
    let actions = scenario.run(&format!("{TWO}\n6000 ready a b\n8500 plan"));
    let open: Vec<&str> = action_names(&actions).into_iter().filter(|action| action.contains("register")).collect();
    assert_eq!(open, ["8000 register n-a", "8000 register n-b"]);
}

#[test]
fn a_late_machine_delays_the_others_no_longer_than_the_maximum_wait() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(&format!(
        "{TWO}
         6000 ready a
         16700 opens a
         16800 bound a1 a2
         20000 ready b
         21000 plan"
    ));
    // Ready at 6 s; the patience is 10 s.
    assert_eq!(
        action_names(&actions),
        ["16000 nominate n-a", "16500 register n-a", "20000 nominate n-b", "20500 register n-b"]
    );
}

#[test]
fn a_machine_that_is_lost_is_not_waited_for() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(&format!(
        "{TWO}
         6000 ready a
         7000 lost b
         8000 plan"
    ));
    assert_eq!(action_names(&actions), ["7000 nominate n-a", "7500 register n-a"]);
}

#[test]
fn a_node_without_assigned_pods_is_registered_at_once() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(&format!(
        "{TWO}
         4000 gone b1
         6000 joins b
         7000 gone a1 a2
         8000 joins a"
    ));
    assert_eq!(actions, ["6000 register n-b:", "8000 register n-a:"]);
}

#[test]
fn machines_of_different_decisions_do_not_wait_for_one_another() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(
        "2000 pending a1
         3000 plan
         4000 pending b1
         5000 plan
         6000 ready a
         9000 plan",
    );
    assert_eq!(action_names(&actions), ["6000 nominate n-a", "6500 register n-a"]);
}

#[test]
fn nodes_with_pods_without_nominations_are_registered_once_the_other_pods_are_bound() {
    let mut scenario = Scenario::new(|_| {});
    let spread = spread_shape(|_| {});
    scenario.special = [("a1", Arc::clone(&spread)), ("b1", spread)].into_iter().collect();
    let actions = scenario.run(
        "2000 pending a1 b1 b2 d1 e1
         3000 plan
         6000 ready a b d e
         6600 opens e d
         6700 bound e1
         7500 bound d1
         8100 opens b
         8200 bound b2
         9000 plan",
    );
    let own_nomination = ["6000 nominate n-d", "6000 nominate n-e", "6500 register n-d", "6500 register n-e"];
    let mixed = ["7500 nominate n-b", "8000 register n-b"];
    assert_eq!(action_names(&actions), [own_nomination.as_slice(), &mixed, &["8200 register n-a"]].concat());
}

#[test]
fn nodes_whose_pods_are_not_bound_delay_the_next_for_three_seconds() {
    let mut scenario = Scenario::new(|_| {});
    scenario.special = [("a1", spread_shape(|_| {}))].into_iter().collect();
    let actions = scenario.run(
        "2000 pending a1 b1
         3000 plan
         6000 ready a b
         10000 plan",
    );
    // b is registered at 6.5 s; its pod is never bound.
    let open: Vec<&str> = action_names(&actions).into_iter().filter(|action| action.contains("register n-a")).collect();
    assert_eq!(open, ["9500 register n-a"]);
}

/// The shape of a pod of 500 millicores that must spread over zones, changed.
fn spread_shape(change: impl Fn(&mut SpreadConstraint)) -> Arc<PodShape> {
    let mut constraint = SpreadConstraint {
        topology_key: text(ZONE),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: Some(LabelSelector::default()),
        honor_node_affinity: true,
        honor_node_taints: false,
    };
    change(&mut constraint);
    let usual = pod("a1", 500).shape;
    Arc::new(PodShape { spread: vec![constraint], ..PodShape::clone(&usual) })
}

/// `a1` and `a2` are planned under such a constraint; the nominations that their Node is registered
/// with.
fn nominations_under(change: impl Fn(&mut SpreadConstraint), pods: &str) -> Vec<String> {
    let shape = spread_shape(change);
    let mut scenario = Scenario::new(|_| {});
    scenario.special = ["a1", "a2"].into_iter().map(|name| (name, Arc::clone(&shape))).collect();
    let actions = scenario.run(&format!("2000 pending {pods}\n3000 plan\n6000 ready a\n7000 plan"));
    actions
        .into_iter()
        .filter_map(|line| line.split_once("register n-a:").map(|(_, pods)| pods.trim().to_owned()))
        .collect()
}

#[test]
fn pods_that_a_spread_constraint_would_reject_are_not_nominated() {
    // Two pods of the group nominated to one node make its zone one larger than any other for each
    // of them; a3 is free.
    assert_eq!(nominations_under(|_| {}, "a1 a2 a3"), ["a3"]);
    assert_eq!(nominations_under(|spread| spread.topology_key = text(HOSTNAME), "a1 a2"), [""]);
    // One to a node is what a spread over nodes asks for. Over zones, the pod still depends on who
    // is tried before it.
    assert_eq!(nominations_under(|spread| spread.topology_key = text(HOSTNAME), "a1"), ["a1"]);
    assert_eq!(nominations_under(|_| {}, "a1"), [""]);
    // A soft constraint rejects no pod, and a constraint that selects no pod counts none.
    assert_eq!(nominations_under(|spread| spread.hard = false, "a1 a2"), ["a1 a2"]);
    assert_eq!(nominations_under(|spread| spread.selector = None, "a1 a2"), ["a1 a2"]);
}

/// `a1`, `a2` and `a3` are nominated to the Node `n-a`, which is registered since 7 s.
fn registered() -> Scenario {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run("2000 pending a1 a2 a3\n3000 plan\n6000 ready a\n7000 opens a");
    assert_eq!(actions, ["6000 nominate n-a: a1 a2 a3", "6500 register n-a: a1 a2 a3"]);
    scenario
}

#[test]
fn a_lost_nomination_is_repeated() {
    // a1 is bound, a2 and a3 were tried too early; what is lost within 200 ms is given again at
    // once.
    let actions = registered().run(
        "8100 bound a1
         8150 pending a2
         8200 pending a3
         8900 bound a2 a3
         9900 plan",
    );
    assert_eq!(actions, ["8350 nominate n-a: a2 a3"]);
    // The delay after the second is a second.
    let actions = registered().run("8100 pending a1\n8500 pending a1\n10000 plan");
    assert_eq!(actions, ["8300 nominate n-a: a1", "9300 nominate n-a: a1"]);
}

#[test]
fn a_nomination_that_the_pod_does_not_show_is_repeated_after_four_seconds_and_six_are_made() {
    let mut scenario = registered();
    scenario.shows_nominations = false;
    let actions = scenario.run("8100 pending a1\n60000 plan");
    // The first was at 6 s; 200 ms after its loss comes the second. The delays before the next would be 1, 2, 4 and 8 s.
    let at = [8300, 12_300, 16_300, 20_300, 28_300];
    assert_eq!(actions, at.map(|at| format!("{at} nominate n-a: a1")));
}

#[test]
fn a_pod_whose_capacity_is_taken_or_that_is_nominated_elsewhere_is_not_nominated_again() {
    // Four pods of 500 millicores fill the machine: a4 and a5 were not planned there.
    let actions = registered().run(
        "7050 bound a1 a2 a4 a5
         7100 pending a3
         9000 plan",
    );
    assert_eq!(actions, Vec::<String>::new());
    assert_eq!(registered().run("7100 nominated a1\n9000 plan"), Vec::<String>::new());
}

#[test]
fn capacity_of_other_nominations_is_reserved() {
    // a4 uses 500 of 2000 millicores, a1 and a2 are nominated with 1000: a3 fits. With a5 bound as
    // well it does not.
    assert_eq!(registered().run("8050 bound a4\n8100 pending a3\n8400 plan"), ["8300 nominate n-a: a3"]);
    assert_eq!(registered().run("8050 bound a4 a5\n8100 pending a3\n8400 plan"), Vec::<String>::new());
}

#[test]
fn a_registered_node_with_startup_taints_is_nominated_once_they_are_removed() {
    let mut scenario = Scenario::new(|_| {});
    let actions = scenario.run(
        "2000 pending a1
         3000 plan
         6000 ready a
         7000 barred a
         7100 pending a1
         12000 opens a
         12500 plan",
    );
    assert_eq!(actions, ["6000 nominate n-a: a1", "6500 register n-a: a1", "12200 nominate n-a: a1"]);
}
