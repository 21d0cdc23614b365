//! Consolidation and expiry: `ttl…` fields and `consolidation` of Provisioners, `disruption` of
//! NodePools.

use serde_json::Value;

use super::duration;
use super::kind::ApiGeneration;
use super::record::Reporter;
use super::shape::{Fields, has, join, scalar, take, text};

pub(super) const EXPIRY_IS_FORCEFUL: &str = "expiry is forceful in v1: at that age a node drains at once, regardless of budgets; pods with a PodDisruptionBudget or do-not-disrupt hold it until terminationGracePeriod";
const EMPTY_CLOCK: &str =
    "consolidateAfter counts from the last pod event on a node in v1, not from the moment it became empty";

pub(super) struct LegacyDisruption {
    pub(super) consolidation: Option<bool>,
    pub(super) empty_after: Option<i64>,
    pub(super) expire_after: Option<String>,
}

impl LegacyDisruption {
    /// Removes the Provisioner's fields from `fields`, whose path is `prefix`.
    pub(super) fn take(reporter: &mut Reporter<'_, '_>, fields: &mut Fields, prefix: &str) -> Self {
        let consolidation = take(fields, "consolidation").map(|value| match value.get("enabled").unwrap_or(&value) {
            Value::Bool(enabled) => *enabled,
            Value::Object(_) => false,
            _ => {
                reporter.refuse(&join(prefix, "consolidation.enabled"), "allowed: true or false");
                false
            }
        });
        let empty_after = take_seconds(reporter, fields, prefix, "ttlSecondsAfterEmpty");
        let expiry = take_seconds(reporter, fields, prefix, "ttlSecondsUntilExpired");
        if expiry.is_some_and(|seconds| seconds < 3600) {
            reporter.note(
                &join(prefix, "ttlSecondsUntilExpired"),
                "nodes expire after less than an hour, forcefully; is that meant?",
            );
        }
        if expiry.is_some() {
            reporter.behaviour(EXPIRY_IS_FORCEFUL);
        }
        Self { consolidation, empty_after, expire_after: expiry.map(duration::of_seconds) }
    }

    pub(super) fn is_absent(&self) -> bool {
        self.consolidation.is_none() && self.empty_after.is_none() && self.expire_after.is_none()
    }

    /// `disruption` of v1.
    pub(super) fn disruption(&self, reporter: &mut Reporter<'_, '_>) -> Fields {
        let (policy, after) = match (self.consolidation.unwrap_or(false), self.empty_after) {
            (true, None) => ("WhenEmptyOrUnderutilized", "0s".to_owned()),
            (false, Some(seconds)) => {
                reporter.behaviour(EMPTY_CLOCK);
                ("WhenEmpty", duration::of_seconds(seconds))
            }
            (false, None) => ("WhenEmpty", "Never".to_owned()),
            (true, Some(seconds)) => {
                reporter.guess(
                    "spec.ttlSecondsAfterEmpty",
                    "excludes consolidation; read as consolidateAfter",
                    "excludes consolidation; remove one of the two",
                );
                ("WhenEmptyOrUnderutilized", duration::of_seconds(seconds))
            }
        };
        let text = format!("becomes spec.disruption: consolidationPolicy {policy}, consolidateAfter {after}");
        match (self.consolidation, self.empty_after) {
            (None, None) => reporter.note("spec.disruption", format!("added: consolidationPolicy {policy}, consolidateAfter {after}; nodes were never removed, v1 would consolidate at once")),
            (_, None) => reporter.note("spec.consolidation", text),
            _ => reporter.note("spec.ttlSecondsAfterEmpty", text),
        }
        let mut disruption = Fields::new();
        disruption.insert("consolidationPolicy".to_owned(), Value::from(policy));
        disruption.insert("consolidateAfter".to_owned(), Value::from(after));
        disruption
    }
}

fn take_seconds(reporter: &mut Reporter<'_, '_>, fields: &mut Fields, prefix: &str, key: &str) -> Option<i64> {
    let value = take(fields, key)?;
    let seconds = value.as_i64().or_else(|| scalar(&value)?.parse().ok()).filter(|seconds| *seconds >= 0);
    if seconds.is_none() {
        reporter.refuse(&join(prefix, key), format!("found {value}, allowed: seconds, 0 or more"));
    }
    seconds
}

