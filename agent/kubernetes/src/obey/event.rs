//! Events: what happened to an object, for people. The same thing said again raises the count of the event that is there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Value, json};

use super::Attempt;
use crate::api::{Api, FIELD_MANAGER};
use crate::cluster::Kubernetes;
use crate::error::{ApiError, gone_is_fine};
use crate::fields::text_at;
use crate::resource::{self, EVENT, Resource};

/// Events that are remembered, to be counted up rather than written again. Kubernetes itself forgets events after an hour.
const REMEMBERED: usize = 1_000;
/// An event that was said last so long ago is said anew (Kubernetes: the API server counts a series as ended after 6 minutes).
const SERIES_ENDS: Duration = Duration::from_secs(6 * 60);
/// The same event is not counted up more often than this (Karpenter: events of one reason are two minutes apart).
const APART: Duration = Duration::from_secs(120);
/// Longest note (events.k8s.io/v1).
const LONGEST_NOTE: usize = 1_024;
/// Events about objects without a namespace are kept here, as Kubernetes' own are.
const DEFAULT_NAMESPACE: &str = "default";

/// What is said of which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Said {
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

/// What to do about something that is said.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Write an event of this name.
    Write(String),
    /// Raise the count of the event of this name.
    CountUp(String, u32),
    /// It was said a moment ago.
    Nothing,
}

/// The memory of what was said.
#[derive(Debug, Default)]
pub struct Events {
    known: Mutex<BTreeMap<Said, Series>>,
}

impl Events {
    fn step(&self, said: &Said, now: Instant, unique: &str) -> Step {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get_mut(said).filter(|series| now.duration_since(series.written) < SERIES_ENDS) {
            series.count += 1;
            if now.duration_since(series.written) < APART {
                return Step::Nothing;
            }
            series.written = now;
            return Step::CountUp(series.event.clone(), series.count);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, series| now.duration_since(series.written) < SERIES_ENDS);
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let event = format!("{}.{unique}", said.name);
        known.insert(said.clone(), Series { event: event.clone(), count: 1, written: now });
        Step::Write(event)
    }

    fn forget(&self, said: &Said) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(said);
    }

    /// Says something of an object whose UID is `uid`.
    pub(crate) async fn say(&self, api: &Api, instance: &str, said: &Said, uid: &str) -> Result<(), ApiError> {
        let now = jiff::Timestamp::now();
        let unique = format!("{:x}", now.as_nanosecond());
        let moment = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let step = self.step(said, Instant::now(), &unique);
        let written = match step {
            Step::Nothing => return Ok(()),
            Step::CountUp(event, count) => {
                let series = json!({ "series": { "count": count, "lastObservedTime": moment } });
                gone_is_fine(api.patch(&EVENT.one(home(&said.namespace), &event), &series).await)
            }
            Step::Write(event) => {
                let object = manifest(said, uid, &event, &moment, instance);
                api.create(&EVENT.within(home(&said.namespace)), &object).await.map(Some)
            }
        };
        if !matches!(written, Ok(Some(_))) {
            self.forget(said);
        }
        written.map(drop)
    }
}

fn home(namespace: &str) -> &str {
    if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace }
}

fn manifest(said: &Said, uid: &str, event: &str, moment: &str, instance: &str) -> Value {
    let mut note = said.note.clone();
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - 1).rev().find(|at| note.is_char_boundary(*at)).unwrap_or_default();
        note.truncate(end);
    }
    let regarded: Option<Resource> = by_kind(said.resource);
    json!({
        "apiVersion": EVENT.api_version(),
        "kind": EVENT.kind,
        "metadata": { "name": event, "namespace": home(&said.namespace) },
        "eventTime": moment,
        "reportingController": FIELD_MANAGER,
        "reportingInstance": instance,
        "action": said.reason,
        "reason": said.reason,
        "type": said.kind,
        "note": note,
        "regarding": {
            "apiVersion": regarded.map(|resource| resource.api_version()),
            "kind": said.resource,
            "namespace": said.namespace,
            "name": said.name,
            "uid": uid,
        },
    })
}

fn by_kind(kind: &str) -> Option<Resource> {
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

/// Carries out a `RecordEvent`. An object that is gone needs no event.
pub(super) async fn record(cluster: &Kubernetes, order: &v1::RecordEvent) -> Attempt {
    let Some(resource) = resource::of_kind(order.kind()) else {
        return Ok(Done::not(v1::Outcome::Unsupported, format!("no events are written about {}", order.kind)));
    };
    let uid = if order.uid.is_empty() {
        let object: Option<Value> =
            gone_is_fine(cluster.api().get(&resource.one(&order.namespace, &order.name)).await)?;
        let Some(object) = object else {
            return Ok(Done::not(v1::Outcome::NotFound, format!("there is no {} {}", resource.kind, order.name)));
        };
        text_at(&object, "/metadata/uid").to_owned()
    } else {
        order.uid.clone()
    };
    let said = Said {
        resource: resource.kind,
        namespace: order.namespace.clone(),
        name: order.name.clone(),
        kind: if order.r#type == "Warning" { "Warning".to_owned() } else { "Normal".to_owned() },
        reason: order.reason.clone(),
        note: order.message.clone(),
    };
    cluster.say(&said, &uid).await?;
    Ok(Done::well())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(note: &str) -> Said {
        Said {
            resource: "Node",
            namespace: String::new(),
            name: "n".into(),
            kind: "Warning".into(),
            reason: "FailedDraining".into(),
            note: note.into(),
        }
    }

    #[test]
    fn what_is_said_again_is_counted_up_every_two_minutes_until_the_series_ends() {
        let (events, begin) = (Events::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(events.step(&said("x"), at(0), "1"), Step::Write("n.1".into()));
        assert_eq!(events.step(&said("x"), at(119), "2"), Step::Nothing);
        // First, the one that was not written, and this one.
        assert_eq!(events.step(&said("x"), at(120), "3"), Step::CountUp("n.1".into(), 3));
        assert_eq!(events.step(&said("y"), at(120), "4"), Step::Write("n.4".into()));
        // 120 + 360 = 480.
        assert_eq!(events.step(&said("x"), at(479), "5"), Step::CountUp("n.1".into(), 4));
        assert_eq!(events.step(&said("x"), at(479 + 360), "6"), Step::Write("n.6".into()));
    }

    #[test]
    fn the_memory_is_bounded() {
        let (events, now) = (Events::default(), Instant::now());
        for number in 0..3 * REMEMBERED {
            events.step(&said(&number.to_string()), now, "1");
            assert!(events.known.lock().unwrap().len() <= REMEMBERED);
        }
    }

    #[test]
    fn an_event_about_an_object_without_namespace_is_kept_in_default() {
        let event = manifest(&said(&"ä".repeat(600)), "u", "n.1", "2026-01-01T00:00:00.000000Z", "agent-0");
        assert_eq!(event["metadata"], json!({ "name": "n.1", "namespace": "default" }));
        assert_eq!(
            event["regarding"],
            json!({ "apiVersion": "v1", "kind": "Node", "namespace": "", "name": "n", "uid": "u" })
        );
        // 600 × 2 bytes are cut at a character below 1,024 bytes: 511 × 2 = 1,022.
        assert_eq!(event["note"].as_str().unwrap().len(), 1_022);
    }
}
