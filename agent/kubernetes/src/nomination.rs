//! Nominations: the pod's `status.nominatedNodeName`, which kube-scheduler tries first.
//!
//! A failed scheduling attempt clears a pod's nomination. Nominations are therefore set while the
//! taint `karpenter.sh/unregistered` still excludes the node, and the taint is removed afterwards.
//! Nodes that register at the same time wait for one another in between: a pod nominated for the
//! second node would otherwise be tried while only the first is schedulable, and lose its
//! nomination.

use std::time::Duration;

use fleetwright_proto::v1;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::debug;

use crate::api::Api;
use crate::error::{ApiError, ErrorKind};
use crate::fields::text_at;
use crate::resource::POD;

/// Field manager of nominations in `metadata.managedFields`: distinguishes them from the
/// scheduler's own, also after a restart of the agent.
pub const NOMINATION_MANAGER: &str = "fleetwright-agent-nominations";

/// First minor version of Kubernetes 1 whose scheduler honours external nominations
/// (NominatedNodeNameForExpectation is on by default from 1.35).
const FIRST_SUPPORTED_MINOR: u32 = 35;

/// Concurrent nominations: each is two requests of some milliseconds.
const MAX_CONCURRENT: usize = 8;

/// Attempts for a pod whose status changes concurrently.
const MAX_ATTEMPTS: usize = 3;

/// Registrations that the server requests together arrive within this time.
const GATHER_WINDOW: Duration = Duration::from_millis(100);

/// Longest wait for the nominations of other nodes. Hundreds of nominations take a busy API server
/// some seconds.
const MAX_WAIT_FOR_OTHERS: Duration = Duration::from_secs(10);

/// Whether the scheduler of an API server of this version, such as `v1.35.2`, honours nominations.
#[must_use]
pub fn is_supported(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse::<u32>().unwrap_or_default()
    });
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    (major, minor) >= (1, FIRST_SUPPORTED_MINOR)
}

/// Nominates one node for pods. Skips pods that are deleted, bound or nominated otherwise, and pods
/// whose patch the API server rejects: a prompt registration is more important than a nomination.
pub async fn nominate_pods(api: &Api, node: &str, nominations: &[v1::PodNomination]) {
    let mut tasks = JoinSet::new();
    for nomination in nominations {
        if tasks.len() >= MAX_CONCURRENT {
            tasks.join_next().await;
        }
        let (api, node, nomination) = (api.clone(), node.to_owned(), nomination.clone());
        tasks.spawn(async move {
            if let Err(error) = nominate_pod(&api, &node, &nomination).await {
                debug!(pod = nomination.name, namespace = nomination.namespace, node, %error, "cannot nominate node for pod");
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn nominate_pod(api: &Api, node: &str, nomination: &v1::PodNomination) -> Result<(), ApiError> {
    let path = POD.one(&nomination.namespace, &nomination.name);
    for attempt in 1.. {
        let pod: Value = api.get(&path).await?;
        let Some(patch) = nomination_patch(&pod, node, &nomination.uid) else { return Ok(()) };
        match api.patch_as(NOMINATION_MANAGER, &format!("{path}/status"), &patch).await {
            Err(error) if error.kind == ErrorKind::Conflict && attempt < MAX_ATTEMPTS => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
    Ok(())
}

/// The patch that nominates `node`; `None` for a pod to be skipped.
fn nomination_patch(pod: &Value, node: &str, uid: &str) -> Option<Value> {
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

/// Counts the nodes that are registering and whose nominations are not complete.
#[derive(Debug)]
pub struct PendingRegistrations {
    without_nominations: watch::Sender<usize>,
}

impl Default for PendingRegistrations {
    fn default() -> Self {
        Self { without_nominations: watch::Sender::new(0) }
    }
}

impl PendingRegistrations {
    /// Begins the registration of a node.
    #[must_use]
    pub fn begin_registration(&self) -> PendingRegistration<'_> {
        self.without_nominations.send_modify(|count| *count += 1);
        PendingRegistration { registrations: self }
    }
}

/// A node that is registering, until its nominations are set or it is dropped.
#[derive(Debug)]
pub struct PendingRegistration<'r> {
    registrations: &'r PendingRegistrations,
}

impl PendingRegistration<'_> {
    /// The nominations of this node are set; completes when those of the other nodes are, or after
    /// the longest wait.
    pub async fn await_others(self) {
        let mut others = self.registrations.without_nominations.subscribe();
        tokio::time::sleep(GATHER_WINDOW).await;
        drop(self);
        let _late = tokio::time::timeout(MAX_WAIT_FOR_OTHERS, others.wait_for(|count| *count == 0)).await;
    }
}

impl Drop for PendingRegistration<'_> {
    fn drop(&mut self) {
        self.registrations.without_nominations.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nominations_are_supported_from_1_35_on() {
        for (version, honoured) in [
            ("v1.34.9", false),
            ("v1.35.0", true),
            ("v1.35.2-eks-1", true),
            ("v1.40+", true),
            ("v2.0.0", true),
            ("", false),
        ] {
            assert_eq!(is_supported(version), honoured, "{version}");
        }
    }

    #[test]
    fn only_a_pending_pod_of_that_uid_without_a_nomination_is_nominated() {
        let pod = json!({ "metadata": { "uid": "u", "resourceVersion": "5" }, "spec": {}, "status": {} });
        let expected = json!({
            "metadata": { "uid": "u", "resourceVersion": "5" }, "status": { "nominatedNodeName": "n" },
        });
        assert_eq!(nomination_patch(&pod, "n", "u"), Some(expected));
        assert_eq!(nomination_patch(&pod, "n", "another"), None);
        let with = |pointer: &str, value: &str| {
            let mut pod = pod.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key] = json!(value);
            nomination_patch(&pod, "n", "u")
        };
        assert_eq!(with("/spec/nodeName", "m"), None);
        assert_eq!(with("/status/nominatedNodeName", "m"), None);
        assert_eq!(with("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_registration_waits_for_the_nominations_of_the_others() {
        let registrations = PendingRegistrations::default();
        let (first, second) = (registrations.begin_registration(), registrations.begin_registration());
        let order = std::sync::Mutex::new(Vec::new());
        let say = |word: &'static str| order.lock().unwrap().push(word);
        tokio::join!(
            async {
                first.await_others().await;
                say("first");
            },
            async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                say("second has its nominations");
                second.await_others().await;
            }
        );
        assert_eq!(*order.lock().unwrap(), ["second has its nominations", "first"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_never_registers_blocks_the_others_for_a_bounded_time() {
        let registrations = PendingRegistrations::default();
        let _stuck = registrations.begin_registration();
        let begun = tokio::time::Instant::now();
        registrations.begin_registration().await_others().await;
        assert_eq!(begun.elapsed(), GATHER_WINDOW + MAX_WAIT_FOR_OTHERS);
    }
}
