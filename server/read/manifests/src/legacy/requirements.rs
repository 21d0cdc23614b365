//! Requirement entries and taints of pools and claims.

use model::Operator;
use serde_json::Value;

use super::names;
use super::record::Reporter;
use super::shape::{Fields, has, join, scalar, text};
use crate::document::type_name;
use crate::karpenter::{is_restricted, well_known_labels};

const INSTANCE_PODS: &str = "karpenter.k8s.aws/instance-pods";
const NEURON_NAMES: &str = "karpenter.k8s.aws/instance-accelerator-name";

/// The kind of object that has the requirements; determines what a requirement on the owning pool
/// means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequirementOwner {
    /// A pool: a requirement on the owning pool was never allowed.
    Pool,
    /// A claim: a requirement on the owning pool names its pool.
    Claim,
}

/// Converts the entries of `list`, found at `path`, to v1.
pub(super) fn tidy(reporter: &mut Reporter<'_, '_>, path: &str, list: Value, holder: RequirementOwner) -> Vec<Value> {
    let entries = match list {
        Value::Array(entries) => entries,
        other => {
            reporter.refuse(path, format!("found {}, allowed: a list", type_name(&other)));
            Vec::new()
        }
    };
    let mut kept = Vec::with_capacity(entries.len());
    for (index, entry) in entries.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        match entry {
            Value::Object(mut entry) => {
                if tidy_entry(reporter, &path, &mut entry, holder) {
                    kept.push(Value::Object(entry));
                }
            }
            other => reporter
                .refuse(&path, format!("found {}, allowed: a map with key, operator and values", type_name(&other))),
        }
    }
    kept
}

/// Converts one entry; false when the entry must be dropped.
fn tidy_entry(reporter: &mut Reporter<'_, '_>, path: &str, entry: &mut Fields, holder: RequirementOwner) -> bool {
    tidy_operator(reporter, path, entry);
    tidy_values(reporter, path, entry);
    let Some(key) = text(entry, "key").map(str::to_owned) else { return true };
    let key_path = join(path, "key");
    if key == "karpenter.sh/provisioner-name" && holder == RequirementOwner::Pool {
        reporter.guess(
            &key_path,
            "dropped, a pool may not require its own name",
            "a pool may not require its own name; remove the requirement",
        );
        return false;
    }
    if key == INSTANCE_PODS {
        reporter.note(
            &key_path,
            format!("dropped, {INSTANCE_PODS} does not exist in v1; machines of any number of pods may be launched"),
        );
        return false;
    }
    if key == NEURON_NAMES
        && entry.get("values").and_then(Value::as_array).is_some_and(|v| v.contains(&Value::from("inferentia")))
    {
        reporter.note(&key_path, "inferentia named every Neuron chip once; v1 distinguishes inferentia, inferentia2 and trainium, so list those that you mean");
    }
    if let Some(key) = renamed(reporter, &key_path, &key) {
        entry.insert("key".to_owned(), Value::from(key));
    }
    true
}

/// The v1 name of `key` if it differs. A key of Karpenter's domains that does not exist is
/// interpreted as the well-known key with the same last part.
fn renamed(reporter: &mut Reporter<'_, '_>, path: &str, key: &str) -> Option<String> {
    if let Some(known) = names::label(key) {
        reporter.note(path, format!("{key} is {known} in v1"));
        return Some(known.to_owned());
    }
    if key.starts_with("node.k8s.aws/launch-template") {
        reporter.refuse_launch(path, "launch templates cannot be chosen since v1beta1; give images, security groups and user data in an EC2NodeClass");
        return None;
    }
    // Known renames were handled above. Other keys are interpreted only in Karpenter's domains or
    // without a domain.
    let last = key.rsplit('/').next().unwrap_or(key);
    let bare = !key.contains('/')
        && matches!(
            last,
            "capacity-type" | "instance-type" | "instance-family" | "instance-category" | "instance-size"
        );
    if !bare && !is_restricted(key) {
        return None;
    }
    let same_end: Vec<_> =
        well_known_labels().into_iter().filter(|known| known.rsplit('/').next() == Some(last)).collect();
    match &same_end[..] {
        [known] => {
            reporter.guess(
                path,
                format!("there is no label {key}, read as {known}"),
                format!("there is no label {key}; write {known}"),
            );
            Some(known.to_string())
        }
        _ if bare => None,
        _ => {
            reporter.refuse(
                path,
                format!("there is no label {key}; labels of Karpenter's domains are the well-known ones only"),
            );
            None
        }
    }
}

