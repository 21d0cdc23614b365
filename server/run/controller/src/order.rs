//! From a planned node to exact orders: the NodeClaim to create, the instance to launch, and its
//! expected resources.

use std::collections::BTreeSet;

use super::{ClaimOrder, DecisionId, PlannedMachine};
use cluster::{ClaimRecord, ClusterState, LaunchedFacts};
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODECLASS, NODEPOOL, ZONE, ZONE_ID};
use model::plan::{Plan, PlannedNode};
use model::{
    CapacityType, ClaimName, ClusterName, InstanceType, InstanceTypeName, Labels, LaunchOption, LaunchOrder, MicroUsd,
    NodePool, Offering, Operator, PodKey, PoolName, PriorityLane, ProviderId, Requirement, Resources, Text, Timestamp,
    Zone,
};

/// Maximum options of one launch order. More only cost calls (Karpenter's AWS provider sends as
/// many).
pub const MAX_OPTIONS: usize = 60;

/// The orders for `node`, whose NodeClaim is named `name`.
pub(super) fn machine_orders(
    cluster: &ClusterName,
    cluster_uid: &Text,
    state: &ClusterState,
    input: &PlanningInput,
    node: &PlannedNode,
    name: ClaimName,
    decision: DecisionId,
) -> PlannedMachine {
    // NodeClaim, launch and client token share one name: retries after a takeover depend on it.
    let pool = &input.pools[node.pool as usize];
    let pods: Vec<PodKey> = node.pods.iter().map(|pod| input.pods[*pod as usize].key()).collect();
    let options = launch_options(pool, node);
    let reason = match pods.as_slice() {
        [] => Text::from(format!("NodePool {} keeps a fixed number of nodes", pool.name)),
        [pod] => Text::from(format!("decision {}: pod {pod} fits on no node", decision.0)),
        [pod, rest @ ..] => {
            Text::from(format!("decision {}: pod {pod} and {} more fit on no node", decision.0, rest.len()))
        }
    };
    PlannedMachine {
        launch: LaunchOrder {
            cluster: cluster.clone(),
            cluster_uid: cluster_uid.clone(),
            claim: name.clone(),
            attempt: 1,
            token: launch_token(&name, 1),
            pool: pool.name.clone(),
            node_class: pool.node_class.clone(),
            capacity_type: node.capacity_type,
            options,
            reservation: node.reservation.clone(),
            terms: Text::default(),
            template: None,
            lane: PriorityLane::default(),
            repeats: false,
        },
        claim: claim_order(state, pool, node, name),
        pods,
        reason,
    }
}

/// Maximum length of an EC2 client token.
const MAX_TOKEN: usize = 64;

/// Client token of an attempt: `<claim>-<attempt>`; the middle of a long name is replaced by its
/// hash.
pub(super) fn launch_token(claim: &ClaimName, attempt: u32) -> Text {
    let plain = format!("{claim}-{attempt}");
    if plain.len() <= MAX_TOKEN {
        return Text::from(plain);
    }
    let head: String = claim.chars().take(32).collect();
    Text::from(format!("{head}-{:016x}-{attempt}", mix_hash(0, claim, 0)))
}

