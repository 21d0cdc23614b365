//! Formats amounts, lists, labels and prices for messages.

use model::resources::{CPU, counts_bytes};
use model::{Effect, LabelSelector, Millis, Resources, SelectorOperator, SelectorTerm, Taint, Text};

/// Formats an available amount, rounded down if it is long (`7.91`, `200m`, `12.44Gi`).
pub(super) fn amount(resource: &str, value: i64) -> String {
    format_amount(resource, value, false)
}

/// Formats a required or missing amount, rounded up if it is long.
pub(super) fn needed(resource: &str, value: i64) -> String {
    format_amount(resource, value, true)
}

fn format_amount(resource: &str, value: i64, up: bool) -> String {
    if value < 0 {
        return format!("-{}", format_amount(resource, value.saturating_neg(), !up));
    }
    if resource == CPU {
        return if value == 0 || value >= 1000 { decimal(value, 1000, 1000, up) } else { format!("{value}m") };
    }
    if counts_bytes(resource) {
        for (suffix, power) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
            if value >= 1_i64 << power {
                return format!("{}{suffix}", decimal(value, 1 << power, 100, up));
            }
        }
    }
    value.to_string()
}

/// `value` / `unit` with as many decimals as `steps` (a power of ten) allows, without trailing
/// zeros.
fn decimal(value: i64, unit: i64, steps: i64, up: bool) -> String {
    let (value, unit, steps) = (i128::from(value), i128::from(unit), i128::from(steps));
    let scaled = (value * steps + if up { unit - 1 } else { 0 }) / unit;
    let digits = steps.ilog10() as usize;
    let fraction = format!("{:0digits$}", scaled % steps);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{}", scaled / steps) } else { format!("{}.{fraction}", scaled / steps) }
}

