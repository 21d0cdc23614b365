//! Encodes objects of a simulated cluster as the records of an agent that watches an API server.

use std::sync::Arc;

use crate::kube::SimulatedCluster;
use agent::Record;
use cluster::{
    ClaimRecord, DaemonRecord, DoNotDisrupt, Key, NamespaceRecord, NodeRecord, Object, PodBudgetRecord, PodPhase,
    PodRecord, Scheduling,
};
use drift::{NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY, POOL_HASH, POOL_HASH_VERSION};
use fleetwright_proto::v1;
use model::drain::{DRAIN, RecordedDrain};
use model::{Labels, NodeName, Resources, Taint, Text, Timestamp, quantity};
use serde_json::json;
use v1::change::Change;

use agent_session::encode::MANAGED;

/// Encodes many objects; labels equal to the previous pod's are shared.
#[derive(Debug, Default)]
pub struct Encoder {
    labels: Option<(Arc<Labels>, Arc<v1::LabelSet>)>,
}

impl Encoder {
    /// Like [`object`].
    pub fn object(&mut self, cluster: &SimulatedCluster, fact: &Object) -> Option<Record> {
        match fact {
            Object::Pod(record) => Some(self.pod(cluster, record)),
            other => object(cluster, other),
        }
    }

    fn pod(&mut self, cluster: &SimulatedCluster, record: &PodRecord) -> Record {
        let known = self.labels.take().filter(|(of, _)| Arc::ptr_eq(of, &record.labels));
        let (_, labels) = self
            .labels
            .insert(known.unwrap_or_else(|| (Arc::clone(&record.labels), Arc::new(label_set(&record.labels)))));
        Record::Pod {
            record: Box::new(pod(record)),
            shape: cluster.pod_manifest(&record.workload),
            labels: Arc::clone(labels),
            volume_claims: None,
        }
    }
}

/// Encodes an object of `cluster`; `None` for NodePools, which are sent as manifests.
pub fn object(cluster: &SimulatedCluster, object: &Object) -> Option<Record> {
    Some(match object {
        Object::Pod(record) => Encoder::default().pod(cluster, record),
        Object::Node(record) => Record::plain(Change::Node(Box::new(node(record)))),
        Object::Claim(record) => Record::plain(Change::NodeClaim(Box::new(claim(record, Vec::new())))),
        Object::Daemon(record) => daemon(cluster, record),
        Object::Namespace(record) => Record::plain(Change::Namespace(namespace(record))),
        Object::PodBudget(record) => Record::plain(Change::PodDisruptionBudget(pod_budget(cluster, record))),
        // A simulated cluster has none of these; NodePools and EC2NodeClasses are sent as
        // manifests.
        Object::Pool(_) | Object::Class(_) | Object::Attach(_) | Object::Autoscaler(_) | Object::Problem(_) => {
            return None;
        }
    })
}

pub fn removal(key: &Key) -> Record {
    use v1::ObjectKind as Kind;
    match key {
        Key::Pod(pod) => Record::removed(Kind::Pod, pod.namespace.as_ref(), pod.name.as_ref()),
        Key::Node(name) => Record::removed(Kind::Node, "", name.as_ref()),
        Key::Claim(name) => Record::removed(Kind::NodeClaim, "", name.as_ref()),
        Key::Pool(name) => Record::removed(Kind::NodePool, "", name.as_ref()),
        Key::Daemon(namespace, name) => Record::removed(Kind::DaemonSet, namespace.as_ref(), name.as_ref()),
        Key::Namespace(name) => Record::removed(Kind::Namespace, "", name.as_ref()),
        Key::PodBudget(namespace, name) => {
            Record::removed(Kind::PodDisruptionBudget, namespace.as_ref(), name.as_ref())
        }
        Key::Class(name) => Record::removed(Kind::Ec2NodeClass, "", name.as_ref()),
        Key::Attach(name) => Record::removed(Kind::CsiNode, "", name.as_ref()),
        // Objects of a simulated cluster are always readable.
        Key::Problem(about) => {
            Record::plain(Change::Removal(v1::Removal { name: about.to_string(), ..v1::Removal::default() }))
        }
        Key::Autoscaler(name) => Record::plain(Change::Autoscaler(v1::AutoscalerRecord {
            name: name.to_string(),
            ..v1::AutoscalerRecord::default()
        })),
    }
}

