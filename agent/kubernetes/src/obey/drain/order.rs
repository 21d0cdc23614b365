//! Which pods of a node go, when, and how: Karpenter's order of draining, as a function of the pods and the moment.

use serde::Deserialize;

use crate::moment::millis;
use crate::seen::pod::PodJson;
use crate::seen::shape::TolerationJson;

/// The taint of a node that goes.
pub(crate) const DISRUPTED: &str = "karpenter.sh/disrupted";

/// A pod that should be gone since so long ago will not go: its kubelet is not there (Karpenter: stuck terminating).
const STUCK_MS: i64 = 60_000;

/// What decides over a pod of a node that is drained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Guest {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Its priority class is `system-cluster-critical` or `system-node-critical`.
    pub(crate) critical: bool,
    /// A DaemonSet made it.
    pub(crate) daemon: bool,
    /// When it has to be gone, its grace included; `None` while nobody has deleted it.
    pub(crate) gone_by: Option<i64>,
    /// How long it may take to end; `None` when the API does not say.
    pub(crate) grace_ms: Option<i64>,
    /// Somebody does not want it disturbed at this moment.
    pub(crate) do_not_disrupt: bool,
    /// Claims of volumes that it uses.
    pub(crate) claims: Vec<String>,
    /// It does not have to move: it is over, tolerates the taint, belongs to the kubelet, or will never go.
    pub(crate) stays: bool,
}

/// What is done about the pods of a node at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step<'g> {
    /// To be evicted.
    pub(crate) evict: Vec<&'g Guest>,
    /// To be deleted, each with the seconds that it gets.
    pub(crate) delete: Vec<(&'g Guest, i64)>,
    /// All that have to be gone before the node is drained.
    pub(crate) waits_for: Vec<&'g Guest>,
}

/// What is done at `now` about `guests`, when they have to be gone by `deadline`.
///
/// Groups go one after the other: pods before DaemonSet pods, critical ones last. A pod whose grace would end after the deadline
/// is deleted whatever its group, its budget or its annotation.
pub(crate) fn step(guests: &[Guest], now: i64, deadline: Option<i64>) -> Step<'_> {
    let mut step = Step { waits_for: guests.iter().filter(|guest| !guest.stays).collect(), ..Step::default() };
    if let Some(deadline) = deadline {
        let seconds = ((deadline - now) / 1_000).max(1);
        let due = step.waits_for.iter().filter(|guest| is_due(guest, now, deadline));
        step.delete = due.map(|guest| (*guest, seconds)).collect();
    }
    let group = |guest: &Guest| (guest.critical, guest.daemon);
    let Some(first) = step.waits_for.iter().map(|guest| group(guest)).min() else { return step };
    let turn = step.waits_for.iter().filter(|guest| group(guest) == first);
    let may_go = turn.filter(|guest| guest.gone_by.is_none() && !guest.do_not_disrupt);
    step.evict = may_go.filter(|guest| !step.delete.iter().any(|(due, _)| due.uid == guest.uid)).copied().collect();
    step
}

fn is_due(guest: &Guest, now: i64, deadline: i64) -> bool {
    match guest.gone_by {
        Some(gone_by) => gone_by > deadline,
        None => guest.grace_ms.is_some_and(|grace| now > deadline - grace),
    }
}

/// A pod as the API holds it, at `now`.
pub(crate) fn guest(pod: &PodJson, now: i64) -> Guest {
    let meta = &pod.metadata;
    let gone_by = Some(meta.deleted_ms()).filter(|moment| *moment != 0);
    let over = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
    let mirror = meta.annotations.contains_key("kubernetes.io/config.mirror")
        || meta.owner_references.iter().any(|owner| owner.kind == "Node" && owner.api_version == "v1");
    let stuck = gone_by.is_some_and(|moment| now > moment + STUCK_MS);
    let tolerates = pod.spec.tolerations.iter().any(tolerates_disruption);
    let claims = pod.spec.volumes.iter().filter_map(|volume| {
        let ephemeral = || volume.ephemeral.as_ref().map(|_| format!("{}-{}", meta.name, volume.name));
        volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone()).or_else(ephemeral)
    });
    Guest {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        critical: matches!(pod.spec.priority_class_name.as_str(), "system-cluster-critical" | "system-node-critical"),
        daemon: meta.owner_references.iter().any(|owner| owner.controller && owner.kind == "DaemonSet"),
        gone_by,
        grace_ms: pod.spec.termination_grace_period_seconds.map(|seconds| seconds * 1_000),
        do_not_disrupt: is_protected(pod, now),
        claims: claims.collect(),
        stays: over || mirror || stuck || tolerates,
    }
}

/// Whether the taint `karpenter.sh/disrupted:NoSchedule` does not concern the pod.
fn tolerates_disruption(toleration: &TolerationJson) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == "NoSchedule";
    let exists = toleration.operator == "Exists";
    let equal = matches!(toleration.operator.as_str(), "" | "Equal") && toleration.value.is_empty();
    let key = if toleration.key.is_empty() { exists } else { toleration.key == DISRUPTED && (exists || equal) };
    effect && key
}

/// `karpenter.sh/do-not-disrupt`: `true`, or a time from the pod's start on. One that has not started is protected; a value that
/// is neither protects nothing.
fn is_protected(pod: &PodJson, now: i64) -> bool {
    let Some(value) = pod.metadata.annotations.get("karpenter.sh/do-not-disrupt") else { return false };
    if value == "true" {
        return true;
    }
    let Some(time) = go_duration_ms(value).filter(|time| *time > 0) else { return false };
    let started = millis(pod.status.start_time.as_deref());
    started == 0 || now - started < time
}

/// A duration as Go writes it, such as `1h30m` or `0.5h`, in milliseconds; `None` for any other text.
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
    // Truncation is meant: what is finer than a millisecond is of no consequence.
    Some(total as i64)
}

/// A list of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodList {
    pub(crate) metadata: ListMeta,
    pub(crate) items: Vec<PodJson>,
}

/// Where a list goes on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListMeta {
    pub(crate) r#continue: String,
}

#[cfg(test)]
mod tests;
