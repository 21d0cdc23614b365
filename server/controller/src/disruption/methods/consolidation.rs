//! Consolidation: removes machines whose pods fit elsewhere at a lower price (Karpenter: consolidation).
//!
//! A plan of disruption chooses the machines and puts them under replacement
//! ([`consolidation`](crate::disruption::consolidation)); this method removes them once each of their pods has
//! an initialized node to go to. A machine stays if the Node or one of its pods is protected meanwhile, if a pod
//! has no place any more, or if the budgets admit less than before.

use std::collections::BTreeMap;

use crate::MethodReason;
use crate::disruption::candidates::{Candidate, Candidates};
use crate::disruption::evictions::Evictions;
use crate::disruption::method::{DisruptionView, Method, PlannedReplacement, Selection};
use crate::nodeclaim::DrainTerms;
use model::disruption_policy::{ConsolidationPolicy, DisruptionReason};
use model::removal::RemovalReason;
use model::{PoolName, Timestamp};

/// The reason of its decisions.
pub const CONSOLIDATION: MethodReason = MethodReason {
    kind: "consolidation",
    summary: "pods fit elsewhere at a lower price",
    removal: RemovalReason::Underutilized,
};

/// The method.
#[derive(Debug)]
pub(crate) struct Underutilized;

impl Method for Underutilized {
    fn reason(&self) -> MethodReason {
        CONSOLIDATION
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let candidates = Candidates::collect(view);
        let mut by_pool: BTreeMap<&PoolName, Vec<Candidate<'_>>> = BTreeMap::new();
        for candidate in candidates.replaced_for(DisruptionReason::Underutilized, view) {
            by_pool.entry(&candidate.claim.pool).or_default().push(*candidate);
        }
        let (mut selection, mut evictions) = (Selection::default(), Evictions::none(view));
        for mut begun in by_pool.into_values() {
            let since = |one: &Candidate<'_>| view.state.replacement_of(&one.claim.name).map(|begun| begun.since);
            begun.sort_by_key(|one| (since(one), one.claim.name.clone()));
            let times: Vec<Timestamp> = begun.iter().filter_map(since).collect();
            let reason = DisruptionReason::Underutilized;
            let pool = begun.first().map(|one| one.pool);
            let allowed = pool.map_or(0, |pool| candidates.allowed_to_go_on(pool, &times, reason, view.now));
            let valid = begun.iter().take(allowed).filter(|one| is_valid(one, view));
            for one in valid {
                if is_moved(one, view) && evictions.admit(one) {
                    selection.removals.push(removal(one, view));
                } else {
                    selection.replacements.push(PlannedReplacement { removal: removal(one, view), moves_pods: true });
                }
            }
        }
        selection
    }

    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        DrainTerms::default()
    }
}

/// Whether the machine may still be consolidated.
fn is_valid(candidate: &Candidate<'_>, view: &DisruptionView<'_>) -> bool {
    let mut pods = view.state.pods_to_move_from(&candidate.node.name, view.now);
    is_consolidated(candidate)
        && !candidate.is_protected(view.state, view.now)
        && pods.all(|pod| view.state.assignments().get(&pod.key).is_some())
}

/// Whether the NodePool has its nodes with pods consolidated.
fn is_consolidated(candidate: &Candidate<'_>) -> bool {
    let pool = candidate.pool;
    pool.pool.replicas.is_none()
        && pool.disruption.policy != ConsolidationPolicy::WhenEmpty
        && pool.disruption.consolidate_after.is_some()
}

/// Whether every pod that has to run elsewhere has a node that accepts it now.
fn is_moved(candidate: &Candidate<'_>, view: &DisruptionView<'_>) -> bool {
    view.state.pods_to_move_from(&candidate.node.name, view.now).all(|pod| {
        if view.waits_for_initialization {
            view.state.initialized_node_for(&pod.key).is_some()
        } else {
            view.state.assigned_node(&pod.key).is_some()
        }
    })
}

fn removal(candidate: &Candidate<'_>, view: &DisruptionView<'_>) -> crate::Removal {
    let name = &candidate.node.name;
    view.removal(&candidate.claim.name, format!("the pods of node {name} have other nodes at a lower price"))
}

/// Nodes with pods that consolidation may remove or replace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConsolidatableNodes {
    /// Whether `consolidateAfter` of one has passed.
    pub is_any_now: bool,
    /// When it passes for the next one.
    pub next: Option<Timestamp>,
}

/// The nodes that a plan of disruption would look at.
pub(crate) fn consolidatable(view: &DisruptionView<'_>) -> ConsolidatableNodes {
    let mut found = ConsolidatableNodes::default();
    let candidates = Candidates::collect(view);
    for candidate in candidates.iter().filter(|candidate| is_consolidated(candidate)) {
        let node = &candidate.node.name;
        if !view.state.pods_on(node).any(crate::cluster::PodRecord::is_reschedulable) {
            continue;
        }
        let Some(last) = view.state.last_pod_event(node) else { continue };
        match candidate.pool.disruption.consolidatable_from(last) {
            Some(from) if from > view.now => found.next = found.next.into_iter().chain([from]).min(),
            Some(_) => found.is_any_now |= !candidate.is_protected(view.state, view.now),
            None => {}
        }
    }
    found
}
