//! Comparison of a recorded plan of disruption with the plan under other settings, NodePools or prices.

use decision_log::diff;
use model::disruption_plan::{Command, DisruptionCosts};
use model::input::PlanningInput;
use serde::Serialize;
use store::log::StoredDecision;

use super::comparison::multiset_diff;
use command::wording::dollars;

/// Two plans of disruption for one decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DisruptionComparison {
    decision: u64,
    cluster: String,
    then: CommandFigures,
    otherwise: CommandFigures,
    savings_per_hour_difference: f64,
}

/// The commands of a plan in figures.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandFigures {
    nodes_removed: usize,
    machines_launched: usize,
    pods_moved: usize,
    savings_per_hour: f64,
    cost_after_per_hour: f64,
    commands: Vec<String>,
}

impl CommandFigures {
    /// The figures of `commands`, whose plan was made from `input`.
    pub(super) fn of(input: &PlanningInput, commands: &[Command], cost: &DisruptionCosts) -> Self {
        let savings: i64 = commands.iter().map(|command| command.savings.0).sum();
        Self {
            nodes_removed: commands.iter().map(|command| command.nodes.len()).sum(),
            machines_launched: commands.iter().map(|command| command.replacements.len()).sum(),
            pods_moved: commands.iter().map(|command| command.placements.len()).sum(),
            savings_per_hour: dollars(model::MicroUsd(savings)),
            cost_after_per_hour: dollars(cost.after),
            commands: commands.iter().map(|command| diff::command(input, command)).collect(),
        }
    }
}

impl DisruptionComparison {
    /// Compares the recorded plan of `stored` with the alternative.
    pub(super) fn of(stored: &StoredDecision, then: CommandFigures, otherwise: CommandFigures) -> Self {
        Self {
            decision: stored.decision.number,
            cluster: stored.scope.cluster_name().unwrap_or_default().to_owned(),
            // Both are whole micro-dollars.
            savings_per_hour_difference: ((otherwise.savings_per_hour - then.savings_per_hour) * 1e6).round() / 1e6,
            then,
            otherwise,
        }
    }

    /// The figures, and the commands that differ.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "decision {} of cluster {}\n            NODES REMOVED   LAUNCHED   PODS MOVED   SAVES $/HOUR   COST AFTER $/HOUR\n",
            self.decision, self.cluster
        );
        for (name, figures) in [("then", &self.then), ("otherwise", &self.otherwise)] {
            let CommandFigures { nodes_removed, machines_launched, pods_moved, savings_per_hour, .. } = figures;
            let after = figures.cost_after_per_hour;
            text.push_str(&format!(
                "{name:<11} {nodes_removed:<15} {machines_launched:<10} {pods_moved:<12} {savings_per_hour:<14} {after}\n"
            ));
        }
        text.push_str(&format!("difference in savings: {:+} $/hour\n", self.savings_per_hour_difference));
        text.push_str("\nCOMMANDS (- then, + otherwise)\n");
        text + &multiset_diff(&self.then.commands, &self.otherwise.commands)
    }
}