fn tidy_operator(reporter: &mut Reporter<'_, '_>, path: &str, entry: &mut Fields) {
    let Some(written) = text(entry, "operator") else { return };
    let proper = Operator::ALL.iter().map(|operator| operator.as_str()).find(|name| name.eq_ignore_ascii_case(written));
    if let Some(proper) = proper.filter(|proper| *proper != written) {
        reporter.guess(
            &join(path, "operator"),
            format!("found {written:?}, read as {proper}"),
            format!("found {written:?}; write {proper}"),
        );
        entry.insert("operator".to_owned(), Value::from(proper));
    }
}

/// Corrects `value` instead of `values`, scalars instead of lists, and numbers instead of strings.
fn tidy_values(reporter: &mut Reporter<'_, '_>, path: &str, entry: &mut Fields) {
    if !has(entry, "values")
        && let Some(value) = entry.get("value").cloned()
    {
        reporter.guess(&join(path, "value"), "the field is called values", "there is no such field; write values");
        super::shape::replace_key(entry, "value", "values", value);
    }
    let path = join(path, "values");
    let Some(values) = entry.get_mut("values") else { return };
    if let Some(one) = scalar(values) {
        reporter.guess(
            &path,
            "a list is allowed here; read as a list of one",
            "found a text, allowed: a list; write it in brackets",
        );
        *values = Value::Array(vec![Value::from(one)]);
    }
    let items = values.as_array_mut().into_iter().flatten();
    for item in items.filter(|item| item.is_number() || item.is_boolean()) {
        reporter.guess(
            &path,
            format!("{item} must be in quotes"),
            format!("{item} must be in quotes; write \"{item}\""),
        );
        *item = Value::from(scalar(item).unwrap_or_default());
    }
}

/// Converts the taints of `list`, found at `path`, to v1. `operator`, a field of tolerations, is
/// dropped.
pub(super) fn tidy_taints(reporter: &mut Reporter<'_, '_>, path: &str, list: &mut Value) {
    let entries = list.as_array_mut().into_iter().flatten().enumerate();
    for (index, taint) in entries {
        let Some(taint) = taint.as_object_mut() else { continue };
        if taint.shift_remove("operator").is_some() {
            reporter.guess(
                &format!("{path}[{index}].operator"),
                "dropped, only tolerations have an operator",
                "a taint has no operator, only tolerations have one; remove it",
            );
        }
        if let Some(value) = taint.get_mut("value").filter(|value| value.is_number() || value.is_boolean()) {
            reporter.guess(
                &format!("{path}[{index}].value"),
                format!("{value} must be in quotes"),
                format!("{value} must be in quotes; write \"{value}\""),
            );
            *value = Value::from(scalar(value).unwrap_or_default());
        }
    }
}

/// A requirement entry `{key, operator, values}`.
pub(super) fn entry(key: &str, operator: Operator, values: &[&str]) -> Value {
    let mut entry = Fields::new();
    entry.insert("key".to_owned(), Value::from(key));
    entry.insert("operator".to_owned(), Value::from(operator.as_str()));
    entry.insert("values".to_owned(), Value::from(values));
    Value::Object(entry)
}

/// (field, label) of fields before v1alpha5 that select instance types.
const DIRECT: [(&str, &str); 6] = [
    ("instanceTypes", "node.kubernetes.io/instance-type"),
    ("zones", "topology.kubernetes.io/zone"),
    ("architecture", "kubernetes.io/arch"),
    ("architectures", "kubernetes.io/arch"),
    ("operatingSystem", "kubernetes.io/os"),
    ("operatingSystems", "kubernetes.io/os"),
];

/// Takes fields such as `instanceTypes` out of `spec` and makes requirements of them.
pub(super) fn from_direct_fields(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) -> Vec<Value> {
    let mut requirements = Vec::new();
    for (field, label) in DIRECT {
        let Some(value) = super::shape::take(spec, field) else { continue };
        let values: Vec<String> = match &value {
            Value::Array(items) => items.iter().filter_map(scalar).collect(),
            one => scalar(one).into_iter().collect(),
        };
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        reporter.guess(
            &join("spec", field),
            format!("is a requirement on {label} since v1alpha5"),
            format!("is no field since v1alpha5; write a requirement on {label}"),
        );
        requirements.push(entry(label, Operator::In, &values));
    }
    requirements
}
