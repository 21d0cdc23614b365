//! NodePool (`karpenter.sh/v1`).

use super::{Field, Table, annotations, field, object};

/// The table.
pub(super) const TABLE: Table = Table {
    kind: "NodePool",
    short_names: &["np", "nodepools"],
    api_version: "karpenter.sh/v1",
    meaning: "What nodes may be bought for whom: which machines, how many of them, and when they may be removed again.",
    fields: &[annotations::FIELDS, TEMPLATE, DISRUPTION, STATUS],
};

const DURATION: &str = "whole numbers with s, m or h, such as 90s or 1h30m";
const DURATION_OR_NEVER: &str = "whole numbers with s, m or h, such as 90s or 1h30m; or Never";

const TEMPLATE: &[Field] = &[
    object("spec", "Object", "What the pool wants."),
    object("spec.template", "Object", "The blueprint of the NodeClaims that the pool creates. Required. Changing it makes existing nodes drift, requirements apart."),
    object("spec.template.metadata", "Object", "Labels and annotations of the nodes."),
    field(
        "spec.template.metadata.labels",
        "map[string]string",
        "",
        "at most 100; keys of karpenter.sh and karpenter.k8s.aws only where well known; not karpenter.sh/nodepool, not kubernetes.io/hostname",
        "Labels put on every node of the pool. Pods can select them.",
        "{tier: batch}",
    ),
    field("spec.template.metadata.annotations", "map[string]string", "", "", "Annotations put on every NodeClaim and node of the pool.", "{example.com/owner: data}"),
    object("spec.template.spec", "Object", "The NodeClaim's own fields."),
    object("spec.template.spec.requirements", "[]Object", "What the machines must be: conditions on node labels, all of which hold. At most 100. Required, if only as an empty list."),
    field("spec.template.spec.requirements.key", "string", "", "a label key of at most 316 characters", "The node label that is constrained.", "karpenter.k8s.aws/instance-family"),
    field(
        "spec.template.spec.requirements.operator",
        "string",
        "",
        "In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
        "How the label is compared with the values. Gt, Lt, Gte and Lte compare integers and take exactly one.",
        "In",
    ),
    field("spec.template.spec.requirements.values", "[]string", "", "label values; In needs at least one", "What the label is compared with.", "[c7g, m7g]"),
    field(
        "spec.template.spec.requirements.minValues",
        "integer",
        "1",
        "1 to 50; with In at most the number of values",
        "A launch must leave the cloud the choice among at least this many different values of the label.",
        "5",
    ),
    object("spec.template.spec.taints", "[]Object", "Taints of the node. Only pods that tolerate them run there."),
    field("spec.template.spec.taints.key", "string", "", "a qualified name; key and effect together occur once in taints and startupTaints", "The taint's key.", "nvidia.com/gpu"),
    field("spec.template.spec.taints.value", "string", "", "a qualified name or empty", "The taint's value.", "\"true\""),
    field("spec.template.spec.taints.effect", "string", "", "NoSchedule, PreferNoSchedule, NoExecute", "What happens to pods that do not tolerate the taint.", "NoSchedule"),
    field("spec.template.spec.taints.timeAdded", "string", "", "a date and time", "Written by Kubernetes on nodes; means nothing in a pool.", ""),
    object("spec.template.spec.startupTaints", "[]Object", "Taints that a new node has until somebody else removes them, such as a network plugin. Pods need not tolerate them to be planned."),
    field("spec.template.spec.startupTaints.key", "string", "", "a qualified name", "The taint's key.", "node.cilium.io/agent-not-ready"),
    field("spec.template.spec.startupTaints.value", "string", "", "a qualified name or empty", "The taint's value.", "\"true\""),
    field("spec.template.spec.startupTaints.effect", "string", "", "NoSchedule, PreferNoSchedule, NoExecute", "What happens to pods that do not tolerate the taint while it is there.", "NoExecute"),
    field("spec.template.spec.startupTaints.timeAdded", "string", "", "a date and time", "Written by Kubernetes on nodes; means nothing in a pool.", ""),
    object("spec.template.spec.nodeClassRef", "Object", "The class that says how a machine is made: images, subnets, disks. Required."),
    field("spec.template.spec.nodeClassRef.group", "string", "", "not empty, without a slash; cannot be changed", "API group of the class.", "karpenter.k8s.aws"),
    field("spec.template.spec.nodeClassRef.kind", "string", "", "not empty; cannot be changed", "Kind of the class.", "EC2NodeClass"),
    field("spec.template.spec.nodeClassRef.name", "string", "", "not empty", "Name of the class.", "default"),
    field(
        "spec.template.spec.terminationGracePeriod",
        "string",
        "no bound",
        DURATION,
        "How long a node may drain before its remaining pods are deleted, whatever budgets and do-not-disrupt annotations say.",
        "30m",
    ),
    field("spec.template.spec.expireAfter", "string", "720h", DURATION_OR_NEVER, "The age at which a node is removed, forcefully: disruption budgets do not hold it.", "336h"),
];

