//! Steps of the loop, and how long they take. Everything else waits for a step: one that takes tens of milliseconds is what
//! makes the decisions of other clusters late, and is logged by what it was about. What all steps took together is how much a
//! server can carry, since one task takes them, however many processors there are.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
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
    pub(super) fn end(self, spent: &Spent) {
        let took = self.begun.elapsed();
        spent.note(self.about, took);
        if took >= LONG {
            debug!(about = self.about, millis = took.as_millis(), "a step of the control loop took long");
        }
    }
}

/// What steps took since the process began, by what they were about.
#[derive(Debug, Default)]
pub(crate) struct Spent(Mutex<BTreeMap<&'static str, (u64, Duration)>>);

impl Spent {
    fn note(&self, about: &'static str, took: Duration) {
        // A step is noted whole or not at all.
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (steps, time) = spent.entry(about).or_default();
        *steps += 1;
        *time += took;
    }

    /// In Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut steps, mut seconds) = (String::new(), String::new());
        // Writing to a String cannot fail.
        for (about, (count, time)) in spent {
            let _always = writeln!(steps, "fleetwright_loop_steps_total{{about=\"{about}\"}} {count}");
            let _always =
                writeln!(seconds, "fleetwright_loop_seconds_total{{about=\"{about}\"}} {}", time.as_secs_f64());
        }
        format!(
            "# HELP fleetwright_loop_steps_total Steps of the task that decides, by what they were about.\n\
             # TYPE fleetwright_loop_steps_total counter\n{steps}\
             # HELP fleetwright_loop_seconds_total What these steps took, of one second in each second.\n\
             # TYPE fleetwright_loop_seconds_total counter\n{seconds}"
        )
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
        Input::Planned(_) => "a plan",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_and_added_up_by_what_they_were_about() {
        let spent = Spent::default();
        for (about, millis) in [("a lease", 2), ("a snapshot", 10), ("a lease", 3)] {
            spent.note(about, Duration::from_millis(millis));
        }
        let text = spent.render();
        for line in [
            "fleetwright_loop_steps_total{about=\"a lease\"} 2\n",
            "fleetwright_loop_seconds_total{about=\"a lease\"} 0.005\n",
            "fleetwright_loop_seconds_total{about=\"a snapshot\"} 0.01\n",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
