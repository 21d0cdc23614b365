//! Faults and their times. A run's faults are a list, so that a failing run can be repeated without
//! some of them.

use std::collections::BTreeMap;
use std::fmt;

use cloud::simulated::SeededRng;
use model::interruption::InterruptionKind;

/// Shorter faults are not halved further.
const SMALLEST_MS: i64 = 2_000;

/// The existing objects that a relist lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListGap {
    Pods,
    /// Pods that belong to no DaemonSet, as if the list were confined to a namespace.
    Workloads,
    Nodes,
    Claims,
    Pools,
    Everything,
}

impl ListGap {
    const ALL: [Self; 6] = [Self::Pods, Self::Workloads, Self::Nodes, Self::Claims, Self::Pools, Self::Everything];

    /// Whether the list lacks objects of this kind.
    pub(super) fn covers(self, kind: Self) -> bool {
        self == kind || self == Self::Everything || (self == Self::Pods && kind == Self::Workloads)
    }
}

/// A fault. Processes and clusters are identified by index; durations are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A server process is killed after this many more steps and restarts later.
    Kill {
        process: usize,
        after_steps: u32,
        away_ms: i64,
    },
    /// A server process is paused after this many more steps and resumes without noticing.
    Pause {
        process: usize,
        after_steps: u32,
        for_ms: i64,
    },
    /// The clock of a server's host is set.
    SetClock {
        process: usize,
        by_ms: i64,
    },
    /// The clock of an agent's host is set.
    SetAgentClock {
        cluster: usize,
        by_ms: i64,
    },
    /// A connection is cut with everything in flight, and cannot be opened again for a while.
    Cut {
        cluster: usize,
        for_ms: i64,
    },
    /// A connection delays all messages for a while, then delivers them.
    Stall {
        cluster: usize,
        for_ms: i64,
    },
    /// An agent restarts with only what is stored in its cluster.
    RestartAgent {
        cluster: usize,
        away_ms: i64,
    },
    StoreDown {
        for_ms: i64,
    },
    /// Some answers of the store are lost after the write took effect.
    StoreAmbiguous {
        for_ms: i64,
        percent: u32,
    },
    StoreSlow {
        for_ms: i64,
        by_ms: i64,
    },
    /// Some answers of the cloud are lost, before or after the call took effect.
    CloudLost {
        for_ms: i64,
        percent: u32,
    },
    CloudThrottles {
        for_ms: i64,
    },
    StaleLists {
        for_ms: i64,
        by_ms: i64,
    },
    PartialLists {
        for_ms: i64,
    },
    /// The cloud's listing claims to be complete and lacks a share of all instances, as when tags
    /// were removed.
    IncompleteLists {
        for_ms: i64,
        percent: u32,
    },
    /// The kubelets of a cluster are partitioned: its Nodes are not ready, and its pods run on.
    Partition {
        cluster: usize,
        for_ms: i64,
    },
    /// The cloud refuses every launch for lack of permission.
    LaunchesRefused {
        for_ms: i64,
    },
    NoCapacity {
        for_ms: i64,
    },
    /// The cloud has no capacity in one zone.
    ZoneEmpty {
        zone: usize,
        for_ms: i64,
    },
    /// Instances boot, but their Nodes never join.
    NodesNeverJoin {
        cluster: usize,
        for_ms: i64,
    },
    /// A NodeClaim is deleted after its finalizers were removed.
    ClaimRemoved {
        cluster: usize,
    },
    /// The agent's snapshots lack pods, nodes and NodeClaims.
    EmptySnapshot {
        cluster: usize,
        for_ms: i64,
    },
    /// Plans for a cluster take longer, as if the planning threads starved.
    SlowPlans {
        cluster: usize,
        for_ms: i64,
        by_ms: i64,
    },
    /// The agent's watch restarts with a list that lacks objects: the agent reports them deleted,
    /// and created again when a complete list follows.
    Relist {
        cluster: usize,
        gap: ListGap,
        for_ms: i64,
    },
    /// The store has lost all data.
    StoreWiped,
    /// An operator freezes the fleet and thaws it later.
    Freeze {
        for_ms: i64,
    },
    /// The cloud announces or reports that an instance of a cluster ends or fails.
    Interrupt {
        cluster: usize,
        kind: InterruptionKind,
    },
    /// An instance of a cluster terminates by itself.
    InstanceDies {
        cluster: usize,
    },
    /// A user changes the templates of a cluster's NodePools.
    TemplateChanged {
        cluster: usize,
    },
    /// A user changes the templates, and the lifetime of one of the NodeClaims that drift ends at the same time.
    ExpiresDrifted {
        cluster: usize,
    },
    /// The newest instance of a cluster terminates when the next voluntary drain begins: its replacement fails after
    /// the drain was decided.
    ReplacementDies {
        cluster: usize,
    },
    /// The agent of a cluster is disconnected when its next machine is launched.
    CutAtLaunch {
        cluster: usize,
        for_ms: i64,
    },
    /// A server process dies after the decision for its next launch is durable, before it calls the launch.
    KillAtLaunch {
        process: usize,
        away_ms: i64,
    },
}

