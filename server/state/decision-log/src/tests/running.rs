//! What runs in a cluster survives its records: random values of every field.

use std::collections::BTreeMap;

use controller::DisruptionRequest;
use model::disruption_plan::{DisruptionPlanSettings, MachineAllowance};
use model::disruption_policy::{Budget, BudgetLimit, BudgetWindow, ConsolidationPolicy, DisruptionReason};
use model::input::{PlanningInput, Policy};
use model::removal::{DoNotDisrupt, PodBudget, RemovalPod};
use model::running::{
    Consolidatable, RecentMove, RunningClaim, RunningCluster, RunningDrift, RunningNode, RunningPod, UnhealthyNode,
};
use model::{
    Cron, DisruptionPolicy, Labels, MicroUsd, Millis, Node, NodeName, NodeStage, Pod, PodKey, PodShape, PoolName,
    Resources, Text, TimeZone, Timestamp, VolumeAlternatives,
};

use crate::records::{self, NotRecordable};

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(super) fn text(&mut self) -> Text {
        Text::from(format!("t{}", self.below(1_000)))
    }

    pub(super) fn time(&mut self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.below(1 << 40)).unwrap())
    }

    pub(super) fn duration(&mut self) -> Millis {
        Millis::new(i64::try_from(self.below(1 << 30)).unwrap())
    }

    pub(super) fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| value(self))
    }

    pub(super) fn list<T>(&mut self, value: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(3)).map(|_| value(self)).collect()
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

pub(super) fn do_not_disrupt(numbers: &mut Numbers) -> DoNotDisrupt {
    if numbers.coin() { DoNotDisrupt::Always } else { DoNotDisrupt::For(numbers.duration()) }
}

pub(super) fn window(numbers: &mut Numbers) -> BudgetWindow {
    let schedule = numbers.of(&["0 9 * * mon-fri", "@daily", "*/5 1,2 29 2 *"]);
    let zone = numbers.of(&["UTC", "Europe/Berlin", "America/New_York"]);
    BudgetWindow {
        schedule: Cron::parse(schedule).unwrap(),
        zone: TimeZone::named(zone).unwrap_or_default(),
        duration: numbers.duration(),
    }
}

pub(super) fn budget(numbers: &mut Numbers) -> Budget {
    let limit = numbers.of(&[BudgetLimit::Nodes(3), BudgetLimit::Percent(10), BudgetLimit::Unreadable]);
    let reason = |numbers: &mut Numbers| {
        numbers.of(&[DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized])
    };
    Budget { limit, reasons: numbers.maybe(|numbers| numbers.list(reason)), window: numbers.maybe(window) }
}

pub(super) fn policy(numbers: &mut Numbers) -> DisruptionPolicy {
    use ConsolidationPolicy::{Balanced, WhenEmpty, WhenEmptyOrUnderutilized};
    DisruptionPolicy {
        consolidate_after: numbers.maybe(Numbers::duration),
        policy: numbers.of(&[WhenEmpty, WhenEmptyOrUnderutilized, Balanced]),
        budgets: numbers.list(budget),
        windows: numbers.list(window),
        expire_after: numbers.maybe(Numbers::duration),
        expire_jitter: numbers.maybe(Numbers::duration),
        expire_replace_first: numbers.coin(),
        termination_grace_period: numbers.maybe(Numbers::duration),
    }
}

fn claim(numbers: &mut Numbers) -> RunningClaim {
    RunningClaim {
        name: numbers.text().into(),
        ready: numbers.coin(),
        consolidatable: numbers.maybe(Numbers::time).map_or(Consolidatable::Never, Consolidatable::From),
        expires: numbers.maybe(Numbers::time),
        drift: numbers.maybe(|numbers| RunningDrift { reason: numbers.text(), since: numbers.time() }),
        unhealthy: numbers.maybe(|numbers| UnhealthyNode {
            condition: numbers.text(),
            repair_from: numbers.time(),
            do_not_repair: numbers.coin(),
        }),
        termination_grace_period: numbers.maybe(Numbers::duration),
    }
}

fn pod(numbers: &mut Numbers) -> Pod {
    let index = |numbers: &mut Numbers| u32::try_from(numbers.below(2)).unwrap();
    Pod {
        namespace: numbers.text(),
        name: numbers.text(),
        shape: index(numbers),
        labels: index(numbers),
        volumes: numbers.maybe(index),
        created: numbers.maybe(Numbers::time),
        workload: numbers.text(),
        moved_from: numbers.maybe(|numbers| numbers.text().into()),
        invalid: numbers.maybe(Numbers::text),
    }
}

pub(super) fn running_pod(numbers: &mut Numbers) -> RunningPod {
    RunningPod {
        pod: numbers.maybe(pod),
        facts: RemovalPod {
            key: PodKey { namespace: numbers.text(), name: numbers.text() },
            workload: numbers.text(),
            node_bound: numbers.coin(),
            terminating: numbers.coin(),
            ready: numbers.coin(),
            tolerates_drain: numbers.coin(),
            do_not_disrupt: numbers.maybe(do_not_disrupt),
            started: numbers.maybe(Numbers::time),
            pod_budgets: numbers.list(Numbers::text),
        },
        is_nominated: numbers.coin(),
        unsafe_to_evict: numbers.coin(),
        local_volumes: numbers.list(Numbers::text),
        other_scheduler: numbers.maybe(Numbers::text),
        stated_cost: i32::try_from(numbers.below(1 << 32) as i64 - (1 << 31)).unwrap(),
    }
}

