//! What of an agent's word is believed: [`quarantine`](super::quarantine) put in the way of observations.

use std::collections::BTreeSet;

use super::losses;
use super::quarantine::{Doubt, Extent, Quarantine, podless, suspicion};
use crate::cluster::{ClusterSnapshot, ClusterState, Key, Observation};
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::termination::OCCUPIED_MS;
use crate::control::{Effect, LaunchState, Listing, Removal};
use crate::model::{Text, Timestamp};

impl ClusterController {
    /// The fact, if it is believed. Everything that is told after what is not believed is not believed either.
    pub fn believe(&mut self, observation: Observation, desk: &mut Context<'_>) -> Option<Observation> {
        match observation {
            Observation::Snapshot(snapshot) => self.believe_snapshot(snapshot, desk),
            other if self.rails.quarantine.is_some() => {
                let believed = self.believed();
                if let Some(quarantine) = &mut self.rails.quarantine {
                    quarantine.hear(&desk.settings.rails.quarantine, other, believed, desk.now);
                }
                None
            }
            Observation::Delete(key) => self.believe_loss(key, desk),
            other => Some(other),
        }
    }

    /// How much was there before, and how much a snapshot is compared with that nothing else precedes.
    fn believed(&self) -> Extent {
        let running = self.running().count();
        Extent::believed(&self.state, running).max(self.rails.extents.recalled())
    }

    fn believe_snapshot(&mut self, snapshot: Box<ClusterSnapshot>, desk: &mut Context<'_>) -> Option<Observation> {
        let rule = &desk.settings.rails.quarantine;
        let shown = Extent::shown(&snapshot, self.shown_machines(&snapshot));
        let known = self.rails.quarantine.take();
        let mut believed = self.believed();
        if shown.claims == 0 && !self.legacy.launches().is_empty() {
            // Who had launches under way, or machines, was no empty cluster.
            believed.nodes = believed.nodes.max(1);
        }
        let Some(mut doubt) = suspicion(rule, believed, shown).or_else(|| podless(rule, &snapshot)) else {
            self.rails.losses.take();
            self.rails.extents.shown();
            return Some(Observation::Snapshot(snapshot));
        };
        doubt.lasting = doubt.pods && (self.rails.extents.is_recalled() || self.state.loses_namespace(&snapshot));
        let hearsay = (Quarantine::hearsay_of(snapshot, desk.now), shown);
        let ask_at = desk.after(rule.confirm_ms);
        let mut quarantine = self.quarantine(doubt, "the agent's snapshot", hearsay, ask_at, desk);
        if let Some(first) = known.filter(|known| known.agrees(rule, shown)) {
            quarantine = quarantine.after(first, desk.now);
            let ran = self.machines_that_ran(&quarantine, desk);
            if quarantine.may_end(rule, &ran, desk.now) {
                self.rails.losses.take();
                self.rails.extents.shown();
                return Some(Observation::Snapshot(Box::new(quarantine.into_snapshot())));
            }
        }
        self.doubt_all(quarantine);
        None
    }

    /// What the agent takes back without having announced it is believed as long as it is little.
    fn believe_loss(&mut self, key: Key, desk: &mut Context<'_>) -> Option<Observation> {
        let rule = &desk.settings.rails.quarantine;
        let lost = self.state.unannounced(&key).filter(|_| rule.window_ms > 0 && self.state.is_synced());
        let Some(object) = lost.filter(|_| !self.leaves(&key)) else { return Some(Observation::Delete(key)) };
        self.rails.losses.forget_past(rule.window_ms, desk.now);
        let present = Extent::believed(&self.state, 0);
        let had = present.plus(self.rails.losses.counts());
        let has = present.minus(losses::one(&object));
        self.rails.losses.note(object, desk.now);
        // A person who deletes the last NodePool is no broken watch.
        let bare = |doubt: &Doubt| !doubt.machines && !doubt.pods && had.pools < 2;
        let Some(doubt) = suspicion(rule, had, has).filter(|doubt| !bare(doubt)) else {
            return Some(Observation::Delete(key));
        };
        let mut hearsay = Box::new(self.state.clone());
        hearsay.apply(Observation::Delete(key), desk.now);
        self.put_back_losses(desk.now);
        let told = format!("the agent took back, unannounced and within {} s, what now", rule.window_ms / 1_000);
        let quarantine = self.quarantine(doubt, &told, (hearsay, has), desk.now, desk);
        self.doubt_all(quarantine);
        None
    }

