//! Consolidation: removes machines whose pods fit elsewhere at a lower price (Karpenter: consolidation).
//!
//! A plan of disruption chooses the machines and puts them under replacement
//! ([`consolidation`](crate::disruption::consolidation)); this method removes them once each of their pods has
//! an initialized node to go to. A machine stays if the Node or one of its pods is protected meanwhile, if a pod
//! has no place any more, or if the budgets admit less than before.

use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::replace_first::{self, Outgoing};
use crate::disruption::selection::{SelectionFacts, SelectionInput};
use model::disruption_policy::{ConsolidationPolicy, DisruptionReason};
use model::removal::RemovalReason;
use model::{Text, Timestamp};

#[derive(Debug)]
pub(crate) struct Underutilized;

impl Method for Underutilized {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Underutilized
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let candidates = Candidates::collect(view);
        let begun = candidates.replaced_for(DisruptionReason::Underutilized, view).map(|candidate| {
            let why = Text::from("its pods have other nodes at a lower price");
            Outgoing { candidate: *candidate, since: view.now, why }
        });
        let facts = replace_first::read(begun.collect(), DisruptionReason::Underutilized, &candidates, view);
        self.input(view, SelectionFacts::Consolidated(facts))
    }
}

/// Whether the NodePool has its nodes with pods consolidated.
fn is_consolidated(candidate: &Candidate<'_>) -> bool {
    let pool = candidate.pool;
    pool.pool.replicas.is_none()
        && pool.disruption.policy != ConsolidationPolicy::WhenEmpty
        && pool.disruption.consolidate_after.is_some()
}

/// Nodes with pods that consolidation may remove or replace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConsolidatableNodes {
    /// Whether `consolidateAfter` of one has passed, and no pod of it was moved lately.
    pub is_any_now: bool,
    /// When it passes for the next one, or a pod that was moved may be moved again.
    pub next: Option<Timestamp>,
}

/// The nodes that a plan of disruption would look at.
pub(crate) fn consolidatable(view: &DisruptionView<'_>) -> ConsolidatableNodes {
    let mut found = ConsolidatableNodes::default();
    let candidates = Candidates::collect(view);
    for candidate in candidates.iter().filter(|candidate| is_consolidated(candidate)) {
        let node = &candidate.node.name;
        if !view.state.pods_on(node).any(cluster::PodRecord::is_reschedulable) {
            continue;
        }
        let Some(last) = view.state.last_pod_event(node) else { continue };
        let recent_move = view.state.recent_move_to(node, view.move_interval, view.now);
        let from = candidate.pool.disruption.consolidatable_from(last);
        match from.map(|from| recent_move.map_or(from, |moved| moved.until.max(from))) {
            Some(from) if from > view.now => found.next = found.next.into_iter().chain([from]).min(),
            Some(_) => found.is_any_now |= !candidate.is_protected(view.state, view.now),
            None => {}
        }
    }
    found
}
