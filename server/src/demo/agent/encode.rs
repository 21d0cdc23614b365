//! Encodes objects of a simulated cluster as the records of an agent that watches an API server.

use std::sync::Arc;

use agent::Record;
use engine::cluster::{
    ClaimRecord, DaemonRecord, Key, NamespaceRecord, NodeRecord, Object, PodPhase, PodRecord, Scheduling,
};
use engine::model::labels::SelectorOperator;
use engine::model::{
    LabelSelector, Labels, NodeSelectorTerm, Operator, PodAffinityTerm, PodShape, Requirement, Resources,
    SpreadConstraint, Taint, Text, Timestamp, Toleration, TolerationOperator, quantity,
};
use fleetwright_proto::v1;
use v1::change::Change;

use crate::session::encode::MANAGED;

/// Encodes many objects; shapes and labels equal to the previous pod's are shared.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    shape: Option<(Arc<PodShape>, Arc<v1::PodShape>)>,
    labels: Option<(Arc<Labels>, Arc<v1::LabelSet>)>,
}

impl Encoder {
    /// Like [`object`].
    pub(crate) fn object(&mut self, fact: &Object) -> Option<Record> {
        match fact {
            Object::Pod(record) => Some(self.pod(record)),
            other => object(other),
        }
    }

    fn pod(&mut self, record: &PodRecord) -> Record {
        let known = self.shape.take().filter(|(of, _)| Arc::ptr_eq(of, &record.shape));
        let (_, shape) =
            self.shape.insert(known.unwrap_or_else(|| (Arc::clone(&record.shape), Arc::new(shape(&record.shape)))));
        let known = self.labels.take().filter(|(of, _)| Arc::ptr_eq(of, &record.labels));
        let (_, labels) = self
            .labels
            .insert(known.unwrap_or_else(|| (Arc::clone(&record.labels), Arc::new(label_set(&record.labels)))));
        let (shape, labels) = (Arc::clone(shape), Arc::clone(labels));
        Record::Pod { record: Box::new(pod(record)), shape, labels, volume_claims: None }
    }
}

/// Encodes an object; `None` for NodePools, which are sent as manifests.
pub(crate) fn object(object: &Object) -> Option<Record> {
    Some(match object {
        Object::Pod(record) => Encoder::default().pod(record),
        Object::Node(record) => Record::plain(Change::Node(node(record))),
        Object::Claim(record) => Record::plain(Change::NodeClaim(claim(record, Vec::new()))),
        Object::Daemon(record) => daemon(record),
        Object::Namespace(record) => Record::plain(Change::Namespace(namespace(record))),
        // A simulated cluster has none of these; NodePools and EC2NodeClasses are sent as
        // manifests.
        Object::Pool(_)
        | Object::PodBudget(_)
        | Object::Class(_)
        | Object::Attach(_)
        | Object::Autoscaler(_)
        | Object::Problem(_) => return None,
    })
}

