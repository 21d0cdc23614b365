//! The watches: one task for each kind, which takes the picture of the kind and follows it for ever.
//!
//! Where the API server streams lists (`sendInitialEvents`) the picture comes through the watch itself, one object at a time;
//! elsewhere in pages. What ends a watch (its time, the API server's restart, expired credentials, too many requests) is waited
//! out and the watch goes on where it stood; a place that the API server has forgotten (410) costs another picture. Attempts that
//! lead to nothing are made further and further apart, also when the API server reports no error.

mod lines;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agent::in_full;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::api::Api;
use crate::error::{ApiError, Kind};
use crate::moment::millis;
use crate::picture::{Change, Picture};
use crate::resource::{self, Resource};
use crate::seen::shape::Shared;
use crate::seen::{self, Read, opaque};
use lines::{Line, Lines, Word};

/// Objects in one page of a list: some 5 MB of pods.
const PAGE: usize = 500;

/// The API server ends a watch after this long, in seconds, and it goes on where it stood. Watches of one cluster are spread a
/// little by their kind, so that they do not end together.
const WATCH_SECONDS: u64 = 290;

/// A watch that says nothing for this long is begun again where it stood: a live one says where it stands about once a minute.
const SILENCE: Duration = Duration::from_secs(150);

/// A kind that the API server does not know is asked for again after this long: somebody may install it.
const ABSENT_AGAIN: Duration = Duration::from_secs(30);

/// A kind that was there is believed to be gone when the API server has denied it for this long; one that is starting may
/// deny what it has.
const ABSENCE_BELIEVED: Duration = Duration::from_secs(60);

/// A watch that lived for this long worked, also when it brought nothing: namespaces rarely change. One that ends sooner without
/// an object (a proxy that cuts the answer off, an API server without room) is begun again after a wait that grows, as after a
/// failure; otherwise the agent would open thousands of watches a second on an API server that is in trouble already.
const LIVED: Duration = Duration::from_secs(5);

/// Longest wait between two attempts, in milliseconds (client-go: reflector back-off, 30 s).
const LONGEST_WAIT_MS: u64 = 30_000;

/// What a watch shows.
#[derive(Clone, Copy)]
enum What {
    /// Objects for the picture.
    Objects(v1::ObjectKind, Read),
    /// Events by which Cluster Autoscaler says that it buys for a pod.
    ScaleUps,
}

#[derive(Clone, Copy)]
struct Watched {
    resource: Resource,
    selector: &'static str,
    what: What,
}

const fn objects(resource: Resource, kind: v1::ObjectKind, read: Read) -> Watched {
    Watched { resource, selector: "", what: What::Objects(kind, read) }
}

/// Everything that is watched.
const WATCHED: [Watched; 15] = [
    objects(resource::POD, v1::ObjectKind::Pod, seen::pod::read),
    objects(resource::NODE, v1::ObjectKind::Node, seen::node::read),
    objects(resource::NODE_CLAIM, v1::ObjectKind::NodeClaim, seen::claim::read),
    objects(resource::NODE_POOL, v1::ObjectKind::NodePool, seen::manifest::read_pool),
    objects(resource::NODE_CLASS, v1::ObjectKind::Ec2NodeClass, seen::manifest::read_class),
    objects(resource::NODE_OVERLAY, v1::ObjectKind::NodeOverlay, seen::manifest::read_overlay),
    objects(resource::DAEMON_SET, v1::ObjectKind::DaemonSet, seen::pod::read_daemon_set),
    objects(resource::NAMESPACE, v1::ObjectKind::Namespace, seen::policy::read_namespace),
    objects(resource::BUDGET, v1::ObjectKind::PodDisruptionBudget, seen::policy::read_budget),
    objects(resource::PRIORITY_CLASS, v1::ObjectKind::PriorityClass, seen::policy::read_priority_class),
    objects(resource::CLAIM, v1::ObjectKind::PersistentVolumeClaim, seen::storage::read_volume_claim),
    objects(resource::VOLUME, v1::ObjectKind::PersistentVolume, seen::storage::read_volume),
    objects(resource::STORAGE_CLASS, v1::ObjectKind::StorageClass, seen::storage::read_class),
    objects(resource::CSI_NODE, v1::ObjectKind::CsiNode, seen::node::read_csi),
    Watched {
        resource: resource::CORE_EVENT,
        selector: "&fieldSelector=reason%3DTriggeredScaleUp%2CinvolvedObject.kind%3DPod",
        what: What::ScaleUps,
    },
];

