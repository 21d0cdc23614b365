//! Taking up what a former process left under way: a process died, or a lease changed hands.
//!
//! What was promised to the outside comes as [`OpenLaunch`]es before the first snapshot is believed; the snapshot says how far
//! each had come, and the machine goes on from there under its old name and token:
//!
//! | row | NodeClaim in the cluster | what follows |
//! |---|---|---|
//! | open | shows a machine | the row is settled: the machine is found like any other, and known to be bought when its NodeClaim is gone |
//! | open | shows none | the same launch again, with the same token: only that tells whether there is a machine. Whoever waits no more, or deletes it, has it given back then |
//! | open | shows none, and the token is too old to be sent, or the order names a cluster of another UID | it is removed; a machine that was bought for it is collected |
//! | open | is not there, pods wait | it is created again, under the same name |
//! | open | is not there, nobody waits | it is forgotten: no launch precedes its NodeClaim. A machine that was bought, and lost its NodeClaim before anybody wrote it down, is collected |
//! | launched | shows none | the machine is looked at, and its facts are written into the NodeClaim |
//! | launched | is not there | the machine is looked at; one that runs is given back after the collection period (`claimless`) |
//! | failed | | the NodeClaim is removed |
//!
//! A NodeClaim without a row of ours is reported and never touched.

use std::collections::BTreeSet;

use super::cluster_controller::{ClusterController, Context};
use super::machine::{Machine, Stage};
use super::{ClusterId, DecisionId, Effect, Instruction, PlannedMachine, order};
use crate::cluster::assignments::Target;
use crate::cluster::{ClaimRecord, PodKey};
use crate::model::{MicroUsd, Text, Timestamp};

/// How long a token is trusted to give the machine that it gave before, in milliseconds. EC2 remembers tokens for a day at
/// least; past half of that a repeated launch might buy a second machine, so the first is collected instead.
const TOKEN_LIFE_MS: i64 = 12 * 3_600_000;

/// Taint of a Node that is being drained.
const DISRUPTED: &str = "karpenter.sh/disrupted";

/// A launch that was written down and not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLaunch {
    /// NodeClaim.
    pub claim: Text,
    /// The latest attempt, from 1.
    pub attempt: u32,
    /// Where it stands.
    pub state: LaunchState,
    /// What was decided. `None` for a launch that succeeded, which nobody sends again, and for one that cannot be read.
    pub planned: Option<Box<DecidedLaunch>>,
}

/// Where a launch stands, as far as it was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchState {
    /// The cloud may have been called; nobody knows with what result.
    Open,
    /// A machine came of it.
    Launched {
        /// Its provider id.
        provider_id: Text,
    },
    /// No machine came of it, for good.
    Failed {
        /// What the cloud said.
        why: Text,
    },
}

/// A launch as it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedLaunch {
    /// The exact orders; the launch is the one of the latest attempt.
    pub machine: PlannedMachine,
    /// The decision.
    pub decision: DecisionId,
    /// When it was made.
    pub at: Timestamp,
}

