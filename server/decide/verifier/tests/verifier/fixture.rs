//! A small planning input, and correct plans for it built by hand.
//!
//! One pool, `default`, and two instance types in zones a, b and c: `small` has 2 CPUs and 8 GiB
//! for 0.10 on demand and 0.03 on spot, `large` has 4 CPUs and 16 GiB for 0.20 and 0.06.

use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use model::plan::{Plan, PlannedNode};
use model::{
    BoundPod, CapacityType, Catalogue, DaemonSet, InstanceType, InstanceTypeName, LabelSelector, Labels, MicroUsd,
    Node, NodeName, NodePool, NodeStage, Offering, Pod, PodAffinityTerm, PodShape, PoolName, Requirement, Requirements,
    Reservation, Resources, SelectorOperator, SelectorTerm, SpreadConstraint, Taint, Text, Toleration,
    TolerationOperator, Zone,
};
use verifier::{Rule, check};

pub const GIB: i64 = 1 << 30;
pub const SMALL: &str = "small";
pub const LARGE: &str = "large";

pub fn text(value: &str) -> Text {
    Text::from(value)
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (text(key), text(value))).collect()
}

/// Resources of `cpu` millicores, `memory` bytes and `pods` pods.
pub fn amounts(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::from_iter([("cpu", cpu), ("memory", memory), ("pods", pods)])
}

pub fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    Offering {
        zone: Zone::from(zone),
        capacity_type,
        price: MicroUsd(price),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    }
}

/// An offering of reservation `id` with `remaining` instances, in zone a.
pub fn reserved(id: &str, remaining: i64) -> Offering {
    let reservation = Some(Reservation { id: text(id), remaining });
    Offering { reservation, ..offering("a", CapacityType::Reserved, 0) }
}

/// A type with `cpus` CPUs and 4 GiB for each, `price` on demand and 0.3 of it on spot, in zones a, b and c.
pub fn machine(name: &str, cpus: i64, price: i64) -> InstanceType {
    let sizes = amounts(cpus * 1000, cpus * 4 * GIB, 110);
    let kinds = [(CapacityType::OnDemand, price), (CapacityType::Spot, price * 3 / 10)];
    let zones = ["a", "b", "c"];
    let offerings = zones.iter().flat_map(|zone| kinds.iter().map(|(kind, price)| offering(zone, *kind, *price)));
    InstanceType {
        name: InstanceTypeName::from(name),
        labels: Requirements::from_labels(&labels(&[(INSTANCE_TYPE, name), (ARCH, "amd64")])).into(),
        capacity: sizes.clone(),
        allocatable: sizes,
        exotic: false,
        burstable: None,
        offerings: offerings.collect(),
    }
}

pub fn pool(name: &str, types: Vec<InstanceType>) -> NodePool {
    NodePool {
        name: PoolName::from(name),
        node_class: text("default"),
        catalogue: Arc::new(Catalogue { types, offering_keys: Vec::new() }),
        ..NodePool::default()
    }
}

/// A pod of 1 CPU and 1 GiB without constraints.
pub fn plain() -> PodShape {
    PodShape { requests: amounts(1000, GIB, 1), ..PodShape::default() }
}

pub fn selecting(app: &str) -> Option<LabelSelector> {
    let term = SelectorTerm { key: text("app"), operator: SelectorOperator::In, values: vec![text(app)] };
    Some(LabelSelector::new(vec![term]))
}

