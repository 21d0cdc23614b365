//! The input of a decision: one complete, immutable value.

use std::collections::BTreeMap;

use crate::{DaemonSet, Labels, Node, NodePool, Pod, PodShape, Text, Timestamp, VolumeAlternatives};

/// Everything that planning depends on: no clock, no environment, no order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanningInput {
    /// Distinct pod shapes.
    pub shapes: Vec<PodShape>,
    /// Distinct label sets of pods.
    pub label_sets: Vec<Labels>,
    /// Distinct volume needs of pods.
    pub volume_sets: Vec<VolumeAlternatives>,
    /// Pods to place, sorted by namespace and name.
    pub pods: Vec<Pod>,
    /// Nodes and in-flight NodeClaims, sorted by name.
    pub nodes: Vec<Node>,
    /// NodePools, sorted by name.
    pub pools: Vec<NodePool>,
    /// DaemonSets, sorted by namespace and name.
    pub daemons: Vec<DaemonSet>,
    /// Labels of namespaces. A namespace missing here has only `kubernetes.io/metadata.name`.
    pub namespaces: BTreeMap<Text, Labels>,
    /// Settings of the operator.
    pub policy: Policy,
    /// The time at which opt-in waits are evaluated.
    pub now: Timestamp,
}

/// Whether soft constraints are evaluated (Karpenter's `PREFERENCE_POLICY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreferencePolicy {
    /// Soft constraints guide the choice.
    #[default]
    Respect,
    /// Soft constraints are ignored.
    Ignore,
}

/// What happens when `minValues` cannot be met (Karpenter's `MIN_VALUES_POLICY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// The pool is not used.
    #[default]
    Strict,
    /// The pool is used with as many values as it has.
    BestEffort,
}

/// Settings of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How soft constraints are treated.
    pub preferences: PreferencePolicy,
    /// How `minValues` that cannot be met are treated.
    pub min_values: MinValuesPolicy,
    /// Well-known label keys: a node may have them although neither pool nor catalogue defines
    /// them.
    pub well_known_labels: Vec<Text>,
    /// Maximum steps of the search for cheaper packings; 0 means the first packing only.
    pub search_steps: u64,
    /// Seed of the search.
    pub seed: u64,
    /// Maximum steps of scheduling, 0 for unlimited; pods not reached by then are left to the next
    /// plan. A step takes about 50 nanoseconds.
    pub step_limit: u64,
    /// Whether placed pods carry their node in `status.nominatedNodeName`, so that kube-scheduler
    /// binds them where planned.
    pub nominations: bool,
    /// Maximum number of preferences evaluated per pod, the heaviest first; 0 for
    /// [`MAX_PREFERENCES`].
    pub preferred_terms: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::default(),
            min_values: MinValuesPolicy::default(),
            well_known_labels: Vec::new(),
            search_steps: 0,
            seed: 0,
            step_limit: STEP_LIMIT,
            nominations: false,
            preferred_terms: PREFERRED_TERMS,
        }
    }
}

/// Default of [`Policy::step_limit`]: ten times what the largest inputs of the benchmark need.
pub const STEP_LIMIT: u64 = 200_000_000;

/// Default of [`Policy::search_steps`] where time is not short: the search ends within a second.
pub const SEARCH_STEPS: u64 = 10_000_000;

/// Maximum number of preferences of one pod that scheduling can distinguish.
pub const MAX_PREFERENCES: usize = 64;

/// Default of [`Policy::preferred_terms`]: more than any published chart states.
pub const PREFERRED_TERMS: u32 = 20;

impl Policy {
    /// Number of preferences of one pod that scheduling evaluates.
    #[must_use]
    pub fn max_preferred_terms(&self) -> usize {
        match self.preferred_terms {
            0 => MAX_PREFERENCES,
            most => MAX_PREFERENCES.min(most as usize),
        }
    }

    /// Whether a new node may have the label `key` although nothing defines it.
    #[must_use]
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known_labels.iter().any(|known| known.as_ref() == key)
    }
}
