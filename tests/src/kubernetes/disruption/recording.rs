//! A watch of all Nodes and of the Pods of a namespace, from its beginning to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use tokio::task::JoinHandle;

use super::history::{Change, NodeState, Object, PodState};
use crate::kubernetes::cluster::{Cluster, Poll, revision, wait_until};

const KINDS: usize = 2;

/// Records changes until it is dropped.
#[derive(Debug)]
pub struct Recording {
    recorded: Arc<Mutex<Recorded>>,
    watches: [JoinHandle<()>; KINDS],
}

#[derive(Debug, Default)]
struct Recorded {
    changes: Vec<Change>,
    /// Number of complete lists. A list beyond the first of each kind follows a gap.
    lists: usize,
    /// An object that could not be read.
    error: Option<String>,
}

fn lock(recorded: &Mutex<Recorded>) -> MutexGuard<'_, Recorded> {
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    /// Begins; returns when the objects that exist are recorded.
    ///
    /// # Errors
    /// When the API server does not list them in time.
    pub async fn start(cluster: &Cluster, timeout: Duration) -> anyhow::Result<Self> {
        let recorded = Arc::<Mutex<Recorded>>::default();
        let nodes = Api::<Node>::all(cluster.client.clone());
        let pods = Api::<Pod>::namespaced(cluster.client.clone(), &cluster.namespace);
        let node = |node: Option<&Node>| Ok(Object::Node(node.map(NodeState::of).transpose()?));
        let pod = |pod: Option<&Pod>| Ok(Object::Pod(pod.map(PodState::of).transpose()?));
        let watches = [
            tokio::spawn(record(nodes, node, Arc::clone(&recorded))),
            tokio::spawn(record(pods, pod, Arc::clone(&recorded))),
        ];
        let started = Self { recorded, watches };
        let poll = || async {
            let lists = lock(&started.recorded).lists;
            Ok(if lists >= KINDS { Poll::Ready(()) } else { Poll::Pending(format!("{lists} lists")) })
        };
        wait_until("Nodes and Pods are listed", timeout, poll).await?;
        Ok(started)
    }

    /// The changes until now, in the order of their revisions, once the watches have received what the API server has
    /// stored.
    ///
    /// # Errors
    /// When they do not in time, or an object could not be read.
    pub async fn changes(&self, cluster: &Cluster, timeout: Duration) -> anyhow::Result<Vec<Change>> {
        let poll = || async {
            let nodes = cluster.nodes().await?;
            let pods = cluster.pods().await?;
            let mut stored = nodes
                .iter()
                .map(|node| Ok((false, node.name_any(), revision(node)?)))
                .collect::<anyhow::Result<BTreeSet<_>>>()?;
            for pod in &pods {
                stored.insert((true, pod.name_any(), revision(pod)?));
            }
            let recorded = self.latest();
            Ok(if recorded == stored {
                Poll::Ready(())
            } else {
                Poll::Pending(format!("{} of {} objects", recorded.intersection(&stored).count(), stored.len()))
            })
        };
        wait_until("the watches have received all changes", timeout, poll).await?;
        let recorded = lock(&self.recorded);
        anyhow::ensure!(recorded.error.is_none(), "{:?}", recorded.error);
        let mut changes = recorded.changes.clone();
        changes.sort_by_key(|change| change.revision);
        Ok(changes)
    }

    /// Number of times that a watch had to begin anew, and may have missed instants.
    #[must_use]
    pub fn gaps(&self) -> usize {
        lock(&self.recorded).lists.saturating_sub(KINDS)
    }

    /// The objects that exist by what was received: whether it is a Pod, its name, its revision.
    fn latest(&self) -> BTreeSet<(bool, String, u64)> {
        let mut latest = BTreeMap::new();
        for change in &lock(&self.recorded).changes {
            let (is_pod, exists) = match &change.object {
                Object::Node(node) => (false, node.is_some()),
                Object::Pod(pod) => (true, pod.is_some()),
            };
            latest.insert((is_pod, change.name.clone()), exists.then_some(change.revision));
        }
        latest.into_iter().filter_map(|((is_pod, name), revision)| Some((is_pod, name, revision?))).collect()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

/// Records the changes of one kind until it is aborted.
async fn record<K>(api: Api<K>, read: fn(Option<&K>) -> anyhow::Result<Object>, recorded: Arc<Mutex<Recorded>>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
    let mut existing = BTreeSet::new();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        // The watch is resumed where it ended.
        let Ok(event) = event else { continue };
        let mut recorded = lock(&recorded);
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.insert(object.name_any());
                existing.insert(object.name_any());
                recorded.push(&object, read(Some(&object)));
            }
            Event::Apply(object) => {
                existing.insert(object.name_any());
                recorded.push(&object, read(Some(&object)));
            }
            Event::Delete(object) => {
                existing.remove(&object.name_any());
                recorded.push(&object, read(None));
            }
            Event::InitDone => {
                recorded.lists += 1;
                for name in existing.difference(&listed) {
                    recorded.push_missing(name, read(None));
                }
                existing.clone_from(&listed);
            }
        }
    }
}

impl Recorded {
    fn push<K: Resource>(&mut self, object: &K, read: anyhow::Result<Object>) {
        match revision(object).and_then(|revision| Ok((revision, read?))) {
            Ok((revision, object_after)) => self.changes.push(Change {
                revision,
                received: Timestamp::now(),
                name: object.name_any(),
                object: object_after,
            }),
            Err(error) => self.error = Some(format!("{}: {error:#}", object.name_any())),
        }
    }

    /// An object that disappeared in a gap: at the latest when the list was made.
    fn push_missing(&mut self, name: &str, read: anyhow::Result<Object>) {
        let revision = self.changes.iter().map(|change| change.revision).max().unwrap_or(0);
        if let Ok(object) = read {
            self.changes.push(Change { revision, received: Timestamp::now(), name: name.to_owned(), object });
        }
    }
}
