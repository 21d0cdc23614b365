//! NodeClaim (`karpenter.sh/v1`).

use super::{Field, Table, field, object};

/// The table.
pub(super) const TABLE: Table = Table {
    kind: "NodeClaim",
    short_names: &["nc", "nodeclaims"],
    api_version: "karpenter.sh/v1",
    meaning: "One machine: what was asked for, and what became of it. Created for a NodePool, hardly ever by hand; its spec never changes.",
    fields: &[FIELDS],
};

const FIELDS: &[Field] = &[
    object("metadata", "Object", "Name, labels and annotations. The label karpenter.sh/nodepool names the pool that owns the claim."),
    object("spec", "Object", "What was asked for. Cannot be changed."),
    object("spec.requirements", "[]Object", "Conditions on the node's labels that the machine meets. At most 100. Required."),
    field("spec.requirements.key", "string", "", "a label key of at most 316 characters", "The node label that is constrained.", "kubernetes.io/arch"),
    field("spec.requirements.operator", "string", "", "In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte", "How the label is compared.", "In"),
    field("spec.requirements.values", "[]string", "", "label values", "What the label is compared with.", "[arm64]"),
    field("spec.requirements.minValues", "integer", "1", "1 to 50", "Least number of different values among the launch options.", "3"),
    object("spec.taints", "[]Object", "Taints of the node."),
    field("spec.taints.key", "string", "", "a qualified name", "The taint's key.", "dedicated"),
    field("spec.taints.value", "string", "", "a qualified name or empty", "The taint's value.", "batch"),
    field("spec.taints.effect", "string", "", "NoSchedule, PreferNoSchedule, NoExecute", "The taint's effect.", "NoSchedule"),
    object("spec.startupTaints", "[]Object", "Taints that somebody else removes when the node is ready; fields as in spec.taints."),
    object("spec.resources", "Object", "What the machine must at least offer."),
    field("spec.resources.requests", "map[string]Quantity", "", "", "The pods' requests and the daemons', added up.", "{cpu: 3500m, memory: 9Gi}"),
    object("spec.nodeClassRef", "Object", "The class that the machine is made by. Required."),
    field("spec.nodeClassRef.group", "string", "", "not empty, without a slash", "API group of the class.", "karpenter.k8s.aws"),
    field("spec.nodeClassRef.kind", "string", "", "not empty", "Kind of the class.", "EC2NodeClass"),
    field("spec.nodeClassRef.name", "string", "", "not empty", "Name of the class.", "default"),
    field("spec.terminationGracePeriod", "string", "no bound", "whole numbers with s, m or h", "How long the node may drain.", "30m"),
    field("spec.expireAfter", "string", "720h", "whole numbers with s, m or h; or Never", "The age at which the node is removed.", "336h"),
    object("status", "Object", "What became of it; never written by hand."),
    field("status.nodeName", "string", "", "", "The Node that the machine registered as.", ""),
    field("status.providerID", "string", "", "", "The cloud's name of the machine.", "aws:///eu-west-1a/i-0123456789abcdef0"),
    field("status.imageID", "string", "", "", "The image that it was started from.", ""),
    field("status.capacity", "map[string]Quantity", "", "", "What the machine has; counts against the pool's limits.", ""),
    field("status.allocatable", "map[string]Quantity", "", "", "What pods can use of it.", ""),
    field("status.lastPodEventTime", "string", "", "a date and time", "When a pod last came or went; spec.disruption.consolidateAfter of the pool counts from here.", ""),
    object("status.conditions", "[]Object", "Launched, Registered, Initialized, Ready; Drifted, Consolidatable and others while they hold."),
];
