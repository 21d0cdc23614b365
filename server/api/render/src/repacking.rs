//! A repacked cluster (`plan --repack`): what it costs and needs, and what blocks it.

use model::MicroUsd;
use repack::{BlockerTotal, HeldNode, RepackSummary};
use serde::Serialize;

use super::Rendering;
use super::held::HeldEntry;
use super::usd::{Usd, dollars_a_month};
use command::wording::counted;

/// Maximum number of blockers in a summary.
pub(super) const LISTED_BLOCKERS: usize = 20;

/// The costs of a running cluster in a document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RepackCostEntry {
    now_usd_per_hour: Usd,
    needed_usd_per_hour: Usd,
    held_usd_per_hour: Usd,
}

pub(super) fn repack_cost_entry(summary: &RepackSummary) -> RepackCostEntry {
    RepackCostEntry {
        now_usd_per_hour: Usd(summary.cost.now),
        needed_usd_per_hour: Usd(summary.cost.needed),
        held_usd_per_hour: Usd(summary.cost.held),
    }
}

pub(super) fn held_entries<'r>(rendering: &Rendering<'r>, summary: &'r RepackSummary) -> Vec<HeldEntry<'r>> {
    let name = |held: &HeldNode| &rendering.input.nodes[held.node as usize].name;
    summary.held.iter().map(|held| HeldEntry::of(name(held), held.reason, &held.by)).collect()
}

/// What the cluster costs, needs and holds, in one sentence.
pub(super) fn headline(summary: &RepackSummary) -> String {
    let cost = summary.cost;
    let and_month = |cost: MicroUsd| format!("${cost} an hour (about ${} a month)", dollars_a_month(cost));
    let held = match (summary.blockers(true).is_empty(), cost.held) {
        (true, _) => "nothing that could be changed holds a node.".to_owned(),
        (false, MicroUsd(0)) => "what holds nodes costs nothing:".to_owned(),
        (false, held) => format!("these hold {}:", and_month(held)),
    };
    format!("You pay {}, you need {}; {held}", and_month(cost.now), and_month(cost.needed))
}

/// What the repacking does and saves, in one sentence.
pub(super) fn effect(rendering: &Rendering<'_>, summary: &RepackSummary) -> String {
    if let Some(reason) = &summary.left_as_it_is {
        return format!("The plan leaves the cluster as it is: {reason}.");
    }
    let (moved, planned) = moves(rendering);
    let stay = counted(summary.held.len(), "node stays", "nodes stay");
    let (now, after) = (summary.cost.now, summary.cost.after());
    let difference = MicroUsd(now.0.saturating_sub(after.0));
    let saving = match difference.0 {
        0 => "as much as now".to_owned(),
        more if more < 0 => format!("${} more than now", MicroUsd(-more)),
        _ => format!("${difference} less than now (about ${} a month)", dollars_a_month(difference)),
    };
    format!(
        "{}, {stay}, and {moved} of {} that nothing holds {}; then it costs ${after} an hour, {saving}.",
        counted(summary.removed, "node is removed", "nodes are removed"),
        counted(planned, "pod", "pods"),
        if moved == 1 { "moves" } else { "move" },
    )
}

/// Number of pods that run and are put on another node, and of all that run and are planned.
fn moves(rendering: &Rendering<'_>) -> (usize, usize) {
    let runs_on = |pod: &u32| rendering.pod(*pod).moved_from.as_ref();
    let on_new = rendering.plan.nodes.iter().flat_map(|node| &node.pods).filter(|pod| runs_on(pod).is_some());
    let elsewhere = |(pod, node): &&(u32, u32)| {
        let name = &rendering.input.nodes[*node as usize].name;
        runs_on(pod).is_some_and(|runs_on| runs_on != name)
    };
    let moved = on_new.count() + rendering.plan.placements.iter().filter(elsewhere).count();
    (moved, rendering.input.pods.iter().filter(|pod| pod.moved_from.is_some()).count())
}

/// The blockers to list, and the number of the others.
pub(super) fn listed(summary: &RepackSummary, liftable: bool, most: usize) -> (Vec<BlockerTotal<'_>>, usize) {
    let mut blockers = summary.blockers(liftable);
    let more = blockers.len().saturating_sub(most);
    blockers.truncate(most);
    (blockers, more)
}
