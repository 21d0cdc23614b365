//! Machines whose NodeClaim is gone although nobody here removed it: somebody took its finalizers off by force, or what the
//! agent shows is not the cluster.
//!
//! What was known of such a NodeClaim is kept as something expected, so that the machine goes on being reckoned with, and the
//! machine is given back (drained first, as long as it has a Node) when three agree: the agent has not shown the NodeClaim
//! for the collection period, the cloud lists the machine, and what the agent shows can be the cluster at all. A cluster
//! without a Node, a pod and a NodeClaim is none: the agent itself runs somewhere. Nor is it likely that most NodeClaims
//! went at once. Either is reported, and waits for a person ([`Event::QuarantineReleased`](super::Event)).
//!
//! Whoever removes a NodeClaim by force wants its machine gone, and its pods elsewhere first: the machine goes as one whose
//! NodeClaim is deleted, its pods are planned anew at once, and PodDisruptionBudgets are kept for as long as they hold. The
//! NodeClaim is not made again, and its grace period counts while it is remembered.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster_controller::{ClusterController, Context};
use super::machine::{Machine, Stage};
use super::recovery::Finding;
use super::{ListedInstance, Listing};
use crate::cluster::{ClaimRecord, Key, Observation};
use crate::model::labels::NODEPOOL;
use crate::model::{Text, Timestamp};

/// So many machines may have lost their NodeClaims while nobody looked.
const FEW_MACHINES: usize = 3;
/// Why such a machine goes.
const REMOVED: &str = "its NodeClaim was removed without it";

impl ClusterController {
    /// Believes a fact. NodeClaims of machines that it takes away are expected from here on.
    pub fn apply(&mut self, observation: Observation, now: Timestamp) {
        let lost = self.claims_lost_by(&observation);
        let nodes = self.nodes_lost_by(&observation);
        self.keep_lives(&observation);
        self.state.apply(observation, now);
        for (claim, node) in nodes {
            if let Some(machine) = self.machines.get_mut(&claim) {
                machine.lost_node = Some(node);
            }
        }
        for claim in lost {
            let name = claim.name.clone();
            self.state.expect_claim(claim);
            if self.machines.get(&name).is_some_and(|machine| machine.leaves.is_some()) {
                self.state.mark_going(&name);
            }
        }
    }

    fn claims_lost_by(&self, observation: &Observation) -> Vec<ClaimRecord> {
        let kept = |claim: &Text| {
            let machine = self.machines.get(claim).filter(|machine| machine.stage != Stage::Deleting)?;
            self.state.claim(&machine.claim).filter(|_| self.state.has_seen_claim(claim)).cloned()
        };
        match observation {
            Observation::Delete(Key::Claim(claim)) => kept(claim).into_iter().collect(),
            Observation::Snapshot(snapshot) => {
                let shown: BTreeSet<&Text> = snapshot.claims.iter().map(|claim| &claim.name).collect();
                self.machines.keys().filter(|claim| !shown.contains(claim)).filter_map(kept).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What a NodeClaim that nobody shows must have been, by the Node of its machine, if that is there.
    pub fn imagine_claim(&self, claim: &Text, provider_id: &Text) -> ClaimRecord {
        let imagined =
            ClaimRecord { name: claim.clone(), provider_id: provider_id.clone(), ours: true, ..ClaimRecord::default() };
        let Some(node) = self.state.node_of_machine(provider_id) else { return imagined };
        ClaimRecord {
            pool: node.labels.get(NODEPOOL).cloned().unwrap_or_default(),
            labels: node.labels.clone(),
            capacity: node.capacity.clone(),
            allocatable: node.allocatable.clone(),
            created: node.created,
            ..imagined
        }
    }

    /// A machine that nobody has, and that has a Node or may have one, is in use: it is taken into care as if its NodeClaim had
    /// just been lost, and goes the way of those, drained. Of two machines of one NodeClaim the second goes by its own name.
    pub fn take_care_of(&mut self, instance: &ListedInstance, since: Timestamp, desk: &Context<'_>) {
        let ListedInstance { claim, provider_id, .. } = instance;
        let free = !claim.is_empty() && !self.machines.contains_key(claim) && self.state.claim(claim).is_none();
        let own = provider_id.rsplit('/').next().unwrap_or_default();
        let name = if free { claim.clone() } else { Text::from(own) };
        let record = self.imagine_claim(&name, provider_id);
        self.machines.insert(name.clone(), self.found(&record, desk.now));
        self.state.expect_claim(record);
        self.collection.claimless.insert(name, since);
    }

    /// Whether `missing` of `of` machines without a NodeClaim say more about the agent than about the cluster.
    pub fn doubts_absence(&self, missing: usize, of: usize, desk: &Context<'_>) -> bool {
        let most = missing >= FEW_MACHINES && missing * 2 > of;
        let held = missing > 0 && (most || self.state.shows_nothing());
        let vouched = self.vouched_until.is_some_and(|until| desk.now < until);
        held && !vouched && !desk.settings.collect.believe_absence
    }

    /// Gives back machines that run and that the agent has shown no NodeClaim of for long enough.
    pub fn collect_claimless(&mut self, listing: &Listing, after_ms: i64, desk: &mut Context<'_>) {
        let up = listing.instances.iter().filter(|instance| !instance.ends);
        let up: BTreeSet<&Text> = up.map(|instance| &instance.provider_id).collect();
        let stays = |machine: &&Machine| machine.leaves.is_none() && up.contains(&machine.provider_id);
        let staying: Vec<&Text> = self.machines.values().filter(stays).map(|machine| &machine.claim).collect();
        let known = &self.collection.claimless;
        let claimless: BTreeMap<Text, Timestamp> = (staying.iter())
            .filter(|claim| !self.state.has_seen_claim(claim))
            .map(|claim| (Text::clone(claim), known.get(*claim).copied().unwrap_or(listing.asked)))
            .collect();
        let (missing, of) = (claimless.len(), staying.len());
        let due = claimless.iter().filter(|(_, since)| listing.asked.millis_since(**since) >= after_ms);
        let due: Vec<Text> = due.map(|(claim, _)| claim.clone()).collect();
        self.collection.claimless = claimless;
        if !due.is_empty() && self.doubts_absence(missing, of, desk) {
            return self.report_absence(Finding::ClaimsMissing { missing, of }, desk);
        }
        let due_now: BTreeSet<Text> = due.iter().cloned().collect();
        self.let_go_by_hand(due, &due_now, &Text::from(REMOVED), desk);
    }

    /// Tells a doubt once, as long as it stays the same.
    pub fn report_absence(&mut self, finding: Finding, desk: &mut Context<'_>) {
        if self.doubt.as_ref() != Some(&finding) {
            self.doubt = Some(finding.clone());
            self.report(finding, desk);
        }
    }
}

#[cfg(test)]
mod tests;
