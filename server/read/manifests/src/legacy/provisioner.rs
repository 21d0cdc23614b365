//! Converts v1alpha5 Provisioners to NodePools, and their inline classes to EC2NodeClasses.

use model::Operator;
use serde_json::Value;

use super::context::Context;
use super::pool::{self, Pool};
use super::record::Reporter;
use super::requirements::{self, RequirementOwner, entry};
use super::shape::{Fields, has, put_unless_empty, take, take_map, take_map_or_empty, text};
use super::{class, disruption, kubelet, names, reference};

const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Keys that determine the instance types, so that the defaults for category and generation are not
/// added.
const MACHINE_KEYS: [&str; 4] =
    ["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family", CATEGORY, GENERATION];
/// Fields that no version of Provisioner had, but that occur in practice.
const NEVER_EXISTED: [&str; 4] = ["kubernetesVersion", "deprovisioning", "ami", "cluster"];

/// Converts the Provisioner `object`, whose metadata is already converted.
pub(super) fn convert(reporter: &mut Reporter<'_, '_>, mut object: Fields, name: &str, context: &Context) -> Pool {
    let mut spec = take_map_or_empty(reporter, &mut object, "", "spec");
    for key in NEVER_EXISTED {
        if take(&mut spec, key).is_some() {
            reporter.guess(
                &format!("spec.{key}"),
                "ignored, there is no such field",
                "there is no such field; remove it",
            );
        }
    }
    // Every known field is taken out of `spec`; the rest at the end are unknown fields.
    let labels = take_map_or_empty(reporter, &mut spec, "spec", "labels");
    let old = disruption::LegacyDisruption::take(reporter, &mut spec, "spec");
    let block = kubelet::take_block(reporter, &mut spec, "spec", "kubeletConfiguration", "kubelet");
    let (class, inline_class) = take_class(reporter, &mut spec, name, context);
    let mut inner = Fields::new();
    inner.insert("requirements".to_owned(), Value::Array(take_requirements(reporter, &mut spec, &labels)));
    for key in ["taints", "startupTaints"] {
        if let Some(mut taints) = take(&mut spec, key) {
            requirements::tidy_taints(reporter, &format!("spec.{key}"), &mut taints);
            inner.insert(key.to_owned(), taints);
        }
    }
    if let Some(class) = &class {
        inner.insert("nodeClassRef".to_owned(), reference::to_class(class));
    }
    inner.insert("expireAfter".to_owned(), expire_after(reporter, &old));
    let template = template(reporter, &mut spec, labels, inner);
    let mut converted = Fields::new();
    converted.insert("template".to_owned(), Value::Object(template));
    converted.insert("disruption".to_owned(), Value::Object(old.disruption(reporter)));
    put_unless_empty(&mut converted, "limits", take_limits(reporter, &mut spec));
    pool::tidy_weight(reporter, &mut spec);
    converted.extend(take(&mut spec, "weight").map(|weight| ("weight".to_owned(), weight)));
    for key in spec.keys() {
        reporter.guess(&format!("spec.{key}"), "ignored, there is no such field", "there is no such field; remove it");
    }
    object.insert("spec".to_owned(), Value::Object(converted));
    object.shift_remove("status");
    Pool { object, block, class, inline_class }
}

fn expire_after(reporter: &mut Reporter<'_, '_>, old: &disruption::LegacyDisruption) -> Value {
    match &old.expire_after {
        Some(expiry) => {
            reporter.note("spec.ttlSecondsUntilExpired", format!("becomes spec.template.spec.expireAfter {expiry}"));
            Value::from(expiry.as_str())
        }
        None => {
            reporter
                .note("spec.template.spec.expireAfter", "added: Never; nodes never expired, the default of v1 is 720h");
            Value::from("Never")
        }
    }
}

fn template(reporter: &mut Reporter<'_, '_>, spec: &mut Fields, mut labels: Fields, inner: Fields) -> Fields {
    let mut metadata = Fields::new();
    pool::tidy_labels(reporter, "spec.labels", &mut labels);
    put_unless_empty(&mut metadata, "labels", labels);
    let mut annotations = take_map_or_empty(reporter, spec, "spec", "annotations");
    names::tidy_annotations(reporter, "spec.annotations", &mut annotations, true);
    put_unless_empty(&mut metadata, "annotations", annotations);
    let mut template = Fields::new();
    put_unless_empty(&mut template, "metadata", metadata);
    template.insert("spec".to_owned(), Value::Object(inner));
    template
}

