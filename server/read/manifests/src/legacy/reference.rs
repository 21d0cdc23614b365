//! Class references of pools, and the class of pools that name none.

use serde_json::Value;

use super::context::Context;
use super::kind::ApiGeneration;
use super::record::Reporter;
use super::shape::{Fields, has, take, text};

/// The class that a plan assigns to pools without any.
pub(super) const STAND_IN: &str = "stand-in";

/// `{group, kind, name}` of the EC2NodeClass called `name`.
pub(super) fn to_class(name: &str) -> Value {
    let mut reference = Fields::new();
    reference.insert("group".to_owned(), Value::from("karpenter.k8s.aws"));
    reference.insert("kind".to_owned(), Value::from("EC2NodeClass"));
    reference.insert("name".to_owned(), Value::from(name));
    Value::Object(reference)
}

/// The name of the class for a pool of an old version that names none: the only class of the input;
/// in a plan a placeholder.
pub(super) fn only_class(reporter: &mut Reporter<'_, '_>, path: &str, context: &Context) -> Option<String> {
    if let [only] = &context.classes[..] {
        reporter.guess(
            path,
            format!("missing; read as {only}, the only class of the input"),
            format!("missing; name the class that makes the nodes, such as {only}"),
        );
        return Some(only.clone());
    }
    if reporter.plans() {
        reporter.guess(
            path,
            "missing; a stand-in class with AL2023 and subnets everywhere is planned with",
            "missing; name the class that makes the nodes",
        );
        return Some(STAND_IN.to_owned());
    }
    let found = if context.classes.is_empty() { "none".to_owned() } else { context.classes.join(", ") };
    reporter.refuse(path, format!("missing; name the class that makes the nodes (classes of the input: {found})"));
    None
}

/// Converts `nodeClassRef` of `inner` (a template's spec, at `prefix`) to v1; returns the name of
/// the class.
pub(super) fn tidy(
    reporter: &mut Reporter<'_, '_>,
    inner: &mut Fields,
    prefix: &str,
    age: ApiGeneration,
    context: &Context,
) -> Option<String> {
    let path = format!("{prefix}.nodeClassRef");
    let Some(reference) = inner.get("nodeClassRef").and_then(Value::as_object).cloned() else {
        if age == ApiGeneration::V1 {
            return None;
        }
        let name = only_class(reporter, &path, context)?;
        inner.insert("nodeClassRef".to_owned(), to_class(&name));
        return Some(name);
    };
    let tidied = tidy_reference(reporter, &path, reference, age);
    let name = text(&tidied, "name").map(str::to_owned);
    inner.insert("nodeClassRef".to_owned(), Value::Object(tidied));
    name
}

fn tidy_reference(reporter: &mut Reporter<'_, '_>, path: &str, mut reference: Fields, age: ApiGeneration) -> Fields {
    let version = take(&mut reference, "apiVersion");
    let slashed = text(&reference, "group").is_some_and(|group| group.contains('/'));
    if age == ApiGeneration::V1 && version.is_none() && !slashed {
        return reference;
    }
    let written = version.as_ref().and_then(Value::as_str).filter(|_| !has(&reference, "group"));
    let written = written.or(text(&reference, "group")).unwrap_or("karpenter.k8s.aws");
    let group = written.split('/').next().unwrap_or(written).to_owned();
    match (age, &version) {
        (ApiGeneration::V1, _) => reporter.guess(
            path,
            format!("v1 has group, without a version, instead of apiVersion; read as {group}"),
            format!("v1 has group, without a version, instead of apiVersion; write group: {group}"),
        ),
        (_, Some(_)) => reporter.note(&format!("{path}.apiVersion"), format!("is group {group} in v1")),
        (_, None) if has(&reference, "group") => reporter.guess(
            path,
            "v1beta1 has apiVersion instead of group",
            "v1beta1 has apiVersion instead of group; write that, or convert the object to v1",
        ),
        (_, None) => reporter.note(path, format!("added: group {group}, required in v1")),
    }
    if !has(&reference, "kind") {
        reporter.note(path, "added: kind EC2NodeClass, required in v1");
        reference.insert("kind".to_owned(), Value::from("EC2NodeClass"));
    }
    let mut tidied = Fields::new();
    tidied.insert("group".to_owned(), Value::from(group));
    tidied.extend(reference.into_iter().filter(|(key, _)| key != "group"));
    tidied
}
