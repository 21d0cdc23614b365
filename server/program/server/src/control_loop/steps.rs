//! Timing of the steps of the control loop and of the clusters' tasks. A step of the loop that
//! takes tens of milliseconds delays all clusters, one of a task its own cluster; both are logged by
//! their kind.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster::Observation;
use controller::Event;
use tracing::debug;

use agent_session::SessionEvent;
use metrics::{Family, Value};
use replica::{ClusterInput, Input};

/// Steps slower than this are logged. The goal for 99 of 100 decisions is 50 ms beyond their
/// window, and several steps may precede one.
const SLOW_STEP: Duration = Duration::from_millis(20);

pub(super) struct StepTimer {
    kind: &'static str,
    begun: Instant,
}

impl StepTimer {
    pub(super) fn begin(kind: &'static str) -> Self {
        Self { kind, begun: Instant::now() }
    }

    pub(super) fn for_input(input: &Input) -> Self {
        Self::begin(kind_of(input))
    }

    pub(super) fn for_cluster_input(input: &ClusterInput) -> Self {
        Self::begin(kind_of_cluster_input(input))
    }

    /// Records the time that the step took.
    pub(super) fn end(self, step_times: &StepTimes) {
        let took = self.begun.elapsed();
        step_times.record(self.kind, took);
        if took >= SLOW_STEP {
            debug!(kind = self.kind, millis = took.as_millis(), "slow step");
        }
    }
}

/// Number and total time of steps since the process started, by kind.
#[derive(Debug, Default)]
pub(crate) struct StepTimes(Mutex<BTreeMap<&'static str, (u64, Duration)>>);

impl StepTimes {
    fn record(&self, kind: &'static str, took: Duration) {
        // Count and time are updated together, so a poisoned lock guards a consistent map.
        let mut step_times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (steps, time) = step_times.entry(kind).or_default();
        *steps += 1;
        *time += took;
    }

    pub(crate) fn families(&self) -> [Family; 2] {
        let step_times = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help = "Steps of the control loop and of the tasks of clusters, by kind.";
        let mut steps = Family::counter("fleetwright_loop_steps_total", help).labelled(&["kind"]);
        let help = "Seconds spent in steps, by kind.";
        let mut seconds = Family::counter("fleetwright_loop_seconds_total", help).labelled(&["kind"]);
        for (kind, (count, time)) in step_times {
            steps.push(vec![("kind", kind.to_owned())], count.into());
            seconds.push(vec![("kind", kind.to_owned())], Value::Number(time.as_secs_f64()));
        }
        [steps, seconds]
    }
}

fn kind_of(input: &Input) -> &'static str {
    match input {
        Input::Session(SessionEvent::HelloReceived(_)) => "hello",
        Input::Session(SessionEvent::HandshakeAbandoned { .. }) => "handshake_abandoned",
        Input::Session(SessionEvent::ClusterEvent(_) | SessionEvent::RegionEvent(_)) => "route_event",
        Input::LeaseAnswered { .. } => "lease",
        Input::CommandEnded { .. } => "route_command_outcome",
        Input::CloudEvents(_) => "cloud_events",
        Input::Renewed(_) | Input::RenewalDue | Input::LeaseRequested => "lease_renewal",
        Input::RegionLeaseAnswered(_) => "region_lease",
        Input::Listed { .. } | Input::ListingRead { .. } | Input::ListingDue => "instance_listing",
        Input::InterruptionsRead(_) | Input::InstanceStatusPolled(_) | Input::InterruptionsDue => "interruptions",
        Input::CountersSynced { .. } | Input::CounterSyncDue => "counter_sync",
        Input::ClusterEvent(_) => "route_event",
        Input::Done => "call_done",
        Input::CloudPoll => "cloud_poll",
        Input::Time => "tick",
    }
}

fn kind_of_cluster_input(input: &ClusterInput) -> &'static str {
    match input {
        ClusterInput::Event(event) => match event {
            Event::Observed(Observation::Snapshot(_)) => "cluster_snapshot",
            Event::Observed(_) => "cluster_observation",
            Event::InstructionAcked(_) | Event::InstructionFailed { .. } => "cluster_instruction_answer",
            Event::Planned(_) => "cluster_plan",
            Event::Listed(_) => "cluster_instance_listing",
            _ => "cluster_event",
        },
        ClusterInput::CommandEnded { .. } => "cluster_command_outcome",
        ClusterInput::Time => "cluster_tick",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_and_summed_by_kind() {
        let step_times = StepTimes::default();
        for (kind, millis) in [("lease", 2), ("cluster_snapshot", 10), ("lease", 3)] {
            step_times.record(kind, Duration::from_millis(millis));
        }
        let text = metrics::series(step_times.families().into()).join("\n");
        for line in [
            "fleetwright_loop_steps_total{kind=\"lease\"} 2",
            "fleetwright_loop_seconds_total{kind=\"lease\"} 0.005",
            "fleetwright_loop_seconds_total{kind=\"cluster_snapshot\"} 0.01",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
