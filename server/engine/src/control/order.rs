//! From a planned node to exact orders: the NodeClaim to create, the machine to buy, and what may be expected of it.

use std::collections::BTreeSet;

use super::cluster_controller::Context;
use super::{ClaimOrder, ClusterId, DecisionId, LaunchOption, LaunchOrder, PlannedMachine};
use crate::cluster::{ClaimRecord, ClusterState, LaunchedFacts};
use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODECLASS, NODEPOOL, ZONE};
use crate::model::{
    CapacityType, InstanceType, Labels, MicroUsd, NodePool, Offering, Operator, Requirement, Resources, Text, Timestamp,
};
use crate::plan::PlannedNode;

/// Options of one launch order. More than these only cost the cloud's time (Karpenter's AWS provider sends as many).
pub const MAX_OPTIONS: usize = 60;

/// The orders for `node`.
pub(super) fn machine(
    cluster: &ClusterId,
    cluster_uid: &Text,
    state: &ClusterState,
    input: &PlanningInput,
    node: &PlannedNode,
    decision: DecisionId,
    desk: &mut Context<'_>,
) -> PlannedMachine {
    let pool = &input.pools[node.pool as usize];
    let name = claim_name(cluster, state, &pool.name, desk);
    let pods: Vec<Text> = node.pods.iter().map(|pod| pod_name(input, *pod)).collect();
    let options = options(pool, node);
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
            token: token(&name, 1),
            pool: pool.name.clone(),
            node_class: pool.node_class.clone(),
            capacity_type: node.capacity_type,
            options,
            reservation: node.reservation.clone(),
            terms: Text::default(),
            repeats: false,
        },
        claim: claim_order(state, pool, node, name),
        pods,
        reason,
    }
}

/// Longest client token that EC2 takes.
const MAX_TOKEN: usize = 64;

/// The token of an attempt: `<claim>-<attempt>`, with the middle of a long name as its hash.
pub(super) fn token(claim: &Text, attempt: u32) -> Text {
    let plain = format!("{claim}-{attempt}");
    if plain.len() <= MAX_TOKEN {
        return Text::from(plain);
    }
    let head: String = claim.chars().take(32).collect();
    Text::from(format!("{head}-{:016x}-{attempt}", spread(0, claim, 0)))
}

fn pod_name(input: &PlanningInput, pod: u32) -> Text {
    let pod = &input.pods[pod as usize];
    Text::from(format!("{}/{}", pod.namespace, pod.name))
}

fn claim_order(state: &ClusterState, pool: &NodePool, node: &PlannedNode, name: Text) -> ClaimOrder {
    let life = state.pool(&pool.name).map(|record| &record.life);
    let mut labels = pool.labels.clone();
    labels.extend(node.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    labels.insert(Text::from(NODEPOOL), pool.name.clone());
    labels.insert(Text::from(NODECLASS), pool.node_class.clone());
    labels.insert(Text::from(CAPACITY_TYPE), Text::from(node.capacity_type.as_str()));
    let mut requirements = pool.requirements.clone();
    let types: BTreeSet<Text> = kinds(pool, node).map(|kind| kind.name.clone()).collect();
    requirements.add(Requirement::new(INSTANCE_TYPE, Operator::In, types));
    requirements.add(Requirement::new(ZONE, Operator::In, node.zones.iter().cloned()));
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
        expire_after_ms: life.and_then(|life| life.expire_after_ms),
        termination_grace_period_ms: life.and_then(|life| life.termination_grace_period_ms),
    }
}

fn kinds<'p>(pool: &'p NodePool, node: &'p PlannedNode) -> impl Iterator<Item = &'p InstanceType> {
    node.types.iter().filter_map(|kind| pool.catalogue.types.get(*kind as usize))
}

/// Pairs of type and zone, cheapest first; of equal prices the plan's order.
pub(super) fn options(pool: &NodePool, node: &PlannedNode) -> Vec<LaunchOption> {
    let mut options = Vec::new();
    for kind in kinds(pool, node) {
        for zone in node.zones.iter() {
            if let Some(offering) = offering_of(kind, zone, node.capacity_type).filter(|o| o.available) {
                let instance_type = kind.name.clone();
                options.push(LaunchOption { instance_type, zone: zone.clone(), price: offering.price });
            }
        }
    }
    options.sort_by_key(|option| option.price);
    options.truncate(MAX_OPTIONS);
    options
}

