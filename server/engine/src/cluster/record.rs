//! The facts about single objects, as light as scheduling and node life allow.

use std::fmt;
use std::sync::Arc;

use super::DisruptionPolicy;
use super::condition_digest::ConditionDigest;
use crate::model::{Labels, NodePool, PodShape, Requirements, Resources, Taint, Text, Timestamp, VolumeAlternatives};

/// Namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PodPhase {
    /// Not all containers run yet.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It has ended well and takes no room.
    Succeeded,
    /// It has ended badly and takes no room.
    Failed,
}

/// What kube-scheduler has said about a pod (condition `PodScheduled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheduling {
    /// Nothing yet, or that it is bound.
    #[default]
    Unseen,
    /// Reason `Unschedulable`: no node that exists will do.
    Unschedulable,
    /// Reason `SchedulingGated`: nobody may schedule it yet.
    Gated,
}

/// `karpenter.sh/do-not-disrupt` on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoNotDisrupt {
    /// As long as it runs.
    Always,
    /// For this many milliseconds from its start; a pod that has not started is protected.
    ForMillis(i64),
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    /// Namespace and name.
    pub key: PodKey,
    /// Identity of this incarnation.
    pub uid: Text,
    /// What scheduling looks at.
    pub shape: Arc<PodShape>,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// What its volumes ask of the node.
    pub volumes: Option<Arc<VolumeAlternatives>>,
    /// `spec.nodeName`.
    pub node: Option<Text>,
    /// `status.nominatedNodeName` where we did not set it: kube-scheduler, or somebody else, has promised that node.
    pub nominated: Option<Text>,
    /// `status.nominatedNodeName` where it is our own hint.
    pub hinted: Option<Text>,
    /// Phase.
    pub phase: PodPhase,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// What kube-scheduler has said.
    pub scheduling: Scheduling,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `Kind/name` of what owns it, or `Pod/name`.
    pub workload: Text,
    /// `namespace/name` of the DaemonSet that owns it.
    pub daemon: Option<Text>,
    /// It is the kubelet's own (a mirror of a static pod).
    pub mirror: bool,
    /// It must not be moved.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// Why nobody can schedule it.
    pub invalid: Option<Text>,
    /// `status.conditions[Ready]` is True.
    pub ready: bool,
    /// When Cluster Autoscaler last said that it buys a node for this pod.
    pub foreign_scale_up: Option<Timestamp>,
}

impl PodRecord {
    /// A pending pod with nothing special about it.
    #[must_use]
    pub fn pending(
        namespace: impl Into<Text>,
        name: impl Into<Text>,
        shape: Arc<PodShape>,
        labels: Arc<Labels>,
    ) -> Self {
        let key = PodKey { namespace: namespace.into(), name: name.into() };
        Self {
            uid: Text::from(key.to_string()),
            workload: Text::from(format!("Pod/{}", key.name)),
            key,
            shape,
            labels,
            volumes: None,
            node: None,
            nominated: None,
            hinted: None,
            phase: PodPhase::Pending,
            terminating: false,
            scheduling: Scheduling::Unschedulable,
            created: None,
            started: None,
            daemon: None,
            mirror: false,
            do_not_disrupt: None,
            invalid: None,
            ready: false,
            foreign_scale_up: None,
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether a machine may be bought for it (Karpenter: provisionable pods).
    #[must_use]
    pub fn is_provisionable(&self) -> bool {
        self.is_unschedulable() && self.nominated.is_none()
    }

    /// Whether kube-scheduler finds no node for it and a new one could help, whatever it is nominated for.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        self.scheduling == Scheduling::Unschedulable
            && self.node.is_none()
            && !self.is_terminal()
            && !self.terminating
            && self.daemon.is_none()
            && !self.mirror
    }

    /// Whether it is there for its own sake and has not ended: pods of DaemonSets and static pods come and go with their Nodes.
    #[must_use]
    pub fn is_workload(&self) -> bool {
        !self.is_terminal() && self.daemon.is_none() && !self.mirror
    }

    /// Whether it is [such a pod](Self::is_workload), has a Node and is not on its way out.
    #[must_use]
    pub fn is_bound_workload(&self) -> bool {
        self.node.is_some() && !self.terminating && self.is_workload()
    }

    /// Whether it is [such a pod](Self::is_workload) and has no Node yet.
    #[must_use]
    pub fn is_pending_workload(&self) -> bool {
        self.node.is_none() && !self.terminating && self.is_workload()
    }

    /// Whether it comes back somewhere else when its node goes.
    #[must_use]
    pub fn is_reschedulable(&self) -> bool {
        let returns = !self.terminating || self.workload.starts_with("StatefulSet/");
        !self.is_terminal() && returns && self.daemon.is_none() && !self.mirror
    }

    /// Whether it must not be moved at `now`. DaemonSet and mirror pods count as well.
    #[must_use]
    pub fn refuses_disruption(&self, now: Timestamp) -> bool {
        if self.is_terminal() || self.terminating {
            return false;
        }
        match (self.do_not_disrupt, self.started) {
            (None, _) => false,
            (Some(DoNotDisrupt::Always), _) | (Some(DoNotDisrupt::ForMillis(_)), None) => true,
            (Some(DoNotDisrupt::ForMillis(wait)), Some(start)) => now.millis_since(start) < wait,
        }
    }
}

/// A Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRecord {
    /// Name.
    pub name: Text,
    /// `spec.providerID`, empty when unset.
    pub provider_id: Text,
    /// Labels.
    pub labels: Labels,
    /// Taints, all of them.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`, or part of the Node cannot be read: what is not known of it may be what a pod needs.
    pub unschedulable: bool,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// Annotation `karpenter.sh/do-not-disrupt` is exactly `true`, or part of the Node cannot be read.
    pub do_not_disrupt: bool,
    /// What pods can use.
    pub allocatable: Resources,
    /// What the machine has.
    pub capacity: Resources,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its pods go regardless, by the order to drain that stands on it; `None` without an order, or without such a moment.
    pub drain_by: Option<Timestamp>,
}

