//! Pods, split into what many share (the shape) and what is their own.

use std::collections::BTreeMap;

use super::labels::LabelSelector;
use super::requirements::{Requirement, Requirements};
use super::{Labels, Resources, Text, Timestamp, Toleration};

/// Everything about a pod's specification that scheduling looks at. Pods of one workload share one shape; work grows with
/// shapes, not with pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PodShape {
    /// What the pod consumes on its node, `pods: 1` included (containers, sidecars, init phases, pod level, overhead).
    pub requests: Resources,
    /// `nodeSelector`: every label must be there with that value.
    pub node_selector: BTreeMap<Text, Text>,
    /// Required node affinity: at least one term must hold. Empty means no constraint; a term without expressions matches
    /// nothing.
    pub node_affinity: Vec<NodeSelectorTerm>,
    /// Preferred node affinity.
    pub preferred_node_affinity: Vec<Weighted<NodeSelectorTerm>>,
    /// Required pod affinity: all terms must hold, for one and the same set of pods (kube-scheduler's rule, L48).
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_pod_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Required pod anti-affinity: no term may be met.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_pod_anti_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Topology spread constraints, hard and soft.
    pub spread: Vec<SpreadConstraint>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Host ports of ordinary containers, sorted.
    pub host_ports: Vec<HostPort>,
    /// Priority, resolved from the PriorityClass; higher is served first.
    pub priority: i32,
}

impl PodShape {
    /// How many soft constraints it has.
    #[must_use]
    pub fn preferences(&self) -> usize {
        self.preferred_node_affinity.len()
            + self.preferred_pod_affinity.len()
            + self.preferred_pod_anti_affinity.len()
            + self.spread.iter().filter(|spread| !spread.hard).count()
    }
}

/// One term of a node selector: all expressions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NodeSelectorTerm {
    /// `matchExpressions`, kept as written (keys canonical), one requirement an entry.
    pub expressions: Vec<Requirement>,
    /// `matchFields` on `metadata.name`: the node's name must be in all of these sets (`In`, negated for `NotIn`).
    pub names: Vec<Requirement>,
}

/// Something with a weight of 1 to 100.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weighted<T> {
    /// 1 to 100.
    pub weight: i32,
    /// What is preferred.
    pub term: T,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodAffinityTerm {
    /// The node label whose value makes the domain. Never normalised.
    pub topology_key: Text,
    /// Which pods count; `None` selects none. `matchLabelKeys` and `mismatchLabelKeys` are already merged in.
    pub selector: Option<LabelSelector>,
    /// Namespaces by name, sorted. Empty with no `namespace_selector` means the pod's own.
    pub namespaces: Vec<Text>,
    /// Namespaces by label; the empty selector means all. United with `namespaces`.
    pub namespace_selector: Option<LabelSelector>,
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpreadConstraint {
    /// The node label whose value makes the domain. Never normalised.
    pub topology_key: Text,
    /// At least 1.
    pub max_skew: i32,
    /// Domains below which the global minimum counts as zero; at least 1.
    pub min_domains: Option<i32>,
    /// `DoNotSchedule` (true) or `ScheduleAnyway` (false).
    pub hard: bool,
    /// Which pods of the pod's own namespace count; `None` selects none. `matchLabelKeys` are already merged in.
    pub selector: Option<LabelSelector>,
    /// Nodes that the pod's node selector and affinity refuse are left out (`Honor`, the default).
    pub honor_node_affinity: bool,
    /// Nodes whose taints the pod does not tolerate are left out (`Honor`; the default is `Ignore`).
    pub honor_node_taints: bool,
}

/// A port on the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Address; empty, `0.0.0.0` and `::` mean all.
    pub ip: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// 1 to 65535.
    pub port: u16,
}

impl HostPort {
    /// Whether both cannot be on one node: same port and protocol, and addresses that are equal or unspecific.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let unspecific = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || unspecific(&self.ip) || unspecific(&other.ip))
    }
}

/// What a pod's volumes ask of its node. Interned apart from the shape, because the claims of a StatefulSet differ pod by pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VolumeAlternatives {
    /// Node requirements of which one must hold, in the order they are to be tried; empty means no constraint.
    pub any_of: Vec<Requirements>,
    /// Volumes to attach: (CSI driver, volume or claim identity), sorted, without doubles.
    pub attachments: Vec<(Text, Text)>,
    /// Why no node can ever satisfy these volumes (a missing claim, an unbound `Immediate` claim, …).
    pub blocked: Option<Text>,
}

/// A pod to place. Shape, labels and volumes are indices into [`PlanningInput`](crate::input::PlanningInput).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Namespace.
    pub namespace: Text,
    /// Name, unique in the namespace.
    pub name: Text,
    /// Index into `PlanningInput::shapes`.
    pub shape: u32,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
    /// Index into `PlanningInput::volume_sets`.
    pub volumes: Option<u32>,
    /// When the pod was created; `None` for replicas that do not exist yet, which count as having waited long enough.
    pub created: Option<Timestamp>,
    /// The workload that owns the pod, as `Kind/name`; the pod's own `Pod/name` without an owner.
    pub workload: Text,
    /// The node it leaves, when it is moved off one.
    pub leaves: Option<Text>,
    /// Why nobody can schedule this pod (what the API server accepts and Karpenter's validation refuses).
    pub invalid: Option<Text>,
}

/// Labels of a pod by index, for callers that hold both tables.
#[must_use]
pub fn labels_of<'i>(pod: &Pod, label_sets: &'i [Labels]) -> &'i Labels {
    &label_sets[pod.labels as usize]
}
