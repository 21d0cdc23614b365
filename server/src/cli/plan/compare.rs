//! `--compare`: the same pods packed as another autoscaler would.

use clap::ValueEnum;
use model::input::PlanningInput;

use crate::render::comparison::Comparison;
use crate::render::usd::Usd;

/// Autoscalers whose packing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Other {
    /// The greedy of Karpenter 1.14's provisioning.
    Karpenter,
}

impl Other {
    /// What it launches for the pods of `input`.
    pub(super) fn pack(self, input: &PlanningInput) -> Comparison {
        let Self::Karpenter = self;
        let launches = karpenter_baseline::provision(input);
        Comparison {
            name: "karpenter",
            nodes: launches.nodes.len(),
            new_usd_per_hour: Usd(launches.cost()),
            unschedulable: launches.unschedulable.len(),
        }
    }

    /// What the comparison is, and its limits.
    pub(super) fn note(self) -> String {
        let Self::Karpenter = self;
        "the comparison with karpenter is this program's own rendering of the greedy of Karpenter 1.14, not Karpenter \
         itself: one round with the same catalogue, prices and surplus credits, and the cheapest type by price of every NodeClaim launched; \
         Karpenter tries pods that are left again in later rounds and may replace nodes later by consolidation, and \
         opt-in rules, priorities and capacity shortages are not part of it"
            .to_owned()
    }
}
