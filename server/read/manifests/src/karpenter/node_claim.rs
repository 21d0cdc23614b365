//! NodeClaim.

use model::labels::NODEPOOL;
use model::{
    ClaimName, Labels, Millis, NodeName, PoolName, ProviderId, Requirement, Resources, Taint, Text, Timestamp,
};

use super::conditions::Conditions;
use super::duration::{self, Lifetime};
use super::node_pool::{ClassReference, hash_of};
use super::requirements::{self, Owner};
use super::taints;
use crate::Cursor;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClaimManifest {
    /// `metadata.name`.
    pub name: ClaimName,
    /// The pool that its label `karpenter.sh/nodepool` names.
    pub pool: Option<PoolName>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`.
    pub annotations: Labels,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `nodeClassRef`.
    pub class: ClassReference,
    /// `spec.requirements`, in order.
    pub requirements: Vec<Requirement>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// `resources.requests`.
    pub requests: Resources,
    /// `expireAfter`.
    pub expire_after: Lifetime,
    /// `terminationGracePeriod`.
    pub termination_grace_period: Option<Millis>,
    /// `status.providerID`.
    pub provider_id: Option<ProviderId>,
    /// `status.nodeName`.
    pub node_name: Option<NodeName>,
    /// `status.imageID`.
    pub image: Option<Text>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `status.lastPodEventTime`.
    pub last_pod_event: Option<Timestamp>,
    /// `status.conditions`.
    pub conditions: Conditions,
    /// The annotations `karpenter.sh/nodepool-hash` and its version, when both are set.
    pub hash: Option<(Text, Text)>,
}

impl NodeClaimManifest {
    /// Reads the NodeClaim at `at`; a violation of the schema is reported.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let (metadata, spec, status) = (at.at("metadata"), at.at("spec").required(), at.at("status"));
        let name = ClaimName::from(metadata.at("name").required_str()?);
        let labels = metadata.at("labels").string_map();
        let class = ClassReference::read(&spec.at("nodeClassRef"));
        let listed = requirements::read(&spec.at("requirements"), Owner::NodeClaim);
        let (taints, startup_taints) = (taints::read(&spec.at("taints")), taints::read(&spec.at("startupTaints")));
        let expire_after = duration::read_lifetime(&spec.at("expireAfter")).unwrap_or(duration::DEFAULT_EXPIRY);
        let termination_grace_period = duration::read(&spec.at("terminationGracePeriod"));
        // The fields that users write are parsed before this return, so that one run reports all errors.
        let class = class?;
        Some(Self {
            name,
            pool: labels.get(NODEPOOL).map(PoolName::from),
            labels,
            annotations: metadata.at("annotations").string_map(),
            created: metadata.at("creationTimestamp").timestamp(),
            deleted: metadata.at("deletionTimestamp").timestamp(),
            class,
            requirements: listed.requirements,
            taints,
            startup_taints,
            requests: spec.at("resources").at("requests").resources(),
            expire_after,
            termination_grace_period,
            provider_id: status.at("providerID").text().map(ProviderId::from),
            node_name: status.at("nodeName").text().map(NodeName::from),
            image: status.at("imageID").text().filter(|image| !image.is_empty()),
            capacity: status.at("capacity").resources(),
            allocatable: status.at("allocatable").resources(),
            last_pod_event: status.at("lastPodEventTime").timestamp(),
            conditions: Conditions::read(&status.at("conditions")),
            hash: hash_of(&metadata.at("annotations")),
        })
    }
}
