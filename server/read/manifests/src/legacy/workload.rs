//! Converts references of pods to Provisioners, old annotations and old taints.

use serde_json::Value;

use super::record::Reporter;
use super::shape::{Fields, has, map, map_mut, replace_key, text};

const OLD_OWNER: &str = "karpenter.sh/provisioner-name";
const NEW_OWNER: &str = "karpenter.sh/nodepool";
const OLD_EVICT: &str = "karpenter.sh/do-not-evict";
const NEW_EVICT: &str = "karpenter.sh/do-not-disrupt";
const OLD_TAINT: &str = "karpenter.sh/disruption";
const NEW_TAINT: &str = "karpenter.sh/disrupted";

/// Keys on the path to the pod's metadata and spec, for each kind.
fn steps(kind: &str) -> &'static [&'static str] {
    match kind {
        "Pod" => &[],
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        _ => &["spec", "template"],
    }
}

/// Converts the pod in `object` to v1. `owners` states whether the old name of the owning pool is
/// rewritten too.
pub(super) fn convert(reporter: &mut Reporter<'_, '_>, object: &mut Fields, owners: bool) {
    let steps = steps(text(object, "kind").unwrap_or_default());
    let prefix: String = steps.iter().map(|step| format!("{step}.")).collect();
    let mut pod = object;
    for step in steps {
        let Some(next) = map_mut(pod, step) else { return };
        pod = next;
    }
    if let Some(annotations) = map_mut(pod, "metadata").and_then(|metadata| map_mut(metadata, "annotations")) {
        tidy_annotations(reporter, &format!("{prefix}metadata.annotations[{OLD_EVICT:?}]"), annotations);
    }
    let Some(spec) = map_mut(pod, "spec") else { return };
    let path = format!("{prefix}spec");
    tidy_tolerations(reporter, &path, spec);
    if owners {
        rename_owner(reporter, &path, spec);
    }
}

fn tidy_annotations(reporter: &mut Reporter<'_, '_>, path: &str, annotations: &mut Fields) {
    let Some(value) = annotations.get(OLD_EVICT).cloned() else { return };
    reporter.note(path, format!("is {NEW_EVICT} in v1, which ignores the old name"));
    if has(annotations, NEW_EVICT) {
        annotations.shift_remove(OLD_EVICT);
    } else {
        replace_key(annotations, OLD_EVICT, NEW_EVICT, value);
    }
}

fn tidy_tolerations(reporter: &mut Reporter<'_, '_>, path: &str, spec: &mut Fields) {
    let tolerations = spec.get_mut("tolerations").and_then(Value::as_array_mut).into_iter().flatten().enumerate();
    for (index, toleration) in tolerations.filter_map(|(index, item)| Some((index, item.as_object_mut()?))) {
        if text(toleration, "key") == Some(OLD_TAINT) {
            reporter.note(
                &format!("{path}.tolerations[{index}]"),
                format!("the taint is {NEW_TAINT}, without a value, in v1"),
            );
            toleration.insert("key".to_owned(), Value::from(NEW_TAINT));
            toleration.insert("operator".to_owned(), Value::from("Exists"));
            toleration.shift_remove("value");
        }
    }
}

/// Renames the label of the owning pool in selectors, affinities and topology keys.
fn rename_owner(reporter: &mut Reporter<'_, '_>, path: &str, spec: &mut Fields) {
    if let Some(selector) = map_mut(spec, "nodeSelector")
        && let Some(value) = selector.get(OLD_OWNER).cloned()
    {
        reporter.note(&format!("{path}.nodeSelector[{OLD_OWNER:?}]"), format!("is {NEW_OWNER} in v1"));
        replace_key(selector, OLD_OWNER, NEW_OWNER, value);
    }
    for key in ["affinity", "topologySpreadConstraints"] {
        let renamed = spec.get_mut(key).is_some_and(rename_keys);
        if renamed {
            reporter.note(&format!("{path}.{key}"), format!("{OLD_OWNER} is {NEW_OWNER} in v1"));
        }
    }
}

/// Renames the label of the owning pool in every `key` and `topologyKey` within `value`.
fn rename_keys(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |renamed, item| rename_keys(item) | renamed),
        Value::Object(fields) => fields.iter_mut().fold(false, |renamed, (key, value)| {
            let names = matches!(key.as_str(), "key" | "topologyKey") && *value == OLD_OWNER;
            if names {
                *value = Value::from(NEW_OWNER);
            }
            rename_keys(value) | names | renamed
        }),
        _ => false,
    }
}

/// Whether [`convert`] may change the object. A cheap test, for captures with many pods.
pub(super) fn is_touched(object: &Fields) -> bool {
    let mut pod = object;
    for step in steps(text(object, "kind").unwrap_or_default()) {
        let Some(next) = map(pod, step) else { return false };
        pod = next;
    }
    let annotated =
        map(pod, "metadata").and_then(|metadata| map(metadata, "annotations")).is_some_and(|a| has(a, OLD_EVICT));
    annotated
        || map(pod, "spec").is_some_and(|spec| {
            ["nodeSelector", "affinity", "topologySpreadConstraints", "tolerations"]
                .iter()
                .any(|key| spec.get(*key).is_some_and(mentions))
        })
}

fn mentions(value: &Value) -> bool {
    match value {
        Value::String(text) => text == OLD_OWNER || text == OLD_TAINT,
        Value::Array(items) => items.iter().any(mentions),
        Value::Object(fields) => fields.iter().any(|(key, value)| key == OLD_OWNER || mentions(value)),
        _ => false,
    }
}