fn recent_move(numbers: &mut Numbers) -> RecentMove {
    let pod = PodKey { namespace: numbers.text(), name: numbers.text() };
    RecentMove { pod, until: Timestamp::from_millis(i64::try_from(numbers.below(1 << 40)).unwrap()) }
}

fn request(numbers: &mut Numbers, nodes: u32) -> DisruptionRequest {
    let node = |at: u32, numbers: &mut Numbers| RunningNode {
        node: at,
        price: MicroUsd(i64::try_from(numbers.below(1 << 30)).unwrap()),
        do_not_disrupt: numbers.maybe(do_not_disrupt),
        claim: numbers.maybe(claim),
        recent_move: numbers.maybe(recent_move),
        pods: numbers.list(running_pod),
    };
    // Nodes may be left out, as those without a known price are for repacking.
    let nodes = (0..nodes).filter_map(|at| numbers.maybe(|numbers| node(at, numbers))).collect();
    let allowed = |numbers: &mut Numbers| PodBudget {
        allowed: usize::try_from(numbers.below(9)).unwrap(),
        evicts_unhealthy_always: numbers.coin(),
    };
    let pod_budgets = numbers.list(|numbers| (numbers.text(), allowed(numbers))).into_iter().collect();
    let policies: BTreeMap<PoolName, DisruptionPolicy> =
        numbers.list(|numbers| (numbers.text().into(), policy(numbers))).into_iter().collect();
    let allowance = |numbers: &mut Numbers| MachineAllowance {
        machines: u32::try_from(numbers.below(1 << 20)).unwrap(),
        usd_per_hour: MicroUsd(i64::try_from(numbers.below(1 << 20)).unwrap()),
    };
    let settings = DisruptionPlanSettings {
        min_savings: MicroUsd(i64::try_from(numbers.below(1 << 20)).unwrap()),
        churn_price: MicroUsd(i64::try_from(numbers.below(1 << 20)).unwrap()),
        spot_to_spot: numbers.coin(),
        node_repair: numbers.coin(),
        removals: numbers.maybe(allowance),
        launches: numbers.maybe(allowance),
    };
    DisruptionRequest { running: RunningCluster { nodes, pod_budgets, policies }, settings }
}

fn node(at: u32) -> Node {
    Node {
        name: NodeName::from(format!("n-{at}")),
        pool: None,
        labels: Labels::default(),
        taints: Vec::new(),
        unschedulable: false,
        allocatable: Resources::default(),
        capacity: Resources::default(),
        stage: NodeStage::Initialized,
        pods: Vec::new(),
        attach_limits: Vec::new(),
        created: None,
    }
}

/// An input with two shapes, label sets and volume sets.
fn input(nodes: u32) -> PlanningInput {
    let labels = |value: &'static str| Labels::from_iter([(Text::from("app"), Text::from(value))]);
    let volumes = |blocked: &str| VolumeAlternatives { blocked: Some(Text::from(blocked)), ..Default::default() };
    PlanningInput {
        shapes: vec![PodShape::default(), PodShape { priority: 1, ..PodShape::default() }],
        label_sets: vec![labels("a"), labels("b")],
        volume_sets: vec![volumes("a"), volumes("b")],
        nodes: (0..nodes).map(node).collect(),
        ..PlanningInput::default()
    }
}

#[test]
fn what_runs_is_read_back_as_it_was_written() {
    let mut nodes_with_pods = 0;
    for seed in 0..2_000 {
        let mut numbers = Numbers(seed);
        let nodes = u32::try_from(numbers.below(4)).unwrap();
        let (input, request) = (input(nodes), request(&mut numbers, nodes));
        nodes_with_pods += request.running.nodes.iter().filter(|node| !node.pods.is_empty()).count();
        let written = records::write(&input, &[], Some(&request)).unwrap();
        let read = records::read(&written, input.now, Policy::default(), &BTreeMap::new()).unwrap();
        assert_eq!(read, (PlanningInput { policy: Policy::default(), ..input.clone() }, Some(request)), "seed {seed}");
        let without = records::write(&input, &[], None).unwrap();
        let read = records::read(&without, input.now, Policy::default(), &BTreeMap::new()).unwrap();
        assert_eq!(read.1, None, "seed {seed}");
    }
    assert!(nodes_with_pods > 500, "{nodes_with_pods}");
}

#[test]
fn what_runs_in_another_order_than_the_nodes_is_refused() {
    let mut numbers = Numbers(1);
    let mut request = request(&mut numbers, 0);
    let running = |node: u32| RunningNode {
        node,
        price: MicroUsd(1),
        do_not_disrupt: None,
        claim: None,
        recent_move: None,
        pods: Vec::new(),
    };
    request.running.nodes = vec![running(1), running(0)];
    assert_eq!(records::write(&input(2), &[], Some(&request)), Err(NotRecordable::NodeOrder));
    request.running.nodes = vec![running(2)];
    assert_eq!(records::write(&input(2), &[], Some(&request)), Err(NotRecordable::NodeOrder));
}