/// Something that is wrong and that nobody may put right unasked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A NodeClaim says that it is ours, has no machine, and nothing was written down about it.
    ClaimWithoutRow {
        /// NodeClaim.
        claim: Text,
    },
    /// What was written down about a launch cannot be read.
    UnreadableLaunch {
        /// NodeClaim.
        claim: Text,
    },
    /// Most of the machines that were written down have no NodeClaim in the first snapshot.
    ClaimsMissing {
        /// So many have none.
        missing: usize,
        /// Of so many.
        of: usize,
    },
    /// A listing of the cloud lacks most of the machines that are known to run.
    ListingLacks {
        /// So many are missing.
        missing: usize,
        /// Of so many.
        of: usize,
    },
    /// A Node was to be drained because it is empty, and the API server lists pods on it.
    NodeOccupied {
        /// NodeClaim.
        claim: Text,
        /// What the agent found.
        why: Text,
    },
    /// A machine has the name of this cluster and the UID of another.
    ForeignInstance {
        /// Its provider id.
        provider_id: Text,
        /// The UID that it has.
        cluster_uid: Text,
    },
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ClaimWithoutRow { claim } => {
                write!(f, "NodeClaim {claim} has no machine and was not written down by any server: it is left alone")
            }
            Self::UnreadableLaunch { claim } => {
                write!(f, "what was written down about NodeClaim {claim} cannot be read: it is left alone")
            }
            Self::ClaimsMissing { missing, of } => write!(
                f,
                "{missing} of {of} machines that were bought have no NodeClaim in what the agent shows: nothing is given back \
                 until it shows them, or until somebody releases the cluster's quarantine"
            ),
            Self::ListingLacks { missing, of } => write!(
                f,
                "the cloud's listing lacks {missing} of {of} machines that are known to run: nothing is concluded from it. Look \
                 whether tags were taken off, and whether the credentials are of the right account and region; if the machines \
                 are gone indeed, `fleetwright removals confirm` says so"
            ),
            Self::NodeOccupied { claim, why } => write!(
                f,
                "NodeClaim {claim} was to be removed because its Node is empty, and is not: {why}. It stays. If this goes on, the \
                 agent's watch lacks pods: restart the agent"
            ),
            Self::ForeignInstance { provider_id, cluster_uid } => write!(
                f,
                "machine {provider_id} has this cluster's name and the UID {cluster_uid:?} of another: it is left alone"
            ),
        }
    }
}

/// What is to be taken up once the cluster has shown itself.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Whether a lease was taken since the last snapshot.
    taken: bool,
    launches: Vec<OpenLaunch>,
    /// NodeClaims that are not shown, and whose machines are gone as well.
    ended: BTreeSet<Text>,
}

impl Recovery {
    /// Whether a snapshot is awaited that tells how far things had come.
    pub fn is_open(&self) -> bool {
        self.taken
    }

    /// What is to be taken up.
    pub fn launches(&self) -> &[OpenLaunch] {
        &self.launches
    }

    /// That these NodeClaims are not shown says nothing about the agent: their machines are gone as well.
    pub fn pass_over(&mut self, claims: BTreeSet<Text>) {
        self.ended = claims;
    }
}

impl ClusterController {
    /// The cluster is in our care from here on, with what its former keeper left under way.
    pub fn take_over(&mut self, uid: Text, launches: Vec<OpenLaunch>) {
        if !uid.is_empty() {
            self.uid = uid;
        }
        (self.vouched_until, self.doubt) = (None, None);
        self.legacy = Recovery { taken: true, launches, ended: BTreeSet::new() };
    }

    /// The cluster has shown itself: what was left under way goes on from where it stands.
    pub fn take_up(&mut self, desk: &mut Context<'_>) {
        // In shadow mode nothing is done; who takes the cluster out of it starts a process that takes things up.
        if !self.legacy.taken || self.is_shadow(desk) {
            return;
        }
        if let Some(finding) = self.claims_missing(desk) {
            return self.report_absence(finding, desk);
        }
        let Recovery { launches, .. } = std::mem::take(&mut self.legacy);
        self.collection.begin(desk.now);
        let rows: BTreeSet<Text> = launches.iter().map(|launch| launch.claim.clone()).collect();
        for launch in launches {
            self.take_up_launch(launch, desk);
        }
        self.go_on_draining(desk);
        self.report_claims_without(&rows, desk);
    }

    /// What is written down measures a first picture, which has no earlier one to be measured by: one that lacks most of the
    /// machines, or shows nothing at all, is no reason to give anything back or to think that nothing was begun.
    fn claims_missing(&self, desk: &Context<'_>) -> Option<Finding> {
        let left = || self.legacy.launches.iter().filter(|launch| !self.legacy.ended.contains(&launch.claim));
        let lacks = |launch: &&OpenLaunch| {
            !self.state.has_seen_claim(&launch.claim) && !self.machines.contains_key(&launch.claim)
        };
        let bought = |launch: &&OpenLaunch| matches!(launch.state, LaunchState::Launched { .. });
        let (missing, of) = if self.state.shows_nothing() {
            (left().filter(lacks).count(), left().count())
        } else {
            (left().filter(bought).filter(lacks).count(), left().filter(bought).count())
        };
        self.doubts_absence(missing, of, desk).then_some(Finding::ClaimsMissing { missing, of })
    }

