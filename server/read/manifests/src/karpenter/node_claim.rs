//! NodeClaim.

use model::labels::NODEPOOL;
use model::{
    ClaimName, Labels, Millis, NodeName, PoolName, ProviderId, Requirement, Resources, Taint, Text, Timestamp,
};

use super::conditions::{self, Conditions};
use super::duration;
use super::node_pool::{ClassReference, hash_of};
use super::requirements::{self, Owner};
use super::taints;
use crate::Cursor;
use crate::schema::definition::{Column, Definition, READY};
use crate::schema::part::{Part, fields, moment, object, resources, text};

/// The CustomResourceDefinition of NodeClaim (`karpenter.sh/v1`).
pub(crate) fn definition() -> Definition {
    Definition {
        kind: "NodeClaim",
        meaning: "One machine: what was asked for, and what became of it. Created for a NodePool, hardly ever by hand; its spec never changes.",
        group: "karpenter.sh",
        version: "v1",
        short_names: &[],
        aliases: &["nc", "nodeclaims"],
        columns: vec![
            Column::text("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            Column::text("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
            Column::text("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
            Column::text("Node", ".status.nodeName"),
            READY,
            Column::AGE,
            Column::text("ImageID", ".status.imageID").wide(),
            Column::text("ID", ".status.providerID").wide(),
            Column::text("NodePool", r".metadata.labels.karpenter\.sh/nodepool").wide(),
            Column::text("NodeClass", ".spec.nodeClassRef.name").wide(),
            Column::text("Drifted", r#".status.conditions[?(@.type=="Drifted")].status"#).wide(),
        ],
        scale: None,
        fields: fields! {
            /// Name, labels and annotations. The label karpenter.sh/nodepool names the pool that owns the claim.
            "metadata": Part::of("object"),
            /// What was asked for. Cannot be changed.
            "spec": spec_schema(),
            /// What became of it; never written by hand.
            "status": status_schema(),
        },
        spec_required: true,
    }
}

fn spec_schema() -> Part {
    let requirements = requirements::schema(Owner::NodeClaim)
        .field_documented("key", &["Example: kubernetes.io/arch"])
        .field_documented("operator", &["How the label is compared."])
        .field_documented("values", &["Allowed: label values", "Example: [arm64]"])
        .field_documented(
            "minValues",
            &["Least number of different values among the launch options.", "Allowed: 1 to 50", "Example: 3"],
        );
    let described = |taints: Part| {
        let taints = taints.field_documented("key", &["Allowed: a qualified name"]);
        let taints = taints.field_documented("effect", &["The taint's effect."]);
        taints.field_documented("timeAdded", &["Written by Kubernetes on nodes."])
    };
    let taints = described(taints::schema())
        .field_documented("key", &["Example: dedicated"])
        .field_documented("value", &["Example: batch"]);
    let startup_taints = described(taints::schema())
        .field_documented("key", &["Example: node.cilium.io/agent-not-ready"])
        .field_documented("effect", &["Example: NoExecute"]);
    object(fields! {
        /// Conditions on the node's labels that the machine meets. At most 100. Required.
        "requirements": requirements,
        /// Taints of the node.
        "taints": taints,
        /// Taints that another component removes when the node is ready.
        "startupTaints": startup_taints,
        /// What the machine must at least offer.
        "resources": object(fields! {
            /// The pods' requests and the daemons', added up.
            /// Example: {cpu: 3500m, memory: 9Gi}
            "requests": resources(),
        }),
        /// The class that the machine is made by. Required.
        "nodeClassRef": ClassReference::schema(),
        /// How long the node may drain.
        /// Default: no bound
        /// Allowed: whole numbers with s, m or h
        /// Example: 30m
        "terminationGracePeriod": duration::schema(),
        /// The age at which the node is removed.
        /// Allowed: whole numbers with s, m or h; or Never
        /// Example: 336h
        "expireAfter": duration::expiry_schema(),
    })
    .required(&["nodeClassRef", "requirements"])
    .rule("self == oldSelf", "spec is immutable; delete the claim and let another one take its place")
}

fn status_schema() -> Part {
    object(fields! {
        /// The Node that the machine registered as.
        "nodeName": text(),
        /// The cloud's name of the machine.
        /// Example: aws:///eu-west-1a/i-0123456789abcdef0
        "providerID": text(),
        /// The image that it was started from.
        "imageID": text(),
        /// What the machine has; counts against the pool's limits.
        "capacity": resources(),
        /// What pods can use of it.
        "allocatable": resources(),
        /// When a pod last came or went; spec.disruption.consolidateAfter of the pool counts from here.
        "lastPodEventTime": moment(),
        /// Launched, Registered, Initialized, Ready; Drifted, Consolidatable and others while they hold.
        "conditions": conditions::schema(true).keyed("type"),
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClaimManifest {
    pub name: ClaimName,
    /// The pool that its label `karpenter.sh/nodepool` names.
    pub pool: Option<PoolName>,
    pub labels: Labels,
    pub annotations: Labels,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `nodeClassRef`.
    pub class: ClassReference,
    /// `spec.requirements`, in order.
    pub requirements: Vec<Requirement>,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub requests: Resources,
    /// `None` is `Never`.
    pub expire_after: Option<Millis>,
    pub termination_grace_period: Option<Millis>,
    pub provider_id: Option<ProviderId>,
    pub node_name: Option<NodeName>,
    /// `status.imageID`.
    pub image: Option<Text>,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// `status.lastPodEventTime`.
    pub last_pod_event: Option<Timestamp>,
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
        let expire_after = duration::read_expiry(&spec.at("expireAfter"));
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
