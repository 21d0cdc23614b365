//! The watches: one task for each kind, which lists the kind and follows it until aborted.
//!
//! With streaming lists (`sendInitialEvents`) the list arrives through the watch, one object at a
//! time; otherwise in pages. After an error (timeout, restart of the API server, expired
//! credentials, too many requests) the watch resumes at its resource version; an expired version
//! (410) requires a relist. Attempts without progress back off, also when the API server reports no
//! error.

mod absent_kinds;
mod decoder;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agent::error_chain;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::api::Api;
use crate::error::{ApiError, ErrorKind};
use crate::object_cache::{ObjectCache, ObjectChange};
use crate::records::shape::ShapeInterner;
use crate::records::{self, Parser, unreadable};
use crate::resource::{self, Resource};
use crate::timestamps::parse_millis;
use decoder::{EventDecoder, EventKind, WatchEvent};

/// Objects in one page of a list: some 5 MB of pods.
const PAGE_SIZE: usize = 500;

/// Duration of a watch in seconds; it then resumes at its resource version. The durations differ a
/// little by kind, so that the watches do not end together.
const WATCH_SECONDS: u64 = 290;

/// A watch without any event for this long is restarted: a live one delivers a bookmark about once
/// a minute.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(150);

/// Retry interval for a kind that is not installed.
const ABSENT_RETRY: Duration = Duration::from_secs(30);

/// A kind that existed counts as removed when the API server has denied it for this long; one that
/// is starting may deny kinds that it has.
const ABSENCE_CONFIRMED: Duration = Duration::from_secs(60);

/// A watch that lasted this long was healthy, also without events: namespaces rarely change. One
/// that ends sooner without an object (a proxy that cuts the response, an overloaded API server) is
/// restarted with backoff, as after an error; otherwise the agent would open thousands of watches a
/// second on an overloaded API server.
const MIN_HEALTHY: Duration = Duration::from_secs(5);

/// Longest wait between two attempts, in milliseconds (client-go: reflector back-off, 30 s).
const MAX_RETRY_MS: u64 = 30_000;

#[derive(Clone, Copy)]
enum WatchTarget {
    Objects(v1::ObjectKind, Parser),
    /// Events by which Cluster Autoscaler announces a scale-up for a pod.
    ScaleUps,
}

#[derive(Clone, Copy)]
struct WatchSpec {
    resource: Resource,
    selector: &'static str,
    target: WatchTarget,
}

const fn objects(resource: Resource, kind: v1::ObjectKind, read: Parser) -> WatchSpec {
    WatchSpec { resource, selector: "", target: WatchTarget::Objects(kind, read) }
}

const WATCHES: [WatchSpec; 15] = [
    objects(resource::POD, v1::ObjectKind::Pod, records::pod::parse),
    objects(resource::NODE, v1::ObjectKind::Node, records::node::parse),
    objects(resource::NODE_CLAIM, v1::ObjectKind::NodeClaim, records::claim::parse),
    objects(resource::NODE_POOL, v1::ObjectKind::NodePool, records::manifest::parse_pool),
    objects(resource::NODE_CLASS, v1::ObjectKind::Ec2NodeClass, records::manifest::parse_class),
    objects(resource::NODE_OVERLAY, v1::ObjectKind::NodeOverlay, records::manifest::parse_overlay),
    objects(resource::DAEMON_SET, v1::ObjectKind::DaemonSet, records::pod::parse_daemon_set),
    objects(resource::NAMESPACE, v1::ObjectKind::Namespace, records::policy::parse_namespace),
    objects(resource::BUDGET, v1::ObjectKind::PodDisruptionBudget, records::policy::parse_budget),
    objects(resource::PRIORITY_CLASS, v1::ObjectKind::PriorityClass, records::policy::parse_priority_class),
    objects(resource::CLAIM, v1::ObjectKind::PersistentVolumeClaim, records::storage::parse_volume_claim),
    objects(resource::VOLUME, v1::ObjectKind::PersistentVolume, records::storage::parse_volume),
    objects(resource::STORAGE_CLASS, v1::ObjectKind::StorageClass, records::storage::parse_class),
    objects(resource::CSI_NODE, v1::ObjectKind::CsiNode, records::node::parse_csi),
    WatchSpec {
        resource: resource::CORE_EVENT,
        selector: "&fieldSelector=reason%3DTriggeredScaleUp%2CinvolvedObject.kind%3DPod",
        target: WatchTarget::ScaleUps,
    },
];

