//! Opt-in rules: annotations `fleetwright.dev/…` in the metadata of a NodePool.

use model::{MicroUsd, OptInRules, Text};

use super::{duration, opt_in_disruption};
use crate::Cursor;
use crate::schema::part::{Entry, fields, text};

pub const DOMAIN: &str = "fleetwright.dev/";

const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const ABOVE_ZERO: &str = "a whole number above zero, in quotes";

/// The annotations of a NodePool that a rule reads.
pub(crate) fn annotations() -> Vec<Entry> {
    planning_annotations().into_iter().chain(opt_in_disruption::annotations()).collect()
}

fn planning_annotations() -> Vec<Entry> {
    fields! {
        /// Whether a connected server uses this pool. Beside a Karpenter that is at work, pools are handed over one
        /// by one with "true".
        /// Default: "true", and "false" while a live Karpenter is seen in the cluster
        /// Allowed: "true", "false"
        /// Example: "true"
        "fleetwright.dev/managed": text(),
        /// No new node in a zone where the pool already has two or more nodes more than in another zone that its pods
        /// could use.
        /// Default: "false"
        /// Allowed: "true", "false"
        /// Example: "true"
        "fleetwright.dev/zone-balance": text(),
        /// New nodes for pods that do not name a CPU architecture are of these architectures only.
        /// Default: no restriction
        /// Allowed: amd64, arm64, or both with a comma
        /// Example: amd64
        "fleetwright.dev/safe-architectures": text(),
        /// A pod that may run on spot gets on-demand capacity only after it has waited this long.
        /// Default: no waiting
        /// Allowed: a duration above zero such as 90s, 10m, 1h30m
        /// Example: 10m
        "fleetwright.dev/spot-fallback-after": text(),
        /// Offerings that cost more per vCPU and hour are not used.
        /// Default: no bound
        /// Allowed: dollars above zero, at most six decimals
        /// Example: "0.05"
        "fleetwright.dev/max-price-per-vcpu": text(),
        /// Offerings that cost more per hour are not used.
        /// Default: no bound
        /// Allowed: dollars above zero, at most six decimals
        /// Example: "2.50"
        "fleetwright.dev/max-node-price": text(),
        /// At most this share of the pool's vCPUs runs on spot, existing nodes included.
        /// Default: 100
        /// Allowed: an integer from 0 to 100
        /// Example: "80"
        "fleetwright.dev/spot-max-percent": text(),
        /// This many of the pool's nodes are on-demand before spot is used.
        /// Default: 0
        /// Allowed: an integer above zero
        /// Example: "2"
        "fleetwright.dev/on-demand-min-nodes": text(),
        /// No machine with more vCPUs is launched, so that losing one node costs little.
        /// Default: no bound
        /// Allowed: an integer above zero
        /// Example: "64"
        "fleetwright.dev/max-node-vcpu": text(),
        /// When nodes are launched at all, no fewer than this many, unless pods must share a node or limits forbid
        /// it.
        /// Default: 1
        /// Allowed: an integer above zero
        /// Example: "3"
        "fleetwright.dev/min-nodes": text(),
        /// With credits, CPU requested beyond the baseline of a t2, t3, t3a or t4g machine adds its surplus credits
        /// to the price; with list, such a machine costs its list price.
        /// Default: "credits"
        /// Allowed: "credits", "list"
        /// Example: "list"
        "fleetwright.dev/burstable": text(),
        /// What each node costs per hour beside its price, such as volumes, licences and monitoring. It counts when
        /// machines are compared, not in the printed cost.
        /// Default: --node-overhead-usd, else the volumes of the EC2NodeClass at $0.08 per GiB and month
        /// Allowed: dollars, zero included, at most six decimals
        /// Example: "0.01"
        "fleetwright.dev/node-overhead-usd": text(),
    }
}

/// Parses the rules of planning in the annotations at `at`; those of disruption belong to
/// [`DisruptionPolicy`](model::DisruptionPolicy). An invalid value is an error; unknown annotations
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
