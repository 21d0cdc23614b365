//! `--compare`: the same pods packed as another autoscaler would.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use karpenter_baseline::Launches;
use model::input::PlanningInput;
use model::plan::Plan;
use model::{CapacityType, MicroUsd, Text};

use render::comparison::{Comparison, NodeTypeEntry};
use render::usd::Usd;

/// Number of differences that are told.
const DIFFERENCES: usize = 3;

/// Nodes of one instance type and capacity type: how many, and what they cost.
#[derive(Debug, Clone, Copy, Default)]
struct Nodes {
    count: usize,
    cost: i64,
}

type NodesByType<'i> = BTreeMap<(&'i Text, CapacityType), Nodes>;

/// Autoscalers whose packing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Other {
    /// The greedy of Karpenter 1.14's provisioning.
    Karpenter,
}

impl Other {
    /// What it launches for the pods of `input`, beside `plan`.
    pub(super) fn pack(self, input: &PlanningInput, plan: &Plan) -> Comparison {
        let Self::Karpenter = self;
        let launches = karpenter_baseline::provision(input);
        let theirs = by_type(input, &launches);
        let mut by_cost: Vec<_> = theirs.iter().collect();
        by_cost.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.cost));
        let entry = |((instance_type, capacity_type), nodes): (&(&Text, CapacityType), &Nodes)| NodeTypeEntry {
            instance_type: instance_type.to_string(),
            capacity_type: capacity_type.as_str(),
            count: nodes.count,
        };
        Comparison {
            name: "karpenter",
            nodes: launches.nodes.len(),
            new_usd_per_hour: Usd(launches.cost()),
            unschedulable: launches.unschedulable.len(),
            node_types: by_cost.into_iter().map(entry).collect(),
            differences: differences(&planned_by_type(input, plan), &theirs),
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

fn by_type<'i>(input: &'i PlanningInput, launches: &Launches) -> NodesByType<'i> {
    let mut nodes = NodesByType::new();
    for node in &launches.nodes {
        let kind = input.pools[node.pool as usize].catalogue.types[node.instance_type as usize].name.as_text();
        add(&mut nodes, (kind, node.capacity_type), node.price.0 + node.credits.0);
    }
    nodes
}

/// The nodes of `plan` by their first launch options.
fn planned_by_type<'i>(input: &'i PlanningInput, plan: &Plan) -> NodesByType<'i> {
    let mut nodes = NodesByType::new();
    for node in &plan.nodes {
        let types = &input.pools[node.pool as usize].catalogue.types;
        let Some(first) = node.types.first() else { continue };
        add(&mut nodes, (types[*first as usize].name.as_text(), node.capacity_type), node.cost().0);
    }
    nodes
}

fn add<'i>(nodes: &mut NodesByType<'i>, kind: (&'i Text, CapacityType), cost: i64) {
    let of_kind = nodes.entry(kind).or_default();
    of_kind.count += 1;
    of_kind.cost += cost;
}

fn of_kind<'i>(nodes: &NodesByType<'i>, kind: &(&'i Text, CapacityType)) -> Nodes {
    nodes.get(kind).copied().unwrap_or_default()
}

/// What is spent more or less on an instance type, the largest differences first.
fn differences<'i>(ours: &NodesByType<'i>, theirs: &NodesByType<'i>) -> Vec<String> {
    let kinds: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let mut differing: Vec<_> = kinds
        .into_iter()
        .map(|kind| (kind, of_kind(ours, kind), of_kind(theirs, kind)))
        .filter(|(_, ours, theirs)| (ours.count, ours.cost) != (theirs.count, theirs.cost))
        .collect();
    differing.sort_by_key(|(_, ours, theirs)| std::cmp::Reverse((theirs.cost - ours.cost).abs()));
    let sentence = |((instance_type, capacity_type), ours, theirs): (&(&Text, CapacityType), Nodes, Nodes)| {
        let more = theirs.cost - ours.cost;
        let (amount, side) = (MicroUsd(more.abs()), if more < 0 { "less" } else { "more" });
        format!(
            "karpenter launches {} × {instance_type} {}, and this plan {}: ${amount} an hour {side}",
            theirs.count,
            capacity_type.as_str(),
            ours.count
        )
    };
    differing.into_iter().take(DIFFERENCES).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_differences_in_cost_are_told_first() {
        let (small, large) = (Text::from("a"), Text::from("b"));
        let nodes = |count, cost| Nodes { count, cost };
        let ours = NodesByType::from([((&small, CapacityType::Spot), nodes(2, 100_000))]);
        let theirs = NodesByType::from([
            ((&small, CapacityType::Spot), nodes(1, 50_000)),
            ((&large, CapacityType::OnDemand), nodes(3, 600_000)),
        ]);
        assert_eq!(
            differences(&ours, &theirs),
            [
                "karpenter launches 3 × b on-demand, and this plan 0: $0.60 an hour more",
                "karpenter launches 1 × a spot, and this plan 2: $0.05 an hour less"
            ]
        );
        assert_eq!(differences(&ours, &ours), Vec::<String>::new());
    }
}
