//! Comparison of recorded removals by a method with those under other disruption settings of NodePools.

use decision_log::{RemovalAnswer, diff};
use serde::Serialize;
use store::log::StoredDecision;

use super::comparison::multiset_diff;

/// Two answers of a method for one decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemovalComparison {
    decision: u64,
    cluster: String,
    then: RemovalFigures,
    otherwise: RemovalFigures,
}

/// The answer of a method in figures.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RemovalFigures {
    /// Number of machines that the method removes.
    selected: usize,
    /// Number of machines that it replaces first.
    replaced: usize,
    /// Number of machines that budgets hold.
    held_by_budget: usize,
    removals: Vec<String>,
}

impl RemovalFigures {
    fn of(answer: &RemovalAnswer) -> Self {
        let selection = &answer.selection;
        Self {
            selected: selection.removals.len(),
            replaced: selection.replacements.len(),
            held_by_budget: selection.held_by_budget.values().sum(),
            removals: selection.removals.iter().map(diff::removal).collect(),
        }
    }
}

impl RemovalComparison {
    /// Compares the recorded answer of `stored` with the alternative.
    pub(super) fn of(stored: &StoredDecision, then: &RemovalAnswer, otherwise: &RemovalAnswer) -> Self {
        Self {
            decision: stored.decision.number,
            cluster: stored.scope.cluster_name().unwrap_or_default().to_owned(),
            then: RemovalFigures::of(then),
            otherwise: RemovalFigures::of(otherwise),
        }
    }

    /// The figures, and the selected removals that differ.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "decision {} of cluster {}\n            SELECTED   REPLACED FIRST   HELD BY BUDGETS\n",
            self.decision, self.cluster
        );
        for (name, figures) in [("then", &self.then), ("otherwise", &self.otherwise)] {
            let RemovalFigures { selected, replaced, held_by_budget, .. } = figures;
            text.push_str(&format!("{name:<11} {selected:<10} {replaced:<16} {held_by_budget}\n"));
        }
        text.push_str("\nSELECTED REMOVALS (- then, + otherwise)\n");
        text + &multiset_diff(&self.then.removals, &self.otherwise.removals)
    }
}
