//! Disruption budgets and priorities.

use std::fmt;

use engine::model::{LabelSelector, Labels, Text};

use super::metadata::Metadata;
use crate::inventory::Object;
use crate::{Cursor, selector};

/// A number of pods, or a percentage of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Zero or more; a percentage is at most 100.
    pub number: i64,
    /// Whether it is a percentage.
    pub percent: bool,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.percent { "%" } else { "" })
    }
}

/// The threshold of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetThreshold {
    /// `maxUnavailable`.
    MaxUnavailable(Amount),
    /// `minAvailable`.
    MinAvailable(Amount),
}

impl BudgetThreshold {
    /// Whether it never allows the eviction of one of `count` healthy pods. Percentages are rounded
    /// up (Kubernetes: disruption controller).
    #[must_use]
    pub fn keeps_all(self, count: i64) -> bool {
        match self {
            Self::MaxUnavailable(amount) => amount.number == 0,
            Self::MinAvailable(Amount { number, percent: false }) => number >= count,
            Self::MinAvailable(Amount { number, percent: true }) => (number * count + 99) / 100 >= count,
        }
    }

    /// Whether it never allows an eviction, whatever the number of pods: `maxUnavailable` of 0 or
    /// 0%, `minAvailable` of 100%.
    #[must_use]
    pub fn keeps_any_number(self) -> bool {
        match self {
            Self::MaxUnavailable(amount) => amount.number == 0,
            Self::MinAvailable(amount) => amount.percent && amount.number == 100,
        }
    }
}

/// A PodDisruptionBudget.
#[derive(Debug)]
pub struct DisruptionBudget {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// The pods it guards; `None` guards none.
    pub selector: Option<LabelSelector>,
    /// Its threshold; `None` without a number.
    pub floor: Option<BudgetThreshold>,
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
            selector: guarded(at),
            floor: unavailable.map(BudgetThreshold::MaxUnavailable).or(available.map(BudgetThreshold::MinAvailable)),
            frees_unhealthy: spec.at("unhealthyPodEvictionPolicy").one_of(&POLICIES).unwrap_or(false),
        }
    }

    /// Whether it never allows an eviction, whatever the number of pods.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.floor.is_some_and(BudgetThreshold::keeps_any_number)
    }

    /// Whether it guards pods of its namespace with `labels`.
    #[must_use]
    pub fn guards(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// The selector of the budget at `at`. An empty one guards every pod of the namespace; before `policy/v1`, none.
fn guarded(at: &Cursor<'_>) -> Option<LabelSelector> {
    let selector = selector::read(&at.at("spec").at("selector"));
    let early = at.at("apiVersion").str() == Some("policy/v1beta1");
    selector.filter(|selector| !(early && selector.terms.is_empty()))
}

fn amount(at: &Cursor<'_>) -> Option<Amount> {
    let allowed = "a whole number of zero or more, or a percentage such as 50%";
    let Some(text) = at.raw()?.as_str() else {
        let number = at.int()?;
        return if number >= 0 {
            Some(Amount { number, percent: false })
        } else {
            at.unexpected(&number.to_string(), allowed)
        };
    };
    let percent = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match percent.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= 100) {
        Some(number) => Some(Amount { number, percent: true }),
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
