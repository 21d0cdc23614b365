//! Volumes that are still attached to a node that is drained.
//!
//! VolumeAttachments are not watched: there are as many as volumes, and nobody else looks at them. They are listed for all drains
//! together, in pages, and at most every few seconds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::order::Guest;
use crate::api::Api;
use crate::cluster::Kubernetes;
use crate::error::ApiError;
use crate::resource::VOLUME_ATTACHMENT;

/// A list is good for this long. A volume takes some seconds to be detached.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// Attachments in one page.
const PAGE: usize = 500;

/// What is attached where, as last listed.
#[derive(Debug, Default)]
pub struct Attachments(Mutex<Option<(Instant, Arc<Vec<Attachment>>)>>);

/// A PersistentVolume that is attached to a node; the volume is empty when it has none.
#[derive(Debug, PartialEq, Eq)]
struct Attachment {
    node: String,
    volume: String,
}

impl Attachments {
    /// What is attached where. Drains that ask at one time wait for one list.
    async fn listed(&self, api: &Api) -> Result<Arc<Vec<Attachment>>, ApiError> {
        let mut known = self.0.lock().await;
        if let Some((_, listed)) = known.as_ref().filter(|(at, _)| at.elapsed() < GOOD_FOR) {
            return Ok(Arc::clone(listed));
        }
        let listed = Arc::new(list(api).await?);
        *known = Some((Instant::now(), Arc::clone(&listed)));
        Ok(listed)
    }
}

async fn list(api: &Api) -> Result<Vec<Attachment>, ApiError> {
    let mut attachments = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("{}?limit={PAGE}&continue={next}", VOLUME_ATTACHMENT.all());
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

/// PersistentVolumes that are attached to the node and that none of the pods that stay on it uses. Volumes without a
/// PersistentVolume do not count (Karpenter: volume detachment).
pub(super) async fn awaited(cluster: &Kubernetes, node: &str, guests: &[Guest]) -> Result<Vec<String>, ApiError> {
    let listed = cluster.attachments().listed(cluster.api()).await?;
    let used = guests
        .iter()
        .filter(|guest| guest.stays)
        .flat_map(|guest| guest.claims.iter().filter_map(|claim| cluster.picture().volume_of(&guest.namespace, claim)));
    Ok(remaining(&listed, node, &used.collect()))
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
                    let listed = attachments.listed(&api).await.unwrap();
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