fn pod_budget(cluster: &SimulatedCluster, record: &PodBudgetRecord) -> v1::PodDisruptionBudgetRecord {
    let selector = v1::LabelSelector {
        match_labels: pairs(&cluster.labels_of_budget(&record.name)),
        ..v1::LabelSelector::default()
    };
    let policy = if record.evicts_unhealthy_always { "AlwaysAllow" } else { "" };
    v1::PodDisruptionBudgetRecord {
        namespace: record.namespace.to_string(),
        name: record.name.to_string(),
        selector: Some(selector),
        disruptions_allowed: record.allowed,
        unhealthy_pod_eviction_policy: policy.to_owned(),
        status_is_current: true,
        ..v1::PodDisruptionBudgetRecord::default()
    }
}

fn label_set(labels: &Labels) -> v1::LabelSet {
    v1::LabelSet { labels: pairs(labels) }
}

fn pod(record: &PodRecord) -> v1::PodRecord {
    let (kind, name) = record.workload.split_once('/').unwrap_or(("Pod", &record.workload));
    let owner = match &record.daemon {
        Some(daemon) => Some(owner("DaemonSet", daemon.rsplit('/').next().unwrap_or(daemon))),
        None => (kind != "Pod").then(|| owner(kind, name)),
    };
    v1::PodRecord {
        namespace: record.key.namespace.to_string(),
        name: record.key.name.to_string(),
        uid: record.uid.to_string(),
        node_name: node_name(record.node.as_ref()),
        phase: phase(record.phase).into(),
        created_at_ms: millis(record.created),
        deleted_at_ms: if record.terminating { 1 } else { 0 },
        scheduled_reason: reason(record.scheduling).to_owned(),
        nominated_node_name: node_name(record.nominated.as_ref().or(record.own_nomination.as_ref())),
        nominated_by_agent: record.own_nomination.is_some(),
        owner,
        started_at_ms: millis(record.started),
        ready: record.phase == PodPhase::Running,
        ..v1::PodRecord::default()
    }
}

fn owner(kind: &str, name: &str) -> v1::Owner {
    v1::Owner {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("{kind}-{name}"),
    }
}

fn phase(phase: PodPhase) -> v1::PodPhase {
    match phase {
        PodPhase::Pending => v1::PodPhase::Pending,
        PodPhase::Running => v1::PodPhase::Running,
        PodPhase::Succeeded => v1::PodPhase::Succeeded,
        PodPhase::Failed => v1::PodPhase::Failed,
    }
}

fn reason(scheduling: Scheduling) -> &'static str {
    match scheduling {
        Scheduling::Unseen => "",
        Scheduling::Unschedulable => "Unschedulable",
        Scheduling::Gated => "SchedulingGated",
    }
}

fn node(record: &NodeRecord) -> v1::NodeRecord {
    let annotations = record.do_not_disrupt.map(|protection| {
        let value = match protection {
            DoNotDisrupt::Always => "true".to_owned(),
            DoNotDisrupt::For(duration) => format!("{}s", duration.as_secs()),
        };
        pair("karpenter.sh/do-not-disrupt", &value)
    });
    let drain = record.drain.as_ref().map(|RecordedDrain { claim, deadline, reason }| {
        let deadline = deadline.map(|at| at.as_millis());
        let terms = json!({ "claim": claim.to_string(), "forceAtMs": deadline, "reason": reason.to_string() });
        pair(DRAIN, &terms.to_string())
    });
    v1::NodeRecord {
        name: record.name.to_string(),
        uid: format!("node-{}", record.name),
        provider_id: record.provider_id.to_string(),
        labels: pairs(&record.labels),
        annotations: annotations.into_iter().chain(drain).collect(),
        taints: taints(&record.taints),
        unschedulable: record.unschedulable,
        capacity: quantities(&record.capacity),
        allocatable: quantities(&record.allocatable),
        conditions: vec![condition("Ready", record.ready)],
        created_at_ms: millis(record.created),
        deleted_at_ms: if record.deleting { 1 } else { 0 },
        ..v1::NodeRecord::default()
    }
}

