//! Notices that the cloud is asked about before they are followed: reports that an instance stops or has ended, whose drain
//! would wait for nothing, and every notice of a minute in which more machines of the cluster are named than may be
//! deleted by hand at once.
//!
//! Notices come from a queue, and whoever may send to it can state anything. All instances are asked about in one call, and
//! the plan of their pods has not begun by then, so that a storm is drained as fast as single notices. What the cloud
//! does not confirm is a removal that waits: it is asked about again, an operator may confirm it, and it is dropped with
//! its notice.

use std::collections::BTreeMap;

use model::interruption::InterruptionKind;
use model::{ClaimName, Millis, Timestamp};

/// Time within which the machines that notices name are counted.
const WINDOW: Millis = Millis::from_mins(1);

/// Notices of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// When the machines that notices name were named last.
    named: BTreeMap<ClaimName, Timestamp>,
    pub(super) awaited: BTreeMap<(ClaimName, InterruptionKind), AwaitedNotice>,
    /// When the answer to the question in progress is overdue.
    pub(super) asked_until: Option<Timestamp>,
}

/// A notice that the cloud has not confirmed.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedNotice {
    pub(super) ends: Option<Timestamp>,
    pub(super) since: Timestamp,
    /// When the cloud is asked.
    pub(super) ask_at: Timestamp,
}

impl Notices {
    /// Whether the notice is followed without a question, if `most` machines may be named in a minute. What the cloud itself
    /// was asked for is no notice of the queue.
    pub(super) fn is_believed(
        &mut self,
        claim: &ClaimName,
        kind: InterruptionKind,
        most: usize,
        now: Timestamp,
    ) -> bool {
        self.named.retain(|_, at| now.duration_since(*at) < WINDOW);
        self.named.insert(claim.clone(), now);
        match kind {
            InterruptionKind::StatusCheckFailed => true,
            InterruptionKind::InstanceStopped | InterruptionKind::InstanceTerminated => false,
            _ => self.named.len() <= most,
        }
    }

    /// Has the cloud asked about the notice.
    pub(super) fn await_answer(
        &mut self,
        claim: ClaimName,
        kind: InterruptionKind,
        ends: Option<Timestamp>,
        now: Timestamp,
    ) {
        let awaited = self.awaited.entry((claim, kind));
        awaited.or_insert(AwaitedNotice { ends, since: now, ask_at: now }).ends = ends;
    }

    /// When the next question is due, or the answer to the last one overdue.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        self.asked_until.or_else(|| self.awaited.values().map(|notice| notice.ask_at).min())
    }
}
