//! Conversions between cloud events, instructions and the events of the controller.

use cloud::provider::CloudEvent;
use controller::{ClusterEvent, Event, Instruction};
use model::{Millis, Timestamp};

/// A drain waits for pods as long as their PodDisruptionBudgets require.
const DRAIN_TIMEOUT: Millis = Millis::from_hours(24);

/// An unanswered instruction fails after this, and the controller decides again.
const INSTRUCTION_TIMEOUT: Millis = Millis::from_mins(10);

/// When an instruction fails unless the agent has answered it.
pub(super) fn deadline(instruction: &Instruction, now: Timestamp) -> Timestamp {
    let timeout = if matches!(instruction, Instruction::Drain { .. }) { DRAIN_TIMEOUT } else { INSTRUCTION_TIMEOUT };
    now + timeout
}

/// Converts a cloud event. A running instance needs no event: its Node joins.
pub(super) fn to_event(event: CloudEvent) -> Option<ClusterEvent> {
    match event {
        CloudEvent::Running(_) => None,
        CloudEvent::Interrupted { instance, kind, at } => {
            Some(Event::Interrupted { provider_id: instance.provider_id, kind, ends: at }.of(instance.cluster))
        }
        CloudEvent::Terminated(instance) => Some(Event::InstanceGone(instance.provider_id).of(instance.cluster)),
    }
}
