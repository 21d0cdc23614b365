//! What has changed between two listings, as events.
//!
//! EC2 lists a terminated machine for about an hour, and a young one not at once. So one listing without a machine says
//! nothing; a machine that complete listings have lacked for [`MISSING_MS`] is gone.

use std::collections::BTreeMap;

use cloud::provider::{CloudEvent, Instance, InstanceState};
use engine::model::{Text, Timestamp};

/// Time between two listings, in milliseconds. Machines take tens of seconds to start and to stop, and one listing of
/// some thousand machines costs a few calls.
pub(crate) const PERIOD_MS: i64 = 10_000;

/// How long a machine must be missing from complete listings to be gone, in milliseconds; far longer than listings lag.
pub(crate) const MISSING_MS: i64 = 600_000;

/// What was listed last.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    next: Timestamp,
    known: BTreeMap<Text, Known>,
}

#[derive(Debug)]
struct Known {
    instance: Instance,
    missing_since: Option<Timestamp>,
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

    /// Takes in a complete listing of `now` and tells what has changed.
    pub(crate) fn compare(&mut self, listed: Vec<Instance>, now: Timestamp) -> Vec<CloudEvent> {
        let mut before = std::mem::take(&mut self.known);
        let mut events = Vec::new();
        for instance in listed {
            let state = before.remove(&instance.id).map(|known| known.instance.state);
            if state != Some(instance.state) {
                events.extend(event(&instance));
            }
            self.known.insert(instance.id.clone(), Known { instance, missing_since: None });
        }
        for (id, known) in before {
            self.miss(id, known, now, &mut events);
        }
        events
    }

    /// A machine that the listing lacks. One that was terminated has been told and is forgotten.
    fn miss(&mut self, id: Text, mut known: Known, now: Timestamp, events: &mut Vec<CloudEvent>) {
        if known.instance.state == InstanceState::Terminated {
            return;
        }
        let since = *known.missing_since.get_or_insert(now);
        if now.millis_since(since) >= MISSING_MS {
            known.instance.state = InstanceState::Terminated;
            events.push(CloudEvent::Terminated(known.instance));
        } else {
            self.known.insert(id, known);
        }
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
