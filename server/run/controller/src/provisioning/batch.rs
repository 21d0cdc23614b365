//! The batch window of pending pods: it opens with the first new pod, closes after an idle time
//! without further new pods, and never exceeds its maximum duration (Karpenter: batching).
//!
//! ```text
//!  pod a      pod b                     idle
//!    │─────────│──────────────────────────┤ plan
//!    └ opens   └ extends                  └ closes
//! ```
//!
//! A window that closes while the cluster is not synced stays due: no pod is dropped, and planning
//! starts when the cluster is synced.

use std::collections::BTreeSet;

use model::{Millis, Text, Timestamp};

/// Pending pods that are planned together.
#[derive(Debug, Clone, Default)]
pub struct BatchWindow {
    opened: Option<Timestamp>,
    latest: Timestamp,
    seen: BTreeSet<Text>,
}

impl BatchWindow {
    /// Adds a pending pod. A pod that is already in the window neither opens nor extends it.
    pub fn add_pod(&mut self, uid: &Text, now: Timestamp) {
        if self.seen.insert(uid.clone()) {
            self.extend(now);
        }
    }

    /// Opens or extends the window for a reason other than a new pod.
    pub fn extend(&mut self, now: Timestamp) {
        self.opened.get_or_insert(now);
        self.latest = now;
    }

    /// When the window closes; `None` while it is not open.
    #[must_use]
    pub fn closes_at(&self, idle: Millis, max: Millis) -> Option<Timestamp> {
        let opened = self.opened?;
        Some((self.latest + idle).min(opened + max))
    }

    /// When the window was opened or extended last; `None` while it is not open.
    #[must_use]
    pub fn extended_at(&self) -> Option<Timestamp> {
        self.opened.map(|_| self.latest)
    }

    /// Closes the window; returns when it was opened.
    pub fn close(&mut self) -> Option<Timestamp> {
        std::mem::take(self).opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(window: &mut BatchWindow, uid: &str, at: i64) {
        window.add_pod(&Text::from(uid), Timestamp::from_millis(at));
    }

    #[test]
    fn each_pod_extends_the_window_once() {
        let mut window = BatchWindow::default();
        assert_eq!(window.closes_at(Millis::from_secs(1), Millis::from_secs(10)), None);
        add(&mut window, "a", 0);
        add(&mut window, "b", 900);
        add(&mut window, "b", 1800);
        assert_eq!(window.closes_at(Millis::from_secs(1), Millis::from_secs(10)), Some(Timestamp::from_millis(1900)));
    }

    #[test]
    fn a_stream_of_pods_closes_the_window_at_its_maximum() {
        let mut window = BatchWindow::default();
        for second in 0..20 {
            add(&mut window, &second.to_string(), second * 500);
        }
        // The last pod is added at 9.5 s; one idle second later would be 10.5 s, but the window
        // opened at 0.
        assert_eq!(window.closes_at(Millis::from_secs(1), Millis::from_secs(10)), Some(Timestamp::from_millis(10_000)));
    }

    #[test]
    fn closing_the_window_removes_its_pods() {
        let mut window = BatchWindow::default();
        add(&mut window, "a", 0);
        window.close();
        add(&mut window, "a", 5000);
        assert_eq!(window.closes_at(Millis::from_secs(1), Millis::from_secs(10)), Some(Timestamp::from_millis(6000)));
    }
}
