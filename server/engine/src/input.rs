//! What a decision is made from: one value, complete and immutable.

use std::collections::BTreeMap;

use crate::model::{DaemonSet, Labels, Node, NodePool, Pod, PodShape, Text, Timestamp, VolumeAlternatives};

/// Everything that planning looks at. Nothing else does: no clock, no environment, no order of arrival.
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
    /// Labels of namespaces. A namespace that is not here has only `kubernetes.io/metadata.name`.
    pub namespaces: BTreeMap<Text, Labels>,
    /// What the operator decided.
    pub policy: Policy,
    /// The moment that opt-in waits are judged by.
    pub now: Timestamp,
}

/// Whether soft constraints are looked at (Karpenter's `PREFERENCE_POLICY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreferencePolicy {
    /// Soft constraints guide the choice.
    #[default]
    Respect,
    /// Soft constraints are not looked at.
    Ignore,
}

/// What happens when `minValues` cannot be met (Karpenter's `MIN_VALUES_POLICY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// The pool is not used.
    #[default]
    Strict,
    /// As many values as there are must do.
    BestEffort,
}

/// What the operator decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Soft constraints.
    pub preferences: PreferencePolicy,
    /// `minValues` that cannot be met.
    pub min_values: MinValuesPolicy,
    /// Label keys that a machine may turn out to have although neither pool nor catalogue defines them ("well-known").
    pub well_known_labels: Vec<Text>,
    /// Steps that the search for cheaper packings may take; 0 means the first packing only.
    pub search_steps: u64,
    /// Seed of the search.
    pub seed: u64,
    /// Steps that scheduling may take, 0 for any number: pods that are not reached by then are left to the next plan. A step
    /// is about 50 nanoseconds' work.
    pub step_limit: u64,
    /// Preferences of one pod that are looked at, the heaviest first; 0 for as many as scheduling can tell apart.
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
            preferred_terms: PREFERRED_TERMS,
        }
    }
}

/// Steps that scheduling may take unless the policy says otherwise: ten times what the largest inputs of the benchmark need.
pub const STEP_LIMIT: u64 = 200_000_000;

/// Preferences of one pod that scheduling can tell apart.
pub const MOST_TOLD_APART: usize = 64;

/// Preferences of one pod that are looked at unless the policy says otherwise: more than any published chart states.
pub const PREFERRED_TERMS: u32 = 20;

impl Policy {
    /// Preferences of one pod that scheduling looks at.
    #[must_use]
    pub fn preferred_terms_most(&self) -> usize {
        match self.preferred_terms {
            0 => MOST_TOLD_APART,
            most => MOST_TOLD_APART.min(most as usize),
        }
    }

    /// Whether `key` may be undefined on a new machine.
    #[must_use]
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known_labels.iter().any(|known| known.as_ref() == key)
    }
}
