//! Nodes, and NodeClaims that have no Node yet.

use std::collections::BTreeMap;

use manifests::cluster::Cluster;
use manifests::cluster::metadata::with_canonical_keys;
use manifests::cluster::node::NodeObject;
use manifests::karpenter::NodeClaimManifest;
use manifests::notes::Notes;
use model::drain::is_disrupted;
use model::labels::{HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED};
use model::{
    Effect, InstanceType, Labels, Node, NodeName, NodePool, NodeStage, PoolName, Requirements, Resources, Taint,
};

/// Taints that controllers remove while a node starts (Karpenter: known ephemeral taints).
const EPHEMERAL: [(&str, Effect); 5] = [
    ("node.kubernetes.io/not-ready", Effect::NoSchedule),
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoSchedule),
    ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule),
    ("karpenter.sh/unregistered", Effect::NoExecute),
];
const EPHEMERAL_PREFIX: &str = "readiness.k8s.io/";

/// All nodes, sorted by name, without pods.
pub fn build(cluster: &Cluster, claims: &[NodeClaimManifest], pools: &[NodePool], notes: &mut Notes) -> Vec<Node> {
    let mut nodes: BTreeMap<NodeName, Node> = BTreeMap::new();
    let mut started = vec![false; claims.len()];
    for object in &cluster.nodes {
        let claim = claims.iter().position(|claim| belongs(claim, object));
        if let Some(at) = claim {
            started[at] = true;
        }
        let mut node = existing(object, claim.map(|at| &claims[at]), pools);
        node.attach_limits = cluster.attach_limits.get(&node.name).cloned().unwrap_or_default();
        if is_disrupted(&object.taints) && node.stage != NodeStage::Deleting {
            let what = "nodes have the taint karpenter.sh/disrupted and record no drain of their NodeClaim: they stay, and no \
                        pod is placed on them (a server has the taint taken off)";
            notes.add(what, &node.name);
        }
        if node.allocatable.is_empty() {
            notes.add("nodes have no status.allocatable, so nothing fits on them", &node.name);
        }
        nodes.insert(node.name.clone(), node);
    }
    for (claim, _) in claims.iter().zip(&started).filter(|(_, started)| !**started) {
        if let Some(node) = in_flight(claim, pools, notes)
            && !nodes.contains_key(&node.name)
        {
            nodes.insert(node.name.clone(), node);
        }
    }
    nodes.into_values().collect()
}

fn belongs(claim: &NodeClaimManifest, node: &NodeObject) -> bool {
    let same_machine = claim.provider_id.is_some() && claim.provider_id == node.provider_id;
    same_machine || claim.node_name.as_ref().map(NodeName::as_text) == Some(&node.meta.name)
}

fn existing(object: &NodeObject, claim: Option<&NodeClaimManifest>, pools: &[NodePool]) -> Node {
    let mut labels = object.meta.labels.clone();
    for (key, value) in claim.map(|claim| with_canonical_keys(claim.labels.clone())).into_iter().flatten() {
        labels.entry(key).or_insert(value);
    }
    let pool = labels.get(NODEPOOL).map(PoolName::from);
    let ours = pool.is_some() || claim.is_some();
    let is = |label: &str| labels.get(label).is_some_and(|value| value.as_ref() == "true");
    let initialized = !ours || is(INITIALIZED);
    // The taint `karpenter.sh/disrupted` alone may be anybody's: it keeps pods away like any other.
    let is_drained = |claim: &NodeClaimManifest| object.drain.as_ref().is_some_and(|drain| drain.claim == claim.name);
    let deleting = object.meta.deleting || claim.is_some_and(|claim| claim.deleted.is_some() || is_drained(claim));
    // Deletion takes precedence: a node that is being removed accepts no pods in any stage.
    let stage = match (deleting, initialized) {
        (true, _) => NodeStage::Deleting,
        (false, true) => NodeStage::Initialized,
        (false, false) => NodeStage::Registered,
    };
    let startup = startup_taints(claim, pool.as_ref(), pools);
    let taints = match claim {
        Some(claim) if !initialized && !is(REGISTERED) => claim.taints.clone(),
        _ if initialized => object.taints.clone(),
        _ => lasting(&object.taints, startup),
    };
    let starting_claim = claim.filter(|_| !initialized);
    let fill = |own: &Resources, of_claim: Option<&Resources>| filled(own.clone(), of_claim);
    let allocatable = fill(&object.allocatable, starting_claim.map(|claim| &claim.allocatable));
    let capacity = fill(&object.capacity, starting_claim.map(|claim| &claim.capacity));
    Node {
        name: NodeName::from(&object.meta.name),
        pool: pool.filter(|_| ours),
        labels,
        taints,
        unschedulable: object.unschedulable,
        capacity: if capacity.is_empty() { allocatable.clone() } else { capacity },
        allocatable,
        stage,
        pods: Vec::new(),
        attach_limits: Vec::new(),
        created: object.meta.created,
    }
}

