//! Time from the first unschedulable condition of a pod to the launch request of its machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;

use super::cluster::Cluster;
use super::ledger::Ledger;

/// Records when each pod of a namespace is first observed as unschedulable. Ends when it is
/// dropped.
#[derive(Debug)]
pub struct LaunchLatency {
    first_seen_us: Arc<Mutex<BTreeMap<String, i64>>>,
    watching: JoinHandle<()>,
}

/// Percentiles, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Percentiles {
    pub count: usize,
    /// Median, in milliseconds.
    pub p50: i64,
    /// 99th percentile, in milliseconds.
    pub p99: i64,
}

impl LaunchLatency {
    #[must_use]
    pub fn watch(cluster: &Cluster) -> Self {
        let pods = Api::<Pod>::namespaced(cluster.client.clone(), &cluster.namespace);
        let first_seen_us = Arc::<Mutex<BTreeMap<String, i64>>>::default();
        let recorded = Arc::clone(&first_seen_us);
        let unbound = watcher::Config::default().fields("spec.nodeName=");
        let watching = tokio::spawn(async move {
            let mut seen = Box::pin(watcher(pods, unbound).default_backoff().applied_objects());
            while let Some(pod) = seen.next().await {
                if let Ok(pod) = pod
                    && is_unschedulable(&pod)
                    && let Some(uid) = pod.uid()
                {
                    let now = Timestamp::now().as_microsecond();
                    recorded.lock().unwrap_or_else(PoisonError::into_inner).entry(uid).or_insert(now);
                }
            }
        });
        Self { first_seen_us, watching }
    }

    /// Times until the launch of the machine that each of `pods` is bound to; omits pods whose
    /// machine was requested before they were unschedulable. `None` without measurements.
    #[must_use]
    pub fn wait_until_launch(&self, pods: &[Pod], ledger: &Ledger) -> Option<Percentiles> {
        let launched: BTreeMap<&str, i64> =
            ledger.response.launches.iter().map(|call| (call.instance.as_str(), call.arrived_us)).collect();
        let first_seen = self.first_seen_us.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = |pod: &Pod| {
            let node = pod.spec.as_ref()?.node_name.as_deref()?;
            let wait = launched.get(node)? - first_seen.get(pod.metadata.uid.as_ref()?)?;
            (wait >= 0).then_some(wait / 1_000)
        };
        Percentiles::of(pods.iter().filter_map(wait).collect())
    }
}

impl Drop for LaunchLatency {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Percentiles {
    /// `None` for an empty list.
    fn of(mut waits: Vec<i64>) -> Option<Self> {
        waits.sort_unstable();
        // The smallest wait that the given percentage of the waits do not exceed.
        let at = |percent: usize| waits.get((waits.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { count: waits.len(), p50: at(50)?, p99: at(99)? })
    }
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == "PodScheduled" && one.reason.as_deref() == Some("Unschedulable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1 to 200, the median is 100 and the 99th percentile is 198.
    #[test]
    fn percentiles_are_values_that_were_measured() {
        let percentiles = Percentiles::of((1..=200).rev().collect()).unwrap();
        assert_eq!((percentiles.count, percentiles.p50, percentiles.p99), (200, 100, 198));
        assert_eq!(Percentiles::of(vec![7]).map(|percentiles| (percentiles.p50, percentiles.p99)), Some((7, 7)));
        assert!(Percentiles::of(Vec::new()).is_none());
    }
}