fn claim_order(state: &ClusterState, pool: &NodePool, node: &PlannedNode, name: ClaimName) -> ClaimOrder {
    let record = state.pool(&pool.name);
    let disruption = record.map(|record| &record.disruption);
    let mut labels = pool.labels.clone();
    labels.extend(node.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    labels.insert(Text::from(NODEPOOL), pool.name.as_text().clone());
    labels.insert(Text::from(NODECLASS), pool.node_class.clone());
    labels.insert(Text::from(CAPACITY_TYPE), Text::from(node.capacity_type.as_str()));
    let mut requirements = pool.requirements.clone();
    let types: BTreeSet<Text> = instance_types(pool, node).map(|kind| kind.name.as_text().clone()).collect();
    requirements.add(Requirement::new(INSTANCE_TYPE, Operator::In, types));
    requirements.add(Requirement::new(ZONE, Operator::In, node.zones.iter().map(|zone| zone.as_text().clone())));
    requirements.add(Requirement::equals(CAPACITY_TYPE, node.capacity_type.as_str()));
    ClaimOrder {
        name,
        pool: pool.name.clone(),
        node_class: pool.node_class.clone(),
        labels,
        taints: node.taints.to_vec(),
        startup_taints: pool.startup_taints.clone(),
        requirements,
        requests: node.requests.clone(),
        expire_after: disruption.and_then(|disruption| disruption.expire_after),
        termination_grace_period: disruption.and_then(|disruption| disruption.termination_grace_period),
        pool_hash: record.and_then(|record| record.drift.own_hash.clone()),
        class_hash: record.and_then(|record| record.drift.own_class_hash.clone()),
    }
}

fn instance_types<'p>(pool: &'p NodePool, node: &'p PlannedNode) -> impl Iterator<Item = &'p InstanceType> {
    node.types.iter().filter_map(|kind| pool.catalogue.types.get(*kind as usize))
}

/// Launch options, cheapest first, with ties in the order of the plan.
pub(super) fn launch_options(pool: &NodePool, node: &PlannedNode) -> Vec<LaunchOption> {
    let mut options = Vec::new();
    for kind in instance_types(pool, node) {
        for zone in node.zones.iter() {
            if let Some(offering) = offering_of(kind, zone, node.capacity_type).filter(|o| o.available) {
                let price = offering.charged_price();
                let option = LaunchOption { instance_type: kind.name.clone(), zone: zone.clone(), price };
                options.push((offering.price, option));
            }
        }
    }
    options.sort_by_key(|(price, _)| *price);
    options.into_iter().take(MAX_OPTIONS).map(|(_, option)| option).collect()
}

fn offering_of<'k>(kind: &'k InstanceType, zone: &Zone, capacity_type: CapacityType) -> Option<&'k Offering> {
    kind.offerings.iter().find(|offering| offering.zone == *zone && offering.capacity_type == capacity_type)
}

/// Id of the zone, as the offering's labels say.
pub(super) fn zone_id(
    pool: &NodePool,
    instance_type: &InstanceTypeName,
    zone: &Zone,
    capacity_type: CapacityType,
) -> Option<Text> {
    let types = &pool.catalogue.types;
    let at = types.binary_search_by(|kind| kind.name.cmp(instance_type)).ok()?;
    offering_of(&types[at], zone, capacity_type)?.labels.get(ZONE_ID).cloned()
}

/// The maximum of each resource over all options of the machine.
pub(super) fn max_capacity(pool: &NodePool, node: &PlannedNode) -> Resources {
    let mut capacity = Resources::new();
    instance_types(pool, node).for_each(|kind| capacity.raise_to(&kind.capacity));
    capacity
}

/// The expected NodeClaim before launch: allocatable is the minimum over all options, capacity
/// (counted against the NodePool's limits) the maximum.
pub(super) fn expected_claim(
    planned: &PlannedMachine,
    node: &PlannedNode,
    pool: &NodePool,
    now: Timestamp,
) -> ClaimRecord {
    expected_claim_for(planned, instance_types(pool, node), now)
}

fn expected_claim_for<'k>(
    planned: &PlannedMachine,
    kinds: impl Iterator<Item = &'k InstanceType>,
    now: Timestamp,
) -> ClaimRecord {
    let mut capacity = Resources::new();
    let mut allocatable: Option<Resources> = None;
    // The minimum never overstates what fits, the maximum never understates the use of limits.
    for kind in kinds {
        capacity.raise_to(&kind.capacity);
        allocatable = Some(match allocatable {
            None => kind.allocatable.clone(),
            Some(least) => {
                least.iter().map(|(name, had)| (name.clone(), had.min(kind.allocatable.get(name)))).collect()
            }
        });
    }
    let order = &planned.claim;
    ClaimRecord {
        name: order.name.clone(),
        pool: order.pool.clone(),
        node_class: order.node_class.clone(),
        labels: order.labels.clone(),
        taints: order.taints.clone(),
        startup_taints: order.startup_taints.clone(),
        requirements: order.requirements.clone(),
        requests: order.requests.clone(),
        capacity,
        allocatable: allocatable.unwrap_or_default(),
        ours: true,
        created: Some(now),
        termination_grace_period: order.termination_grace_period,
        expire_after: order.expire_after,
        drift: order.drift_facts(),
        ..ClaimRecord::default()
    }
}

