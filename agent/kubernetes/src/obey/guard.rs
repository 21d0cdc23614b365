//! What this agent does not do, whatever a server says: a server that has gone mad, or that somebody has taken over, must not be
//! able to end a cluster at once.
//!
//! Nodes are drained and deleted only when they are machines of ours, are no part of the control plane, and, but for those that the
//! cloud takes away and those that are dead already, at a bounded pace. The server has bounds of its own, which are tighter; these
//! are set in the cluster, where the server cannot reach them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleetwright_proto::v1;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::{ApiError, Kind};
use crate::fields::{list_at, text_at};

/// The annotation by which a NodeClaim is ours.
const MANAGED: &str = "fleetwright.dev/managed";

/// Labels of control-plane nodes (Kubernetes: well-known labels; the second until 1.24).
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Deadlines travel as what is left of them, so that the same one is a little earlier or later each time that it comes, in
/// milliseconds.
const JITTER_MS: i64 = 30_000;

/// The agent's own bounds.
#[derive(Debug)]
pub struct Guard {
    /// Nodes in `window`; 0 sets no bound.
    removals: usize,
    window: Duration,
    /// Always, but in tests that show what it is for.
    only_ours: bool,
    /// The Nodes that were begun to be removed within the window, by UID, oldest first.
    begun: Mutex<VecDeque<(Instant, String)>>,
}

/// Which Node a server means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meant<'o> {
    /// Name of the NodeClaim.
    pub(crate) claim: &'o str,
    /// `spec.providerID` of the Node; empty when the server does not say.
    pub(crate) provider_id: &'o str,
}

impl Guard {
    /// At most `removals` Nodes in `window`; 0 sets no bound.
    #[must_use]
    pub fn new(removals: usize, window: Duration) -> Self {
        Self { removals, window, only_ours: true, begun: Mutex::default() }
    }

    /// Why `node` must not be drained or deleted as the machine of the NodeClaim that is `meant`, which is `claim` where there is one;
    /// `None` when it may.
    pub(crate) fn refusal(&self, node: &Value, claim: Option<&Value>, meant: Meant<'_>) -> Option<String> {
        let name = text_at(node, "/metadata/name");
        let provider_id = text_at(node, "/spec/providerID");
        let named = !meant.provider_id.is_empty() && !provider_id.is_empty();
        if named && meant.provider_id != provider_id {
            return Some(format!(
                "Node {name} is another machine: its provider id is {provider_id}, and {} is meant",
                meant.provider_id
            ));
        }
        if !self.only_ours {
            return None;
        }
        let label = |key: &str| node.pointer("/metadata/labels").and_then(|labels| labels.get(key));
        if CONTROL_PLANE.iter().any(|key| label(key).is_some()) {
            return Some(format!("Node {name} belongs to the control plane, which this agent never removes"));
        }
        let ours = match claim {
            Some(claim) => is_managed(claim) && (owns(claim, node) || is_machine_of(claim, provider_id)),
            // Its NodeClaim was removed by force: the Node says whose it was, or at least that it is a machine of a NodePool.
            None => was_owned_by(node, meant.claim) || (named && label("karpenter.sh/nodepool").is_some()),
        };
        (!ours).then(|| {
            format!("Node {name} is not the machine of NodeClaim {}, so this agent does not remove it", meant.claim)
        })
    }

    /// Counts the removal of the Node with this UID, once however often it is begun.
    ///
    /// # Errors
    /// When so many were begun that this one has to wait, and how long.
    pub(crate) fn pace(&self, node: &Value) -> Result<(), ApiError> {
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
            let tried = format!("remove Node {name}");
            return Err(ApiError {
                kind: Kind::TooMany,
                retry_after: Some(wait),
                ..ApiError::unreachable(tried, reason)
            });
        }
        begun.push_back((now, uid.to_owned()));
        Ok(())
    }
}

/// Why `order` must not be carried out on a Node that bears the order `noted`, if any, by now; `None` when it may. Pods are deleted
/// past their budgets at once only when the cloud takes the machine, the NodeClaim bounds how long its pods may take, or the deadline
/// has been standing on the Node.
pub(crate) fn early_force(
    order: &v1::DrainNode,
    noted: Option<i64>,
    claim: Option<&Value>,
    now: i64,
) -> Option<String> {
    let force_at = order.force_at_ms.filter(|at| *at <= now)?;
    let grace = claim.is_some_and(|claim| !text_at(claim, "/spec/terminationGracePeriod").is_empty());
    let stood = noted.is_some_and(|noted| noted <= force_at.saturating_add(JITTER_MS));
    (!order.interruption && !grace && !stood).then(|| {
        format!(
            "the pods of Node {} would be deleted at once whatever their budgets say, although its NodeClaim has no \
             terminationGracePeriod and the cloud does not take the machine",
            order.node
        )
    })
}

