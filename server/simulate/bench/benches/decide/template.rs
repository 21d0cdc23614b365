//! Pod templates of Karpenter's scheduling benchmark; equal templates give pods of one shape with
//! equal labels.

use serde_json::{Value, json};

/// Requests of a pod, and its constraint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodTemplate {
    /// CPU, in milli-cores.
    pub cpu: u32,
    /// Memory, in MiB.
    pub memory: u32,
    pub gpu: u32,
    pub rule: Rule,
    /// Own label, key and value.
    pub label: Option<(String, String)>,
    pub selects: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No constraint.
    Plain,
    /// Required spread over zones, skew 1.
    ZoneSpread,
    /// Required spread over hosts, skew 1.
    HostSpread,
    /// Required affinity by zone.
    ZoneAffinity,
    /// Required anti-affinity by host.
    HostExclusion,
    /// Required spread over zones, skew 1, and required anti-affinity by host.
    ZoneSpreadAndHostExclusion,
    /// Required spread over zones and over hosts, skew 1 each.
    ZoneAndHostSpread,
    /// Preferred zone 1, and preferred anti-affinity by zone and host.
    Preferences,
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

impl PodTemplate {
    /// A pod without constraint and label.
    pub fn plain(cpu: u32, memory: u32) -> Self {
        Self { cpu, memory, gpu: 0, rule: Rule::Plain, label: None, selects: None }
    }

    /// The pod as a manifest without a name.
    pub fn manifest(&self) -> Value {
        let mut resources =
            json!({"requests": {"cpu": format!("{}m", self.cpu), "memory": format!("{}Mi", self.memory)}});
        if self.gpu > 0 {
            resources["limits"] = json!({"nvidia.com/gpu": self.gpu.to_string()});
        }
        let mut spec = json!({"containers": [{"name": "main", "image": "x", "resources": resources}]});
        for (field, rule) in self.constraints() {
            spec[field] = rule;
        }
        let labels = pair(self.label.as_ref());
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "labels": labels}, "spec": spec})
    }

    fn constraints(&self) -> Vec<(&'static str, Value)> {
        let selector = json!({"matchLabels": pair(self.selects.as_ref())});
        let over = |key: &&str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
        let spread = |keys: &[&str]| ("topologySpreadConstraints", Value::from_iter(keys.iter().map(over)));
        let term = |key| json!({"labelSelector": selector, "topologyKey": key});
        let required = |key| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term(key)]});
        let exclusion = ("affinity", json!({"podAntiAffinity": required(HOST)}));
        match self.rule {
            Rule::Plain => vec![],
            Rule::ZoneSpread => vec![spread(&[ZONE])],
            Rule::HostSpread => vec![spread(&[HOST])],
            Rule::ZoneAndHostSpread => vec![spread(&[ZONE, HOST])],
            Rule::ZoneAffinity => vec![("affinity", json!({"podAffinity": required(ZONE)}))],
            Rule::HostExclusion => vec![exclusion],
            Rule::ZoneSpreadAndHostExclusion => vec![spread(&[ZONE]), exclusion],
            Rule::Preferences => vec![("affinity", preferences(&term(ZONE), &term(HOST)))],
        }
    }
}

fn preferences(zone: &Value, host: &Value) -> Value {
    let first = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["test-zone-1"]}]});
    json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": first}]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "podAffinityTerm": zone}, {"weight": 1, "podAffinityTerm": host},
        ]},
    })
}

fn pair(label: Option<&(String, String)>) -> Value {
    label.map_or_else(|| json!({}), |(key, value)| json!({ key.clone(): value }))
}
