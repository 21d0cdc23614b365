//! Converts NodePools of v1beta1, and NodePools of both versions with misplaced fields.

use serde_json::Value;

use super::context::Context;
use super::kind::ApiGeneration;
use super::metadata::annotation;
use super::record::Reporter;
use super::requirements::{self, RequirementOwner};
use super::shape::{Fields, has, join, map, map_mut, put_unless_empty, replace_key, take, take_map, take_map_or_empty};
use super::{class, disruption, duration, kubelet, names, reference};

/// A converted pool and its effects on classes.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) object: Fields,
    /// Its former kubelet block; `None` when it had none.
    pub(super) block: Option<Fields>,
    pub(super) class: Option<String>,
    /// A class that was inline in the pool.
    pub(super) inline_class: Option<Fields>,
}

const KUBELET_ANNOTATION: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// Fields of `spec.template.spec` that users misplace in `spec`.
const INNER: [&str; 7] =
    ["requirements", "taints", "startupTaints", "nodeClassRef", "kubelet", "expireAfter", "terminationGracePeriod"];

/// The kubelet block that release 1.0 stored in an annotation of `object`; must be called before
/// annotations are removed.
pub(super) fn annotated_block(object: &Fields) -> Option<Fields> {
    serde_json::from_str(annotation(object, KUBELET_ANNOTATION)?).ok()
}

/// Converts the NodePool `object`, whose metadata is already converted, to v1.
pub(super) fn convert(
    reporter: &mut Reporter<'_, '_>,
    mut object: Fields,
    name: &str,
    age: ApiGeneration,
    annotated: Option<Fields>,
    context: &Context,
) -> Pool {
    let Some(Value::Object(mut spec)) = object.get_mut("spec").map(Value::take) else {
        return Pool { object, block: annotated, class: None, inline_class: None };
    };
    // Misplaced fields are moved before any field is converted, so that each conversion finds its
    // field in one place.
    let refers = refers(&spec);
    let stray = class::take_stray(reporter, &mut spec, name, refers, context);
    move_misplaced(reporter, &mut spec);
    let direct = requirements::from_direct_fields(reporter, &mut spec);
    let old = take_old(reporter, &mut spec);
    let Some(Value::Object(mut template)) = spec.get_mut("template").map(Value::take) else {
        reporter.refuse("spec.template", "missing, but required");
        object.insert("spec".to_owned(), Value::Object(spec));
        return Pool { object, block: annotated, class: None, inline_class: None };
    };
    tidy_template_metadata(reporter, &mut template);
    let mut inner = take_inner(&mut template);
    let (class_name, inline_class) = match stray {
        Some((class_name, class)) => {
            inner.insert("nodeClassRef".to_owned(), reference::to_class(&class_name));
            (Some(class_name), Some(class))
        }
        None => (reference::tidy(reporter, &mut inner, "spec.template.spec", age, context), None),
    };
    let block = kubelet::take_block(reporter, &mut inner, "spec.template.spec", "kubelet", "kubeletConfiguration")
        .or(annotated);
    tidy_inner(reporter, &mut inner, age, direct);
    tidy_expiry(reporter, &mut inner, &mut spec, age, &old);
    replace_key(&mut template, "spec", "spec", Value::Object(inner));
    replace_key(&mut spec, "template", "template", Value::Object(template));
    tidy_disruption(reporter, &mut spec, age, &old);
    tidy_limits(reporter, &mut spec);
    tidy_weight(reporter, &mut spec);
    replace_key(&mut object, "spec", "spec", Value::Object(spec));
    Pool { object, block, class: class_name, inline_class }
}

/// Whether `spec` of a NodePool names a class, in a valid or a misplaced field.
fn refers(spec: &Fields) -> bool {
    let inner = map(spec, "template").and_then(|template| map(template, "spec"));
    inner.is_some_and(|inner| has(inner, "nodeClassRef")) || has(spec, "nodeClassRef") || has(spec, "providerRef")
}

/// Takes the template's spec; its position is kept.
fn take_inner(template: &mut Fields) -> Fields {
    match template.get_mut("spec").map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => Fields::new(),
    }
}

