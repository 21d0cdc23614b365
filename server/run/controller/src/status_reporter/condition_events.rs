//! Events of conditions whose status changes (Karpenter: condition transitions).

use crate::EventReason;
use crate::origin::Origin;
use crate::status::{Condition, EventOrder, ObjectRef, StatusPatch};
use cluster::condition_digest::CONSOLIDATABLE;

/// Conditions of a NodeClaim without such an Event: the first three have an Event of the same name that says more, and
/// `Consolidatable` changes with every pod that comes or goes.
const WITHOUT_EVENTS: [&str; 4] = ["Launched", "Registered", "Initialized", CONSOLIDATABLE];

/// Events for the conditions of `patch` whose status differs from that in `before`, the last status that was written.
pub(super) fn transitions(subject: &ObjectRef, before: &StatusPatch, patch: &StatusPatch) -> Vec<EventOrder> {
    let is_excluded =
        |condition: &&Condition| matches!(subject, ObjectRef::Claim(_)) && WITHOUT_EVENTS.contains(&condition.kind);
    let event = |now: &Condition| {
        let old = before.conditions.iter().find(|old| old.kind == now.kind).map(|old| old.status);
        if old == Some(now.status) {
            return None;
        }
        let (old, new) = (old.map_or("absent", |old| old.as_str()), now.status.as_str());
        let why = if now.message.is_empty() { String::new() } else { format!(": {}", now.message) };
        let message = format!("condition {} is {new} and was {old}, reason {}{why}", now.kind, now.reason);
        let reason = EventReason::Condition(now.kind);
        Some(EventOrder::new(subject.clone(), reason, message, Origin::default()).in_series(format!("{old} {new}")))
    };
    patch.conditions.iter().filter(|condition| !is_excluded(condition)).filter_map(event).collect()
}
