//! Voluntary node repair (`disruption.repair = "voluntary"`; Karpenter 1.15: repair as voluntary disruption): an
//! unhealthy machine is replaced as a drifted one is. So is a machine whose maintenance the cloud has scheduled, however
//! repairs are done: it runs until then.
//!
//! Budgets without reasons, and those that name `Unhealthy`, pace it in place of the limit on unhealthy Nodes. Nodes
//! that are only not ready do not use them up, or the Node to repair would hold its own repair. What else holds it, and
//! how a machine is replaced, is in [`replace_first`](crate::disruption::replace_first).

use super::repair::{Unhealthy, unhealthy};
use crate::disruption::candidates::Candidates;
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::replace_first::{self, Outgoing};
use crate::disruption::selection::{OutgoingMachines, SelectionFacts, SelectionInput};
use crate::disruption::settings::RepairMode;
use model::disruption_policy::DisruptionReason;
use model::interruption::InterruptionKind;
use model::removal::RemovalReason;
use model::{Text, Timestamp};

#[derive(Debug)]
pub(crate) struct VoluntaryRepair;

impl Method for VoluntaryRepair {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Repaired
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        if !repairs(view) && view.maintenance.is_empty() {
            return self.input(view, SelectionFacts::Outgoing(OutgoingMachines::default()));
        }
        let candidates = Candidates::collect(view);
        let mut later = None;
        let due = due(&candidates, view, &mut later);
        let facts = replace_first::read(due, DisruptionReason::Unhealthy, &candidates, view);
        SelectionInput { later, ..self.input(view, SelectionFacts::Outgoing(facts)) }
    }
}

/// Whether unhealthy machines are replaced here.
fn repairs(view: &DisruptionView<'_>) -> bool {
    view.feature_gates.node_repair && view.repair != RepairMode::Forceful
}

/// The machines whose condition has lasted for its toleration, and those with scheduled maintenance. `later` is when the
/// next one is due.
fn due<'v>(candidates: &Candidates<'v>, view: &DisruptionView<'v>, later: &mut Option<Timestamp>) -> Vec<Outgoing<'v>> {
    let replaced = candidates.replaced_for(DisruptionReason::Unhealthy, view);
    let mut machines = Vec::new();
    for candidate in candidates.iter().chain(replaced) {
        if let Some(since) = view.maintenance.get(&candidate.claim.name) {
            let why = Text::from(InterruptionKind::ScheduledChange.to_string());
            machines.push(Outgoing { candidate: *candidate, since: *since, why });
            continue;
        }
        let found = unhealthy((candidate.node, candidate.claim)).filter(|_| repairs(view));
        let found = found.filter(|found| !found.node.do_not_repair);
        let Some(found) = found else { continue };
        let Unhealthy { due, .. } = found;
        if due > view.now {
            *later = later.iter().copied().chain([due]).min();
        } else {
            machines.push(Outgoing { candidate: *candidate, since: due, why: found.why() });
        }
    }
    machines
}

#[cfg(test)]
mod tests;