fn take_limits(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) -> Fields {
    let mut limits = take_map_or_empty(reporter, spec, "spec", "limits");
    match take_map(reporter, &mut limits, "spec.limits", "resources") {
        Some(resources) => {
            reporter.note("spec.limits.resources", "is spec.limits in v1");
            resources
        }
        None => {
            if !limits.is_empty() {
                reporter.guess(
                    "spec.limits",
                    "v1alpha5 has limits.resources, so nothing was limited; read as limits",
                    "v1alpha5 has limits.resources; write the limits there",
                );
            }
            limits
        }
    }
}

/// Requirements in order, then the defaults that the webhook of v1alpha5 added.
fn take_requirements(reporter: &mut Reporter<'_, '_>, spec: &mut Fields, labels: &Fields) -> Vec<Value> {
    let direct = requirements::from_direct_fields(reporter, spec);
    let written = take(spec, "requirements").unwrap_or_else(|| Value::Array(Vec::new()));
    let mut all = requirements::tidy(reporter, "spec.requirements", written, RequirementOwner::Pool);
    all.extend(direct);
    for (key, value) in [(OS, "linux"), (ARCH, "amd64"), (CAPACITY_TYPE, "on-demand")] {
        if is_undefined(reporter, &all, labels, &[key]) {
            added(reporter, key, value);
            all.push(entry(key, Operator::In, &[value]));
        }
    }
    if is_undefined(reporter, &all, labels, &MACHINE_KEYS) {
        added(reporter, CATEGORY, "c, m, r");
        added(reporter, GENERATION, "greater than 2");
        all.push(entry(CATEGORY, Operator::In, &["c", "m", "r"]));
        all.push(entry(GENERATION, Operator::Gt, &["2"]));
    }
    all
}

fn added(reporter: &mut Reporter<'_, '_>, key: &str, value: &str) {
    reporter.note(
        &format!("spec.requirements[{key:?}]"),
        format!("added: {value}, the default of v1alpha5; v1 would buy any"),
    );
}

/// Whether no requirement, with any operator, and no label has one of `keys`.
fn is_undefined(reporter: &mut Reporter<'_, '_>, present: &[Value], labels: &Fields, keys: &[&str]) -> bool {
    let required = present.iter().filter_map(|entry| entry.get("key")?.as_str()).any(|key| keys.contains(&key));
    let labelled = labels.keys().find(|label| keys.contains(&names::label(label).unwrap_or(label.as_str())));
    if let Some(label) = labelled.filter(|_| !required) {
        reporter.note(&format!("spec.labels[{label:?}]"), "the label decides, so no default requirement is added");
    }
    !required && labelled.is_none()
}

/// The class's name, and the class itself if it is inline in the Provisioner.
fn take_class(
    reporter: &mut Reporter<'_, '_>,
    spec: &mut Fields,
    name: &str,
    context: &Context,
) -> (Option<String>, Option<Fields>) {
    let referred = take_reference(reporter, spec);
    if let Some(mut provider) = take_map(reporter, spec, "spec", "provider") {
        if referred.is_some() {
            reporter.guess(
                "spec.providerRef",
                "ignored, the inline provider goes first",
                "the inline provider is set too; remove one of the two",
            );
        }
        provider.shift_remove("apiVersion");
        provider.shift_remove("kind");
        let class = class::inline(reporter, provider, "spec.provider", name, context);
        return (Some(class.0), Some(class.1));
    }
    if let Some((class, object)) = class::take_stray(reporter, spec, name, referred.is_some(), context) {
        return (Some(class), Some(object));
    }
    match referred {
        Some(class) => (Some(class), None),
        None => (reference::only_class(reporter, "spec.providerRef", context), None),
    }
}

fn take_reference(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) -> Option<String> {
    let misplaced = has(spec, "nodeClassRef") && !has(spec, "providerRef");
    let key = if misplaced { "nodeClassRef" } else { "providerRef" };
    let path = format!("spec.{key}");
    let reference = take_map(reporter, spec, "spec", key)?;
    if misplaced {
        reporter.guess(
            &path,
            "is called providerRef in v1alpha5; read as that",
            "is no field of v1alpha5; write spec.providerRef",
        );
    }
    let Some(name) = text(&reference, "name").map(str::to_owned) else {
        reporter.refuse(&format!("{path}.name"), "missing, but required");
        return None;
    };
    reporter.note(&path, format!("becomes spec.template.spec.nodeClassRef to EC2NodeClass {name}"));
    Some(name)
}
