//! v1alpha5 Provisioner to NodePool, and to the class that it holds inline.

use engine::model::Operator;
use serde_json::Value;

use super::context::Context;
use super::pool::{self, Pool};
use super::record::Desk;
use super::requirements::{self, Holder, entry};
use super::shape::{Fields, has, put_unless_empty, take, take_map, take_map_or_empty, text};
use super::{class, disruption, kubelet, names, reference};

const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Keys that say enough about the machine for the default category and generation to stay away.
const MACHINE_KEYS: [&str; 4] =
    ["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family", CATEGORY, GENERATION];
/// Fields that existed in no Provisioner that people still have.
const NEVER_EXISTED: [&str; 4] = ["kubernetesVersion", "deprovisioning", "ami", "cluster"];

/// Converts the Provisioner `object`, whose metadata is clean already.
pub(super) fn convert(desk: &mut Desk<'_, '_>, mut object: Fields, name: &str, context: &Context) -> Pool {
    let mut spec = take_map_or_empty(desk, &mut object, "", "spec");
    for key in NEVER_EXISTED {
        if take(&mut spec, key).is_some() {
            desk.guess(&format!("spec.{key}"), "ignored, there is no such field");
        }
    }
    let labels = take_map_or_empty(desk, &mut spec, "spec", "labels");
    let old = disruption::Old::take(desk, &mut spec, "spec");
    let block = kubelet::take_block(desk, &mut spec, "spec", "kubeletConfiguration", "kubelet");
    let (class, inline_class) = take_class(desk, &mut spec, name, context);
    let mut inner = Fields::new();
    inner.insert("requirements".to_owned(), Value::Array(take_requirements(desk, &mut spec, &labels)));
    for key in ["taints", "startupTaints"] {
        if let Some(mut taints) = take(&mut spec, key) {
            requirements::tidy_taints(desk, &format!("spec.{key}"), &mut taints);
            inner.insert(key.to_owned(), taints);
        }
    }
    if let Some(class) = &class {
        inner.insert("nodeClassRef".to_owned(), reference::to_class(class));
    }
    inner.insert("expireAfter".to_owned(), expire_after(desk, &old));
    let template = template(desk, &mut spec, labels, inner);
    let mut converted = Fields::new();
    converted.insert("template".to_owned(), Value::Object(template));
    converted.insert("disruption".to_owned(), Value::Object(old.disruption(desk)));
    put_unless_empty(&mut converted, "limits", take_limits(desk, &mut spec));
    pool::tidy_weight(desk, &mut spec);
    converted.extend(take(&mut spec, "weight").map(|weight| ("weight".to_owned(), weight)));
    for key in spec.keys() {
        desk.guess(&format!("spec.{key}"), "ignored, there is no such field");
    }
    object.insert("spec".to_owned(), Value::Object(converted));
    object.shift_remove("status");
    Pool { object, block, class, inline_class }
}

fn expire_after(desk: &mut Desk<'_, '_>, old: &disruption::Old) -> Value {
    match &old.expire_after {
        Some(expiry) => {
            desk.note("spec.ttlSecondsUntilExpired", format!("becomes spec.template.spec.expireAfter {expiry}"));
            Value::from(expiry.as_str())
        }
        None => {
            desk.note("spec.template.spec.expireAfter", "added: Never; nodes never expired, v1 alone would say 720h");
            Value::from("Never")
        }
    }
}

fn template(desk: &mut Desk<'_, '_>, spec: &mut Fields, mut labels: Fields, inner: Fields) -> Fields {
    let mut metadata = Fields::new();
    pool::tidy_labels(desk, "spec.labels", &mut labels);
    put_unless_empty(&mut metadata, "labels", labels);
    let mut annotations = take_map_or_empty(desk, spec, "spec", "annotations");
    names::tidy_annotations(desk, "spec.annotations", &mut annotations, true);
    put_unless_empty(&mut metadata, "annotations", annotations);
    let mut template = Fields::new();
    put_unless_empty(&mut template, "metadata", metadata);
    template.insert("spec".to_owned(), Value::Object(inner));
    template
}

