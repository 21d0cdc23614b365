//! Pods, split into the shared part (the shape) and the individual part.

use std::collections::BTreeMap;

use super::labels::{HOSTNAME, LabelSelector};
use super::requirements::{Requirement, Requirements};
use super::{Labels, NodeName, PodKey, Resources, Text, Timestamp, Toleration};

/// The part of a pod specification that scheduling evaluates. Pods of one workload share one shape;
/// work grows with shapes, not with pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PodShape {
    /// Resources used on the node, `pods: 1` included (containers, sidecars, init phases, pod
    /// level, overhead).
    pub requests: Resources,
    /// `nodeSelector`: every label must be present with that value.
    pub node_selector: BTreeMap<Text, Text>,
    /// Required node affinity: at least one term must hold. Empty means no constraint; a term
    /// without expressions matches nothing.
    pub node_affinity: Vec<NodeSelectorTerm>,
    /// Preferred node affinity.
    pub preferred_node_affinity: Vec<Weighted<NodeSelectorTerm>>,
    /// Required pod affinity: the same set of pods must match all terms (rule of kube-scheduler,
    /// L48).
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_pod_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Required pod anti-affinity: no term may match.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_pod_anti_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Topology spread constraints, hard and soft.
    pub spread: Vec<SpreadConstraint>,
    /// `spec.tolerations`, with those that controllers add.
    pub tolerations: Vec<Toleration>,
    /// Host ports of ordinary containers, sorted.
    pub host_ports: Vec<HostPort>,
    /// Priority, resolved from the PriorityClass; higher is scheduled first.
    pub priority: i32,
}

impl PodShape {
    /// Whether pods that it requires must be on the same node.
    #[must_use]
    pub fn requires_shared_host(&self) -> bool {
        self.pod_affinity.iter().any(|term| term.topology_key.as_ref() == HOSTNAME)
    }

    /// Whether a required rule between pods is about domains of several nodes.
    #[must_use]
    pub fn has_rules_over_zones(&self) -> bool {
        let terms = self.pod_affinity.iter().chain(&self.pod_anti_affinity).map(|term| &term.topology_key);
        let hard = self.spread.iter().filter(|constraint| constraint.hard).map(|constraint| &constraint.topology_key);
        terms.chain(hard).any(|key| key.as_ref() != HOSTNAME)
    }

    /// Number of soft constraints.
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
    /// `matchExpressions` as written (keys canonical), one requirement per entry.
    pub expressions: Vec<Requirement>,
    /// `matchFields` on `metadata.name`: the node's name must be in all of these sets (`In`,
    /// negated for `NotIn`).
    pub names: Vec<Requirement>,
}

/// A term with a weight of 1 to 100.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weighted<T> {
    /// 1 to 100.
    pub weight: i32,
    /// The preferred term.
    pub term: T,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodAffinityTerm {
    /// Key of the node label whose value is the domain. Never normalised.
    pub topology_key: Text,
    /// Selector of the counted pods; `None` selects none. `matchLabelKeys` and `mismatchLabelKeys`
    /// are merged in.
    pub selector: Option<LabelSelector>,
    /// Namespaces by name, sorted. Empty with no `namespace_selector` means the pod's own.
    pub namespaces: Vec<Text>,
    /// Namespaces by label, in addition to `namespaces`; the empty selector means all.
    pub namespace_selector: Option<LabelSelector>,
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpreadConstraint {
    /// Key of the node label whose value is the domain. Never normalised.
    pub topology_key: Text,
    /// At least 1.
    pub max_skew: i32,
    /// Number of domains below which the global minimum is zero; at least 1.
    pub min_domains: Option<i32>,
    /// `DoNotSchedule` (true) or `ScheduleAnyway` (false).
    pub hard: bool,
    /// Selector of the counted pods in the namespace of the pod; `None` selects none.
    /// `matchLabelKeys` are merged in.
    pub selector: Option<LabelSelector>,
    /// Whether nodes excluded by node selector and affinity of the pod are left out (`Honor`, the
    /// default).
    pub honor_node_affinity: bool,
    /// Whether nodes with untolerated taints are left out (`Honor`; the default is `Ignore`).
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
    /// Whether the two ports exclude each other on one node: same port and protocol, and addresses
    /// equal or unspecific.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let unspecific = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || unspecific(&self.ip) || unspecific(&other.ip))
    }
}

/// Node requirements of the volumes of a pod. Interned apart from the shape, because the claims of
/// a StatefulSet differ per pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VolumeAlternatives {
    /// Alternative node requirements, in the order in which they are tried; empty means no
    /// constraint.
    pub any_of: Vec<Requirements>,
    /// Volumes to attach: (CSI driver, volume or claim id), sorted and unique. A claim that waits for a
    /// PersistentVolume on the disk of a node counts too, under a name for these volumes.
    pub attachments: Vec<(Text, Text)>,
    /// ReadWriteOncePod claims as `namespace/name`, sorted and unique: a claim that one pod uses has no room for
    /// another, on any node (kube-scheduler: VolumeRestrictions).
    pub exclusive_claims: Vec<Text>,
    /// Reason why no node can satisfy these volumes (a missing claim, an unbound `Immediate` claim,
    /// …).
    pub blocked: Option<Text>,
}

/// A pod to place. Shape, labels and volumes are indices into
/// [`PlanningInput`](crate::input::PlanningInput).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// Name, unique in the namespace.
    pub name: Text,
    /// Index into `PlanningInput::shapes`.
    pub shape: u32,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
    /// Index into `PlanningInput::volume_sets`.
    pub volumes: Option<u32>,
    /// Creation time; `None` for replicas that do not exist yet, which count as having waited long
    /// enough.
    pub created: Option<Timestamp>,
    /// The owning workload as `Kind/name`; `Pod/name` for a pod without owner.
    pub workload: Text,
    /// The node that the pod is moved off, if any.
    pub moved_from: Option<NodeName>,
    /// Reason why the pod cannot be scheduled (accepted by the API server, rejected by the
    /// validation of Karpenter).
    pub invalid: Option<Text>,
}

impl Pod {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> PodKey {
        PodKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// Labels of a pod, for callers that hold both tables.
#[must_use]
pub fn labels_of<'i>(pod: &Pod, label_sets: &'i [Labels]) -> &'i Labels {
    &label_sets[pod.labels as usize]
}
