//! Field-by-field conversion of single objects.

use std::sync::Arc;

use cluster::{
    ClaimDriftFacts, ClaimRecord, ConditionDigest, DoNotDisrupt, NamespaceRecord, NodeRecord, PodPhase, PodRecord,
    Scheduling, UnmetCondition, deployment_of,
};
use drift::{NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY, POOL_HASH, POOL_HASH_VERSION};
use fleetwright_proto::v1;
use manifests::cluster::metadata::parse_do_not_disrupt;
use manifests::cluster::node::recorded_drain;
use manifests::karpenter::duration;
use model::drain::DRAIN;
use model::eviction_cost::stated_cost;
use model::labels::{NODEPOOL, canonical_key};
use model::schedulers::DEFAULT_SCHEDULER;
use model::{
    Effect, Labels, Millis, Operator, PodKey, PodShape, PoolName, Requirement, Requirements, Resources, Taint, Text,
    Timestamp, quantity,
};

use super::problems::{FieldError, FieldReader};
use super::text_pool::TextPool;
use crate::encode::MANAGED;

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";

/// Parts of a pod that its record refers to.
pub(super) struct PodParts<'p> {
    pub(super) shape: Arc<PodShape>,
    pub(super) labels: Arc<Labels>,
    pub(super) problem: Option<&'p Text>,
    /// The scheduler of such pods.
    pub(super) scheduler: &'p Text,
}

pub(super) fn pod(pod: &v1::PodRecord, parts: PodParts<'_>, texts: &mut TextPool) -> PodRecord {
    let owner = pod.owner.as_ref();
    let owned_by = |api: &str, kind: &str| owner.filter(|o| o.api_version.starts_with(api) && o.kind == kind);
    let protection = annotation(&pod.annotations, DO_NOT_DISRUPT);
    let do_not_disrupt = protection.and_then(parse_do_not_disrupt);
    PodRecord {
        daemon: owned_by("apps/", "DaemonSet").map(|o| texts.pair(&pod.namespace, &o.name)),
        mirror: owned_by("v1", "Node").is_some(),
        workload: match owner.map(|owner| (owner.kind.as_str(), owner.name.as_str())) {
            Some(("ReplicaSet", name)) => match deployment_of(name, &parts.labels) {
                Some(deployment) => texts.pair("Deployment", deployment),
                None => texts.pair("ReplicaSet", name),
            },
            Some((kind, name)) => texts.pair(kind, name),
            None => texts.pair("Pod", &pod.name),
        },
        do_not_disrupt,
        has_invalid_protection: do_not_disrupt.is_none() && protection.is_some_and(|value| value != "false"),
        stated_cost: stated_cost(|key| annotation(&pod.annotations, key)),
        key: PodKey { namespace: texts.text(&pod.namespace), name: pod.name.as_str().into() },
        uid: pod.uid.as_str().into(),
        shape: parts.shape,
        labels: parts.labels,
        volumes: None,
        local_volumes: Box::default(),
        node: texts.filled(&pod.node_name),
        nominated: texts.filled(&pod.nominated_node_name).filter(|_| !pod.nominated_by_agent),
        own_nomination: texts.filled(&pod.nominated_node_name).filter(|_| pod.nominated_by_agent),
        phase: phase(pod.phase()),
        terminating: pod.deleted_at_ms != 0,
        scheduling: match pod.scheduled_reason.as_str() {
            "Unschedulable" => Scheduling::Unschedulable,
            "SchedulingGated" => Scheduling::Gated,
            _ => Scheduling::Unseen,
        },
        created: moment(pod.created_at_ms),
        started: moment(pod.started_at_ms),
        invalid: parts.problem.cloned(),
        other_scheduler: Some(parts.scheduler).filter(|name| name.as_ref() != DEFAULT_SCHEDULER).cloned(),
        ready: pod.ready,
        external_scale_up: moment(pod.external_scale_up_ms),
    }
}

fn phase(phase: v1::PodPhase) -> PodPhase {
    match phase {
        v1::PodPhase::Unspecified | v1::PodPhase::Pending => PodPhase::Pending,
        v1::PodPhase::Running => PodPhase::Running,
        v1::PodPhase::Succeeded => PodPhase::Succeeded,
        v1::PodPhase::Failed => PodPhase::Failed,
    }
}

