//! Label keys: well-known keys, keys that are restricted to Karpenter, and the syntax of keys.

use model::Text;
use model::labels::{
    ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODECLASS, NODEPOOL, OS, REGION, RESERVATION_ID, WINDOWS_BUILD, ZONE,
    ZONE_ID, canonical_key,
};

use crate::syntax::is_label_key;

/// Karpenter's well-known labels: keys that a node may have although its pool does not define them
/// (Karpenter: well-known labels of core and of the AWS provider).
const WELL_KNOWN: &[&str] = &[
    NODEPOOL,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    CAPACITY_TYPE,
    WINDOWS_BUILD,
    ZONE_ID,
    RESERVATION_ID,
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-capability-flex",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/nitro-sandbox",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
];

/// Pattern of a key of a label or taint: an optional DNS prefix and a slash, then a name.
pub(super) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// Maximum length of a key, in characters: a domain of 253, a slash, a name of 62 (Karpenter:
/// NodePool schema).
pub(super) const KEY_LENGTH: usize = 316;

/// Domains whose keys are restricted to Karpenter, except well-known keys.
pub(super) const RESTRICTED_DOMAINS: [&str; 2] = ["karpenter.sh", "karpenter.k8s.aws"];

/// The well-known labels, sorted.
#[must_use]
pub fn well_known_labels() -> Vec<Text> {
    let mut labels: Vec<Text> = WELL_KNOWN.iter().map(|key| Text::from(*key)).collect();
    labels.sort();
    labels
}

/// Whether `key` is well known.
#[must_use]
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

/// Whether users may not set or require `key`: keys of Karpenter's domains and their subdomains,
/// except well-known keys, and the host name.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    let key = canonical_key(key);
    key == HOSTNAME || (!is_well_known(key) && in_restricted_domain(key))
}

/// Whether the schemas reject `key` in a requirement. They match a domain by its suffix, without a
/// dot before it, and accept the label of the node class, which claims carry and pools may not
/// require.
#[must_use]
pub fn is_refused(key: &str) -> bool {
    let key = canonical_key(key);
    let own = key.split_once('/').is_some_and(|(domain, _)| RESTRICTED_DOMAINS.iter().any(|own| domain.ends_with(own)));
    key == HOSTNAME || (own && key != NODECLASS && !is_well_known(key))
}

fn in_restricted_domain(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    RESTRICTED_DOMAINS.iter().any(|restricted| {
        domain.strip_suffix(restricted).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// What is allowed instead of `key`, or `None` when it is a label key.
#[must_use]
pub fn key_problem(key: &str) -> Option<&'static str> {
    const FORM: &str = "an optional DNS prefix in lower case and a slash, then 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
    (!is_label_key(key)).then_some(FORM)
}

/// The condition, in CEL, that the label key `key` is one of the well-known keys of `domain` or not
/// of `domain` at all. As in Karpenter's schemas, a domain is matched as a suffix, without a dot
/// before it.
pub(crate) fn outside(key: &str, domain: &str) -> String {
    let class = (domain == "karpenter.k8s.aws").then_some(NODECLASS);
    let known = well_known_labels();
    let known = known
        .iter()
        .map(AsRef::as_ref)
        .filter(|label: &&str| label.split_once('/').is_some_and(|(prefix, _)| prefix == domain));
    let known: Vec<String> = known.chain(class).map(|label| format!("'{label}'")).collect();
    format!("{key} in [{}] || !{key}.find('^([^/]+)').endsWith('{domain}')", known.join(", "))
}

/// Message for a key of `domain` that is not well known.
pub(crate) fn domain_refusal(domain: &str) -> String {
    format!("labels of {domain} are Karpenter's own; only the well-known ones may be used")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn karpenters_domains_are_restricted_except_well_known_keys() {
        for key in [
            "karpenter.sh/x",
            "a.karpenter.sh/x",
            "karpenter.k8s.aws/ec2nodeclass",
            HOSTNAME,
            "karpenter.sh/registered",
        ] {
            assert!(is_restricted(key), "{key}");
        }
        for key in
            [NODEPOOL, CAPACITY_TYPE, "karpenter.k8s.aws/instance-cpu", "notkarpenter.sh/x", "kubernetes.io/x", "team"]
        {
            assert!(!is_restricted(key), "{key}");
        }
    }
}
