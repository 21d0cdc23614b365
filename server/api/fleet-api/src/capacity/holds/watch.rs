//! The stream of one hold.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use store::Store;
use tonic::Status;

use super::{get, hold};
use crate::fleet::Access;

/// Interval at which the store is read: rooms of holds change in seconds, and few clients wait for one.
const INTERVAL: Duration = Duration::from_millis(250);

/// The hold now, and whenever it changes, until it has ended or is gone.
///
/// # Errors
/// `NOT_FOUND` when there is no such hold now.
pub async fn watch(
    store: Arc<dyn Store>,
    name: String,
    access: Access,
) -> Result<BoxStream<'static, Result<v1::Hold, Status>>, Status> {
    let first = get(&*store, &name, &access).await?;
    let rest = unfold(Some((store, name, access, first.version, first.state)), |known| async move {
        let (store, name, access, version, state) = known?;
        if state.has_ended() {
            return None;
        }
        loop {
            tokio::time::sleep(INTERVAL).await;
            match get(&*store, &name, &access).await {
                // Nobody writes that a hold has expired while its cluster has no owner.
                Ok(row) if row.version == version && row.state == state => {}
                Ok(row) => {
                    let next = (store, name, access, row.version, row.state);
                    return Some((Ok(hold(&row)), Some(next)));
                }
                Err(error) => return Some((Err(error), None)),
            }
        }
    });
    Ok(futures::stream::iter([Ok(hold(&first))]).chain(rest).boxed())
}