/// A NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimRecord {
    /// Name.
    pub name: Text,
    /// NodePool.
    pub pool: Text,
    /// EC2NodeClass.
    pub node_class: Text,
    /// Labels that the node will carry.
    pub labels: Labels,
    /// Taints of the running node.
    pub taints: Vec<Taint>,
    /// Taints that go away before pods come.
    pub startup_taints: Vec<Taint>,
    /// Requirements that the launch had to meet.
    pub requirements: Requirements,
    /// What its pods and daemons were thought to ask for.
    pub requests: Resources,
    /// `status.providerID`, empty until it is launched.
    pub provider_id: Text,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It was created by this product (or handed over to it); others are counted and never touched.
    pub ours: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// `status.lastPodEventTime`.
    pub last_pod_event: Option<Timestamp>,
    /// Since when the condition `Initialized` is True.
    pub in_service_since: Option<Timestamp>,
    /// `status.conditions`.
    pub standing: ConditionDigest,
    /// `spec.terminationGracePeriod` in milliseconds.
    pub termination_grace_period_ms: Option<i64>,
}

/// What was launched, for the NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedFacts {
    /// Provider id.
    pub provider_id: Text,
    /// Labels that the launch decided: type, zone, capacity type, and what the catalogue knows of the type.
    pub labels: Labels,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods will be able to use.
    pub allocatable: Resources,
}

/// A NodePool: what scheduling looks at, and what it says about the end of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRecord {
    /// What scheduling looks at. The catalogue is that of its NodeClass; offerings that ran out lately are marked later.
    pub pool: NodePool,
    /// What it says about the end of its nodes.
    pub life: DisruptionPolicy,
    /// `metadata.generation` of pool and NodeClass together, or any other text that changes when what either asks for does.
    pub revision: Text,
    /// The object itself.
    pub meta: PoolMeta,
}

/// What the metadata of a NodePool say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolMeta {
    /// UID.
    pub uid: Text,
    /// `metadata.generation`.
    pub generation: i64,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// The annotation `fleetwright.dev/managed`, when it is `true` or `false`.
    pub managed: Option<bool>,
    /// Why its specification is refused, when it is (condition `ValidationSucceeded`).
    pub invalid: Option<Text>,
}

/// A DaemonSet, as the pod that it puts on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonRecord {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Its pod, with the tolerations that the DaemonSet controller adds.
    pub shape: Arc<PodShape>,
    /// Labels of its pod.
    pub labels: Arc<Labels>,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// Name.
    pub name: Text,
    /// Labels.
    pub labels: Labels,
}
