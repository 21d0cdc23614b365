//! Decisions and launches as rows.

use engine::control::{Decision, LaunchOrder};

use crate::store::{DecisionRecord, Intent};
use crate::views;

/// The decision, for people and for later.
pub(super) fn decision(decision: &Decision) -> DecisionRecord {
    let reasons: Vec<String> = views::reasons(decision).collect();
    DecisionRecord { summary: views::summary(decision), report: reasons.join("\n") }
}

/// The launches that it intends.
pub(super) fn intents(decision: &Decision) -> Vec<Intent> {
    decision.machines.iter().map(|machine| intent(&machine.launch)).collect()
}

fn intent(order: &LaunchOrder) -> Intent {
    let options: Vec<_> = order.options.iter().map(|option| [&*option.instance_type, &*option.zone]).collect();
    let request = serde_json::json!({
        "pool": &*order.pool,
        "nodeClass": &*order.node_class,
        "capacityType": order.capacity_type.as_str(),
        "options": options,
        "reservation": order.reservation.as_deref(),
    });
    Intent { claim: order.claim.to_string(), token: order.token.to_string(), request: request.to_string() }
}
