//! Statuses, finalizers and events to write into user-visible objects, as plain values. The session
//! encodes them as Kubernetes JSON.

use std::fmt;
use std::sync::Arc;

use super::event_reason::EventReason;
use cluster::ClusterState;
use model::node_class::NodeClassStatus;
use model::{ClaimName, NodeName, PodKey, PoolName, Resources, Text, Timestamp, Zone};

/// An object whose status or events are written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectRef {
    Pool(PoolName),
    /// An EC2NodeClass.
    Class(Text),
    Claim(ClaimName),
    Node(NodeName),
    Pod(PodKey),
}

impl ObjectRef {
    /// NodeClaim and Node of a machine, as far as the cluster shows it.
    pub(crate) fn of_machine(state: &ClusterState, claim: &ClaimName) -> Vec<Self> {
        let node = state.node_of_claim(claim).map(|node| Self::Node(node.name.clone()));
        [Self::Claim(claim.clone())].into_iter().chain(node).collect()
    }
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

/// A status patch of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusOrder {
    /// The NodePool, EC2NodeClass or NodeClaim.
    pub subject: ObjectRef,
    pub patch: StatusPatch,
    /// `lastTransitionTime` of conditions whose status changes.
    pub at: Timestamp,
}

/// Status and finalizers to write into an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusPatch {
    /// `status.resources` and `status.nodes` of a NodePool.
    pub usage: Option<Resources>,
    /// `status.subnets` of an EC2NodeClass: one for each zone known to have a subnet.
    pub zones: Option<Vec<Zone>>,
    /// What the selectors of an EC2NodeClass found in the account: `status` without conditions. Fields that are `None` stay
    /// as they are. It takes precedence over `zones`.
    pub node_class: Option<Arc<NodeClassStatus>>,
    pub annotations: Vec<(Text, Text)>,
    /// `status.lastPodEventTime` of a NodeClaim, in whole seconds.
    pub last_pod_event: Option<Timestamp>,
    /// All conditions written by this server.
    pub conditions: Vec<Condition>,
    pub remove_conditions: Vec<&'static str>,
    pub add_finalizer: Option<&'static str>,
    pub remove_finalizer: Option<&'static str>,
}

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// Whether the condition is met is unknown.
    Unknown,
}

impl ConditionStatus {
    /// The Kubernetes spelling.
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
    pub status: ConditionStatus,
    /// `reason`, in CamelCase.
    pub reason: Text,
    /// `message`, a sentence or empty.
    pub message: Text,
    /// `observedGeneration`; 0 omits it.
    pub generation: i64,
}

impl Condition {
    /// A condition with status True, whose reason is its type (Karpenter).
    #[must_use]
    pub fn met(kind: &'static str, generation: i64) -> Self {
        Self { kind, status: ConditionStatus::True, reason: Text::from(kind), message: Text::default(), generation }
    }

    /// A condition with status False or Unknown.
    #[must_use]
    pub fn unmet(
        kind: &'static str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<Text>,
        generation: i64,
    ) -> Self {
        Self { kind, status, reason: Text::from(reason), message: message.into(), generation }
    }
}

/// Adds `Ready`, the conjunction of the `conditions` of types `dependents` (Karpenter: root
/// condition), and sorts by type.
#[must_use]
pub fn with_root(mut conditions: Vec<Condition>, dependents: &[&str], generation: i64) -> Vec<Condition> {
    let open = |one: &&Condition| dependents.contains(&one.kind) && one.status != ConditionStatus::True;
    let failing: Vec<&Condition> = conditions.iter().filter(open).collect();
    let root = if failing.is_empty() {
        Condition::met("Ready", generation)
    } else {
        let broken = failing.iter().any(|one| one.status == ConditionStatus::False);
        let status = if broken { ConditionStatus::False } else { ConditionStatus::Unknown };
        let listed: Vec<String> = failing.iter().map(|one| format!("{}={}", one.kind, one.status.as_str())).collect();
        Condition::unmet("Ready", status, "UnhealthyDependents", listed.join(", "), generation)
    };
    conditions.push(root);
    conditions.sort_by_key(|one| one.kind);
    conditions
}

/// A Kubernetes event to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventOrder {
    pub subject: ObjectRef,
    /// UID of the object; empty when unknown.
    pub uid: Text,
    /// `reason`, from which `type` follows.
    pub reason: EventReason,
    /// `message`, one sentence.
    pub message: Text,
    /// What tells it from other events of the same object and reason. Of those with the same series, one is recorded in an
    /// interval, whatever their messages (Karpenter: dedupe values).
    pub series: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summaries(conditions: &[Condition]) -> Vec<String> {
        conditions.iter().map(|c| format!("{}={} {}", c.kind, c.status.as_str(), c.reason)).collect()
    }

    #[test]
    fn ready_sums_up_its_dependents_and_nothing_else() {
        let unhealthy = Condition::unmet("Healthy", ConditionStatus::False, "Odd", "", 1);
        let good = with_root(vec![Condition::met("Valid", 1), unhealthy.clone()], &["Valid"], 1);
        assert_eq!(summaries(&good), ["Healthy=False Odd", "Ready=True Ready", "Valid=True Valid"]);
        let open = Condition::unmet("Valid", ConditionStatus::Unknown, "Waiting", "", 1);
        let unknown = with_root(vec![open.clone()], &["Valid"], 1);
        assert_eq!(summaries(&unknown), ["Ready=Unknown UnhealthyDependents", "Valid=Unknown Waiting"]);
        let bad = with_root(vec![open, unhealthy], &["Valid", "Healthy"], 1);
        assert_eq!(bad[1].status, ConditionStatus::False);
        assert_eq!(bad[1].message.as_ref(), "Valid=Unknown, Healthy=False");
    }
}