/// Kinds without which decisions are made when the role does not allow to see them, which is told. What they hold makes decisions
/// better and keeps none from being wrong: priorities of pods are resolved by the API server already, overlays adjust prices, and
/// limits on attachments of volumes are kept by kube-scheduler. All others are required: without them machines would be bought that
/// do not fit, or nodes removed that must stay.
const DISPENSABLE: [v1::ObjectKind; 3] =
    [v1::ObjectKind::PriorityClass, v1::ObjectKind::NodeOverlay, v1::ObjectKind::CsiNode];

/// Kinds that Karpenter writes to all the time that it is at work, and of which there are few.
fn kind_of_karpenter(kind: v1::ObjectKind) -> bool {
    matches!(kind, v1::ObjectKind::NodePool | v1::ObjectKind::NodeClaim | v1::ObjectKind::Ec2NodeClass)
}

/// A picture that waits for every kind that is watched.
#[must_use]
pub fn blank() -> Picture {
    Picture::of(WATCHED.iter().filter_map(|watched| match watched.what {
        What::Objects(kind, _) => Some(kind),
        What::ScaleUps => None,
    }))
}

/// Begins all watches. They end with the returned set. Without `streaming_lists` what is there is listed in pages from the beginning.
#[must_use]
pub fn begin(api: &Api, picture: &Arc<Picture>, streaming_lists: bool) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (number, watched) in (0..).zip(WATCHED) {
        let watcher = Watcher {
            api: api.clone(),
            picture: Arc::clone(picture),
            watched,
            seconds: WATCH_SECONDS - number,
            streams_lists: streaming_lists,
            shared: Shared::default(),
            stands_at: None,
            denied_since: None,
            progressed: false,
            unread: Vec::new(),
            unread_told: BTreeSet::new(),
            backoff: Backoff::up_to(LONGEST_WAIT_MS, number),
        };
        tasks.spawn(watcher.run());
    }
    tasks
}

struct Watcher {
    api: Api,
    picture: Arc<Picture>,
    watched: Watched,
    /// How long one watch lasts.
    seconds: u64,
    /// Unless the API server has said that it does not.
    streams_lists: bool,
    shared: Shared,
    /// The resource version up to which everything is known; `None` before the first picture.
    stands_at: Option<String>,
    /// Since when the API server has said that there is no such kind.
    denied_since: Option<Instant>,
    /// The present watch has brought an object that was not known; the first picture does not count, because it comes again
    /// with every attempt.
    progressed: bool,
    /// Objects of the picture that is being taken that cannot be read, by namespace and name.
    unread: Vec<(String, String)>,
    /// Objects that are known not to be readable; each is told once.
    unread_told: BTreeSet<(String, String)>,
    backoff: Backoff,
}

impl Watcher {
    async fn run(mut self) {
        loop {
            let ended = self.follow().await;
            match ended {
                Ok(()) if self.progressed => {}
                Ok(()) => self.wait_after("the watch ended at once and brought nothing").await,
                Err(error) => self.recover(error).await,
            }
        }
    }

    /// Waits before the next attempt, longer from one to the next until a watch has [lived](LIVED) or brought an object.
    async fn wait_after(&mut self, reason: &str) {
        let wait = Duration::from_millis(self.backoff.next_wait_ms());
        debug!(
            kind = self.watched.resource.kind,
            reason,
            retry_in_ms = wait.as_millis(),
            "waiting before the next watch"
        );
        tokio::time::sleep(wait).await;
    }

    /// The watch works: waits are short again.
    fn works(&mut self) {
        self.progressed = true;
        self.backoff.succeeded();
    }

    /// Takes the picture unless it is held, and follows it until the watch ends.
    async fn follow(&mut self) -> Result<(), ApiError> {
        if self.stands_at.is_none() && !self.streams_lists {
            self.list().await?;
        }
        let mut path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={}{}",
            self.watched.resource.all(),
            self.seconds,
            self.watched.selector
        );
        let initial = self.stands_at.is_none();
        match &self.stands_at {
            Some(version) => path.push_str(&format!("&resourceVersion={version}")),
            None => path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        self.progressed = false;
        let body = self.api.stream(&path).await?.into_body();
        self.denied_since = None;
        let begun = Instant::now();
        let ended = self.read(body, initial).await;
        if begun.elapsed() >= LIVED {
            self.works();
        }
        ended
    }