    /// Whether the machine that the object is about is on its way out. Its NodeClaim may be gone before its Node.
    fn leaves(&self, key: &Key) -> bool {
        let claim = match key {
            Key::Claim(claim) => Some(claim.clone()),
            Key::Node(node) => self.state.node(node).and_then(|node| self.claim_of_instance(&node.provider_id)),
            _ => None,
        };
        claim.and_then(|claim| self.machines.get(&claim)).is_some_and(|machine| machine.leaves.is_some())
    }

    fn quarantine(
        &self,
        doubt: Doubt,
        told: &str,
        hearsay: (Box<ClusterState>, Extent),
        ask_at: Timestamp,
        desk: &Context<'_>,
    ) -> Quarantine {
        let reason = doubt.sentence(&desk.settings.rails.quarantine, &self.cluster, told);
        Quarantine::begin(doubt, reason, hearsay, ask_at, desk.now)
    }

    /// Nothing that the agent tells is believed from here on, and no word that a person gave before is about it.
    fn doubt_all(&mut self, quarantine: Quarantine) {
        self.rails.quarantine = Some(quarantine);
        self.vouched_until = None;
        self.state.lose_sync();
    }

    /// What was lost unannounced is believed again: a snapshot says what became of it.
    pub fn put_back_losses(&mut self, now: Timestamp) {
        for object in self.rails.losses.take() {
            if !self.state.has(&object) {
                self.state.apply(Observation::upsert(object), now);
            }
        }
    }

    /// NodeClaims of machines of ours that run, by what is known here and by what a former keeper wrote down.
    fn running(&self) -> impl Iterator<Item = &Text> {
        let known = self.machines.values().filter(|m| !m.provider_id.is_empty() && !m.stage.is_leaving());
        known.map(|machine| &machine.claim).chain(self.left_running().map(|(claim, _)| claim))
    }

    /// The same of those that a former keeper wrote down alone, with their provider ids.
    fn left_running(&self) -> impl Iterator<Item = (&Text, &Text)> {
        let left = self.legacy.launches().iter().filter(|launch| !self.machines.contains_key(&launch.claim));
        left.filter_map(|launch| match &launch.state {
            LaunchState::Launched { provider_id } => Some((&launch.claim, provider_id)),
            LaunchState::Open | LaunchState::Failed { .. } => None,
        })
    }

    fn shown_machines(&self, snapshot: &ClusterSnapshot) -> usize {
        let shown: BTreeSet<&Text> = snapshot.claims.iter().map(|claim| &claim.name).collect();
        self.running().filter(|claim| shown.contains(*claim)).count()
    }

    /// Machines of ours that ran before the agent was doubted, by provider id, and whether each had a Node by then. One that a
    /// former keeper launched had one if its NodeClaim is too old to be waiting for it.
    fn machines_that_ran(&self, quarantine: &Quarantine, desk: &Context<'_>) -> Vec<(Text, bool)> {
        let known = self.machines.values().filter(|m| !m.provider_id.is_empty() && !m.stage.is_leaving());
        let known = known.map(|m| (m.provider_id.clone(), self.state.node_of_machine(&m.provider_id).is_some()));
        let joined = |claim: &Text| {
            let created = quarantine.hearsay().claim(claim).and_then(|claim| claim.created);
            created.is_some_and(|at| desk.now.millis_since(at) >= desk.settings.registration_timeout_ms)
        };
        known.chain(self.left_running().map(|(claim, id)| (id.clone(), joined(claim)))).collect()
    }

