//! Settings of the region controller.

use crate::disruption::settings::DisruptionSettings;
use crate::disruption_allowance::DisruptionShare;
use crate::guardrails::{GuardrailSettings, Mode};
use crate::search_allowance::SearchSettings;
use crate::unavailable_offerings::BASE_WINDOW;
use cluster::external_autoscalers::EXTERNAL_SCALE_UP_HOLD;
use cluster::moved_pods::MAX_RESTORED_DRAIN;
use cost::SAVINGS_WINDOW;
use model::input::Policy;
use model::removal::RemovalReason;
use model::schedulers::PlannedSchedulers;
use model::{ClusterName, MicroUsd, Millis};

/// Source of the subnets, images, security groups and instance profiles that EC2NodeClasses select.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassFacts {
    /// The cloud is asked for them.
    Resolved,
    /// The cloud is simulated: it has one subnet in each zone and needs no other resource.
    #[default]
    Simulated,
}

/// Features that are off unless an operator switches them on, by the names of Karpenter's feature gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeatureGates {
    /// `NodeRepair`: machines are removed whose Node stays unhealthy.
    pub node_repair: bool,
    /// `SpotToSpotConsolidation`: consolidation replaces spot machines by cheaper spot machines.
    pub spot_to_spot_consolidation: bool,
    /// Whether each gate of [`FeatureGates::WITHOUT_EFFECT`] was set, on or off.
    pub set_without_effect: [bool; 4],
}

impl FeatureGates {
    pub const NAMES: [&str; 2] = ["NodeRepair", "SpotToSpotConsolidation"];

    /// No gate is on.
    pub const NONE: Self =
        Self { node_repair: false, spot_to_spot_consolidation: false, set_without_effect: [false; 4] };

    /// Further feature gates of Karpenter, and why they change nothing here.
    pub const WITHOUT_EFFECT: [(&str, &str); 4] = [
        ("ReservedCapacity", "reserved capacity is always planned"),
        ("NodeOverlay", "NodeOverlays are always applied"),
        ("StaticCapacity", "static NodePools are always planned"),
        ("CapacityBuffer", "capacity buffers are never planned"),
    ];

    /// Switches the gate `name`; returns whether there is one.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        match name {
            "NodeRepair" => self.node_repair = on,
            "SpotToSpotConsolidation" => self.spot_to_spot_consolidation = on,
            _ => {
                let known = Self::WITHOUT_EFFECT.iter().position(|(known, _)| *known == name);
                known.into_iter().for_each(|at| self.set_without_effect[at] = true);
                return known.is_some();
            }
        }
        true
    }

    /// The gates that were set and change nothing, with the reasons.
    pub fn without_effect(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let set = self.set_without_effect;
        Self::WITHOUT_EFFECT.into_iter().zip(set).filter_map(|(gate, is_set)| is_set.then_some(gate))
    }
}

/// When nodes are consolidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsolidationSettings {
    /// Whether nodes with pods are consolidated at all.
    pub is_enabled: bool,
    /// Minimum time between two plans of disruption of a cluster.
    pub interval: Millis,
    /// What a removal must save per hour at least, beyond the price of the moves.
    pub min_savings: MicroUsd,
    /// What a moved pod costs, in dollars per hour that must be saved for it.
    pub churn_price: MicroUsd,
    /// Consolidation moves no pod again within this time.
    pub move_interval: Millis,
}

impl ConsolidationSettings {
    /// The age of the oldest decision whose moves matter to the next owner of a cluster: the last pods of a drain are
    /// held for the interval after it, and what is bought for them counts for the time in which savings are compared.
    #[must_use]
    pub fn moves_within(&self) -> Millis {
        self.move_interval.max(SAVINGS_WINDOW) + MAX_RESTORED_DRAIN
    }
}

impl Default for ConsolidationSettings {
    fn default() -> Self {
        Self {
            is_enabled: true,
            interval: Millis::from_secs(15),
            min_savings: MicroUsd(0),
            churn_price: MicroUsd(0),
            move_interval: Millis::from_hours(24),
        }
    }
}

