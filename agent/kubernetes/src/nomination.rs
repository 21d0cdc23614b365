//! Nominations: the pod's `status.nominatedNodeName`, which kube-scheduler tries first.
//!
//! A failed scheduling attempt clears a pod's nomination. Nominations are therefore set while the
//! taint `karpenter.sh/unregistered` still excludes the node, and the taint is removed afterwards.
//! Nodes that register at the same time wait for one another in between: a pod nominated for the
//! second node would otherwise be tried while only the first is schedulable, and lose its
//! nomination.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::debug;

use crate::api::Api;
use crate::error::ApiError;
use crate::object_cache::ObjectCache;
use crate::records::pod::NOMINATION_MANAGER;
use crate::resource::POD;

/// First minor version of Kubernetes 1 whose scheduler honours external nominations
/// (NominatedNodeNameForExpectation is on by default from 1.35).
const FIRST_SUPPORTED_MINOR: u32 = 35;

/// Concurrent nominations of all nodes: each is a request of some milliseconds, and an API server refuses (429) what is beyond
/// the share of a client.
const MAX_CONCURRENT: usize = 12;

static SLOTS: Semaphore = Semaphore::const_new(MAX_CONCURRENT);

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

/// Nominates one node for pods. Skips pods that are deleted, bound or nominated, and pods whose patch the API server rejects: a
/// prompt registration is more important than a nomination. What `cache` shows of a pod saves the request.
pub(crate) async fn nominate_pods(api: &Api, cache: &Arc<ObjectCache>, node: &str, nominations: &[v1::PodNomination]) {
    let mut tasks = JoinSet::new();
    for nomination in nominations {
        let (api, cache, node, nomination) = (api.clone(), Arc::clone(cache), node.to_owned(), nomination.clone());
        tasks.spawn(async move {
            let _slot = SLOTS.acquire().await;
            if !cache.lacks_nomination(&nomination, &node) {
                return;
            }
            if let Err(error) = nominate_pod(&api, &node, &nomination).await {
                debug!(pod = nomination.name, namespace = nomination.namespace, node, %error, "cannot nominate node for pod");
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn nominate_pod(api: &Api, node: &str, nomination: &v1::PodNomination) -> Result<(), ApiError> {
    let path = format!("{}/status", POD.one(&nomination.namespace, &nomination.name));
    api.json_patch_as(NOMINATION_MANAGER, &path, &nomination_patch(node, &nomination.uid)).await.map(drop)
}

/// The JSON patch (RFC 6902) that nominates `node`. The API server compares the pod as it is then, so that the agent need
/// not read it before, and refuses the patch for a pod that is to be skipped. A field that is not set equals null.
fn nomination_patch(node: &str, uid: &str) -> Value {
    let test = |path: &str, value: Value| json!({ "op": "test", "path": path, "value": value });
    json!([
        test("/metadata/uid", json!(uid)),
        test("/metadata/deletionTimestamp", Value::Null),
        test("/spec/nodeName", Value::Null),
        test("/status/nominatedNodeName", Value::Null),
        { "op": "add", "path": "/status/nominatedNodeName", "value": node },
    ])
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
        let tested = |patch: &Value| -> Vec<(String, Value)> {
            let tests = patch.as_array().unwrap().iter().filter(|step| step["op"] == "test");
            tests.map(|step| (step["path"].as_str().unwrap().to_owned(), step["value"].clone())).collect()
        };
        let patch = nomination_patch("n", "u");
        let expected = [
            ("/metadata/uid", json!("u")),
            ("/metadata/deletionTimestamp", Value::Null),
            ("/spec/nodeName", Value::Null),
            ("/status/nominatedNodeName", Value::Null),
        ];
        assert_eq!(tested(&patch), expected.map(|(path, value)| (path.to_owned(), value)));
        let written: Vec<&Value> = patch.as_array().unwrap().iter().filter(|step| step["op"] != "test").collect();
        assert_eq!(written, [&json!({ "op": "add", "path": "/status/nominatedNodeName", "value": "n" })]);
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
