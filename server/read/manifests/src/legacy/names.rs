//! Label keys, annotations and taints that have other names in v1.

use super::record::Reporter;
use super::shape::{Fields, join};

/// The v1 key of an old label, if only the key was renamed.
pub(super) fn label(key: &str) -> Option<&'static str> {
    Some(match key {
        "karpenter.sh/provisioner-name" => "karpenter.sh/nodepool",
        "node.k8s.aws/capacity-type" | "node.k8s.aws/capacityType" => "karpenter.sh/capacity-type",
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => return None,
    })
}

/// Annotations of older releases of Karpenter that have no meaning in v1.
const DROPPED: [&str; 13] = [
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/emptiness-timestamp",
    "karpenter.sh/linked",
    "karpenter.sh/managed-by",
    "karpenter.sh/voluntary-disruption",
    "karpenter.k8s.aws/nodetemplate-hash",
    "compatibility.karpenter.sh/provider",
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
    "compatibility.karpenter.sh/v1beta1-kubelet-conversion",
    "compatibility.karpenter.k8s.aws/v1beta1-ubuntu",
    "compatibility.karpenter.k8s.aws/kubelet-drift-hash",
    "compatibility.karpenter.k8s.aws/cluster-name-tagged",
    "compatibility.karpenter.k8s.aws/v1-alias-version",
];

/// Annotations that describe the old form of an object.
const OF_THE_OLD_FORM: [&str; 7] = [
    "karpenter.k8s.aws/tagged",
    "karpenter.sh/stored-version-migrated",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Removes obsolete entries of `annotations` at `path`. With `old`, also removes hashes and the
/// last applied configuration, which describe the old object.
pub(super) fn tidy_annotations(reporter: &mut Reporter<'_, '_>, path: &str, annotations: &mut Fields, old: bool) {
    let doomed: Vec<String> = annotations
        .keys()
        .filter(|key| DROPPED.contains(&key.as_str()) || (old && OF_THE_OLD_FORM.contains(&key.as_str())))
        .cloned()
        .collect();
    for key in doomed {
        annotations.shift_remove(&key);
        reporter.note(&join(path, &key), "dropped, it means nothing in v1");
    }
    if let Some(value) = annotations.shift_remove("karpenter.sh/do-not-consolidate") {
        reporter.note(
            &join(path, "karpenter.sh/do-not-consolidate"),
            "is karpenter.sh/do-not-disrupt in v1, which holds drift as well",
        );
        annotations.entry("karpenter.sh/do-not-disrupt").or_insert(value);
    }
    if let Some(value) = annotations.shift_remove("karpenter.sh/do-not-evict") {
        reporter.note(
            &join(path, "karpenter.sh/do-not-evict"),
            "is karpenter.sh/do-not-disrupt in v1, which ignores the old name",
        );
        annotations.entry("karpenter.sh/do-not-disrupt").or_insert(value);
    }
}
