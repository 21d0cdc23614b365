//! What a drain is judged by when the agent begins it: the true state of cluster and cloud, and the NodePools as they
//! are. Neither the reason that the instruction gives nor what the server has observed counts.
//!
//! A drain is forced if the instance was interrupted, if its NodeClaim has expired or was removed by force. Every other
//! one is voluntary: its pods must have room on initialized Nodes, and budgets and windows must permit it.
//!
//! An instruction may be delayed, and a server cannot know what happened meanwhile: pods that were created and capacity
//! that was lost since then are not held against it ([`INSTRUCTION_DELAY`]).

use cloud::provider::InstanceState;
use cloud::simulated::LedgerEntry;
use cluster::{ClaimRecord, PodRecord, PoolRecord};
use fleetwright_proto::v1;
use model::disruption_policy::DisruptionReason;
use model::{ClaimName, Millis, NodeName, PoolName, Timestamp};

use super::event_queue::{CONNECTION_MS, EventQueue, Trigger};
use super::fault::ListGap;
use super::sim_cluster::{EXECUTE_MS, SimCluster, VIEW_SETTLED_AFTER};
use super::violation::Violation;

/// An instruction is executed so long after its decision at most, except under faults that add up.
const INSTRUCTION_DELAY: Millis = Millis::from_mins(3);
/// After the end of a list gap, an instruction that was sent before the server learned of it may begin for so long: a message
/// takes its way to the server, one to the agent, and the agent begins.
const IN_FLIGHT: Millis = Millis::new(2 * CONNECTION_MS.1 + EXECUTE_MS.1);
/// Budgets are evaluated at times that are so far apart.
const BUDGET_STEP: Millis = Millis::from_secs(20);

impl SimCluster {
    /// Judges and records a drain before it is carried out. `was_only_if_empty` is the instruction's own condition, even
    /// if the agent ignores it.
    pub(super) fn record_drain(&mut self, drain: &v1::DrainNode, was_only_if_empty: bool, events: &mut EventQueue) {
        let now = events.now();
        let claim = ClaimName::from(drain.node_claim.as_str());
        let node = NodeName::from(drain.node.as_str());
        let stays = self.has_machine(&claim, events, |entry, _| entry.interrupted.is_none());
        let is_forced = self.ledger.removed_claims.contains_key(&claim) || self.has_expired(&claim, events);
        // The place of pods is judged before the drain counts as voluntary.
        let homeless = self.cluster.pod_without_place(&node, now - INSTRUCTION_DELAY);
        let moves_pods = !was_only_if_empty && (homeless.is_none() || self.is_in_the_dark(now));
        let has_cause = is_forced || self.has_drifted(&claim) || moves_pods;
        let used = self.is_in_use(&claim, now) && !has_cause;
        // The server cannot tell a NodeClaim hidden by a list gap from one that the operator removed, and a few of those
        // are drained at once. Such a drain continues after a restart, when the NodeClaim may be visible again.
        let is_hidden = self.covers(ListGap::Claims) || now.duration_since(self.claims_listed_since) < IN_FLIGHT;
        let goes_on = self.ledger.hidden_drains.contains(&claim);
        self.ledger.hidden_drains.extend(is_hidden.then(|| claim.clone()));
        let begins = !drain.only_if_empty || self.cluster.occupant(&node).is_none();
        if !begins || goes_on {
            return;
        }
        if !stays || is_forced {
            self.ledger.capacity_lost = Some(now);
            self.ledger.expiring.extend((stays && self.has_expired(&claim, events)).then(|| claim.clone()));
        }
        let counts = stays && !self.ledger.expiring.contains(&claim);
        if !counts || !(is_hidden || self.ledger.leaving.insert(claim.clone())) {
            return;
        }
        self.ledger.drains.push(now);
        self.ledger.drained_in_use.extend(used.then(|| claim.clone()));
        let is_initialized = self.cluster.nodes().any(|known| known.name == node && known.is_initialized());
        if is_hidden || is_forced || !is_initialized {
            return;
        }
        self.cluster.mark_voluntary_drain(&node);
        self.record_spread(&node, now);
        events.trigger(Trigger::Drained { sim_cluster: self.number });
        if let Some(pod) = homeless.filter(|_| !was_only_if_empty && !self.is_in_the_dark(now)) {
            let (cluster, pod) = (self.name.clone(), pod.to_string());
            self.ledger.drain_violations.push(Violation::NoCapacity { cluster, claim: claim.clone(), pod });
        }
        self.check_budgets(&claim, was_only_if_empty, events);
    }

    /// Records the end of an instance, unless a voluntary drain ended it.
    pub(super) fn record_lost_capacity(&mut self, claim: &ClaimName, now: Timestamp) {
        if !self.ledger.leaving.contains(claim) {
            self.ledger.capacity_lost = Some(now);
        }
    }

    /// Whether the server may lack facts about capacity without a mistake of its own: the agent's lists lack objects or
    /// did so just now, or capacity was lost just now.
    fn is_in_the_dark(&self, now: Timestamp) -> bool {
        let lost = self.ledger.capacity_lost.is_some_and(|at| now.duration_since(at) < INSTRUCTION_DELAY);
        let changed = self.view_unchanged_since > Timestamp::from_millis(0)
            && now.duration_since(self.view_unchanged_since) < VIEW_SETTLED_AFTER;
        lost || changed || self.empty_view || !self.list_gaps.is_empty()
    }

    /// Whether the lifetime of the NodeClaim has ended by any clock.
    fn has_expired(&self, claim: &ClaimName, events: &EventQueue) -> bool {
        let expiry = |claim: &ClaimRecord| Some(claim.created? + claim.expire_after?);
        let known = self.cluster.claims().find(|known| known.name == *claim);
        known.and_then(expiry).is_some_and(|at| at <= events.now() + events.clock_error)
    }