/// Settings of the region controller, from the operator and the process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Policy passed to planning.
    pub policy: Policy,
    /// The batch window closes this long after the last new pod (`BATCH_IDLE_DURATION`).
    pub batch_idle: Millis,
    /// The batch window closes at the latest this long after it opened (`BATCH_MAX_DURATION`).
    pub batch_max: Millis,
    /// Maximum number of pods in one plan, 0 for no limit; further pods are planned immediately
    /// afterwards.
    pub plan_pods: usize,
    /// Searches for cheaper plans while batch windows are open.
    pub search: SearchSettings,
    /// Unplaced pods are planned again after this time at the latest.
    pub retry_delay: Millis,
    /// Minimum time between two passes of the disruption methods.
    pub disruption_pass_interval: Millis,
    /// What holds voluntary disruption beside the NodePools' own settings.
    pub disruption: DisruptionSettings,
    /// When nodes are consolidated.
    pub consolidation: ConsolidationSettings,
    /// Share of the processors for plans of disruption of all clusters.
    pub disruption_share: DisruptionShare,
    /// Features that are on.
    pub feature_gates: FeatureGates,
    /// Maximum time from NodeClaim to instance (Karpenter: launch timeout).
    pub launch_timeout: Millis,
    /// Maximum time from instance to registered Node (Karpenter: registration timeout).
    pub registration_timeout: Millis,
    /// How long the registration of a ready Node waits for the other Nodes of its decision, whose
    /// boot times differ by seconds. 0 registers every Node as soon as it is ready.
    pub open_together: Millis,
    /// Safety limits of all decisions.
    pub guardrails: GuardrailSettings,
    /// How long the first refusal excludes an offering; each further one in a row doubles it, up to ten minutes.
    pub unavailable_ttl: Millis,
    /// Collection period of garbage collection: how long an anomaly must persist before it is
    /// collected; `None` disables collection.
    pub gc_after: Option<Millis>,
    /// How long a pod is not planned after Cluster Autoscaler triggered a scale-up for it.
    pub hold_after_external_scale_up: Millis,
    /// The schedulers whose pods are planned.
    pub schedulers: PlannedSchedulers,
    /// Source of the resources that EC2NodeClasses select.
    pub class_facts: ClassFacts,
    /// First id of decisions and instructions; greater than every id of earlier processes.
    pub first_number: u64,
    /// Seed of NodeClaim names; differs between processes.
    pub identity: u64,
}

impl Settings {
    /// Whether decisions for `cluster` are only recorded.
    pub(crate) fn is_shadow(&self, cluster: &ClusterName) -> bool {
        self.guardrails.mode_of(cluster) == Mode::Shadow
    }

    /// Whether removals for `reason` are only recorded: all in shadow mode, and voluntary ones where `disruption.mode` is
    /// `shadow`.
    pub(crate) fn is_shadow_removal(&self, cluster: &ClusterName, reason: RemovalReason) -> bool {
        let voluntary = || self.disruption.mode_of(cluster) == Mode::Shadow;
        self.is_shadow(cluster) || (!reason.is_forceful() && voluntary())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            batch_idle: Millis::from_secs(1),
            batch_max: Millis::from_secs(10),
            plan_pods: PLAN_PODS,
            search: SearchSettings::default(),
            retry_delay: Millis::from_secs(10),
            disruption_pass_interval: Millis::from_secs(10),
            disruption: DisruptionSettings::default(),
            consolidation: ConsolidationSettings::default(),
            disruption_share: DisruptionShare::default(),
            feature_gates: FeatureGates::default(),
            launch_timeout: Millis::from_mins(5),
            registration_timeout: Millis::from_mins(15),
            open_together: Millis::from_secs(10),
            guardrails: GuardrailSettings::default(),
            unavailable_ttl: BASE_WINDOW,
            gc_after: Some(Millis::from_mins(1)),
            hold_after_external_scale_up: EXTERNAL_SCALE_UP_HOLD,
            schedulers: PlannedSchedulers::default(),
            class_facts: ClassFacts::default(),
            first_number: 1,
            identity: 0,
        }
    }
}

/// Default of [`Settings::plan_pods`]: what one planning thread handles in about a second when the
/// pods are diverse.
const PLAN_PODS: usize = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_owner_reads_the_moves_of_the_interval_and_of_the_longest_drain() {
        let within =
            |move_interval| ConsolidationSettings { move_interval, ..ConsolidationSettings::default() }.moves_within();
        assert_eq!(within(Millis::from_hours(48)), Millis::from_hours(49));
        // What is bought for moved pods is compared for a day.
        assert_eq!(within(Millis::ZERO), Millis::from_hours(25));
    }
}
