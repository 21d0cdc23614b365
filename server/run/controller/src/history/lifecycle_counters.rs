//! Counts what becomes of the machines of the cluster, for metrics.
//!
//! Names of reasons are those of Karpenter's metrics, where the meaning is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::disruption_policy::DisruptionReason;
use model::{CapacityType, ClaimName, LaunchFailure, Millis, PoolName, Text, Timestamp, Zone};

use crate::durations::DurationSummary;
use crate::nodeclaim::{ManagedClaim, NodeClaims, StageKind, TerminationReason};
use crate::{Decision, DecisionId, DecisionReason};

/// Upper bounds of durations from the begin of a termination to its end, in seconds (Karpenter: 1 to 2048, doubled).
pub const TERMINATION_BOUNDS: [i64; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048];

/// Counts since this controller began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleCounters {
    /// NodeClaims created, by reason and NodePool.
    pub created: BTreeMap<(&'static str, PoolName), u64>,
    /// NodeClaims that are gone, by NodePool, capacity type and zone.
    pub terminated: BTreeMap<(PoolName, CapacityType, Zone), u64>,
    /// NodeClaims whose termination was begun here, by reason, NodePool and capacity type.
    pub disrupted: BTreeMap<(&'static str, PoolName, CapacityType), u64>,
    /// Nodes registered, by NodePool and zone.
    pub nodes_created: BTreeMap<(PoolName, Zone), u64>,
    /// Nodes that are gone, by NodePool and zone.
    pub nodes_terminated: BTreeMap<(PoolName, Zone), u64>,
    /// Nodes drained, by NodePool.
    pub nodes_drained: BTreeMap<PoolName, u64>,
    /// Launches that failed, by zone (empty if all zones failed), capacity type and the cloud's error code.
    pub launch_failures: BTreeMap<(Zone, CapacityType, Text), u64>,
    /// Terminations that the cloud refused, by zone (empty if it is not known).
    pub termination_failures: BTreeMap<Zone, u64>,
    /// Machines that a plan of consolidation removes and that are kept, because the plan is not carried out, by type.
    pub failed_validations: BTreeMap<&'static str, u64>,
    /// Replacements that ended without the removal of their machine, because the capacity did not come, by reason.
    pub failed_replacements: BTreeMap<&'static str, u64>,
    pub disruption_decisions: BTreeMap<DisruptionKind, u64>,
    /// Durations of terminations of machines with a Node, by NodePool.
    pub node_terminations: BTreeMap<PoolName, DurationSummary>,
    /// Durations of terminations by bound; the last count is of longer ones.
    pub termination_counts: [u64; TERMINATION_BOUNDS.len() + 1],
    pub termination_time: Millis,
}

/// What a decision of voluntary disruption does, as Karpenter's metrics say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisruptionKind {
    /// `delete`, or `replace` if other machines are launched first.
    pub decision: &'static str,
    pub reason: &'static str,
    /// Of consolidation: `empty`, `single` or `multi`; else nothing.
    pub consolidation_type: &'static str,
}

/// What is known of a machine.
#[derive(Debug, Clone)]
struct Known {
    stage: StageKind,
    pool: PoolName,
    place: Option<(CapacityType, Zone)>,
    is_counted_created: bool,
    has_node: bool,
    terminating_since: Option<Timestamp>,
}

/// The counters, and the machines as they were counted last.
#[derive(Debug, Default)]
pub(crate) struct LifecycleCounter {
    counters: Arc<LifecycleCounters>,
    known: BTreeMap<ClaimName, Known>,
    /// Stage fingerprint of the machines at the last count.
    stages: Option<u64>,
    /// Why decisions create and remove machines.
    created_for: BTreeMap<DecisionId, &'static str>,
    removed_for: BTreeMap<ClaimName, &'static str>,
    /// Machines whose pods other capacity takes before they are removed.
    replaced: BTreeSet<ClaimName>,
    last_decision: Option<DecisionId>,
}

impl LifecycleCounter {
    pub(crate) fn counters(&self) -> Arc<LifecycleCounters> {
        Arc::clone(&self.counters)
    }

