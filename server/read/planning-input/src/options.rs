//! Options of reading.

use std::sync::Arc;

use cloud::catalogue::Snapshot;
use manifests::Source;
use model::input::{MinValuesPolicy, PreferencePolicy};
use model::schedulers::PlannedSchedulers;
use model::{MicroUsd, Timestamp};

/// Which number of a HorizontalPodAutoscaler a workload without `replicas` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoscaledReplicas {
    /// `minReplicas`.
    #[default]
    Min,
    /// `maxReplicas`.
    Max,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The region; `None` derives it from the input.
    pub region: Option<String>,
    /// Zones of the region, for NodeClasses that have no status; each must be a zone of the region
    /// that is planned in.
    pub zones: Vec<String>,
    /// Whether a region is accepted when neither the catalogue nor the input names its zones.
    /// Nothing can be launched there until an EC2NodeClass has subnets in its status; a server
    /// starts without them.
    pub allow_no_zones: bool,
    /// Whether sources without any object are accepted. A server reads the NodePools of a cluster
    /// that has none.
    pub allow_no_objects: bool,
    /// Replicas of workloads that state none and that a HorizontalPodAutoscaler scales.
    pub autoscaled_replicas: AutoscaledReplicas,
    /// A catalogue file that replaces the built-in catalogue.
    pub catalogue: Option<Source>,
    /// A catalogue that was read already; it replaces the built-in one, and that of the file.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The scheduler's configuration, for its default topology spread constraints: kube-scheduler's
    /// own file, or Karpenter's short form of it. With it, Services are read for their selectors.
    pub scheduler_config: Option<Source>,
    /// (id, free instances) of capacity reservations.
    pub reservations: Vec<(String, i64)>,
    /// Report unknown fields, and fields that are invalid for their version, as errors, even if they
    /// can be interpreted.
    pub strict: bool,
    /// Whether what runs on the nodes is read as well, for repacking
    /// ([`Captured::running`](crate::Captured::running)).
    pub repack: bool,
    /// Whether what runs on the nodes is read as well, with what disruption looks at.
    pub disrupt: bool,
    /// The schedulers whose pods are planned.
    pub schedulers: PlannedSchedulers,
    /// Whether preferences of pods are respected.
    pub preferences: PreferencePolicy,
    /// What happens when `minValues` cannot be met.
    pub min_values: MinValuesPolicy,
    /// Maximum number of steps of the search for cheaper packings.
    pub search_steps: u64,
    pub seed: u64,
    /// Whether pods get their planned node as `status.nominatedNodeName`.
    pub nominations: bool,
    /// The time of the plan; opt-in delays are evaluated against it.
    pub now: Timestamp,
    /// What a node costs per hour beside its price, in pools without the annotation; `None`: its
    /// volumes.
    pub node_overhead: Option<MicroUsd>,
    /// Maximum number of vCPUs of a launched node, in pools without the annotation.
    pub max_node_vcpu: Option<i64>,
    /// Minimum number of launched nodes, in pools without the annotation.
    pub min_nodes: Option<i64>,
}