fn annotations(record: &ClaimRecord) -> Vec<v1::StringPair> {
    let hash = record.drift.own_hash.iter();
    let hash = hash.flat_map(|(hash, version)| [pair(POOL_HASH, hash), pair(POOL_HASH_VERSION, version)]);
    let class = record
        .drift
        .own_class_hash
        .iter()
        .flat_map(|(hash, version)| [pair(NODE_CLASS_HASH, hash), pair(NODE_CLASS_HASH_VERSION_KEY, version)]);
    record.ours.then(|| pair(MANAGED, "true")).into_iter().chain(hash).chain(class).collect()
}

/// Encodes a NodeClaim with its conditions.
pub fn claim(record: &ClaimRecord, mut conditions: Vec<v1::Condition>) -> v1::NodeClaimRecord {
    const INITIALIZED: &str = "Initialized";
    // The time of initialization travels as the transition time of the condition `Initialized`.
    if let Some(since) = record.initialized_at {
        let at = conditions.iter().position(|condition| condition.r#type == INITIALIZED).unwrap_or_else(|| {
            conditions.push(v1::Condition { reason: INITIALIZED.to_owned(), ..condition(INITIALIZED, true) });
            conditions.len() - 1
        });
        conditions[at].last_transition_ms = since.as_millis();
    }
    v1::NodeClaimRecord {
        name: record.name.to_string(),
        uid: format!("claim-{}", record.name),
        labels: pairs(&record.labels),
        annotations: annotations(record),
        node_class: Some(v1::NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: record.node_class.to_string(),
        }),
        taints: taints(&record.taints),
        startup_taints: taints(&record.startup_taints),
        requests: quantities(&record.requests),
        image_id: record.drift.image.to_string(),
        provider_id: record.provider_id.to_string(),
        capacity: quantities(&record.capacity),
        allocatable: quantities(&record.allocatable),
        expire_after: record.expire_after.map_or_else(|| "Never".to_owned(), |after| format!("{}s", after.as_secs())),
        last_pod_event_ms: millis(record.last_pod_event),
        created_at_ms: millis(record.created),
        deleted_at_ms: if record.deleting { 1 } else { 0 },
        conditions,
        owner: Some(v1::Owner {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodePool".to_owned(),
            name: record.pool.to_string(),
            uid: String::new(),
        }),
        ..v1::NodeClaimRecord::default()
    }
}

fn daemon(cluster: &SimulatedCluster, record: &DaemonRecord) -> Record {
    Record::DaemonSet {
        record: v1::DaemonSetRecord {
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
            uid: format!("daemon-{}-{}", record.namespace, record.name),
            ..v1::DaemonSetRecord::default()
        },
        shape: cluster.pod_manifest(&format!("DaemonSet/{}", record.name)),
        labels: Arc::new(label_set(&record.labels)),
    }
}

fn namespace(record: &NamespaceRecord) -> v1::NamespaceRecord {
    v1::NamespaceRecord { name: record.name.to_string(), labels: pairs(&record.labels) }
}

fn condition(kind: &str, holds: bool) -> v1::Condition {
    let status = if holds { "True" } else { "False" };
    v1::Condition { r#type: kind.to_owned(), status: status.to_owned(), ..v1::Condition::default() }
}

fn taints(taints: &[Taint]) -> Vec<v1::Taint> {
    let message = |taint: &Taint| v1::Taint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.as_str().to_owned(),
    };
    taints.iter().map(message).collect()
}

fn quantities(resources: &Resources) -> Vec<v1::Quantity> {
    let message = |(name, amount): (&Text, i64)| v1::Quantity {
        resource: name.to_string(),
        amount: quantity::render(name, amount),
    };
    resources.iter().map(message).collect()
}

fn pairs(labels: &Labels) -> Vec<v1::StringPair> {
    labels.iter().map(|(key, value)| pair(key, value)).collect()
}

fn pair(key: &str, value: &str) -> v1::StringPair {
    v1::StringPair { key: key.to_owned(), value: value.to_owned() }
}

fn node_name(name: Option<&NodeName>) -> String {
    name.map(ToString::to_string).unwrap_or_default()
}

fn millis(moment: Option<Timestamp>) -> i64 {
    moment.map_or(0, |moment| moment.as_millis())
}
