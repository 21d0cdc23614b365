//! Disruption: which machines are removed, why, and when.
//!
//! A [method](methods) selects machines from a view of the cluster. Methods run in passes, at most
//! one in an interval; guardrails and a second selection before the drain hold their removals back.
//! Graceful ones (voluntary repair, emptiness, drift, consolidation) are held by budgets too, and do not run while a plan may need the nodes
//! that they would remove; forceful ones (rebalance recommendations, repair, expiration, static scale-down) are not. An urgent method (interruption) runs when
//! its cause is known and waits for nothing. Everything after the selection is the same for all methods.
//!
//! A method may have a machine [replaced](replacements) first: its pods are planned elsewhere, and it is
//! selected for removal once the nodes that they are assigned to are initialized.
//!
//! [Consolidation](consolidation) is chosen by a plan of disruption, which is requested as plans of pods are.
//!
//! Reading order: [`method`] (the interface), [`selection`] (what a method selects from, as values), [`methods`] (the registry,
//! and a file for each method) with [`interruptions`], [`candidates`] (nodes that may be
//! removed), [`budgets`], [`settings`], [`evictions`] (what keeps pods on a node), [`Disruption`] (passes),
//! [`replace_first`], [`replacements`], [`replacement_backoff`], [`replacement_records`] and [`replacement_recovery`] (capacity before a removal), [`consolidation`],
//! [`plan_input`], [`consolidation_check`] and `taken_room` (plans of disruption), [`queue`] (decisions that
//! are not durable yet), [`execution`] (check, record, launch, drain), [`removal_check`] (what the
//! verifier judges removals by).

mod budgets;
pub(crate) mod candidates;
pub(crate) mod consolidation;
mod consolidation_check;
mod consolidation_schedule;
pub(crate) mod decision_recorder;
mod evictions;
mod execution;
mod interruptions;
pub(crate) mod method;
pub(crate) mod methods;
mod notice_answers;
mod notices;
mod opt_in;
mod plan_input;
mod queue;
mod removal_check;
mod replace_first;
mod replacement_backoff;
mod replacement_records;
pub(crate) mod replacement_recovery;
pub(crate) mod replacements;
pub mod selection;
pub(crate) mod settings;
mod taken_room;

pub(crate) use execution::disruption_view;
pub(crate) use methods::expiration::expiry_of;
pub(crate) use methods::repair::repair_of;
pub(crate) use notices::Notices;
pub(crate) use queue::DecisionQueue;
pub(crate) use replacement_records::ReplacementRecords;

use std::collections::{BTreeMap, BTreeSet};

use crate::nodeclaim::DrainTerms;
use crate::{DecisionId, Removal};
use consolidation_schedule::Consolidation;
pub(crate) use method::BlockedRepair;
use method::{DisruptionView, Method, PlannedReplacement, Selection};
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::{ClaimName, Millis, PoolName, Timestamp};
use replacement_backoff::ReplacementBackoff;
use selection::SelectionInput;

/// When the methods of one cluster run in passes.
#[derive(Debug, Default)]
pub(crate) struct Disruption {
    /// When the next pass is due.
    next_pass: Option<Timestamp>,
    /// When the last pass ran.
    last_pass: Option<Timestamp>,
    /// Whether anything changed since the last pass.
    changed_since_pass: bool,
    pub(crate) backoff: ReplacementBackoff,
    /// Notices of the cloud.
    pub(crate) notices: Notices,
    /// What the store has of the replacements under way.
    pub(crate) replacement_records: ReplacementRecords,
    /// The decision that put a node under replacement, by its NodeClaim.
    planned_by: BTreeMap<ClaimName, DecisionId>,
    /// Machines that the cloud recommends to leave.
    recommended: BTreeSet<ClaimName>,
    /// Machines whose maintenance the cloud has scheduled.
    maintenance: BTreeMap<ClaimName, Maintenance>,
    /// When disruption is planned.
    pub(crate) consolidation: Consolidation,
    /// Machines that the last pass found empty, or drifted, and that nothing on them holds.
    eligible: (usize, usize),
}

/// Maintenance of a machine that the cloud has scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Maintenance {
    /// When it was told first.
    since: Timestamp,
    /// When it was told last. A status that lasts is told every ten minutes.
    told: Timestamp,
}

/// Time after which maintenance that the cloud has told of no more is over or cancelled.
const MAINTENANCE_TTL: Millis = Millis::from_hours(1);

#[derive(Debug)]
pub(crate) struct Proposal {
    pub method: &'static dyn Method,
    /// What the method selected from; `None` if it selected nothing.
    pub selected: Option<Box<Selected>>,
    pub removals: Vec<Removal>,
    pub drain_terms: DrainTerms,
    /// Machines to replace before they may be removed.
    pub replacements: Vec<PlannedReplacement>,
}

/// What a method selected, and from what.
#[derive(Debug)]
pub(crate) struct Selected {
    pub input: SelectionInput,
    pub selection: Selection,
}

