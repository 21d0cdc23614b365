//! NodeOverlay (`karpenter.sh/v1alpha1`).

use super::conditions;
use super::table::{Field, Table, field, object};

pub(super) const TABLE: Table = Table {
    kind: "NodeOverlay",
    short_names: &["overlay", "overlays", "nodeoverlays"],
    api_version: "karpenter.sh/v1alpha1",
    meaning: "Changes the data of instance types: another price, or resources that the cloud does not report.",
    fields: &[FIELDS, conditions::FIELDS],
};

const FIELDS: &[Field] = &[
    object("metadata", "Object", "Name, labels and annotations."),
    object("spec", "Object", "What is corrected, and where."),
    field(
        "spec.requirements",
        "[]Object",
        "",
        "at most 100",
        "Which machines: all conditions hold for type, offering and pool. Required, if only as an empty list.",
        "",
    ),
    field(
        "spec.requirements.key",
        "string",
        "",
        "a label key of at most 316 characters",
        "The label that is constrained.",
        "karpenter.k8s.aws/instance-family",
    ),
    field(
        "spec.requirements.operator",
        "string",
        "",
        "In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
        "How the label is compared; In and NotIn need values.",
        "In",
    ),
    field("spec.requirements.values", "[]string", "", "label values", "What the label is compared with.", "[m7g]"),
    field(
        "spec.price",
        "string",
        "",
        "dollars per hour, not negative; not together with priceAdjustment",
        "The price of every offering that matches.",
        "\"0.081\"",
    ),
    field(
        "spec.priceAdjustment",
        "string",
        "",
        "+N, -N, +N% or -N%, nothing below -100%; not together with price",
        "What is added to the price; the result is never below 0.",
        "\"-15%\"",
    ),
    field(
        "spec.capacity",
        "map[string]Quantity",
        "",
        "any resource but cpu, memory, ephemeral-storage, pods",
        "Resources that machines which match have besides.",
        "{smarter-devices/fuse: \"1\"}",
    ),
    field(
        "spec.weight",
        "integer",
        "0",
        "1 to 10000",
        "Where overlays overlap, the one with the higher weight wins; with equal weights both are refused.",
        "10",
    ),
    object("status", "Object", "What the controller reports; never written by hand."),
    object("status.conditions", "[]Object", "ValidationSucceeded is True when the overlay is in use."),
];
