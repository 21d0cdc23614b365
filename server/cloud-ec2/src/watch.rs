//! What has changed between two listings, as events.
//!
//! EC2 lists a terminated machine for about an hour, and a young one not at once. A machine that a listing lacks is forgotten here
//! and nothing is told of it: its tags may have been taken off, or the credentials may be of another account. Only a state that
//! EC2 states is news; whether a machine is there that listings lack is asked by its id (`engine::control::witness`).

use std::collections::BTreeMap;

use cloud::provider::{CloudEvent, Instance, InstanceState};
use engine::model::{Text, Timestamp};

/// Time between two listings, in milliseconds. Machines take tens of seconds to start and to stop, and one listing of
/// some thousand machines costs a few calls.
pub(crate) const PERIOD_MS: i64 = 10_000;

/// What was listed last.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    next: Timestamp,
    /// The state in which each machine was listed last, by instance id.
    known: BTreeMap<Text, InstanceState>,
}

impl Watch {
    /// Whether it is time to list; if so, the next time is a period later, whatever comes of this one.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        let due = now >= self.next;
        if due {
            self.next = Timestamp(now.0.saturating_add(PERIOD_MS));
        }
        due
    }

    /// Takes in a complete listing and tells what has changed.
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