/// Optional kinds: when the role forbids them, decisions are made without, and the server is
/// informed. They refine decisions and prevent no wrong ones: the API server resolves priorities of
/// pods already, overlays adjust prices, and kube-scheduler enforces attach limits of volumes. All
/// other kinds are required: without them instances would not fit, or nodes would be removed that
/// must stay.
const OPTIONAL_KINDS: [v1::ObjectKind; 3] =
    [v1::ObjectKind::PriorityClass, v1::ObjectKind::NodeOverlay, v1::ObjectKind::CsiNode];

/// Kinds that an active Karpenter writes regularly, and of which there are few.
fn is_written_by_karpenter(kind: v1::ObjectKind) -> bool {
    matches!(kind, v1::ObjectKind::NodePool | v1::ObjectKind::NodeClaim | v1::ObjectKind::Ec2NodeClass)
}

/// A cache that waits for every watched kind.
#[must_use]
pub fn empty_cache() -> ObjectCache {
    ObjectCache::new(WATCHES.iter().filter_map(|spec| match spec.target {
        WatchTarget::Objects(kind, _) => Some(kind),
        WatchTarget::ScaleUps => None,
    }))
}

/// Starts all watches. They end with the returned set. Without `streaming_lists` objects are listed
/// in pages.
#[must_use]
pub fn start_watches(api: &Api, cache: &Arc<ObjectCache>, streaming_lists: bool) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (absent_kinds, names) = mpsc::unbounded_channel();
    tasks.spawn(absent_kinds::log_absent_kinds(names));
    for (number, spec) in (0..).zip(WATCHES) {
        let watcher = Watcher {
            api: api.clone(),
            cache: Arc::clone(cache),
            spec,
            timeout_seconds: WATCH_SECONDS - number,
            supports_streaming_lists: streaming_lists,
            absent_kinds: absent_kinds.clone(),
            shared: ShapeInterner::default(),
            resource_version: None,
            absent_since: None,
            progressed: false,
            unreadable: Vec::new(),
            unreadable_logged: BTreeSet::new(),
            backoff: Backoff::with_longest(MAX_RETRY_MS, number),
        };
        tasks.spawn(watcher.run());
    }
    tasks
}

struct Watcher {
    api: Api,
    cache: Arc<ObjectCache>,
    spec: WatchSpec,
    /// Duration of one watch, in seconds.
    timeout_seconds: u64,
    /// Cleared when the API server rejects streaming lists.
    supports_streaming_lists: bool,
    /// The log of kinds that the API server does not have.
    absent_kinds: mpsc::UnboundedSender<String>,
    shared: ShapeInterner,
    /// The resource version of the cache; `None` before the first list.
    resource_version: Option<String>,
    /// Since when the API server has reported that the kind does not exist.
    absent_since: Option<Instant>,
    /// The present watch delivered a new object; the initial list does not count, because every
    /// attempt repeats it.
    progressed: bool,
    /// Objects of the present list that cannot be parsed, by namespace and name.
    unreadable: Vec<(String, String)>,
    /// Objects that cannot be parsed; each is logged once.
    unreadable_logged: BTreeSet<(String, String)>,
    backoff: Backoff,
}

impl Watcher {
    async fn run(mut self) {
        loop {
            let ended = self.watch_once().await;
            match ended {
                Ok(()) if self.progressed => {}
                Ok(()) => self.wait_before_retry("watch ended early without events").await,
                Err(error) => self.handle_error(error).await,
            }
        }
    }

    /// Waits before the next attempt, longer each time until a watch [stays healthy](MIN_HEALTHY)
    /// or delivers an object.
    async fn wait_before_retry(&mut self, reason: &str) {
        let wait = Duration::from_millis(self.backoff.next_wait_ms());
        debug!(kind = self.spec.resource.kind, reason, retry_in_ms = wait.as_millis(), "waiting before the next watch");
        tokio::time::sleep(wait).await;
    }

    /// Resets the backoff, because the watch is healthy.
    fn mark_progress(&mut self) {
        self.progressed = true;
        self.backoff.reset();
    }

    /// Lists the kind if necessary, and watches it until the watch ends.
    async fn watch_once(&mut self) -> Result<(), ApiError> {
        if self.resource_version.is_none() && !self.supports_streaming_lists {
            self.list_pages().await?;
        }
        let mut path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={}{}",
            self.spec.resource.all(),
            self.timeout_seconds,
            self.spec.selector
        );
        let initial = self.resource_version.is_none();
        match &self.resource_version {
            Some(version) => path.push_str(&format!("&resourceVersion={version}")),
            None => path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        self.progressed = false;
        let body = self.api.stream(&path).await?.into_body();
        self.absent_since = None;
        let begun = Instant::now();
        let ended = self.read_stream(body, initial).await;
        if begun.elapsed() >= MIN_HEALTHY {
            self.mark_progress();
        }
        ended
    }

