//! Rows of decisions and launches.

use controller::{DecidedLaunch, Decision, PlannedMachine};
use model::{LaunchOrder, Text};

use prost::Message;

use fleet_api::fleet::decision_effects;
use fleet_api::views;
use replica::{holds, intents, replacements};
use store::log::{DecisionRow, Entry};
use store::operations::Intent;

/// The row of a decision and its launch intents, with the cloud's `terms`.
pub(super) fn entry(decision: &Decision, terms: impl Fn(&LaunchOrder) -> Text) -> Entry {
    let reasons: Vec<String> = views::reasons(decision).collect();
    let row = DecisionRow {
        number: decision.id.0,
        decided_at_ms: decision.at.as_millis(),
        kind: decision.reason.as_str().to_owned(),
        summary: views::summary(decision),
        report: reasons.join("\n"),
        replay: None,
        moves: replica::moves::encode(&decision.moves),
        effects: decision_effects::effects(decision).encode_to_vec(),
    };
    Entry {
        decision: row,
        replacements: decision.replacements.iter().map(|one| replacements::encode(one, decision.at)).collect(),
        holds: decision.holds.iter().map(|(id, status)| holds::encode_status(id, status)).collect(),
        intents: decision.launches.iter().map(|machine| intent(decision, machine, &terms)).collect(),
        ..Entry::default()
    }
}

fn intent(decision: &Decision, machine: &PlannedMachine, terms: impl Fn(&LaunchOrder) -> Text) -> Intent {
    intents::encode(&DecidedLaunch { machine: machine.clone(), decision: decision.id, at: decision.at }, terms)
}