/// A term over `key` that selects pods with `app=<app>` in the same namespace.
pub fn affinity_term(app: &str, key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: text(key),
        selector: selecting(app),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

/// A hard spread constraint with skew 1 over pods with `app=<app>`.
pub fn spread(app: &str, key: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: text(key),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: selecting(app),
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

pub fn taint(key: &str) -> Taint {
    Taint { key: text(key), value: text(""), effect: model::Effect::NoSchedule }
}

pub fn tolerating(key: &str) -> Toleration {
    Toleration { key: text(key), operator: TolerationOperator::Exists, value: text(""), effect: None }
}

pub struct Fixture {
    pub input: PlanningInput,
    pub plan: Plan,
}

impl Fixture {
    pub fn new() -> Self {
        let types = vec![machine(LARGE, 4, 200_000), machine(SMALL, 2, 100_000)];
        let input = PlanningInput { pools: vec![pool("default", types)], ..PlanningInput::default() };
        Self { input, plan: Plan::default() }
    }

    pub fn pool(&mut self) -> &mut NodePool {
        &mut self.input.pools[0]
    }

    /// The instance type with this name, mutable.
    pub fn machine(&mut self, name: &str) -> &mut InstanceType {
        let catalogue = Arc::make_mut(&mut self.input.pools[0].catalogue);
        catalogue.types.iter_mut().find(|machine| machine.name.as_ref() == name).expect("a type of the catalogue")
    }

    fn intern(&mut self, app: &str, shape: PodShape) -> (u32, u32) {
        self.input.shapes.push(shape);
        self.input.label_sets.push(labels(&[("app", app)]));
        (self.input.shapes.len() as u32 - 1, self.input.label_sets.len() as u32 - 1)
    }

    /// A pod to place, with the label `app=<app>`.
    pub fn pod(&mut self, app: &str, shape: PodShape) -> u32 {
        let (shape, labels) = self.intern(app, shape);
        let at = self.input.pods.len() as u32;
        self.input.pods.push(Pod {
            namespace: text("default"),
            name: text(&format!("{app}-{at}")),
            shape,
            labels,
            workload: text("Pod/test"),
            ..Pod::default()
        });
        at
    }

    /// A pod bound to node `node`.
    pub fn bound_pod(&mut self, node: u32, app: &str, shape: PodShape) -> &mut BoundPod {
        let (shape, labels) = self.intern(app, shape);
        let pods = &mut self.input.nodes[node as usize].pods;
        pods.push(BoundPod {
            namespace: text("default"),
            name: text(app),
            shape,
            labels,
            volumes: None,
            daemon: None,
            terminating: false,
            leaving: false,
        });
        pods.last_mut().expect("the pod just pushed")
    }

    /// A node of the pool with 4 CPUs and 16 GiB, on demand.
    pub fn node(&mut self, name: &str, zone: &str) -> u32 {
        let sizes = amounts(4000, 16 * GIB, 110);
        let pairs =
            [(HOSTNAME, name), (ZONE, zone), (CAPACITY_TYPE, "on-demand"), (ARCH, "amd64"), (INSTANCE_TYPE, LARGE)];
        self.input.nodes.push(Node {
            name: NodeName::from(name),
            pool: Some(PoolName::from("default")),
            labels: labels(&pairs),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: sizes.clone(),
            capacity: sizes,
            stage: NodeStage::Initialized,
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: None,
        });
        self.input.nodes.len() as u32 - 1
    }

    pub fn daemon(&mut self, name: &str, shape: PodShape) {
        let (shape, labels) = self.intern(name, shape);
        self.input.daemons.push(DaemonSet { namespace: text("system"), name: text(name), shape, labels });
    }

    /// Places a pod on a node of the input.
    pub fn place(&mut self, pod: u32, node: u32) {
        self.plan.placements.push((pod, node));
        self.plan.order.push(pod);
    }

    /// An on-demand node as a correct plan describes it; DaemonSet requests must be the same on
    /// every option.
    pub fn launch(&mut self, types: &[&str], zones: &[&str], pods: &[u32]) -> &mut PlannedNode {
        let node = self.described(0, CapacityType::OnDemand, types, zones, pods);
        self.plan.order.extend(pods);
        self.plan.nodes.push(node);
        self.plan.nodes.last_mut().expect("the machine just pushed")
    }

    /// A spot node as a correct plan describes it.
    pub fn launch_spot(&mut self, types: &[&str], zones: &[&str], pods: &[u32]) -> &mut PlannedNode {
        let node = self.described(0, CapacityType::Spot, types, zones, pods);
        self.plan.order.extend(pods);
        self.plan.nodes.push(node);
        self.plan.nodes.last_mut().expect("the machine just pushed")
    }

    /// A planned node of a static pool.
    pub fn launch_static(&mut self, types: &[&str], zones: &[&str]) -> &mut PlannedNode {
        let node = self.described(0, CapacityType::OnDemand, types, zones, &[]);
        self.plan.static_nodes.push(node);
        self.plan.static_nodes.last_mut().expect("the machine just pushed")
    }

    pub fn described(&self, at: u32, kind: CapacityType, types: &[&str], zones: &[&str], pods: &[u32]) -> PlannedNode {
        let pool = &self.input.pools[at as usize];
        let catalogue = &pool.catalogue;
        let index = |name: &&str| {
            catalogue.types.iter().position(|machine| machine.name.as_ref() == *name).expect("a type of the catalogue")
        };
        let types: Vec<u32> = types.iter().map(|name| index(name) as u32).collect();
        let first = &catalogue.types[types[0] as usize];
        let available = first.offerings.iter().filter(|o| o.capacity_type == kind && o.zone.as_ref() == zones[0]);
        let cheapest = available.min_by_key(|offering| offering.price).expect("an offering in the first zone");
        let mut known = pool.labels.clone();
        known.extend(labels(&[(NODEPOOL, &pool.name), (CAPACITY_TYPE, kind.as_str()), (ARCH, "amd64")]));
        if let [zone] = zones {
            known.insert(text(ZONE), text(zone));
        }
        if types.len() == 1 {
            known.insert(text(INSTANCE_TYPE), first.name.as_text().clone());
        }
        let mut requests = Resources::new();
        let shapes = pods.iter().map(|pod| self.input.pods[*pod as usize].shape);
        for shape in shapes.chain(self.input.daemons.iter().map(|daemon| daemon.shape)) {
            requests.add(&self.input.shapes[shape as usize].requests);
        }
        let number = self.plan.nodes.len() + self.plan.static_nodes.len();
        PlannedNode {
            name: NodeName::from(format!("{}-{number}", pool.name)),
            pool: at,
            capacity_type: kind,
            zones: zones.iter().map(|zone| Zone::from(*zone)).collect(),
            types: types.into(),
            price: cheapest.price,
            credits: MicroUsd(0),
            reservation: cheapest.reservation.as_ref().map(|reservation| reservation.id.clone()),
            pods: pods.to_vec(),
            labels: Arc::new(known),
            taints: pool.taints.clone().into(),
            requests,
        }
    }

    /// The violated rules, without duplicates.
    pub fn broken(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = check(&self.input, &self.plan).into_iter().map(|violation| violation.rule).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    #[track_caller]
    pub fn assert_clean(&self) {
        let violations: Vec<String> = check(&self.input, &self.plan).iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    /// Asserts that the plan violates `rule` and no other.
    #[track_caller]
    pub fn assert_breaks(&self, rule: Rule) {
        let violations: Vec<String> = check(&self.input, &self.plan).iter().map(ToString::to_string).collect();
        assert_eq!(self.broken(), [rule], "{violations:#?}");
    }
}

/// A shape that requires a label.
pub fn requiring(requirement: Requirement) -> PodShape {
    let term = model::NodeSelectorTerm { expressions: vec![requirement], names: Vec::new() };
    PodShape { node_affinity: vec![term], ..plain() }
}
