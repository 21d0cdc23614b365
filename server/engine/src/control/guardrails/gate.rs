//! The gate for removals in the way of one cluster: gathers what [`judge`] looks at, and does what it says.

use std::collections::{BTreeMap, BTreeSet};

use super::Held;
use super::rate_limits::Counted;
use super::removal::{Cause, Circumstances, Evidence, Facts, NodeState, Verdict, judge};
use crate::cluster::{DisruptionPolicy, Key, NodeRecord, Observation};
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::machine::{LostNode, Machine, Stage};
use crate::model::{MicroUsd, Text, Timestamp};

/// Removals by hand that a budget holds are looked at again after this, in milliseconds: budgets may have windows of time.
const LOOK_AGAIN_MS: i64 = 60_000;

impl ClusterController {
    /// What is known of the machine of `claim`.
    pub(in crate::control) fn facts(&self, claim: &Text, desk: &Context<'_>) -> Facts {
        let Some(machine) = self.machines.get(claim) else {
            return Facts { node: NodeState::Never, pods: 0, confirmed: false };
        };
        let confirmed = machine.confirmed;
        if let Some(node) = self.node_of(machine) {
            let state = if node.ready { NodeState::Ready } else { NodeState::NotReady };
            return Facts { node: state, pods: self.state.guests_on(&node.name), confirmed };
        }
        if self.is_unknown(machine) && self.may_lack_a_node(desk) {
            let node = NodeState::Vanished { with_most: self.lacks_every_node(desk) };
            return Facts { node, pods: self.state.guests_of_unshown_nodes(), confirmed };
        }
        let Some(pods) = self.pods_of_vanished(machine) else {
            return Facts { node: NodeState::Never, pods: 0, confirmed };
        };
        Facts { node: NodeState::Vanished { with_most: self.most_nodes_vanished(desk) }, pods, confirmed }
    }

    /// Whether there may be a Node that is not shown: a pod is bound to one, or none is shown at all.
    pub(in crate::control) fn may_lack_a_node(&self, desk: &Context<'_>) -> bool {
        self.lacks_every_node(desk) || self.state.guests_of_unshown_nodes() > 0
    }

    /// Whether no Node is shown, which cannot be the cluster, and no person has said that it is.
    fn lacks_every_node(&self, desk: &Context<'_>) -> bool {
        let vouched = self.vouched_until.is_some_and(|until| desk.now < until);
        self.state.shows_no_node() && !vouched && !desk.settings.collect.believe_absence
    }

    /// Whether nothing tells if a machine ever had a Node: it was found by its launch or in the cloud, and its NodeClaim is not shown.
    fn is_unknown(&self, machine: &Machine) -> bool {
        machine.planned.is_none()
            && machine.lost_node.is_none()
            && machine.stage != Stage::Deleting
            && !machine.provider_id.is_empty()
            && !self.state.has_seen_claim(&machine.claim)
    }

    /// The Node of a machine that was bought.
    fn node_of(&self, machine: &Machine) -> Option<&NodeRecord> {
        let bought = !machine.provider_id.is_empty();
        bought.then(|| self.state.node_of_machine(&machine.provider_id)).flatten()
    }

    /// How many pods are bound to the Node of a machine, if that was there and is not shown any more. Where its name is not known,
    /// as after a restart, every pod counts whose Node is not shown.
    fn pods_of_vanished(&self, machine: &Machine) -> Option<usize> {
        self.has_vanished(machine).then(|| match &machine.lost_node {
            Some(LostNode { name }) => self.state.guests_on(name),
            None => self.state.guests_of_unshown_nodes(),
        })
    }

    /// Whether the Node of a machine was there and is not shown any more.
    fn has_vanished(&self, machine: &Machine) -> bool {
        let registered = || self.state.claim(&machine.claim).is_some_and(|claim| claim.standing.is_registered());
        machine.stage != Stage::Deleting
            && self.node_of(machine).is_none()
            && (machine.lost_node.is_some() || registered())
    }

