//! The search for a cheaper plan while the batch window is open.
//!
//! ```text
//!  pod a      pod b    quarter            idle
//!    │─────────│─────────┬─────────────────┤ plan
//!    └ opens   └ extends └ search ──────┤  └ closes
//! ```
//!
//! The search plans the pods seen so far, once no pod has arrived for a quarter of the idle time.
//! If it has ended when the window closes, and the input of the due plan is the same, its plan is
//! the decision. Otherwise it is dropped, and the first packing is planned: a search delays no
//! plan. Its input, with the steps that it was granted, is recorded with the decision, so the plan
//! can be replayed although time decides whether it is used.

use super::batch::BatchWindow;
use super::{PlanAnswer, PlanNumber, Planned};
use crate::Settings;
use crate::search_allowance::UnusedSearch;
use model::Timestamp;
use model::input::PlanningInput;

/// The part of the idle time after which the search begins.
const QUIET_PART: i64 = 4;

/// The search of the current batch window.
#[derive(Debug, Default)]
pub(super) struct WindowSearch {
    /// The last extension of the window that a search was requested or skipped for.
    attempted_for: Option<Timestamp>,
    requested: Option<PlanNumber>,
    found: Option<PlanAnswer>,
}

impl WindowSearch {
    /// When the next search is due; `None` without a window, or if it has been attempted.
    pub fn next_at(&self, window: &BatchWindow, settings: &Settings) -> Option<Timestamp> {
        let extended = window.extended_at().filter(|at| self.attempted_for != Some(*at))?;
        let at = extended + settings.batch_idle / QUIET_PART;
        let closes = window.closes_at(settings.batch_idle, settings.batch_max)?;
        (settings.search.is_enabled() && at < closes).then_some(at)
    }

    /// Records that a search is requested, or skipped, for the pods of `window`. Returns why an
    /// earlier search of the window is not used.
    pub fn attempt(&mut self, window: &BatchWindow, requested: Option<PlanNumber>) -> Option<UnusedSearch> {
        let replaced = self.requested.is_some() || self.found.is_some();
        *self = Self { attempted_for: window.extended_at(), requested, found: None };
        replaced.then_some(UnusedSearch::Outdated)
    }

    /// Keeps the answer to the search in progress until the window closes; returns any other one.
    pub fn keep_answer(&mut self, answer: PlanAnswer) -> Option<PlanAnswer> {
        if self.requested.take_if(|number| *number == answer.request.number).is_none() {
            return Some(answer);
        }
        self.found = Some(answer);
        None
    }

    /// Ends the search of the window for the plan that is due with `input`.
    pub fn finish(&mut self, input: &PlanningInput) -> Option<Result<PlanAnswer, UnusedSearch>> {
        let Self { requested, found, .. } = std::mem::take(self);
        match found {
            Some(found) if !has_searched(&found) => Some(Err(UnusedSearch::Failed)),
            Some(found) if is_same_input(&found.request.input, input) => Some(Ok(found)),
            Some(_) => Some(Err(UnusedSearch::Outdated)),
            None => requested.map(|_| Err(UnusedSearch::Late)),
        }
    }
}

/// Whether the planner has searched: it does not if the first packing fails its check or takes too
/// many steps.
fn has_searched(answer: &PlanAnswer) -> bool {
    matches!(&answer.outcome, Ok(Planned::Pods(planned)) if planned.1.first_cost.is_some())
}

/// Whether two inputs differ at most in the search and in the time, which passed while the window
/// was open.
fn is_same_input(searched: &PlanningInput, due: &PlanningInput) -> bool {
    let PlanningInput { shapes, label_sets, volume_sets, pods, nodes, pools, daemons, namespaces, policy: _, now: _ } =
        due;
    searched.pods == *pods
        && searched.nodes == *nodes
        && searched.shapes == *shapes
        && searched.label_sets == *label_sets
        && searched.volume_sets == *volume_sets
        && searched.pools == *pools
        && searched.daemons == *daemons
        && searched.namespaces == *namespaces
}