impl Fault {
    pub fn kind(self) -> &'static str {
        // Names are part of the JSON report and stay stable.
        match self {
            Self::Kill { .. } => "process_killed",
            Self::Pause { .. } => "process_paused",
            Self::SetClock { .. } => "server_clock_set",
            Self::SetAgentClock { .. } => "agent_clock_set",
            Self::Cut { .. } => "connection_cut",
            Self::Stall { .. } => "connection_stalled",
            Self::RestartAgent { .. } => "agent_restarted",
            Self::StoreDown { .. } => "store_down",
            Self::StoreAmbiguous { .. } => "store_answers_lost",
            Self::StoreSlow { .. } => "store_slow",
            Self::CloudLost { .. } => "cloud_answers_lost",
            Self::CloudThrottles { .. } => "cloud_throttles",
            Self::StaleLists { .. } => "cloud_lists_stale",
            Self::PartialLists { .. } => "cloud_lists_partial",
            Self::IncompleteLists { .. } => "cloud_lists_lack",
            Self::Partition { .. } => "kubelets_silent",
            Self::LaunchesRefused { .. } => "launches_refused",
            Self::NoCapacity { .. } => "no_capacity",
            Self::ZoneEmpty { .. } => "zone_empty",
            Self::NodesNeverJoin { .. } => "nobody_joins",
            Self::ClaimRemoved { .. } => "claim_removed_by_force",
            Self::EmptySnapshot { .. } => "empty_picture",
            Self::SlowPlans { .. } => "plans_slow",
            Self::Relist { .. } => "relist_lacks_objects",
            Self::StoreWiped => "store_forgets",
            Self::Freeze { .. } => "fleet_frozen",
            Self::Interrupt { kind, .. } => kind.as_str(),
            Self::InstanceDies { .. } => "machine_died",
            Self::TemplateChanged { .. } => "template_changed",
            Self::ExpiresDrifted { .. } => "drifted_claim_expired",
            Self::ReplacementDies { .. } => "replacement_died",
            Self::CutAtLaunch { .. } => "connection_cut_at_launch",
            Self::KillAtLaunch { .. } => "process_killed_at_launch",
        }
    }

    /// The same fault with half its duration or clock offset; `None` if it cannot be halved.
    pub fn smaller(self) -> Option<Self> {
        // Only durations and clock offsets shrink: targets and percentages define the fault.
        let half = |ms: i64| ms / 2;
        let smaller = match self {
            Self::Kill { process, after_steps, away_ms } => Self::Kill { process, after_steps, away_ms: half(away_ms) },
            Self::Pause { process, after_steps, for_ms } => Self::Pause { process, after_steps, for_ms: half(for_ms) },
            Self::SetClock { process, by_ms } => Self::SetClock { process, by_ms: half(by_ms) },
            Self::SetAgentClock { cluster, by_ms } => Self::SetAgentClock { cluster, by_ms: half(by_ms) },
            Self::Cut { cluster, for_ms } => Self::Cut { cluster, for_ms: half(for_ms) },
            Self::Stall { cluster, for_ms } => Self::Stall { cluster, for_ms: half(for_ms) },
            Self::RestartAgent { cluster, away_ms } => Self::RestartAgent { cluster, away_ms: half(away_ms) },
            Self::StoreDown { for_ms } => Self::StoreDown { for_ms: half(for_ms) },
            Self::StoreAmbiguous { for_ms, percent } => Self::StoreAmbiguous { for_ms: half(for_ms), percent },
            Self::StoreSlow { for_ms, by_ms } => Self::StoreSlow { for_ms: half(for_ms), by_ms },
            Self::CloudLost { for_ms, percent } => Self::CloudLost { for_ms: half(for_ms), percent },
            Self::CloudThrottles { for_ms } => Self::CloudThrottles { for_ms: half(for_ms) },
            Self::StaleLists { for_ms, by_ms } => Self::StaleLists { for_ms: half(for_ms), by_ms },
            Self::PartialLists { for_ms } => Self::PartialLists { for_ms: half(for_ms) },
            Self::IncompleteLists { for_ms, percent } => Self::IncompleteLists { for_ms: half(for_ms), percent },
            Self::Partition { cluster, for_ms } => Self::Partition { cluster, for_ms: half(for_ms) },
            Self::LaunchesRefused { for_ms } => Self::LaunchesRefused { for_ms: half(for_ms) },
            Self::NoCapacity { for_ms } => Self::NoCapacity { for_ms: half(for_ms) },
            Self::ZoneEmpty { zone, for_ms } => Self::ZoneEmpty { zone, for_ms: half(for_ms) },
            Self::NodesNeverJoin { cluster, for_ms } => Self::NodesNeverJoin { cluster, for_ms: half(for_ms) },
            Self::Freeze { for_ms } => Self::Freeze { for_ms: half(for_ms) },
            Self::EmptySnapshot { cluster, for_ms } => Self::EmptySnapshot { cluster, for_ms: half(for_ms) },
            Self::SlowPlans { cluster, for_ms, by_ms } => {
                Self::SlowPlans { cluster, for_ms: half(for_ms), by_ms: half(by_ms) }
            }
            Self::Relist { cluster, gap, for_ms } => Self::Relist { cluster, gap, for_ms: half(for_ms) },
            Self::CutAtLaunch { cluster, for_ms } => Self::CutAtLaunch { cluster, for_ms: half(for_ms) },
            Self::KillAtLaunch { process, away_ms } => Self::KillAtLaunch { process, away_ms: half(away_ms) },
            Self::StoreWiped
            | Self::ClaimRemoved { .. }
            | Self::Interrupt { .. }
            | Self::InstanceDies { .. }
            | Self::TemplateChanged { .. }
            | Self::ExpiresDrifted { .. }
            | Self::ReplacementDies { .. } => return None,
        };
        (self.lasts_ms().abs() >= SMALLEST_MS || self.jumps_ms().abs() >= SMALLEST_MS).then_some(smaller)
    }

    /// Clock offset in milliseconds.
    fn jumps_ms(self) -> i64 {
        match self {
            Self::SetClock { by_ms, .. } | Self::SetAgentClock { by_ms, .. } => by_ms,
            _ => 0,
        }
    }

    /// Duration in milliseconds; 0 for momentary faults.
    pub fn lasts_ms(self) -> i64 {
        match self {
            Self::Kill { away_ms: ms, .. }
            | Self::KillAtLaunch { away_ms: ms, .. }
            | Self::CutAtLaunch { for_ms: ms, .. }
            | Self::RestartAgent { away_ms: ms, .. }
            | Self::Pause { for_ms: ms, .. }
            | Self::Cut { for_ms: ms, .. }
            | Self::Stall { for_ms: ms, .. }
            | Self::StoreDown { for_ms: ms }
            | Self::StoreAmbiguous { for_ms: ms, .. }
            | Self::StoreSlow { for_ms: ms, .. }
            | Self::CloudLost { for_ms: ms, .. }
            | Self::CloudThrottles { for_ms: ms }
            | Self::StaleLists { for_ms: ms, .. }
            | Self::PartialLists { for_ms: ms }
            | Self::IncompleteLists { for_ms: ms, .. }
            | Self::Partition { for_ms: ms, .. }
            | Self::LaunchesRefused { for_ms: ms }
            | Self::NoCapacity { for_ms: ms }
            | Self::ZoneEmpty { for_ms: ms, .. }
            | Self::NodesNeverJoin { for_ms: ms, .. }
            | Self::Freeze { for_ms: ms }
            | Self::EmptySnapshot { for_ms: ms, .. }
            | Self::Relist { for_ms: ms, .. } => ms,
            // The last plan that was requested ends so much later.
            Self::SlowPlans { for_ms, by_ms, .. } => for_ms.saturating_add(by_ms),
            Self::SetClock { .. }
            | Self::SetAgentClock { .. }
            | Self::StoreWiped
            | Self::ClaimRemoved { .. }
            | Self::Interrupt { .. }
            | Self::InstanceDies { .. }
            | Self::TemplateChanged { .. }
            | Self::ExpiresDrifted { .. }
            | Self::ReplacementDies { .. } => 0,
        }
    }
}

