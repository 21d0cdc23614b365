//! Records of calls: launches with their times, events, and the number of calls per method.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use cloud::provider::{CloudEvent, LaunchRequest};
use fleetwright_proto::simulation::v1;
use model::Text;

use super::wire;

/// Maximum number of kept events. A client that is further behind uses the listing.
const EVENTS_KEPT: usize = 100_000;

/// A launch call that another interface of the cloud has executed or answered.
#[derive(Debug, Clone)]
pub struct OtherLaunch {
    pub token: String,
    pub cluster: String,
    pub claim: String,
    /// The first launched instance; empty when there is none.
    pub instance: String,
    /// Number of the call in that interface.
    pub number: u64,
    /// It was answered; else it was executed.
    pub answered: bool,
}

/// Records since the process started.
#[derive(Debug, Default)]
pub(super) struct CallLog {
    launches: Vec<v1::LaunchCall>,
    /// Numbers of unanswered launches of another interface, by its own numbers.
    others: BTreeMap<u64, u64>,
    /// Newest events; the last one has number `last_event`.
    events: Vec<v1::Event>,
    last_event: u64,
    calls: BTreeMap<&'static str, u64>,
}

impl CallLog {
    pub(super) fn count_call(&mut self, method: &'static str) {
        *self.calls.entry(method).or_default() += 1;
    }

    /// Records a launch at its execution.
    pub(super) fn record_arrival(&mut self, request: &LaunchRequest, instance: Option<&Text>) -> v1::LaunchCall {
        let call = v1::LaunchCall {
            number: self.launches.len() as u64 + 1,
            token: request.token.to_string(),
            cluster: request.cluster.to_string(),
            claim: request.claim.to_string(),
            arrived_us: now_us(),
            answered_us: None,
            instance: instance.map(ToString::to_string).unwrap_or_default(),
        };
        self.launches.push(call.clone());
        call
    }

    /// Records a launch of another interface at its execution or its answer.
    pub(super) fn record_other(&mut self, launch: OtherLaunch) -> Option<v1::LaunchCall> {
        if launch.answered {
            let number = self.others.remove(&launch.number)?;
            return self.record_answer(number);
        }
        let call = v1::LaunchCall {
            number: self.launches.len() as u64 + 1,
            token: launch.token,
            cluster: launch.cluster,
            claim: launch.claim,
            arrived_us: now_us(),
            answered_us: None,
            instance: launch.instance,
        };
        self.others.insert(launch.number, call.number);
        self.launches.push(call.clone());
        Some(call)
    }

    /// Records the response to launch `number`.
    pub(super) fn record_answer(&mut self, number: u64) -> Option<v1::LaunchCall> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let call = self.launches.get_mut(index)?;
        call.answered_us = Some(now_us());
        Some(call.clone())
    }

    pub(super) fn record_events(&mut self, events: &[CloudEvent]) {
        self.last_event += events.len() as u64;
        self.events.extend(events.iter().map(wire::event));
        let surplus = self.events.len().saturating_sub(EVENTS_KEPT);
        self.events.drain(..surplus);
    }

    pub(super) fn events_after(&self, after: Option<u64>) -> v1::EventsResponse {
        let behind = usize::try_from(self.last_event.saturating_sub(after.unwrap_or(self.last_event)));
        let from = self.events.len().saturating_sub(behind.unwrap_or(usize::MAX));
        v1::EventsResponse { events: self.events[from..].to_vec(), last: self.last_event }
    }

    pub(super) fn launches(&self) -> Vec<v1::LaunchCall> {
        self.launches.clone()
    }

    pub(super) fn calls(&self) -> std::collections::HashMap<String, u64> {
        self.calls.iter().map(|(method, count)| ((*method).to_owned(), *count)).collect()
    }
}

/// Microseconds since 1970: two timestamps of one launch may be less than a millisecond apart.
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use cloud::provider::{Instance, InstanceState};
    use model::{CapacityType, Timestamp};

    use super::*;

    fn event() -> CloudEvent {
        CloudEvent::Terminated(Instance {
            id: "i-1".into(),
            provider_id: "aws:///a/i-1".into(),
            instance_type: "m5.large".into(),
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
            state: InstanceState::Terminated,
            cluster: "blue".into(),
            cluster_uid: "uid".into(),
            claim: "web-1".into(),
            pool: "web".into(),
            launched: Timestamp::from_millis(0),
            details: cloud::provider::InstanceDetails::default(),
        })
    }

    #[test]
    fn a_new_client_gets_later_events_and_an_old_one_those_it_missed() {
        let mut log = CallLog::default();
        log.record_events(&[event(), event()]);
        let first = log.events_after(None);
        assert_eq!((first.events.len(), first.last), (0, 2));
        log.record_events(&[event()]);
        assert_eq!(log.events_after(Some(first.last)).events.len(), 1);
        assert_eq!(log.events_after(Some(0)).events.len(), 3);
        assert_eq!(log.events_after(Some(3)).events.len(), 0);
    }
}
