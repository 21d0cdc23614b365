//! Labels and label selectors.

use std::collections::BTreeMap;

use super::Text;

/// Label keys and values of one object.
pub type Labels = BTreeMap<Text, Text>;

/// The label of the pods of a Deployment that distinguishes its ReplicaSets, whose names end with its value.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// `kubernetes.io/hostname`.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// `topology.kubernetes.io/zone`.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// `topology.k8s.aws/zone-id`.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// `topology.kubernetes.io/region`.
pub const REGION: &str = "topology.kubernetes.io/region";
/// `node.kubernetes.io/instance-type`.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// `kubernetes.io/arch`.
pub const ARCH: &str = "kubernetes.io/arch";
/// `kubernetes.io/os`.
pub const OS: &str = "kubernetes.io/os";
/// `node.kubernetes.io/windows-build`.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// `karpenter.sh/capacity-type`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `karpenter.sh/nodepool`.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// `karpenter.k8s.aws/ec2nodeclass`.
pub const NODECLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// `karpenter.k8s.aws/capacity-reservation-id`.
pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// `karpenter.sh/registered`, which DaemonSets may select.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `karpenter.sh/initialized`, which DaemonSets may select.
pub const INITIALIZED: &str = "karpenter.sh/initialized";

/// Operators of a label selector (apimachinery `LabelSelectorOperator`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SelectorOperator {
    /// The value is one of those listed.
    In,
    /// The key is absent or its value is none of those listed.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
}

/// One condition of a label selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SelectorTerm {
    /// Key of the label that is compared.
    pub key: Text,
    /// Comparison with `values`.
    pub operator: SelectorOperator,
    /// Values, sorted and unique.
    pub values: Vec<Text>,
}

impl SelectorTerm {
    /// Whether `labels` satisfy this condition.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let listed = || value.is_some_and(|v| self.values.binary_search(v).is_ok());
        match self.operator {
            SelectorOperator::In => listed(),
            SelectorOperator::NotIn => !listed(),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

/// A label selector with `matchLabels` converted to `In` terms. A selector without terms selects
/// everything; an absent selector, `Option::None`, selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LabelSelector {
    /// All terms must hold. Sorted, so that equal selectors are equal values.
    pub terms: Vec<SelectorTerm>,
}

impl LabelSelector {
    /// A selector in canonical order: terms and values sorted and unique.
    #[must_use]
    pub fn new(mut terms: Vec<SelectorTerm>) -> Self {
        for term in &mut terms {
            term.values.sort();
            term.values.dedup();
        }
        terms.sort();
        terms.dedup();
        Self { terms }
    }

    /// Whether `labels` satisfy every term.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().all(|term| term.matches(labels))
    }
}

/// The canonical key for `key`: deprecated aliases are replaced (Karpenter core §2.2). Topology
/// keys of spread and affinity terms are never normalised.
#[must_use]
pub fn canonical_key(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        other => other,
    }
}
