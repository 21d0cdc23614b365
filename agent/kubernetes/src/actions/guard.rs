//! Limits that the agent enforces regardless of the server: a defective or compromised server must
//! not be able to remove a whole cluster at once.
//!
//! A Node is drained and deleted only if it belongs to a managed NodeClaim and not to the control
//! plane, and, except for interruptions and Nodes that are not Ready, at a bounded rate. The server
//! has lower limits; these are configured in the cluster, where the server cannot change them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleetwright_proto::v1;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::{ApiError, ErrorKind};
use crate::fields::{list_at, text_at};

/// Annotation of a NodeClaim that Fleetwright manages.
const MANAGED: &str = "fleetwright.dev/managed";

/// Labels of control-plane nodes (Kubernetes: well-known labels; the second until 1.24).
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Tolerance for deadlines, in milliseconds: they travel as remaining time, so one deadline varies
/// a little from message to message.
const DEADLINE_JITTER_MS: i64 = 30_000;

#[derive(Debug)]
pub struct RemovalGuard {
    /// Maximum number of removed Nodes in `window`; 0 sets no bound.
    removals: usize,
    window: Duration,
    /// Nodes whose removal began within the window, by UID, oldest first.
    begun: Mutex<VecDeque<(Instant, String)>>,
}

/// The Node that an instruction names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemovalTarget<'o> {
    pub(crate) claim: &'o str,
    /// `spec.providerID` of the Node; empty when the server does not state it.
    pub(crate) provider_id: &'o str,
}

impl RemovalGuard {
    /// At most `removals` Nodes in `window`; 0 sets no bound.
    #[must_use]
    pub fn new(removals: usize, window: Duration) -> Self {
        Self { removals, window, begun: Mutex::default() }
    }

    /// Counts the removal of the Node with this UID once, also when it is begun repeatedly.
    ///
    /// # Errors
    /// When the bound is reached; the error has the remaining wait.
    pub(crate) fn count_removal(&self, node: &Value) -> Result<(), ApiError> {
        let (uid, name, now) = (text_at(node, "/metadata/uid"), text_at(node, "/metadata/name"), Instant::now());
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        while begun.front().is_some_and(|(at, _)| now.duration_since(*at) >= self.window) {
            begun.pop_front();
        }
        if self.removals == 0 || begun.iter().any(|(_, known)| known == uid) {
            return Ok(());
        }
        if let Some((oldest, _)) = begun.front().filter(|_| begun.len() >= self.removals) {
            let wait = self.window.saturating_sub(now.duration_since(*oldest));
            let (most, seconds) = (self.removals, self.window.as_secs());
            let reason = format!(
                "{most} Nodes were begun to be removed within {seconds} s, the agent's own bound (guard.removals, guard.window); \
                 this one waits"
            );
            let operation = format!("remove Node {name}");
            return Err(ApiError {
                kind: ErrorKind::TooMany,
                retry_after: Some(wait),
                ..ApiError::unreachable(operation, reason)
            });
        }
        begun.push_back((now, uid.to_owned()));
        Ok(())
    }
}

/// The reason why `node` must not be drained or deleted as the Node of the NodeClaim `target`,
/// whose object is `claim` if it exists; `None` when it may.
pub(crate) fn check_removal(node: &Value, claim: Option<&Value>, target: RemovalTarget<'_>) -> Option<String> {
    let name = text_at(node, "/metadata/name");
    let provider_id = text_at(node, "/spec/providerID");
    let named = !target.provider_id.is_empty() && !provider_id.is_empty();
    if named && target.provider_id != provider_id {
        return Some(format!(
            "Node {name} is another machine: its provider id is {provider_id}, and {} is meant",
            target.provider_id
        ));
    }
    let label = |key: &str| node.pointer("/metadata/labels").and_then(|labels| labels.get(key));
    if CONTROL_PLANE.iter().any(|key| label(key).is_some()) {
        return Some(format!("Node {name} belongs to the control plane, which this agent never removes"));
    }
    let ours = match claim {
        Some(claim) => is_managed(claim) && (owns(claim, node) || is_machine_of(claim, provider_id)),
        // The NodeClaim was deleted by force: the Node's owner reference or its NodePool label must
        // match.
        None => was_owned_by(node, target.claim) || (named && label("karpenter.sh/nodepool").is_some()),
    };
    (!ours).then(|| {
        format!("Node {name} is not the machine of NodeClaim {}, so this agent does not remove it", target.claim)
    })
}

/// The reason why the drain `action` must not be executed on a Node whose annotation records the
/// deadline `recorded`; `None` when it may. Pods are deleted past their budgets at once only on an
/// interruption, under a termination grace period of the NodeClaim, or when the deadline was
/// recorded on the Node before.
pub(crate) fn check_forced_deletion(
    action: &v1::DrainNode,
    recorded: Option<i64>,
    claim: Option<&Value>,
    now: i64,
) -> Option<String> {
    let force_at = action.force_at_ms.filter(|at| *at <= now)?;
    let grace = claim.is_some_and(|claim| !text_at(claim, "/spec/terminationGracePeriod").is_empty());
    let stood = recorded.is_some_and(|recorded| recorded <= force_at.saturating_add(DEADLINE_JITTER_MS));
    (!action.interruption && !grace && !stood).then(|| {
        format!(
            "the pods of Node {} would be deleted at once whatever their budgets say, although its NodeClaim has no \
             terminationGracePeriod and the cloud does not take the machine",
            action.node
        )
    })
}

