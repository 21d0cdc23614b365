//! Notices of interruptions: which the server has recorded from its queue, and which it lacks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cloud::simulated::Ledger;
use model::interruption::InterruptionKind;
use model::{Millis, Text, Timestamp};
use store::Store;
use store::interruptions::InterruptionRow;
use store::lease::Scope;

/// How long the store keeps notices.
const KEPT: Duration = Duration::from_secs(24 * 3_600);

/// Interruptions of this age are expected to have a notice: an hour less than notices are kept.
const EXPECTED: Millis = Millis::from_hours(23);

/// Limit until the last notices are recorded. A receive that failed is repeated after five seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Recorded and missing notices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notices {
    /// Recorded notices of every kind.
    pub(super) recorded: usize,
    pub(super) of_interruptions: usize,
    /// Interrupted instances without a notice.
    pub(super) missing: Vec<Text>,
}

impl Notices {
    /// Compares what is recorded with the interrupted instances.
    pub(super) fn compare(rows: &[InterruptionRow], interrupted: &BTreeSet<Text>) -> Self {
        let spot = InterruptionKind::SpotInterrupted.as_str();
        let announced: BTreeSet<&str> =
            rows.iter().filter(|row| row.kind == spot).map(|row| row.instance.as_str()).collect();
        Self {
            recorded: rows.len(),
            of_interruptions: announced.len(),
            missing: interrupted.iter().filter(|id| !announced.contains(id.as_ref())).cloned().collect(),
        }
    }

    /// Waits until no notice about `interrupted` is missing, within a limit.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn wait(store: &dyn Store, scope: &Scope, interrupted: &BTreeSet<Text>) -> anyhow::Result<Self> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let notices = Self::compare(&read(store, scope).await?, interrupted);
            if notices.missing.is_empty() || Instant::now() > deadline {
                return Ok(notices);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Interrupted instances of `ledger` whose notice is expected at `now`.
pub(super) fn interrupted(ledger: &Ledger, now: Timestamp) -> BTreeSet<Text> {
    let is_expected = |at: Timestamp| now.duration_since(at) <= EXPECTED;
    let recent = ledger.entries().filter(|entry| entry.interrupted.is_some_and(is_expected));
    recent.map(|entry| entry.instance.id.clone()).collect()
}

async fn read(store: &dyn Store, scope: &Scope) -> anyhow::Result<Vec<InterruptionRow>> {
    let (mut rows, mut after) = (Vec::new(), 0);
    loop {
        let page = store.interruptions(scope, after, KEPT).await?;
        let Some(last) = page.last() else { return Ok(rows) };
        after = last.number;
        rows.extend(page.into_iter().map(|stored| stored.row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_instance_without_a_notice_of_its_interruption_is_missing() {
        let row = |instance: &str, kind: InterruptionKind| InterruptionRow {
            instance: instance.to_owned(),
            kind: kind.as_str().to_owned(),
            sent_ms: 0,
            ends_ms: None,
        };
        let rows = [
            row("i-1", InterruptionKind::SpotInterrupted),
            row("i-1", InterruptionKind::InstanceTerminated),
            // It has ended, and nothing announced that.
            row("i-2", InterruptionKind::InstanceTerminated),
        ];
        let interrupted = BTreeSet::from(["i-1", "i-2", "i-3"].map(Text::from));
        let notices = Notices::compare(&rows, &interrupted);
        let missing = ["i-2", "i-3"].map(Text::from).to_vec();
        assert_eq!(notices, Notices { recorded: 3, of_interruptions: 1, missing });
    }
}
