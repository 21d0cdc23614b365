//! Decision latency beyond the batch window.
//!
//! Two moments are measured from the end of a batch window. *Decided*: the plan is made and
//! verified; this includes waiting for the loop and planning. *Ordered*: the decision is recorded
//! in the store and the NodeClaim instruction is sent to the agent; the store lies between the two.
//! Only launching decisions count, and each NodeClaim's order once. Latency of agents and clouds is
//! not included.

use std::sync::Arc;
use std::time::Duration;

use controller::{ClusterCall, Instruction};
use model::{ClaimName, ClusterName, Millis, Timestamp};
use rustc_hash::FxHashMap;

use super::steps::StepTimes;
use fleet_api::fleet::encode::trace_id;
use metrics::histogram::{Histogram, TracedHistogram};
use replica::{Call, Output};
use store::clock;

/// A NodeClaim whose order was not sent this long after it was due is dropped: its plan was
/// discarded.
const GIVE_UP_AFTER: Millis = Millis::from_mins(10);

/// Number of unordered NodeClaims from which on dropped ones are swept.
const SWEEP_AT: usize = 1_024;

/// Latency histograms since the process started.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// From the end of a batch window to the decision.
    pub(crate) decided: TracedHistogram,
    /// From the end of a batch window to the NodeClaim instruction.
    pub(crate) ordered: Histogram,
    /// Time that each plan for pending pods took on its thread, but for searches.
    pub(crate) planned: Histogram,
    /// Time that each plan of disruption took on its thread, which it may share.
    pub(crate) disruption: Histogram,
    /// Time spent in steps of the loop.
    pub(crate) step_times: StepTimes,
}

/// Tracks decisions until their NodeClaim instructions are sent.
pub(super) struct LatencyTracker {
    latencies: Arc<Latencies>,
    /// Due time of NodeClaims without an instruction so far, by cluster and name. Never iterated in
    /// an order that matters.
    unordered: FxHashMap<(ClusterName, ClaimName), Timestamp>,
    sweep_at: usize,
}

impl LatencyTracker {
    pub(super) fn new(latencies: Arc<Latencies>) -> Self {
        Self { latencies, unordered: FxHashMap::default(), sweep_at: SWEEP_AT }
    }

    /// Records the latencies of `outputs`, which are about to be carried out.
    pub(super) fn observe_outputs(&mut self, outputs: &[Output], now: Timestamp) {
        for output in outputs {
            match output {
                Output::Call(Call::RunCommand { call: ClusterCall::RecordDecision(decision), .. })
                    if !decision.shadow =>
                {
                    let claims = decision.launches.iter().map(|machine| &machine.claim.name);
                    if self.record_decided(&decision.cluster, claims, decision.due) {
                        let trace_id = trace_id(&decision.cluster, decision.id.0, decision.at);
                        self.latencies.decided.observe(elapsed(decision.due, now), trace_id);
                    }
                }
                Output::Instruct { cluster, instruction, .. } => {
                    if let Instruction::CreateClaim(order) = &**instruction {
                        self.record_ordered(cluster, &order.name, now);
                    }
                }
                _ => {}
            }
        }
    }

    /// Records a decision; returns whether it is new, and no repeated write of one.
    fn record_decided<'c>(
        &mut self,
        cluster: &ClusterName,
        claims: impl Iterator<Item = &'c ClaimName>,
        due: Timestamp,
    ) -> bool {
        let mut first = false;
        for claim in claims {
            first |= self.unordered.insert((cluster.clone(), claim.clone()), due).is_none();
        }
        if self.unordered.len() >= self.sweep_at {
            self.unordered.retain(|_, before| due.duration_since(*before) < GIVE_UP_AFTER);
            self.sweep_at = SWEEP_AT.max(2 * self.unordered.len());
        }
        first
    }

    /// Records the instruction for a NodeClaim. A repeated instruction counts once.
    fn record_ordered(&mut self, cluster: &ClusterName, claim: &ClaimName, now: Timestamp) {
        if let Some(due) = self.unordered.remove(&(cluster.clone(), claim.clone())) {
            self.latencies.ordered.observe(elapsed(due, now));
        }
    }
}

/// Time from `due` to `now`; zero if the clock was set back.
fn elapsed(due: Timestamp, now: Timestamp) -> Duration {
    clock::duration(now.duration_since(due))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_counts_once_and_each_order_once_from_the_end_of_the_window() {
        let latencies = Arc::new(Latencies::default());
        let mut latency_tracker = LatencyTracker::new(Arc::clone(&latencies));
        let (blue, red) = (ClusterName::from("blue"), ClusterName::from("red"));
        let claims = [ClaimName::from("a"), ClaimName::from("b")];
        let due = Timestamp::from_millis(1_000);
        assert!(latency_tracker.record_decided(&blue, claims.iter(), due));
        // The store did not answer and the same decision is written again.
        assert!(!latency_tracker.record_decided(&blue, claims.iter(), due));
        assert!(latency_tracker.record_decided(&ClusterName::from("green"), claims.iter(), due));
        assert!(latency_tracker.record_decided(&red, claims[..1].iter(), due));
        for (claim, at) in [(&claims[0], 1_030), (&claims[0], 1_035), (&claims[1], 1_040)] {
            latency_tracker.record_ordered(&blue, claim, Timestamp::from_millis(at));
        }
        latency_tracker.record_ordered(&red, &claims[0], Timestamp::from_millis(1_040));
        latency_tracker.record_ordered(&ClusterName::from("unknown"), &claims[0], Timestamp::from_millis(1_040));
        // 40 ms is a bound of the histogram: three orders within it.
        let ordered = metrics::series(vec![latencies.ordered.family("x", "")]);
        assert!(ordered.contains(&"x_bucket{le=\"0.04\"} 3".to_owned()), "{ordered:?}");
    }

    #[test]
    fn orders_that_are_never_sent_are_dropped() {
        let mut latency_tracker = LatencyTracker::new(Arc::default());
        let blue = ClusterName::from("blue");
        let claims: Vec<ClaimName> = (0..SWEEP_AT - 1).map(|number| ClaimName::from(number.to_string())).collect();
        latency_tracker.record_decided(&blue, claims.iter(), Timestamp::default());
        latency_tracker.record_decided(&blue, [ClaimName::from("late")].iter(), Timestamp::default() + GIVE_UP_AFTER);
        assert_eq!(latency_tracker.unordered.len(), 1);
    }
}
