//! What goes wrong, and when. A run's faults are a list, so that a failing run can be tried again without some of them.

use std::collections::BTreeMap;
use std::fmt;

use cloud::simulated::SeededRng;

/// Faults that are shorter are not made shorter still.
const SMALLEST_MS: i64 = 2_000;

/// What a relist does not show although it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lacks {
    Pods,
    /// Pods that are not a DaemonSet's: those of a list that is confined to a namespace.
    Workloads,
    Nodes,
    Claims,
    Pools,
    Everything,
}

impl Lacks {
    const ALL: [Self; 6] = [Self::Pods, Self::Workloads, Self::Nodes, Self::Claims, Self::Pools, Self::Everything];

    /// Whether it leaves out objects of this kind.
    pub(super) fn hides(self, kind: Self) -> bool {
        self == kind || self == Self::Everything || (self == Self::Pods && kind == Self::Workloads)
    }
}

/// Something that goes wrong at a moment. Processes and clusters are named by their number; durations are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A server process dies after so many more steps of its own and comes back later.
    Kill { process: usize, after_steps: u32, away_ms: i64 },
    /// A server process stands still after so many more steps of its own, and wakes up without knowing it.
    Pause { process: usize, after_steps: u32, for_ms: i64 },
    /// The clock of a server's machine is set.
    SetClock { process: usize, by_ms: i64 },
    /// The clock of an agent's machine is set.
    SetAgentClock { cluster: usize, by_ms: i64 },
    /// A connection is lost with everything on it, and cannot be made again for a while.
    Cut { cluster: usize, for_ms: i64 },
    /// A connection holds everything back for a while, and then delivers it.
    Stall { cluster: usize, for_ms: i64 },
    /// An agent starts anew and remembers only what is stored in its cluster.
    RestartAgent { cluster: usize, away_ms: i64 },
    /// The store answers nobody.
    StoreDown { for_ms: i64 },
    /// Some answers of the store are lost after it has done what was asked.
    StoreAmbiguous { for_ms: i64, percent: u32 },
    /// The store takes its time.
    StoreSlow { for_ms: i64, by_ms: i64 },
    /// Some answers of the cloud are lost, before or after it has done what was asked.
    CloudLost { for_ms: i64, percent: u32 },
    /// The cloud asks to call less often.
    CloudThrottles { for_ms: i64 },
    /// The cloud's listing shows what was true a while ago.
    StaleLists { for_ms: i64, by_ms: i64 },
    /// The cloud's listing fails half-way.
    PartialLists { for_ms: i64 },
    /// The cloud's listing is whole by its own word and lacks so many of all machines, as when tags were taken off.
    LackingLists { for_ms: i64, percent: u32 },
    /// The kubelets of a cluster report nothing: its Nodes are not ready, and what runs there runs on.
    Partition { cluster: usize, for_ms: i64 },
    /// The cloud refuses every launch, as it refuses one without permission.
    LaunchesRefused { for_ms: i64 },
    /// The cloud has nothing to sell.
    NoCapacity { for_ms: i64 },
    /// The cloud has nothing to sell in one of its zones.
    ZoneEmpty { zone: usize, for_ms: i64 },
    /// Machines boot, and no kubelet of them reaches its cluster.
    NobodyJoins { cluster: usize, for_ms: i64 },
    /// Somebody takes the finalizers of a NodeClaim off and deletes it.
    ClaimRemoved { cluster: usize },
    /// The agent shows a cluster without pods, nodes and NodeClaims.
    EmptyPicture { cluster: usize, for_ms: i64 },
    /// Plans for a cluster take so much longer, as if its pods were dear to plan and its threads starved.
    PlansSlow { cluster: usize, for_ms: i64, by_ms: i64 },
    /// The agent's watch begins anew with a list that lacks objects: the agent tells that they are gone, and when a whole list
    /// follows, that they are there.
    Relist { cluster: usize, lacks: Lacks, for_ms: i64 },
    /// The store has lost everything that was ever written.
    StoreForgets,
    /// A person freezes the fleet, and thaws it.
    Freeze { for_ms: i64 },
    /// The cloud takes a spot machine of a cluster back.
    Interrupt { cluster: usize },
    /// A machine of a cluster ends by itself.
    Dies { cluster: usize },
}

