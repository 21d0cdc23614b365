//! NodeClaim (`karpenter.sh/v1`).

use super::definition::{Column, Definition, READY};
use super::part::{Part, moment, object, text};
use super::shared::{
    bounded, class_reference, conditions, duration, expiry, keyed, min_values, requirement_key, requirements,
    resources, taints,
};

pub(super) fn definition() -> Definition {
    Definition {
        kind: "NodeClaim",
        group: "karpenter.sh",
        version: "v1",
        short_names: &[],
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
        spec: spec(),
        status: status(),
        spec_required: true,
    }
}

fn spec() -> Part {
    object([
        ("expireAfter", expiry()),
        ("nodeClassRef", class_reference()),
        ("requirements", bounded(requirements(requirement_key(), Some(min_values())))),
        ("resources", object([("requests", resources())])),
        ("startupTaints", taints()),
        ("taints", taints()),
        ("terminationGracePeriod", duration()),
    ])
    .required(&["nodeClassRef", "requirements"])
    .rule("self == oldSelf", "spec is immutable; delete the claim and let another one take its place")
}

fn status() -> Part {
    object([
        ("allocatable", resources()),
        ("capacity", resources()),
        ("conditions", keyed(conditions(true), "type")),
        ("imageID", text()),
        ("lastPodEventTime", moment()),
        ("nodeName", text()),
        ("providerID", text()),
    ])
}
