//! NodeOverlay (`karpenter.sh/v1alpha1`).

use model::{Requirement, Resources, Text};

use super::opt_in::parse_micros;
use super::requirements::{self, Owner};
use crate::Cursor;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOverlayManifest {
    /// `metadata.name`.
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
