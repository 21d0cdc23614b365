//! Values of `spec.kubelet` as texts, and the facts of the cluster that every family requires.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Millis, Resources, Text, quantity};

use super::input::{UserDataError, UserDataInput};

/// Texts by name, in the order of output.
pub(super) type Texts = BTreeMap<String, String>;

/// Amounts as quantities.
pub(super) fn amounts(resources: &Resources) -> Texts {
    resources.iter().map(|(name, amount)| (name.to_string(), quantity::render(name, amount))).collect()
}

/// `evictionHard`.
pub(super) fn hard_thresholds(input: &UserDataInput) -> Texts {
    input.kubelet.eviction_hard.iter().map(|(signal, threshold)| (signal.to_string(), threshold.to_string())).collect()
}

/// `evictionSoft`.
pub(super) fn soft_thresholds(input: &UserDataInput) -> Texts {
    let soft = input.kubelet_options.eviction_soft.iter();
    soft.map(|(signal, soft)| (signal.to_string(), soft.threshold.to_string())).collect()
}

/// `evictionSoftGracePeriod`.
pub(super) fn grace_periods(input: &UserDataInput) -> Texts {
    let soft = input.kubelet_options.eviction_soft.iter();
    soft.map(|(signal, soft)| (signal.to_string(), duration(soft.grace_period))).collect()
}

/// The addresses of DNS: those of `spec.kubelet`, otherwise those of the cluster.
pub(super) fn cluster_dns(input: &UserDataInput) -> &[IpAddr] {
    let own = &input.kubelet_options.cluster_dns;
    if own.is_empty() { &input.cluster.dns } else { own }
}

/// A duration in the form of Go's `time.Duration`: `1h0m0s`, `1m30s`, `1.5s`, `500ms`.
pub(super) fn duration(duration: Millis) -> String {
    let total = duration.get().max(0);
    if (1..1000).contains(&total) {
        return format!("{total}ms");
    }
    let (hours, minutes, seconds) = (total / 3_600_000, total / 60_000 % 60, total / 1000 % 60);
    let fraction = format!(".{:03}", total % 1000);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

/// Checks name, endpoint and certificate authority, without which no node can join.
///
/// # Errors
/// [`UserDataError::Missing`] or [`UserDataError::Invalid`].
pub(super) fn check_cluster(input: &UserDataInput) -> Result<(), UserDataError> {
    let cluster = &input.cluster;
    required(input, "the name of the cluster", input.cluster_name.as_text(), "set cluster.name of its agent")?;
    let remedy = "check that the cluster's agent is connected, or set its cluster.api-endpoint";
    required(input, "the endpoint of the API server", &cluster.endpoint, remedy)?;
    let remedy = "check that the cluster's agent is connected, or set its cluster.api-ca-file";
    required(input, "the certificate authority of the API server", &cluster.certificate_authority, remedy)?;
    if !cluster.endpoint.starts_with("https://") {
        let (field, found) = ("the endpoint of the API server".to_owned(), cluster.endpoint.to_string());
        return Err(UserDataError::Invalid { field, found, allowed: "a URL that begins with https://" });
    }
    if STANDARD.decode(cluster.certificate_authority.as_bytes()).is_err() {
        let field = "the certificate authority of the API server".to_owned();
        // The value is several kilobytes long.
        let found = cluster.certificate_authority.chars().take(20).collect();
        return Err(UserDataError::Invalid { field, found, allowed: "PEM in base64, without line breaks" });
    }
    Ok(())
}

fn required(
    input: &UserDataInput,
    field: &'static str,
    value: &Text,
    remedy: &'static str,
) -> Result<(), UserDataError> {
    let missing = UserDataError::Missing { field, family: input.family.as_str(), remedy };
    if value.is_empty() { Err(missing) } else { Ok(()) }
}
