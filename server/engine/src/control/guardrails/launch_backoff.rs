//! How many machines were launched for a pod that was bound to none of them. A taint or label that appears only after the
//! launch makes every machine look right when it is planned and wrong when it has come; without a bound such a pod buys
//! machines for ever. So does a pod that cannot be evicted from a node that has to go: its replacement waits for it, is
//! empty, goes, and is launched again.

use std::collections::BTreeMap;

use super::Held;
use super::settings::LaunchBackoffRule;
use crate::cluster::PodKey;
use crate::model::{Text, Timestamp};

/// Launches for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tried {
    /// Identity of the pod: another of the same name begins anew.
    uid: Text,
    launches: u32,
    /// Nothing is launched for it before this.
    not_before: Timestamp,
    wait_ms: i64,
}

/// Launches for pods that are not bound.
#[derive(Debug, Clone, Default)]
pub struct LaunchBackoff {
    by_pod: BTreeMap<PodKey, Tried>,
}

impl LaunchBackoff {
    /// A machine was launched for the pod.
    pub fn note(&mut self, rule: &LaunchBackoffRule, pod: &PodKey, uid: &Text, now: Timestamp) {
        let fresh = || Tried { uid: uid.clone(), launches: 0, not_before: now, wait_ms: 0 };
        let tried = self.by_pod.entry(pod.clone()).or_insert_with(fresh);
        if tried.uid != *uid {
            *tried = fresh();
        }
        tried.launches += 1;
        if rule.launches > 0 && tried.launches >= rule.launches {
            let doublings = (tried.launches - rule.launches).min(30);
            tried.wait_ms = rule.first_wait_ms.saturating_mul(1 << doublings).min(rule.most_wait_ms);
            tried.not_before = Timestamp(now.0.saturating_add(tried.wait_ms));
        }
    }

    /// Forgets the pods for which `waits` (name, identity) does not hold: they were bound, or are gone.
    pub fn keep(&mut self, waits: impl Fn(&PodKey, &Text) -> bool) {
        self.by_pod.retain(|pod, tried| waits(pod, &tried.uid));
    }

    /// Why nothing is launched for the pod at `now`.
    #[must_use]
    pub fn held(&self, pod: &PodKey, now: Timestamp) -> Option<Held> {
        let tried = self.by_pod.get(pod).filter(|tried| tried.not_before > now)?;
        let reason = format!(
            "{} machines were launched for it and kube-scheduler bound it to none; the next launch waits {} min. Look at \
             the pod's events for what keeps it off, such as a taint or label that appears after the launch",
            tried.launches,
            tried.wait_ms.div_euclid(60_000).max(1)
        );
        Some(Held { reason: Text::from(reason), until: Some(tried.not_before) })
    }

    /// How many pods wait at `now`.
    #[must_use]
    pub fn waiting(&self, now: Timestamp) -> usize {
        self.by_pod.values().filter(|tried| tried.not_before > now).count()
    }

    /// Whether nothing was launched for any pod that is not bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}
