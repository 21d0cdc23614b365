//! Selection of machines that are replaced first and then removed, and of those whose pods a plan of disruption has
//! moved.

use std::collections::BTreeMap;

use super::allowances::allowance_in_cluster;
use super::evictions::{EvictionLimits, Evictions, MachineEvictions};
use super::facts::{MachineNames, PoolFacts, Protections};
use super::result::{PlannedReplacement, Selection};
use model::disruption_policy::{ConsolidationPolicy, DisruptionReason};
use model::removal::{ClusterBudget, RemovalReason};
use model::{PoolName, Text, Timestamp};

/// Machines that a method replaces first, and what holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutgoingMachines {
    /// The machines that a method chose among the candidates and the machines that are under way.
    pub machines: Vec<OutgoingMachine>,
    pub pools: BTreeMap<PoolName, OutgoingPool>,
    pub cluster: Option<ClusterBudget>,
    pub limits: EvictionLimits,
}

/// A machine to replace and to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMachine {
    pub machine: MachineNames,
    /// Since when there is a cause.
    pub since: Timestamp,
    /// The cause, as a sentence.
    pub why: Text,
    /// When its replacement began; `None` before.
    pub begun: Option<Timestamp>,
    /// Number of its replacements that failed.
    pub failures: u32,
    /// Whether it has pods that run elsewhere again.
    pub has_pods: bool,
    pub protections: Protections,
    /// Whether a `terminationGracePeriod` ends its drain.
    pub ends_drains: bool,
    /// Whether a PodDisruptionBudget blocks its drain now. It does not hold a replacement that has begun, for which
    /// it is not read.
    pub is_drain_blocked: bool,
    /// Number of pods that have to run elsewhere and that no plan has assigned to a node.
    pub unassigned: usize,
    /// Number of pods that have to run elsewhere and have no node that accepts them now.
    pub unmoved: usize,
    /// Whether a pod that consolidation has moved, and does not move again yet, came to it after its replacement began.
    pub has_moved_pod: bool,
    /// The evictions of its drain; read once all its pods may move.
    pub evictions: MachineEvictions,
}

/// A NodePool with machines that are replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutgoingPool {
    /// What its budgets are applied to.
    pub facts: PoolFacts,
    /// Whether it and its EC2NodeClass are ready.
    pub is_ready: bool,
    /// When it may begin replacements again after one that failed.
    pub backoff_until: Option<Timestamp>,
    /// When the replacements for other reasons began, those whose removal has begun included.
    pub begun_for_others: Vec<Timestamp>,
    /// The machines of a static NodePool.
    pub counts: Option<StaticCounts>,
}

/// The machines of a static NodePool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticCounts {
    /// `limits.nodes`.
    pub limit: Option<i64>,
    pub claims: usize,
    /// Number of those that do not leave and are not being replaced.
    pub staying: usize,
    /// Number of those that stay and whose Node accepts pods.
    pub serving: usize,
}

impl OutgoingMachines {
    /// What is removed and replaced now, for `reason`.
    pub(super) fn select(&self, reason: RemovalReason, now: Timestamp) -> Selection {
        let mut selection = Selection::default();
        let Some(reason) = reason.disruption_reason() else { return selection };
        let mut evictions = Evictions::none(&self.limits);
        let mut in_cluster = allowance_in_cluster(self.cluster.as_ref(), reason);
        for (name, mut machines) in self.by_pool(now) {
            let Some(pool) = self.pools.get(name) else { continue };
            machines.sort_by_cached_key(|one| one.rank());
            let allowed = pool.allowance(&machines, reason, now);
            let held = machines.len().saturating_sub(allowed);
            machines.truncate(allowed);
            if held > 0 {
                selection.held_by_budget.insert(name.clone(), held);
            }
            let may_begin = pool.may_begin(&machines, &mut selection, now);
            let begun = machines.iter().filter(|one| one.begun.is_some()).count();
            machines.truncate(begun.saturating_add(may_begin.min(in_cluster)));
            in_cluster -= machines.len().saturating_sub(begun).min(in_cluster);
            let with_machine = pool.machines_replaced(begun);
            for (index, one) in machines.into_iter().enumerate() {
                let has_machine = with_machine.is_none_or(|machines| index < machines);
                let has_place = has_machine && (pool.facts.replicas.is_none() || one.begun.is_some());
                one.select(has_place, has_machine, &mut evictions, &mut selection);
            }
        }
        selection
    }

    /// Number of those that may be replaced now but for budgets.
    pub(super) fn eligible(&self, now: Timestamp) -> usize {
        self.by_pool(now).values().map(Vec::len).sum()
    }

    /// The machines of each ready NodePool that nothing on them holds.
    fn by_pool(&self, now: Timestamp) -> BTreeMap<&PoolName, Vec<&OutgoingMachine>> {
        let mut pools: BTreeMap<&PoolName, Vec<&OutgoingMachine>> = BTreeMap::new();
        for one in self.machines.iter().filter(|one| !one.is_held(now)) {
            if self.pools.get(&one.machine.pool).is_some_and(|pool| pool.is_ready) {
                pools.entry(&one.machine.pool).or_default().push(one);
            }
        }
        pools
    }

