//! Guards that a test disables, to show what they prevent. Most guards need no such switch: a test
//! sets the operator's limit to a value that binds nothing, or withholds the guard's evidence.

use std::collections::BTreeSet;

/// A guard that neither a setting nor an event can overrule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guard {
    /// Planned replacement capacity is reserved until the drain has ended, and empty nodes are kept
    /// for a pending plan.
    Replacement,
    /// A machine is drained only when the nodes that its pods are assigned to are initialized.
    InitializedReplacement,
    /// A NodePool whose replacement failed begins no other one for a while.
    ReplacementBackoff,
    /// A plan of disruption is carried out only if everything that it was made from is as it was.
    ConsolidationCheck,
    /// The removal of a machine is reserved under the rate limits when its replacement begins.
    ReservedRemoval,
    /// The consolidation of a machine ends when one of its pods has no place, before a plan launches one for it.
    ConsolidationEnd,
    /// The offering of a machine whose capacity is taken back is not launched again for a while.
    WarnedOffering,
    /// When the exclusion of an offering has ended, one launch of the fleet tries it at a time.
    OneProbe,
    /// A machine that the cloud recommends to leave is drained when its replacements are ready.
    ReplacedFirst,
    /// An instance is compared with what its EC2NodeClass selects only if that was looked up after its launch.
    CurrentLookup,
    /// A lookup that failed does not change what instances are compared with.
    FailedLookup,
    /// What the API of one region does not know says nothing about a machine of another region.
    OtherRegion,
    /// A notice for a machine that is being drained brings the end of the drain forward.
    HastenedDrain,
}

/// The disabled guards: none, except in guard-off tests. No configuration key adds one.
#[derive(Debug, Default)]
pub(crate) struct DisabledGuards(BTreeSet<Guard>);

impl DisabledGuards {
    /// Disables `guard`.
    #[cfg(test)]
    pub fn only(guard: Guard) -> Self {
        Self(BTreeSet::from([guard]))
    }

    /// Whether `guard` is enabled.
    pub fn is_enabled(&self, guard: Guard) -> bool {
        !self.0.contains(&guard)
    }
}
