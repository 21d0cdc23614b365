//! Pod shapes. They are converted back to manifest form and parsed by the manifest parser, so that
//! a plan of the server and a plan from captured files agree on what a pod requires.

use std::sync::Arc;

use engine::model::{Labels, PodShape, Text, quantity};
use fleetwright_proto::v1;
use manifests::pod::{PodSpec, tolerations};
use manifests::{Cursor, ObjectLocation, Problems};
use serde_json::{Map, Value, json};

use super::{DecodeError, decode};

/// Decoded pod shape.
#[derive(Debug)]
pub struct DecodedShape {
    spec: PodSpec,
    priority: i32,
    host_network: bool,
    /// `None` when the shape depends on the pod's labels.
    plain: Option<Arc<PodShape>>,
    problem: Option<Text>,
}

impl DecodedShape {
    /// The shape, when it is the same for all pods.
    #[must_use]
    pub fn plain(&self) -> Option<&Arc<PodShape>> {
        self.plain.as_ref()
    }

    /// Shape of a pod with these labels, which `matchLabelKeys` refer to.
    #[must_use]
    pub fn for_labels(&self, labels: &Labels) -> PodShape {
        self.spec.shape(labels, self.priority)
    }

    /// Shape of a DaemonSet's pod, with the tolerations that the DaemonSet controller adds.
    #[must_use]
    pub fn for_daemon(&self, labels: &Labels) -> PodShape {
        let mut spec = self.spec.clone();
        spec.tolerate(tolerations::of_daemons(self.host_network));
        spec.shape(labels, self.priority)
    }

    /// Reason why such a pod is unschedulable.
    #[must_use]
    pub fn problem(&self) -> Option<&Text> {
        self.problem.as_ref()
    }
}

/// Decodes a `PodShape`.
///
/// # Errors
/// [`DecodeError::Unreadable`] when the bytes are malformed. A shape that violates a Kubernetes
/// rule is decoded as far as possible and has a [`problem`](DecodedShape::problem).
pub fn read(content: &[u8]) -> Result<DecodedShape, DecodeError> {
    let shape: v1::PodShape = decode("pod shape", content)?;
    let value = spec(&shape);
    let problems = Problems::default();
    let site = ObjectLocation { source: "agent".into(), document: 0, object: None, problems: &problems };
    let read = PodSpec::read(&Cursor::root(&value, &site));
    let keyed = depends_on_labels(&shape);
    let plain = (!keyed).then(|| Arc::new(read.shape(&Labels::new(), shape.priority)));
    let broken = problems.into_errors().into_iter().next().map(|error| Text::from(error.message));
    Ok(DecodedShape {
        problem: read.invalid.clone().or(broken),
        spec: read,
        priority: shape.priority,
        host_network: shape.host_network,
        plain,
    })
}

fn depends_on_labels(shape: &v1::PodShape) -> bool {
    let keyed = |term: &v1::PodAffinityTerm| !term.match_label_keys.is_empty() || !term.mismatch_label_keys.is_empty();
    let spread = shape.topology_spread_constraints.iter().any(|constraint| !constraint.match_label_keys.is_empty());
    let affinity = shape.affinity.as_ref().is_some_and(|affinity| {
        let required = affinity.required_pod_affinity.iter().chain(&affinity.required_pod_anti_affinity);
        let preferred = affinity.preferred_pod_affinity.iter().chain(&affinity.preferred_pod_anti_affinity);
        required.chain(preferred.filter_map(|preferred| preferred.term.as_ref())).any(keyed)
    });
    spread || affinity
}

/// `spec` of a pod of this shape.
fn spec(shape: &v1::PodShape) -> Value {
    let containers = |list: &[v1::Container], prefix: &str| -> Value {
        list.iter().enumerate().map(|(at, c)| container(c, &format!("{prefix}{at}"), shape.resize_infeasible)).collect()
    };
    let mut spec = object([
        ("containers", containers(&shape.containers, "c")),
        ("initContainers", containers(&shape.init_containers, "i")),
        ("overhead", quantities(&shape.overhead)),
        ("nodeSelector", pairs(&shape.node_selector)),
        ("tolerations", shape.tolerations.iter().map(toleration).collect()),
        ("topologySpreadConstraints", shape.topology_spread_constraints.iter().map(spread).collect()),
        ("hostNetwork", json!(shape.host_network)),
        ("schedulerName", text(&shape.scheduler_name)),
        ("schedulingGates", shape.scheduling_gates.iter().map(|name| json!({ "name": name })).collect()),
        ("resourceClaims", shape.resource_claims.iter().map(|name| json!({ "name": name })).collect()),
        ("resources", shape.resources.as_ref().map_or(Value::Null, requirements)),
        ("affinity", shape.affinity.as_ref().map_or(Value::Null, affinity)),
    ]);
    if shape.containers.is_empty() {
        // A pod has at least one container; one without requests replaces those that were omitted
        // as irrelevant.
        spec["containers"] = json!([{ "name": "c0" }]);
    }
    spec
}

/// Names do not affect scheduling, so containers get generated names, which are valid and unique.
fn container(container: &v1::Container, name: &str, resize_infeasible: bool) -> Value {
    let ports: Value = container.host_ports.iter().map(port).collect();
    object([
        ("name", json!(name)),
        ("restartPolicy", text(&container.restart_policy)),
        ("ports", ports),
        ("resources", container_resources(container, resize_infeasible)),
    ])
}

