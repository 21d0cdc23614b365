//! Launch backoff per pod: limits machines launched for a pod that is bound to none of them. A
//! taint or label that appears only after the launch makes every machine fit at planning time and
//! not fit once it has joined; without a limit such a pod launches machines for ever. So does a pod
//! that cannot be evicted from a terminating node: its replacement stays empty, is removed, and is
//! launched again. The backoff stops launches alone: such pods are still placed on machines that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::block::Block;
use crate::UnplacedPod;
use model::disruption_plan::BlockCode;
use model::{ClaimName, Millis, PodKey, Text, Timestamp};

/// Backoff of launches for a pod that is never bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBackoffRule {
    /// Launches after which the pod waits; 0 disables the backoff.
    pub launches: u32,
    /// First delay; each further launch doubles it.
    pub first_wait: Millis,
    /// Longest delay.
    pub most_wait: Millis,
}

impl Default for LaunchBackoffRule {
    fn default() -> Self {
        Self { launches: 3, first_wait: Millis::from_mins(2), most_wait: Millis::from_hours(1) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PodAttempts {
    /// UID of the pod: a new pod of the same name starts from zero.
    uid: Text,
    launches: u32,
    /// The last machine launched for it.
    last: ClaimName,
    /// Earliest time of the next launch for the pod.
    not_before: Timestamp,
    wait: Millis,
}

/// A machine launched for a pod that is not bound yet.
#[derive(Debug, Clone, Copy)]
pub struct UnboundLaunch<'c> {
    pub claim: &'c ClaimName,
    /// When it was launched.
    pub at: Timestamp,
    /// Whether it counts beside the machine launched before: other pods do not use that.
    pub counts: bool,
}

/// A pod was bound to none of the machines launched for it: the next launch waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnboundLaunches {
    pub launches: u32,
    /// Delay of the next launch, in minutes, at least one.
    pub wait_minutes: i64,
}

impl fmt::Display for UnboundLaunches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { launches, wait_minutes } = self;
        write!(
            f,
            "{launches} machines were launched for it and kube-scheduler bound it to none; the next launch waits \
             {wait_minutes} min. Look at the pod's events for what keeps it off, such as a taint or label that appears \
             after the launch"
        )
    }
}

/// The next launch for a pod waits, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchDelay {
    pub launches: UnboundLaunches,
    /// When it is due.
    pub until: Timestamp,
}

impl From<LaunchDelay> for Block {
    fn from(delay: LaunchDelay) -> Self {
        let held = Self::new(BlockCode::BackOff, None, &delay.launches);
        Self { setting: "guardrails.launches-per-pod", until: Some(delay.until), ..held }
    }
}

/// Pods in launch backoff of a plan.
#[derive(Debug, Default)]
pub(crate) struct BackedOffPods {
    /// Those of its input, for which it launches nothing, and why.
    pub held: Vec<UnplacedPod>,
    /// Those that the next plan takes.
    pub deferred: BTreeSet<PodKey>,
}

/// Launch attempts for pods that are not bound.
#[derive(Debug, Clone, Default)]
pub struct LaunchBackoff {
    by_pod: BTreeMap<PodKey, PodAttempts>,
}

impl LaunchBackoff {
    /// Records that a machine was launched for the pod.
    pub fn record(&mut self, rule: &LaunchBackoffRule, pod: &PodKey, uid: &Text, launch: UnboundLaunch<'_>) {
        let UnboundLaunch { claim, at: now, counts } = launch;
        let fresh =
            || PodAttempts { uid: uid.clone(), launches: 0, last: claim.clone(), not_before: now, wait: Millis::ZERO };
        let attempts = self.by_pod.entry(pod.clone()).or_insert_with(fresh);
        if attempts.uid != *uid {
            *attempts = fresh();
        }
        attempts.last = claim.clone();
        if !counts && attempts.launches > 0 {
            return;
        }
        attempts.launches += 1;
        if rule.launches > 0 && attempts.launches >= rule.launches {
            let doublings = (attempts.launches - rule.launches).min(30);
            attempts.wait = (rule.first_wait * (1 << doublings)).min(rule.most_wait);
            attempts.not_before = now + attempts.wait;
        }
    }

    /// The last machine launched for the pod.
    #[must_use]
    pub fn last_launch(&self, pod: &PodKey) -> Option<&ClaimName> {
        self.by_pod.get(pod).map(|attempts| &attempts.last)
    }

    /// Drops the pods for which `waits` (name, UID) is false: they were bound, or are gone.
    pub fn retain(&mut self, waits: impl Fn(&PodKey, &Text) -> bool) {
        self.by_pod.retain(|pod, attempts| waits(pod, &attempts.uid));
    }

    /// Why no machine is launched for the pod at `now`.
    #[must_use]
    pub fn delay(&self, pod: &PodKey, now: Timestamp) -> Option<LaunchDelay> {
        let attempts = self.by_pod.get(pod).filter(|attempts| attempts.not_before > now)?;
        let wait_minutes = attempts.wait.as_mins().max(1);
        let launches = UnboundLaunches { launches: attempts.launches, wait_minutes };
        Some(LaunchDelay { launches, until: attempts.not_before })
    }

    /// How many pods are in backoff at `now`.
    #[must_use]
    pub fn waiting(&self, now: Timestamp) -> usize {
        self.by_pod.values().filter(|attempts| attempts.not_before > now).count()
    }

    /// Whether no launches for unbound pods are recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}