impl Selected {
    /// To be recorded with the decision, if the method selected anything.
    fn of(input: SelectionInput, selection: &Selection) -> Option<Box<Self>> {
        let is_any = !selection.removals.is_empty() || !selection.replacements.is_empty();
        is_any.then(|| Box::new(Self { input, selection: selection.clone() }))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// A proposal for each method that ran, with or without removals.
    pub proposals: Vec<Proposal>,
    /// Number of machines that budgets hold back, by NodePool.
    pub held_by_budget: BTreeMap<PoolName, usize>,
    pub blocked_repairs: BTreeMap<PoolName, BlockedRepair>,
}

impl Disruption {
    /// Records that the cluster changed, so that a pass runs after the interval.
    pub fn mark_changed(&mut self) {
        self.changed_since_pass = true;
    }

    /// Has the next pass run now, whenever the last one was.
    pub fn schedule_now(&mut self) {
        self.changed_since_pass = true;
        self.last_pass = None;
    }

    /// Has the machine replaced in the next pass: the cloud recommends to leave it.
    pub fn recommend_removal(&mut self, claim: ClaimName) {
        self.recommended.insert(claim);
        self.schedule_now();
    }

    /// Has the machine replaced as far as budgets and guardrails allow: the cloud has scheduled its maintenance.
    pub fn announce_maintenance(&mut self, claim: ClaimName, now: Timestamp) {
        self.maintenance.entry(claim).or_insert(Maintenance { since: now, told: now }).told = now;
        self.schedule_now();
    }

    /// Machines whose maintenance the cloud has scheduled, and since when that is known.
    pub(crate) fn maintenance(&self) -> BTreeMap<ClaimName, Timestamp> {
        self.maintenance.iter().map(|(claim, told)| (claim.clone(), told.since)).collect()
    }

    /// Drops what the cloud says of machines that are gone, and maintenance that it does not tell of any more.
    fn drop_old_notices(&mut self, is_there: impl Fn(&ClaimName) -> bool, now: Timestamp) {
        self.recommended.retain(&is_there);
        self.maintenance.retain(|claim, told| is_there(claim) && now.duration_since(told.told) < MAINTENANCE_TTL);
    }

    /// Has a pass run at `at`, unless one is due earlier.
    pub fn schedule_at(&mut self, at: Timestamp) {
        self.next_pass = Some(self.next_pass.map_or(at, |pass| pass.min(at)));
    }

    /// When the next pass is due without another change.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.next_pass.into_iter().chain(self.consolidation.next_wakeup()).min()
    }

    /// Schedules a pass for the changes since the last one; returns whether a pass is due.
    pub fn is_due(&mut self, interval: Millis, now: Timestamp) -> bool {
        if self.changed_since_pass {
            self.schedule_at(self.last_pass.map_or(now, |last| (last + interval).max(now)));
        }
        self.next_pass.is_some_and(|pass| pass <= now)
    }

    /// Nodes that could be removed or replaced for a reason, before budgets: by the last pass, and by the last plan of
    /// disruption.
    pub fn eligible_nodes(&self) -> [(DisruptionReason, usize); 3] {
        let (empty, drifted) = self.eligible;
        [
            (DisruptionReason::Empty, empty),
            (DisruptionReason::Drifted, drifted),
            (DisruptionReason::Underutilized, self.consolidation.planned_blocks.eligible()),
        ]
    }

    /// Runs the methods, and schedules the next pass for what they wait for. While a plan is pending, until
    /// `plan_due`, it is unknown which nodes are needed: graceful methods run after it.
    pub fn reconcile(&mut self, view: &DisruptionView<'_>, interval: Millis, plan_due: Option<Timestamp>) -> Pass {
        let mut view = view.clone();
        let mut pass = Pass::default();
        let mut next_checks = Vec::new();
        for method in methods::in_passes().filter(|method| plan_due.is_none() || method.reason().is_forceful()) {
            let input = method.read(&view);
            match method.reason() {
                RemovalReason::Empty => self.eligible.0 = input.eligible(),
                RemovalReason::Drifted => self.eligible.1 = input.eligible(),
                _ => {}
            }
            let selection = input.select();
            let selected = Selected::of(input, &selection);
            let Selection { removals, replacements, next_check, held_by_budget, blocked_repairs } = selection;
            pass.blocked_repairs.extend(blocked_repairs);
            // A budget's time window opens without an event.
            let soon = (!held_by_budget.is_empty()).then(|| view.now + interval);
            next_checks.extend([next_check, soon].into_iter().flatten());
            for (pool, held) in held_by_budget {
                *pass.held_by_budget.entry(pool).or_default() += held;
            }
            view.being_removed.extend(removals.iter().map(|removal| removal.claim.clone()));
            view.being_replaced.extend(replacements.iter().map(|planned| planned.removal.claim.clone()));
            let drain_terms = method.drain_terms(&view);
            pass.proposals.push(Proposal { method, selected, removals, drain_terms, replacements });
        }
        match plan_due {
            None => {
                self.changed_since_pass = false;
                self.last_pass = Some(view.now);
                self.next_pass = next_checks.into_iter().min();
            }
            Some(plan_due) => self.next_pass = next_checks.into_iter().chain([plan_due]).min(),
        }
        pass
    }

    pub fn reconcile_urgent(view: &DisruptionView<'_>) -> Vec<Proposal> {
        let proposal = |method: &'static dyn Method| {
            let input = method.read(view);
            let selection = input.select();
            let selected = Selected::of(input, &selection);
            let Selection { removals, replacements, .. } = selection;
            Proposal { method, selected, removals, drain_terms: method.drain_terms(view), replacements }
        };
        methods::urgent().map(proposal).collect()
    }
}

#[cfg(test)]
mod tests;
