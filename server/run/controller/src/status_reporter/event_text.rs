//! How Events are composed: the sentence, and the decision that it follows from.

use crate::EventReason;
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use cluster::PodRecord;
use model::Text;

/// Longest message that the API server accepts (Kubernetes: events).
const MAX_MESSAGE_CHARS: usize = 1_000;

impl EventOrder {
    /// An Event whose message is `sentence` and its origin. Its series is the sentence: the number of the decision tells no
    /// Events apart.
    pub(crate) fn new(subject: ObjectRef, reason: EventReason, sentence: impl Into<String>, origin: Origin) -> Self {
        let (sentence, origin) = (sentence.into(), origin.to_string());
        let most = MAX_MESSAGE_CHARS - origin.chars().count();
        let series: String = sentence.chars().take(most).collect();
        let (message, series) = (Text::from(format!("{series}{origin}")), Text::from(series));
        Self { subject, uid: Text::default(), reason, message, series }
    }

    /// An Event of `pod`.
    pub(crate) fn of_pod(pod: &PodRecord, reason: EventReason, sentence: impl Into<String>, origin: Origin) -> Self {
        let uid = pod.uid.clone();
        Self { uid, ..Self::new(ObjectRef::Pod(pod.key.clone()), reason, sentence, origin) }
    }

    /// The same, where numbers in the sentence tell no Events apart.
    pub(crate) fn in_series(self, series: impl Into<String>) -> Self {
        Self { series: Text::from(series.into()), ..self }
    }

    /// The same Event of each of `subjects`.
    pub(crate) fn on_each(self, subjects: Vec<ObjectRef>) -> Vec<Self> {
        subjects.into_iter().map(|subject| Self { subject, ..self.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DecisionId;

    #[test]
    fn a_long_sentence_is_cut_before_its_origin() {
        let (subject, origin) = (ObjectRef::Node("n".into()), Origin::of(DecisionId(42)));
        let event = EventOrder::new(subject, EventReason::FailedScheduling, "ä".repeat(2_000), origin);
        // 1,000 characters, of which " (decision 42)" has 14.
        assert_eq!(event.message.as_ref(), format!("{} (decision 42)", "ä".repeat(986)));
        assert_eq!(event.series.chars().count(), 986);
    }
}