    /// Whether most Nodes of our machines are not shown any more although they were.
    pub(in crate::control) fn most_nodes_vanished(&self, desk: &Context<'_>) -> bool {
        let rule = &desk.settings.rails.quarantine;
        if rule.percent == 0 || desk.settings.collect.believe_absence {
            return false;
        }
        let vanished = self.machines.values().filter(|machine| self.has_vanished(machine)).count();
        let shown = self.machines.values().filter(|machine| self.node_of(machine).is_some()).count();
        vanished > rule.free_machines && vanished * 100 > rule.percent * (vanished + shown)
    }

    /// Nodes of machines of ours that `observation` takes away, by NodeClaim.
    pub(in crate::control) fn nodes_lost_by(&self, observation: &Observation) -> Vec<(Text, LostNode)> {
        let lost = |name: &Text| {
            let claim = self.state.claim_of_node(self.state.node(name)?)?;
            Some((claim.name.clone(), LostNode { name: name.clone() }))
        };
        match observation {
            Observation::Delete(Key::Node(name)) => lost(name).into_iter().collect(),
            Observation::Snapshot(snapshot) => {
                let shown: BTreeSet<&Text> = snapshot.nodes.iter().map(|node| &node.name).collect();
                self.state
                    .nodes()
                    .filter(|node| !shown.contains(&node.name))
                    .filter_map(|node| lost(&node.name))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Disruption settings of NodePools that `observation` takes away: their nodes still leave by them.
    pub(in crate::control) fn keep_lives(&mut self, observation: &Observation) {
        let lost: Vec<Text> = match observation {
            Observation::Delete(Key::Pool(name)) => vec![name.clone()],
            Observation::Snapshot(snapshot) => {
                let shown: BTreeSet<&Text> = snapshot.pools.iter().map(|record| &record.pool.name).collect();
                self.state
                    .pools()
                    .map(|record| &record.pool.name)
                    .filter(|name| !shown.contains(name))
                    .cloned()
                    .collect()
            }
            _ => return,
        };
        for name in lost {
            if let Some(record) = self.state.pool(&name) {
                self.rails.former_lives.insert(name, record.life.clone());
            }
        }
    }

    /// Whether the machine of `claim`, which leaves and has no Node, may be given back. One whose Node vanished under pods waits:
    /// the cloud is asked whether it is there at all.
    pub(in crate::control) fn may_go_without_node(&mut self, claim: &Text, desk: &mut Context<'_>) -> bool {
        let facts = self.facts(claim, desk);
        let rule = desk.settings.rails.removal;
        let verdict = judge(&rule, Evidence::Leaving, facts, &Circumstances::default());
        let goes = self.heed(Cause::NodeVanished, claim, &verdict, desk.now);
        if !goes {
            self.ask_by_id(claim, desk);
        }
        goes
    }

    /// Keeps `verdict` where people see it; says whether the removal may begin.
    pub(in crate::control) fn heed(&mut self, cause: Cause, claim: &Text, verdict: &Verdict, now: Timestamp) -> bool {
        match verdict {
            Verdict::Proceed => {
                self.rails.waiting.release(cause, claim);
                true
            }
            Verdict::Hold { reason, release, by_person, .. } => {
                let word = if *by_person { format!(", or until `{}`", self.word()) } else { String::new() };
                let release = Text::from(format!("until {release}{word}"));
                self.rails.waiting.hold(cause, claim, reason.clone(), release, now);
                false
            }
        }
    }

    /// The command by which a person confirms what waits here.
    pub(in crate::control) fn word(&self) -> String {
        format!("fleetwright removals confirm {}", self.cluster)
    }

    /// A person confirms every removal that waits at this moment.
    pub(in crate::control) fn confirm_removals(&mut self, now: Timestamp) {
        let claims: Vec<Text> = self.rails.waiting.all().map(|(_, claim, _)| claim.clone()).collect();
        for claim in claims {
            if let Some(machine) = self.machines.get_mut(&claim) {
                machine.confirmed = true;
                machine.not_before = machine.not_before.min(now);
            }
        }
        self.collection.confirm();
        self.changed = true;
    }

    /// Machines whose NodeClaim or Node is deleted in the cluster go, as far as the gate lets them.
    pub(in crate::control) fn heed_deletions(&mut self, deleted: &BTreeSet<Text>, desk: &mut Context<'_>) {
        self.rails.waiting.again = None;
        let machines = &self.machines;
        let stays = |claim: &&Text| machines.get(*claim).is_some_and(|machine| machine.leaves.is_none());
        let waiting: Vec<Text> = deleted.iter().filter(stays).cloned().collect();
        let is_claimless = |claim: &Text| self.collection.claimless.contains_key(claim);
        self.rails.waiting.retain(Cause::ByHand, |claim| waiting.contains(claim) || is_claimless(claim));
        let reason = Text::from("the NodeClaim or its Node was deleted in the cluster");
        self.let_go_by_hand(waiting, deleted, &reason, desk);
    }

    /// Sends those of `waiting` on their way that the gate lets go. `deleted` are all whose removal by hand is under way.
    pub(in crate::control) fn let_go_by_hand(
        &mut self,
        waiting: Vec<Text>,
        deleted: &BTreeSet<Text>,
        reason: &Text,
        desk: &mut Context<'_>,
    ) {
        if waiting.is_empty() {
            return;
        }
        let bulk = self.bulk(&waiting, deleted, desk);
        let mut allowances = bulk.as_ref().map(|_| self.allowances(desk.now)).unwrap_or_default();
        let prices: Vec<MicroUsd> = waiting.iter().map(|claim| self.price_of(claim)).collect();
        let (mut room, capped) = self.room_for(prices, desk);
        for claim in waiting {
            let facts = self.facts(&claim, desk);
            let counted = facts.node != NodeState::Never;
            let pool = self.machines.get(&claim).map(|machine| machine.pool.clone()).unwrap_or_default();
            let allowance = allowances.get(&pool).copied().unwrap_or(0);
            let allowance = if facts.confirmed && self.rests(&pool) { allowance.max(1) } else { allowance };
            let bulk = bulk.clone().filter(|_| counted);
            let capped = capped.clone().filter(|_| room == 0);
            let around = Circumstances { doubted: None, frozen: self.freeze_of(&claim, desk), capped, bulk, allowance };
            let verdict = judge(&desk.settings.rails.removal, Evidence::ByHand, facts, &around);
            if let Verdict::Hold { until, .. } = &verdict {
                let again = until.unwrap_or_else(|| desk.after(LOOK_AGAIN_MS)).max(desk.after(1_000));
                self.rails.waiting.again = Some(self.rails.waiting.again.map_or(again, |at| at.min(again)));
            }
            if self.heed(Cause::ByHand, &claim, &verdict, desk.now) {
                if counted {
                    self.rails.waiting.let_go(&claim, desk.now);
                }
                if around.bulk.is_some() {
                    room = room.saturating_sub(1);
                    allowances.insert(pool, allowance.saturating_sub(1));
                    self.count_removal(&claim, desk);
                }
                self.dismiss(&claim, reason, None, desk);
            }
        }
    }

    /// Whether more machines are deleted by hand than may go at once: the sentence that says how many.
    fn bulk(&mut self, waiting: &[Text], deleted: &BTreeSet<Text>, desk: &Context<'_>) -> Option<Text> {
        let rule = desk.settings.rails.removal;
        let has_node = |claim: &&Text| self.facts(claim, desk).node != NodeState::Never;
        let mut all: BTreeSet<Text> = waiting.iter().filter(has_node).cloned().collect();
        // Those that a former process let go are still being drained.
        let leaving = |claim: &&Text| self.machines.get(*claim).is_some_and(|machine| machine.leaves.is_some());
        all.extend(deleted.iter().filter(leaving).cloned());
        let lately: Vec<Text> = self.rails.waiting.lately(rule.by_hand_window_ms, desk.now).cloned().collect();
        let gone = lately.iter().filter(|claim| !self.machines.contains_key(*claim)).count();
        all.extend(lately);
        let machines = self.machines.len() + gone;
        let most = rule.by_hand(machines);
        (all.len() > most).then(|| {
            let minutes = rule.by_hand_window_ms / 60_000;
            Text::from(format!(
                "{} of {machines} machines were deleted by hand or with their NodePool within {minutes} min, more than the {most} \
                 that go at once",
                all.len()
            ))
        })
    }

    /// How many machines of each NodePool may begin to leave now by its disruption budgets, as last known. Nodes that are not
    /// ready count as gone unless they are deleted themselves.
    fn allowances(&self, now: Timestamp) -> BTreeMap<Text, usize> {
        let mut pools: BTreeMap<Text, (usize, usize)> = BTreeMap::new();
        for machine in self.machines.values() {
            let (all, gone) = pools.entry(machine.pool.clone()).or_default();
            let ready = self.state.node_of_claim(&machine.claim).is_none_or(|node| node.ready || node.deleting);
            let deleted = self.state.claim(&machine.claim).is_some_and(|claim| claim.deleting);
            *all += 1;
            *gone += usize::from(machine.leaves.is_some() || (!ready && !deleted));
        }
        let default = DisruptionPolicy::default();
        let allowance = |pool: &Text, all: usize, gone: usize| {
            let life = self.state.pool(pool).map(|record| &record.life).or_else(|| self.rails.former_lives.get(pool));
            life.unwrap_or(&default).allowance_by_hand(all, gone, now)
        };
        pools.into_iter().map(|(pool, (all, gone))| (pool.clone(), allowance(&pool, all, gone))).collect()
    }

    /// Whether no machine of `pool` is on its way out.
    fn rests(&self, pool: &Text) -> bool {
        self.machines.values().all(|machine| machine.pool != *pool || machine.leaves.is_none())
    }

    /// What else holds for the machine of `claim`, which only missing evidence speaks against.
    pub(in crate::control) fn circumstances(&self, claim: &Text, desk: &Context<'_>) -> Circumstances {
        let (room, capped) = self.room_for(vec![self.price_of(claim)], desk);
        let capped = capped.filter(|_| room == 0);
        let frozen = self.freeze_of(claim, desk);
        Circumstances { doubted: self.doubted(), frozen, capped, ..Circumstances::default() }
    }

    /// How many of the machines with these prices the bounds on removals let go, and why no more.
    fn room_for(&self, prices: Vec<MicroUsd>, desk: &Context<'_>) -> (usize, Option<Held>) {
        let rule = &desk.settings.rails.removals;
        desk.rails.removals.room(rule, Counted::Removals, self.crowd(desk), prices, desk.now)
    }

    /// Whether the bounds on removals have room for a machine that nobody has; it counts then.
    pub(in crate::control) fn has_room_for(&self, claim: &Text, desk: &mut Context<'_>) -> bool {
        let (room, _) = self.room_for(vec![self.price_of(claim)], desk);
        if room > 0 {
            self.count_removal(claim, desk);
        }
        room > 0
    }

    /// Why what is seen of the cluster, or of its machines in the cloud, is not believed as a whole.
    fn doubted(&self) -> Option<Text> {
        let picture = self.rails.quarantine.as_ref().map(|quarantine| quarantine.reason.clone());
        picture.or_else(|| self.collection.doubted().map(|doubt| doubt.reason.clone()))
    }

    /// What waits of machines that are gone waits no more.
    pub(in crate::control) fn forget_waiting(&mut self) {
        let machines = &self.machines;
        for cause in [Cause::ByHand, Cause::NodeVanished, Cause::Missing, Cause::Foreign] {
            self.rails.waiting.retain(cause, |claim| machines.contains_key(claim));
        }
    }

    /// A removal on missing evidence counts against the bounds on removals.
    pub(in crate::control) fn count_removal(&self, claim: &Text, desk: &mut Context<'_>) {
        let price: MicroUsd = self.price_of(claim);
        desk.rails.removals.note(&self.cluster, claim, price, desk.now);
    }
}