/// Requests of a container. During a resize they are the maximum of requested, allocated and
/// actuated resources; if the resize is infeasible, only of the last two (Kubernetes: in-place pod
/// resize).
fn container_resources(container: &v1::Container, resize_infeasible: bool) -> Value {
    let asked = container.resources.clone().unwrap_or_default();
    if container.allocated.is_empty() && container.actuated.is_empty() {
        return requirements(&asked);
    }
    let held = container.allocated.iter().chain(&container.actuated);
    let wanted = asked.requests.iter().filter(|_| !resize_infeasible);
    let mut most: Map<String, Value> = Map::new();
    for one in held.chain(wanted) {
        let larger = most.get(&one.resource).and_then(Value::as_str).is_none_or(|known| exceeds(one, known));
        if larger {
            most.insert(one.resource.clone(), json!(one.amount));
        }
    }
    // Limits do not affect scheduling; those of devices must equal the requests.
    json!({ "requests": most.clone(), "limits": most })
}

fn exceeds(one: &v1::Quantity, known: &str) -> bool {
    let amount = |text: &str| quantity::parse(&one.resource, text).unwrap_or(0);
    amount(&one.amount) > amount(known)
}

fn requirements(resources: &v1::ResourceRequirements) -> Value {
    object([("requests", quantities(&resources.requests)), ("limits", quantities(&resources.limits))])
}

fn port(port: &v1::HostPort) -> Value {
    object([
        ("containerPort", json!(port.host_port)),
        ("hostPort", json!(port.host_port)),
        ("hostIP", text(&port.host_ip)),
        ("protocol", text(&port.protocol)),
    ])
}

fn toleration(toleration: &v1::Toleration) -> Value {
    object([
        ("key", text(&toleration.key)),
        ("operator", text(&toleration.operator)),
        ("value", text(&toleration.value)),
        ("effect", text(&toleration.effect)),
        ("tolerationSeconds", toleration.toleration_seconds.map_or(Value::Null, Value::from)),
    ])
}

fn spread(constraint: &v1::TopologySpreadConstraint) -> Value {
    object([
        ("maxSkew", json!(constraint.max_skew)),
        ("topologyKey", json!(constraint.topology_key)),
        ("whenUnsatisfiable", json!(constraint.when_unsatisfiable)),
        ("labelSelector", selector(constraint.selector.as_ref())),
        ("minDomains", constraint.min_domains.map_or(Value::Null, Value::from)),
        ("nodeAffinityPolicy", text(&constraint.node_affinity_policy)),
        ("nodeTaintsPolicy", text(&constraint.node_taints_policy)),
        ("matchLabelKeys", list(&constraint.match_label_keys)),
    ])
}

fn affinity(affinity: &v1::Affinity) -> Value {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    // Empty lists are omitted by `object`, as in a manifest.
    let node_terms = |selector: &v1::NodeSelector| -> Value {
        let terms: Value = selector.terms.iter().map(node_term).collect();
        json!({ "nodeSelectorTerms": terms })
    };
    let preferred_nodes: Value = affinity
        .preferred_node_affinity
        .iter()
        .map(|p| json!({ "weight": p.weight, "preference": node_term(&p.term.clone().unwrap_or_default()) }))
        .collect();
    let pods = |required: &[v1::PodAffinityTerm], preferred: &[v1::PreferredPodTerm]| {
        let required: Value = required.iter().map(pod_term).collect();
        let preferred: Value = preferred
            .iter()
            .map(|p| json!({ "weight": p.weight, "podAffinityTerm": pod_term(&p.term.clone().unwrap_or_default()) }))
            .collect();
        object([(REQUIRED, required), (PREFERRED, preferred)])
    };
    object([
        (
            "nodeAffinity",
            object([
                (REQUIRED, affinity.required_node_affinity.as_ref().map_or(Value::Null, node_terms)),
                (PREFERRED, preferred_nodes),
            ]),
        ),
        ("podAffinity", pods(&affinity.required_pod_affinity, &affinity.preferred_pod_affinity)),
        ("podAntiAffinity", pods(&affinity.required_pod_anti_affinity, &affinity.preferred_pod_anti_affinity)),
    ])
}

fn node_term(term: &v1::NodeSelectorTerm) -> Value {
    object([
        ("matchExpressions", term.match_expressions.iter().map(expression).collect()),
        ("matchFields", term.match_fields.iter().map(expression).collect()),
    ])
}

fn pod_term(term: &v1::PodAffinityTerm) -> Value {
    object([
        ("topologyKey", json!(term.topology_key)),
        ("labelSelector", selector(term.selector.as_ref())),
        ("namespaces", list(&term.namespaces)),
        ("namespaceSelector", selector(term.namespace_selector.as_ref())),
        ("matchLabelKeys", list(&term.match_label_keys)),
        ("mismatchLabelKeys", list(&term.mismatch_label_keys)),
    ])
}

/// An absent selector matches nothing, an empty one everything, so the two must stay distinct.
fn selector(selector: Option<&v1::LabelSelector>) -> Value {
    let Some(selector) = selector else { return Value::Null };
    let expressions: Value = selector.match_expressions.iter().map(expression).collect();
    json!({ "matchLabels": pairs(&selector.match_labels), "matchExpressions": expressions })
}

fn expression(expression: &v1::Expression) -> Value {
    json!({ "key": expression.key, "operator": expression.operator, "values": expression.values })
}

/// JSON object without nulls and empty lists.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let kept = fields.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(kept.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { Value::from(text) }
}

fn list(texts: &[String]) -> Value {
    texts.iter().map(String::as_str).collect()
}

fn pairs(pairs: &[v1::StringPair]) -> Value {
    Value::Object(pairs.iter().map(|pair| (pair.key.clone(), Value::from(pair.value.as_str()))).collect())
}

fn quantities(quantities: &[v1::Quantity]) -> Value {
    Value::Object(quantities.iter().map(|one| (one.resource.clone(), Value::from(one.amount.as_str()))).collect())
}

#[cfg(test)]
mod tests;
