//! Takes the taint `karpenter.sh/disrupted` off Nodes that nothing removes.

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Value, json};
use tracing::info;

use super::admission::{Admission, Rank, admit_instruction};
use super::attempt::Attempt;
use super::drain::eviction_order::DISRUPTED;
use super::drain::recorded_drain;
use super::guard::{RemovalTarget, check_removal};
use crate::api::Api;
use crate::error::ok_if_not_found;
use crate::fields::list_at;
use crate::resource::NODE;

/// Removes the taint, unless the Node is being drained. The patch applies only to the version of the Node that was read.
pub(super) async fn remove_disrupted_taint(api: &Api, rank: Rank, action: &v1::RemoveDisruptedTaint) -> Attempt {
    let claim = match admit_instruction(api, rank, &action.node_claim).await? {
        Admission::Admitted(claim) => claim,
        Admission::Refused(done) => return Ok(done),
    };
    let path = NODE.one("", &action.node);
    let Some(node) = ok_if_not_found(api.get::<Value>(&path).await)? else { return Ok(Done::ok()) };
    let target = RemovalTarget { claim: &action.node_claim, provider_id: &action.provider_id };
    if let Some(why) = check_removal(&node, Some(&claim), target) {
        return Ok(Done::failed(v1::Outcome::NotFound, why));
    }
    if recorded_drain(&node).is_some_and(|(_, drain)| drain.node_claim == action.node_claim) {
        let why = format!("Node {} is being drained for NodeClaim {}", action.node, action.node_claim);
        return Ok(Done::failed(v1::Outcome::PreconditionFailed, why));
    }
    if let Some(patch) = untaint_patch(&node) {
        ok_if_not_found(api.patch(&path, &patch).await)?;
        info!(node = action.node, taint = DISRUPTED, "foreign taint removed");
    }
    Ok(Done::ok())
}

/// The patch that removes the taint, whatever its effect; `None` for a Node without it.
fn untaint_patch(node: &Value) -> Option<Value> {
    let mut taints = list_at(node, "/spec/taints");
    let before = taints.len();
    taints.retain(|taint| taint["key"] != DISRUPTED);
    (taints.len() < before).then(|| {
        json!({
            "metadata": { "resourceVersion": node.pointer("/metadata/resourceVersion") },
            "spec": { "taints": taints },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_taint_of_removals_is_taken_off_whatever_its_effect() {
        let node = json!({
            "metadata": { "resourceVersion": "3" },
            "spec": { "taints": [
                { "key": DISRUPTED, "effect": "NoExecute" }, { "key": "gpu", "effect": "NoSchedule" },
                { "key": DISRUPTED, "effect": "NoSchedule" },
            ] },
        });
        let expected = json!({
            "metadata": { "resourceVersion": "3" },
            "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] },
        });
        assert_eq!(untaint_patch(&node), Some(expected));
        assert_eq!(untaint_patch(&json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] } })), None);
        assert_eq!(untaint_patch(&json!({})), None);
    }
}