    fn take_up_launch(&mut self, launch: OpenLaunch, desk: &mut Context<'_>) {
        let OpenLaunch { claim, attempt, state, planned } = launch;
        if self.machines.contains_key(&claim) {
            if state == LaunchState::Open {
                self.settle(&claim, attempt, desk);
            }
            // What waited for its machine still does.
            let pods = planned.map(|decided| decided.machine.pods).unwrap_or_default();
            self.promise_again(&claim, &pods, desk.now);
            return;
        }
        match (state, planned) {
            (LaunchState::Launched { provider_id }, _) => self.take_up_machine(claim, attempt, provider_id, desk),
            (LaunchState::Failed { why }, planned) => {
                self.insert_left(&claim, attempt, planned, desk.now);
                self.finalise(&claim, &Text::from(format!("the launch failed: {why}")), desk);
            }
            (LaunchState::Open, Some(decided)) => self.take_up_open(claim, attempt, decided, desk),
            (LaunchState::Open, None) => self.report(Finding::UnreadableLaunch { claim }, desk),
        }
    }

    /// The end of a launch was not written down, and its machine is there: a later keeper, who may find no NodeClaim, has to
    /// know that it was bought.
    fn settle(&self, claim: &Text, attempt: u32, desk: &mut Context<'_>) {
        let machine = self.machines.get(claim).filter(|machine| !machine.provider_id.is_empty());
        if let Some(provider_id) = machine.map(|machine| machine.provider_id.clone()) {
            let (cluster, claim) = (self.cluster.clone(), claim.clone());
            desk.effects.push(Effect::Settle { cluster, claim, attempt, provider_id });
        }
    }

    /// Nobody knows whether the cloud was called for `claim`. A machine that was ordered for a cluster of this name and another
    /// UID is not ordered again: it would belong to a cluster that is no more.
    fn take_up_open(&mut self, claim: Text, attempt: u32, decided: Box<DecidedLaunch>, desk: &mut Context<'_>) {
        let seen = self.state.has_seen_claim(&claim);
        let wanted = self.promise_again(&claim, &decided.machine.pods, desk.now);
        let fresh = desk.now.millis_since(decided.at) < TOKEN_LIFE_MS;
        let planned = decided.machine.clone();
        let id = decided.decision;
        self.insert_left(&claim, attempt, Some(decided), desk.now);
        self.expect_left(&planned, seen, desk.now);
        // Removing a NodeClaim whose launch may have gone out would leave its machine to nobody.
        let ordered_for = &planned.launch.cluster_uid;
        let here = ordered_for.is_empty() || *ordered_for == self.uid;
        let may_have_gone_out = seen && fresh && here;
        let still_wanted = wanted && fresh && here && self.still_holds(id, &planned, desk);
        if !may_have_gone_out && !still_wanted {
            self.finalise(
                &claim,
                &Text::from("it was not bought when its server ended, and nobody waits for it"),
                desk,
            );
            self.window.rouse(desk.now);
        } else if seen {
            self.enter(&claim, Stage::Launching, desk.now);
            self.launch(&claim, desk);
        } else {
            self.enter(&claim, Stage::Creating, desk.now);
            self.instruct(Instruction::CreateClaim(planned.claim), desk);
        }
    }

    /// A machine was bought for `claim`, and the cluster does not know it: either the NodeClaim shows none, or there is no
    /// NodeClaim. The cloud is asked whether it is still there.
    fn take_up_machine(&mut self, claim: Text, attempt: u32, provider_id: Text, desk: &mut Context<'_>) {
        if !self.state.has_seen_claim(&claim) {
            self.state.expect_claim(self.imagine_claim(&claim, &provider_id));
        }
        self.insert_left(&claim, attempt, None, desk.now);
        if let Some(machine) = self.machines.get_mut(&claim) {
            machine.provider_id = provider_id.clone();
        }
        if self.state.has_seen_claim(&claim) {
            self.enter(&claim, Stage::Launching, desk.now);
        }
        desk.effects.push(Effect::Describe { cluster: self.cluster.clone(), claim, attempt, provider_id });
    }

