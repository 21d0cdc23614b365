//! Timing of the control loop's steps. Everything else waits for a step: one that takes tens of
//! milliseconds delays the decisions of other clusters and is logged by its kind. The sum over all
//! steps is the capacity limit of a server, since one task runs them whatever the number of
//! processors.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use controller::Event;
use controller::cluster::Observation;
use tracing::debug;

use agent_session::SessionEvent;
use replica::Input;

/// Steps slower than this are logged. The goal for 99 of 100 decisions is 50 ms beyond their
/// window, and several steps may precede one.
const SLOW_STEP: Duration = Duration::from_millis(20);

/// A step in progress.
pub(super) struct StepTimer {
    about: &'static str,
    begun: Instant,
}

impl StepTimer {
    pub(super) fn begin(about: &'static str) -> Self {
        Self { about, begun: Instant::now() }
    }

    pub(super) fn for_input(input: &Input) -> Self {
        Self::begin(kind(input))
    }

    /// Records the time that the step took.
    pub(super) fn end(self, step_times: &StepTimes) {
        let took = self.begun.elapsed();
        step_times.record(self.about, took);
        if took >= SLOW_STEP {
            debug!(about = self.about, millis = took.as_millis(), "slow control loop step");
        }
    }
}

/// Number and total time of steps since the process started, by kind.
#[derive(Debug, Default)]
pub(crate) struct StepTimes(Mutex<BTreeMap<&'static str, (u64, Duration)>>);

impl StepTimes {
    fn record(&self, about: &'static str, took: Duration) {
        // Count and time are updated together, so a poisoned lock guards a consistent map.
        let mut step_times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (steps, time) = step_times.entry(about).or_default();
        *steps += 1;
        *time += took;
    }

    /// Renders the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let step_times = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut steps, mut seconds) = (String::new(), String::new());
        // Writing to a String cannot fail.
        for (about, (count, time)) in step_times {
            let _always = writeln!(steps, "fleetwright_loop_steps_total{{about=\"{about}\"}} {count}");
            let _always =
                writeln!(seconds, "fleetwright_loop_seconds_total{{about=\"{about}\"}} {}", time.as_secs_f64());
        }
        format!(
            "# HELP fleetwright_loop_steps_total Steps of the control loop, by kind.\n\
             # TYPE fleetwright_loop_steps_total counter\n{steps}\
             # HELP fleetwright_loop_seconds_total Seconds spent in steps of the control loop, by kind; 1 per second is saturation.\n\
             # TYPE fleetwright_loop_seconds_total counter\n{seconds}"
        )
    }
}

fn kind(input: &Input) -> &'static str {
    match input {
        Input::Session(SessionEvent::HelloReceived(_)) => "a greeting",
        Input::Session(SessionEvent::HandshakeAbandoned { .. }) => "a departure",
        Input::Session(SessionEvent::ClusterEvent(Event::Observed {
            observation: Observation::Snapshot(_), ..
        })) => "a snapshot",
        Input::Session(SessionEvent::ClusterEvent(Event::Observed { .. })) => "a change in a cluster",
        Input::Session(SessionEvent::ClusterEvent(_)) => "an agent's word",
        Input::LeaseAnswered { .. } => "a lease",
        Input::Planned(_) => "a plan",
        Input::CommandEnded { .. } => "the outcome of a command",
        Input::CloudEvents(_) => "the cloud's word",
        Input::Renewed(_) | Input::RenewalDue | Input::LeaseRequested => "the renewal of leases",
        Input::RegionLeaseAnswered(_) => "the lease of the region",
        Input::Listed { .. } | Input::ListingRead { .. } | Input::ListingDue => "a listing of machines",
        Input::CountersSynced { .. } | Input::CounterSyncDue => "what other replicas tell",
        Input::Done => "nothing",
        Input::CloudPoll => "asking the cloud",
        Input::Time => "the passing of time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_and_summed_by_kind() {
        let step_times = StepTimes::default();
        for (about, millis) in [("a lease", 2), ("a snapshot", 10), ("a lease", 3)] {
            step_times.record(about, Duration::from_millis(millis));
        }
        let text = step_times.render();
        for line in [
            "fleetwright_loop_steps_total{about=\"a lease\"} 2\n",
            "fleetwright_loop_seconds_total{about=\"a lease\"} 0.005\n",
            "fleetwright_loop_seconds_total{about=\"a snapshot\"} 0.01\n",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