/// `2 cpu and 4Gi memory`; the pod itself (`pods: 1`) is omitted.
pub(super) fn amounts(resources: &Resources) -> String {
    let text = resources.iter().filter(|(name, value)| name.as_ref() != "pods" && *value != 0);
    let parts: Vec<String> = text.map(|(name, value)| format!("{} {name}", needed(name, value))).collect();
    if parts.is_empty() { "nothing".to_owned() } else { and(&parts) }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn and<S: AsRef<str>>(parts: &[S]) -> String {
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    match parts.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// At most `most` of `parts`, the rest as a number: `a, b and 12 more`.
pub(super) fn some<S: AsRef<str>>(parts: &[S], most: usize) -> String {
    if parts.len() <= most {
        return and(parts);
    }
    let first: Vec<&str> = parts[..most].iter().map(AsRef::as_ref).collect();
    format!("{} and {} more", first.join(", "), parts.len() - most)
}

/// `1 pod`, `12 pods`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// `key=value:Effect`, as `kubectl` writes taints.
pub(super) fn taint(taint: &Taint) -> String {
    let effect = taint.effect.as_str();
    if taint.value.is_empty() {
        format!("{}:{effect}", taint.key)
    } else {
        format!("{}={}:{effect}", taint.key, taint.value)
    }
}

/// Whether a taint with this effect excludes pods that do not tolerate it.
pub(super) fn excludes_pods(effect: Effect) -> bool {
    effect != Effect::PreferNoSchedule
}

/// `app=web, tier In [a, b]`; `any pod` for the selector without terms, `no pod` for the absent
/// one.
pub(super) fn selector(selector: Option<&LabelSelector>) -> String {
    match selector {
        None => "no pod".to_owned(),
        Some(all) if all.terms.is_empty() => "any pod".to_owned(),
        Some(some) => some.terms.iter().map(term).collect::<Vec<String>>().join(", "),
    }
}

fn term(term: &SelectorTerm) -> String {
    let key = &term.key;
    match (term.operator, term.values.as_slice()) {
        (SelectorOperator::In, [one]) => format!("{key}={one}"),
        (SelectorOperator::NotIn, [one]) => format!("{key}!={one}"),
        (SelectorOperator::In, many) => format!("{key} In [{}]", many.join(", ")),
        (SelectorOperator::NotIn, many) => format!("{key} NotIn [{}]", many.join(", ")),
        (SelectorOperator::Exists, _) => format!("{key} Exists"),
        (SelectorOperator::DoesNotExist, _) => format!("{key} DoesNotExist"),
    }
}

/// `4h`, `3m20s`, `45s`; rounded up to whole seconds.
pub(super) fn duration(duration: Millis) -> String {
    let seconds = (duration + Millis::new(999)).as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let text: String = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Other names of architectures, without punctuation, and those of Kubernetes.
const ARCHITECTURES: [(&str, &str); 6] = [
    ("x8664", "amd64"),
    ("x64", "amd64"),
    ("x86", "amd64"),
    ("intel", "amd64"),
    ("aarch64", "arm64"),
    ("arm", "arm64"),
];

/// The likely intended value among `known`: equal to `wanted` apart from case, punctuation or at
/// most two edits, or one contains the other.
pub(super) fn closest_match<'k>(wanted: &str, known: impl IntoIterator<Item = &'k Text>) -> Option<&'k Text> {
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let known: Vec<&Text> = known.into_iter().filter(|known| known.as_ref() != wanted).collect();
    let wanted_plain = plain(wanted);
    if wanted_plain.len() < 3 {
        return None;
    }
    // Other names of architectures, and the family of an instance type.
    let alias = ARCHITECTURES.iter().find(|(other, _)| *other == wanted_plain).map(|(_, name)| *name);
    let first_part = wanted.split_once('.').map(|(first, _)| first);
    let is_other_name = |known: &&Text| Some(known.as_ref()) == alias || Some(known.as_ref()) == first_part;
    if let Some(same) = known.iter().copied().find(is_other_name) {
        return Some(same);
    }
    let near = |known: &&Text| {
        let known_plain = plain(known);
        let edits = edits(&wanted_plain, &known_plain);
        // Values such as m5.large and m6.large, or zones, differ by one edit and are distinct
        // values.
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        (edits <= 2 && edits * 3 <= wanted_plain.len() && digits(&wanted_plain) == digits(&known_plain))
            || (known_plain.len() > 3 && (known_plain.ends_with(&wanted_plain) || wanted_plain.ends_with(&known_plain)))
    };
    known.into_iter().filter(near).min_by_key(|known| {
        let known_plain = plain(known);
        edits(&wanted_plain, &known_plain)
    })
}

/// Levenshtein distance of `a` and `b`, in characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (to, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[to + 1];
            row[to + 1] = replaced.min(diagonal + 1).min(row[to] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_amounts_round_down_and_required_amounts_round_up() {
        assert_eq!(amount("cpu", 7910), "7.91");
        assert_eq!(amount("cpu", 200), "200m");
        assert_eq!(amount("cpu", 2000), "2");
        // 1 GiB + 1 B is 1.0000…Gi: available amounts round down, required amounts round up.
        assert_eq!(amount("memory", (1 << 30) + 1), "1Gi");
        assert_eq!(needed("memory", (1 << 30) + 1), "1.01Gi");
        assert_eq!(needed("memory", 3 << 29), "1.5Gi");
        assert_eq!(amount("nvidia.com/gpu", 8), "8");
        assert_eq!(amount("cpu", -500), "-500m");
    }

    #[test]
    fn long_lists_end_in_a_number() {
        assert_eq!(some(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(some(&["a", "b"], 2), "a and b");
    }

    #[test]
    fn typing_errors_are_recognised_and_other_values_are_not() {
        let known = [Text::from("kubernetes.io/arch"), Text::from("topology.kubernetes.io/zone")];
        assert_eq!(closest_match("kubernetes.io/arhc", &known).map(AsRef::as_ref), Some("kubernetes.io/arch"));
        assert_eq!(
            closest_match("topology.kubernetes.io/zones", &known).map(AsRef::as_ref),
            Some("topology.kubernetes.io/zone")
        );
        assert_eq!(closest_match("example.com/team", &known), None);
        assert_eq!(closest_match("m5.large", &[Text::from("m6.large")]), None);
        let names = [Text::from("amd64"), Text::from("arm64"), Text::from("m5")];
        for (wanted, meant) in [("x86_64", "amd64"), ("aarch64", "arm64"), ("m5.large", "m5")] {
            assert_eq!(closest_match(wanted, &names).map(AsRef::as_ref), Some(meant), "{wanted}");
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(Millis::from_secs(200)), "3m20s");
        assert_eq!(duration(Millis::from_hours(1)), "1h");
        assert_eq!(duration(Millis::new(1)), "1s");
        assert_eq!(duration(Millis::ZERO), "0s");
    }
}
