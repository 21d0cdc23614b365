//! Builds planning inputs and plans: one catalogue of three types in zones a and b, pools, nodes
//! and pods.
//!
//! | type | allocatable | on demand a, b | spot |
//! |---|---|---|---|
//! | small (amd64, 2 cpu, 4Gi) | 1.9 cpu, 3Gi | 0.10, 0.10 | 0.04 in a |
//! | arm (arm64, 4 cpu, 8Gi) | 3.9 cpu, 7Gi | 0.12, 0.13 | none |
//! | large (amd64, 8 cpu, 16Gi) | 7.91 cpu, 14Gi | 0.40, 0.42 | 0.15 in a |

use std::sync::Arc;

use explain::unschedulable;
use model::input::PlanningInput;
use model::labels::{ARCH, HOSTNAME, INSTANCE_TYPE, ZONE};
use model::plan::{Plan, PlannedNode, ReasonCode, Unschedulable};
use model::resources::{CPU, MEMORY, PODS};
use model::{
    BoundPod, CapacityType, Catalogue, Effect, InstanceType, LabelSelector, Labels, MicroUsd, Node, NodePool,
    NodeStage, Offering, Pod, PodAffinityTerm, PodShape, Requirement, Requirements, Resources, SelectorOperator,
    SelectorTerm, SpreadConstraint, Taint, Text, VolumeAlternatives, Zone,
};

pub const GI: i64 = 1 << 30;
/// Index of the type `arm`.
pub const ARM: u32 = 0;
/// Index of the type `large`.
pub const LARGE: u32 = 1;
/// Index of the type `small`.
pub const SMALL: u32 = 2;

/// An input and its plan, extended by the builder methods.
#[derive(Default)]
pub struct Fixture {
    pub input: PlanningInput,
    pub plan: Plan,
}

pub fn resources(millicores: i64, memory: i64) -> Resources {
    Resources::from_iter([(CPU, millicores), (MEMORY, memory)])
}

fn index(length: usize) -> u32 {
    u32::try_from(length).expect("small inputs")
}

/// A pod shape with requests of cpu in millicores and memory in GiB.
pub fn asks(millicores: i64, gibibytes: i64) -> PodShape {
    let mut requests = resources(millicores, gibibytes * GI);
    requests.set(PODS, 1);
    PodShape { requests, ..PodShape::default() }
}

pub fn selecting(mut shape: PodShape, key: &str, value: &str) -> PodShape {
    shape.node_selector.insert(key.into(), value.into());
    shape
}

pub fn app(name: &str) -> Labels {
    Labels::from([("app".into(), name.into())])
}

pub fn selector(name: &str) -> Option<LabelSelector> {
    let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec![name.into()] };
    Some(LabelSelector::new(vec![term]))
}