impl Fault {
    /// What kind of fault it is, in a word.
    pub(crate) fn kind(self) -> &'static str {
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
            Self::LackingLists { .. } => "cloud_lists_lack",
            Self::Partition { .. } => "kubelets_silent",
            Self::LaunchesRefused { .. } => "launches_refused",
            Self::NoCapacity { .. } => "no_capacity",
            Self::ZoneEmpty { .. } => "zone_empty",
            Self::NobodyJoins { .. } => "nobody_joins",
            Self::ClaimRemoved { .. } => "claim_removed_by_force",
            Self::EmptyPicture { .. } => "empty_picture",
            Self::PlansSlow { .. } => "plans_slow",
            Self::Relist { .. } => "relist_lacks_objects",
            Self::StoreForgets => "store_forgets",
            Self::Freeze { .. } => "fleet_frozen",
            Self::Interrupt { .. } => "spot_interrupted",
            Self::Dies { .. } => "machine_died",
        }
    }

    /// The same fault, half as long or half as far from when it was ordered; `None` when it is as small as it gets.
    pub(crate) fn smaller(self) -> Option<Self> {
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
            Self::LackingLists { for_ms, percent } => Self::LackingLists { for_ms: half(for_ms), percent },
            Self::Partition { cluster, for_ms } => Self::Partition { cluster, for_ms: half(for_ms) },
            Self::LaunchesRefused { for_ms } => Self::LaunchesRefused { for_ms: half(for_ms) },
            Self::NoCapacity { for_ms } => Self::NoCapacity { for_ms: half(for_ms) },
            Self::ZoneEmpty { zone, for_ms } => Self::ZoneEmpty { zone, for_ms: half(for_ms) },
            Self::NobodyJoins { cluster, for_ms } => Self::NobodyJoins { cluster, for_ms: half(for_ms) },
            Self::Freeze { for_ms } => Self::Freeze { for_ms: half(for_ms) },
            Self::EmptyPicture { cluster, for_ms } => Self::EmptyPicture { cluster, for_ms: half(for_ms) },
            Self::PlansSlow { cluster, for_ms, by_ms } => {
                Self::PlansSlow { cluster, for_ms: half(for_ms), by_ms: half(by_ms) }
            }
            Self::Relist { cluster, lacks, for_ms } => Self::Relist { cluster, lacks, for_ms: half(for_ms) },
            Self::StoreForgets | Self::ClaimRemoved { .. } | Self::Interrupt { .. } | Self::Dies { .. } => return None,
        };
        (self.lasts_ms().abs() >= SMALLEST_MS || self.jumps_ms().abs() >= SMALLEST_MS).then_some(smaller)
    }

    /// How far it sets a clock.
    fn jumps_ms(self) -> i64 {
        match self {
            Self::SetClock { by_ms, .. } | Self::SetAgentClock { by_ms, .. } => by_ms,
            _ => 0,
        }
    }

    /// How long it lasts; 0 for what happens in a moment.
    pub(crate) fn lasts_ms(self) -> i64 {
        match self {
            Self::Kill { away_ms: ms, .. }
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
            | Self::LackingLists { for_ms: ms, .. }
            | Self::Partition { for_ms: ms, .. }
            | Self::LaunchesRefused { for_ms: ms }
            | Self::NoCapacity { for_ms: ms }
            | Self::ZoneEmpty { for_ms: ms, .. }
            | Self::NobodyJoins { for_ms: ms, .. }
            | Self::Freeze { for_ms: ms }
            | Self::EmptyPicture { for_ms: ms, .. }
            | Self::Relist { for_ms: ms, .. } => ms,
            // The last plan that was asked for comes so much later.
            Self::PlansSlow { for_ms, by_ms, .. } => for_ms.saturating_add(by_ms),
            Self::SetClock { .. }
            | Self::SetAgentClock { .. }
            | Self::StoreForgets
            | Self::ClaimRemoved { .. }
            | Self::Interrupt { .. }
            | Self::Dies { .. } => 0,
        }
    }
}

/// A fault at its moment, in milliseconds from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timed {
    /// When.
    pub(crate) at_ms: i64,
    /// What.
    pub(crate) fault: Fault,
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, Fault::{:?})", self.at_ms, self.fault)
    }
}

/// How many of each kind.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Faults of one seed, all of them begun before `until_ms`. A store that forgets is not among them: what it was to remember
/// is lost with it.
pub(crate) fn by_seed(seed: u64, processes: usize, clusters: usize, until_ms: i64) -> Vec<Timed> {
    let dice = SeededRng::new(seed).child("faults");
    let count = dice.child("count").between((6, 18)).unsigned_abs();
    let mut faults: Vec<Timed> = (0..count)
        .map(|number| {
            let die = dice.child_number(number);
            let at_ms = die.child("at").between((0, until_ms));
            Timed { at_ms, fault: draw(die, processes, clusters) }
        })
        .collect();
    faults.sort_by_key(|timed| timed.at_ms);
    faults
}

fn draw(die: SeededRng, processes: usize, clusters: usize) -> Fault {
    let pick = |name: &str, of: usize| usize::try_from(die.child(name).value() % of.max(1) as u64).unwrap_or(0);
    let (process, cluster) = (pick("process", processes), pick("cluster", clusters));
    let within = |name: &str, from: i64, to: i64| die.child(name).between((from, to));
    let for_ms = within("for", 1_000, 90_000);
    let percent = u32::try_from(within("percent", 10, 60)).unwrap_or(10);
    let by_ms = within("clock", -120_000, 120_000);
    match die.child("kind").value() % 33 {
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
        20 => Fault::Interrupt { cluster },
        21 => Fault::ZoneEmpty { zone: pick("zone", 2), for_ms: for_ms * 3 },
        22 => Fault::NobodyJoins { cluster, for_ms },
        23 => Fault::Freeze { for_ms },
        24 => Fault::ClaimRemoved { cluster },
        26 => Fault::PlansSlow { cluster, for_ms, by_ms: within("by", 1_000, 120_000) },
        25 => Fault::EmptyPicture { cluster, for_ms: for_ms * 3 },
        27 | 28 => Fault::Relist { cluster, lacks: Lacks::ALL[pick("lacks", Lacks::ALL.len())], for_ms: for_ms * 3 },
        29 => Fault::LackingLists { for_ms: for_ms * 3, percent: if percent < 35 { 50 } else { 100 } },
        30 => Fault::Partition { cluster, for_ms: for_ms * 3 },
        31 => Fault::LaunchesRefused { for_ms },
        _ => Fault::Dies { cluster },
    }
}
