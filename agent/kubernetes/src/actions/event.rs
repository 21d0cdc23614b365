//! Events for operators. A repeated event increases the count of the existing one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Value, json};

use super::attempt::Attempt;
use crate::api::{Api, FIELD_MANAGER};
use crate::error::{ApiError, ok_if_not_found};
use crate::fields::text_at;
use crate::resource::{self, EVENT, Resource};

/// Maximum number of event series in memory. Kubernetes itself deletes events after an hour.
const MAX_SERIES: usize = 1_000;
/// A series ends after this long without the event (Kubernetes: the API server ends a series after
/// 6 minutes).
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// Minimum interval between increments of an event's count (Karpenter: events of one reason are two
/// minutes apart).
const MIN_INTERVAL: Duration = Duration::from_secs(120);
/// Maximum length of a note in bytes (events.k8s.io/v1).
const MAX_NOTE_BYTES: usize = 1_024;
/// Namespace of events about objects without a namespace, as for Kubernetes' own events.
const DEFAULT_NAMESPACE: &str = "default";

/// An event and the object that it regards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventSpec {
    pub(crate) resource: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) note: String,
}

#[derive(Debug, Clone)]
struct Series {
    event: String,
    count: u32,
    written: Instant,
}

/// The write that an event requires.
#[derive(Debug, PartialEq, Eq)]
enum EventWrite {
    /// Write an event of this name.
    Create(String),
    /// Raise the count of the event of this name.
    UpdateSeries(String, u32),
    /// The event was written recently.
    Skip,
}

#[derive(Debug, Default)]
struct EventSeries {
    known: Mutex<BTreeMap<EventSpec, Series>>,
}

impl EventSeries {
    fn plan_write(&self, spec: &EventSpec, now: Instant, unique: &str) -> EventWrite {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get_mut(spec).filter(|series| now.duration_since(series.written) < SERIES_TIMEOUT) {
            series.count += 1;
            if now.duration_since(series.written) < MIN_INTERVAL {
                return EventWrite::Skip;
            }
            series.written = now;
            return EventWrite::UpdateSeries(series.event.clone(), series.count);
        }
        if known.len() >= MAX_SERIES {
            known.retain(|_, series| now.duration_since(series.written) < SERIES_TIMEOUT);
        }
        if known.len() >= MAX_SERIES {
            known.clear();
        }
        let event = format!("{}.{unique}", spec.name);
        known.insert(spec.clone(), Series { event: event.clone(), count: 1, written: now });
        EventWrite::Create(event)
    }

    fn remove_series(&self, spec: &EventSpec) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(spec);
    }
}

/// Writes events and counts their series.
pub(crate) struct EventRecorder {
    api: Api,
    /// Identity of this process, as shown in events.
    instance: String,
    series: EventSeries,
}

impl EventRecorder {
    pub(crate) fn new(api: Api, instance: String) -> Self {
        Self { api, instance, series: EventSeries::default() }
    }

    /// Writes an event about an object whose UID is `uid`.
    pub(crate) async fn record_event(&self, spec: &EventSpec, uid: &str) -> Result<(), ApiError> {
        let now = jiff::Timestamp::now();
        let unique = format!("{:x}", now.as_nanosecond());
        let moment = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let write = self.series.plan_write(spec, Instant::now(), &unique);
        let written = match write {
            EventWrite::Skip => return Ok(()),
            EventWrite::UpdateSeries(event, count) => {
                let series = json!({ "series": { "count": count, "lastObservedTime": moment } });
                ok_if_not_found(self.api.patch(&EVENT.one(event_namespace(&spec.namespace), &event), &series).await)
            }
            EventWrite::Create(event) => {
                let object = manifest(spec, uid, &event, &moment, &self.instance);
                self.api.create(&EVENT.within(event_namespace(&spec.namespace)), &object).await.map(Some)
            }
        };
        if !matches!(written, Ok(Some(_))) {
            self.series.remove_series(spec);
        }
        written.map(drop)
    }
}

fn event_namespace(namespace: &str) -> &str {
    if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace }
}

