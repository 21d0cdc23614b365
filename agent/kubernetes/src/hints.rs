//! Hints for kube-scheduler: the pod's `status.nominatedNodeName`, which it tries first.
//!
//! A failed attempt to schedule a pod clears its hint, so hints are set while the taint `karpenter.sh/unregistered` still keeps the
//! node out of every attempt, and the taint comes off after that. Nodes that are let in at the same time wait for one another in
//! between: a pod that was planned for the second would else be tried while only the first is there, and lose its hint.

use std::time::Duration;

use fleetwright_proto::v1;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::debug;

use crate::api::Api;
use crate::error::{ApiError, Kind};
use crate::fields::text_at;
use crate::resource::POD;

/// The name under which hints appear in `metadata.managedFields`: what tells them from the scheduler's own nominations, also
/// after a restart of the agent.
pub const HINT_MANAGER: &str = "fleetwright-agent-hints";

/// Minor version of Kubernetes 1 from which on the scheduler honours what others write there (NominatedNodeNameForExpectation is
/// on by default from 1.35 on).
const FIRST_MINOR: u32 = 35;

/// Hints under way at once: each is two requests of some milliseconds.
const AT_ONCE: usize = 8;

/// A pod whose status changes under our hands is read again so many times.
const TRIES: usize = 3;

/// Registrations that are told together arrive within this time of one another.
const GATHER: Duration = Duration::from_millis(100);

/// A node is not kept from its pods for longer than this by another that is slow to be let in. Hundreds of hints take a busy API
/// server some seconds.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(10);

/// Whether an API server of this version, such as `v1.35.2`, has a scheduler that honours hints.
#[must_use]
pub fn are_honoured(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse::<u32>().unwrap_or_default()
    });
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    (major, minor) >= (1, FIRST_MINOR)
}

/// Sets the hints of one node. A pod that is gone, bound or nominated by others is left alone, and so is one for which the API
/// server refuses: a hint is worth less than a node that comes late.
pub async fn set(api: &Api, node: &str, hints: &[v1::PodNomination]) {
    let mut tasks = JoinSet::new();
    for hint in hints {
        if tasks.len() >= AT_ONCE {
            tasks.join_next().await;
        }
        let (api, node, hint) = (api.clone(), node.to_owned(), hint.clone());
        tasks.spawn(async move {
            if let Err(error) = set_one(&api, &node, &hint).await {
                debug!(pod = hint.name, namespace = hint.namespace, node, %error, "cannot hint");
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn set_one(api: &Api, node: &str, hint: &v1::PodNomination) -> Result<(), ApiError> {
    let path = POD.one(&hint.namespace, &hint.name);
    for attempt in 1.. {
        let pod: Value = api.get(&path).await?;
        let Some(patch) = nomination(&pod, node, &hint.uid) else { return Ok(()) };
        match api.patch_as(HINT_MANAGER, &format!("{path}/status"), &patch).await {
            Err(error) if error.kind == Kind::Conflict && attempt < TRIES => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
    Ok(())
}

/// The patch that hints at `node`; `None` where the pod is to be left alone.
fn nomination(pod: &Value, node: &str, uid: &str) -> Option<Value> {
    let same = text_at(pod, "/metadata/uid") == uid;
    let bound = !text_at(pod, "/spec/nodeName").is_empty();
    let nominated = !text_at(pod, "/status/nominatedNodeName").is_empty();
    let leaving = pod.pointer("/metadata/deletionTimestamp").is_some();
    (same && !bound && !nominated && !leaving).then(|| {
        json!({
            "metadata": { "uid": uid, "resourceVersion": pod.pointer("/metadata/resourceVersion") },
            "status": { "nominatedNodeName": node },
        })
    })
}

/// Nodes that are being let in, and whose hints are not all set.
#[derive(Debug)]
pub struct Registrations {
    without_hints: watch::Sender<usize>,
}

impl Default for Registrations {
    fn default() -> Self {
        Self { without_hints: watch::Sender::new(0) }
    }
}

impl Registrations {
    /// Another node is being let in.
    #[must_use]
    pub fn enter(&self) -> Turn<'_> {
        self.without_hints.send_modify(|count| *count += 1);
        Turn { registrations: self }
    }
}

/// A node that is being let in, until its hints are set or it is given up.
#[derive(Debug)]
pub struct Turn<'r> {
    registrations: &'r Registrations,
}

impl Turn<'_> {
    /// The hints of this node are set; completes when those of the others are, or have taken too long.
    pub async fn hints_are_set(self) {
        let mut others = self.registrations.without_hints.subscribe();
        tokio::time::sleep(GATHER).await;
        drop(self);
        let _late = tokio::time::timeout(WAIT_FOR_OTHERS, others.wait_for(|count| *count == 0)).await;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.registrations.without_hints.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_honoured_from_1_35_on() {
        for (version, honoured) in [
            ("v1.34.9", false),
            ("v1.35.0", true),
            ("v1.35.2-eks-1", true),
            ("v1.40+", true),
            ("v2.0.0", true),
            ("", false),
        ] {
            assert_eq!(are_honoured(version), honoured, "{version}");
        }
    }

    #[test]
    fn only_a_waiting_pod_of_that_uid_that_nobody_nominated_is_hinted() {
        let pod = json!({ "metadata": { "uid": "u", "resourceVersion": "5" }, "spec": {}, "status": {} });
        let expected = json!({
            "metadata": { "uid": "u", "resourceVersion": "5" }, "status": { "nominatedNodeName": "n" },
        });
        assert_eq!(nomination(&pod, "n", "u"), Some(expected));
        assert_eq!(nomination(&pod, "n", "another"), None);
        let with = |pointer: &str, value: &str| {
            let mut pod = pod.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key] = json!(value);
            nomination(&pod, "n", "u")
        };
        assert_eq!(with("/spec/nodeName", "m"), None);
        assert_eq!(with("/status/nominatedNodeName", "m"), None);
        assert_eq!(with("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_waits_until_the_hints_of_the_others_are_set() {
        let registrations = Registrations::default();
        let (first, second) = (registrations.enter(), registrations.enter());
        let order = std::sync::Mutex::new(Vec::new());
        let say = |word: &'static str| order.lock().unwrap().push(word);
        tokio::join!(
            async {
                first.hints_are_set().await;
                say("first");
            },
            async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                say("second has its hints");
                second.hints_are_set().await;
            }
        );
        assert_eq!(*order.lock().unwrap(), ["second has its hints", "first"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_never_let_in_holds_up_nobody() {
        let registrations = Registrations::default();
        let _stuck = registrations.enter();
        let begun = tokio::time::Instant::now();
        registrations.enter().hints_are_set().await;
        assert_eq!(begun.elapsed(), GATHER + WAIT_FOR_OTHERS);
    }
}
