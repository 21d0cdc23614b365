//! Steps of the loop that took long. Everything else waits for a step: one that takes tens of milliseconds is what makes the
//! decisions of other clusters late, and is logged by what it was about.

use std::time::{Duration, Instant};

use engine::cluster::Observation;
use engine::control::Event;
use tracing::debug;

use super::replica::Input;
use crate::session::SessionEvent;

/// A step that takes longer is worth a line: the goal for 99 of 100 decisions is 50 ms beyond their window, and several steps
/// may lie before one.
const LONG: Duration = Duration::from_millis(20);

/// A step that is being taken.
pub(super) struct Step {
    about: &'static str,
    begun: Instant,
}

impl Step {
    pub(super) fn begin(about: &'static str) -> Self {
        Self { about, begun: Instant::now() }
    }

    pub(super) fn of(input: &Input) -> Self {
        Self::begin(about(input))
    }

    /// The step is over, but for what it asks of others.
    pub(super) fn end(self) {
        let took = self.begun.elapsed();
        if took >= LONG {
            debug!(about = self.about, millis = took.as_millis(), "a step of the control loop took long");
        }
    }
}

fn about(input: &Input) -> &'static str {
    match input {
        Input::Heard(SessionEvent::Greeted(_)) => "a greeting",
        Input::Heard(SessionEvent::Left { .. }) => "a departure",
        Input::Heard(SessionEvent::Happened(Event::Observed { observation: Observation::Snapshot(_), .. })) => {
            "a snapshot"
        }
        Input::Heard(SessionEvent::Happened(Event::Observed { .. })) => "a change in a cluster",
        Input::Heard(SessionEvent::Happened(_)) => "an agent's word",
        Input::Leased { .. } => "a lease",
        Input::Ran { .. } => "the outcome of a command",
        Input::CloudTold(_) => "the cloud's word",
        Input::Renewed(_) | Input::RenewalDue | Input::Wished => "the renewal of leases",
        Input::RegionTaken(_) => "the lease of the region",
        Input::Listed { .. } | Input::Overheard { .. } | Input::ListingDue => "a listing of machines",
        Input::Exchanged { .. } | Input::ExchangeDue => "what other replicas tell",
        Input::Told => "nothing",
        Input::CloudPoll => "asking the cloud",
        Input::Time => "the passing of time",
    }
}