/// Moves fields that are one level too high or too low. A correctly placed value takes precedence.
fn move_misplaced(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) {
    for (from, to) in [("providerRef", "nodeClassRef"), ("kubeletConfiguration", "kubelet")] {
        if has(spec, from) {
            reporter.guess(
                &join("spec", from),
                format!("is called {to} in a NodePool"),
                format!("is no field of a NodePool; write {to}"),
            );
            let value = spec[from].clone();
            replace_key(spec, from, to, value);
        }
    }
    // Fields are collected first and inserted last: a correctly placed value takes precedence over
    // a moved one.
    let mut down: Vec<(&str, Value)> = Vec::new();
    for key in INNER {
        down.extend(take(spec, key).map(|value| (key, value)));
    }
    let mut labels: Vec<(&str, Value)> = Vec::new();
    for key in ["labels", "annotations"] {
        labels.extend(take(spec, key).map(|value| (key, value)));
    }
    let misplaced = !down.is_empty() || !labels.is_empty();
    if misplaced && !spec.contains_key("template") {
        spec.insert("template".to_owned(), Value::Object(Fields::new()));
    }
    let Some(template) = map_mut(spec, "template") else { return };
    let inner = template.entry("spec").or_insert_with(|| Value::Object(Fields::new()));
    let Some(inner) = inner.as_object_mut() else { return };
    for key in ["labels", "annotations"] {
        labels.extend(take(inner, key).map(|value| (key, value)));
    }
    for (key, value) in down {
        reporter.guess(
            &join("spec", key),
            format!("belongs into spec.template.spec.{key}"),
            format!("is in the wrong place; write spec.template.spec.{key}"),
        );
        inner.entry(key).or_insert(value);
    }
    for (key, value) in labels {
        reporter.guess(
            &join("spec.template.metadata", key),
            format!("{key} were found outside of metadata"),
            format!("{key} are in the wrong place; write spec.template.metadata.{key}"),
        );
        let metadata = template.entry("metadata").or_insert_with(|| Value::Object(Fields::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.entry(key).or_insert(value);
        }
    }
    let mut up: Vec<(&str, Value)> = Vec::new();
    for key in ["disruption", "limits", "weight"] {
        up.extend(take(template, key).map(|value| (key, value)));
    }
    for (key, value) in up {
        reporter.guess(
            &join("spec.template", key),
            format!("belongs into spec.{key}"),
            format!("is in the wrong place; write spec.{key}"),
        );
        spec.entry(key).or_insert(value);
    }
}

/// Takes fields of a Provisioner out of `spec` and `spec.disruption`.
fn take_old(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) -> disruption::LegacyDisruption {
    let mut found = Fields::new();
    for key in ["consolidation", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired"] {
        let deeper = map_mut(spec, "disruption").and_then(|disruption| take(disruption, key));
        if let Some(value) = take(spec, key).or(deeper) {
            reporter.guess(
                &join("spec", key),
                "is a field of v1alpha5; read as disruption and expireAfter",
                "is a field of v1alpha5; write spec.disruption and spec.template.spec.expireAfter",
            );
            found.insert(key.to_owned(), value);
        }
    }
    disruption::LegacyDisruption::take(reporter, &mut found, "spec")
}

fn tidy_template_metadata(reporter: &mut Reporter<'_, '_>, template: &mut Fields) {
    let Some(metadata) = map_mut(template, "metadata") else { return };
    if let Some(labels) = map_mut(metadata, "labels") {
        tidy_labels(reporter, "spec.template.metadata.labels", labels);
    }
    if let Some(annotations) = map_mut(metadata, "annotations") {
        names::tidy_annotations(reporter, "spec.template.metadata.annotations", annotations, false);
    }
}

/// Renames old label keys. The label of the owning pool is removed, because no version allowed it.
pub(super) fn tidy_labels(reporter: &mut Reporter<'_, '_>, path: &str, labels: &mut Fields) {
    if labels.shift_remove("karpenter.sh/provisioner-name").is_some() {
        reporter.guess(
            &join(path, "karpenter.sh/provisioner-name"),
            "dropped, a pool may not set its own name",
            "a pool may not set its own name; remove the label",
        );
    }
    let old: Vec<String> = labels.keys().filter(|key| names::label(key).is_some()).cloned().collect();
    for key in old {
        let known = names::label(&key).unwrap_or_default();
        reporter.note(&join(path, &key), format!("is {known} in v1"));
        let value = labels[&key].clone();
        replace_key(labels, &key, known, value);
    }
}

fn tidy_inner(reporter: &mut Reporter<'_, '_>, inner: &mut Fields, age: ApiGeneration, direct: Vec<Value>) {
    const PATH: &str = "spec.template.spec.requirements";
    let written = inner.get("requirements").cloned().filter(|value| !value.is_null());
    if written.is_none() && (age == ApiGeneration::Beta || !direct.is_empty()) {
        reporter.guess(
            PATH,
            "missing, but required; read as no requirements at all",
            "missing, but required; write [] for no requirements",
        );
    }
    if written.is_some() || age == ApiGeneration::Beta || !direct.is_empty() {
        let mut all = requirements::tidy(
            reporter,
            PATH,
            written.unwrap_or_else(|| Value::Array(Vec::new())),
            RequirementOwner::Pool,
        );
        all.extend(direct);
        inner.insert("requirements".to_owned(), Value::Array(all));
    }
    for key in ["taints", "startupTaints"] {
        if let Some(taints) = inner.get_mut(key) {
            requirements::tidy_taints(reporter, &join("spec.template.spec", key), taints);
        }
    }
    if age == ApiGeneration::Beta && take(inner, "resources").is_some() {
        reporter.note("spec.template.spec.resources", "dropped, pools have no such field in v1");
    }
    if let Some(grace) = inner.get("terminationGracePeriod").cloned().filter(|value| !value.is_null())
        && let Some(tidied) = duration::tidy(reporter, "spec.template.spec.terminationGracePeriod", &grace)
    {
        inner.insert("terminationGracePeriod".to_owned(), tidied);
    }
}

/// Moves `expireAfter` from `spec.disruption` (v1beta1) to the template (v1).
fn tidy_expiry(
    reporter: &mut Reporter<'_, '_>,
    inner: &mut Fields,
    spec: &mut Fields,
    age: ApiGeneration,
    old: &disruption::LegacyDisruption,
) {
    const BETA: &str = "spec.disruption.expireAfter";
    const V1: &str = "spec.template.spec.expireAfter";
    let beta_place = map_mut(spec, "disruption").and_then(|disruption| take(disruption, "expireAfter"));
    let v1_place = take_in_place(inner, "expireAfter");
    if age == ApiGeneration::Beta {
        reporter.behaviour(disruption::EXPIRY_IS_FORCEFUL);
    }
    // The place of the object's own version takes precedence; `ttlSecondsUntilExpired` applies only
    // without both.
    let (path, value) = match (age, beta_place, v1_place) {
        (ApiGeneration::V1, None, Some(value)) => (V1, value),
        (ApiGeneration::V1, Some(_), Some(value)) => {
            reporter.guess(
                BETA,
                "ignored, v1 has it in spec.template.spec, where it is set too",
                "v1 has it in spec.template.spec, where it is set too; remove it here",
            );
            (V1, value)
        }
        (ApiGeneration::V1, Some(value), None) => {
            reporter.guess(
                BETA,
                "v1 has it in spec.template.spec; moved there",
                "is in the wrong place; write spec.template.spec.expireAfter",
            );
            (BETA, value)
        }
        (_, Some(value), other) => {
            reporter.note(BETA, "is in spec.template.spec in v1");
            if other.is_some() {
                reporter.guess(
                    V1,
                    "ignored, v1beta1 has it in spec.disruption, where it is set too",
                    "v1beta1 has it in spec.disruption, where it is set too; remove it here",
                );
            }
            (BETA, value)
        }
        (_, None, Some(value)) => {
            reporter.guess(
                V1,
                "v1beta1 has it in spec.disruption; kept where v1 has it",
                "v1beta1 has it in spec.disruption; write it there, or convert the object to v1",
            );
            (V1, value)
        }
        (_, None, None) => match &old.expire_after {
            Some(expiry) => ("spec.ttlSecondsUntilExpired", Value::from(expiry.as_str())),
            None if age == ApiGeneration::V1 => {
                inner.shift_remove("expireAfter");
                return;
            }
            None => {
                reporter.note(V1, "added: 720h, the default of both versions");
                (V1, Value::from("720h"))
            }
        },
    };
    let tidied = duration::tidy(reporter, path, &value).unwrap_or(value);
    inner.insert("expireAfter".to_owned(), tidied);
}

/// Takes the value at `key` and leaves null, so that a later value has the same position.
fn take_in_place(fields: &mut Fields, key: &str) -> Option<Value> {
    fields.get_mut(key).map(Value::take).filter(|value| !value.is_null())
}

fn tidy_disruption(
    reporter: &mut Reporter<'_, '_>,
    spec: &mut Fields,
    age: ApiGeneration,
    old: &disruption::LegacyDisruption,
) {
    if age == ApiGeneration::V1 && !has(spec, "disruption") && old.is_absent() {
        return;
    }
    let mut fields = map(spec, "disruption").cloned().unwrap_or_default();
    if old.consolidation.is_some() || old.empty_after.is_some() {
        for (key, value) in old.disruption(reporter) {
            fields.entry(key).or_insert(value);
        }
        disruption::tidy(reporter, &mut fields, ApiGeneration::V1);
    } else if age != ApiGeneration::V1 || has(spec, "disruption") {
        let was_emptied = age == ApiGeneration::V1 && fields.is_empty();
        if was_emptied {
            spec.shift_remove("disruption");
            return;
        }
        disruption::tidy(reporter, &mut fields, age);
    } else {
        return;
    }
    replace_key(spec, "disruption", "disruption", Value::Object(fields));
}

fn tidy_limits(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) {
    if !map(spec, "limits").is_some_and(|limits| limits.get("resources").is_some_and(Value::is_object)) {
        return;
    }
    let mut limits = take_map_or_empty(reporter, spec, "", "limits");
    let resources = take_map(reporter, &mut limits, "spec.limits", "resources").unwrap_or_default();
    reporter.guess(
        "spec.limits.resources",
        "limits are directly in spec.limits",
        "limits are directly in spec.limits; write them one level higher",
    );
    limits.extend(resources);
    put_unless_empty(spec, "limits", limits);
}

/// Removes a weight of 0, which equals no weight.
pub(super) fn tidy_weight(reporter: &mut Reporter<'_, '_>, spec: &mut Fields) {
    if spec.get("weight").and_then(Value::as_i64) == Some(0) {
        spec.shift_remove("weight");
        reporter.guess(
            "spec.weight",
            "dropped, allowed: 1 to 100; no weight means 0",
            "allowed: 1 to 100; remove it, no weight means 0",
        );
    }
}
