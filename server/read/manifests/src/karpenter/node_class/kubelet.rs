//! `spec.kubelet`.

use core::net::IpAddr;
use std::collections::BTreeMap;

use model::node_class::{KubeletOptions, KubeletSettings, SoftThreshold, Threshold};
use model::{Resources, Text};
use serde_json::json;

use crate::Cursor;
use crate::karpenter::duration;
use crate::schema::part::{Part, QUANTITY, boolean, fields, integer, list, map, object, text};

const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
const NUMBER: i64 = i32::MAX as i64;

/// The schema of `spec.kubelet`. Fields that are not listed are stored unchanged, because later
/// releases of Karpenter define more.
pub(super) fn schema() -> Part {
    object(fields! {
        /// DNS servers of the pods.
        /// Default: the cluster's
        /// Allowed: addresses
        /// Example: [10.100.0.10]
        "clusterDNS": list(text()),
        /// Most pods on a node.
        /// Default: by the machine's network addresses; 110 on Windows
        /// Example: 110
        "maxPods": integer("int32").at_least(0),
        /// Most pods per vCPU; maxPods bounds it further.
        /// Default: no bound
        /// Allowed: 0 or more; not with Bottlerocket
        /// Example: 10
        "podsPerCore": integer("int32").at_least(0),
        /// Kept for the operating system.
        /// Default: nothing
        /// Allowed: cpu, memory, ephemeral-storage, pid; not negative
        /// Example: {cpu: 100m, memory: 200Mi}
        "systemReserved": reserved_schema(),
        /// Kept for kubelet and container runtime; an entry replaces the estimate for that resource.
        /// Default: by the number of vCPUs and pods
        /// Allowed: cpu, memory, ephemeral-storage, pid; not negative
        /// Example: {cpu: 90m, memory: 500Mi}
        "kubeReserved": reserved_schema(),
        /// Pods are evicted at once below this; kept free, so pods cannot use it.
        /// Default: memory.available: 100Mi, nodefs.available: 10%
        /// Allowed: memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree,
        /// pid.available; a quantity or 0% to 100%
        /// Example: {memory.available: 5%}
        "evictionHard": thresholds_schema(),
        /// Pods are evicted after a grace period below this. Every key needs one in evictionSoftGracePeriod.
        /// Default: none
        /// Allowed: memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree,
        /// pid.available; a quantity or 0% to 100%
        /// Example: {memory.available: 500Mi}
        "evictionSoft": thresholds_schema(),
        /// How long a soft threshold may be crossed.
        /// Default: none
        /// Allowed: the keys of evictionSoft; durations, not negative
        /// Example: {memory.available: 1m30s}
        "evictionSoftGracePeriod": with_keys(map(text()), &SIGNALS),
        /// Longest grace that evicted pods get.
        /// Default: the pod's own
        /// Allowed: seconds, 0 or more
        /// Example: 60
        "evictionMaxPodGracePeriod": integer("int32"),
        /// Disk use at which unused images are removed.
        /// Default: 85
        /// Allowed: 0 to 100, greater than imageGCLowThresholdPercent
        /// Example: 85
        "imageGCHighThresholdPercent": integer("int32").between(0, 100),
        /// Disk use down to which they are removed.
        /// Default: 80
        /// Example: 80
        "imageGCLowThresholdPercent": integer("int32").between(0, 100),
        /// Whether CPU limits of containers are enforced.
        /// Default: true
        /// Example: true
        "cpuCFSQuota": boolean(),
    })
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

fn with_keys(map: Part, allowed: &[&str]) -> Part {
    let quoted: Vec<String> = allowed.iter().map(|key| format!("'{key}'")).collect();
    map.rule(format!("self.all(k, k in [{}])", quoted.join(", ")), format!("allowed keys: {}", allowed.join(", ")))
}

/// The schema of eviction thresholds: a percentage of the total, or an amount.
fn thresholds_schema() -> Part {
    let amount = QUANTITY.trim_start_matches('^').trim_end_matches('$');
    let pattern = format!(r"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%|{amount})$");
    with_keys(map(text().pattern(&pattern)), &SIGNALS)
}

/// The schema of quantities that must be texts.
fn reserved_schema() -> Part {
    with_keys(map(text().pattern(QUANTITY)), &RESERVED)
        .rule("self.all(k, !self[k].startsWith('-'))", "a reserved amount cannot be negative")
        .type_name("map[string]Quantity")
}

/// Parses the fields of `spec.kubelet` that change allocatable resources.
pub(super) fn read_settings(at: &Cursor<'_>) -> KubeletSettings {
    KubeletSettings {
        max_pods: at.at("maxPods").int_within(0, NUMBER),
        pods_per_core: at.at("podsPerCore").int_within(0, NUMBER),
        system_reserved: read_reserved(&at.at("systemReserved")),
        kube_reserved: read_reserved(&at.at("kubeReserved")),
        eviction_hard: read_thresholds(&at.at("evictionHard")),
    }
}

/// Parses the other fields of `spec.kubelet`.
pub(super) fn read_options(at: &Cursor<'_>) -> KubeletOptions {
    let (high, low) = read_collection(at);
    KubeletOptions {
        cluster_dns: at.at("clusterDNS").list().iter().filter_map(read_address).collect(),
        eviction_soft: read_soft(at),
        eviction_max_pod_grace_period: at.at("evictionMaxPodGracePeriod").int_within(0, NUMBER),
        image_gc_high_threshold_percent: high,
        image_gc_low_threshold_percent: low,
        cpu_cfs_quota: at.at("cpuCFSQuota").bool(),
    }
}

fn read_address(at: &Cursor<'_>) -> Option<IpAddr> {
    let text = at.clone().required().str()?;
    text.parse().ok().or_else(|| at.unexpected(text, "an IP address, such as 10.100.0.10"))
}

fn read_reserved(at: &Cursor<'_>) -> Resources {
    for (key, value) in at.map() {
        if !RESERVED.contains(&key) {
            value.error(format!("allowed here: {}", RESERVED.join(", ")));
        }
        if value.raw().is_some_and(serde_json::Value::is_number) {
            value.error("found a number, allowed: a text; put it in quotes");
        }
    }
    at.resources()
}

fn read_thresholds(at: &Cursor<'_>) -> BTreeMap<Text, Threshold> {
    at.map().into_iter().filter_map(|(signal, value)| read_threshold(signal, &value)).collect()
}

fn read_threshold(signal: &str, at: &Cursor<'_>) -> Option<(Text, Threshold)> {
    if !SIGNALS.contains(&signal) {
        at.error(format!("allowed here: {}", SIGNALS.join(", ")));
        return None;
    }
    let threshold =
        Threshold::parse(at.clone().required().str()?).map_err(|problem| at.error(problem.to_string())).ok()?;
    Some((signal.into(), threshold))
}

/// `evictionSoft` with `evictionSoftGracePeriod`; reports soft eviction thresholds without a grace period, and the
/// reverse.
fn read_soft(at: &Cursor<'_>) -> BTreeMap<Text, SoftThreshold> {
    let (soft, grace) = (at.at("evictionSoft"), at.at("evictionSoftGracePeriod"));
    let (signals, periods) = (soft.string_map(), grace.string_map());
    for key in signals.keys().filter(|key| !periods.contains_key(*key)) {
        soft.error(format!("{key} has no entry in evictionSoftGracePeriod"));
    }
    for key in periods.keys().filter(|key| !signals.contains_key(*key)) {
        grace.error(format!("{key} has no entry in evictionSoft"));
    }
    let read_period = |(signal, at): (&str, Cursor<'_>)| Some((Text::from(signal), duration::read_go(&at)?));
    let periods: BTreeMap<Text, _> = grace.map().into_iter().filter_map(read_period).collect();
    let pair = |(signal, threshold)| {
        let grace_period = *periods.get(&signal)?;
        Some((signal, SoftThreshold { threshold, grace_period }))
    };
    read_thresholds(&soft).into_iter().filter_map(pair).collect()
}

/// The high and the low threshold of image collection, in percent.
fn read_collection(at: &Cursor<'_>) -> (Option<i64>, Option<i64>) {
    let high_at = at.at("imageGCHighThresholdPercent");
    let low = at.at("imageGCLowThresholdPercent").int_within(0, 100);
    let high = high_at.int_within(0, 100);
    if let (Some(high_percent), Some(low_percent)) = (high, low)
        && high_percent <= low_percent
    {
        high_at.error(format!(
            "found {high_percent}, allowed: more than imageGCLowThresholdPercent, which is {low_percent}"
        ));
    }
    (high, low)
}