    /// The cloud has listed the machines of this cluster, which may bear witness to what the agent tells.
    pub fn witness(&mut self, listing: &Listing) {
        let Some(quarantine) = self.rails.quarantine.as_mut().filter(|_| listing.complete) else { return };
        let up = listing.instances.iter().filter(|instance| !instance.ends && instance.cluster_uid == self.uid);
        quarantine.hear_listing(listing.asked, up.map(|instance| instance.provider_id.clone()).collect());
    }

    /// A person vouches for what the agent tells.
    pub fn release_quarantine(&mut self) -> Option<Observation> {
        let quarantine = self.rails.quarantine.take()?;
        self.rails.extents.shown();
        Some(Observation::Snapshot(Box::new(quarantine.into_snapshot())))
    }

    /// Asks the agent for a snapshot to compare with what is not believed, when it is time to.
    pub fn ask_for_snapshot(&mut self, desk: &mut Context<'_>) {
        let connected = self.connected;
        let Some(quarantine) = self.rails.quarantine.as_mut().filter(|q| connected && q.ask_at <= desk.now) else {
            return;
        };
        quarantine.ask(&desk.settings.rails.quarantine, desk.now);
        let (cluster, reason) = (self.cluster.clone(), quarantine.reason.clone());
        desk.effects.push(Effect::Resync { cluster, reason });
    }

    /// When a snapshot is asked for next.
    pub fn next_snapshot(&self) -> Option<Timestamp> {
        self.rails.quarantine.as_ref().filter(|_| self.connected).map(|quarantine| quarantine.ask_at)
    }

    /// Until when it is not clear whether the Node of `claim` is empty: it lost pods whose end nothing announced, or has pods that
    /// the agent does not show.
    pub fn lost_pods_until(&self, claim: &Text, desk: &Context<'_>) -> Option<Timestamp> {
        let node = self.state.node_of_claim(claim)?;
        let lost = self.rails.losses.troubles(&node.name, desk.settings.rails.quarantine.window_ms);
        // What came or went since was shown, so the watch of that Node's pods is whole.
        let unseen = |at: &Timestamp| self.state.quiet_since(&node.name).is_none_or(|event| event <= *at);
        let occupied = self.machines.get(claim).and_then(|machine| machine.occupied_at).filter(unseen);
        let occupied = occupied.map(|at| Timestamp(at.0.saturating_add(OCCUPIED_MS)));
        lost.max(occupied).filter(|until| *until > desk.now)
    }

    /// Takes machines out of what may be removed whose Nodes lost pods in a way that may be the agent's fault; they are looked at
    /// again when that is known.
    pub fn keep_where_pods_were_lost(&mut self, removals: &mut Vec<Removal>, desk: &Context<'_>) {
        let mut again: Option<Timestamp> = None;
        removals.retain(|removal| {
            let until = self.lost_pods_until(&removal.claim, desk);
            again = again.into_iter().chain(until).min();
            until.is_none()
        });
        self.next_pass = self.next_pass.into_iter().chain(again).min();
    }

    /// Has it written down how much there is in the cluster, if that has changed enough.
    pub fn keep_extent(&mut self, desk: &mut Context<'_>) {
        if self.next_extent(desk).is_some_and(|due| due <= desk.now) {
            let extent = Extent::believed(&self.state, 0);
            self.rails.extents.note(extent, desk.now);
            desk.effects.push(Effect::KeepExtent { cluster: self.cluster.clone(), extent });
        }
    }

    /// When it is written down next.
    pub fn next_extent(&self, desk: &Context<'_>) -> Option<Timestamp> {
        let extent = Extent::believed(&self.state, 0);
        self.rails.extents.due(&desk.settings.rails.quarantine, extent, desk.now).filter(|_| self.is_ready())
    }
}
