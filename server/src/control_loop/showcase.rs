//! What people see, at a pace that eyes and machines can follow.
//!
//! A view of a cluster is taken from the controller when it is shown, not when something changes: in a fleet of a thousand
//! clusters something changes all the time, and nobody looks at most of it. Views are taken a few at a time, since decisions
//! wait meanwhile, and take a bounded share of the loop's time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::control::{ClusterId, RegionController};
use engine::model::Timestamp;
use tokio::time::Instant;

use crate::views::{FleetView, Publisher};

/// Between two views of the fleet, at least.
const PACE: Duration = Duration::from_millis(200);

/// After a view of the fleet comes so many times what it took, at least, before the next.
const SHARE: u32 = 30;

/// After a step comes so many times what it took, at least, before the next.
const STEP_SHARE: u32 = 4;

/// Clusters whose views are taken in one step: with a hundred machines each, a millisecond's work.
const AT_ONCE: usize = 16;

/// The fleet as it was shown last, and what has changed since.
pub(super) struct Showcase {
    publisher: Publisher,
    view: FleetView,
    changed: BTreeSet<ClusterId>,
    /// Those whose views are to be taken before the fleet is shown.
    taking: Vec<ClusterId>,
    /// How long that took so far.
    took: Duration,
    /// When there is to be gone on.
    next: Instant,
}

impl Showcase {
    pub(super) fn new(publisher: Publisher) -> Self {
        Self {
            publisher,
            view: FleetView::default(),
            changed: BTreeSet::new(),
            taking: Vec::new(),
            took: Duration::ZERO,
            next: Instant::now(),
        }
    }

    /// What people see of `cluster` has changed.
    pub(super) fn note(&mut self, cluster: ClusterId) {
        self.changed.insert(cluster);
    }

    /// Completes when there is something to show; never, without a change.
    pub(super) async fn due(&self) {
        if self.changed.is_empty() && self.taking.is_empty() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next).await;
    }

    /// Takes the next views, and shows the fleet when there are none left to take.
    pub(super) fn go_on(&mut self, controller: &RegionController, now: Timestamp) {
        let begun = Instant::now();
        if self.taking.is_empty() {
            self.taking = std::mem::take(&mut self.changed).into_iter().collect();
        }
        for cluster in self.taking.split_off(self.taking.len().saturating_sub(AT_ONCE)) {
            match controller.view(&cluster) {
                Some(view) => self.view.clusters.insert(cluster, Arc::new(view)),
                None => self.view.clusters.remove(&cluster),
            };
        }
        if self.taking.is_empty() {
            self.view.taken_at = now;
            self.publisher.send_replace(Arc::new(self.view.clone()));
        }
        let step = begun.elapsed();
        self.took += step;
        self.next = if self.taking.is_empty() {
            begun + PACE.max(std::mem::take(&mut self.took) * SHARE)
        } else {
            begun + step * (1 + STEP_SHARE)
        };
    }
}
