//! Launches of nodes with 4 CPUs and 16 GiB, at $0.20 an hour.

use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE};
use model::plan::{Plan, PlannedNode};
use model::{
    BoundPod, CapacityType, Catalogue, InstanceType, Labels, MicroUsd, Node, NodePool, NodeStage, Offering, Pod,
    PodShape, Resources, Text, Zone,
};

use crate::{Joining, Order, Realised, Steps, realise};

pub(super) const PRICE: i64 = 200_000;
pub(super) const GIB: i64 = 1 << 30;

pub(super) fn order(seed: u64, joining: Joining) -> Order {
    Order { seed, joining }
}

fn machine() -> Resources {
    Resources::from_iter([("cpu", 4000), ("memory", 16 * GIB), ("pods", 110)])
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}

fn pool() -> NodePool {
    let offering = |zone: &str| Offering {
        zone: Zone::from(zone),
        capacity_type: CapacityType::OnDemand,
        price: MicroUsd(PRICE),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    let machine = InstanceType {
        name: "m.xlarge".into(),
        capacity: machine(),
        allocatable: machine(),
        offerings: ["a", "b", "c"].map(offering).to_vec(),
        ..InstanceType::default()
    };
    NodePool {
        name: "general".into(),
        node_class: Text::from("default"),
        catalogue: Arc::new(Catalogue { types: vec![machine], offering_keys: Vec::new() }),
        ..NodePool::default()
    }
}

pub(super) fn planned(number: usize, zone: &str) -> PlannedNode {
    PlannedNode {
        name: format!("general-{number}").into(),
        pool: 0,
        capacity_type: CapacityType::OnDemand,
        zones: Arc::new([Zone::from(zone)]),
        types: Arc::new([0]),
        price: MicroUsd(PRICE),
        credits: MicroUsd(0),
        reservation: None,
        pods: Vec::new(),
        labels: Arc::new(Labels::new()),
        taints: Arc::new([]),
        requests: Resources::new(),
    }
}

pub(super) struct Launch {
    pub(super) input: PlanningInput,
    pub(super) plan: Plan,
}

impl Default for Launch {
    fn default() -> Self {
        let label_sets = vec![labels(&[("app", "web")])];
        Self { input: PlanningInput { pools: vec![pool()], label_sets, ..Default::default() }, plan: Plan::default() }
    }
}

impl Launch {
    /// Adds a node to the plan.
    pub(super) fn node(&mut self, zone: &str) -> usize {
        self.plan.nodes.push(planned(self.plan.nodes.len(), zone));
        self.plan.nodes.len() - 1
    }

    /// Adds a shape: millicores, GiB, priority.
    pub(super) fn shape(&mut self, cpu: i64, memory: i64, priority: i32) -> u32 {
        let requests = Resources::from_iter([("cpu", cpu), ("memory", memory * GIB), ("pods", 1)]);
        self.input.shapes.push(PodShape { requests, priority, ..PodShape::default() });
        u32::try_from(self.input.shapes.len() - 1).unwrap()
    }

    pub(super) fn constrain(&mut self, change: impl FnOnce(&mut PodShape)) {
        change(self.input.shapes.last_mut().unwrap());
    }

    /// Adds a pod of a Job to a planned node, and returns its index.
    pub(super) fn pod(&mut self, shape: u32, node: usize) -> u32 {
        let number = u32::try_from(self.input.pods.len()).unwrap();
        self.input.pods.push(Pod {
            namespace: Text::from("default"),
            name: Text::from(format!("pod-{number:03}")),
            shape,
            workload: Text::from("Job/work"),
            ..Pod::default()
        });
        self.plan.nodes[node].pods.push(number);
        self.plan.order.push(number);
        number
    }

    /// Adds an initialized node with pods of these shapes and label sets.
    pub(super) fn existing(&mut self, name: &str, zone: &str, pods: &[(u32, u32)]) {
        let bound = |(shape, labels): &(u32, u32)| BoundPod {
            namespace: Text::from("default"),
            name: Text::from(format!("{name}-{shape}-{labels}")),
            shape: *shape,
            labels: *labels,
            volumes: None,
            daemon: None,
            terminating: false,
            leaving: false,
        };
        self.input.nodes.push(Node {
            name: name.into(),
            pool: None,
            labels: labels(&[(HOSTNAME, name), (ZONE, zone)]),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: machine(),
            capacity: machine(),
            stage: NodeStage::Initialized,
            pods: pods.iter().map(bound).collect(),
            attach_limits: Vec::new(),
            created: None,
        });
        self.input.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// What the launch ends at if each pod that is left over gets a node of its own.
    pub(super) fn realise(&self, order: Order) -> Realised {
        let mut replan = |cluster: &PlanningInput| {
            let node = |pod: usize| PlannedNode { pods: vec![u32::try_from(pod).unwrap()], ..planned(pod, "a") };
            Plan { nodes: (0..cluster.pods.len()).map(node).collect(), ..Plan::default() }
        };
        realise(&self.input, &self.plan, order, &mut replan, &mut Steps::new(1_000_000)).expect("the steps suffice")
    }

    /// The name of the node of each pod, if nothing is planned again.
    pub(super) fn places(&self, order: Order) -> Vec<Option<String>> {
        let mut cluster = self.input.clone();
        let mut places = vec![None; self.input.pods.len()];
        let mut replan = |after: &PlanningInput| {
            cluster = after.clone();
            Plan::default()
        };
        let blocked = self.with_a_pod_that_is_left_over();
        realise(&blocked.input, &blocked.plan, order, &mut replan, &mut Steps::new(1_000_000));
        for (pod, place) in self.input.pods.iter().zip(&mut places) {
            let on = |node: &&Node| node.pods.iter().any(|bound| bound.name == pod.name);
            *place = cluster.nodes.iter().find(on).map(|node| node.name.to_string());
        }
        places
    }

    /// The launch with a pod that fits nowhere, so that the planner is called with the result.
    fn with_a_pod_that_is_left_over(&self) -> Self {
        let mut launch = Self { input: self.input.clone(), plan: self.plan.clone() };
        let node = if launch.plan.nodes.is_empty() { launch.node("c") } else { 0 };
        let shape = launch.shape(9000, 1, -1);
        launch.pod(shape, node);
        launch
    }
}