/// Converts a Node; also returns the first unreadable field. A partly unreadable Node is
/// unschedulable and protected from disruption.
pub(super) fn node(node: &v1::NodeRecord, texts: &mut TextPool) -> (NodeRecord, Option<String>) {
    let mut reading = FieldReader::of(&node.problem);
    let taints = taints("taints", &node.taints, &mut reading, texts);
    let allocatable = resources("allocatable", &node.allocatable, &mut reading, texts);
    let capacity = resources("capacity", &node.capacity, &mut reading, texts);
    let read = NodeRecord {
        name: texts.name(&node.name),
        uid: node.uid.as_str().into(),
        provider_id: texts.name(&node.provider_id),
        labels: canonical(&node.labels, texts),
        taints,
        unschedulable: node.unschedulable || !reading.is_whole(),
        ready: node.conditions.iter().any(|condition| condition.r#type == "Ready" && condition.status == "True"),
        unmet: node.conditions.iter().filter_map(|condition| unmet(condition, texts)).collect(),
        do_not_repair: annotation(&node.annotations, DO_NOT_REPAIR) == Some("true"),
        deleting: node.deleted_at_ms != 0,
        do_not_disrupt: match annotation(&node.annotations, DO_NOT_DISRUPT) {
            _ if !reading.is_whole() => Some(DoNotDisrupt::Always),
            value => value.and_then(parse_do_not_disrupt),
        },
        allocatable,
        capacity,
        created: moment(node.created_at_ms),
        drain: annotation(&node.annotations, DRAIN).and_then(recorded_drain),
    };
    (read, reading.problem())
}

/// `condition`, if it says that something is not ready, and since when.
fn unmet(condition: &v1::Condition, texts: &mut TextPool) -> Option<UnmetCondition> {
    let is_unmet = condition.r#type.ends_with("Ready") && condition.status != "True";
    let since = moment(condition.last_transition_ms).filter(|_| is_unmet)?;
    Some(UnmetCondition { kind: texts.text(&condition.r#type), status: texts.text(&condition.status), since })
}

/// Converts a NodeClaim; also returns the first unreadable field.
pub(super) fn claim(claim: &v1::NodeClaimRecord, texts: &mut TextPool) -> (ClaimRecord, Option<String>) {
    let mut reading = FieldReader::of(&claim.problem);
    let labels = canonical(&claim.labels, texts);
    let read = ClaimRecord {
        name: texts.name(&claim.name),
        uid: claim.uid.as_str().into(),
        pool: labels.get(NODEPOOL).map(PoolName::from).unwrap_or_default(),
        node_class: claim.node_class.as_ref().map(|class| texts.name(&class.name)).unwrap_or_default(),
        taints: taints("taints", &claim.taints, &mut reading, texts),
        startup_taints: taints("startupTaints", &claim.startup_taints, &mut reading, texts),
        requirements: requirements(&claim.requirements, &mut reading),
        requests: resources("resources.requests", &claim.requests, &mut reading, texts),
        provider_id: texts.name(&claim.provider_id),
        capacity: resources("capacity", &claim.capacity, &mut reading, texts),
        allocatable: resources("allocatable", &claim.allocatable, &mut reading, texts),
        deleting: claim.deleted_at_ms != 0,
        ours: annotation(&claim.annotations, MANAGED) == Some("true"),
        created: moment(claim.created_at_ms),
        last_pod_event: moment(claim.last_pod_event_ms),
        initialized_at: (claim.conditions.iter())
            .find(|condition| condition.r#type == "Initialized" && condition.status == "True")
            .and_then(|condition| moment(condition.last_transition_ms)),
        condition_digest: claim.conditions.iter().fold(ConditionDigest::default(), |digest, one| {
            digest.with(&one.r#type, &one.status, &one.reason, &one.message)
        }),
        termination_grace_period: duration::parse(&claim.termination_grace_period),
        expire_after: expire_after(&claim.expire_after),
        drift: drift_facts(claim, texts),
        labels,
    };
    (read, reading.problem())
}

/// What the drift of a NodeClaim is found by. Hashes are equal for all NodeClaims of a NodePool.
fn drift_facts(claim: &v1::NodeClaimRecord, texts: &mut TextPool) -> ClaimDriftFacts {
    let mut hash = |key: &str, version: &str| {
        let (hash, version) = (annotation(&claim.annotations, key)?, annotation(&claim.annotations, version)?);
        Some((texts.text(hash), texts.text(version)))
    };
    let (karpenter_hash, own_hash) =
        (hash("karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"), hash(POOL_HASH, POOL_HASH_VERSION));
    let class_hash = hash("karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version");
    let own_class_hash = hash(NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY);
    let is_drifted = |condition: &&v1::Condition| condition.r#type == "Drifted" && condition.status == "True";
    let drifted = claim.conditions.iter().find(is_drifted);
    ClaimDriftFacts {
        karpenter_hash,
        own_hash,
        class_hash,
        own_class_hash,
        image: texts.text(&claim.image_id),
        shown: drifted.map(|found| (texts.text(&found.reason), texts.text(&found.message))),
        drifted_since: drifted.and_then(|found| moment(found.last_transition_ms)),
    }
}

/// An expiry as written. One that cannot be read is none: no node is removed for it.
fn expire_after(text: &str) -> Option<Millis> {
    if text.is_empty() { duration::DEFAULT_EXPIRY } else { duration::parse(text) }
}

pub(super) fn namespace(namespace: &v1::NamespaceRecord) -> NamespaceRecord {
    NamespaceRecord { name: namespace.name.as_str().into(), labels: labels(&namespace.labels) }
}

/// Labels without canonicalisation.
pub(super) fn labels(pairs: &[v1::StringPair]) -> Labels {
    pairs.iter().map(|pair| (pair.key.as_str().into(), pair.value.as_str().into())).collect()
}

/// Labels of a Node; a deprecated key sets the canonical one if that is absent.
fn canonical(pairs: &[v1::StringPair], texts: &mut TextPool) -> Labels {
    let mut labels: Labels = pairs.iter().map(|pair| (texts.text(&pair.key), texts.text(&pair.value))).collect();
    for pair in pairs {
        let key = canonical_key(&pair.key);
        if key != pair.key {
            labels.entry(texts.text(key)).or_insert_with(|| texts.text(&pair.value));
        }
    }
    labels
}

fn annotation<'p>(pairs: &'p [v1::StringPair], key: &str) -> Option<&'p str> {
    pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

/// A name or text; `None` when it is empty.
pub(super) fn filled<'t, T: From<&'t str>>(text: &'t str) -> Option<T> {
    (!text.is_empty()).then(|| text.into())
}

pub(super) fn moment(millis: i64) -> Option<Timestamp> {
    (millis != 0).then_some(Timestamp::from_millis(millis))
}

fn resources(
    field: &'static str,
    quantities: &[v1::Quantity],
    reading: &mut FieldReader,
    texts: &mut TextPool,
) -> Resources {
    let read = |one: &v1::Quantity| {
        let amount = quantity::parse(&one.resource, &one.amount);
        let amount = amount.map_err(|error| FieldError::Quantity { field, resource: one.resource.clone(), error });
        reading.accept(amount).map(|amount| (texts.text(&one.resource), amount))
    };
    quantities.iter().filter_map(read).collect()
}

fn taints(field: &'static str, taints: &[v1::Taint], reading: &mut FieldReader, texts: &mut TextPool) -> Vec<Taint> {
    let read = |taint: &v1::Taint| {
        let effects = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
        let effect = effects.into_iter().find(|effect| effect.as_str() == taint.effect);
        let unknown = || FieldError::TaintEffect { field, key: taint.key.clone(), effect: taint.effect.clone() };
        let effect = reading.accept(effect.ok_or_else(unknown))?;
        Some(Taint { key: texts.text(&taint.key), value: texts.text(&taint.value), effect })
    };
    taints.iter().filter_map(read).collect()
}

fn requirements(entries: &[v1::ClaimRequirement], reading: &mut FieldReader) -> Requirements {
    let read = |entry: &v1::ClaimRequirement| {
        let operator = Operator::parse(&entry.operator);
        let unknown =
            || FieldError::Operator { field: "requirements", key: entry.key.clone(), operator: entry.operator.clone() };
        let operator = reading.accept(operator.ok_or_else(unknown))?;
        let values = entry.values.iter().map(|value| Text::from(value.as_str()));
        Some(Requirement::new(&entry.key, operator, values).with_min_values(entry.min_values))
    };
    entries.iter().filter_map(read).collect()
}