/// Resources of a node that is not initialized: amounts that are missing or zero come from its
/// NodeClaim.
fn filled(mut own: Resources, of_claim: Option<&Resources>) -> Resources {
    for (name, amount) in of_claim.map(Resources::iter).into_iter().flatten() {
        if own.get(name) == 0 {
            own.set(name.clone(), amount);
        }
    }
    own
}

fn startup_taints<'a>(
    claim: Option<&'a NodeClaimManifest>,
    pool: Option<&PoolName>,
    pools: &'a [NodePool],
) -> &'a [Taint] {
    let of_pool = || pools.iter().find(|known| Some(&known.name) == pool).map(|pool| pool.startup_taints.as_slice());
    claim.map(|claim| claim.startup_taints.as_slice()).or_else(of_pool).unwrap_or_default()
}

/// Taints that the node will still have when it is initialized. Taints match by key and effect.
fn lasting(taints: &[Taint], startup: &[Taint]) -> Vec<Taint> {
    let passes = |taint: &&Taint| {
        let ephemeral = EPHEMERAL.iter().any(|(key, effect)| taint.key.as_ref() == *key && taint.effect == *effect);
        let starting = startup.iter().any(|other| other.key == taint.key && other.effect == taint.effect);
        !ephemeral && !starting && !taint.key.starts_with(EPHEMERAL_PREFIX)
    };
    taints.iter().filter(passes).cloned().collect()
}

/// The node that will join for `claim`; `None`, with a note, when its resources are unknown or the
/// claim is being deleted.
fn in_flight(claim: &NodeClaimManifest, pools: &[NodePool], notes: &mut Notes) -> Option<Node> {
    if claim.deleted.is_some() {
        notes.add("NodeClaims without a Node are being deleted and provide no capacity", &claim.name);
        return None;
    }
    let mut labels = claim_labels(claim);
    let (mut allocatable, mut capacity) = (claim.allocatable.clone(), claim.capacity.clone());
    // Without a status the instance has not been launched; its type determines capacity and labels.
    if allocatable.is_empty() {
        let Some(machine) = machine_of(&labels, claim.pool.as_ref(), pools) else {
            notes.add(
                "NodeClaims have neither status.allocatable nor one known instance type, and provide no capacity",
                &claim.name,
            );
            return None;
        };
        (allocatable, capacity) = (machine.allocatable.clone(), machine.capacity.clone());
        add_fixed(&mut labels, &machine.labels);
    }
    Some(Node {
        name: NodeName::from(claim.name.as_text()),
        pool: claim.pool.clone(),
        labels,
        taints: claim.taints.clone(),
        unschedulable: false,
        capacity: if capacity.is_empty() { allocatable.clone() } else { capacity },
        allocatable,
        stage: NodeStage::InFlight,
        pods: Vec::new(),
        attach_limits: Vec::new(),
        created: claim.created,
    })
}

/// Labels of the claim, the labels whose value its requirements determine, and its own name as host
/// name.
fn claim_labels(claim: &NodeClaimManifest) -> Labels {
    let mut labels = with_canonical_keys(claim.labels.clone());
    let requirements: Requirements = claim.requirements.iter().cloned().collect();
    add_fixed(&mut labels, &requirements);
    labels.insert(HOSTNAME.into(), claim.name.as_text().clone());
    labels
}

fn add_fixed(labels: &mut Labels, requirements: &Requirements) {
    for requirement in requirements.iter() {
        if let Some(values) = requirement.finite_values()
            && let (1, Some(value)) = (values.len(), values.first())
        {
            labels.entry(requirement.key().clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The instance type that the labels name, from the catalogue of the claim's pool.
fn machine_of<'p>(labels: &Labels, pool: Option<&PoolName>, pools: &'p [NodePool]) -> Option<&'p InstanceType> {
    let name = labels.get(INSTANCE_TYPE)?;
    let pool = pools.iter().find(|known| Some(&known.name) == pool)?;
    let at = pool.catalogue.types.binary_search_by(|machine| machine.name.as_text().cmp(name)).ok()?;
    pool.catalogue.types.get(at)
}
