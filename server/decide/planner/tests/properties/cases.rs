//! Small inputs in a notation that is short to print and easy to shrink, and the planning input of
//! each.

use std::sync::Arc;

use model::input::{MinValuesPolicy, PlanningInput, Policy, PreferencePolicy};
use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE};
use model::offering::SharedCatalogue;
use model::{
    BoundPod, CapacityType, Catalogue, DaemonSet, InstanceType, InstanceTypeName, Labels, MicroUsd, Node, NodeName,
    NodePool, NodeSelectorTerm, NodeStage, Offering, Operator, OptInRules, Pod, PodAffinityTerm, PodShape, PoolName,
    Requirement, Requirements, Reservation, Resources, SpreadConstraint, Timestamp, Weighted, Zone,
};

use crate::fixture::{
    GIB, LABEL_SETS, NAMESPACES, amounts, app_name, labels, port, selecting, taint, text, tolerating, volumes,
};

/// A test label key that pools and nodes may have.
pub const TIER: &str = "tier";
/// Label key of instance families.
pub const FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Label key that only nodes of the input have.
pub const RACK: &str = "rack";

/// A node requirement: key, operator, values.
pub type LabelRequirement = (&'static str, Operator, &'static [&'static str]);

pub fn requirement((key, operator, values): LabelRequirement) -> Requirement {
    Requirement::new(key, operator, values.iter().map(|value| text(value)))
}

#[derive(Debug, Clone)]
pub struct TypeCase {
    pub cpus: i64,
    pub gib: i64,
    pub pods: i64,
    pub arm: bool,
    pub exotic: bool,
    pub attach: Option<i64>,
    /// Zone, capacity type, price in thousandths of a dollar; equal (zone, capacity type) pairs count once.
    pub offerings: Vec<(&'static str, CapacityType, i64)>,
}

#[derive(Debug, Clone, Default)]
pub struct PoolCase {
    pub weight: i32,
    pub tainted: bool,
    pub soft_tainted: bool,
    pub tier: Option<&'static str>,
    pub requirements: Vec<LabelRequirement>,
    /// `minValues` of instance types.
    pub min_types: Option<u32>,
    /// `minValues` of instance families; there are four.
    pub min_families: Option<u32>,
    pub cpu_limit: Option<i64>,
    pub node_limit: Option<i64>,
    pub replicas: Option<i64>,
    pub unhealthy: bool,
    pub rules: OptInRules,
}

#[derive(Debug, Clone, Copy)]
pub struct SpreadCase {
    pub key: &'static str,
    pub skew: i32,
    pub min_domains: Option<i32>,
    pub hard: bool,
    pub app: usize,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct TermCase {
    pub key: &'static str,
    pub app: usize,
    pub all_namespaces: bool,
}

#[derive(Debug, Clone, Default)]
pub struct ShapeCase {
    pub half_cpus: i64,
    pub gib: i64,
    pub selector: Option<(&'static str, &'static str)>,
    pub any_of: Vec<Vec<LabelRequirement>>,
    pub preferred: Vec<(i32, LabelRequirement)>,
    pub spread: Vec<SpreadCase>,
    pub affinity: Vec<TermCase>,
    pub anti_affinity: Vec<TermCase>,
    pub preferred_affinity: Vec<TermCase>,
    pub preferred_anti_affinity: Vec<TermCase>,
    pub tolerates: bool,
    pub port: Option<u16>,
    pub priority: i32,
}

#[derive(Debug, Clone, Default)]
pub struct PodCase {
    /// Number of the shape, modulo the number of shapes.
    pub shape: usize,
    pub app: usize,
    pub namespace: usize,
    pub volumes: Option<u32>,
    pub recently_created: bool,
}

#[derive(Debug, Clone)]
pub struct NodeCase {
    pub zone: &'static str,
    pub spot: bool,
    pub cpus: i64,
    pub arm: bool,
    pub tier: Option<&'static str>,
    pub rack: Option<&'static str>,
    pub tainted: bool,
    pub soft_tainted: bool,
    pub cordoned: bool,
    pub stage: NodeStage,
    /// Number of the pool; `None` for an unmanaged node.
    pub pool: Option<usize>,
    pub attach: Option<i64>,
    /// Whether its DaemonSet pods are bound already.
    pub daemons_run: bool,
    pub pods: Vec<PodCase>,
}

#[derive(Debug, Clone, Default)]
pub struct DaemonCase {
    pub half_cpus: i64,
    pub any_of: Vec<Vec<LabelRequirement>>,
    pub tolerates: bool,
    pub port: Option<u16>,
}

#[derive(Debug, Clone, Default)]
pub struct Case {
    pub types: Vec<TypeCase>,
    pub pools: Vec<PoolCase>,
    pub nodes: Vec<NodeCase>,
    pub daemons: Vec<DaemonCase>,
    pub shapes: Vec<ShapeCase>,
    pub pods: Vec<PodCase>,
    pub ignore_preferences: bool,
    pub best_effort: bool,
}

impl Case {
    pub fn input(&self) -> PlanningInput {
        let mut input =
            PlanningInput { volume_sets: volumes(), now: Timestamp::from_millis(600_000), ..PlanningInput::default() };
        input.policy = Policy {
            preferences: if self.ignore_preferences { PreferencePolicy::Ignore } else { PreferencePolicy::Respect },
            min_values: if self.best_effort { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict },
            well_known_labels: [ARCH, INSTANCE_TYPE, ZONE, CAPACITY_TYPE, FAMILY].into_iter().map(text).collect(),
            ..Policy::default()
        };
        input.label_sets = (0..LABEL_SETS).map(|app| labels(&[("app", &app_name(app))])).collect();
        input.shapes = self.shapes.iter().map(shape).collect();
        if input.shapes.is_empty() {
            input.shapes.push(PodShape { requests: amounts(500, GIB, 1), ..PodShape::default() });
        }
        let catalogue = Arc::new(catalogue(&self.types));
        input.pools = (0..).zip(&self.pools).map(|(at, case)| pool(at, case, &catalogue)).collect();
        input.nodes = (0..).zip(&self.nodes).map(|(at, case)| self.node(at, case, input.shapes.len())).collect();
        for (at, case) in (0..).zip(&self.daemons) {
            let index = input.shapes.len() as u32;
            input.shapes.push(daemon_shape(case));
            let name = text(&format!("daemon-{at}"));
            input.daemons.push(DaemonSet { namespace: text("system"), name, shape: index, labels: 0 });
        }
        self.run_daemons(&mut input);
        let shapes = self.shapes.len().max(1);
        input.pods = (0..).zip(&self.pods).map(|(at, case)| pod(at, case, shapes)).collect();
        input.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        input
    }

    /// Binds a pod of each DaemonSet to the nodes with `daemons` set, if labels and taints admit
    /// it.
    fn run_daemons(&self, input: &mut PlanningInput) {
        for (node, _) in input.nodes.iter_mut().zip(&self.nodes).filter(|(_, case)| case.daemons_run) {
            for (daemon, case) in input.daemons.iter().zip(&self.daemons) {
                if case.any_of.is_empty() && (case.tolerates || !node.taints.contains(&taints(true, false)[0])) {
                    node.pods.push(BoundPod {
                        namespace: daemon.namespace.clone(),
                        name: text(&format!("{}-on-{}", daemon.name, node.name)),
                        shape: daemon.shape,
                        labels: daemon.labels,
                        volumes: None,
                        daemon: Some(text(&format!("{}/{}", daemon.namespace, daemon.name))),
                        terminating: false,
                        leaving: node.stage == NodeStage::Deleting,
                    });
                }
            }
        }
    }

    fn node(&self, at: usize, case: &NodeCase, shapes: usize) -> Node {
        let name = format!("node-{at}");
        let pool = case.pool.filter(|_| !self.pools.is_empty()).map(|pool| pool_name(pool % self.pools.len()));
        let capacity_type = if case.spot { "spot" } else { "on-demand" };
        let pairs =
            [(HOSTNAME, name.as_str()), (ZONE, case.zone), (CAPACITY_TYPE, capacity_type), (ARCH, arch(case.arm))];
        let mut labels = labels(&pairs);
        labels.extend(case.tier.map(|tier| (text(TIER), text(tier))));
        labels.extend(case.rack.map(|rack| (text(RACK), text(rack))));
        labels.extend(pool.as_ref().map(|pool| (text(NODEPOOL), text(pool))));
        let sizes = amounts(case.cpus * 1000, case.cpus * 4 * GIB, 20);
        let deleting = case.stage == NodeStage::Deleting;
        let bound = |(number, pod): (usize, &PodCase)| BoundPod {
            namespace: text(NAMESPACES[pod.namespace]),
            name: text(&format!("bound-{at}-{number}")),
            shape: (pod.shape % shapes) as u32,
            labels: pod.app as u32,
            volumes: pod.volumes,
            daemon: None,
            terminating: pod.recently_created,
            leaving: deleting,
        };
        Node {
            name: NodeName::from(name),
            pool: pool.map(PoolName::from),
            labels,
            taints: taints(case.tainted, case.soft_tainted),
            unschedulable: case.cordoned,
            allocatable: sizes.clone(),
            capacity: sizes,
            stage: case.stage,
            pods: case.pods.iter().enumerate().map(bound).collect(),
            attach_limits: case.attach.map(|limit| (text("ebs"), limit)).into_iter().collect(),
            created: None,
        }
    }
}

fn arch(arm: bool) -> &'static str {
    if arm { "arm64" } else { "amd64" }
}

fn taints(hard: bool, soft: bool) -> Vec<model::Taint> {
    let hard = hard.then(|| taint("dedicated", model::Effect::NoSchedule));
    let soft = soft.then(|| taint("costly", model::Effect::PreferNoSchedule));
    hard.into_iter().chain(soft).collect()
}

fn pool_name(at: usize) -> String {
    format!("pool-{at}")
}

fn catalogue(cases: &[TypeCase]) -> Catalogue {
    let types = (0_usize..).zip(cases).map(|(at, case)| instance_type(at, case)).collect();
    Catalogue { types, offering_keys: Vec::new() }
}

fn instance_type(at: usize, case: &TypeCase) -> InstanceType {
    let (name, family) = (format!("type-{at}"), format!("f{}", at % 4));
    let mut sizes = amounts(case.cpus * 1000, case.gib * GIB, case.pods);
    if let Some(limit) = case.attach {
        sizes.set("attachable-volumes-ebs", limit);
    }
    let mut offerings: Vec<Offering> = Vec::new();
    for (zone, capacity_type, price) in &case.offerings {
        let same = |known: &Offering| known.zone.as_ref() == *zone && known.capacity_type == *capacity_type;
        if offerings.iter().any(same) {
            continue;
        }
        let reserved = *capacity_type == CapacityType::Reserved;
        offerings.push(Offering {
            zone: Zone::from(*zone),
            capacity_type: *capacity_type,
            price: MicroUsd(if reserved { 0 } else { price * 1000 }),
            estimated: false,
            catalogue_price: None,
            available: true,
            reservation: reserved.then(|| Reservation { id: text(&format!("cr-{zone}")), remaining: 1 }),
            labels: Labels::new().into(),
        });
    }
    InstanceType {
        name: InstanceTypeName::from(name.as_str()),
        labels: Requirements::from_labels(&labels(&[
            (INSTANCE_TYPE, &name),
            (ARCH, arch(case.arm)),
            (FAMILY, &family),
        ]))
        .into(),
        capacity: sizes.clone(),
        allocatable: sizes,
        exotic: case.exotic,
        burstable: None,
        offerings,
    }
}

fn pool(at: usize, case: &PoolCase, catalogue: &SharedCatalogue) -> NodePool {
    let mut requirements: Requirements =
        case.requirements.iter().map(|label_requirement| requirement(*label_requirement)).collect();
    let labels: Labels = case.tier.map(|tier| (text(TIER), text(tier))).into_iter().collect();
    requirements.add_all(&Requirements::from_labels(&labels));
    if let Some(least) = case.min_types {
        requirements.add(Requirement::new(INSTANCE_TYPE, Operator::Exists, []).with_min_values(Some(least)));
    }
    if let Some(least) = case.min_families {
        requirements.add(Requirement::new(FAMILY, Operator::Exists, []).with_min_values(Some(least)));
    }
    let mut limits = Resources::new();
    if let Some(cpus) = case.cpu_limit {
        limits.set("cpu", cpus * 1000);
    }
    if let Some(nodes) = case.node_limit {
        limits.set("nodes", nodes);
    }
    NodePool {
        name: PoolName::from(pool_name(at)),
        node_class: text("default"),
        weight: case.weight,
        labels,
        taints: taints(case.tainted, case.soft_tainted),
        startup_taints: Vec::new(),
        requirements,
        limits,
        replicas: case.replicas,
        not_ready: None,
        unhealthy: case.unhealthy,
        catalogue: SharedCatalogue::clone(catalogue),
        rules: case.rules.clone(),
    }
}

fn terms(any_of: &[Vec<LabelRequirement>]) -> Vec<NodeSelectorTerm> {
    let term = |requirements: &Vec<LabelRequirement>| NodeSelectorTerm {
        expressions: requirements.iter().map(|label_requirement| requirement(*label_requirement)).collect(),
        names: Vec::new(),
    };
    any_of.iter().map(term).collect()
}

fn term(case: &TermCase) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: text(case.key),
        selector: selecting(case.app),
        namespaces: Vec::new(),
        namespace_selector: case.all_namespaces.then(Default::default),
    }
}

fn weighted(cases: &[TermCase]) -> Vec<Weighted<PodAffinityTerm>> {
    (1..).zip(cases).map(|(weight, case)| Weighted { weight, term: term(case) }).collect()
}

fn spread(case: &SpreadCase) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: text(case.key),
        max_skew: case.skew,
        min_domains: case.min_domains.filter(|_| case.hard),
        hard: case.hard,
        selector: selecting(case.app),
        honor_node_affinity: case.honor_affinity,
        honor_node_taints: case.honor_taints,
    }
}