fn offering_of<'k>(kind: &'k InstanceType, zone: &str, capacity_type: CapacityType) -> Option<&'k Offering> {
    kind.offerings.iter().find(|offering| offering.zone.as_ref() == zone && offering.capacity_type == capacity_type)
}

/// Of each resource the most that any option of the machine has.
pub(super) fn largest(pool: &NodePool, node: &PlannedNode) -> Resources {
    let mut capacity = Resources::new();
    kinds(pool, node).for_each(|kind| capacity.raise_to(&kind.capacity));
    capacity
}

/// What may be expected of the machine before it is bought: room that every option has, and of what it takes from the
/// pool's limits the most that any option takes.
pub(super) fn expected(planned: &PlannedMachine, node: &PlannedNode, pool: &NodePool, now: Timestamp) -> ClaimRecord {
    expected_of(planned, kinds(pool, node), now)
}

fn expected_of<'k>(
    planned: &PlannedMachine,
    kinds: impl Iterator<Item = &'k InstanceType>,
    now: Timestamp,
) -> ClaimRecord {
    let mut capacity = Resources::new();
    let mut allocatable: Option<Resources> = None;
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
        termination_grace_period_ms: order.termination_grace_period_ms,
        ..ClaimRecord::default()
    }
}

/// What may be expected of a machine whose order comes from an earlier process: as [`expected`], for the types that the
/// order names.
pub(super) fn expected_again(planned: &PlannedMachine, pool: Option<&NodePool>, now: Timestamp) -> ClaimRecord {
    let types = pool.map_or(&[][..], |pool| &pool.catalogue.types);
    let named: BTreeSet<&Text> = planned.launch.options.iter().map(|option| &option.instance_type).collect();
    expected_of(planned, types.iter().filter(|kind| named.contains(&kind.name)), now)
}

/// What the pool's catalogue says of a machine that was bought: facts for its NodeClaim, and its price.
pub(super) fn facts_of(
    pool: Option<&NodePool>,
    provider_id: &Text,
    instance_type: &Text,
    zone: &Text,
    capacity_type: CapacityType,
) -> (LaunchedFacts, MicroUsd) {
    let mut labels = Labels::new();
    let mut facts = LaunchedFacts {
        provider_id: provider_id.clone(),
        labels: Labels::new(),
        capacity: Resources::new(),
        allocatable: Resources::new(),
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
            price = offering.price;
        }
    }
    labels.insert(Text::from(INSTANCE_TYPE), instance_type.clone());
    labels.insert(Text::from(ZONE), zone.clone());
    labels.insert(Text::from(CAPACITY_TYPE), Text::from(capacity_type.as_str()));
    facts.labels = labels;
    (facts, price)
}

/// Letters and digits of generated names: no vowels, nothing that looks like something else (Kubernetes: generated names).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Characters of a name behind its NodePool's. Rows of launches outlive their NodeClaims, so a name must not come again: with
/// five characters (Kubernetes: generated names) one launch in 300 would meet one of 50,000 rows that are kept, with ten one
/// in four thousand million.
const SUFFIX: usize = 10;

/// `<pool>-<suffix>`, unused in this cluster.
fn claim_name(cluster: &ClusterId, state: &ClusterState, pool: &Text, desk: &mut Context<'_>) -> Text {
    loop {
        let mut rest = spread(desk.number(), cluster, desk.settings.identity);
        let mut name = format!("{pool}-");
        for _ in 0..SUFFIX {
            name.push(char::from(ALPHABET[usize::try_from(rest % 27).unwrap_or(0)]));
            rest /= 27;
        }
        let name = Text::from(name);
        if state.claim(&name).is_none() {
            return name;
        }
    }
}

/// FNV-1a over the cluster's name, the identity and the number, with a final mix so that neighbours look different.
fn spread(number: u64, cluster: &str, identity: u64) -> u64 {
    let bytes = cluster.bytes().chain(identity.to_le_bytes()).chain(number.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}
