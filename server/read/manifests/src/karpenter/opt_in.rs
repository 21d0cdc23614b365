//! Opt-in rules: annotations `fleetwright.dev/…` in the metadata of a NodePool.

use model::{MicroUsd, OptInRules, Text};

use super::{duration, opt_in_disruption};
use crate::Cursor;

pub const DOMAIN: &str = "fleetwright.dev/";

const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const ABOVE_ZERO: &str = "a whole number above zero, in quotes";

/// Parses the rules of planning in the annotations at `at`; those of disruption belong to
/// [`Disruption`](super::Disruption). An invalid value is an error; unknown annotations
/// of the domain are reported in `notes`, for `object`.
#[must_use]
pub fn read(at: &Cursor<'_>, object: &str, notes: &mut Vec<String>) -> OptInRules {
    let mut rules = OptInRules::default();
    for (key, value) in at.map() {
        let Some(name) = key.strip_prefix(DOMAIN) else { continue };
        if !opt_in_disruption::KEYS.contains(&key) && !read_one(&mut rules, name, &value) {
            notes.push(format!("{object}: there is no annotation {key}; it is ignored"));
        }
    }
    rules
}

/// Reports annotations of the domain at `at`, the metadata of a pool's template, where they have no
/// effect.
pub fn note_misplaced(at: &Cursor<'_>, object: &str, notes: &mut Vec<String>) {
    for (key, _) in at.map().iter().filter(|(key, _)| key.starts_with(DOMAIN)) {
        notes.push(format!("{object}: annotation {key} is on the template, where it is ignored; it belongs into metadata.annotations of the NodePool"));
    }
}

/// Parses the annotation `name` at `at` into `rules`; false when no rule has that name.
fn read_one(rules: &mut OptInRules, name: &str, at: &Cursor<'_>) -> bool {
    match name {
        "zone-balance" => rules.zone_balance = at.one_of(&[("true", true), ("false", false)]).unwrap_or(false),
        "safe-architectures" => rules.safe_architectures = read_architectures(at).unwrap_or_default(),
        "spot-fallback-after" => rules.spot_fallback_after = duration::read_positive(at),
        "max-price-per-vcpu" => rules.max_price_per_vcpu = read_dollars(at),
        "max-node-price" => rules.max_node_price = read_dollars(at),
        "spot-max-percent" => {
            rules.spot_max_percent = read_number(at, 0, 100, "a whole number from 0 to 100, in quotes")
        }
        "on-demand-min-nodes" => rules.on_demand_min_nodes = read_number(at, 1, i64::MAX, ABOVE_ZERO),
        "max-node-vcpu" => rules.max_node_vcpu = read_number(at, 1, i64::MAX, ABOVE_ZERO),
        "min-nodes" => rules.min_nodes = read_number(at, 1, i64::MAX, ABOVE_ZERO),
        "burstable" => rules.ignores_credits = at.one_of(&[("list", true), ("credits", false)]).unwrap_or(false),
        "node-overhead-usd" => rules.node_overhead = read_dollars_or_zero(at),
        // Only connected clusters have unmanaged pools; a plan of files uses every pool.
        "managed" => {
            let _ = at.one_of(&[("true", true), ("false", false)]);
        }
        _ => return false,
    }
    true
}

fn read_architectures(at: &Cursor<'_>) -> Option<Vec<Text>> {
    let text = at.str()?;
    let mut names: Vec<&str> = text.split(',').map(str::trim).collect();
    if !names.iter().all(|name| ARCHITECTURES.contains(name)) {
        return at.unexpected(text, "amd64, arm64, or both with a comma between");
    }
    names.sort_unstable();
    names.dedup();
    Some(names.into_iter().map(Text::from).collect())
}

fn read_number(at: &Cursor<'_>, least: i64, most: i64, allowed: &str) -> Option<i64> {
    let text = at.str()?;
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && (least..=most).contains(number));
    number.or_else(|| at.unexpected(text, allowed))
}

/// Parses a positive price in dollars with at most six decimals.
fn read_dollars(at: &Cursor<'_>) -> Option<MicroUsd> {
    let text = at.str()?;
    let micros = parse_micros(text).filter(|micros| *micros > 0);
    micros
        .map(MicroUsd)
        .or_else(|| at.unexpected(text, "dollars per hour above zero with at most six decimals, such as \"0.05\""))
}

/// Parses a price in dollars with at most six decimals; zero is allowed.
fn read_dollars_or_zero(at: &Cursor<'_>) -> Option<MicroUsd> {
    let text = at.str()?;
    parse_micros(text)
        .map(MicroUsd)
        .or_else(|| at.unexpected(text, "dollars per hour with at most six decimals, such as \"0.01\" or \"0\""))
}

/// Millionths of the decimal number `text`, exact; `None` when it is not a number, is negative or
/// has more than six decimals.
#[must_use]
pub fn parse_micros(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let decimals = decimals.trim_end_matches('0');
    if !digits(whole) || !digits(decimals) || decimals.len() > 6 || text.trim_matches('.').is_empty() {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: i64 = format!("{decimals:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_parsed_exactly() {
        assert_eq!(parse_micros("0.05"), Some(50_000));
        assert_eq!(parse_micros("12"), Some(12_000_000));
        assert_eq!(parse_micros(".000001"), Some(1));
        assert_eq!(parse_micros("1.2500000"), Some(1_250_000));
        for text in ["", ".", "-1", "+1", "1e3", "0.0000001", "1,5", "99999999999999999"] {
            assert_eq!(parse_micros(text), None, "{text:?}");
        }
    }
}