    /// What went wrong decides where to go on and how long to wait.
    async fn recover(&mut self, error: ApiError) {
        let resource = self.watched.resource;
        match error.kind {
            Kind::Gone => {
                debug!(
                    kind = resource.kind,
                    "the API server has forgotten where the watch stood; taking the picture again"
                );
                self.stands_at = None;
                // Taking the picture costs the API server most of all.
                self.wait_after("the picture is taken again").await;
            }
            Kind::Invalid if self.stands_at.is_none() && self.streams_lists => {
                debug!(kind = resource.kind, %error, "the API server does not stream lists; listing in pages");
                self.streams_lists = false;
            }
            Kind::NotFound => self.absent().await,
            _ => {
                let least = Duration::from_millis(self.backoff.next_wait_ms());
                let wait = error.retry_after.map_or(least, |asked| asked.max(least));
                if let What::Objects(kind, _) = self.watched.what {
                    let refused = error.kind == Kind::Forbidden;
                    self.picture.fails(kind, &error.to_string(), refused && DISPENSABLE.contains(&kind));
                }
                warn!(kind = resource.kind, %error, retry_in_ms = wait.as_millis(), "cannot watch");
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// The API server says that there is no such kind.
    async fn absent(&mut self) {
        let since = *self.denied_since.get_or_insert_with(Instant::now);
        let What::Objects(kind, _) = self.watched.what else { return tokio::time::sleep(ABSENT_AGAIN).await };
        let believed = !self.picture.has_seen(kind) || since.elapsed() >= ABSENCE_BELIEVED;
        if !believed || !self.api.is_ready().await {
            return tokio::time::sleep(Duration::from_millis(self.backoff.next_wait_ms())).await;
        }
        if !self.picture.has_seen(kind) || self.stands_at.is_some() {
            let resource = self.watched.resource;
            let (name, group) = (resource.plural, resource.group);
            info!(
                kind = resource.kind,
                "there is no {name}.{group} in this cluster; it is looked for from time to time"
            );
        }
        self.stands_at = None;
        self.picture.replace(kind, Vec::new(), &[]);
        tokio::time::sleep(ABSENT_AGAIN).await;
    }

    /// The picture in pages.
    async fn list(&mut self) -> Result<(), ApiError> {
        let mut rows = Vec::new();
        self.unread.clear();
        let mut next = String::new();
        loop {
            let path = format!(
                "{}?limit={PAGE}{}{}",
                self.watched.resource.all(),
                self.watched.selector,
                if next.is_empty() { String::new() } else { format!("&continue={next}") }
            );
            let page: Page = self.api.get(&path).await?;
            rows.extend(page.items.iter().filter_map(|item| self.row(item.get())));
            next = page.metadata.r#continue;
            if next.is_empty() {
                self.stands_at = Some(page.metadata.resource_version);
                break;
            }
        }
        self.picture_taken(rows);
        Ok(())
    }

    fn picture_taken(&mut self, rows: Vec<seen::Row>) {
        if let What::Objects(kind, _) = self.watched.what {
            debug!(kind = self.watched.resource.kind, objects = rows.len(), "picture taken");
            let unread = std::mem::take(&mut self.unread);
            self.picture.replace(kind, rows, &unread);
        }
    }

    /// Reads a watch to its end. While `initial`, objects are collected until the API server says that they are all.
    async fn read(&mut self, mut body: Body, initial: bool) -> Result<(), ApiError> {
        let mut lines = Lines::default();
        let mut collecting = initial.then(Vec::new);
        self.unread.clear();
        loop {
            let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else { return Ok(()) };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| self.broken(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            let mut words: VecDeque<Word> = lines.feed(data).map_err(|error| self.broken(&error))?;
            if let Some(rows) = &mut collecting {
                let complete = self.collect(&mut words, rows)?;
                if complete {
                    let rows = collecting.take().unwrap_or_default();
                    self.picture_taken(rows);
                }
            }
            if collecting.is_none() {
                self.apply(words)?;
            }
        }
    }

    /// Moves objects of the first picture from `words` to `rows`; says whether the picture is whole.
    fn collect(&mut self, words: &mut VecDeque<Word>, rows: &mut Vec<seen::Row>) -> Result<bool, ApiError> {
        while let Some(word) = words.pop_front() {
            match word.line {
                Line::Bookmark { version, end_of_initial } => {
                    if end_of_initial {
                        self.stands_at = Some(version);
                        return Ok(true);
                    }
                }
                Line::Added => rows.extend(self.row(&word.object)),
                Line::Deleted => {}
                Line::Error => return Err(self.told(&word.object)),
            }
        }
        Ok(false)
    }

    fn apply(&mut self, words: VecDeque<Word>) -> Result<(), ApiError> {
        let mut changes = Vec::with_capacity(words.len());
        let mut fault = None;
        let last = words.iter().rev().find(|word| !matches!(word.line, Line::Error)).map(Word::version);
        let brought = words.iter().any(|word| matches!(word.line, Line::Added | Line::Deleted));
        for word in words {
            match word.line {
                Line::Bookmark { .. } => {}
                Line::Added => changes.extend(self.row(&word.object).map(Change::There)),
                Line::Deleted => {
                    let head = lines::head(&word.object);
                    self.unread_told.remove(&(head.namespace.clone(), head.name.clone()));
                    changes.push(Change::Gone(head.namespace, head.name));
                }
                Line::Error => fault = Some(self.told(&word.object)),
            }
        }
        if let What::Objects(kind, _) = self.watched.what {
            self.picture.update(kind, changes);
        }
        if let Some(version) = last.filter(|version| !version.is_empty()) {
            self.stands_at = Some(version);
        }
        if brought {
            self.works();
        }
        fault.map_or(Ok(()), Err)
    }

    /// An object as a row. One that cannot be read must not keep the others from being seen, and must not look as if it were gone.
    fn row(&mut self, json: &str) -> Option<seen::Row> {
        match self.watched.what {
            What::Objects(kind, read) => {
                if kind_of_karpenter(kind) {
                    self.picture.karpenter_wrote(last_write_of_karpenter(json));
                }
                match read(json, &mut self.shared) {
                    Ok(row) => {
                        if !self.unread_told.is_empty() {
                            self.unread_told.remove(&(row.namespace.clone(), row.name.clone()));
                        }
                        Some(row)
                    }
                    Err(error) => self.unreadable(kind, json, &error.to_string()),
                }
            }
            What::ScaleUps => {
                if let Ok(event) = serde_json::from_str::<EventJson>(json) {
                    let object = &event.involved_object;
                    self.picture.scale_up(&object.namespace, &object.name, &object.uid, event.at_ms());
                }
                None
            }
        }
    }

    fn unreadable(&mut self, kind: v1::ObjectKind, json: &str, reason: &str) -> Option<seen::Row> {
        let head = lines::head(json);
        let key = (head.namespace, head.name);
        if self.unread_told.insert(key.clone()) {
            let (namespace, name) = (&key.0, &key.1);
            warn!(
                kind = self.watched.resource.kind,
                namespace, name, reason, "cannot read an object; what is known of it stays"
            );
        }
        let row = opaque::read(kind, json, reason, &mut self.shared);
        if row.is_none() {
            self.unread.push(key);
        }
        row
    }

    fn broken(&self, error: &dyn std::error::Error) -> ApiError {
        ApiError::unreachable(self.tried(), in_full(error))
    }

    /// An error that the API server told in the middle of a watch.
    fn told(&self, status: &str) -> ApiError {
        let status: crate::error::Status = serde_json::from_str(status).unwrap_or_default();
        let code = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        ApiError::of_status(self.tried(), code, status, None)
    }

    fn tried(&self) -> String {
        format!("watch {}", self.watched.resource.all())
    }
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

/// When Karpenter last wrote to this object, in milliseconds since 1970; 0 when it never did, or the object says nothing of it.
fn last_write_of_karpenter(json: &str) -> i64 {
    let Ok(ManagedJson { metadata }) = serde_json::from_str::<ManagedJson>(json) else { return 0 };
    let writes = metadata.managed_fields.iter().filter(|write| write.manager == KARPENTER);
    writes.map(|write| millis(write.time.as_deref())).max().unwrap_or_default()
}

/// Karpenter's name in `metadata.managedFields`: that of its program (client-go: the default field manager).
const KARPENTER: &str = "karpenter";

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedJson {
    metadata: ManagedMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ManagedMeta {
    managed_fields: Vec<WriteJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteJson {
    manager: String,
    time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventJson {
    involved_object: InvolvedJson,
    last_timestamp: Option<String>,
    event_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InvolvedJson {
    namespace: String,
    name: String,
    uid: String,
}

impl EventJson {
    fn at_ms(&self) -> i64 {
        millis(self.last_timestamp.as_deref()).max(millis(self.event_time.as_deref()))
    }
}

#[cfg(test)]
mod tests;
