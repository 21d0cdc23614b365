//! What people see, at a pace that eyes and machines can follow.
//!
//! A view of a cluster is taken from the controller when it is shown, not when something changes: in a fleet of a thousand
//! clusters something changes all the time, and nobody looks at most of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::control::{ClusterId, Controller};
use engine::model::Timestamp;
use tokio::time::Instant;

use crate::views::{FleetView, Publisher};

/// Between two views of the fleet.
const PACE: Duration = Duration::from_millis(200);

/// The fleet as it was shown last, and what has changed since.
pub(super) struct Showcase {
    publisher: Publisher,
    view: FleetView,
    changed: BTreeSet<ClusterId>,
    /// When the fleet may be shown next.
    next: Instant,
}

impl Showcase {
    pub(super) fn new(publisher: Publisher) -> Self {
        Self { publisher, view: FleetView::default(), changed: BTreeSet::new(), next: Instant::now() }
    }

    /// What people see of `cluster` has changed.
    pub(super) fn note(&mut self, cluster: ClusterId) {
        self.changed.insert(cluster);
    }

    /// Completes when there is something to show; never, without a change.
    pub(super) async fn due(&self) {
        if self.changed.is_empty() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next).await;
    }

    /// Shows the fleet as it is at this moment.
    pub(super) fn publish(&mut self, controller: &Controller, now: Timestamp) {
        for cluster in std::mem::take(&mut self.changed) {
            match controller.view(&cluster) {
                Some(view) => self.view.clusters.insert(cluster, Arc::new(view)),
                None => self.view.clusters.remove(&cluster),
            };
        }
        self.view.taken_at = now;
        self.publisher.send_replace(Arc::new(self.view.clone()));
        self.next = Instant::now() + PACE;
    }
}
