//! `spec.kubelet`.

use serde_json::json;

use crate::schema::part::{Part, boolean, integer, list, map, object, text};
use crate::schema::shared::QUANTITY;

const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Schema of `spec.kubelet`. Fields that are not listed are stored unchanged, because later
/// releases of Karpenter define more.
pub(super) fn schema() -> Part {
    object([
        ("clusterDNS", list(text())),
        ("cpuCFSQuota", boolean()),
        ("evictionHard", thresholds()),
        ("evictionMaxPodGracePeriod", integer("int32")),
        ("evictionSoft", thresholds()),
        ("evictionSoftGracePeriod", keys(map(text()), &SIGNALS)),
        ("imageGCHighThresholdPercent", integer("int32").between(0, 100)),
        ("imageGCLowThresholdPercent", integer("int32").between(0, 100)),
        ("kubeReserved", reserved()),
        ("maxPods", integer("int32").at_least(0)),
        ("podsPerCore", integer("int32").at_least(0)),
        ("systemReserved", reserved()),
    ])
    .with("x-kubernetes-preserve-unknown-fields", json!(true))
    .rule(
        "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
        "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
    )
    .rule(paired("evictionSoft", "evictionSoftGracePeriod"), "a key of evictionSoft has no entry in evictionSoftGracePeriod")
    .rule(paired("evictionSoftGracePeriod", "evictionSoft"), "a key of evictionSoftGracePeriod has no entry in evictionSoft")
}

/// The rule that every key of `one` is also a key of `other`.
fn paired(one: &str, other: &str) -> String {
    format!("!has(self.{one}) || self.{one}.all(k, has(self.{other}) && k in self.{other})")
}

fn keys(map: Part, allowed: &[&str]) -> Part {
    let quoted: Vec<String> = allowed.iter().map(|key| format!("'{key}'")).collect();
    map.rule(format!("self.all(k, k in [{}])", quoted.join(", ")), format!("allowed keys: {}", allowed.join(", ")))
}

/// Eviction thresholds: a percentage of the total, or an amount.
fn thresholds() -> Part {
    let amount = QUANTITY.trim_start_matches('^').trim_end_matches('$');
    let pattern = format!(r"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%|{amount})$");
    keys(map(text().pattern(&pattern)), &SIGNALS)
}

fn reserved() -> Part {
    keys(map(text().pattern(QUANTITY)), &RESERVED)
        .rule("self.all(k, !self[k].startsWith('-'))", "a reserved amount cannot be negative")
}
