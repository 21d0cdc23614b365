//! Which pods of a node are evicted or deleted, when and how: Karpenter's drain order as a function
//! of the pods and the time.

use fleetwright_proto::v1;

use crate::records::pod::MIRROR;
use crate::records::shape::{TolerationJson, parse_spec};

/// The taint of a node that is being removed.
pub(crate) const DISRUPTED: &str = "karpenter.sh/disrupted";

/// A pod whose deletion is overdue by this much does not terminate: its kubelet does not respond
/// (Karpenter: stuck terminating).
const STUCK_TERMINATING_MS: i64 = 60_000;

/// The properties of a pod that determine when it is evicted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodePod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Whether its priority class is `system-cluster-critical` or `system-node-critical`.
    pub(crate) critical: bool,
    pub(crate) from_daemon_set: bool,
    /// Time by which it must have terminated, including the grace period; `None` while it is not
    /// deleted.
    pub(crate) deletion_ms: Option<i64>,
    /// Termination grace period; `None` when the API does not state it.
    pub(crate) grace_ms: Option<i64>,
    /// Whether `karpenter.sh/do-not-disrupt` protects it at present.
    pub(crate) do_not_disrupt: bool,
    /// Names of the PersistentVolumeClaims that it uses.
    pub(crate) claims: Vec<String>,
    /// Whether it need not be evicted: it has completed, tolerates the taint, is a static pod, or
    /// is stuck.
    pub(crate) exempt: bool,
}

/// The evictions and deletions at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DrainStep<'g> {
    pub(crate) evict: Vec<&'g NodePod>,
    /// Pods to delete, each with its grace period in seconds.
    pub(crate) delete: Vec<(&'g NodePod, i64)>,
    /// All pods that must have terminated before the node is drained.
    pub(crate) remaining: Vec<&'g NodePod>,
}

/// The step at `now` for `pods` that must have terminated by `deadline`.
///
/// Groups are evicted one after the other: pods before DaemonSet pods, critical ones last. A pod
/// whose grace period would end after the deadline is deleted regardless of group, budget and
/// annotation.
pub(crate) fn plan_step(pods: &[NodePod], now: i64, deadline: Option<i64>) -> DrainStep<'_> {
    let mut step = DrainStep { remaining: pods.iter().filter(|pod| !pod.exempt).collect(), ..DrainStep::default() };
    if let Some(deadline) = deadline {
        let seconds = ((deadline - now) / 1_000).max(1);
        let due = step.remaining.iter().filter(|pod| is_due(pod, now, deadline));
        step.delete = due.map(|pod| (*pod, seconds)).collect();
    }
    let group = |pod: &NodePod| (pod.critical, pod.from_daemon_set);
    let Some(first) = step.remaining.iter().map(|pod| group(pod)).min() else { return step };
    let turn = step.remaining.iter().filter(|pod| group(pod) == first);
    let may_go = turn.filter(|pod| pod.deletion_ms.is_none() && !pod.do_not_disrupt);
    step.evict = may_go.filter(|pod| !step.delete.iter().any(|(due, _)| due.uid == pod.uid)).copied().collect();
    step
}

fn is_due(pod: &NodePod, now: i64, deadline: i64) -> bool {
    match pod.deletion_ms {
        Some(deletion_ms) => deletion_ms > deadline,
        None => pod.grace_ms.is_some_and(|grace| now > deadline - grace),
    }
}

/// The pod of a record, at `now`.
pub(crate) fn node_pod(
    record: &v1::PodRecord,
    shape: &str,
    volume_claims: Option<&v1::VolumeClaimSet>,
    now: i64,
) -> NodePod {
    let deletion_ms = Some(record.deleted_at_ms).filter(|moment| *moment != 0);
    let over = matches!(record.phase(), v1::PodPhase::Succeeded | v1::PodPhase::Failed);
    let owner = |api: &str, kind: &str| {
        record.owner.as_ref().is_some_and(|owner| owner.kind == kind && (api.is_empty() || owner.api_version == api))
    };
    let mirror = annotation(record, MIRROR).is_some() || owner("v1", "Node");
    // This agent wrote the shape, so that it can be parsed.
    let spec = parse_spec(shape).unwrap_or_default();
    let stuck = deletion_ms.is_some_and(|moment| now > moment + STUCK_TERMINATING_MS);
    NodePod {
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        uid: record.uid.clone(),
        critical: matches!(spec.priority_class_name.as_str(), "system-cluster-critical" | "system-node-critical"),
        from_daemon_set: owner("", "DaemonSet"),
        deletion_ms,
        grace_ms: record.termination_grace_seconds.map(|seconds| seconds * 1_000),
        do_not_disrupt: is_protected(record, now),
        claims: volume_claim_names(record, volume_claims),
        exempt: over || mirror || stuck || spec.tolerations.iter().any(tolerates_disruption),
    }
}

fn annotation<'r>(record: &'r v1::PodRecord, key: &str) -> Option<&'r str> {
    record.annotations.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

fn volume_claim_names(record: &v1::PodRecord, volumes: Option<&v1::VolumeClaimSet>) -> Vec<String> {
    use v1::volume_claim::Source;
    let claim = |volume: &v1::VolumeClaim| match volume.source.as_ref()? {
        Source::ClaimName(name) => Some(name.clone()),
        Source::EphemeralStorageClass(_) => Some(format!("{}-{}", record.name, volume.volume_name)),
        Source::CsiDriver(_) => None,
    };
    volumes.into_iter().flat_map(|set| &set.volumes).filter_map(claim).collect()
}

/// Whether the taint `karpenter.sh/disrupted:NoSchedule` does not concern the pod.
fn tolerates_disruption(toleration: &TolerationJson) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == "NoSchedule";
    let exists = toleration.operator == "Exists";
    let equal = matches!(toleration.operator.as_str(), "" | "Equal") && toleration.value.is_empty();
    let key = if toleration.key.is_empty() { exists } else { toleration.key == DISRUPTED && (exists || equal) };
    effect && key
}

/// `karpenter.sh/do-not-disrupt`: `true`, or a duration after the pod's start. A pod that has not
/// started is protected; any other value protects nothing.
fn is_protected(record: &v1::PodRecord, now: i64) -> bool {
    let Some(value) = annotation(record, "karpenter.sh/do-not-disrupt") else { return false };
    if value == "true" {
        return true;
    }
    let Some(time) = go_duration_ms(value).filter(|time| *time > 0) else { return false };
    record.started_at_ms == 0 || now - record.started_at_ms < time
}

/// A Go duration, such as `1h30m` or `0.5h`, in milliseconds; `None` for any other text.
fn go_duration_ms(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let units: [(&str, f64); 7] =
            [("ms", 1.0), ("us", 1e-3), ("µs", 1e-3), ("ns", 1e-6), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| tail.starts_with(unit))?;
        total += number.parse::<f64>().ok()? * factor;
        rest = &tail[unit.len()..];
    }
    // Truncated on purpose: fractions of a millisecond do not matter.
    Some(total as i64)
}

#[cfg(test)]
mod tests;