fn take_limits(desk: &mut Desk<'_, '_>, spec: &mut Fields) -> Fields {
    let mut limits = take_map_or_empty(desk, spec, "spec", "limits");
    match take_map(desk, &mut limits, "spec.limits", "resources") {
        Some(resources) => {
            desk.note("spec.limits.resources", "is spec.limits in v1");
            resources
        }
        None => {
            if !limits.is_empty() {
                desk.guess("spec.limits", "v1alpha5 has limits.resources, so nothing was limited; read as limits");
            }
            limits
        }
    }
}

/// Requirements in order, then the defaults that the webhook of v1alpha5 added to those that lack them.
fn take_requirements(desk: &mut Desk<'_, '_>, spec: &mut Fields, labels: &Fields) -> Vec<Value> {
    let direct = requirements::from_direct_fields(desk, spec);
    let written = take(spec, "requirements").unwrap_or_else(|| Value::Array(Vec::new()));
    let mut all = requirements::tidy(desk, "spec.requirements", written, Holder::Pool);
    all.extend(direct);
    for (key, value) in [(OS, "linux"), (ARCH, "amd64"), (CAPACITY_TYPE, "on-demand")] {
        if is_wanted(desk, &all, labels, &[key]) {
            added(desk, key, value);
            all.push(entry(key, Operator::In, &[value]));
        }
    }
    if is_wanted(desk, &all, labels, &MACHINE_KEYS) {
        added(desk, CATEGORY, "c, m, r");
        added(desk, GENERATION, "greater than 2");
        all.push(entry(CATEGORY, Operator::In, &["c", "m", "r"]));
        all.push(entry(GENERATION, Operator::Gt, &["2"]));
    }
    all
}

fn added(desk: &mut Desk<'_, '_>, key: &str, value: &str) {
    desk.note(
        &format!("spec.requirements[{key:?}]"),
        format!("added: {value}, the default of v1alpha5; v1 would buy any"),
    );
}

/// Whether none of `keys` is required, with any operator, or fixed by a label.
fn is_wanted(desk: &mut Desk<'_, '_>, present: &[Value], labels: &Fields, keys: &[&str]) -> bool {
    let required = present.iter().filter_map(|entry| entry.get("key")?.as_str()).any(|key| keys.contains(&key));
    let labelled = labels.keys().find(|label| keys.contains(&names::label(label).unwrap_or(label.as_str())));
    if let Some(label) = labelled.filter(|_| !required) {
        desk.note(&format!("spec.labels[{label:?}]"), "the label decides, so no default requirement is added");
    }
    !required && labelled.is_none()
}

/// The class's name, and the class itself when the Provisioner holds it.
fn take_class(
    desk: &mut Desk<'_, '_>,
    spec: &mut Fields,
    name: &str,
    context: &Context,
) -> (Option<String>, Option<Fields>) {
    let referred = take_reference(desk, spec);
    if let Some(mut provider) = take_map(desk, spec, "spec", "provider") {
        if referred.is_some() {
            desk.guess("spec.providerRef", "ignored, the inline provider goes first");
        }
        provider.shift_remove("apiVersion");
        provider.shift_remove("kind");
        let class = class::inline(desk, provider, "spec.provider", name, context);
        return (Some(class.0), Some(class.1));
    }
    if let Some((class, object)) = class::take_stray(desk, spec, name, referred.is_some(), context) {
        return (Some(class), Some(object));
    }
    match referred {
        Some(class) => (Some(class), None),
        None => (reference::only_class(desk, "spec.providerRef", context), None),
    }
}

fn take_reference(desk: &mut Desk<'_, '_>, spec: &mut Fields) -> Option<String> {
    let misplaced = has(spec, "nodeClassRef") && !has(spec, "providerRef");
    let key = if misplaced { "nodeClassRef" } else { "providerRef" };
    let path = format!("spec.{key}");
    let reference = take_map(desk, spec, "spec", key)?;
    if misplaced {
        desk.guess(&path, "is called providerRef in v1alpha5; read as that");
    }
    let Some(name) = text(&reference, "name").map(str::to_owned) else {
        desk.refuse(&format!("{path}.name"), "missing, but required");
        return None;
    };
    desk.note(&path, format!("becomes spec.template.spec.nodeClassRef to EC2NodeClass {name}"));
    Some(name)
}
