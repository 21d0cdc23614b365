//! What the price of each machine of the cluster is spent on.

use std::collections::BTreeMap;

use cost::{CostCause, CostParts, NodePhase, NodeUse, ResourceUse, split};
use model::disruption_plan::{Block, BlockCode};
use model::disruption_policy::{ConsolidationPolicy, DisruptionReason};
use model::{NodeName, PoolName, Resources, resources};

use crate::guardrails::{GuardrailsView, Mode};
use crate::nodeclaim::{ManagedClaim, StageKind};
use crate::step_view::StepView;
use cluster::{NodeRecord, PodRecord};

/// What all machines of the cluster are judged by.
pub(crate) struct CostView<'c> {
    view: &'c StepView<'c>,
    /// Requests of pods of the cluster of which none is greater than another one in both resources: a pod fits into free room
    /// if one of these does.
    smallest: Vec<CpuAndMemory>,
    /// Room that holds book and that no pod has taken.
    held: BTreeMap<NodeName, CpuAndMemory>,
    is_blocked: bool,
    machines: BTreeMap<&'c PoolName, usize>,
}

/// Requests of the pods of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeRequests {
    pub workload: CpuAndMemory,
    /// Of DaemonSets, and of static pods.
    pub daemons: CpuAndMemory,
    pods: i64,
}

impl NodeRequests {
    pub(crate) fn of<'p>(pods: impl Iterator<Item = &'p PodRecord>) -> Self {
        let mut requests = Self::default();
        for pod in pods {
            let sum = if pod.is_workload() { &mut requests.workload } else { &mut requests.daemons };
            sum.add(CpuAndMemory::of(&pod.shape.requests));
            requests.pods += 1;
        }
        requests
    }

    pub(crate) fn total(&self) -> CpuAndMemory {
        let mut total = self.workload;
        total.add(self.daemons);
        total
    }
}

impl<'c> CostView<'c> {
    pub(crate) fn new(view: &'c StepView<'c>, guardrails: &GuardrailsView) -> Self {
        let state = view.state;
        let mut held = BTreeMap::<NodeName, CpuAndMemory>::new();
        for (booking, pods) in state.open_bookings().into_iter().filter(|(_, pods)| *pods > 0) {
            let one = CpuAndMemory::of(&booking.shape.requests);
            let all = CpuAndMemory {
                cpu_millis: one.cpu_millis.saturating_mul(i64::from(pods)),
                memory_bytes: one.memory_bytes.saturating_mul(i64::from(pods)),
            };
            held.entry(state.name_of_target(&booking.target)).or_default().add(all);
        }
        let requests = state.pods().filter(|pod| pod.is_workload()).map(|pod| CpuAndMemory::of(&pod.shape.requests));
        let is_shadow = guardrails.mode == Mode::Shadow || guardrails.disruption_mode == Mode::Shadow;
        let is_stopped = guardrails.quarantine.is_some()
            || guardrails.frozen.is_some()
            || guardrails.circuit_breaker.is_some()
            || guardrails.held_removals.is_some();
        let is_off = !view.settings().consolidation.is_enabled;
        let mut machines = BTreeMap::new();
        view.claims.iter().for_each(|machine| *machines.entry(machine.pool()).or_default() += 1);
        let is_blocked = is_shadow || is_stopped || !view.is_ready() || is_off;
        Self { view, smallest: smallest(requests), held, is_blocked, machines }
    }

    /// What the price of a machine is spent on; nothing before its launch.
    pub(crate) fn parts(&self, machine: &ManagedClaim, node: Option<(&NodeRecord, &NodeRequests)>) -> CostParts {
        let Some(instance) = machine.instance() else { return CostParts::default() };
        let mut uses = Vec::new();
        if let Some((node, requests)) = node {
            self.add_uses(node, requests, &mut uses);
        }
        split(&NodeUse { price: instance.price, phase: self.phase(machine, node), resources: &uses })
    }

    fn add_uses(&self, node: &NodeRecord, requests: &NodeRequests, uses: &mut Vec<ResourceUse>) {
        let held = self.held.get(&node.name).copied().unwrap_or_default();
        let use_of = |name: &str, amount: fn(&CpuAndMemory) -> i64| ResourceUse {
            workload: amount(&requests.workload),
            held: amount(&held),
            daemons: amount(&requests.daemons),
            allocatable: node.allocatable.get(name),
        };
        uses.push(use_of(resources::CPU, |of| of.cpu_millis));
        uses.push(use_of(resources::MEMORY, |of| of.memory_bytes));
        // Names of devices have the domain of their plugin.
        for (device, allocatable) in node.allocatable.iter().filter(|(name, amount)| name.contains('/') && *amount > 0)
        {
            let pods = self.view.state.pods_on(&node.name).filter(|pod| pod.is_workload());
            let workload = pods.map(|pod| pod.shape.requests.get(device)).sum();
            uses.push(ResourceUse { workload, allocatable, ..ResourceUse::default() });
        }
    }

    fn phase(&self, machine: &ManagedClaim, node: Option<(&NodeRecord, &NodeRequests)>) -> NodePhase {
        let is_leaving = machine.termination_reason().is_some()
            || matches!(machine.stage(), StageKind::Draining | StageKind::Terminating | StageKind::Deleting)
            || self.view.state.is_marked_for_deletion(machine.name())
            || node.is_some_and(|(node, _)| node.deleting);
        match node {
            _ if is_leaving => NodePhase::Leaving,
            Some((node, requests)) if machine.stage() == StageKind::Initialized => {
                NodePhase::Running(self.cause_of_free_room(machine, node, requests))
            }
            _ => NodePhase::Booting,
        }
    }

