//! How quick it is, beyond the batch window that is waited for on purpose.
//!
//! Two moments after the end of a window count. *Decided*: the plan is made and has passed its check; before it lie the wait
//! for this process's turn and the planning itself. *Ordered*: the decision is in the store, and the NodeClaim is on its way
//! to the agent; between the two lies the store. Only decisions to buy count, and each machine's order once. What an agent
//! or a cloud takes after that is not in here.

use std::sync::Arc;
use std::time::Duration;

use engine::control::{ClusterId, Instruction};
use engine::model::{Text, Timestamp};
use executor::Command;
use rustc_hash::FxHashMap;

use super::replica::{Call, Output};
use super::steps::Spent;
use crate::measure::Histogram;

/// Orders that did not go out in so many milliseconds after they were due are not waited for: what was planned did not hold.
const FORGET_MS: i64 = 600_000;

/// Orders that are waited for before those that were given up are looked for.
const SWEEP_AT: usize = 1_024;

/// Latencies since the process began.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// From the end of a batch window to the decision.
    pub(crate) decided: Histogram,
    /// From the end of a batch window to the order for a NodeClaim.
    pub(crate) ordered: Histogram,
    /// What the loop spent its time on.
    pub(crate) spent: Spent,
}

/// Follows decisions until their orders go out.
pub(super) struct Stopwatch {
    latencies: Arc<Latencies>,
    /// When the orders that have not gone out were due, by cluster and NodeClaim. Looked up, never iterated in an order that
    /// matters.
    waiting: FxHashMap<(ClusterId, Text), Timestamp>,
    sweep_at: usize,
}

impl Stopwatch {
    pub(super) fn new(latencies: Arc<Latencies>) -> Self {
        Self { latencies, waiting: FxHashMap::default(), sweep_at: SWEEP_AT }
    }

    /// `outputs` are about to be carried out.
    pub(super) fn look_at(&mut self, outputs: &[Output], now: Timestamp) {
        for output in outputs {
            match output {
                Output::Call(Call::Run { command: Command::Record(decision), .. }) if !decision.shadow => {
                    let claims = decision.machines.iter().map(|machine| &machine.claim.name);
                    self.decided(&decision.cluster, claims, decision.due, now);
                }
                Output::Instruct { cluster, instruction, .. } => {
                    if let Instruction::CreateClaim(order) = &**instruction {
                        self.ordered(cluster, &order.name, now);
                    }
                }
                _ => {}
            }
        }
    }

    /// These NodeClaims are decided. A decision whose write is repeated was decided once.
    fn decided<'c>(
        &mut self,
        cluster: &ClusterId,
        claims: impl Iterator<Item = &'c Text>,
        due: Timestamp,
        now: Timestamp,
    ) {
        let mut first = false;
        for claim in claims {
            first |= self.waiting.insert((cluster.clone(), claim.clone()), due).is_none();
        }
        if first {
            self.latencies.decided.note(between(due, now));
        }
        if self.waiting.len() >= self.sweep_at {
            self.waiting.retain(|_, due| now.millis_since(*due) < FORGET_MS);
            self.sweep_at = SWEEP_AT.max(2 * self.waiting.len());
        }
    }

    /// The order for a NodeClaim goes out; repeated, it has gone out before.
    fn ordered(&mut self, cluster: &ClusterId, claim: &Text, now: Timestamp) {
        if let Some(due) = self.waiting.remove(&(cluster.clone(), claim.clone())) {
            self.latencies.ordered.note(between(due, now));
        }
    }
}

/// A clock that was set back makes nothing quicker than at once.
fn between(due: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(now.millis_since(due).max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latencies: &Latencies) -> [bool; 2] {
        // 40 ms is a bound of the histogram: three of decisions, or of orders, within it.
        let within = |histogram: &Histogram| histogram.render("x", "").contains("le=\"0.04\"} 3\n");
        [within(&latencies.decided), within(&latencies.ordered)]
    }

    #[test]
    fn each_decision_counts_once_and_each_order_once_from_the_end_of_the_window() {
        let latencies = Arc::new(Latencies::default());
        let mut stopwatch = Stopwatch::new(Arc::clone(&latencies));
        let (blue, claims) = (ClusterId::from("blue"), [Text::from("a"), Text::from("b")]);
        let due = Timestamp(1_000);
        stopwatch.decided(&blue, claims.iter(), due, Timestamp(1_010));
        // The store did not answer, and the same decision is written again.
        stopwatch.decided(&blue, claims.iter(), due, Timestamp(2_000));
        stopwatch.decided(&ClusterId::from("green"), claims.iter(), due, Timestamp(1_020));
        stopwatch.decided(&ClusterId::from("red"), claims[..1].iter(), due, Timestamp(1_040));
        for (claim, at) in [(&claims[0], 1_030), (&claims[0], 1_035), (&claims[1], 1_040)] {
            stopwatch.ordered(&blue, claim, Timestamp(at));
        }
        stopwatch.ordered(&ClusterId::from("red"), &claims[0], Timestamp(1_040));
        stopwatch.ordered(&ClusterId::from("nobody"), &claims[0], Timestamp(1_040));
        assert_eq!(counts(&latencies), [true, true]);
    }

    #[test]
    fn orders_that_never_go_out_are_forgotten() {
        let mut stopwatch = Stopwatch::new(Arc::default());
        let blue = ClusterId::from("blue");
        let claims: Vec<Text> = (0..SWEEP_AT - 1).map(|number| Text::from(number.to_string())).collect();
        stopwatch.decided(&blue, claims.iter(), Timestamp(0), Timestamp(0));
        stopwatch.decided(&blue, [Text::from("late")].iter(), Timestamp(FORGET_MS), Timestamp(FORGET_MS));
        assert_eq!(stopwatch.waiting.len(), 1);
    }
}
