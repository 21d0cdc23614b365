//! How often changes are sent. HTTP/2 bounds the small frames that a peer has not read yet: a server that is paused for some
//! seconds would end the stream once it goes on, and ask for a snapshot when that helps least. So the changes of a fraction of
//! a second travel together.

use std::time::Duration;

use tokio::time::Instant;

use crate::port::Record;

/// Least time between two messages of changes. A frame below 256 bytes counts with what it lacks, and 32,767 bytes of that are
/// allowed: 128 frames, or 25 seconds of them. A connection without an answer ends after 15 seconds.
const INTERVAL: Duration = Duration::from_millis(200);

/// Changes that wait for the next message.
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    waiting: Vec<Record>,
    /// When the last message was sent.
    sent: Option<Instant>,
}

impl PendingChanges {
    pub(crate) fn add(&mut self, records: Vec<Record>) {
        self.waiting.extend(records);
    }

    /// The changes to send at `now`: all, if the last message is long ago.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Vec<Record>> {
        let is_due = self.due().is_some_and(|due| due.is_none_or(|due| due <= now));
        if !is_due {
            return None;
        }
        self.sent = Some(now);
        Some(std::mem::take(&mut self.waiting))
    }

    /// Drops what waits: a snapshot has it, or the stream has ended.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Completes when changes are to be sent; never without any.
    pub(crate) async fn wait(&self) {
        match self.due() {
            Some(Some(due)) => tokio::time::sleep_until(due).await,
            Some(None) => {}
            None => std::future::pending().await,
        }
    }

    /// When the next message is due, `Some(None)` for at once; `None` without changes.
    fn due(&self) -> Option<Option<Instant>> {
        (!self.waiting.is_empty()).then(|| self.sent.map(|sent| sent + INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use fleetwright_proto::v1;

    use super::*;

    fn changes(count: usize) -> Vec<Record> {
        let removal = || Record::plain(v1::change::Change::Removal(v1::Removal::default()));
        (0..count).map(|_| removal()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_change_is_sent_at_once_and_later_ones_together() {
        let mut pending = PendingChanges::default();
        assert!(pending.take(Instant::now()).is_none(), "nothing waits");
        pending.add(changes(1));
        pending.wait().await;
        assert_eq!(pending.take(Instant::now()).map(|sent| sent.len()), Some(1));
        let begun = Instant::now();
        for _ in 0..490 {
            pending.add(changes(1));
            assert!(pending.take(Instant::now()).is_none());
        }
        pending.wait().await;
        // The clock of the test advances by milliseconds.
        assert!((INTERVAL..INTERVAL + Duration::from_millis(10)).contains(&begun.elapsed()));
        assert_eq!(pending.take(Instant::now()).map(|sent| sent.len()), Some(490));
        pending.add(changes(1));
        pending.clear();
        assert!(pending.take(Instant::now() + INTERVAL).is_none(), "a snapshot has them");
    }

    /// 128 frames of one byte are what HTTP/2 allows.
    #[tokio::test(start_paused = true)]
    async fn a_pause_until_the_connection_ends_leaves_few_messages_unread() {
        let (mut pending, mut messages) = (PendingChanges::default(), 0);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(15) {
            pending.add(changes(1));
            messages += usize::from(pending.take(Instant::now()).is_some());
            tokio::time::advance(Duration::from_millis(20)).await;
        }
        assert_eq!(messages, 75);
    }
}
