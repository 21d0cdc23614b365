//! Schemas that several kinds share.

use serde_json::json;

use super::part::{Entry, Part, atomic, integer, list, map, moment, object, one_of, plain_integer, text};
use crate::karpenter::well_known_labels;

/// A key of a label or taint: an optional DNS prefix and a slash, then a name.
const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Pattern of a quantity of Kubernetes.
pub(super) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
pub(super) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

const LIFETIME: &str = "^(([0-9]+(s|m|h))+|Never)$";
const OPERATORS: [&str; 8] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];
/// A domain of 253 characters, a slash and a name (Karpenter: NodePool schema).
const KEY_LENGTH: u32 = 316;

/// A duration, or `Never`.
pub(super) fn lifetime() -> Part {
    text().pattern(LIFETIME)
}

/// Lifetime of a node, 30 days by default.
pub(super) fn expiry() -> Part {
    lifetime().default(json!("720h"))
}

/// A duration, in whole hours, minutes and seconds.
pub(super) fn duration() -> Part {
    text().pattern("^([0-9]+(s|m|h))+$")
}

/// A map of quantities by resource name.
pub(super) fn resources() -> Part {
    let amount = Part::untyped()
        .with("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
        .pattern(QUANTITY)
        .with("x-kubernetes-int-or-string", json!(true));
    map(amount)
}

/// `nodeClassRef`; its fields may not be empty.
pub(super) fn class_reference() -> Part {
    let filled = |name: &str| text().rule("self != ''", format!("{name} of the class is missing: write it"));
    object([
        ("group", filled("the API group").pattern("^[^/]*$")),
        ("kind", filled("the kind")),
        ("name", filled("the name")),
    ])
    .required(&["group", "kind", "name"])
}

/// `taints` or `startupTaints`.
pub(super) fn taints() -> Part {
    let taint = object([
        ("effect", one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
        ("key", text().min_length(1).pattern(QUALIFIED_NAME)),
        ("timeAdded", moment()),
        ("value", text().pattern(QUALIFIED_NAME)),
    ]);
    atomic(taint.required(&["effect", "key"]))
}

/// `requirements`, whose entries have the fields of [`requirement`] and `more`.
pub(super) fn requirements(key: Part, more: Option<Entry>) -> Part {
    let fields = [("key", key), ("operator", one_of(&OPERATORS)), ("values", atomic(text()))];
    let entry = object(fields.into_iter().chain(more)).required(&["key", "operator"]);
    atomic(entry)
        .max_items(100)
        .rule("self.all(x, x.operator != 'In' || (has(x.values) && x.values.size() > 0))", "operator In needs at least one value")
        .rule(
            "self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0))",
            "operators Gt, Lt, Gte and Lte take exactly one integer of 0 or more, in quotes",
        )
}

/// `minValues` of a requirement, with the rule that [`bounded`] adds to its list.
pub(super) fn min_values() -> Entry {
    ("minValues", plain_integer().between(1, 50))
}

/// Adds the rule that a requirement with `minValues` has at least so many values.
pub(super) fn bounded(requirements: Part) -> Part {
    requirements.rule(
        "self.all(x, x.operator != 'In' || !has(x.minValues) || (has(x.values) && x.values.size() >= x.minValues))",
        "minValues is greater than the number of values",
    )
}

/// The key of a requirement. The rules for `karpenter.sh/nodepool` differ by kind and are not
/// included.
pub(super) fn requirement_key() -> Part {
    let mut key = text().max_length(KEY_LENGTH).pattern(QUALIFIED_NAME);
    for domain in DOMAINS {
        key = key.rule(outside("self", domain), refused(domain));
    }
    key.rule("self != 'kubernetes.io/hostname'", "kubernetes.io/hostname cannot be required: every node has its own")
}

/// Domains whose labels are Karpenter's.
pub(super) const DOMAINS: [&str; 2] = ["karpenter.sh", "karpenter.k8s.aws"];

/// The condition, in CEL, that the label key `key` is one of the well-known keys of `domain` or not
/// of `domain` at all. As in Karpenter's schemas, a domain is matched as a suffix, without a dot
/// before it.
pub(super) fn outside(key: &str, domain: &str) -> String {
    let class = (domain == "karpenter.k8s.aws").then_some("karpenter.k8s.aws/ec2nodeclass");
    let known = well_known_labels();
    let known = known
        .iter()
        .map(AsRef::as_ref)
        .filter(|label: &&str| label.split_once('/').is_some_and(|(prefix, _)| prefix == domain));
    let known: Vec<String> = known.chain(class).map(|label| format!("'{label}'")).collect();
    format!("{key} in [{}] || !{key}.find('^([^/]+)').endsWith('{domain}')", known.join(", "))
}

/// Message for a key of `domain` that is not well known.
pub(super) fn refused(domain: &str) -> String {
    format!("labels of {domain} are Karpenter's own; only the well-known ones may be used")
}

/// `status.conditions`. `reason` and `message` are optional if `lenient`.
pub(super) fn conditions(lenient: bool) -> Part {
    const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
    let reason = text().max_length(1024);
    let reason = match lenient {
        true => reason.pattern(&format!("^({REASON}|)$")),
        false => reason.min_length(1).pattern(&format!("^{REASON}$")),
    };
    let required: &[&str] = match lenient {
        true => &["lastTransitionTime", "status", "type"],
        false => &["lastTransitionTime", "message", "reason", "status", "type"],
    };
    let condition = object([
        ("lastTransitionTime", moment()),
        ("message", text().max_length(32_768)),
        ("observedGeneration", integer("int64").at_least(0)),
        ("reason", reason),
        ("status", one_of(&["True", "False", "Unknown"])),
        ("type", text().max_length(KEY_LENGTH).pattern(CONDITION_TYPE)),
    ]);
    list(condition.required(required))
}

/// Adds `x-kubernetes-list-type: map`: one entry for each value of `key`.
pub(super) fn keyed(list: Part, key: &str) -> Part {
    list.with("x-kubernetes-list-map-keys", json!([key])).list_type("map")
}
