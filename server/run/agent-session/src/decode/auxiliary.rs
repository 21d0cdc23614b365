//! PodDisruptionBudgets, volume attach limits and other autoscalers.

use cluster::{AttachRecord, AutoscalerRecord, PodBudgetRecord};
use fleetwright_proto::v1;
use manifests::cluster::policy::BudgetThreshold;
use model::labels::{SelectorOperator, SelectorTerm};
use model::{LabelSelector, Text};

use super::problems::FieldError;

/// Decodes a PodDisruptionBudget; also returns why its selector is unreadable. In that case it
/// covers all pods of its namespace and allows no disruption: its targets are unknown here, but the
/// API server enforces it.
pub(super) fn budget(budget: &v1::PodDisruptionBudgetRecord) -> (PodBudgetRecord, Option<FieldError>) {
    let (selector, problem) = match budget.selector.as_ref().map(selector).transpose() {
        Ok(selector) => (selector, None),
        Err(problem) => (Some(LabelSelector::new(Vec::new())), Some(problem)),
    };
    let read = PodBudgetRecord {
        namespace: budget.namespace.as_str().into(),
        name: budget.name.as_str().into(),
        selector,
        allowed: if budget.status_is_current && problem.is_none() { budget.disruptions_allowed } else { 0 },
        evicts_unhealthy_always: budget.unhealthy_pod_eviction_policy == "AlwaysAllow",
        never_allows: BudgetThreshold::parse(&budget.max_unavailable, &budget.min_available)
            .is_some_and(BudgetThreshold::always_blocks),
    };
    (read, problem)
}

/// Decodes a label selector.
///
/// # Errors
/// An operator is unknown to Kubernetes.
pub(super) fn selector(selector: &v1::LabelSelector) -> Result<LabelSelector, FieldError> {
    let exact = selector.match_labels.iter().map(|pair| {
        let values = vec![Text::from(pair.value.as_str())];
        Ok(SelectorTerm { key: pair.key.as_str().into(), operator: SelectorOperator::In, values })
    });
    let listed = selector.match_expressions.iter().map(|expression| {
        let operator = match expression.operator.as_str() {
            "In" => SelectorOperator::In,
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            other => {
                let (key, operator) = (expression.key.clone(), other.to_owned());
                return Err(FieldError::Operator { field: "selector", key, operator });
            }
        };
        let values = expression.values.iter().map(|value| Text::from(value.as_str())).collect();
        Ok(SelectorTerm { key: expression.key.as_str().into(), operator, values })
    });
    Ok(LabelSelector::new(exact.chain(listed).collect::<Result<_, FieldError>>()?))
}

/// Attach limit of each CSI driver on a Node; drivers without a limit are omitted.
pub(super) fn attach(node: &v1::CsiNodeRecord) -> AttachRecord {
    let limit = |driver: &v1::CsiNodeDriver| Some((Text::from(driver.name.as_str()), driver.attach_limit?));
    AttachRecord { node: node.name.as_str().into(), limits: node.drivers.iter().filter_map(limit).collect() }
}

/// Decodes the state of another autoscaler.
pub(super) fn autoscaler(other: &v1::AutoscalerRecord) -> AutoscalerRecord {
    AutoscalerRecord { name: other.name.as_str().into(), live: other.live, evidence: other.evidence.as_str().into() }
}
