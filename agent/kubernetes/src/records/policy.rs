//! Namespaces, PodDisruptionBudgets and PriorityClasses.

use agent::Record;
use fleetwright_proto::v1;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::object::{Meta, ObjectJson, ParsedObject};
use super::shape::{SelectorJson, ShapeInterner, selector};
use super::values::pairs;

pub fn parse_namespace(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<IgnoredAny> { metadata, .. } = serde_json::from_str(json)?;
    let record = v1::NamespaceRecord { name: metadata.name.clone(), labels: pairs(&metadata.labels) };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::Namespace(record))))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetSpecJson {
    selector: Option<SelectorJson>,
    unhealthy_pod_eviction_policy: String,
    min_available: Option<Value>,
    max_unavailable: Option<Value>,
}

/// A number or a percentage, as text.
fn number_or_percentage(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatusJson {
    disruptions_allowed: i32,
    current_healthy: i32,
    desired_healthy: i32,
    expected_pods: i32,
    observed_generation: i64,
}

pub fn parse_budget(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<BudgetSpecJson, BudgetStatusJson> { metadata, spec, status } = serde_json::from_str(json)?;
    let record = v1::PodDisruptionBudgetRecord {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        selector: spec.selector.as_ref().map(selector),
        disruptions_allowed: status.disruptions_allowed,
        current_healthy: status.current_healthy,
        desired_healthy: status.desired_healthy,
        expected_pods: status.expected_pods,
        min_available: number_or_percentage(spec.min_available.as_ref()),
        max_unavailable: number_or_percentage(spec.max_unavailable.as_ref()),
        unhealthy_pod_eviction_policy: spec.unhealthy_pod_eviction_policy,
        status_is_current: status.observed_generation == metadata.generation,
    };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::PodDisruptionBudget(record))))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PriorityClassJson {
    metadata: Meta,
    value: i32,
    global_default: bool,
    preemption_policy: String,
}

pub fn parse_priority_class(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let class: PriorityClassJson = serde_json::from_str(json)?;
    let record = v1::PriorityClassRecord {
        name: class.metadata.name.clone(),
        value: class.value,
        global_default: class.global_default,
        preemption_policy: class.preemption_policy,
    };
    Ok(class.metadata.into_parsed(Record::plain(v1::change::Change::PriorityClass(record))))
}
