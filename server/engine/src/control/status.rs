//! What is said about objects that people own, as values: statuses, finalizers, events. Others make Kubernetes' JSON of them.

use std::fmt;

use crate::cluster::PodKey;
use crate::model::{Resources, Text, Timestamp};

/// An object that something is said about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectRef {
    /// A NodePool.
    Pool(Text),
    /// An EC2NodeClass.
    Class(Text),
    /// A NodeClaim.
    Claim(Text),
    /// A Node.
    Node(Text),
    /// A pod.
    Pod(PodKey),
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(name) => write!(f, "nodepool/{name}"),
            Self::Class(name) => write!(f, "ec2nodeclass/{name}"),
            Self::Claim(name) => write!(f, "nodeclaim/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Pod(key) => write!(f, "pod/{key}"),
        }
    }
}

/// A status to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusOrder {
    /// NodePool, EC2NodeClass or NodeClaim.
    pub subject: ObjectRef,
    /// What is to stand there.
    pub content: StatusPatch,
    /// When conditions have come to what they say, where what stands there says otherwise.
    pub at: Timestamp,
}

/// What is to stand in an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusPatch {
    /// `status.resources` and `status.nodes` of a NodePool.
    pub usage: Option<Resources>,
    /// `status.subnets` of an EC2NodeClass, a zone each, where the cloud is known to have one there.
    pub zones: Option<Vec<Text>>,
    /// `status.lastPodEventTime` of a NodeClaim, in whole seconds.
    pub last_pod_event: Option<Timestamp>,
    /// All conditions.
    pub conditions: Vec<Condition>,
    /// A finalizer to be there.
    pub hold: Option<&'static str>,
    /// A finalizer to be taken off.
    pub release: Option<&'static str>,
}

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// That is not known.
    Unknown,
}

impl ConditionStatus {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// One entry of `status.conditions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub kind: &'static str,
    /// `status`.
    pub verdict: ConditionStatus,
    /// `reason`, a word.
    pub reason: Text,
    /// `message`, a sentence or nothing.
    pub message: Text,
    /// `observedGeneration`; 0 leaves it out.
    pub generation: i64,
}

impl Condition {
    /// It holds, for its own reason (Karpenter: the type is the reason).
    #[must_use]
    pub fn holds(kind: &'static str, generation: i64) -> Self {
        Self { kind, verdict: ConditionStatus::True, reason: Text::from(kind), message: Text::default(), generation }
    }

    /// It does not hold, or nobody knows.
    #[must_use]
    pub fn lacks(
        kind: &'static str,
        verdict: ConditionStatus,
        reason: &str,
        message: impl Into<Text>,
        generation: i64,
    ) -> Self {
        Self { kind, verdict, reason: Text::from(reason), message: message.into(), generation }
    }
}

/// Adds `Ready`, which sums up all of `conditions` whose types are `dependents` (Karpenter: root condition), and sorts.
#[must_use]
pub fn with_root(mut conditions: Vec<Condition>, dependents: &[&str], generation: i64) -> Vec<Condition> {
    let open = |one: &&Condition| dependents.contains(&one.kind) && one.verdict != ConditionStatus::True;
    let failing: Vec<&Condition> = conditions.iter().filter(open).collect();
    let root = if failing.is_empty() {
        Condition::holds("Ready", generation)
    } else {
        let broken = failing.iter().any(|one| one.verdict == ConditionStatus::False);
        let verdict = if broken { ConditionStatus::False } else { ConditionStatus::Unknown };
        let listed: Vec<String> = failing.iter().map(|one| format!("{}={}", one.kind, one.verdict.as_str())).collect();
        Condition::lacks("Ready", verdict, "UnhealthyDependents", listed.join(", "), generation)
    };
    conditions.push(root);
    conditions.sort_by_key(|one| one.kind);
    conditions
}

/// Something that people are to be told about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventOrder {
    /// The object.
    pub subject: ObjectRef,
    /// Its identity, where it is known.
    pub uid: Text,
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(conditions: &[Condition]) -> Vec<String> {
        conditions.iter().map(|c| format!("{}={} {}", c.kind, c.verdict.as_str(), c.reason)).collect()
    }

    #[test]
    fn ready_sums_up_its_dependents_and_nothing_else() {
        let unhealthy = Condition::lacks("Healthy", ConditionStatus::False, "Odd", "", 1);
        let good = with_root(vec![Condition::holds("Valid", 1), unhealthy.clone()], &["Valid"], 1);
        assert_eq!(said(&good), ["Healthy=False Odd", "Ready=True Ready", "Valid=True Valid"]);
        let open = Condition::lacks("Valid", ConditionStatus::Unknown, "Waiting", "", 1);
        let unknown = with_root(vec![open.clone()], &["Valid"], 1);
        assert_eq!(said(&unknown), ["Ready=Unknown UnhealthyDependents", "Valid=Unknown Waiting"]);
        let bad = with_root(vec![open, unhealthy], &["Valid", "Healthy"], 1);
        assert_eq!(bad[1].verdict, ConditionStatus::False);
        assert_eq!(bad[1].message.as_ref(), "Valid=Unknown, Healthy=False");
    }
}