    pub(crate) fn count_launch_failure(&mut self, capacity_type: CapacityType, failure: &LaunchFailure) {
        let counts = &mut Arc::make_mut(&mut self.counters).launch_failures;
        match failure {
            LaunchFailure::InsufficientCapacity { unavailable } => {
                for option in unavailable {
                    *counts.entry((option.zone.clone(), capacity_type, option.code.clone())).or_default() += 1;
                }
            }
            LaunchFailure::Refused { code, .. } => {
                *counts.entry((Zone::default(), capacity_type, code.clone())).or_default() += 1;
            }
        }
    }

    /// Counts a termination that the cloud refused.
    pub(crate) fn count_termination_failure(&mut self, zone: Zone) {
        *Arc::make_mut(&mut self.counters).termination_failures.entry(zone).or_default() += 1;
    }

    /// Counts a plan of consolidation that removes so many machines and is not carried out.
    pub(crate) fn count_failed_validation(&mut self, machines: usize) {
        let counts = &mut Arc::make_mut(&mut self.counters).failed_validations;
        *counts.entry(consolidation_type(machines)).or_default() += machines as u64;
    }

    pub(crate) fn count_failed_replacement(&mut self, reason: DisruptionReason) {
        let reason = if reason == DisruptionReason::Underutilized { "underutilized" } else { "drifted" };
        *Arc::make_mut(&mut self.counters).failed_replacements.entry(reason).or_default() += 1;
    }

    /// Counts the decisions since the last call, latest first.
    pub(crate) fn count_decisions<'d>(&mut self, recent: impl Iterator<Item = &'d Decision>) {
        let last = self.last_decision;
        let fresh: Vec<&Decision> = recent.take_while(|decision| Some(decision.id) > last).collect();
        for decision in fresh.into_iter().rev() {
            self.last_decision = self.last_decision.max(Some(decision.id));
            let reason = reason_of(decision.reason);
            if decision.shadow {
                continue;
            }
            self.created_for.insert(decision.id, reason);
            self.removed_for.extend(decision.removals.iter().map(|removal| (removal.claim.clone(), reason)));
            self.replaced.extend(decision.replacements.iter().map(|replacement| replacement.claim.clone()));
            if let Some(kind) = self.disruption_of(decision, reason) {
                *Arc::make_mut(&mut self.counters).disruption_decisions.entry(kind).or_default() += 1;
            }
        }
    }

    /// What a decision of voluntary disruption does. Consolidation counts when it begins, with the decision that moves the
    /// pods, and other methods when they remove machines: the begin of a replacement is no decision of theirs.
    fn disruption_of(&self, decision: &Decision, reason: &'static str) -> Option<DisruptionKind> {
        let is_removal = !decision.removals.is_empty();
        let is_replaced = || decision.removals.iter().any(|removal| self.replaced.contains(&removal.claim));
        let moved = || {
            let begun = |reason| decision.replacements.iter().filter(move |one| one.begun.reason == reason);
            begun(DisruptionReason::Underutilized).count()
        };
        let (launches, consolidation_type) = match reason {
            "empty" if is_removal => (false, "empty"),
            "drifted" if is_removal => (is_replaced(), ""),
            "underutilized" if !is_removal => (!decision.launches.is_empty(), consolidation_type(moved())),
            _ => return None,
        };
        let kind = if launches { "replace" } else { "delete" };
        Some(DisruptionKind { decision: kind, reason, consolidation_type })
    }

    /// Counts what has become of the machines since the last call. They are passed over while no stage has changed.
    pub(crate) fn count(&mut self, claims: &mut NodeClaims, now: Timestamp) {
        let stages = claims.stage_fingerprint();
        if self.stages.replace(stages) == Some(stages) {
            return;
        }
        let counters = Arc::make_mut(&mut self.counters);
        for machine in claims.iter() {
            let known = self.known.entry(machine.name().clone()).or_insert_with(|| Known::new(machine));
            let removed_for = self.removed_for.get(machine.name()).copied();
            let created_for = machine.decision().and_then(|decision| self.created_for.get(&decision).copied());
            advance(counters, known, machine, (created_for, removed_for), now);
        }
        for (name, known) in self.known.extract_if(.., |name, _| !claims.contains(name)) {
            self.removed_for.remove(&name);
            self.replaced.remove(&name);
            end(counters, known, now);
        }
        let oldest = claims.iter().filter_map(ManagedClaim::decision).min().or(self.last_decision);
        self.created_for.retain(|id, _| Some(*id) >= oldest);
    }
}

