//! The rails in the way of one cluster's decisions.

use super::rate_limits::{Counted, Population};
use super::{GuardrailsView, Held};
use crate::cluster::{ClusterState, PodKey, PodRecord, PoolRecord};
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::view::PoolView;
use crate::control::{PlannedMachine, Removal, UnplacedPod};
use crate::input::PlanningInput;
use crate::model::pool::NotReady;
use crate::model::{MicroUsd, Text, Timestamp};
use crate::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode};

impl ClusterController {
    /// Takes pools that are frozen out of planning. Capacity that is there or on its way is still used.
    pub fn hold_pools(&self, input: &mut PlanningInput, desk: &Context<'_>) {
        for pool in &mut input.pools {
            if let Some(freeze) = desk.rails.freezes.of(&self.cluster, &pool.name) {
                pool.not_ready = Some(NotReady::NodePool(freeze.sentence()));
            }
        }
    }

    /// Takes pods out of planning for which machines were launched in vain, as long as they wait.
    pub fn hold_pods(&mut self, input: &mut PlanningInput, desk: &Context<'_>) -> Vec<UnplacedPod> {
        let state = &self.state;
        self.rails
            .attempts
            .keep(|key, uid| state.pod(key).is_some_and(|pod| pod.uid == *uid && lacks_node(state, pod)));
        if self.rails.attempts.is_empty() {
            return Vec::new();
        }
        let mut held = Vec::new();
        let attempts = &self.rails.attempts;
        let mut waits = Vec::new();
        input.pods.retain(|pod| {
            let key = PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() };
            let Some(why) = attempts.held(&key, desk.now) else { return true };
            held.push(held_pod(&key, &why));
            waits.push(why);
            false
        });
        for why in waits {
            self.wait_for(&why, desk);
        }
        held
    }

    /// Shortens a plan to the machines that there is room for; the pods of the others wait.
    pub fn hold_launches(
        &mut self,
        input: &PlanningInput,
        plan: &mut Plan,
        report: &mut PlanReport,
        desk: &Context<'_>,
    ) -> Vec<UnplacedPod> {
        let prices = plan.nodes.iter().chain(&plan.static_nodes).map(|node| node.price);
        let rule = &desk.settings.rails.launches;
        let (room, held) = desk.rails.launches.room(rule, Counted::Launches, self.crowd(desk), prices, desk.now);
        let Some(held) = held else { return Vec::new() };
        let cut: Vec<PlannedNode> = plan.nodes.drain(room.min(plan.nodes.len())..).collect();
        plan.static_nodes.truncate(room.saturating_sub(plan.nodes.len()));
        report.new_cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
        report.lower_bound = MicroUsd(0);
        self.wait_for(&held, desk);
        let mut pods: Vec<u32> = cut.iter().flat_map(|node| node.pods.iter().copied()).collect();
        pods.sort_unstable();
        let waiting = pods.into_iter().filter_map(|pod| input.pods.get(pod as usize)).map(|pod| {
            let key = PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() };
            held_pod(&key, &held)
        });
        let waiting = waiting.collect();
        self.rails.held_launches = Some(held);
        waiting
    }

    /// Has pods planned again when what holds them back is over.
    fn wait_for(&mut self, held: &Held, desk: &Context<'_>) {
        let Some(until) = held.until else { return };
        let again = until.max(desk.after(desk.settings.retry_ms));
        self.retry = Some(self.retry.map_or(again, |retry| retry.min(again)));
    }

    /// The machines are decided: they count.
    pub fn note_launches<'n>(
        &self,
        machines: &[PlannedMachine],
        nodes: impl Iterator<Item = &'n PlannedNode>,
        desk: &mut Context<'_>,
    ) {
        for (machine, node) in machines.iter().zip(nodes) {
            desk.rails.launches.note(&self.cluster, &machine.claim.name, node.price, desk.now);
        }
    }

    /// Machines that were found in the cluster just now and are younger than the window count as well: the process that
    /// launched them may have been another, which has told the fleet of them.
    pub fn recount_launches(&self, desk: &mut Context<'_>) {
        let window = desk.settings.rails.launches.window_ms;
        for machine in self.machines.values().filter(|m| m.decision.is_none() && m.since == desk.now) {
            let created = self.state.claim(&machine.claim).and_then(|claim| claim.created);
            let known = desk.rails.launches.has(&self.cluster, &machine.claim);
            let recent = |at: &Timestamp| !known && (0..window).contains(&desk.now.millis_since(*at));
            if let Some(at) = created.filter(recent) {
                let price = machine.bought.as_ref().map_or(MicroUsd(0), |bought| bought.price);
                desk.rails.launches.recall(&self.cluster, &machine.claim, price, at);
            }
        }
    }

    /// A machine was launched for pods that are not bound yet.
    pub fn note_attempts(&mut self, claim: &Text, desk: &Context<'_>) {
        let Some(planned) = self.machines.get(claim).and_then(|machine| machine.planned.as_ref()) else { return };
        for name in &planned.pods {
            let Some((namespace, name)) = name.split_once('/') else { continue };
            let key = PodKey { namespace: Text::from(namespace), name: Text::from(name) };
            if let Some(pod) = self.state.pod(&key).filter(|pod| lacks_node(&self.state, pod)) {
                self.rails.attempts.note(&desk.settings.rails.attempts, &key, &pod.uid, desk.now);
            }
        }
    }

    /// Whether a launch from `pool` that is decided may still begin.
    pub fn may_launch(&self, pool: &Text, desk: &Context<'_>) -> bool {
        self.rails.quarantine.is_none() && desk.rails.freezes.of(&self.cluster, pool).is_none()
    }

    /// Whether a removal that is decided may still begin.
    pub fn may_remove(&self, claim: &Text, desk: &Context<'_>) -> bool {
        self.rails.quarantine.is_none()
            && desk.rails.brake.engaged_since(&self.cluster).is_none()
            && self.freeze_of(claim, desk).is_none()
            && self.lost_pods_until(claim, desk).is_none()
    }

    pub(in crate::control) fn freeze_of(&self, claim: &Text, desk: &Context<'_>) -> Option<Text> {
        let pool = self.machines.get(claim).map(|machine| machine.pool.clone());
        let pool = pool.or_else(|| self.state.claim(claim).map(|claim| claim.pool.clone()))?;
        Some(desk.rails.freezes.of(&self.cluster, &pool)?.sentence())
    }

    /// The removals that may begin; they count. The others are looked at again.
    pub fn hold_removals(&mut self, mut removals: Vec<Removal>, desk: &mut Context<'_>) -> Vec<Removal> {
        self.rails.held_removals = None;
        self.keep_where_pods_were_lost(&mut removals, desk);
        if removals.is_empty() {
            return removals;
        }
        if let Some(reason) = desk.rails.brake.reason(&desk.settings.rails.brake, &self.cluster) {
            self.rails.held_removals = Some(Held { reason, until: None });
            return Vec::new();
        }
        let frozen = removals.iter().find_map(|removal| self.freeze_of(&removal.claim, desk));
        removals.retain(|removal| self.freeze_of(&removal.claim, desk).is_none());
        let prices: Vec<MicroUsd> = removals.iter().map(|removal| self.price_of(&removal.claim)).collect();
        let rule = &desk.settings.rails.removals;
        let tally = &desk.rails.removals;
        let (room, held) = tally.room(rule, Counted::Removals, self.crowd(desk), prices.iter().copied(), desk.now);
        removals.truncate(room);
        let held = held.or_else(|| frozen.map(|reason| Held { reason, until: None }));
        if let Some(until) = held.as_ref().and_then(|held| held.until) {
            self.next_pass = Some(self.next_pass.map_or(until, |pass| pass.min(until)));
        }
        self.rails.held_removals = held;
        removals
    }

    /// The removals are decided: they count.
    pub fn note_removals(&self, removals: &[Removal], desk: &mut Context<'_>) {
        for removal in removals {
            let price = self.price_of(&removal.claim);
            desk.rails.removals.note(&self.cluster, &removal.claim, price, desk.now);
        }
    }

    pub(in crate::control) fn price_of(&self, claim: &Text) -> MicroUsd {
        let bought = self.machines.get(claim).and_then(|machine| machine.bought.as_ref());
        bought.map_or(MicroUsd(0), |bought| bought.price)
    }

    pub(in crate::control) fn crowd(&self, desk: &Context<'_>) -> Population<'_> {
        let own = self.standing();
        let others = desk.rails.machines.iter().filter(|(cluster, _)| **cluster != self.cluster);
        let others = others.map(|(_, count)| count).sum::<usize>() + desk.rails.machines_elsewhere;
        let clusters = desk.rails.machines.len().max(1);
        Population { cluster: &self.cluster, machines: own, fleet: own + others, clusters }
    }

    /// Machines that nobody has decided to remove.
    pub fn standing(&self) -> usize {
        let staying = self.machines.values().filter(|machine| machine.leaves.is_none()).count();
        staying.saturating_sub(self.undecided.values().map(|decision| decision.removals.len()).sum())
    }

    /// What the fleet may do has changed: everything is looked at again.
    pub fn stir(&mut self, now: Timestamp) {
        self.changed = true;
        self.last_pass = None;
        self.window.rouse(now);
    }

    /// What people see of the NodePools, those that are frozen among the closed ones.
    pub fn pools_view(&self, rails: &super::Guardrails) -> Vec<PoolView> {
        let view = |record: &PoolRecord| {
            let frozen = rails.freezes.of(&self.cluster, &record.pool.name).map(|freeze| freeze.sentence());
            let closed = frozen.or_else(|| {
                record.pool.not_ready.as_ref().map(|why| match why {
                    NotReady::NodeClass(why) | NotReady::NodePool(why) => why.clone(),
                })
            });
            PoolView { name: record.pool.name.clone(), weight: record.pool.weight, closed }
        };
        self.state.pools().map(view).collect()
    }

    /// What people see of the rails here.
    pub fn rails_view(&self, rails: &super::Guardrails, settings: &super::GuardrailSettings) -> GuardrailsView {
        let doubt = self.collection.doubted().map(|doubt| (doubt.reason.clone(), doubt.since));
        GuardrailsView { listing_doubted: doubt, ..GuardrailsView::of(rails, &self.rails, settings, &self.cluster) }
    }
}

/// Whether the pod waits for a machine: it has no node, or one that is about to go.
pub(super) fn lacks_node(state: &ClusterState, pod: &PodRecord) -> bool {
    pod.node.as_ref().is_none_or(|node| state.is_going_node(node))
}

fn held_pod(key: &PodKey, held: &Held) -> UnplacedPod {
    let reason = Reason { pool: None, code: ReasonCode::HeldBack, message: held.reason.to_string() };
    UnplacedPod { pod: Text::from(key.to_string()), reasons: vec![reason] }
}
