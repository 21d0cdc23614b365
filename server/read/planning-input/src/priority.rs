//! Priorities: a number in the pod, else its class, else the default class (Kubernetes: priority
//! admission).

use std::collections::BTreeMap;

use manifests::cluster::policy::PriorityClass;
use manifests::pod::PodSpec;
use model::Text;

/// Classes that every API server has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The priority of a pod with `spec`; an error states why an API server would refuse it.
pub fn resolve(spec: &PodSpec, classes: &BTreeMap<Text, PriorityClass>) -> Result<i32, Text> {
    if let Some(priority) = spec.priority {
        return Ok(priority);
    }
    let Some(name) = &spec.priority_class else { return Ok(default(classes)) };
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name.as_ref()).map(|(_, value)| *value);
    built_in.or_else(|| classes.get(name).map(|class| class.value)).ok_or_else(|| {
        format!("PriorityClass/{name} is not in the input, so the pod cannot be created; add the class or correct priorityClassName").into()
    })
}

/// Of several default classes the lowest value counts.
fn default(classes: &BTreeMap<Text, PriorityClass>) -> i32 {
    classes.values().filter(|class| class.global_default).map(|class| class.value).min().unwrap_or(0)
}