    /// Determines from the error where to resume and how long to wait.
    async fn handle_error(&mut self, error: ApiError) {
        let resource = self.spec.resource;
        match error.kind {
            ErrorKind::Gone => {
                debug!(kind = resource.kind, "resource version expired; relisting");
                self.resource_version = None;
                // A relist is the most expensive request for the API server.
                self.wait_before_retry("relisting").await;
            }
            ErrorKind::Invalid if self.resource_version.is_none() && self.supports_streaming_lists => {
                debug!(kind = resource.kind, %error, "streaming lists not supported; listing in pages");
                self.supports_streaming_lists = false;
            }
            ErrorKind::NotFound => self.handle_missing_kind().await,
            _ => {
                let least = Duration::from_millis(self.backoff.next_wait_ms());
                let wait = error.retry_after.map_or(least, |asked| asked.max(least));
                if let WatchTarget::Objects(kind, _) = self.spec.target {
                    let refused = error.kind == ErrorKind::Forbidden;
                    self.cache.mark_failed(kind, &error.to_string(), refused && OPTIONAL_KINDS.contains(&kind));
                }
                warn!(kind = resource.kind, %error, retry_in_ms = wait.as_millis(), "watch failed; retrying");
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// The API server reports that the kind does not exist.
    async fn handle_missing_kind(&mut self) {
        let since = *self.absent_since.get_or_insert_with(Instant::now);
        let WatchTarget::Objects(kind, _) = self.spec.target else { return tokio::time::sleep(ABSENT_RETRY).await };
        let confirmed = !self.cache.is_synced(kind) || since.elapsed() >= ABSENCE_CONFIRMED;
        if !confirmed || !self.api.is_ready().await {
            return tokio::time::sleep(Duration::from_millis(self.backoff.next_wait_ms())).await;
        }
        if !self.cache.is_synced(kind) || self.resource_version.is_some() {
            let Resource { plural, group, .. } = self.spec.resource;
            // The log ends with the watches.
            drop(self.absent_kinds.send(format!("{plural}.{group}").trim_end_matches('.').to_owned()));
        }
        self.resource_version = None;
        self.cache.replace_objects(kind, Vec::new(), &[]);
        tokio::time::sleep(ABSENT_RETRY).await;
    }

    async fn list_pages(&mut self) -> Result<(), ApiError> {
        let mut objects_read = Vec::new();
        self.unreadable.clear();
        let mut next = String::new();
        loop {
            let path = format!(
                "{}?limit={PAGE_SIZE}{}{}",
                self.spec.resource.all(),
                self.spec.selector,
                if next.is_empty() { String::new() } else { format!("&continue={next}") }
            );
            let page: Page = self.api.get(&path).await?;
            objects_read.extend(page.items.iter().filter_map(|item| self.parse_object(item.get())));
            next = page.metadata.r#continue;
            if next.is_empty() {
                self.resource_version = Some(page.metadata.resource_version);
                break;
            }
        }
        self.replace_objects(objects_read);
        Ok(())
    }

    fn replace_objects(&mut self, objects_read: Vec<records::ParsedObject>) {
        if let WatchTarget::Objects(kind, _) = self.spec.target {
            debug!(kind = self.spec.resource.kind, objects = objects_read.len(), "objects listed");
            let unreadable = std::mem::take(&mut self.unreadable);
            self.cache.replace_objects(kind, objects_read, &unreadable);
        }
    }

    /// Reads a watch to its end. With `initial`, objects are collected until the bookmark that ends
    /// the list.
    async fn read_stream(&mut self, mut body: Body, initial: bool) -> Result<(), ApiError> {
        let mut decoder = EventDecoder::default();
        let mut collecting = initial.then(Vec::new);
        self.unreadable.clear();
        loop {
            let Ok(frame) = tokio::time::timeout(SILENCE_TIMEOUT, body.frame()).await else { return Ok(()) };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| self.stream_error(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            let mut events: VecDeque<WatchEvent> = decoder.decode(data).map_err(|error| self.stream_error(&error))?;
            if let Some(objects_read) = &mut collecting {
                let complete = self.collect_initial(&mut events, objects_read)?;
                if complete {
                    let objects_read = collecting.take().unwrap_or_default();
                    self.replace_objects(objects_read);
                }
            }
            if collecting.is_none() {
                self.apply_events(events)?;
            }
        }
    }

    /// Moves objects of the initial list from `events` to `objects_read`; returns whether the list
    /// is complete.
    fn collect_initial(
        &mut self,
        events: &mut VecDeque<WatchEvent>,
        objects_read: &mut Vec<records::ParsedObject>,
    ) -> Result<bool, ApiError> {
        while let Some(event) = events.pop_front() {
            match event.kind {
                EventKind::Bookmark { version, end_of_initial } => {
                    if end_of_initial {
                        self.resource_version = Some(version);
                        return Ok(true);
                    }
                }
                EventKind::Added => objects_read.extend(self.parse_object(&event.object)),
                EventKind::Deleted => {}
                EventKind::Error => return Err(self.status_error(&event.object)),
            }
        }
        Ok(false)
    }

    fn apply_events(&mut self, events: VecDeque<WatchEvent>) -> Result<(), ApiError> {
        let mut changes = Vec::with_capacity(events.len());
        let mut error = None;
        let last = events.iter().rev().find(|event| !matches!(event.kind, EventKind::Error)).map(WatchEvent::version);
        let has_objects = events.iter().any(|event| matches!(event.kind, EventKind::Added | EventKind::Deleted));
        for event in events {
            match event.kind {
                EventKind::Bookmark { .. } => {}
                EventKind::Added => changes.extend(self.parse_object(&event.object).map(ObjectChange::Applied)),
                EventKind::Deleted => {
                    let name = decoder::object_name(&event.object);
                    self.unreadable_logged.remove(&(name.namespace.clone(), name.name.clone()));
                    changes.push(ObjectChange::Deleted(name.namespace, name.name));
                }
                EventKind::Error => error = Some(self.status_error(&event.object)),
            }
        }
        if let WatchTarget::Objects(kind, _) = self.spec.target {
            self.cache.apply_changes(kind, changes);
        }
        if let Some(version) = last.filter(|version| !version.is_empty()) {
            self.resource_version = Some(version);
        }
        if has_objects {
            self.mark_progress();
        }
        error.map_or(Ok(()), Err)
    }

    /// Parses an object. One that cannot be parsed must neither block the others nor count as
    /// removed.
    fn parse_object(&mut self, json: &str) -> Option<records::ParsedObject> {
        match self.spec.target {
            WatchTarget::Objects(kind, read) => {
                if is_written_by_karpenter(kind) {
                    self.cache.record_karpenter_write(last_karpenter_write(json));
                }
                match records::parse(read, json, &mut self.shared) {
                    Ok(object) => {
                        if !self.unreadable_logged.is_empty() {
                            self.unreadable_logged.remove(&(object.namespace.clone(), object.name.clone()));
                        }
                        Some(object)
                    }
                    Err(error) => self.parse_unreadable(kind, json, &error.to_string()),
                }
            }
            WatchTarget::ScaleUps => {
                if let Ok(event) = serde_json::from_str::<EventJson>(json) {
                    let object = &event.involved_object;
                    self.cache.record_scale_up(&object.namespace, &object.name, &object.uid, event.at_ms());
                }
                None
            }
        }
    }

    fn parse_unreadable(&mut self, kind: v1::ObjectKind, json: &str, reason: &str) -> Option<records::ParsedObject> {
        let name = decoder::object_name(json);
        let key = (name.namespace, name.name);
        if self.unreadable_logged.insert(key.clone()) {
            let (namespace, name) = (&key.0, &key.1);
            warn!(
                kind = self.spec.resource.kind,
                namespace, name, reason, "cannot parse object; last known state kept"
            );
        }
        let object = unreadable::parse(kind, json, reason, &mut self.shared);
        if object.is_none() {
            self.unreadable.push(key);
        }
        object
    }

    fn stream_error(&self, error: &dyn std::error::Error) -> ApiError {
        ApiError::unreachable(self.operation(), error_chain(error))
    }

    /// An error that the API server sent during a watch.
    fn status_error(&self, status: &str) -> ApiError {
        let status: crate::error::Status = serde_json::from_str(status).unwrap_or_default();
        let code = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        ApiError::from_status(self.operation(), code, status, None)
    }

    fn operation(&self) -> String {
        format!("watch {}", self.spec.resource.all())
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

/// When Karpenter last wrote this object, in milliseconds since 1970; 0 without a write or without
/// managed fields.
fn last_karpenter_write(json: &str) -> i64 {
    let Ok(ManagedJson { metadata }) = serde_json::from_str::<ManagedJson>(json) else { return 0 };
    let writes = metadata.managed_fields.iter().filter(|write| write.manager == KARPENTER);
    writes.map(|write| parse_millis(write.time.as_deref())).max().unwrap_or_default()
}

/// Karpenter's field manager in `metadata.managedFields`: the name of its binary (client-go: the
/// default).
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
        parse_millis(self.last_timestamp.as_deref()).max(parse_millis(self.event_time.as_deref()))
    }
}

#[cfg(test)]
mod tests;