fn shape(case: &ShapeCase) -> PodShape {
    let preferred = |(weight, label_requirement): &(i32, LabelRequirement)| {
        let expressions = vec![requirement(*label_requirement)];
        Weighted { weight: *weight, term: NodeSelectorTerm { expressions, names: Vec::new() } }
    };
    PodShape {
        requests: amounts(case.half_cpus * 500, case.gib * GIB, 1),
        node_selector: case.selector.map(|(key, value)| (text(key), text(value))).into_iter().collect(),
        node_affinity: terms(&case.any_of),
        preferred_node_affinity: case.preferred.iter().map(preferred).collect(),
        pod_affinity: case.affinity.iter().map(term).collect(),
        preferred_pod_affinity: weighted(&case.preferred_affinity),
        pod_anti_affinity: case.anti_affinity.iter().map(term).collect(),
        preferred_pod_anti_affinity: weighted(&case.preferred_anti_affinity),
        spread: case.spread.iter().map(spread).collect(),
        tolerations: case.tolerates.then(|| tolerating("dedicated")).into_iter().collect(),
        host_ports: case.port.map(port).into_iter().collect(),
        priority: case.priority,
    }
}

/// DaemonSets tolerate `PreferNoSchedule`, as the manifest reader adds it.
fn daemon_shape(case: &DaemonCase) -> PodShape {
    let mut tolerations = vec![tolerating("costly")];
    tolerations.extend(case.tolerates.then(|| tolerating("dedicated")));
    PodShape {
        requests: amounts(case.half_cpus * 500, GIB / 4, 1),
        node_affinity: terms(&case.any_of),
        tolerations,
        host_ports: case.port.map(port).into_iter().collect(),
        ..PodShape::default()
    }
}

fn pod(at: usize, case: &PodCase, shapes: usize) -> Pod {
    let app = app_name(case.app);
    Pod {
        namespace: text(NAMESPACES[case.namespace]),
        name: text(&format!("{app}-{at:02}")),
        shape: (case.shape % shapes) as u32,
        labels: case.app as u32,
        volumes: case.volumes,
        created: case.recently_created.then_some(Timestamp::from_millis(599_000)),
        workload: text(&format!("ReplicaSet/{app}")),
        moved_from: None,
        invalid: None,
    }
}