/// As [`expected_claim`], for an order of an earlier process and the instance types that it names.
pub(super) fn expected_claim_of_order(
    planned: &PlannedMachine,
    pool: Option<&NodePool>,
    now: Timestamp,
) -> ClaimRecord {
    let types = pool.map_or(&[][..], |pool| &pool.catalogue.types);
    let named: BTreeSet<&InstanceTypeName> =
        planned.launch.options.iter().map(|option| &option.instance_type).collect();
    expected_claim_for(planned, types.iter().filter(|kind| named.contains(&kind.name)), now)
}

/// What the nodes that `plan` launches for pods count per hour together, credits included.
pub(crate) fn charged_cost(input: &PlanningInput, plan: &Plan) -> MicroUsd {
    MicroUsd(plan.nodes.iter().map(|node| node.charged_cost(&input.pools[node.pool as usize]).0).sum())
}

/// Facts of a launched instance for its NodeClaim, and what it counts per hour, from the NodePool's catalogue.
pub(super) fn launched_facts(
    pool: Option<&NodePool>,
    provider_id: &ProviderId,
    instance_type: &InstanceTypeName,
    zone: &Zone,
    capacity_type: CapacityType,
) -> (LaunchedFacts, MicroUsd) {
    let mut labels = Labels::new();
    let mut facts = LaunchedFacts {
        provider_id: provider_id.clone(),
        labels: Labels::new(),
        capacity: Resources::new(),
        allocatable: Resources::new(),
        image: Text::default(),
    };
    let mut price = MicroUsd(0);
    let types = pool.map_or(&[][..], |pool| &pool.catalogue.types);
    if let Ok(at) = types.binary_search_by(|kind| kind.name.cmp(instance_type)) {
        let kind = &types[at];
        let single = |requirement: &Requirement| {
            let values = requirement.finite_values().filter(|values| values.len() == 1)?;
            Some((requirement.key().clone(), values.first()?.clone()))
        };
        labels.extend(kind.labels.iter().filter_map(single));
        facts.capacity = kind.capacity.clone();
        facts.allocatable = kind.allocatable.clone();
        if let Some(offering) = offering_of(kind, zone, capacity_type) {
            labels.extend(offering.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
            price = offering.charged_price();
        }
    }
    // The facts of the launch override labels of the catalogue.
    labels.insert(Text::from(INSTANCE_TYPE), instance_type.as_text().clone());
    labels.insert(Text::from(ZONE), zone.as_text().clone());
    labels.insert(Text::from(CAPACITY_TYPE), Text::from(capacity_type.as_str()));
    facts.labels = labels;
    (facts, price)
}

/// Alphabet of generated names: no vowels, no ambiguous characters (Kubernetes: generated names).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Length of the generated suffix. Launch records outlive their NodeClaims, so a name must not
/// repeat: with five characters (Kubernetes: generated names) one launch in 300 would collide with
/// one of 50,000 kept records, with ten one in four thousand million.
const SUFFIX: usize = 10;

/// A name `<pool>-<suffix>` that is unused in this cluster. `identity` is that of the process, and
/// `next_number` returns a new number in each call.
pub(super) fn generate_claim_name(
    cluster: &ClusterName,
    state: &ClusterState,
    pool: &PoolName,
    identity: u64,
    mut next_number: impl FnMut() -> u64,
) -> ClaimName {
    loop {
        let mut rest = mix_hash(next_number(), cluster, identity);
        let mut name = format!("{pool}-");
        for _ in 0..SUFFIX {
            name.push(char::from(ALPHABET[usize::try_from(rest % 27).unwrap_or(0)]));
            rest /= 27;
        }
        let name = ClaimName::from(name);
        if state.claim(&name).is_none() {
            return name;
        }
    }
}

/// FNV-1a over the cluster's name, the identity and the number, with a final mix so that
/// consecutive numbers yield unrelated names.
pub(crate) fn mix_hash(number: u64, cluster: &str, identity: u64) -> u64 {
    let bytes = cluster.bytes().chain(identity.to_le_bytes()).chain(number.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}
