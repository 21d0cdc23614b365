//! The queue of an account and region, and the EventBridge rules that send events to it.
//!
//! Setting up reads what exists, derives what differs from [`desired`](template), and changes only that, so that it
//! may be repeated. A queue or rule that another program made, by its policy or description, is neither changed nor
//! deleted.

mod account;
mod template;

use std::fmt;

use serde_json::Value;

pub use account::{QueueSetup, SetupError};
use template::{POLICY_ID, RULE_DESCRIPTION, RuleTemplate};

/// What the account and region have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Existing {
    queue: Option<ExistingQueue>,
    /// For each rule of the template, in its order.
    rules: Vec<Option<ExistingRule>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ExistingQueue {
    arn: String,
    /// Attributes by name.
    attributes: Vec<(String, String)>,
}

impl ExistingQueue {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether it was set up here, or its policy was never set: a creation that was cut short.
    fn is_ours(&self) -> bool {
        self.attribute("Policy").is_none_or(|policy| policy.is_empty() || json(policy)["Id"] == POLICY_ID)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ExistingRule {
    description: String,
    pattern: String,
    enabled: bool,
    /// ARNs of its targets, by id.
    targets: Vec<(String, String)>,
}

impl ExistingRule {
    fn is_ours(&self) -> bool {
        self.description == RULE_DESCRIPTION
    }
}

/// One change of the account. Its text is a line of what is shown before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    CreateQueue,
    /// Sets an attribute of the queue.
    SetAttribute {
        name: &'static str,
        to: String,
        /// Its present value, if it has one.
        from: Option<String>,
    },
    /// Creates a rule, or changes its pattern or state.
    PutRule {
        rule: RuleTemplate,
        exists: bool,
    },
    /// Makes the queue a target of a rule.
    PutTarget {
        rule: String,
    },
    /// Deletes a rule with its targets.
    DeleteRule {
        rule: String,
        targets: Vec<String>,
    },
    /// Deletes the queue with its messages.
    DeleteQueue,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateQueue => write!(f, "create the queue"),
            Self::SetAttribute { name, to, from: None } => write!(f, "set {name} of the queue to {to}"),
            Self::SetAttribute { name, to, from: Some(from) } => {
                write!(f, "change {name} of the queue from {from} to {to}")
            }
            Self::PutRule { rule, exists: false } => write!(f, "create the rule {}: {}", rule.name, rule.pattern),
            Self::PutRule { rule, exists: true } => {
                write!(f, "enable the rule {} with the pattern {}", rule.name, rule.pattern)
            }
            Self::PutTarget { rule } => write!(f, "send the events of the rule {rule} to the queue"),
            Self::DeleteRule { rule, .. } => write!(f, "delete the rule {rule}"),
            Self::DeleteQueue => write!(f, "delete the queue and its messages"),
        }
    }
}

/// What another program made in an account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} exists and was not made by `fleetwright ec2 setup`, so it is neither changed nor deleted: pass another name with --queue"
)]
pub struct Foreign(String);

/// The changes that make `existing` what the template says, in the order of execution. The policy of a queue names the
/// queue, whose ARN is known once it exists: `arn` is what it will be.
fn changes(queue: &str, arn: &str, existing: &Existing) -> Result<Vec<Change>, Foreign> {
    let rules = template::rules(queue);
    refuse_foreign(queue, &rules, existing)?;
    let mut changes = Vec::new();
    if existing.queue.is_none() {
        changes.push(Change::CreateQueue);
    }
    for (name, to) in template::attributes(arn) {
        let from = existing.queue.as_ref().and_then(|queue| queue.attribute(name));
        if from.is_none_or(|from| !is_same(from, &to)) {
            changes.push(Change::SetAttribute { name, to, from: from.map(str::to_owned) });
        }
    }
    for (number, rule) in rules.into_iter().enumerate() {
        let known = existing.rules.get(number).and_then(Option::as_ref);
        let has_target = known.is_some_and(|known| known.targets.iter().any(|(_, target)| target == arn));
        let name = rule.name.clone();
        if known.is_none_or(|known| !known.enabled || !is_same(&known.pattern, &rule.pattern)) {
            changes.push(Change::PutRule { rule, exists: known.is_some() });
        }
        if !has_target {
            changes.push(Change::PutTarget { rule: name });
        }
    }
    Ok(changes)
}

/// The changes that remove what was set up: rules first, so that none sends to a queue that is gone.
fn removals(queue: &str, existing: &Existing) -> Vec<Change> {
    let rules = template::rules(queue).into_iter().zip(&existing.rules);
    let ours = rules.filter_map(|(rule, known)| {
        let known = known.as_ref().filter(|known| known.is_ours())?;
        let targets = known.targets.iter().map(|(id, _)| id.clone()).collect();
        Some(Change::DeleteRule { rule: rule.name, targets })
    });
    let queue = existing.queue.as_ref().filter(|queue| queue.is_ours()).map(|_| Change::DeleteQueue);
    ours.chain(queue).collect()
}

fn refuse_foreign(queue: &str, rules: &[RuleTemplate], existing: &Existing) -> Result<(), Foreign> {
    if existing.queue.as_ref().is_some_and(|known| !known.is_ours()) {
        return Err(Foreign(format!("the queue {queue}")));
    }
    let mut known = rules.iter().zip(&existing.rules);
    let foreign = known.find(|(_, known)| known.as_ref().is_some_and(|known| !known.is_ours()));
    foreign.map_or(Ok(()), |(rule, _)| Err(Foreign(format!("the rule {}", rule.name))))
}

/// Whether two attributes say the same: AWS writes JSON and booleans in its own way.
fn is_same(one: &str, other: &str) -> bool {
    let (a, b) = (json(one), json(other));
    if a.is_null() || b.is_null() { one.eq_ignore_ascii_case(other) } else { a == b }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