/// Whether the kubelet of a Node tells that it is well.
pub(crate) fn is_ready(node: &Value) -> bool {
    let conditions = list_at(node, "/status/conditions");
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a NodeClaim is ours.
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
impl Guard {
    /// A guard that guards nothing: what it is for shows without it.
    pub(crate) fn off() -> Self {
        Self { only_ours: false, ..Self::new(0, Duration::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MEANT: Meant<'_> = Meant { claim: "c", provider_id: "aws:///z/i-1" };

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
        Guard::new(1, Duration::from_secs(1)).refusal(node, claim, MEANT).is_some()
    }

    #[test]
    fn only_machines_of_our_claims_are_removed_and_never_the_control_plane() {
        let (ours, theirs) = (claim("true"), claim("false"));
        let plain = node("aws:///z/i-1", json!({}), "c");
        assert!(!refused(&plain, Some(&ours)));
        assert!(refused(&plain, Some(&theirs)), "a NodeClaim of Karpenter's");
        assert!(refused(&node("aws:///z/i-1", json!({ CONTROL_PLANE[0]: "" }), "c"), Some(&ours)));
        // A Node that has joined and is not taken in yet has no owner.
        let young = json!({ "metadata": { "name": "n" }, "spec": { "providerID": "aws:///z/i-1" } });
        assert!(!refused(&young, Some(&ours)));
        let stranger = json!({ "metadata": { "name": "n" }, "spec": { "providerID": "" } });
        assert!(refused(&stranger, Some(&ours)));
    }

    #[test]
    fn a_node_that_has_the_name_of_another_machine_now_is_left_alone() {
        let reborn = node("aws:///z/i-2", json!({ "karpenter.sh/nodepool": "p" }), "c");
        assert!(refused(&reborn, Some(&claim("true"))) && refused(&reborn, None));
        // Even with the guard off: it is not what the server means.
        assert!(Guard::off().refusal(&reborn, None, MEANT).is_some());
    }

    #[test]
    fn a_node_whose_claim_is_gone_goes_when_it_says_whose_it_was() {
        assert!(!refused(&node("aws:///z/i-1", json!({}), "c"), None));
        assert!(refused(&node("aws:///z/i-1", json!({}), "another"), None));
        assert!(!refused(&node("aws:///z/i-1", json!({ "karpenter.sh/nodepool": "p" }), "another"), None));
        assert!(refused(&node("", json!({ "karpenter.sh/nodepool": "p" }), "another"), None), "it may be any machine");
    }

    #[tokio::test(start_paused = true)]
    async fn removals_beyond_the_bound_wait_until_the_window_has_moved_on() {
        let guard = Guard::new(2, Duration::from_secs(600));
        let node = |uid: &str| json!({ "metadata": { "name": uid, "uid": uid } });
        let may = |uid: &str| guard.pace(&node(uid)).map_err(|error| error.retry_after);
        assert_eq!([may("a"), may("b"), may("a")], [Ok(()), Ok(()), Ok(())], "the same Node counts once");
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(may("c"), Err(Some(Duration::from_secs(500))));
        tokio::time::advance(Duration::from_secs(500)).await;
        assert_eq!(may("c"), Ok(()));
        assert!((0..9_999).all(|number| Guard::off().pace(&node(&number.to_string())).is_ok()));
    }

    #[test]
    fn pods_are_not_deleted_past_their_budgets_at_once_without_a_reason_that_the_cluster_knows() {
        let order = |force_at_ms, interruption| v1::DrainNode { force_at_ms, interruption, ..v1::DrainNode::default() };
        let patient = json!({ "spec": { "terminationGracePeriod": "1h" } });
        let now = 1_000_000;
        let refused =
            |order: &v1::DrainNode, noted, claim: Option<&Value>| early_force(order, noted, claim, now).is_some();
        let plain = claim("true");
        assert!(refused(&order(Some(1), false), None, Some(&plain)) && refused(&order(Some(now), false), None, None));
        assert!(
            !refused(&order(Some(now + 1), false), None, Some(&plain)) && !refused(&order(None, false), None, None)
        );
        assert!(!refused(&order(Some(1), true), None, Some(&plain)), "an interruption");
        assert!(!refused(&order(Some(1), false), None, Some(&patient)));
        // The deadline stood there and has come, half a minute earlier at most by the way that it travels.
        assert!(!refused(&order(Some(900_000), false), Some(930_000), Some(&plain)));
        assert!(refused(&order(Some(900_000), false), Some(930_001), Some(&plain)));
    }
}
