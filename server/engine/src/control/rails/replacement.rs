//! Room before removal: a machine that has to go although pods on it need a place is drained when their room is planned,
//! not before. Planning takes a batch window; when it cannot be done at all, the drain waits no longer than the setting
//! says.

use crate::control::machine::Stage;
use crate::control::ward::{Desk, Ward};
use crate::model::Text;

impl Ward {
    /// Drains the machine of `claim` now, or as soon as its pods are planned.
    pub fn drain_when_replaced(&mut self, claim: &Text, desk: &mut Desk<'_>) {
        let wait = desk.settings.rails.replacement_wait_ms;
        if wait <= 0 || !self.is_ready() || !self.has_demand_on(claim, desk) {
            return self.drain(claim, desk);
        }
        let until = desk.after(wait);
        if let Some(machine) = self.machines.get_mut(claim) {
            machine.not_before = until;
        }
    }

    fn has_demand_on(&self, claim: &Text, desk: &Desk<'_>) -> bool {
        let Some(node) = self.state.node_of_claim(claim) else { return false };
        self.state.pods_on(&node.name).any(|pod| self.state.is_demand(pod, desk.now))
    }

    /// The pods of all machines that have to go are planned: drains that waited for it begin.
    pub fn drain_replaced(&mut self, desk: &mut Desk<'_>) {
        let waiting = self.machines.values().filter(|machine| {
            machine.stage == Stage::Draining && machine.waits_for.is_none() && machine.not_before > desk.now
        });
        let claims: Vec<Text> = waiting.map(|machine| machine.claim.clone()).collect();
        for claim in claims {
            self.drain(&claim, desk);
        }
    }
}
