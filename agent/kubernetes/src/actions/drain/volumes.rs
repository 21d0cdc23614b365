//! Volumes that are still attached to a node that is drained.
//!
//! VolumeAttachments are not watched: there are as many as volumes, and only drains need them. They
//! are listed for all drains together, in pages, and at most every few seconds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::eviction_order::NodePod;
use crate::api::Api;
use crate::error::ApiError;
use crate::object_cache::ObjectCache;
use crate::resource::VOLUME_ATTACHMENT;

/// Maximum age of a list. Detaching a volume takes some seconds.
const MAX_AGE: Duration = Duration::from_secs(5);

const PAGE_SIZE: usize = 500;

/// The attachments of the last list.
#[derive(Debug, Default)]
pub struct Attachments(Mutex<Option<(Instant, Arc<Vec<Attachment>>)>>);

/// A PersistentVolume that is attached to a node; the volume is empty when it has none.
#[derive(Debug, PartialEq, Eq)]
struct Attachment {
    node: String,
    volume: String,
}

impl Attachments {
    /// PersistentVolumes that are attached to the node and that no remaining pod of the node uses.
    /// Volumes without a PersistentVolume are ignored (Karpenter: volume detachment).
    pub(super) async fn attached_volumes(
        &self,
        api: &Api,
        cache: &ObjectCache,
        node: &str,
        pods: &[NodePod],
    ) -> Result<Vec<String>, ApiError> {
        let listed = self.list_cached(api).await?;
        let volume = |pod: &NodePod, claim: &String| cache.volume_for_claim(&pod.namespace, claim);
        let used = pods
            .iter()
            .filter(|pod| pod.exempt)
            .flat_map(|pod| pod.claims.iter().filter_map(|claim| volume(pod, claim)));
        Ok(remaining(&listed, node, &used.collect()))
    }

    /// The attachments. Concurrent drains wait for one list.
    async fn list_cached(&self, api: &Api) -> Result<Arc<Vec<Attachment>>, ApiError> {
        let mut known = self.0.lock().await;
        if let Some((_, listed)) = known.as_ref().filter(|(at, _)| at.elapsed() < MAX_AGE) {
            return Ok(Arc::clone(listed));
        }
        let listed = Arc::new(list_attachments(api).await?);
        *known = Some((Instant::now(), Arc::clone(&listed)));
        Ok(listed)
    }
}

async fn list_attachments(api: &Api) -> Result<Vec<Attachment>, ApiError> {
    let mut attachments = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("{}?limit={PAGE_SIZE}&continue={next}", VOLUME_ATTACHMENT.all());
        let page: AttachmentList = api.get(&path).await?;
        attachments.extend(page.items.into_iter().map(|AttachmentJson { spec }| Attachment {
            node: spec.node_name,
            volume: spec.source.persistent_volume_name,
        }));
        next = page.metadata.r#continue;
        if next.is_empty() {
            return Ok(attachments);
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AttachmentList {
    metadata: ListMeta,
    items: Vec<AttachmentJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    r#continue: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AttachmentJson {
    spec: SpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    node_name: String,
    source: SourceJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceJson {
    persistent_volume_name: String,
}

fn remaining(listed: &[Attachment], node: &str, used: &BTreeSet<String>) -> Vec<String> {
    let here = listed.iter().filter(|attachment| attachment.node == node).map(|attachment| &attachment.volume);
    here.filter(|volume| !volume.is_empty() && !used.contains(*volume)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn however_many_drains_wait_attachments_are_listed_every_few_seconds() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let server = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let list = r#"{"metadata":{},"items":[{"spec":{"nodeName":"n","source":{"persistentVolumeName":"pv"}}}]}"#;
            std::future::ready(Response::builder().status(200).body(Body::from(list.as_bytes().to_vec())))
        });
        let api = Api::new(Client::new(server, "default"));
        let attachments = Arc::new(Attachments::default());
        let mut drains = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (api, attachments) = (api.clone(), Arc::clone(&attachments));
            drains.spawn(async move {
                for _ in 0..60 {
                    let listed = attachments.list_cached(&api).await.unwrap();
                    assert_eq!(remaining(&listed, "n", &BTreeSet::new()), ["pv"]);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
        while let Some(drain) = drains.join_next().await {
            drain.unwrap();
        }
        // 60 s in steps of 5.
        assert_eq!(asked.load(Ordering::Relaxed), 12);
    }

    #[test]
    fn volumes_of_other_nodes_of_pods_that_stay_and_without_a_name_are_not_awaited() {
        let attachment = |node: &str, volume: &str| Attachment { node: node.into(), volume: volume.into() };
        let items =
            vec![attachment("n", "pv-1"), attachment("n", "pv-2"), attachment("m", "pv-3"), attachment("n", "")];
        let used = BTreeSet::from(["pv-2".to_owned()]);
        assert_eq!(remaining(&items, "n", &used), ["pv-1"]);
    }
}
