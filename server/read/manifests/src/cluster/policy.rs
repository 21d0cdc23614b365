//! PodDisruptionBudgets and PriorityClasses.

use std::fmt;

use model::{LabelSelector, Labels, Text};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetThreshold {
    /// `maxUnavailable`.
    MaxUnavailable(Amount),
    /// `minAvailable`.
    MinAvailable(Amount),
}

impl BudgetThreshold {
    /// The threshold of these fields, each empty when it is not set; `None` without one that can be read.
    #[must_use]
    pub fn parse(max_unavailable: &str, min_available: &str) -> Option<Self> {
        let unavailable = parse_amount(max_unavailable).map(Self::MaxUnavailable);
        unavailable.or_else(|| parse_amount(min_available).map(Self::MinAvailable))
    }

    /// Whether the threshold prevents every eviction of `count` healthy pods. Percentages are
    /// rounded up (Kubernetes: disruption controller).
    #[must_use]
    pub fn blocks_all(self, count: i64) -> bool {
        match self {
            Self::MaxUnavailable(amount) => amount.number == 0,
            Self::MinAvailable(Amount { number, percent: false }) => number >= count,
            Self::MinAvailable(Amount { number, percent: true }) => (number * count + 99) / 100 >= count,
        }
    }

    /// Whether the threshold prevents every eviction for any number of pods: `maxUnavailable` of 0
    /// or 0%, `minAvailable` of 100%.
    #[must_use]
    pub fn always_blocks(self) -> bool {
        match self {
            Self::MaxUnavailable(amount) => amount.number == 0,
            Self::MinAvailable(amount) => amount.percent && amount.number == 100,
        }
    }
}

#[derive(Debug)]
pub struct DisruptionBudget {
    pub namespace: Text,
    pub name: Text,
    /// `spec.selector`; `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// `minAvailable` or `maxUnavailable`; `None` when neither is set.
    pub threshold: Option<BudgetThreshold>,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub evicts_unhealthy: bool,
    /// `status.disruptionsAllowed`, 0 while the status is outdated; `None` without a status.
    pub disruptions_allowed: Option<i64>,
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
            threshold: unavailable
                .map(BudgetThreshold::MaxUnavailable)
                .or(available.map(BudgetThreshold::MinAvailable)),
            evicts_unhealthy: spec.at("unhealthyPodEvictionPolicy").one_of(&POLICIES).unwrap_or(false),
            disruptions_allowed: disruptions_allowed(at),
        }
    }

    /// Whether the budget prevents every eviction for any number of pods.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.threshold.is_some_and(BudgetThreshold::always_blocks)
    }

    /// Whether the budget selects pods of its namespace that have `labels`.
    #[must_use]
    pub fn guards(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// The evictions that the status allows: none while it is outdated, because the API server refuses evictions then. The API
/// server omits the observed generation of a status that no controller has written.
fn disruptions_allowed(at: &Cursor<'_>) -> Option<i64> {
    let status = at.at("status");
    let (observed, generation) = (status.at("observedGeneration").int(), at.at("metadata").at("generation").int());
    let is_outdated = generation.is_some_and(|generation| observed.unwrap_or(0) != generation);
    status.at("disruptionsAllowed").int().map(|allowed| if is_outdated { 0 } else { allowed })
}

/// The selector of the budget at `at`. An empty selector selects every pod of the namespace in
/// `policy/v1`, and none before.
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
    match parse_amount(text).filter(|amount| amount.percent) {
        Some(amount) => Some(amount),
        None => at.unexpected(text, allowed),
    }
}

/// A number of zero or more, or a percentage such as `50%`.
fn parse_amount(text: &str) -> Option<Amount> {
    let (digits, percent) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let number: i64 = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    (!percent || number <= 100).then_some(Amount { number, percent })
}

#[derive(Debug)]
pub struct PriorityClass {
    pub name: Text,
    /// Priority of pods that name the class.
    pub value: i32,
    /// Whether pods that name no class have this priority.
    pub global_default: bool,
}

impl PriorityClass {
    /// Reads the class at `at`. Values above one billion are reserved for the system's classes.
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