pub fn near(app: &str, key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.into(),
        selector: selector(app),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

pub fn spread(app: &str, key: &str, max_skew: i32, hard: bool) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew,
        min_domains: None,
        hard,
        selector: selector(app),
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

pub fn taint(key: &str, value: &str, effect: Effect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    Offering {
        zone: zone.into(),
        capacity_type,
        price: MicroUsd(price),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    }
}

fn instance(name: &str, arch: &str, size: (i64, i64), free: (i64, i64), offerings: Vec<Offering>) -> InstanceType {
    let labels = [Requirement::equals(INSTANCE_TYPE, name), Requirement::equals(ARCH, arch)];
    let mut allocatable = resources(free.0, free.1 * GI);
    allocatable.set(PODS, 58);
    let mut capacity = resources(size.0, size.1 * GI);
    capacity.set(PODS, 58);
    InstanceType {
        name: name.into(),
        labels: labels.into_iter().collect::<Requirements>().into(),
        capacity,
        allocatable,
        exotic: false,
        burstable: None,
        offerings,
    }
}

/// The catalogue of the table above.
pub fn catalogue() -> Catalogue {
    use CapacityType::{OnDemand, Spot};
    let arm = vec![offering("a", OnDemand, 120_000), offering("b", OnDemand, 130_000)];
    let large = vec![offering("a", OnDemand, 400_000), offering("b", OnDemand, 420_000), offering("a", Spot, 150_000)];
    let small = vec![offering("a", OnDemand, 100_000), offering("b", OnDemand, 100_000), offering("a", Spot, 40_000)];
    Catalogue {
        types: vec![
            instance("arm", "arm64", (4000, 8), (3900, 7), arm),
            instance("large", "amd64", (8000, 16), (7910, 14), large),
            instance("small", "amd64", (2000, 4), (1900, 3), small),
        ],
        offering_keys: Vec::new(),
    }
}

/// A pool that allows the whole catalogue.
pub fn pool(name: &str) -> NodePool {
    NodePool {
        name: name.into(),
        node_class: "default".into(),
        catalogue: Arc::new(catalogue()),
        ..NodePool::default()
    }
}

impl Fixture {
    pub fn new() -> Self {
        let mut fixture = Self::default();
        fixture.input.policy.well_known_labels =
            [ZONE, ARCH, INSTANCE_TYPE, "karpenter.sh/capacity-type", "topology.k8s.aws/zone-id"]
                .map(Text::from)
                .into();
        fixture
    }

    pub fn pool(mut self, pool: NodePool) -> Self {
        self.input.pools.push(pool);
        self
    }

    /// An initialized, unmanaged node.
    pub fn node(mut self, name: &str, zone: &str, allocatable: Resources) -> Self {
        let mut allocatable = allocatable;
        allocatable.set(PODS, 58);
        let labels = [(HOSTNAME, name), (ZONE, zone), (ARCH, "amd64")];
        self.input.nodes.push(Node {
            name: name.into(),
            pool: None,
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            taints: Vec::new(),
            unschedulable: false,
            capacity: allocatable.clone(),
            allocatable,
            stage: NodeStage::Initialized,
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: None,
        });
        self
    }

    fn shape(&mut self, shape: PodShape) -> u32 {
        self.input.shapes.push(shape);
        index(self.input.shapes.len() - 1)
    }

    fn labels(&mut self, labels: Labels) -> u32 {
        self.input.label_sets.push(labels);
        index(self.input.label_sets.len() - 1)
    }

    /// A pod that runs on the last node.
    pub fn running(mut self, name: &str, labels: Labels, shape: PodShape) -> Self {
        let (shape, labels) = (self.shape(shape), self.labels(labels));
        self.input.nodes.last_mut().expect("a node comes before its pods").pods.push(BoundPod {
            namespace: "default".into(),
            name: name.into(),
            shape,
            labels,
            volumes: None,
            daemon: None,
            terminating: false,
            leaving: false,
        });
        self
    }

    /// Volumes of the pods added next.
    pub fn volumes(mut self, volumes: VolumeAlternatives) -> Self {
        self.input.volume_sets.push(volumes);
        self
    }

    /// Unscheduled pods of the Deployment `name`, with the volumes set last.
    pub fn pods(mut self, count: u32, name: &str, shape: PodShape) -> Self {
        let (shape, labels) = (self.shape(shape), self.labels(app(name)));
        let volumes = index(self.input.volume_sets.len()).checked_sub(1);
        for number in 0..count {
            self.plan.unschedulable.push(index(self.input.pods.len()));
            self.input.pods.push(Pod {
                namespace: "default".into(),
                name: format!("{name}-{number}").into(),
                shape,
                labels,
                volumes,
                workload: format!("Deployment/{name}").into(),
                ..Pod::default()
            });
        }
        self
    }

    pub fn pod(self, name: &str, shape: PodShape) -> Self {
        self.pods(1, name, shape)
    }

    /// Places unscheduled pods on an existing node.
    pub fn placed(mut self, pods: &[u32], node: u32) -> Self {
        self.plan.unschedulable.retain(|pod| !pods.contains(pod));
        self.plan.placements.extend(pods.iter().map(|&pod| (pod, node)));
        self
    }

    /// Launches an on-demand node of the first pool for unscheduled pods.
    pub fn launches(mut self, types: &[u32], zone: &str, pods: &[u32]) -> Self {
        self.plan.unschedulable.retain(|pod| !pods.contains(pod));
        let pool = &self.input.pools[0];
        let first = &pool.catalogue.types[types[0] as usize];
        let on_demand = |o: &&Offering| o.capacity_type == CapacityType::OnDemand && o.zone.as_ref() == zone;
        let mut labels = Labels::from([(ZONE.into(), Text::from(zone))]);
        for requirement in first.labels.iter() {
            labels.insert(requirement.key().clone(), requirement.representative().expect("types fix their labels"));
        }
        let mut requests = Resources::new();
        for &pod in pods {
            requests.add(&self.input.shapes[self.input.pods[pod as usize].shape as usize].requests);
        }
        self.plan.nodes.push(PlannedNode {
            name: format!("{}-{}", pool.name, self.plan.nodes.len()).into(),
            pool: 0,
            capacity_type: CapacityType::OnDemand,
            zones: Arc::from([Zone::from(zone)]),
            types: types.into(),
            price: first
                .offerings
                .iter()
                .find(on_demand)
                .expect("every type has an on-demand offering in a and b")
                .price,
            credits: MicroUsd(0),
            reservation: None,
            pods: pods.to_vec(),
            labels: Arc::new(labels),
            taints: pool.taints.clone().into(),
            requests,
        });
        self
    }

    /// Allows the node launched last in any of `zones`.
    pub fn zones_of_last(mut self, zones: &[&str]) -> Self {
        let node = self.plan.nodes.last_mut().expect("a node was launched");
        node.zones = zones.iter().map(|zone| Zone::from(*zone)).collect();
        Arc::make_mut(&mut node.labels).remove(ZONE);
        self
    }

    pub fn explained(&self) -> Vec<Unschedulable> {
        unschedulable(&self.input, &self.plan)
    }

    /// The explanation of the only unschedulable pod, as (pool, code, message) and relaxations.
    pub fn only(&self) -> Explanation {
        let mut all = self.explained();
        assert_eq!(all.len(), 1);
        let one = all.remove(0);
        let reason = |r: &model::plan::Reason| {
            (r.pool.as_ref().map_or(String::new(), |p| p.to_string()), r.code, r.message.clone())
        };
        Explanation { reasons: one.reasons.iter().map(reason).collect(), fits_if: one.fits_if.to_vec() }
    }
}

pub struct Explanation {
    pub reasons: Vec<(String, ReasonCode, String)>,
    pub fits_if: Vec<String>,
}

impl Explanation {
    /// Asserts a reason with this code and message by this pool.
    #[track_caller]
    pub fn because(&self, pool: &str, code: ReasonCode, message: &str) -> &Self {
        let expected = (pool.to_owned(), code, message.to_owned());
        assert!(self.reasons.contains(&expected), "{expected:#?}\nis not among\n{:#?}", self.reasons);
        self
    }

    /// Asserts exactly these relaxations.
    #[track_caller]
    pub fn fits_if(&self, sentences: &[&str]) {
        let expected: Vec<String> = sentences.iter().map(|sentence| format!("fits if {sentence}")).collect();
        assert_eq!(self.fits_if, expected);
    }
}
