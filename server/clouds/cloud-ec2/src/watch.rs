//! Derives events from successive listings.
//!
//! EC2 lists a terminated instance for about an hour, and a new one with a delay. An instance
//! missing in a listing is dropped here without an event: its tags may have been removed, or the
//! credentials may belong to another account. Only a listed state yields an event; the controller
//! describes missing instances by id (`controller`).

use std::collections::BTreeMap;

use cloud::provider::{CloudEvent, Instance, InstanceState};
use model::{Millis, Text, Timestamp};

/// Interval of listings. Instances take tens of seconds to start and stop, and a listing of some
/// thousand instances costs a few calls.
pub(crate) const LISTING_INTERVAL: Millis = Millis::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct InstanceWatcher {
    next: Timestamp,
    /// Last listed state by instance id.
    known: BTreeMap<Text, InstanceState>,
}

impl InstanceWatcher {
    /// Whether a listing is due; if so, schedules the next one an interval later, regardless of its
    /// result.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + LISTING_INTERVAL;
        }
        due
    }

    /// Compares a complete listing with the previous one and returns the events.
    pub(crate) fn compare(&mut self, listed: Vec<Instance>) -> Vec<CloudEvent> {
        let before = std::mem::take(&mut self.known);
        let mut events = Vec::new();
        for instance in listed {
            if before.get(&instance.id) != Some(&instance.state) {
                events.extend(event(&instance));
            }
            self.known.insert(instance.id, instance.state);
        }
        events
    }
}

fn event(instance: &Instance) -> Option<CloudEvent> {
    match instance.state {
        InstanceState::Running => Some(CloudEvent::Running(instance.clone())),
        InstanceState::Terminated => Some(CloudEvent::Terminated(instance.clone())),
        InstanceState::Pending | InstanceState::ShuttingDown => None,
    }
}

#[cfg(test)]
mod tests;
