//! Which pods of a node go, when, and how: Karpenter's order of draining, as a function of the pods and the moment.

use fleetwright_proto::v1;

use crate::seen::pod::MIRROR;

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

/// A pod as it is seen, at `now`.
pub(crate) fn guest(
    record: &v1::PodRecord,
    shape: &v1::PodShape,
    volume_claims: Option<&v1::VolumeClaimSet>,
    now: i64,
) -> Guest {
    let gone_by = Some(record.deleted_at_ms).filter(|moment| *moment != 0);
    let over = matches!(record.phase(), v1::PodPhase::Succeeded | v1::PodPhase::Failed);
    let owner = |api: &str, kind: &str| {
        record.owner.as_ref().is_some_and(|owner| owner.kind == kind && (api.is_empty() || owner.api_version == api))
    };
    let mirror = annotation(record, MIRROR).is_some() || owner("v1", "Node");
    let stuck = gone_by.is_some_and(|moment| now > moment + STUCK_MS);
    Guest {
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        uid: record.uid.clone(),
        critical: matches!(shape.priority_class_name.as_str(), "system-cluster-critical" | "system-node-critical"),
        daemon: owner("", "DaemonSet"),
        gone_by,
        grace_ms: record.termination_grace_seconds.map(|seconds| seconds * 1_000),
        do_not_disrupt: is_protected(record, now),
        claims: claims(record, volume_claims),
        stays: over || mirror || stuck || shape.tolerations.iter().any(tolerates_disruption),
    }
}

fn annotation<'r>(record: &'r v1::PodRecord, key: &str) -> Option<&'r str> {
    record.annotations.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
}

fn claims(record: &v1::PodRecord, volumes: Option<&v1::VolumeClaimSet>) -> Vec<String> {
    use v1::volume_claim::Source;
    let claim = |volume: &v1::VolumeClaim| match volume.source.as_ref()? {
        Source::ClaimName(name) => Some(name.clone()),
        Source::EphemeralStorageClass(_) => Some(format!("{}-{}", record.name, volume.volume_name)),
        Source::CsiDriver(_) => None,
    };
    volumes.into_iter().flat_map(|set| &set.volumes).filter_map(claim).collect()
}

/// Whether the taint `karpenter.sh/disrupted:NoSchedule` does not concern the pod.
fn tolerates_disruption(toleration: &v1::Toleration) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == "NoSchedule";
    let exists = toleration.operator == "Exists";
    let equal = matches!(toleration.operator.as_str(), "" | "Equal") && toleration.value.is_empty();
    let key = if toleration.key.is_empty() { exists } else { toleration.key == DISRUPTED && (exists || equal) };
    effect && key
}

/// `karpenter.sh/do-not-disrupt`: `true`, or a time from the pod's start on. One that has not started is protected; a value that
/// is neither protects nothing.
fn is_protected(record: &v1::PodRecord, now: i64) -> bool {
    let Some(value) = annotation(record, "karpenter.sh/do-not-disrupt") else { return false };
    if value == "true" {
        return true;
    }
    let Some(time) = go_duration_ms(value).filter(|time| *time > 0) else { return false };
    record.started_at_ms == 0 || now - record.started_at_ms < time
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

#[cfg(test)]
mod tests;
