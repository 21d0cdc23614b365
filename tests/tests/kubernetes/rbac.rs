//! The role in `deploy/` is exactly what the agent used in all scenarios before.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::ensure;
use e2e::kubernetes::audit::AuditedRequest;
use e2e::kubernetes::deploy;
use e2e::kubernetes::deploy::AGENT;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::Value;

/// One permission of a role: namespace (empty for a ClusterRole), verb, group, resource, object
/// (empty for any).
type Right = (String, String, String, String, String);

pub(super) async fn is_exactly_what_was_used(test_bed: Arc<TestBed>) -> ScenarioResult {
    let user = format!("system:serviceaccount:{}:{}", AGENT.0, AGENT.1);
    let asked: Vec<AuditedRequest> = test_bed.audit().await?.into_iter().filter(|asked| asked.user == user).collect();
    let forbidden: BTreeSet<String> =
        asked.iter().filter(|asked| asked.forbidden).map(|asked| format!("{} {}", asked.verb, asked.message)).collect();
    ensure!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
    let rights: BTreeSet<Right> = deploy::objects("agent")?.iter().flat_map(rights).collect();
    ensure!(!rights.is_empty(), "deploy/agent gives no rights");
    let unused: Vec<&Right> = rights.iter().filter(|right| !asked.iter().any(|asked| uses(asked, right))).collect();
    ensure!(unused.is_empty(), "allowed and never used: {unused:#?}");
    Ok(format!("{} requests, none forbidden; all {} rights were used", asked.len(), rights.len()))
}

fn uses(asked: &AuditedRequest, (namespace, verb, group, resource, object): &Right) -> bool {
    asked.verb == *verb
        && asked.group == *group
        && asked.resource == *resource
        && (namespace.is_empty() || asked.namespace == *namespace)
        && (object.is_empty() || asked.name == *object)
}

fn rights(object: &Value) -> Vec<Right> {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !["ClusterRole", "Role"].contains(&kind) {
        return Vec::new();
    }
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let mut rights = Vec::new();
    for rule in object["rules"].as_array().into_iter().flatten() {
        for (verb, group, resource, name) in product(rule) {
            rights.push((namespace.to_owned(), verb, group, resource, name));
        }
    }
    rights
}

fn product(rule: &Value) -> Vec<(String, String, String, String)> {
    let list = |key: &str| -> Vec<String> {
        let values = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        values.map(str::to_owned).collect()
    };
    let names = if rule["resourceNames"].is_array() { list("resourceNames") } else { vec![String::new()] };
    let mut all = Vec::new();
    for verb in list("verbs") {
        for group in list("apiGroups") {
            for resource in list("resources") {
                all.extend(names.iter().map(|name| (verb.clone(), group.clone(), resource.clone(), name.clone())));
            }
        }
    }
    all
}