fn manifest(spec: &EventSpec, uid: &str, event: &str, moment: &str, instance: &str) -> Value {
    let mut note = spec.note.clone();
    if note.len() > MAX_NOTE_BYTES {
        let end = (0..=MAX_NOTE_BYTES - 1).rev().find(|at| note.is_char_boundary(*at)).unwrap_or_default();
        note.truncate(end);
    }
    let regarded: Option<Resource> = resource_by_kind(spec.resource);
    json!({
        "apiVersion": EVENT.api_version(),
        "kind": EVENT.kind,
        "metadata": { "name": event, "namespace": event_namespace(&spec.namespace) },
        "eventTime": moment,
        "reportingController": FIELD_MANAGER,
        "reportingInstance": instance,
        "action": spec.reason,
        "reason": spec.reason,
        "type": spec.kind,
        "note": note,
        "regarding": {
            "apiVersion": regarded.map(|resource| resource.api_version()),
            "kind": spec.resource,
            "namespace": spec.namespace,
            "name": spec.name,
            "uid": uid,
        },
    })
}

fn resource_by_kind(kind: &str) -> Option<Resource> {
    let kinds = [
        resource::POD,
        resource::NODE,
        resource::NODE_CLAIM,
        resource::NODE_POOL,
        resource::NODE_CLASS,
        resource::NODE_OVERLAY,
    ];
    kinds.into_iter().find(|resource| resource.kind == kind)
}

/// Executes a `RecordEvent`. A deleted object needs no event.
pub(super) async fn record_event(api: &Api, events: &EventRecorder, action: &v1::RecordEvent) -> Attempt {
    let Some(resource) = resource::of_kind(action.kind()) else {
        return Ok(Done::failed(v1::Outcome::Unsupported, format!("the agent writes no events about {}", action.kind)));
    };
    let uid = if action.uid.is_empty() {
        let object: Option<Value> = ok_if_not_found(api.get(&resource.one(&action.namespace, &action.name)).await)?;
        let Some(object) = object else {
            return Ok(Done::failed(
                v1::Outcome::NotFound,
                format!("{} {} does not exist", resource.kind, action.name),
            ));
        };
        text_at(&object, "/metadata/uid").to_owned()
    } else {
        action.uid.clone()
    };
    let spec = EventSpec {
        resource: resource.kind,
        namespace: action.namespace.clone(),
        name: action.name.clone(),
        kind: if action.r#type == "Warning" { "Warning".to_owned() } else { "Normal".to_owned() },
        reason: action.reason.clone(),
        note: action.message.clone(),
    };
    events.record_event(&spec, &uid).await?;
    Ok(Done::ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(note: &str) -> EventSpec {
        EventSpec {
            resource: "Node",
            namespace: String::new(),
            name: "n".into(),
            kind: "Warning".into(),
            reason: "FailedDraining".into(),
            note: note.into(),
        }
    }

    #[test]
    fn a_repeated_event_is_counted_every_two_minutes_until_the_series_ends() {
        let (events, begin) = (EventSeries::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(events.plan_write(&spec("x"), at(0), "1"), EventWrite::Create("n.1".into()));
        assert_eq!(events.plan_write(&spec("x"), at(119), "2"), EventWrite::Skip);
        // First, the one that was not written, and this one.
        assert_eq!(events.plan_write(&spec("x"), at(120), "3"), EventWrite::UpdateSeries("n.1".into(), 3));
        assert_eq!(events.plan_write(&spec("y"), at(120), "4"), EventWrite::Create("n.4".into()));
        // 120 + 360 = 480.
        assert_eq!(events.plan_write(&spec("x"), at(479), "5"), EventWrite::UpdateSeries("n.1".into(), 4));
        assert_eq!(events.plan_write(&spec("x"), at(479 + 360), "6"), EventWrite::Create("n.6".into()));
    }

    #[test]
    fn the_memory_is_bounded() {
        let (events, now) = (EventSeries::default(), Instant::now());
        for number in 0..3 * MAX_SERIES {
            events.plan_write(&spec(&number.to_string()), now, "1");
            assert!(events.known.lock().unwrap().len() <= MAX_SERIES);
        }
    }

    #[test]
    fn an_event_about_an_object_without_namespace_is_kept_in_default() {
        let event = manifest(&spec(&"ä".repeat(600)), "u", "n.1", "2026-01-01T00:00:00.000000Z", "agent-0");
        assert_eq!(event["metadata"], json!({ "name": "n.1", "namespace": "default" }));
        assert_eq!(
            event["regarding"],
            json!({ "apiVersion": "v1", "kind": "Node", "namespace": "", "name": "n", "uid": "u" })
        );
        // 600 × 2 bytes are cut at a character below 1,024 bytes: 511 × 2 = 1,022.
        assert_eq!(event["note"].as_str().unwrap().len(), 1_022);
    }
}