    /// Whether the template of its NodePool has changed since the NodeClaim was created.
    pub(super) fn has_drifted(&self, claim: &ClaimName) -> bool {
        let Some(record) = self.cluster.claims().find(|known| known.name == *claim) else { return false };
        let is_older = self.ledger.templates_changed.zip(record.created).is_some_and(|(at, created)| created < at);
        let of_pool = self.pools.iter().find(|pool| pool.pool.name == record.pool);
        let hash = record.drift.own_hash.as_ref().map(|(hash, _)| hash);
        is_older || hash.zip(of_pool).is_some_and(|(hash, pool)| *hash != pool.revision)
    }

    /// Whether pods have been running for long on the instance of `claim`: they ran when its drain was decided.
    fn is_in_use(&self, claim: &ClaimName, now: Timestamp) -> bool {
        let settled =
            |pod: &PodRecord| pod.started.is_some_and(|started| now.duration_since(started) >= INSTRUCTION_DELAY);
        self.cluster.running_for(claim).any(settled)
    }

    /// Number of Nodes of `pool` that leave voluntarily.
    pub(super) fn leaving_from(&self, pool: &PoolName) -> usize {
        let of_pool = |claim: &&ClaimRecord| claim.pool == *pool && self.ledger.leaving.contains(&claim.name);
        self.cluster.claims().filter(of_pool).filter(|claim| self.cluster.has_node_for(&claim.name)).count()
    }

    /// How many nodes of a NodePool may be replaced at one time, whenever it is.
    pub(super) fn most_replaced(&self, record: &PoolRecord) -> usize {
        let always =
            record.disruption.budgets.iter().filter(|budget| budget.reasons.is_none() && budget.window.is_none());
        let total = self.cluster.claims().filter(|claim| claim.pool == record.pool.name).count();
        always.map(|budget| budget.limit.of(total)).min().unwrap_or(total)
    }

    /// Judges a voluntary drain, which is among those that leave, by the budgets of its NodePool and of the cluster.
    fn check_budgets(&mut self, claim: &ClaimName, was_only_if_empty: bool, events: &EventQueue) {
        let has_node = |claim: &ClaimName| self.cluster.has_node_for(claim);
        self.ledger.leaving.retain(has_node);
        self.ledger.expiring.retain(has_node);
        let pool_of =
            |claim: &ClaimName| self.cluster.claims().find(|known| known.name == *claim).map(|known| &known.pool);
        let Some(record) = self.pools.iter().find(|record| pool_of(claim) == Some(&record.pool.name)) else { return };
        let reasons: &[DisruptionReason] = match (was_only_if_empty, self.has_drifted(claim)) {
            (true, _) => &[DisruptionReason::Empty],
            (false, true) => &[DisruptionReason::Drifted, DisruptionReason::Underutilized],
            (false, false) => &[DisruptionReason::Underutilized],
        };
        let total = self.cluster.claims().filter(|known| known.pool == record.pool.name).count();
        let allowed = allowed_lately(record, reasons, total, events);
        let all: Vec<ClaimName> = self.ledger.leaving.iter().cloned().collect();
        let of_pool: Vec<ClaimName> = all.iter().filter(|one| pool_of(one) == pool_of(claim)).cloned().collect();
        let cluster = &self.name;
        if allowed == 0 {
            let (cluster, claim) = (cluster.clone(), claim.clone());
            self.ledger.drain_violations.push(Violation::OutsideWindow { cluster, claim });
        } else if of_pool.len() > allowed {
            let cluster = cluster.clone();
            self.ledger.drain_violations.push(Violation::OverBudget { cluster, claims: of_pool, allowed });
        }
        let limit = self.max_unavailable.map_or(usize::MAX, |limit| limit as usize);
        if all.len() > limit {
            let cluster = cluster.clone();
            self.ledger.drain_violations.push(Violation::OverClusterBudget { cluster, claims: all, allowed: limit });
        }
    }

    /// Whether the cloud has an instance for `claim` that has not terminated and satisfies `is`.
    pub(super) fn has_machine(
        &self,
        claim: &ClaimName,
        events: &EventQueue,
        is: impl Fn(&LedgerEntry, InstanceState) -> bool,
    ) -> bool {
        let cloud = events.environment.cloud();
        let mine = |entry: &&LedgerEntry| entry.instance.cluster == self.name && entry.instance.claim == *claim;
        cloud
            .ledger()
            .active()
            .filter(mine)
            .any(|entry| cloud.describe(&entry.instance.id).is_ok_and(|instance| is(entry, instance.state)))
    }

    /// Whether the agent's lists currently lack objects of this kind.
    pub(super) fn covers(&self, kind: ListGap) -> bool {
        self.list_gaps.iter().any(|gap| gap.covers(kind))
    }
}

/// How many of `total` nodes of a NodePool may leave at one time, for one of `reasons`, at any time at which the drain
/// may have been decided by the clock of any server.
fn allowed_lately(record: &PoolRecord, reasons: &[DisruptionReason], total: usize, events: &EventQueue) -> usize {
    let (first, last) = (events.now() - INSTRUCTION_DELAY - events.clock_error, events.now() + events.clock_error);
    let times = std::iter::successors(Some(last), |at| Some(*at - BUDGET_STEP).filter(|at| *at >= first));
    let allowed = |at| reasons.iter().map(move |reason| record.disruption.allowance(*reason, total, 0, at));
    times.flat_map(allowed).max().unwrap_or(0)
}
