//! Disruption budgets and priorities.

use engine::model::{LabelSelector, Text};

use super::metadata::Metadata;
use crate::inventory::Object;
use crate::{Cursor, selector};

/// A PodDisruptionBudget.
#[derive(Debug)]
pub struct DisruptionBudget {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// The pods it guards; `None` guards none.
    pub selector: Option<LabelSelector>,
    /// Whether it never lets a pod go: `maxUnavailable` of 0 or 0%, `minAvailable` of 100%.
    pub blocks: bool,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub frees_unhealthy: bool,
}

impl DisruptionBudget {
    /// Reads the budget at `at`.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        const POLICIES: [(&str, bool); 2] = [("AlwaysAllow", true), ("IfHealthyBudget", false)];
        let meta = Metadata::read(object, at);
        let spec = at.at("spec");
        let unavailable = amount(&spec.at("maxUnavailable"));
        let available = amount(&spec.at("minAvailable"));
        if unavailable.is_some() && available.is_some() {
            spec.error("has minAvailable and maxUnavailable; allowed: one of them");
        }
        Self {
            namespace: meta.namespace,
            name: meta.name,
            selector: selector::read(&spec.at("selector")),
            blocks: matches!(unavailable, Some((0, _))) || available == Some((100, true)),
            frees_unhealthy: spec.at("unhealthyPodEvictionPolicy").one_of(&POLICIES).unwrap_or(false),
        }
    }
}

/// A number of pods, or a percentage (true).
fn amount(at: &Cursor<'_>) -> Option<(i64, bool)> {
    let allowed = "a whole number of zero or more, or a percentage such as 50%";
    let Some(text) = at.raw()?.as_str() else {
        let number = at.int()?;
        return if number >= 0 { Some((number, false)) } else { at.unexpected(&number.to_string(), allowed) };
    };
    let percent = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match percent.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= 100) {
        Some(percent) => Some((percent, true)),
        None => at.unexpected(text, allowed),
    }
}

/// A PriorityClass.
#[derive(Debug)]
pub struct PriorityClass {
    /// Name.
    pub name: Text,
    /// Priority of its pods.
    pub value: i32,
    /// Whether it holds for pods that name no class.
    pub global_default: bool,
}

impl PriorityClass {
    /// Reads the class at `at`. Users' classes end at a billion, above are those of the system.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        let highest = if object.name.starts_with("system-") { i64::from(i32::MAX - 1) } else { 1_000_000_000 };
        let value_at = at.at("value").required();
        let value = value_at.int().filter(|value| {
            let fits = (i64::from(i32::MIN)..=highest).contains(value);
            if !fits {
                value_at.error(format!("found {value}, allowed: {} to {highest}", i32::MIN));
            }
            fits
        });
        Self {
            name: object.name.clone(),
            value: value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0),
            global_default: at.at("globalDefault").bool().unwrap_or(false),
        }
    }
}