/// A fault and its time in milliseconds from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedFault {
    pub at_ms: i64,
    pub fault: Fault,
}

impl fmt::Display for TimedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, Fault::{:?})", self.at_ms, self.fault)
    }
}

/// Counts by kind.
pub(crate) type FaultCounts = BTreeMap<&'static str, u64>;

/// Faults of one seed, all of which begin before `until_ms`. A wiped store is not among them: the
/// ground truth assumes its rows.
pub(crate) fn by_seed(seed: u64, processes: usize, clusters: usize, until_ms: i64) -> Vec<TimedFault> {
    let rng = SeededRng::new(seed).child("faults");
    let count = rng.child("count").between((6, 18)).unsigned_abs();
    let mut faults: Vec<TimedFault> = (0..count)
        .map(|number| {
            let rng = rng.child_number(number);
            let at_ms = rng.child("at").between((0, until_ms));
            TimedFault { at_ms, fault: draw(rng, processes, clusters) }
        })
        .collect();
    faults.sort_by_key(|timed| timed.at_ms);
    faults
}

pub(super) fn draw(rng: SeededRng, processes: usize, clusters: usize) -> Fault {
    let pick = |name: &str, of: usize| usize::try_from(rng.child(name).value() % of.max(1) as u64).unwrap_or(0);
    let (process, cluster) = (pick("process", processes), pick("cluster", clusters));
    let within = |name: &str, from: i64, to: i64| rng.child(name).between((from, to));
    let for_ms = within("for", 1_000, 90_000);
    let percent = u32::try_from(within("percent", 10, 60)).unwrap_or(10);
    let by_ms = within("clock", -120_000, 120_000);
    // Every draw has a named child generator, so that adding one changes no other.
    match rng.child("kind").value() % 33 {
        0..=3 => {
            let after_steps = u32::try_from(within("steps", 0, 40)).unwrap_or(0);
            Fault::Kill { process, after_steps, away_ms: within("away", 200, 60_000) }
        }
        4 | 5 => {
            let after_steps = u32::try_from(within("steps", 0, 40)).unwrap_or(0);
            Fault::Pause { process, after_steps, for_ms }
        }
        6 => Fault::SetClock { process, by_ms },
        7 => Fault::SetAgentClock { cluster, by_ms },
        8 | 9 => Fault::Cut { cluster, for_ms: within("for", 100, 60_000) },
        10 => Fault::Stall { cluster, for_ms: within("for", 1_000, 45_000) },
        11 => Fault::RestartAgent { cluster, away_ms: within("away", 500, 40_000) },
        12 => Fault::StoreDown { for_ms },
        13 => Fault::StoreAmbiguous { for_ms, percent },
        14 => Fault::StoreSlow { for_ms, by_ms: within("by", 200, 6_000) },
        15 => Fault::CloudLost { for_ms: for_ms * 2, percent },
        16 => Fault::CloudThrottles { for_ms },
        17 => Fault::StaleLists { for_ms: for_ms * 2, by_ms: within("by", 1_000, 60_000) },
        18 => Fault::PartialLists { for_ms: for_ms * 2 },
        19 => Fault::NoCapacity { for_ms },
        20 => {
            Fault::Interrupt { cluster, kind: InterruptionKind::ALL[pick("interruption", InterruptionKind::ALL.len())] }
        }
        21 => Fault::ZoneEmpty { zone: pick("zone", 2), for_ms: for_ms * 3 },
        22 => Fault::NodesNeverJoin { cluster, for_ms },
        23 => Fault::Freeze { for_ms },
        24 => Fault::ClaimRemoved { cluster },
        26 => Fault::SlowPlans { cluster, for_ms, by_ms: within("by", 1_000, 120_000) },
        25 => Fault::EmptySnapshot { cluster, for_ms: for_ms * 3 },
        27 | 28 => Fault::Relist { cluster, gap: ListGap::ALL[pick("lacks", ListGap::ALL.len())], for_ms: for_ms * 3 },
        29 => Fault::IncompleteLists { for_ms: for_ms * 3, percent: if percent < 35 { 50 } else { 100 } },
        30 => Fault::Partition { cluster, for_ms: for_ms * 3 },
        31 => Fault::LaunchesRefused { for_ms },
        _ => Fault::InstanceDies { cluster },
    }
}
