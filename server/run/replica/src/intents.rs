//! Encodes launch intents as rows and decodes them, so that the next owner of a cluster sends
//! identical requests.
//!
//! A row is JSON that later versions read: a new field has a default, and no field changes its
//! meaning. Types of the controller are encoded by hand here, so that changing them changes no row.

use controller::guardrails::{ObjectCounts, RecentLaunch};
use controller::{ClaimOrder, DecidedLaunch, DecisionId, Event, LaunchState, OpenLaunch, PlannedMachine};
use model::taints::Effect;
use model::{
    CapacityType, Labels, MicroUsd, Millis, Operator, PodKey, PriorityLane, Requirement, Requirements, Resources,
    Taint, Text, Timestamp,
};
use model::{LaunchOption, LaunchOrder};
use serde::{Deserialize, Serialize};

use store::lease::{ObservedExtent, OpenOperations};
use store::operations::{AttemptOutcome, Intent, IntentState, OpenIntent, RecentAttempt};

/// The launch request for the cloud.
#[derive(Serialize, Deserialize)]
struct StoredRequest {
    cluster: String,
    cluster_uid: String,
    pool: String,
    node_class: String,
    capacity_type: String,
    /// Instance type, zone, price in millionths of a dollar per hour.
    options: Vec<(String, String, i64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    /// Terms added by the cloud's settings. Rows of older versions have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    terms: String,
    /// Priority lane; rows without one, and of later versions with another one, are pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
}

/// The NodeClaim to create, and its reason.
#[derive(Serialize, Deserialize)]
struct StoredClaim {
    decision: u64,
    at: i64,
    reason: String,
    pods: Vec<String>,
    pool: String,
    node_class: String,
    labels: Vec<(String, String)>,
    /// Key, value, effect.
    taints: Vec<(String, String, String)>,
    startup_taints: Vec<(String, String, String)>,
    requirements: Vec<StoredRequirement>,
    requests: Vec<(String, i64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expire_after_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    termination_grace_period_ms: Option<i64>,
    /// Hash of the NodePool's template, and its version. Rows of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool_hash: Option<(String, String)>,
    /// Hash of the EC2NodeClass, and its version. Rows of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class_hash: Option<(String, String)>,
}

/// A requirement as a conjunction of simple ones.
#[derive(Serialize, Deserialize)]
struct StoredRequirement {
    key: String,
    all: Vec<(String, Vec<String>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_values: Option<u32>,
}

/// Encodes a launch. `terms` supplies the cloud's terms unless the order already has those of its
/// first call.
pub fn encode(decided: &DecidedLaunch, terms: impl Fn(&LaunchOrder) -> Text) -> Intent {
    let order = &decided.machine.launch;
    let terms = if order.terms.is_empty() { terms(order) } else { order.terms.clone() };
    let request = serde_json::to_vec(&request(order, &terms));
    let claim_order = serde_json::to_string(&claim(decided));
    Intent {
        claim: order.claim.to_string(),
        attempt: order.attempt,
        token: order.token.to_string(),
        // Both consist of strings and numbers, which always serialize.
        request: request.unwrap_or_default(),
        claim_order: claim_order.unwrap_or_default(),
    }
}

fn request(order: &LaunchOrder, terms: &Text) -> StoredRequest {
    let option = |option: &LaunchOption| (option.instance_type.to_string(), option.zone.to_string(), option.price.0);
    StoredRequest {
        cluster: order.cluster.to_string(),
        cluster_uid: order.cluster_uid.to_string(),
        pool: order.pool.to_string(),
        node_class: order.node_class.to_string(),
        capacity_type: order.capacity_type.as_str().to_owned(),
        options: order.options.iter().map(option).collect(),
        reservation: order.reservation.as_ref().map(Text::to_string),
        terms: terms.to_string(),
        lane: (order.lane != PriorityLane::default()).then(|| order.lane.as_str().to_owned()),
    }
}

fn claim(decided: &DecidedLaunch) -> StoredClaim {
    let PlannedMachine { claim, pods, reason, .. } = &decided.machine;
    let pair = |(key, value): (&Text, &Text)| (key.to_string(), value.to_string());
    StoredClaim {
        decision: decided.decision.0,
        at: decided.at.as_millis(),
        reason: reason.to_string(),
        pods: pods.iter().map(ToString::to_string).collect(),
        pool: claim.pool.to_string(),
        node_class: claim.node_class.to_string(),
        labels: claim.labels.iter().map(pair).collect(),
        taints: taints(&claim.taints),
        startup_taints: taints(&claim.startup_taints),
        requirements: claim.requirements.iter().map(store_requirement).collect(),
        requests: claim.requests.iter().map(|(name, amount)| (name.to_string(), amount)).collect(),
        expire_after_ms: claim.expire_after.map(Millis::get),
        termination_grace_period_ms: claim.termination_grace_period.map(Millis::get),
        pool_hash: claim.pool_hash.as_ref().map(|(hash, version)| (hash.to_string(), version.to_string())),
        class_hash: claim.class_hash.as_ref().map(|(hash, version)| (hash.to_string(), version.to_string())),
    }
}

fn taints(taints: &[Taint]) -> Vec<(String, String, String)> {
    let triple = |taint: &Taint| (taint.key.to_string(), taint.value.to_string(), taint.effect.as_str().to_owned());
    taints.iter().map(triple).collect()
}

fn store_requirement(requirement: &Requirement) -> StoredRequirement {
    let mut all = Vec::new();
    let mut add = |operator: Operator, values: Vec<String>| all.push((operator.as_str().to_owned(), values));
    let (least, most) = requirement.bounds();
    match requirement.finite_values() {
        Some(values) if values.is_empty() && requirement.allows_absence() => add(Operator::DoesNotExist, Vec::new()),
        Some(values) => add(Operator::In, values.iter().map(Text::to_string).collect()),
        None => {
            add(Operator::NotIn, requirement.excluded_values().map(Text::to_string).collect());
            if !requirement.allows_absence() {
                add(Operator::Exists, Vec::new());
            }
        }
    }
    if let Some(least) = least {
        add(Operator::Gte, vec![least.to_string()]);
    }
    if let Some(most) = most {
        add(Operator::Lte, vec![most.to_string()]);
    }
    StoredRequirement { key: requirement.key().to_string(), all, min_values: requirement.min_values() }
}

/// Decodes a row. A launch whose order is unreadable has no `planned`.
pub fn decode(open: OpenIntent) -> OpenLaunch {
    let OpenIntent { intent, state } = open;
    let (state, awaited) = match state {
        IntentState::Open => (LaunchState::Open, true),
        IntentState::Ended(AttemptOutcome::Launched { provider_id }) => {
            (LaunchState::Launched { provider_id: provider_id.into() }, false)
        }
        IntentState::Ended(AttemptOutcome::Failed { why }) => (LaunchState::Failed { why: why.into() }, true),
    };
    let planned = if awaited { read_launch(&intent).map(Box::new) } else { None };
    OpenLaunch { claim: intent.claim.into(), attempt: intent.attempt, state, planned }
}

/// Decodes the row of a recent launch. If its order is unreadable, it has no pods.
pub(crate) fn recent_launch(attempt: RecentAttempt, now: Timestamp) -> RecentLaunch {
    let RecentAttempt { claim, claim_order, launched, begun_ago_ms, closed_ago_ms } = attempt;
    let order: Option<StoredClaim> = serde_json::from_str(&claim_order).ok();
    let pods = order.and_then(|order| read_pods(&order.pods)).unwrap_or_default();
    let ago = |millis: i64| now - Millis::new(millis);
    RecentLaunch { claim: claim.into(), pods, begun: ago(begun_ago_ms), launched, closed: closed_ago_ms.map(ago) }
}

fn read_launch(intent: &Intent) -> Option<DecidedLaunch> {
    let request: StoredRequest = serde_json::from_slice(&intent.request).ok()?;
    let claim: StoredClaim = serde_json::from_str(&intent.claim_order).ok()?;
    let (decision, at) = (DecisionId(claim.decision), Timestamp::from_millis(claim.at));
    let (pods, reason) = (read_pods(&claim.pods)?, claim.reason.as_str().into());
    let launch = read_order(intent, request)?;
    let claim = read_claim(&intent.claim, claim)?;
    Some(DecidedLaunch { machine: PlannedMachine { claim, launch, pods, reason }, decision, at })
}

fn read_order(intent: &Intent, request: StoredRequest) -> Option<LaunchOrder> {
    let paid = [CapacityType::Spot, CapacityType::OnDemand, CapacityType::Reserved];
    let option = |(instance_type, zone, price): (String, String, i64)| LaunchOption {
        instance_type: instance_type.into(),
        zone: zone.into(),
        price: MicroUsd(price),
    };
    Some(LaunchOrder {
        cluster: request.cluster.into(),
        cluster_uid: request.cluster_uid.into(),
        claim: intent.claim.as_str().into(),
        attempt: intent.attempt,
        token: intent.token.as_str().into(),
        pool: request.pool.into(),
        node_class: request.node_class.into(),
        capacity_type: paid.into_iter().find(|kind| kind.as_str() == request.capacity_type)?,
        options: request.options.into_iter().map(option).collect(),
        reservation: request.reservation.map(Text::from),
        terms: request.terms.into(),
        lane: request.lane.and_then(|lane| PriorityLane::parse(&lane)).unwrap_or_default(),
        // Its terms say it.
        template: None,
        // The process that wrote the row may have sent the request.
        repeats: true,
    })
}

fn read_claim(name: &str, claim: StoredClaim) -> Option<ClaimOrder> {
    Some(ClaimOrder {
        name: name.into(),
        pool: claim.pool.into(),
        node_class: claim.node_class.into(),
        labels: claim.labels.into_iter().map(|(key, value)| (Text::from(key), Text::from(value))).collect::<Labels>(),
        taints: read_taints(claim.taints)?,
        startup_taints: read_taints(claim.startup_taints)?,
        requirements: claim.requirements.into_iter().map(read_requirement).collect::<Option<Requirements>>()?,
        requests: claim.requests.into_iter().map(|(name, amount)| (Text::from(name), amount)).collect::<Resources>(),
        expire_after: claim.expire_after_ms.map(Millis::new),
        termination_grace_period: claim.termination_grace_period_ms.map(Millis::new),
        pool_hash: claim.pool_hash.map(|(hash, version)| (Text::from(hash), Text::from(version))),
        class_hash: claim.class_hash.map(|(hash, version)| (Text::from(hash), Text::from(version))),
    })
}

/// Pods of a row, each `namespace/name`.
fn read_pods(pods: &[String]) -> Option<Vec<PodKey>> {
    let key = |(namespace, name): (&str, &str)| PodKey { namespace: namespace.into(), name: name.into() };
    pods.iter().map(|pod| pod.split_once('/').map(key)).collect()
}

fn read_taints(taints: Vec<(String, String, String)>) -> Option<Vec<Taint>> {
    let effects = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
    let read = |(key, value, effect): (String, String, String)| {
        let effect = effects.into_iter().find(|known| known.as_str() == effect)?;
        Some(Taint { key: key.into(), value: value.into(), effect })
    };
    taints.into_iter().map(read).collect()
}

fn read_requirement(store_requirement: StoredRequirement) -> Option<Requirement> {
    let read = |(operator, values): (String, Vec<String>)| {
        Some(Requirement::new(&store_requirement.key, Operator::parse(&operator)?, values.into_iter().map(Text::from)))
    };
    let all: Option<Vec<Requirement>> = store_requirement.all.into_iter().map(read).collect();
    let joined = all?.into_iter().reduce(|one, other| one.intersection(&other))?;
    Some(joined.with_min_values(store_requirement.min_values))
}

/// Encodes the object counts of a cluster.
pub fn to_observed_extent(extent: ObjectCounts) -> ObservedExtent {
    let ObjectCounts { nodes, claims, pools, pods, pending, machines: _ } = extent;
    let [nodes, claims, pools, pods, pending] =
        [nodes, claims, pools, pods, pending].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    ObservedExtent { nodes, claims, pools, pods, pending }
}

/// The object counts that the previous owner recorded for a cluster whose lease was granted.
pub(crate) fn extent_event(open: &OpenOperations) -> Option<Event> {
    let ObservedExtent { nodes, claims, pools, pods, pending } = open.extent?;
    let [nodes, claims, pools, pods, pending] =
        [nodes, claims, pools, pods, pending].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let counts = ObjectCounts { nodes, claims, pools, pods, pending, machines: 0 };
    Some(Event::CountsLoaded(counts))
}

#[cfg(test)]
mod tests;