const DISRUPTION: &[Field] = &[
    object("spec.disruption", "Object", "When nodes may be removed or replaced of the system's own accord."),
    field(
        "spec.disruption.consolidationPolicy",
        "string",
        "WhenEmptyOrUnderutilized",
        "WhenEmpty, WhenEmptyOrUnderutilized, Balanced",
        "Which nodes consolidation looks at: only empty ones, all of them, or all with savings weighed against the disturbance.",
        "WhenEmpty",
    ),
    field(
        "spec.disruption.consolidateAfter",
        "string",
        "0s",
        DURATION_OR_NEVER,
        "How long a node must have seen no pod come or go before it may be consolidated. Required when disruption is written out.",
        "1m",
    ),
    field(
        "spec.disruption.budgets",
        "[]Object",
        "[{nodes: 10%}]",
        "at most 50",
        "How many nodes may be disrupted at the same time. The strictest budget that is active and names the reason holds. They do not hold expiry.",
        "",
    ),
    field("spec.disruption.budgets.nodes", "string", "10%", "a number such as 5, or 0% to 100%", "How many nodes of the pool, or what share of them, rounded up.", "20%"),
    field("spec.disruption.budgets.reasons", "[]string", "all reasons", "Underutilized, Empty, Drifted", "The reasons for which this budget holds.", "[Drifted]"),
    field(
        "spec.disruption.budgets.schedule",
        "string",
        "always",
        "five cron fields in UTC, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; together with duration",
        "When the budget begins to be active.",
        "\"0 9 * * mon-fri\"",
    ),
    field("spec.disruption.budgets.duration", "string", "always", "hours and minutes, such as 8h or 1h30m; together with schedule", "How long the budget stays active each time.", "8h"),
    field("spec.limits", "map[string]Quantity", "no bound", "any resource; nodes counts machines", "Upper bounds over the capacity of all nodes of the pool.", "{cpu: \"1000\", memory: 4Ti, nodes: \"50\"}"),
    field("spec.weight", "integer", "0", "1 to 100", "Pools with a higher weight are tried first.", "10"),
    field(
        "spec.replicas",
        "integer",
        "",
        "0 or more; cannot be added or removed later; only limits.nodes beside it, no weight",
        "A fixed number of nodes, kept whether pods need them or not. Such a pool is not used for pending pods.",
        "3",
    ),
];

const STATUS: &[Field] = &[
    object("status", "Object", "What the controller reports; never written by hand."),
    field("status.resources", "map[string]Quantity", "", "", "Capacity of all nodes of the pool, compared with spec.limits.", ""),
    field("status.nodes", "integer", "0", "", "Number of nodes.", ""),
    field("status.nodeClassObservedGeneration", "integer", "", "", "The class's generation that the pool's health was judged under.", ""),
    object("status.conditions", "[]Object", "ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy, Ready. A pool whose Ready is not True takes no part in planning; without status it counts as ready."),
];
