//! Machine and NodeClaim of v1beta1 to NodeClaim, for plans, which use them as existing capacity.

use serde_json::Value;

use super::context::Context;
use super::kind::ApiGeneration;
use super::record::Reporter;
use super::reference;
use super::requirements::{self, RequirementOwner};
use super::shape::{Fields, join, map_mut, replace_key, take, text};

/// Conditions that v1 does not have.
const DROPPED: [&str; 4] = ["Empty", "Expired", "MachineEmpty", "MachineExpired"];

/// Converts the claim `object` to v1.
pub(super) fn convert(reporter: &mut Reporter<'_, '_>, object: &mut Fields, age: ApiGeneration, context: &Context) {
    let pool = tidy_labels(reporter, object);
    if let Some(conditions) = map_mut(object, "status").and_then(|status| status.get_mut("conditions")?.as_array_mut())
    {
        tidy_conditions(conditions);
    }
    let Some(spec) = map_mut(object, "spec") else { return };
    let written =
        spec.get("requirements").cloned().filter(|value| !value.is_null()).unwrap_or_else(|| Value::Array(Vec::new()));
    let requirements = requirements::tidy(reporter, "spec.requirements", written, RequirementOwner::Claim);
    spec.insert("requirements".to_owned(), Value::Array(requirements));
    if let Some(template) = take(spec, "machineTemplateRef") {
        let name = template["name"].as_str().unwrap_or_default();
        reporter.note("spec.machineTemplateRef", format!("becomes spec.nodeClassRef to EC2NodeClass {name}"));
        spec.insert("nodeClassRef".to_owned(), reference::to_class(name));
    }
    // After `machineTemplateRef`, which is the class reference of v1alpha5.
    if age == ApiGeneration::Beta || !spec.contains_key("nodeClassRef") {
        let _ = reference::tidy(reporter, spec, "spec", ApiGeneration::Beta, context);
    }
    for key in ["kubelet", "kubeletConfiguration"] {
        if take(spec, key).is_some() {
            reporter.note(
                &format!("spec.{key}"),
                "dropped, the node runs already and status.allocatable has its resources",
            );
        }
    }
    if !spec.contains_key("expireAfter") {
        add_expiry(reporter, spec, age, pool.as_deref(), context);
    }
}

/// Adds `expireAfter`: that of the pool, else the default of the old version.
fn add_expiry(
    reporter: &mut Reporter<'_, '_>,
    spec: &mut Fields,
    age: ApiGeneration,
    pool: Option<&str>,
    context: &Context,
) {
    let of_pool = pool.and_then(|pool| context.expiry.get(pool)).map(String::as_str);
    let expiry = of_pool.unwrap_or(if age == ApiGeneration::Alpha { "Never" } else { "720h" });
    reporter.note("spec.expireAfter", format!("added: {expiry}, as its pool had it"));
    spec.insert("expireAfter".to_owned(), Value::from(expiry));
}

/// Renames the claim's labels and returns the name of the pool that owns it.
fn tidy_labels(reporter: &mut Reporter<'_, '_>, object: &mut Fields) -> Option<String> {
    let labels = map_mut(map_mut(object, "metadata")?, "labels")?;
    rename_labels(reporter, "metadata.labels", labels);
    text(labels, "karpenter.sh/nodepool").map(str::to_owned)
}

/// Renames the labels of a claim or node to their v1 names.
pub(super) fn rename_labels(reporter: &mut Reporter<'_, '_>, path: &str, labels: &mut Fields) {
    const OLD: &str = "karpenter.sh/provisioner-name";
    const NEW: &str = "karpenter.sh/nodepool";
    if let Some(value) = labels.get(OLD).cloned() {
        reporter.note(&join(path, OLD), format!("is {NEW} in v1"));
        replace_key(labels, OLD, NEW, value);
    }
}

fn tidy_conditions(conditions: &mut Vec<Value>) {
    conditions.retain(|condition| condition["type"].as_str().is_none_or(|name| !DROPPED.contains(&name)));
    for condition in conditions {
        let name = condition["type"].as_str().and_then(|name| name.strip_prefix("Machine")).map(str::to_owned);
        if let Some(name) = name {
            condition["type"] = Value::from(name);
        }
    }
}
