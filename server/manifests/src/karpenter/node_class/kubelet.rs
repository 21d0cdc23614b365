//! `spec.kubelet`.

use std::collections::BTreeMap;

use model::node_class::{KubeletSettings, Threshold};
use model::{Resources, Text};

use crate::Cursor;

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

/// Parses `spec.kubelet` at `at`.
pub(super) fn read(at: &Cursor<'_>) -> KubeletSettings {
    let _ = at.at("clusterDNS").strings();
    let _ = at.at("cpuCFSQuota").bool();
    let _ = at.at("evictionMaxPodGracePeriod").int_within(0, NUMBER);
    check_soft(at);
    check_collection(at);
    KubeletSettings {
        max_pods: at.at("maxPods").int_within(0, NUMBER),
        pods_per_core: at.at("podsPerCore").int_within(0, NUMBER),
        system_reserved: read_reserved(&at.at("systemReserved")),
        kube_reserved: read_reserved(&at.at("kubeReserved")),
        eviction_hard: read_thresholds(&at.at("evictionHard")),
    }
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

/// Reports soft eviction thresholds without a grace period, and the reverse.
fn check_soft(at: &Cursor<'_>) {
    let (soft, grace) = (at.at("evictionSoft"), at.at("evictionSoftGracePeriod"));
    let _ = read_thresholds(&soft);
    let (signals, periods) = (soft.string_map(), grace.string_map());
    for key in signals.keys().filter(|key| !periods.contains_key(*key)) {
        soft.error(format!("{key} has no entry in evictionSoftGracePeriod"));
    }
    for key in periods.keys().filter(|key| !signals.contains_key(*key)) {
        grace.error(format!("{key} has no entry in evictionSoft"));
    }
}

fn check_collection(at: &Cursor<'_>) {
    let high = at.at("imageGCHighThresholdPercent");
    let low = at.at("imageGCLowThresholdPercent").int_within(0, 100);
    if let (Some(high_percent), Some(low_percent)) = (high.int_within(0, 100), low)
        && high_percent <= low_percent
    {
        high.error(format!(
            "found {high_percent}, allowed: more than imageGCLowThresholdPercent, which is {low_percent}"
        ));
    }
}
