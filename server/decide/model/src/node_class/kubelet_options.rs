//! Fields of `spec.kubelet` that the kubelet reads and planning does not.

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::{HashedFields, Threshold};
use crate::{Millis, Text};

/// An entry of `evictionSoft` and the entry of `evictionSoftGracePeriod` with the same signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SoftThreshold {
    /// The threshold.
    pub threshold: Threshold,
    /// Time that the signal must be below the threshold before pods are evicted.
    pub grace_period: Millis,
}

/// Fields of `spec.kubelet` that change no allocatable resources. They are apart from
/// [`KubeletSettings`](super::KubeletSettings), by which NodeClasses share a catalogue. An absent
/// field means the kubelet's default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct KubeletOptions {
    /// `clusterDNS`; empty means the DNS service of the cluster.
    pub cluster_dns: Vec<IpAddr>,
    /// `evictionSoft` and `evictionSoftGracePeriod` by signal.
    pub eviction_soft: BTreeMap<Text, SoftThreshold>,
    /// `evictionMaxPodGracePeriod`, in seconds.
    pub eviction_max_pod_grace_period: Option<i64>,
    /// `imageGCHighThresholdPercent`.
    pub image_gc_high_threshold_percent: Option<i64>,
    /// `imageGCLowThresholdPercent`.
    pub image_gc_low_threshold_percent: Option<i64>,
    /// `cpuCFSQuota`.
    pub cpu_cfs_quota: Option<bool>,
}

impl KubeletOptions {
    pub(super) fn add_to(&self, fields: &mut HashedFields) {
        let Self {
            cluster_dns,
            eviction_soft,
            eviction_max_pod_grace_period,
            image_gc_high_threshold_percent,
            image_gc_low_threshold_percent,
            cpu_cfs_quota,
        } = self;
        cluster_dns.iter().for_each(|address| fields.add("kubelet.clusterDNS", Some(address)));
        for (signal, soft) in eviction_soft {
            let value = format!("{}/{}", soft.threshold, soft.grace_period.get());
            fields.add(&format!("kubelet.evictionSoft/{signal}"), Some(value));
        }
        fields.add("kubelet.evictionMaxPodGracePeriod", eviction_max_pod_grace_period.as_ref());
        fields.add("kubelet.imageGCHighThresholdPercent", image_gc_high_threshold_percent.as_ref());
        fields.add("kubelet.imageGCLowThresholdPercent", image_gc_low_threshold_percent.as_ref());
        fields.add("kubelet.cpuCFSQuota", cpu_cfs_quota.as_ref());
    }
}