impl Known {
    /// What was there before this controller is not counted.
    fn new(machine: &ManagedClaim) -> Self {
        let is_found = machine.decision().is_none();
        Self {
            stage: StageKind::Planned,
            pool: machine.pool().clone(),
            place: None,
            is_counted_created: is_found,
            has_node: is_found,
            terminating_since: None,
        }
    }
}

/// Counts what has become of a machine.
fn advance(
    counters: &mut LifecycleCounters,
    known: &mut Known,
    machine: &ManagedClaim,
    (created_for, removed_for): (Option<&'static str>, Option<&'static str>),
    now: Timestamp,
) {
    let stage = machine.stage();
    known.place = machine.instance().map(|of| (of.capacity_type, of.zone.clone())).or(known.place.take());
    let pool = || known.pool.clone();
    if !known.is_counted_created && stage >= StageKind::Launching {
        known.is_counted_created = true;
        *counters.created.entry((created_for.unwrap_or("provisioned"), pool())).or_default() += 1;
    }
    if !known.has_node && matches!(stage, StageKind::Registered | StageKind::Initialized) {
        known.has_node = true;
        let zone = known.place.clone().map(|(_, zone)| zone).unwrap_or_default();
        *counters.nodes_created.entry((pool(), zone)).or_default() += 1;
    }
    if stage.is_terminating() && known.terminating_since.is_none() {
        known.terminating_since = Some(now);
        let reason = removed_for.or_else(|| machine.termination_reason().and_then(failure_reason));
        let capacity_type = known.place.as_ref().map_or(CapacityType::OnDemand, |(capacity_type, _)| *capacity_type);
        if let Some(reason) = reason {
            *counters.disrupted.entry((reason, pool(), capacity_type)).or_default() += 1;
        }
    }
    if known.stage == StageKind::Draining && matches!(stage, StageKind::Terminating | StageKind::Deleting) {
        *counters.nodes_drained.entry(pool()).or_default() += 1;
    }
    known.stage = stage;
}

/// Counts a machine that is gone. One that was never launched had no NodeClaim, or not for long.
fn end(counters: &mut LifecycleCounters, known: Known, now: Timestamp) {
    if let Some(since) = known.terminating_since {
        let took = now.duration_since(since);
        let is_within = |bound: &i64| took <= Millis::from_secs(*bound);
        let bucket = TERMINATION_BOUNDS.iter().position(is_within).unwrap_or(TERMINATION_BOUNDS.len());
        counters.termination_counts[bucket] += 1;
        counters.termination_time = counters.termination_time + took;
        if known.has_node {
            counters.node_terminations.entry(known.pool.clone()).or_default().observe(took, now);
        }
    }
    if !known.is_counted_created {
        return;
    }
    let (capacity_type, zone) = known.place.unwrap_or((CapacityType::OnDemand, Zone::default()));
    if known.has_node {
        *counters.nodes_terminated.entry((known.pool.clone(), zone.clone())).or_default() += 1;
    }
    *counters.terminated.entry((known.pool, capacity_type, zone)).or_default() += 1;
}

/// The type of a consolidation of so many machines.
fn consolidation_type(machines: usize) -> &'static str {
    if machines > 1 { "multi" } else { "single" }
}

/// Why a decision creates or removes machines, as Karpenter's metrics say.
fn reason_of(reason: DecisionReason) -> &'static str {
    match reason {
        DecisionReason::Provision => "provisioned",
        DecisionReason::Hold => "held",
        DecisionReason::Disruption(reason) => reason.label(),
    }
}

/// Why a machine is terminated without a decision; `None` if this server did not begin it.
fn failure_reason(reason: &TerminationReason) -> Option<&'static str> {
    Some(match reason {
        TerminationReason::InsufficientCapacity { .. } => "insufficient_capacity",
        TerminationReason::LaunchRejected { .. } | TerminationReason::LaunchFailed(_) => "launch_failed",
        TerminationReason::LaunchTimeout { .. } => "launch_timeout",
        TerminationReason::RegistrationTimeout { .. } => "registration_timeout",
        TerminationReason::ClaimRemoved | TerminationReason::InstanceGone => "garbage_collected",
        TerminationReason::Decided { .. }
        | TerminationReason::DeletedByHand
        | TerminationReason::NotLaunched
        | TerminationReason::BegunBeforeTakeover { .. } => return None,
    })
}

#[cfg(test)]
mod tests;
