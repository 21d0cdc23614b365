//! Facts of single objects, reduced to what scheduling and the node lifecycle need.

use std::sync::Arc;

use super::condition_digest::ConditionDigest;
use drift::VersionedHash;
use model::drain::RecordedDrain;
use model::labels::POD_TEMPLATE_HASH;
use model::node_class::{NodeClassSpec, NodeClassStatus};
use model::removal::{DoNotDisrupt, EvictionRule, is_never_evicted};
use model::{
    ClaimName, DisruptionPolicy, LabelSelector, Labels, Millis, NodeName, NodePool, PodKey, PodShape, PoolName,
    ProviderId, Requirements, Resources, Taint, Text, Timestamp, VolumeAlternatives,
};

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PodPhase {
    /// Not all containers run yet.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers succeeded; it uses no capacity.
    Succeeded,
    /// A container failed; it uses no capacity.
    Failed,
}

/// What kube-scheduler reported about a pod (condition `PodScheduled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheduling {
    /// No report yet, or the pod is bound.
    #[default]
    Unseen,
    /// Reason `Unschedulable`: no existing node fits.
    Unschedulable,
    /// Reason `SchedulingGated`: it must not be scheduled yet.
    Gated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    pub key: PodKey,
    /// UID, which differs between pods of the same name.
    pub uid: Text,
    /// The part of its specification that scheduling reads.
    pub shape: Arc<PodShape>,
    pub labels: Arc<Labels>,
    /// What its volumes require of the node.
    pub volumes: Option<Arc<VolumeAlternatives>>,
    /// Names of the PersistentVolumes that it uses on the disk of its node.
    pub local_volumes: Box<[Text]>,
    /// `spec.nodeName`.
    pub node: Option<NodeName>,
    /// `status.nominatedNodeName` set by kube-scheduler or another component: it reserved that
    /// node.
    pub nominated: Option<NodeName>,
    /// `status.nominatedNodeName` set by this server.
    pub own_nomination: Option<NodeName>,
    pub phase: PodPhase,
    pub terminating: bool,
    /// Condition `PodScheduled`.
    pub scheduling: Scheduling,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `Kind/name` of its owner, of the Deployment for one of its ReplicaSets, or `Pod/name`.
    pub workload: Text,
    /// `namespace/name` of the DaemonSet that owns it.
    pub daemon: Option<Text>,
    /// It is the mirror of a static pod.
    pub mirror: bool,
    /// It must not be evicted.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// `karpenter.sh/do-not-disrupt` has a value that is neither `true`, `false` nor a positive duration.
    pub has_invalid_protection: bool,
    /// `karpenter.sh/disruption-cost`, else `controller.kubernetes.io/pod-deletion-cost`; 0 if neither can be read.
    pub stated_cost: i32,
    /// Why it cannot be scheduled at all.
    pub invalid: Option<Text>,
    /// `spec.schedulerName`, unless kube-scheduler places it.
    pub other_scheduler: Option<Text>,
    /// `status.conditions[Ready]` is True.
    pub ready: bool,
    /// When Cluster Autoscaler last triggered a scale-up for this pod.
    pub external_scale_up: Option<Timestamp>,
}

impl PodRecord {
    /// A pending pod without special properties.
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
            local_volumes: Box::default(),
            node: None,
            nominated: None,
            own_nomination: None,
            phase: PodPhase::Pending,
            terminating: false,
            scheduling: Scheduling::Unschedulable,
            created: None,
            started: None,
            daemon: None,
            mirror: false,
            do_not_disrupt: None,
            has_invalid_protection: false,
            stated_cost: 0,
            invalid: None,
            other_scheduler: None,
            ready: false,
            external_scale_up: None,
        }
    }

    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// The node it is bound to, unless it has ended.
    #[must_use]
    pub(super) fn live_node(&self) -> Option<&NodeName> {
        self.node.as_ref().filter(|_| !self.is_terminal())
    }

    /// Whether an instance may be launched for it (Karpenter: provisionable pods).
    #[must_use]
    pub fn is_provisionable(&self) -> bool {
        self.is_unschedulable() && self.nominated.is_none()
    }

    /// Whether kube-scheduler finds no node for it and a new one could help, regardless of
    /// nominations.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        self.scheduling == Scheduling::Unschedulable
            && self.node.is_none()
            && !self.is_terminal()
            && !self.terminating
            && self.daemon.is_none()
            && !self.mirror
    }

    /// Whether it belongs to a workload and has not ended: pods of DaemonSets and static pods
    /// depend on their Nodes.
    #[must_use]
    pub fn is_workload(&self) -> bool {
        !self.is_terminal() && self.daemon.is_none() && !self.mirror
    }

    /// Whether it is [such a pod](Self::is_workload), bound and not terminating.
    #[must_use]
    pub fn is_bound_workload(&self) -> bool {
        self.node.is_some() && !self.terminating && self.is_workload()
    }

    /// Whether it is [such a pod](Self::is_workload), not bound and not terminating.
    #[must_use]
    pub fn is_pending_workload(&self) -> bool {
        self.node.is_none() && !self.terminating && self.is_workload()
    }

    /// Whether it is recreated elsewhere when its node is removed.
    #[must_use]
    pub fn is_reschedulable(&self) -> bool {
        let returns = !self.terminating || self.workload.starts_with("StatefulSet/");
        !self.is_terminal() && returns && self.daemon.is_none() && !self.mirror
    }

    /// Whether it must not be evicted at `now`. Applies to DaemonSet and mirror pods as well.
    #[must_use]
    pub fn blocks_disruption(&self, now: Timestamp) -> bool {
        if self.is_terminal() || self.terminating {
            return false;
        }
        self.do_not_disrupt.is_some_and(|lasts| lasts.is_active(self.started, now))
    }

    /// When a do-not-disrupt with a duration ends.
    #[must_use]
    pub fn protection_end(&self) -> Option<Timestamp> {
        self.do_not_disrupt?.end(self.started)
    }
}