    fn insert_left(&mut self, claim: &Text, attempt: u32, decided: Option<Box<DecidedLaunch>>, now: Timestamp) {
        let mut machine = match decided {
            Some(decided) => {
                let pool = self.state.pool(&decided.machine.claim.pool);
                let revision = pool.map(|record| record.revision.clone()).unwrap_or_default();
                Machine::decided(decided.machine, decided.decision, revision, now)
            }
            None => {
                let unknown = ClaimRecord { name: claim.clone(), ..ClaimRecord::default() };
                Machine::found(self.state.claim(claim).unwrap_or(&unknown), None, now)
            }
        };
        machine.attempt = attempt;
        self.machines.insert(claim.clone(), machine);
    }

    /// The room of a machine that is on its way counts again.
    fn expect_left(&mut self, planned: &PlannedMachine, seen: bool, now: Timestamp) {
        let pool = self.state.pool(&planned.claim.pool).map(|record| &record.pool);
        let expected = order::expected_again(planned, pool, now);
        if seen {
            self.state.foresee(&planned.claim.name, &expected);
        } else {
            self.state.expect_claim(expected);
        }
    }

    /// Gives room on `claim` to those of `pods` that still wait; says whether anybody does, or whether it was for nobody.
    fn promise_again(&mut self, claim: &Text, pods: &[Text], now: Timestamp) -> bool {
        let keys = pods.iter().filter_map(|pod| {
            let (namespace, name) = pod.split_once('/')?;
            Some(PodKey { namespace: Text::from(namespace), name: Text::from(name) })
        });
        let waiting: Vec<PodKey> =
            keys.filter(|key| self.state.pod(key).is_some_and(|pod| self.state.is_demand(pod, now))).collect();
        let wanted = pods.is_empty() || !waiting.is_empty();
        for key in waiting {
            self.state.promises.give(key, Target::Claim(claim.clone()), None);
        }
        wanted
    }

    /// A Node that was being drained goes on being drained, and its pods have no more time than they had.
    fn go_on_draining(&mut self, desk: &mut Context<'_>) {
        let drained = |claim: &&Text| {
            let node = self.state.node_of_claim(claim);
            node.is_some_and(|node| node.taints.iter().any(|taint| taint.key.as_ref() == DISRUPTED))
        };
        let going: Vec<Text> = self.machines.keys().filter(drained).cloned().collect();
        for claim in going {
            if !desk.rails.removals.has(&self.cluster, &claim) {
                desk.rails.removals.recall(&self.cluster, &claim, MicroUsd(0), desk.now);
            }
            let drain_by = self.state.node_of_claim(&claim).and_then(|node| node.drain_by);
            self.dismiss(&claim, &Text::from("its removal had begun"), drain_by, desk);
        }
    }

    fn report_claims_without(&self, rows: &BTreeSet<Text>, desk: &mut Context<'_>) {
        let strangers = self.state.claims().filter(|claim| {
            claim.ours
                && claim.provider_id.is_empty()
                && !rows.contains(&claim.name)
                && !self.machines.contains_key(&claim.name)
        });
        for claim in strangers {
            self.report(Finding::ClaimWithoutRow { claim: claim.name.clone() }, desk);
        }
    }

    pub fn report(&self, finding: Finding, desk: &mut Context<'_>) {
        desk.effects.push(Effect::Report { cluster: self.cluster.clone(), finding });
    }

    /// Nothing is under way for `claim` any more: what was written down about it is closed, and nothing of it is left to take up.
    pub fn close(&mut self, claim: &Text, desk: &mut Context<'_>) {
        self.legacy.launches.retain(|launch| launch.claim != *claim);
        desk.effects.push(Effect::Close { cluster: ClusterId::clone(&self.cluster), claim: claim.clone() });
    }
}

#[cfg(test)]
mod tests;
