//! Comparison of a recorded plan with the plan under another policy or catalogue.

use std::collections::BTreeMap;
use std::io;

use decision_log::diff;
use serde::Serialize;
use store::log::StoredDecision;

use command::wording::dollars;
use render::Rendering;
use render::document::{UnschedulableEntry, unschedulable_entry};
use render::table::write_unschedulable;

/// Two plans for one decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison<'r> {
    decision: u64,
    cluster: String,
    then: PlanFigures<'r>,
    otherwise: PlanFigures<'r>,
    nodes_difference: i64,
    cost_per_hour_difference: f64,
}

/// Plan in figures.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanFigures<'r> {
    nodes: usize,
    cost_per_hour: f64,
    lower_bound_per_hour: f64,
    pods_without_place: usize,
    machines: Vec<String>,
    unschedulable: Vec<UnschedulableEntry<'r>>,
}

impl<'r> PlanFigures<'r> {
    fn of(plan: &Rendering<'r>) -> Self {
        let nodes = || plan.plan.nodes.iter().chain(&plan.plan.static_nodes);
        Self {
            nodes: nodes().count(),
            cost_per_hour: dollars(plan.report.new_cost),
            lower_bound_per_hour: dollars(plan.report.lower_bound),
            pods_without_place: plan.plan.unschedulable.len(),
            machines: nodes().map(|node| diff::machine(plan.input, node)).collect(),
            unschedulable: plan.report.unschedulable.iter().map(|entry| unschedulable_entry(plan, entry)).collect(),
        }
    }
}

impl<'r> Comparison<'r> {
    /// Compares the recorded plan of `stored` with the alternative.
    pub(super) fn of(stored: &StoredDecision, then: &Rendering<'r>, otherwise: &Rendering<'r>) -> Self {
        let difference = otherwise.report.new_cost.0 - then.report.new_cost.0;
        let (then, otherwise) = (PlanFigures::of(then), PlanFigures::of(otherwise));
        Self {
            decision: stored.decision.number,
            cluster: stored.scope.cluster_name().unwrap_or_default().to_owned(),
            nodes_difference: otherwise.nodes as i64 - then.nodes as i64,
            cost_per_hour_difference: difference as f64 / 1e6,
            then,
            otherwise,
        }
    }

    /// The figures, the machines that differ, and the pods that the alternative leaves without a place.
    ///
    /// # Errors
    /// Writing to memory fails.
    pub(super) fn table(&self, otherwise: &Rendering<'_>) -> io::Result<String> {
        let mut text = format!(
            "decision {} of cluster {}\n            NODES   $/HOUR      LOWER BOUND   PODS WITHOUT A PLACE\n",
            self.decision, self.cluster
        );
        for (name, figures) in [("then", &self.then), ("otherwise", &self.otherwise)] {
            let PlanFigures { nodes, cost_per_hour, lower_bound_per_hour, pods_without_place, .. } = figures;
            text.push_str(&format!(
                "{name:<11} {nodes:<7} {cost_per_hour:<11} {lower_bound_per_hour:<13} {pods_without_place}\n"
            ));
        }
        text.push_str(&format!("difference  {:<+7} {:<+11}\n", self.nodes_difference, self.cost_per_hour_difference));
        text.push_str("\nMACHINES (- then, + otherwise)\n");
        text.push_str(&multiset_diff(&self.then.machines, &self.otherwise.machines));
        let mut unplaced = Vec::new();
        write_unschedulable(otherwise, &mut unplaced)?;
        text.push_str(&String::from_utf8_lossy(&unplaced));
        Ok(text)
    }
}

/// The texts that one plan has more often than the other, and how many both have. Machines count
/// by what they are: their names have the order of the plan.
pub(super) fn multiset_diff(then: &[String], otherwise: &[String]) -> String {
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (side, machines) in [then, otherwise].into_iter().enumerate() {
        machines.iter().for_each(|machine| counts.entry(machine).or_default()[side] += 1);
    }
    let mut text = String::new();
    for (machine, [then, otherwise]) in &counts {
        let sign = if then > otherwise { '-' } else { '+' };
        match then.abs_diff(*otherwise) {
            0 => {}
            1 => text.push_str(&format!("{sign} {machine}\n")),
            several => text.push_str(&format!("{sign} {several} × {machine}\n")),
        }
    }
    let same: usize = counts.values().map(|[then, otherwise]| then.min(otherwise)).sum();
    text + &format!("  unchanged: {same}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_both_plans_are_counted_and_the_others_are_listed() {
        let machines = |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("{name}.large")).collect() };
        let (then, otherwise) = (machines(&["b", "a", "a", "a"]), machines(&["a", "c", "b", "c"]));
        assert_eq!(multiset_diff(&then, &otherwise), "- 2 × a.large\n+ 2 × c.large\n  unchanged: 2\n");
        assert_eq!(multiset_diff(&machines(&["a"]), &[]), "- a.large\n  unchanged: 0\n");
    }
}