pub(crate) fn is_ready(node: &Value) -> bool {
    let conditions = list_at(node, "/status/conditions");
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

pub(crate) fn is_managed(claim: &Value) -> bool {
    claim.pointer("/metadata/annotations").and_then(|annotations| annotations.get(MANAGED)).is_some_and(|v| v == "true")
}

/// Whether `claim` is an owner of `node`.
pub(crate) fn owns(claim: &Value, node: &Value) -> bool {
    let uid = text_at(claim, "/metadata/uid");
    !uid.is_empty() && list_at(node, "/metadata/ownerReferences").iter().any(|owner| text_at(owner, "/uid") == uid)
}

fn is_machine_of(claim: &Value, provider_id: &str) -> bool {
    !provider_id.is_empty() && text_at(claim, "/status/providerID") == provider_id
}

fn was_owned_by(node: &Value, claim: &str) -> bool {
    let owners = list_at(node, "/metadata/ownerReferences");
    owners.iter().any(|owner| text_at(owner, "/kind") == "NodeClaim" && text_at(owner, "/name") == claim)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TARGET: RemovalTarget<'_> = RemovalTarget { claim: "c", provider_id: "aws:///z/i-1" };

    fn claim(managed: &str) -> Value {
        json!({
            "metadata": { "name": "c", "uid": "uc", "annotations": { MANAGED: managed } },
            "status": { "providerID": "aws:///z/i-1" },
        })
    }

    fn node(provider_id: &str, labels: Value, owner: &str) -> Value {
        json!({
            "metadata": { "name": "n", "uid": "un", "labels": labels,
                "ownerReferences": [{ "kind": "NodeClaim", "name": owner, "uid": "uc" }] },
            "spec": { "providerID": provider_id },
        })
    }

    fn refused(node: &Value, claim: Option<&Value>) -> bool {
        check_removal(node, claim, TARGET).is_some()
    }

    #[test]
    fn only_nodes_of_managed_claims_are_removed_and_never_the_control_plane() {
        let (ours, theirs) = (claim("true"), claim("false"));
        let plain = node("aws:///z/i-1", json!({}), "c");
        assert!(!refused(&plain, Some(&ours)));
        assert!(refused(&plain, Some(&theirs)), "a NodeClaim of Karpenter's");
        assert!(refused(&node("aws:///z/i-1", json!({ CONTROL_PLANE[0]: "" }), "c"), Some(&ours)));
        // A Node that joined and is not registered yet has no owner.
        let young = json!({ "metadata": { "name": "n" }, "spec": { "providerID": "aws:///z/i-1" } });
        assert!(!refused(&young, Some(&ours)));
        let stranger = json!({ "metadata": { "name": "n" }, "spec": { "providerID": "" } });
        assert!(refused(&stranger, Some(&ours)));
    }

    #[test]
    fn a_node_whose_name_passed_to_another_instance_is_not_removed() {
        let reborn = node("aws:///z/i-2", json!({ "karpenter.sh/nodepool": "p" }), "c");
        assert!(refused(&reborn, Some(&claim("true"))) && refused(&reborn, None));
    }

    #[test]
    fn a_node_without_its_claim_is_removed_by_owner_reference_or_pool_label() {
        assert!(!refused(&node("aws:///z/i-1", json!({}), "c"), None));
        assert!(refused(&node("aws:///z/i-1", json!({}), "another"), None));
        assert!(!refused(&node("aws:///z/i-1", json!({ "karpenter.sh/nodepool": "p" }), "another"), None));
        assert!(refused(&node("", json!({ "karpenter.sh/nodepool": "p" }), "another"), None), "it may be any machine");
    }

    #[tokio::test(start_paused = true)]
    async fn removals_beyond_the_limit_wait_until_the_window_has_passed() {
        let guard = RemovalGuard::new(2, Duration::from_secs(600));
        let node = |uid: &str| json!({ "metadata": { "name": uid, "uid": uid } });
        let may = |uid: &str| guard.count_removal(&node(uid)).map_err(|error| error.retry_after);
        assert_eq!([may("a"), may("b"), may("a")], [Ok(()), Ok(()), Ok(())], "the same Node counts once");
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(may("c"), Err(Some(Duration::from_secs(500))));
        tokio::time::advance(Duration::from_secs(500)).await;
        assert_eq!(may("c"), Ok(()));
        let unbounded = RemovalGuard::new(0, Duration::from_secs(600));
        assert!((0..9_999).all(|number| unbounded.count_removal(&node(&number.to_string())).is_ok()));
    }

    #[test]
    fn pods_are_not_deleted_past_their_budgets_at_once_without_a_reason_that_the_cluster_knows() {
        let action =
            |force_at_ms, interruption| v1::DrainNode { force_at_ms, interruption, ..v1::DrainNode::default() };
        let patient = json!({ "spec": { "terminationGracePeriod": "1h" } });
        let now = 1_000_000;
        let refused = |action: &v1::DrainNode, recorded, claim: Option<&Value>| {
            check_forced_deletion(action, recorded, claim, now).is_some()
        };
        let plain = claim("true");
        assert!(refused(&action(Some(1), false), None, Some(&plain)) && refused(&action(Some(now), false), None, None));
        assert!(
            !refused(&action(Some(now + 1), false), None, Some(&plain)) && !refused(&action(None, false), None, None)
        );
        assert!(!refused(&action(Some(1), true), None, Some(&plain)), "an interruption");
        assert!(!refused(&action(Some(1), false), None, Some(&patient)));
        // The recorded deadline has passed, within the half minute of tolerance.
        assert!(!refused(&action(Some(900_000), false), Some(930_000), Some(&plain)));
        assert!(refused(&action(Some(900_000), false), Some(930_001), Some(&plain)));
    }
}