    /// The first cause that applies.
    fn cause_of_free_room(&self, machine: &ManagedClaim, node: &NodeRecord, requests: &NodeRequests) -> CostCause {
        if !self.is_usable(node, requests) {
            return CostCause::Fragmentation;
        }
        if self.is_blocked || self.is_kept_by_pool(machine, node) || self.is_protected(node) {
            return CostCause::Blocked;
        }
        match self.view.disruption.consolidation.planned_blocks.of_node(&node.name) {
            Some(blocks) => cause_of_all(blocks),
            None if self.is_kept_by_pods(node) => CostCause::Blocked,
            None => CostCause::Unexplained,
        }
    }

    /// Whether a pod of the node may not be evicted, or was moved too lately to be moved again.
    fn is_kept_by_pods(&self, node: &NodeRecord) -> bool {
        let state = self.view.state;
        let interval = self.view.settings().consolidation.move_interval;
        state.pods_on(&node.name).any(|pod| state.eviction_blocker(pod, self.view.now).is_some())
            || state.recent_move_to(&node.name, interval, self.view.now).is_some()
    }

    /// Whether the disruption settings of its NodePool keep the node now.
    fn is_kept_by_pool(&self, machine: &ManagedClaim, node: &NodeRecord) -> bool {
        let state = self.view.state;
        let Some(pool) = state.pool(machine.pool()) else { return false };
        let policy = &pool.disruption;
        let is_empty = state.non_daemon_pods_on(&node.name) == 0;
        let (reason, is_excluded) = match (is_empty, policy.policy) {
            (true, _) => (DisruptionReason::Empty, false),
            (false, policy) => (DisruptionReason::Underutilized, policy == ConsolidationPolicy::WhenEmpty),
        };
        let since = state.last_pod_event(&node.name).unwrap_or(self.view.now);
        let waits = policy.consolidatable_from(since).is_none_or(|from| from > self.view.now);
        let machines = self.machines.get(machine.pool()).copied().unwrap_or_default();
        is_excluded || waits || policy.allowance(reason, machines, 0, self.view.now) == 0
    }

    fn is_protected(&self, node: &NodeRecord) -> bool {
        let mut pods = self.view.state.pods_on(&node.name);
        node.blocks_disruption(self.view.now) || pods.any(|pod| pod.blocks_disruption(self.view.now))
    }

    /// Whether some pod of the cluster would fit into the free room, by what it requests. True for a cluster without pods.
    fn is_usable(&self, node: &NodeRecord, requests: &NodeRequests) -> bool {
        let (all, total) = (CpuAndMemory::of(&node.allocatable), requests.total());
        let is_there = |one: &CpuAndMemory| {
            one.cpu_millis <= all.cpu_millis.saturating_sub(total.cpu_millis)
                && one.memory_bytes <= all.memory_bytes.saturating_sub(total.memory_bytes)
        };
        let has_place = requests.pods < node.allocatable.get(resources::PODS);
        self.smallest.is_empty() || (has_place && self.smallest.iter().any(is_there))
    }
}

/// Those of the requests that no other one undercuts in both resources. Pods without requests fit everywhere, and would make
/// all room usable.
fn smallest(requests: impl Iterator<Item = CpuAndMemory>) -> Vec<CpuAndMemory> {
    let mut smallest: Vec<CpuAndMemory> = Vec::new();
    let fits = |one: &CpuAndMemory, other: &CpuAndMemory| {
        one.cpu_millis <= other.cpu_millis && one.memory_bytes <= other.memory_bytes
    };
    for one in requests.filter(|one| one.cpu_millis > 0 || one.memory_bytes > 0) {
        if !smallest.iter().any(|known| fits(known, &one)) {
            smallest.retain(|known| !fits(&one, known));
            smallest.push(one);
        }
    }
    smallest
}

/// What blocks of a plan of disruption say of the free room of their node: the first cause that applies.
fn cause_of_all(blocks: &[Block]) -> CostCause {
    let has = |wanted: CostCause| blocks.iter().any(|block| cause_of(block.code) == wanted);
    match () {
        () if has(CostCause::Blocked) => CostCause::Blocked,
        () if has(CostCause::NoSavings) => CostCause::NoSavings,
        () => CostCause::Unexplained,
    }
}

/// What a block of a plan of disruption says of the free room of its node.
const fn cause_of(code: BlockCode) -> CostCause {
    match code {
        BlockCode::Budget
        | BlockCode::PodDisruptionBudget
        | BlockCode::DoNotDisrupt
        | BlockCode::ConsolidateAfter
        | BlockCode::Nominated
        | BlockCode::PendingPods
        | BlockCode::Static
        | BlockCode::Policy
        | BlockCode::MinValues
        | BlockCode::NotSynced
        | BlockCode::Frozen
        | BlockCode::Shadow
        | BlockCode::Guardrail
        | BlockCode::BackOff
        | BlockCode::Replacing
        | BlockCode::RecentlyMoved
        | BlockCode::OtherScheduler
        | BlockCode::LocalVolume
        | BlockCode::SafeToEvict
        | BlockCode::NoOwner => CostCause::Blocked,
        BlockCode::NoSavings | BlockCode::NoCapacity | BlockCode::SpotFlexibility => CostCause::NoSavings,
        BlockCode::NotInitialized | BlockCode::Deleting | BlockCode::NotManaged | BlockCode::NotPlanned => {
            CostCause::Unexplained
        }
    }
}

/// Amounts of the two resources that every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuAndMemory {
    /// Millicores.
    pub cpu_millis: i64,
    pub memory_bytes: i64,
}

impl CpuAndMemory {
    /// These two of `resources`.
    #[must_use]
    pub fn of(resources: &Resources) -> Self {
        Self { cpu_millis: resources.get(resources::CPU), memory_bytes: resources.get(resources::MEMORY) }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
    }
}