    /// What is removed now of machines that a plan of disruption has put under replacement, and what goes on.
    pub(super) fn select_moved(&self, now: Timestamp) -> Selection {
        let mut selection = Selection::default();
        let mut evictions = Evictions::none(&self.limits);
        for (name, pool) in &self.pools {
            let facts = &pool.facts;
            let mut begun: Vec<&OutgoingMachine> =
                self.machines.iter().filter(|one| &one.machine.pool == name).collect();
            begun.sort_by_key(|one| (one.begun, &one.machine.claim));
            let allowed = pool.allowed_to_go_on(&begun, DisruptionReason::Underutilized, now);
            let is_valid = |one: &&OutgoingMachine| {
                facts.is_consolidated()
                    && !one.protections.is_protected(now)
                    && !one.has_moved_pod
                    && one.unassigned == 0
            };
            for one in begun.into_iter().take(allowed).filter(is_valid) {
                one.select(true, true, &mut evictions, &mut selection);
            }
        }
        selection
    }
}

impl PoolFacts {
    /// Whether the NodePool has its nodes with pods consolidated.
    fn is_consolidated(&self) -> bool {
        self.replicas.is_none()
            && self.policy.policy != ConsolidationPolicy::WhenEmpty
            && self.policy.consolidate_after.is_some()
    }
}

impl OutgoingMachine {
    /// Whether do-not-disrupt forbids to replace it, on its Node or, without a `terminationGracePeriod`, on one of its
    /// pods (Karpenter: eventual disruption); or a PodDisruptionBudget or a pod of another scheduler blocks its drain. What blocks for a moment
    /// does not undo what is under way.
    fn is_held(&self, now: Timestamp) -> bool {
        self.protections.is_node_protected(now)
            || (!self.ends_drains && self.protections.is_protected(now))
            || (self.begun.is_none() && self.is_drain_blocked)
    }

    /// Machines under way first, so that each pass goes on with what the last one began.
    fn rank(&self) -> impl Ord + use<> {
        let Self { begun, failures, has_pods, since, machine, .. } = self;
        (begun.is_none(), *begun, *failures, *has_pods, *since, machine.claim.clone())
    }

    /// Adds its removal to `selection` if its pods have places, and its replacement otherwise.
    fn select<'l>(
        &'l self,
        has_place: bool,
        moves_pods: bool,
        evictions: &mut Evictions<'l>,
        selection: &mut Selection,
    ) {
        let removal = self.machine.removal(self.why.clone());
        if has_place && self.unmoved == 0 && evictions.admit(&self.evictions, self.ends_drains) {
            selection.removals.push(removal);
        } else {
            selection.replacements.push(PlannedReplacement { removal, moves_pods });
        }
    }
}

impl OutgoingPool {
    /// How many of the machines the budgets allow to be replaced, those under way included.
    fn allowance(&self, machines: &[&OutgoingMachine], reason: DisruptionReason, now: Timestamp) -> usize {
        let PoolFacts { policy, nodes, .. } = &self.facts;
        let begun = machines.iter().filter(|one| one.begun.is_some()).count();
        let others = nodes.unavailable_for(reason).saturating_sub(begun);
        let allowed = policy.allowance(reason, nodes.total, others, now);
        allowed.max(self.allowed_to_go_on(machines, reason, now))
    }

    /// How many of the replacements for `reason` under way among `machines`, the oldest first, its budgets allow to go
    /// on. Those that began later for another reason do not hold them: room was left for what was under way.
    fn allowed_to_go_on(&self, machines: &[&OutgoingMachine], reason: DisruptionReason, now: Timestamp) -> usize {
        let PoolFacts { policy, nodes, .. } = &self.facts;
        let begun: Vec<Timestamp> = machines.iter().filter_map(|one| one.begun).collect();
        let others = nodes.unavailable_for(reason).saturating_sub(begun.len());
        let later = |since: Timestamp| self.begun_for_others.iter().filter(|other| **other > since).count();
        let goes_on = |(index, since): &(usize, &Timestamp)| {
            *index < policy.allowance(reason, nodes.total, others.saturating_sub(later(**since)), now)
        };
        begun.iter().enumerate().take_while(goes_on).count()
    }

    /// How many further replacements may begin, whatever its budgets.
    fn may_begin(&self, machines: &[&OutgoingMachine], selection: &mut Selection, now: Timestamp) -> usize {
        let waiting = self.backoff_until.filter(|until| *until > now);
        if let Some(until) = waiting.filter(|_| machines.iter().any(|one| one.begun.is_none())) {
            selection.check_at(Some(until));
            return 0;
        }
        self.static_room().unwrap_or(usize::MAX)
    }

    fn replicas(&self) -> Option<usize> {
        Some(usize::try_from(self.facts.replicas?).unwrap_or(0))
    }

    /// How many machines a static NodePool may have besides those that are there, and those that are under
    /// way already; `None` without a limit.
    fn static_room(&self) -> Option<usize> {
        let (replicas, StaticCounts { limit, claims, staying, .. }) = (self.replicas()?, self.counts?);
        if staying > replicas {
            // Surplus machines leave first.
            return Some(0);
        }
        // Every machine under way and every one that leaves is there beside the replicas.
        let outgoing = claims - staying.min(claims);
        Some(usize::try_from(limit?).unwrap_or(0).saturating_sub(replicas + outgoing))
    }

    /// How many of `begun` replacements of a static NodePool have their new machine, which is one more
    /// than the replicas that stay; `None` for a dynamic one, whose machines depend on the pods.
    fn machines_replaced(&self, begun: usize) -> Option<usize> {
        let serving = self.counts?.serving;
        Some((serving + begun).saturating_sub(self.replicas()?).min(begun))
    }
}
