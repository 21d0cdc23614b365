//! When pending pods are planned: a window that opens with the first pod not seen before, closes when no other comes for a
//! while, and never stays open longer than its maximum (Karpenter: batching).
//!
//! ```text
//!  pod a      pod b                     idle
//!    │─────────│──────────────────────────┤ plan
//!    └ opens   └ extends                  └ closes
//! ```
//!
//! A window that closes while the cluster is not in sync stays due: pods are never dropped, and planning happens as soon
//! as it can.

use std::collections::BTreeSet;

use crate::model::{Text, Timestamp};

/// Pods that wait to be planned together.
#[derive(Debug, Clone, Default)]
pub struct Window {
    opened: Option<Timestamp>,
    latest: Timestamp,
    seen: BTreeSet<Text>,
}

impl Window {
    /// A pod waits. Pods seen in this window before neither open nor extend it.
    pub fn note(&mut self, uid: &Text, now: Timestamp) {
        if self.seen.insert(uid.clone()) {
            self.rouse(now);
        }
    }

    /// Something else made planning worth while.
    pub fn rouse(&mut self, now: Timestamp) {
        self.opened.get_or_insert(now);
        self.latest = now;
    }

    /// When the window closes; `None` while it is not open.
    #[must_use]
    pub fn due(&self, idle_ms: i64, max_ms: i64) -> Option<Timestamp> {
        let opened = self.opened?;
        Some(Timestamp(self.latest.0.saturating_add(idle_ms).min(opened.0.saturating_add(max_ms))))
    }

    /// The pods are planned. Says when the window was opened.
    pub fn close(&mut self) -> Option<Timestamp> {
        std::mem::take(self).opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(window: &mut Window, uid: &str, at: i64) {
        window.note(&Text::from(uid), Timestamp(at));
    }

    #[test]
    fn each_pod_extends_the_window_once() {
        let mut window = Window::default();
        assert_eq!(window.due(1000, 10_000), None);
        note(&mut window, "a", 0);
        note(&mut window, "b", 900);
        note(&mut window, "b", 1800);
        assert_eq!(window.due(1000, 10_000), Some(Timestamp(1900)));
    }

    #[test]
    fn a_stream_of_pods_is_cut_at_the_maximum() {
        let mut window = Window::default();
        for second in 0..20 {
            note(&mut window, &second.to_string(), second * 500);
        }
        // The last pod came at 9.5 s; one idle second later would be 10.5 s, but the window opened at 0.
        assert_eq!(window.due(1000, 10_000), Some(Timestamp(10_000)));
    }

    #[test]
    fn a_closed_window_has_forgotten_its_pods() {
        let mut window = Window::default();
        note(&mut window, "a", 0);
        window.close();
        note(&mut window, "a", 5000);
        assert_eq!(window.due(1000, 10_000), Some(Timestamp(6000)));
    }
}
