//! Pods of Karpenter's scheduling benchmark, as few words each; equal recipes are pods of one shape with equal labels.

use serde_json::{Value, json};

/// What a pod asks for and which rule it brings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recipe {
    /// CPU, in milli-cores.
    pub cpu: u32,
    /// Memory, in MiB.
    pub memory: u32,
    /// Its rule.
    pub rule: Rule,
    /// Its own label, key and value.
    pub label: Option<(String, String)>,
    /// The label that its rule selects.
    pub selects: Option<(String, String)>,
}

/// A constraint between pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// None.
    Plain,
    /// Required spread over zones, skew 1.
    ZoneSpread,
    /// Required spread over hosts, skew 1.
    HostSpread,
    /// Required affinity by zone.
    ZoneAffinity,
    /// Required anti-affinity by host.
    HostExclusion,
    /// Prefers zone 1, and prefers not to share zone or host.
    Preferences,
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

impl Recipe {
    /// A pod without rule and label.
    pub fn plain(cpu: u32, memory: u32) -> Self {
        Self { cpu, memory, rule: Rule::Plain, label: None, selects: None }
    }

    /// The pod as a manifest without a name.
    pub fn manifest(&self) -> Value {
        let requests = json!({"cpu": format!("{}m", self.cpu), "memory": format!("{}Mi", self.memory)});
        let mut spec = json!({"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]});
        if let Some((field, rule)) = self.constraint() {
            spec[field] = rule;
        }
        let labels = pair(self.label.as_ref());
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "labels": labels}, "spec": spec})
    }

    fn constraint(&self) -> Option<(&'static str, Value)> {
        let selector = json!({"matchLabels": pair(self.selects.as_ref())});
        let spread = |key| json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        let term = |key| json!({"labelSelector": selector, "topologyKey": key});
        let required = |key| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term(key)]});
        match self.rule {
            Rule::Plain => None,
            Rule::ZoneSpread => Some(("topologySpreadConstraints", spread(ZONE))),
            Rule::HostSpread => Some(("topologySpreadConstraints", spread(HOST))),
            Rule::ZoneAffinity => Some(("affinity", json!({"podAffinity": required(ZONE)}))),
            Rule::HostExclusion => Some(("affinity", json!({"podAntiAffinity": required(HOST)}))),
            Rule::Preferences => Some(("affinity", preferences(&term(ZONE), &term(HOST)))),
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
