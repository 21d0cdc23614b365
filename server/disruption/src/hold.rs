//! What holds a node, as codes of the plan contract (§3).

/// Why a node stays, as a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldCode {
    /// The budgets of its NodePool allow no further removal for the reason now, or none of its disruption
    /// windows is open.
    Budget,
    /// A PodDisruptionBudget allows no eviction now, several select a pod, or it allows fewer evictions
    /// than several nodes together need.
    PodDisruptionBudget,
    /// `karpenter.sh/do-not-disrupt` on the Node or a pod.
    DoNotDisrupt,
    /// A pod came or went within `consolidateAfter`, or that is `Never`.
    ConsolidateAfter,
    /// The node is not initialized.
    NotInitialized,
    /// A pod is nominated for the node.
    Nominated,
    /// The node is being deleted already.
    Deleting,
    /// `consolidationPolicy` excludes the node, or the savings are too small for it.
    Policy,
    /// A pod fits on no other node and no machine.
    NoCapacity,
    /// No removal or replacement costs less.
    NoSavings,
    /// Cheaper machines are too few for `minValues`.
    MinValues,
    /// A spot node is replaced by spot only where enough cheaper machines are left to choose from.
    SpotFlexibility,
    /// Pods that wait are planned on the node.
    PendingPods,
    /// The NodePool has a fixed number of nodes.
    Static,
}

impl HoldCode {
    /// The code as printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "Budget",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::ConsolidateAfter => "ConsolidateAfter",
            Self::NotInitialized => "NotInitialized",
            Self::Nominated => "Nominated",
            Self::Deleting => "Deleting",
            Self::Policy => "Policy",
            Self::NoCapacity => "NoCapacity",
            Self::NoSavings => "NoSavings",
            Self::MinValues => "MinValues",
            Self::SpotFlexibility => "SpotFlexibility",
            Self::PendingPods => "PendingPods",
            Self::Static => "Static",
        }
    }
}

/// An object that holds a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// Why.
    pub code: HoldCode,
    /// `Kind/name` or `Kind/namespace/name`.
    pub object: String,
    /// The reason as a sentence whose subject is the object.
    pub message: String,
}

impl Hold {
    /// A hold by `object`.
    pub(crate) fn new(code: HoldCode, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, object: object.into(), message: message.into() }
    }
}
