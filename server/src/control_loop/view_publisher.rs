//! Publishes rate-limited fleet views to the dashboard and `FleetService.Watch`.
//!
//! A cluster's view is read from the controller when it is published, not when the cluster changes:
//! in a fleet of a thousand clusters something changes all the time, and most views have no reader.
//! Views are read a few at a time and take a bounded share of the loop's time, because decisions
//! wait meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller::RegionController;
use model::{ClusterName, Timestamp};
use tokio::time::Instant;

use crate::views::{FleetView, Publisher};

/// Minimum interval between two fleet views.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// Pause after a fleet view, as a multiple of the time it took.
const PAUSE_FACTOR: u32 = 30;

/// Pause after a step, as a multiple of the time it took.
const STEP_PAUSE_FACTOR: u32 = 4;

/// Views read in one step: with a hundred machines each, about a millisecond.
const VIEWS_PER_STEP: usize = 16;

/// The last published fleet view and the clusters changed since.
pub(super) struct ViewPublisher {
    publisher: Publisher,
    view: FleetView,
    changed: BTreeSet<ClusterName>,
    /// Clusters whose views are still to be read for the next fleet view.
    pending: Vec<ClusterName>,
    /// Time spent on the next fleet view so far.
    spent: Duration,
    /// When the next step may begin.
    next: Instant,
}

impl ViewPublisher {
    pub(super) fn new(publisher: Publisher) -> Self {
        Self {
            publisher,
            view: FleetView::default(),
            changed: BTreeSet::new(),
            pending: Vec::new(),
            spent: Duration::ZERO,
            next: Instant::now(),
        }
    }

    /// Marks the view of `cluster` as outdated.
    pub(super) fn mark_changed(&mut self, cluster: ClusterName) {
        self.changed.insert(cluster);
    }

    /// Completes when a step is due; never, without a change.
    pub(super) async fn due(&self) {
        if self.changed.is_empty() && self.pending.is_empty() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next).await;
    }

    /// Reads the next views and publishes the fleet view after the last one.
    pub(super) fn publish_next(&mut self, controller: &RegionController, now: Timestamp) {
        let begun = Instant::now();
        if self.pending.is_empty() {
            self.pending = std::mem::take(&mut self.changed).into_iter().collect();
        }
        for cluster in self.pending.split_off(self.pending.len().saturating_sub(VIEWS_PER_STEP)) {
            match controller.view(&cluster) {
                Some(view) => self.view.clusters.insert(cluster, Arc::new(view)),
                None => self.view.clusters.remove(&cluster),
            };
        }
        if self.pending.is_empty() {
            self.view.taken_at = now;
            self.publisher.send_replace(Arc::new(self.view.clone()));
        }
        let step = begun.elapsed();
        self.spent += step;
        self.next = if self.pending.is_empty() {
            begun + MIN_INTERVAL.max(std::mem::take(&mut self.spent) * PAUSE_FACTOR)
        } else {
            begun + step * (1 + STEP_PAUSE_FACTOR)
        };
    }
}