/// Encodes a deletion.
pub(crate) fn removal(key: &Key) -> Record {
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
        node_name: text(record.node.as_ref()),
        phase: phase(record.phase).into(),
        created_at_ms: millis(record.created),
        deleted_at_ms: if record.terminating { 1 } else { 0 },
        scheduled_reason: reason(record.scheduling).to_owned(),
        nominated_node_name: text(record.nominated.as_ref()),
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
    let annotations = record.do_not_disrupt.then(|| pair("karpenter.sh/do-not-disrupt", "true"));
    let drain = record.drain_deadline.map(|at| pair("fleetwright.dev/drain", &format!("{{\"forceAtMs\":{}}}", at.0)));
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

/// Encodes a NodeClaim with its conditions.
pub(crate) fn claim(record: &ClaimRecord, mut conditions: Vec<v1::Condition>) -> v1::NodeClaimRecord {
    const INITIALIZED: &str = "Initialized";
    // The time of initialization travels as the transition time of the condition `Initialized`.
    if let Some(since) = record.initialized_at {
        let at = conditions.iter().position(|condition| condition.r#type == INITIALIZED).unwrap_or_else(|| {
            conditions.push(v1::Condition { reason: INITIALIZED.to_owned(), ..condition(INITIALIZED, true) });
            conditions.len() - 1
        });
        conditions[at].last_transition_ms = since.0;
    }
    v1::NodeClaimRecord {
        name: record.name.to_string(),
        uid: format!("claim-{}", record.name),
        labels: pairs(&record.labels),
        annotations: record.ours.then(|| pair(MANAGED, "true")).into_iter().collect(),
        node_class: Some(v1::NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: record.node_class.to_string(),
        }),
        taints: taints(&record.taints),
        startup_taints: taints(&record.startup_taints),
        requests: quantities(&record.requests),
        provider_id: record.provider_id.to_string(),
        capacity: quantities(&record.capacity),
        allocatable: quantities(&record.allocatable),
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

fn daemon(record: &DaemonRecord) -> Record {
    Record::DaemonSet {
        record: v1::DaemonSetRecord {
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
            uid: format!("daemon-{}-{}", record.namespace, record.name),
            ..v1::DaemonSetRecord::default()
        },
        shape: Arc::new(shape(&record.shape)),
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

/// Encodes the pod's specification. Requests are those of one container; the implicit `pods`
/// resource is omitted.
fn shape(shape: &PodShape) -> v1::PodShape {
    let mut requests = shape.requests.clone();
    requests.remove(engine::model::resources::PODS);
    let container = v1::Container {
        name: "main".to_owned(),
        resources: Some(v1::ResourceRequirements { requests: quantities(&requests), limits: Vec::new() }),
        host_ports: shape.host_ports.iter().map(host_port).collect(),
        ..v1::Container::default()
    };
    v1::PodShape {
        containers: vec![container],
        node_selector: shape.node_selector.iter().map(|(key, value)| pair(key, value)).collect(),
        affinity: affinity(shape),
        tolerations: shape.tolerations.iter().map(toleration).collect(),
        topology_spread_constraints: shape.spread.iter().map(spread).collect(),
        priority: shape.priority,
        ..v1::PodShape::default()
    }
}

fn host_port(port: &engine::model::HostPort) -> v1::HostPort {
    v1::HostPort { host_ip: port.ip.to_string(), protocol: port.protocol.to_string(), host_port: port.port.into() }
}

fn affinity(shape: &PodShape) -> Option<v1::Affinity> {
    let required = &shape.node_affinity;
    let nodes = (!required.is_empty()).then(|| v1::NodeSelector { terms: required.iter().map(node_term).collect() });
    let together = shape.pod_affinity.iter().map(pod_term).collect();
    let apart = shape.pod_anti_affinity.iter().map(pod_term).collect();
    let affinity = v1::Affinity {
        required_node_affinity: nodes,
        required_pod_affinity: together,
        required_pod_anti_affinity: apart,
        ..v1::Affinity::default()
    };
    (affinity != v1::Affinity::default()).then_some(affinity)
}

fn node_term(term: &NodeSelectorTerm) -> v1::NodeSelectorTerm {
    v1::NodeSelectorTerm {
        match_expressions: term.expressions.iter().map(expression).collect(),
        match_fields: term.names.iter().map(expression).collect(),
    }
}

/// The demo's pods use value sets and no integer bounds.
fn expression(requirement: &Requirement) -> v1::Expression {
    let (operator, values) = match requirement.finite_values() {
        Some(values) if values.is_empty() => (Operator::DoesNotExist, Vec::new()),
        Some(values) => (Operator::In, values.iter().map(ToString::to_string).collect()),
        None => {
            let excluded: Vec<String> = requirement.excluded_values().map(ToString::to_string).collect();
            (if excluded.is_empty() { Operator::Exists } else { Operator::NotIn }, excluded)
        }
    };
    v1::Expression { key: requirement.key().to_string(), operator: operator.as_str().to_owned(), values }
}

fn pod_term(term: &PodAffinityTerm) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        topology_key: term.topology_key.to_string(),
        selector: term.selector.as_ref().map(selector),
        namespaces: term.namespaces.iter().map(ToString::to_string).collect(),
        namespace_selector: term.namespace_selector.as_ref().map(selector),
        ..v1::PodAffinityTerm::default()
    }
}

fn selector(selector: &LabelSelector) -> v1::LabelSelector {
    let expressions = selector.terms.iter().map(|term| v1::Expression {
        key: term.key.to_string(),
        operator: match term.operator {
            SelectorOperator::In => "In",
            SelectorOperator::NotIn => "NotIn",
            SelectorOperator::Exists => "Exists",
            SelectorOperator::DoesNotExist => "DoesNotExist",
        }
        .to_owned(),
        values: term.values.iter().map(ToString::to_string).collect(),
    });
    v1::LabelSelector { match_labels: Vec::new(), match_expressions: expressions.collect() }
}

fn spread(constraint: &SpreadConstraint) -> v1::TopologySpreadConstraint {
    let policy = |honor| if honor { "Honor" } else { "Ignore" }.to_owned();
    v1::TopologySpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.to_string(),
        when_unsatisfiable: if constraint.hard { "DoNotSchedule" } else { "ScheduleAnyway" }.to_owned(),
        selector: constraint.selector.as_ref().map(selector),
        min_domains: constraint.min_domains,
        node_affinity_policy: policy(constraint.honor_node_affinity),
        node_taints_policy: policy(constraint.honor_node_taints),
        match_label_keys: Vec::new(),
    }
}

fn toleration(toleration: &Toleration) -> v1::Toleration {
    let operator = match toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Lt => "Lt",
        TolerationOperator::Gt => "Gt",
    };
    v1::Toleration {
        key: toleration.key.to_string(),
        operator: operator.to_owned(),
        value: toleration.value.to_string(),
        effect: toleration.effect.map(|effect| effect.as_str().to_owned()).unwrap_or_default(),
        toleration_seconds: None,
    }
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

fn text(text: Option<&Text>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

fn millis(moment: Option<Timestamp>) -> i64 {
    moment.map_or(0, |moment| moment.0)
}
