//! `spec.kubelet`.

use core::net::IpAddr;
use std::collections::BTreeMap;

use model::node_class::{KubeletOptions, KubeletSettings, SoftThreshold, Threshold};
use model::{Resources, Text};

use crate::Cursor;
use crate::karpenter::duration;

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
