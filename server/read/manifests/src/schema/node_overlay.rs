//! NodeOverlay (`karpenter.sh/v1alpha1`).

use super::definition::{Column, Definition, READY};
use super::part::{Part, integer, object, text};
use super::shared::{conditions, keyed, requirement_key, requirements, resources};

pub(super) fn definition() -> Definition {
    Definition {
        kind: "NodeOverlay",
        group: "karpenter.sh",
        version: "v1alpha1",
        short_names: &["overlays"],
        columns: vec![READY, Column::AGE, Column::integer("Weight", ".spec.weight").wide()],
        scale: None,
        spec: spec(),
        status: object([("conditions", keyed(conditions(false), "type"))]),
        spec_required: true,
    }
}

fn spec() -> Part {
    // An amount with its sign, or a percentage of the price. A percentage is at least -100 %, so
    // that the price is not negative.
    const ADJUSTMENT: &str = r"^([+-](\d*\.?\d+)|\+\d*\.?\d+%|-\d{1,2}(\.\d+)?%|-100%)$";
    let capacity = resources().rule(
        "self.all(name, !(name in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
        "cpu, memory, ephemeral-storage and pods are known of every machine and cannot be overlaid",
    );
    let requirements = requirements(requirement_key(), None).rule(
        "self.all(x, x.operator != 'NotIn' || (has(x.values) && x.values.size() > 0))",
        "operator NotIn needs at least one value",
    );
    object([
        ("capacity", capacity),
        ("price", text().pattern(r"^\d+(\.\d+)?$")),
        ("priceAdjustment", text().pattern(ADJUSTMENT)),
        ("requirements", requirements),
        ("weight", integer("int32").between(1, 10_000)),
    ])
    .required(&["requirements"])
    .rule(
        "!has(self.price) || !has(self.priceAdjustment)",
        "price and priceAdjustment exclude each other; write one of them",
    )
}
