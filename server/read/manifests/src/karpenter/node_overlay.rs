//! NodeOverlay (`karpenter.sh/v1alpha1`).

use model::{Requirement, Resources, Text};

use super::conditions;
use super::opt_in::parse_micros;
use super::requirements::{self, Owner};
use crate::Cursor;
use crate::schema::definition::{Column, Definition, READY};
use crate::schema::part::{Part, fields, integer, object, resources, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOverlayManifest {
    pub name: Text,
    /// `spec.requirements`: the instance types and offerings that the overlay applies to.
    pub requirements: Vec<Requirement>,
    /// `price` or `priceAdjustment`.
    pub price: Option<PriceChange>,
    /// `spec.capacity`: resources that are added to the instance types.
    pub capacity: Resources,
    /// `spec.weight`, 0 to 10000; a higher weight takes precedence.
    pub weight: i64,
    /// The reason why it is ignored although the API server accepts it.
    pub invalid: Option<Text>,
}

/// A change of a price. The resulting price is never below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceChange {
    /// Micro-dollars per hour.
    Absolute(i64),
    /// Micro-dollars per hour that are added.
    Add(i64),
    /// Millionths of a percent that are added.
    Percent(i64),
}

const OWN_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

pub(crate) fn definition() -> Definition {
    Definition {
        kind: "NodeOverlay",
        meaning: "Changes the data of instance types: another price, or resources that the cloud does not report.",
        group: "karpenter.sh",
        version: "v1alpha1",
        short_names: &["overlays"],
        aliases: &["overlay", "overlays", "nodeoverlays"],
        columns: vec![READY, Column::AGE, Column::integer("Weight", ".spec.weight").wide()],
        scale: None,
        fields: fields! {
            /// Name, labels and annotations.
            "metadata": Part::of("object"),
            /// What is corrected, and where.
            "spec": spec_schema(),
            /// What the controller reports; never written by hand.
            "status": object(fields! {
                /// ValidationSucceeded is True when the overlay is in use.
                "conditions": conditions::schema(false).keyed("type"),
            }),
        },
        spec_required: true,
    }
}

fn spec_schema() -> Part {
    // An amount with its sign, or a percentage of the price. A percentage is at least -100 %, so
    // that the price is not negative.
    const ADJUSTMENT: &str = r"^([+-](\d*\.?\d+)|\+\d*\.?\d+%|-\d{1,2}(\.\d+)?%|-100%)$";
    let requirements = requirements::schema(Owner::NodeOverlay)
        .field_documented("key", &["The label that is constrained."])
        .field_documented("operator", &["How the label is compared; In and NotIn need values."])
        .field_documented("values", &["Allowed: label values", "Example: [m7g]"]);
    object(fields! {
        /// Which machines: all conditions hold for type, offering and pool. Required, if only as an empty list.
        /// Allowed: at most 100
        "requirements": requirements,
        /// The price of every offering that matches.
        /// Allowed: dollars per hour, not negative; not together with priceAdjustment
        /// Example: "0.081"
        "price": text().pattern(r"^\d+(\.\d+)?$"),
        /// What is added to the price; the result is never below 0.
        /// Allowed: +N, -N, +N% or -N%, nothing below -100%; not together with price
        /// Example: "-15%"
        "priceAdjustment": text().pattern(ADJUSTMENT),
        /// Resources that machines which match have besides.
        /// Allowed: any resource but cpu, memory, ephemeral-storage, pods
        /// Example: {smarter-devices/fuse: "1"}
        "capacity": resources().rule(
            format!("self.all(name, !(name in ['{}']))", OWN_RESOURCES.join("', '")),
            "cpu, memory, ephemeral-storage and pods are known of every machine and cannot be overlaid",
        ),
        /// Where overlays overlap, the one with the higher weight wins; with equal weights both are refused.
        /// Default: 0
        /// Example: 10
        "weight": integer("int32").between(1, 10_000),
    })
    .required(&["requirements"])
    .rule(
        "!has(self.price) || !has(self.priceAdjustment)",
        "price and priceAdjustment exclude each other; write one of them",
    )
}

impl NodeOverlayManifest {
    /// Reads the NodeOverlay at `at`; a violation of the schema is reported.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let spec = at.at("spec").required();
        let name: Text = at.at("metadata").at("name").required_str()?.into();
        let listed = requirements::read(&spec.at("requirements"), Owner::NodeOverlay);
        let capacity = spec.at("capacity").resources();
        for (key, entry) in spec.at("capacity").map() {
            if OWN_RESOURCES.contains(&key) {
                entry.error("allowed: any resource but cpu, memory, ephemeral-storage and pods");
            }
        }
        Some(Self {
            name,
            requirements: listed.requirements,
            price: read_price(&spec),
            capacity,
            weight: spec.at("weight").int_within(1, 10_000).unwrap_or(0),
            invalid: listed.invalid.map(Text::from),
        })
    }
}

fn read_price(spec: &Cursor<'_>) -> Option<PriceChange> {
    let (price_at, adjustment_at) = (spec.at("price"), spec.at("priceAdjustment"));
    if price_at.exists() && adjustment_at.exists() {
        spec.error("price and priceAdjustment exclude each other; write one of them");
        return None;
    }
    if let Some(text) = price_at.str() {
        let micros = parse_micros(text).map(PriceChange::Absolute);
        return micros
            .or_else(|| price_at.unexpected(text, "dollars per hour with at most six decimals, such as \"0.081\""));
    }
    let text = adjustment_at.str()?;
    parse_adjustment(text).or_else(|| {
        adjustment_at.unexpected(text, "a signed amount or percentage, such as +0.05, -10% (not below -100%)")
    })
}

fn parse_adjustment(text: &str) -> Option<PriceChange> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    match rest.strip_suffix('%') {
        Some(percent) => parse_micros(percent)
            .map(|micros| sign * micros)
            .filter(|micros| *micros >= -100_000_000)
            .map(PriceChange::Percent),
        None => parse_micros(rest).map(|micros| PriceChange::Add(sign * micros)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjustments_carry_a_sign() {
        assert_eq!(parse_adjustment("+0.05"), Some(PriceChange::Add(50_000)));
        assert_eq!(parse_adjustment("-12.5%"), Some(PriceChange::Percent(-12_500_000)));
        for text in ["", "5%", "-101%", "+", "+x", "--1"] {
            assert_eq!(parse_adjustment(text), None, "{text:?}");
        }
    }
}