/// The Deployment of a ReplicaSet, by the labels of its pods; `None` for a ReplicaSet of its own.
#[must_use]
pub fn deployment_of<'n>(replica_set: &'n str, labels: &Labels) -> Option<&'n str> {
    replica_set.strip_suffix(labels.get(POD_TEMPLATE_HASH)?.as_ref())?.strip_suffix('-')
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRecord {
    pub name: NodeName,
    pub uid: Text,
    /// `spec.providerID`, empty when unset.
    pub provider_id: ProviderId,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`, or part of the Node is unreadable, which might matter to a pod.
    pub unschedulable: bool,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// Conditions whose type ends in `Ready`, with another status than True.
    pub unmet: Vec<UnmetCondition>,
    /// Annotation `karpenter.sh/do-not-repair` is `true`.
    pub do_not_repair: bool,
    pub deleting: bool,
    /// `karpenter.sh/do-not-disrupt`; a Node that cannot be read completely is always protected.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    pub allocatable: Resources,
    pub capacity: Resources,
    pub created: Option<Timestamp>,
    /// The drain in its drain annotation.
    pub drain: Option<RecordedDrain>,
}

impl NodeRecord {
    /// Whether it must not be removed voluntarily at `now`, whatever its pods say. A duration counts
    /// from its creation.
    #[must_use]
    pub fn blocks_disruption(&self, now: Timestamp) -> bool {
        self.do_not_disrupt.is_some_and(|lasts| lasts.is_active(self.created, now))
    }

    /// When a do-not-disrupt with a duration ends.
    #[must_use]
    pub fn protection_end(&self) -> Option<Timestamp> {
        self.do_not_disrupt?.end(self.created)
    }
}

/// A condition of a Node that says what is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetCondition {
    /// Type, such as `Ready` or `StorageReady`.
    pub kind: Text,
    /// `False` or `Unknown`.
    pub status: Text,
    /// `lastTransitionTime`.
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimRecord {
    pub name: ClaimName,
    /// `metadata.uid`; empty while the API server has not created it.
    pub uid: Text,
    pub pool: PoolName,
    /// EC2NodeClass of the NodePool.
    pub node_class: Text,
    /// Labels that its Node will have.
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// Taints that are removed before the node is initialized.
    pub startup_taints: Vec<Taint>,
    pub requirements: Requirements,
    /// Sum of the requests of its planned pods and daemons.
    pub requests: Resources,
    /// `status.providerID`, empty until it is launched.
    pub provider_id: ProviderId,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub deleting: bool,
    /// It was created by this product, or handed over to it; others are counted and never changed.
    pub ours: bool,
    pub created: Option<Timestamp>,
    /// `status.lastPodEventTime`.
    pub last_pod_event: Option<Timestamp>,
    /// `lastTransitionTime` of the condition `Initialized` while True.
    pub initialized_at: Option<Timestamp>,
    /// Digest of `status.conditions`.
    pub condition_digest: ConditionDigest,
    pub termination_grace_period: Option<Millis>,
    /// `spec.expireAfter`; `None` is `Never`.
    pub expire_after: Option<Millis>,
    /// What its drift is found by.
    pub drift: ClaimDriftFacts,
}

impl ClaimRecord {
    /// Whether it has an instance, as far as is known.
    #[must_use]
    pub fn is_launched(&self) -> bool {
        !self.provider_id.is_empty()
    }
}

/// What a NodeClaim is compared by with its NodePool and EC2NodeClass, besides its labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimDriftFacts {
    /// The annotations `karpenter.sh/nodepool-hash` and its version.
    pub karpenter_hash: Option<VersionedHash>,
    /// The annotations `fleetwright.dev/nodepool-hash` and its version.
    pub own_hash: Option<VersionedHash>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version.
    pub class_hash: Option<VersionedHash>,
    /// The annotations `fleetwright.dev/ec2nodeclass-hash` and its version.
    pub own_class_hash: Option<VersionedHash>,
    /// `status.imageID`; empty while it is unknown.
    pub image: Text,
    /// Reason and message of the condition `Drifted` while True.
    pub shown: Option<(Text, Text)>,
    /// `lastTransitionTime` of the condition `Drifted` while True.
    pub drifted_since: Option<Timestamp>,
}

/// Facts of a launched instance, for its NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedFacts {
    pub provider_id: ProviderId,
    /// Labels that the launch determined: type, zone, capacity type, and those of the type in the
    /// catalogue.
    pub labels: Labels,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// Id of the image; empty when unknown.
    pub image: Text,
}

/// A NodePool: its scheduling part and its disruption settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRecord {
    /// The scheduling part. The catalogue is that of its NodeClass; unavailable offerings are
    /// marked later.
    pub pool: NodePool,
    pub disruption: DisruptionPolicy,
    /// `metadata.generation` of NodePool and NodeClass, or any other text that changes with their
    /// specifications.
    pub revision: Text,
    pub meta: PoolMeta,
    /// What the drift of its NodeClaims is found by.
    pub drift: PoolDriftFacts,
}

/// What the NodeClaims of a NodePool are compared by, besides its requirements and catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolDriftFacts {
    /// The annotations `karpenter.sh/nodepool-hash` and its version.
    pub karpenter_hash: Option<VersionedHash>,
    /// This server's hash of the template, for the annotations of new NodeClaims; `None` when the
    /// template cannot be read.
    pub own_hash: Option<VersionedHash>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` of the EC2NodeClass and its version.
    pub class_hash: Option<VersionedHash>,
    /// This server's hash of the EC2NodeClass, for the annotations of new NodeClaims; `None` while it has no valid
    /// specification.
    pub own_class_hash: Option<VersionedHash>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolMeta {
    pub uid: Text,
    pub generation: i64,
    pub deleting: bool,
    /// The annotation `fleetwright.dev/managed`, if `true` or `false`.
    pub managed: Option<bool>,
    /// Why its specification is rejected (condition `ValidationSucceeded`).
    pub invalid: Option<Text>,
    /// Date of the prices of its catalogue, if known.
    pub price_date: Option<Text>,
}

/// A DaemonSet, as the pod that it creates on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonRecord {
    pub namespace: Text,
    pub name: Text,
    /// Its pod, with the tolerations that the DaemonSet controller adds.
    pub shape: Arc<PodShape>,
    pub labels: Arc<Labels>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRecord {
    pub name: Text,
    pub labels: Labels,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBudgetRecord {
    /// Its namespace, which is that of the pods that it selects.
    pub namespace: Text,
    pub name: Text,
    /// `spec.selector`, as one selector; `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`; 0 while `status.observedGeneration` is outdated, because the
    /// API server refuses evictions then.
    pub allowed: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready can be evicted regardless
    /// of the budget.
    pub evicts_unhealthy_always: bool,
    /// Its specification allows no eviction, whatever the number of pods.
    pub never_allows: bool,
}

impl PodBudgetRecord {
    fn eviction_rule(&self) -> EvictionRule {
        EvictionRule { never_allows: self.never_allows, evicts_unhealthy_always: self.evicts_unhealthy_always }
    }

    /// Whether the API server refuses every eviction of a pod that these select until one of them is changed.
    pub(super) fn never_evict<'b>(selecting: impl Iterator<Item = &'b Self>, ready: bool) -> bool {
        let rules: Vec<EvictionRule> = selecting.map(Self::eviction_rule).collect();
        is_never_evicted(&rules, ready)
    }

    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// An EC2NodeClass. Clusters with equal manifests share specification and status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassRecord {
    pub name: Text,
    /// `metadata.uid`; empty when unknown.
    pub uid: Text,
    pub generation: i64,
    pub deleting: bool,
    /// It carries the finalizer `karpenter.k8s.aws/termination`.
    pub has_finalizer: bool,
    /// Why its specification cannot be read; `None` when it can.
    pub invalid: Option<Text>,
    /// `spec`; `None` when it is invalid.
    pub spec: Option<Arc<NodeClassSpec>>,
    /// `status` without conditions, as it was observed.
    pub status: Arc<NodeClassStatus>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version, when both are set.
    pub hash: Option<(Text, Text)>,
}

/// An object that the agent or the server cannot read or watch. Decisions for the rest of the
/// cluster are unaffected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemRecord {
    /// The object, such as `node n1`.
    pub about: Text,
    pub reason: Text,
}

/// How many volumes each CSI driver can attach to a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachRecord {
    /// Name of the CSINode, which is that of the Node.
    pub node: NodeName,
    /// Limit of each driver, as (driver, volumes).
    pub limits: Vec<(Text, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoscalerRecord {
    /// `karpenter` or `cluster-autoscaler`.
    pub name: Text,
    pub live: bool,
    /// Evidence that it is active, such as its Lease; empty without any.
    pub evidence: Text,
}
