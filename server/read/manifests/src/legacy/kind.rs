//! Classifies objects by kind, even if their apiVersion is wrong.

use serde_json::Value;

use super::record::Reporter;
use super::shape::{Fields, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Provisioner,
    NodeTemplate,
    Machine,
    NodePool,
    NodeClaim,
    NodeClass,
    /// A Pod, or an object with a pod template.
    Workload,
    /// A Node, whose labels name pools.
    Node,
    Other,
}

/// The generation of Karpenter's API that an object is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ApiGeneration {
    /// Provisioner, AWSNodeTemplate, Machine.
    Alpha,
    /// v1beta1: NodePool, NodeClaim, EC2NodeClass.
    Beta,
    /// v1: the target of the conversion.
    V1,
}

const WORKLOADS: [&str; 8] =
    ["Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job", "DaemonSet", "CronJob", "ReplicationController"];
const OUR_GROUPS: [&str; 5] = ["", "karpenter.sh", "karpenter.k8s.aws", "compute.k8s.aws", "extensions.karpenter.sh"];
/// Valid top-level keys of an object.
const TOP_KEYS: [&str; 6] = ["apiVersion", "version", "kind", "metadata", "spec", "status"];
/// Keys that occur only inside a spec; at the top level they indicate lost indentation.
const INNER_KEYS: [&str; 29] = [
    "name",
    "labels",
    "annotations",
    "requirements",
    "taints",
    "startupTaints",
    "limits",
    "weight",
    "template",
    "disruption",
    "provider",
    "providerRef",
    "nodeClassRef",
    "consolidation",
    "ttlSecondsAfterEmpty",
    "ttlSecondsUntilExpired",
    "kubeletConfiguration",
    "kubelet",
    "amiFamily",
    "amiSelector",
    "amiSelectorTerms",
    "subnetSelector",
    "subnetSelectorTerms",
    "securityGroupSelector",
    "securityGroupSelectorTerms",
    "role",
    "instanceProfile",
    "blockDeviceMappings",
    "tags",
];

impl Kind {
    /// The kind of `object`, from its kind and the group of its apiVersion.
    pub(super) fn of(object: &Fields) -> Self {
        let (group, _) = group_and_version(object);
        let kind = text(object, "kind").unwrap_or_default();
        match kind {
            _ if WORKLOADS.contains(&kind) && !OUR_GROUPS[1..].contains(&group) => Self::Workload,
            "Node" if group.is_empty() => Self::Node,
            _ if !OUR_GROUPS.contains(&group) => Self::Other,
            "Provisioner" => Self::Provisioner,
            "AWSNodeTemplate" => Self::NodeTemplate,
            "Machine" if !group.is_empty() => Self::Machine,
            "NodePool" => Self::NodePool,
            "NodeClaim" => Self::NodeClaim,
            "EC2NodeClass" | "NodeClass" => Self::NodeClass,
            _ => Self::Other,
        }
    }

    /// The correct (group, version, name) of the kind; for kinds that v1 does not have, the newest
    /// version that had them.
    fn rightful(self, version: &str) -> (&'static str, &'static str, &'static str) {
        let modern = if version == "v1beta1" { "v1beta1" } else { "v1" };
        match self {
            Self::Provisioner => ("karpenter.sh", "v1alpha5", "Provisioner"),
            Self::Machine => ("karpenter.sh", "v1alpha5", "Machine"),
            Self::NodeTemplate => ("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate"),
            Self::NodePool => ("karpenter.sh", modern, "NodePool"),
            Self::NodeClaim => ("karpenter.sh", modern, "NodeClaim"),
            Self::NodeClass => ("karpenter.k8s.aws", modern, "EC2NodeClass"),
            Self::Workload | Self::Node | Self::Other => ("", "", ""),
        }
    }

    /// Whether conversion reads the spec of such objects.
    pub(super) fn is_ours(self) -> bool {
        !matches!(self, Self::Workload | Self::Node | Self::Other)
    }
}

/// Whether `object` is a NodeOverlay, which has no older version.
pub(super) fn is_overlay(object: &Fields) -> bool {
    text(object, "kind") == Some("NodeOverlay") && group_and_version(object).0 == "karpenter.sh"
}

/// Group and version as written.
fn group_and_version(object: &Fields) -> (&str, &str) {
    let written = text(object, "apiVersion").or_else(|| text(object, "version")).unwrap_or_default();
    written.rsplit_once('/').unwrap_or(("", written))
}

/// The generation of an object; notes an apiVersion and kind that do not belong together (in no
/// release of Karpenter; the kind decides).
pub(super) fn age(reporter: &mut Reporter<'_, '_>, kind: Kind, object: &Fields) -> ApiGeneration {
    let (group, version) = group_and_version(object);
    let age = match kind {
        Kind::Provisioner | Kind::NodeTemplate | Kind::Machine => ApiGeneration::Alpha,
        _ if version == "v1" => ApiGeneration::V1,
        _ => ApiGeneration::Beta,
    };
    let (right_group, right_version, right_kind) =
        kind.rightful(if age == ApiGeneration::Beta { "v1beta1" } else { version });
    let kind_fits = text(object, "kind") == Some(right_kind);
    if object.contains_key("version") && !object.contains_key("apiVersion") {
        reporter.guess("version", "the field is called apiVersion", "there is no such field; write apiVersion");
    }
    if (group, version) != (right_group, right_version) || !kind_fits {
        let found =
            format!("{} {}", text(object, "apiVersion").unwrap_or_default(), text(object, "kind").unwrap_or_default());
        let (found, right) = (found.trim(), format!("{right_group}/{right_version} {right_kind}"));
        reporter.guess(
            "apiVersion",
            format!("found {found}, read as {right}"),
            format!("found {found}, which no release of Karpenter has; write {right}"),
        );
    }
    age
}

/// Reports an object whose indentation is lost: its fields are beside `spec` instead of inside. The
/// structure of such an object is never guessed.
pub(super) fn check_indentation(reporter: &mut Reporter<'_, '_>, object: &Fields) -> bool {
    let stray = object.keys().find(|key| !TOP_KEYS.contains(&key.as_str()) && INNER_KEYS.contains(&key.as_str()));
    let Some(stray) = stray else { return true };
    reporter.refuse(
        stray,
        format!("{stray} is at the top level of the object, so its indentation is lost; indent the fields below metadata and spec again"),
    );
    false
}

/// Replaces apiVersion and kind with those of v1.
pub(super) fn write_v1(kind: Kind, object: &mut Fields) {
    let (group, name) = match kind {
        Kind::NodeTemplate | Kind::NodeClass => ("karpenter.k8s.aws", "EC2NodeClass"),
        Kind::Machine | Kind::NodeClaim => ("karpenter.sh", "NodeClaim"),
        _ => ("karpenter.sh", "NodePool"),
    };
    let rest = std::mem::take(object);
    object.insert("apiVersion".to_owned(), Value::from(format!("{group}/v1")));
    object.insert("kind".to_owned(), Value::from(name));
    let head = ["apiVersion", "version", "kind"];
    object.extend(rest.into_iter().filter(|(key, _)| !head.contains(&key.as_str())));
}