/// Converts `disruption` of a NodePool to v1.
pub(super) fn tidy(reporter: &mut Reporter<'_, '_>, disruption: &mut Fields, age: ApiGeneration) {
    let never_consolidate = tidy_policy(reporter, disruption, age);
    tidy_after(reporter, disruption, age, never_consolidate);
    let budgets = disruption.get_mut("budgets").and_then(Value::as_array_mut);
    for (index, budget) in budgets.into_iter().flatten().enumerate() {
        if let Some(budget) = budget.as_object_mut() {
            tidy_budget(reporter, &format!("spec.disruption.budgets[{index}]"), budget);
        }
    }
}

/// Whether the policy is the beta one that `consolidateAfter: Never` switched off.
fn tidy_policy(reporter: &mut Reporter<'_, '_>, disruption: &mut Fields, age: ApiGeneration) -> bool {
    const PATH: &str = "spec.disruption.consolidationPolicy";
    const BETA: &str = "WhenUnderutilized";
    const V1: &str = "WhenEmptyOrUnderutilized";
    let written = text(disruption, "consolidationPolicy").map(str::to_owned);
    match (written.as_deref(), age) {
        (Some(BETA), ApiGeneration::V1) => reporter.guess(
            PATH,
            format!("{BETA} is called {V1} in v1"),
            format!("{BETA} is no value of v1; write {V1}"),
        ),
        (Some(BETA), _) => reporter.note(PATH, format!("{BETA} is called {V1} in v1")),
        (Some(V1), ApiGeneration::Alpha | ApiGeneration::Beta) => reporter.guess(
            PATH,
            format!("{V1} is v1's name of {BETA}"),
            format!("{V1} is no value of v1beta1; write {BETA}"),
        ),
        (None, ApiGeneration::Alpha | ApiGeneration::Beta) => {
            reporter.note(PATH, format!("added: {V1}, the default of v1beta1 by its name in v1"))
        }
        _ => {}
    }
    if written.as_deref().is_none_or(|written| written == BETA) && (written.is_some() || age != ApiGeneration::V1) {
        disruption.insert("consolidationPolicy".to_owned(), Value::from(V1));
    }
    written.as_deref() != Some("WhenEmpty")
}

fn tidy_after(reporter: &mut Reporter<'_, '_>, disruption: &mut Fields, age: ApiGeneration, underutilized: bool) {
    const PATH: &str = "spec.disruption.consolidateAfter";
    let old = age != ApiGeneration::V1;
    let Some(written) = disruption.get("consolidateAfter").filter(|value| !value.is_null()).cloned() else {
        match (old, underutilized) {
            // Karpenter 1.15 has the default itself.
            (false, _) => return,
            (true, true) => reporter.note(PATH, "added: 0s, required in v1 before Karpenter 1.15"),
            (true, false) => reporter.guess(
                PATH,
                "added: 0s, required beside WhenEmpty",
                "missing, but required beside WhenEmpty; write 0s to keep the default",
            ),
        }
        disruption.insert("consolidateAfter".to_owned(), Value::from("0s"));
        return;
    };
    let Some(after) = duration::tidy(reporter, PATH, &written) else { return };
    if old && underutilized && after == "Never" {
        reporter.note(PATH, "Never is kept: beside WhenUnderutilized it switched consolidation off");
    } else if old && underutilized {
        reporter.guess(
            PATH,
            "v1beta1 allows no duration beside WhenUnderutilized; kept as v1 understands it",
            "v1beta1 allows no duration beside WhenUnderutilized; remove it, or convert the object to v1",
        );
    }
    disruption.insert("consolidateAfter".to_owned(), after);
}

fn tidy_budget(reporter: &mut Reporter<'_, '_>, path: &str, budget: &mut Fields) {
    if let Some(nodes) = budget.get_mut("nodes").filter(|nodes| nodes.is_number()) {
        reporter.guess(
            &join(path, "nodes"),
            format!("{nodes} must be in quotes"),
            format!("{nodes} must be in quotes; write \"{nodes}\""),
        );
        *nodes = Value::from(nodes.to_string());
    }
    if has(budget, "schedule") != has(budget, "duration") {
        reporter.refuse(path, "schedule and duration belong together; write both or neither");
    }
    if let Some(written) = budget.get("duration").cloned().filter(|value| !value.is_null())
        && let Some(tidied) = duration::tidy(reporter, &join(path, "duration"), &written)
    {
        budget.insert("duration".to_owned(), tidied);
    }
}
