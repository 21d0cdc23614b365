//! How quick it is, beyond the batch window that is waited for on purpose.
//!
//! Two moments after the end of a window count. *Decided*: the plan is made and has passed its check; before it lie the wait
//! for this process's turn and the planning itself. *Ordered*: the decision is in the store, and the NodeClaim is on its way
//! to the agent; between the two lies the store. Only decisions to buy count, and each machine's order once. What an agent
//! or a cloud takes after that is not in here.

use std::sync::Arc;
use std::time::Duration;

use engine::control::{ClusterId, Decision, Instruction};
use engine::model::{Text, Timestamp};
use executor::Command;
use rustc_hash::FxHashMap;

use super::replica::{Call, Output};
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
                Output::Call(Call::Run { command: Command::Record(decision), .. }) => self.decided(decision, now),
                Output::Instruct { cluster, instruction, .. } => self.instructed(cluster, instruction, now),
                _ => {}
            }
        }
    }

    /// A decision whose write is repeated was decided once.
    fn decided(&mut self, decision: &Decision, now: Timestamp) {
        let mut first = false;
        for machine in decision.machines.iter().filter(|_| !decision.shadow) {
            let claim = (decision.cluster.clone(), machine.claim.name.clone());
            first |= self.waiting.insert(claim, decision.due).is_none();
        }
        if first {
            self.latencies.decided.note(between(decision.due, now));
        }
        if self.waiting.len() >= self.sweep_at {
            self.waiting.retain(|_, due| now.millis_since(*due) < FORGET_MS);
            self.sweep_at = SWEEP_AT.max(2 * self.waiting.len());
        }
    }

    fn instructed(&mut self, cluster: &ClusterId, instruction: &Instruction, now: Timestamp) {
        let Instruction::CreateClaim(order) = instruction else { return };
        if let Some(due) = self.waiting.remove(&(cluster.clone(), order.name.clone())) {
            self.latencies.ordered.note(between(due, now));
        }
    }
}

/// A clock that was set back makes nothing quicker than at once.
fn between(due: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(now.millis_since(due).max(0).unsigned_abs())
}
