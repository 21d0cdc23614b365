//! Throttles view updates per reader.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};

use crate::views::{FleetView, Views};

/// The current view, then the latest after each change, at least `interval` apart. Ends with the
/// publisher.
pub(crate) fn throttle_views(mut views: Views, interval: Duration) -> impl Stream<Item = Arc<FleetView>> + Send {
    views.mark_changed();
    stream::unfold((views, false), move |(mut views, paced)| async move {
        if paced {
            tokio::time::sleep(interval).await;
        }
        views.changed().await.ok()?;
        let view = views.borrow_and_update().clone();
        Some((view, (views, true)))
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use model::Timestamp;

    use super::*;
    use crate::views;

    #[tokio::test]
    async fn a_slow_reader_skips_views_but_gets_the_latest() {
        let (publisher, reader) = views::channel();
        let mut paced = Box::pin(throttle_views(reader, Duration::ZERO));
        assert_eq!(paced.next().await.unwrap().taken_at, Timestamp::from_millis(0));
        for at in 1..=3 {
            publisher
                .send_replace(Arc::new(FleetView { taken_at: Timestamp::from_millis(at), ..FleetView::default() }));
        }
        assert_eq!(paced.next().await.unwrap().taken_at, Timestamp::from_millis(3));
        drop(publisher);
        assert!(paced.next().await.is_none());
    }

    #[tokio::test]
    async fn views_are_at_least_an_interval_apart() {
        let interval = Duration::from_millis(20);
        let (publisher, reader) = views::channel();
        let mut paced = Box::pin(throttle_views(reader, interval));
        let begun = std::time::Instant::now();
        for at in 1..=10 {
            let _view = paced.next().await.unwrap();
            publisher
                .send_replace(Arc::new(FleetView { taken_at: Timestamp::from_millis(at), ..FleetView::default() }));
        }
        // The first comes at once.
        assert!(begun.elapsed() >= 9 * interval, "{:?}", begun.elapsed());
    }
}
