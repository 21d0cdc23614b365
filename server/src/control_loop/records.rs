//! Decisions and launches as rows.

use engine::control::{Decision, DecisionKind, PlannedMachine};

use crate::store::log::{DecisionRow, Entry};
use crate::store::undertaking::Intent;
use crate::views;

/// The decision and the launches that it intends.
pub(super) fn entry(decision: &Decision) -> Entry {
    let reasons: Vec<String> = views::reasons(decision).collect();
    let row = DecisionRow {
        number: decision.id.0,
        decided_at_ms: decision.at.0,
        kind: kind(decision.kind).to_owned(),
        summary: views::summary(decision),
        report: reasons.join("\n"),
        replay: None,
    };
    Entry { decision: row, intents: decision.machines.iter().map(intent).collect(), ..Entry::default() }
}

fn kind(kind: DecisionKind) -> &'static str {
    match kind {
        DecisionKind::Provision => "provision",
        DecisionKind::Empty => "empty",
        DecisionKind::Interruption => "interruption",
    }
}

fn intent(machine: &PlannedMachine) -> Intent {
    let order = &machine.launch;
    let options: Vec<_> = order.options.iter().map(|option| [&*option.instance_type, &*option.zone]).collect();
    let request = serde_json::json!({
        "pool": &*order.pool,
        "nodeClass": &*order.node_class,
        "capacityType": order.capacity_type.as_str(),
        "options": options,
        "reservation": order.reservation.as_deref(),
    });
    let pods: Vec<&str> = machine.pods.iter().map(|pod| &**pod).collect();
    Intent {
        claim: order.claim.to_string(),
        attempt: order.attempt,
        token: order.token.to_string(),
        request: request.to_string().into_bytes(),
        claim_order: serde_json::json!({ "pods": pods }).to_string(),
    }
}
