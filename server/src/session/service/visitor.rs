//! Whoever opened a stream: what they showed at the gate, and what the trust file says of it once they say which cluster they
//! speak for.

use std::net::SocketAddr;
use std::time::SystemTime;

use engine::control::ClusterId;
use fleetwright_proto::v1;
use tonic::{Request, Status, Streaming};
use tracing::warn;

use crate::trust::book::{Book, Shown, Until};
use crate::trust::tls::Peer;

/// Whoever opened a stream.
pub(super) struct Visitor {
    shown: Shown,
    address: Option<SocketAddr>,
}

impl Visitor {
    pub(super) fn of(request: &Request<Streaming<v1::ConnectRequest>>) -> Self {
        let extensions = request.extensions();
        Self {
            shown: extensions.get::<Shown>().cloned().unwrap_or_default(),
            address: extensions.get::<Peer>().map(|peer| peer.address),
        }
    }

    /// Until when the visitor may speak for `cluster`.
    ///
    /// # Errors
    /// Why not; the log says it too, without what was shown.
    pub(super) async fn admit(&self, book: &Book, cluster: &ClusterId) -> Result<Until, Status> {
        book.agent(cluster, &self.shown).await.map_err(|refusal| {
            let peer = self.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
            warn!(%cluster, peer, reason = %refusal, "an agent is refused");
            Status::unauthenticated(format!("not trusted to speak for cluster {cluster:?}: {refusal}"))
        })
    }
}

/// Completes when what was shown holds no longer.
pub(super) async fn ends(until: Until) -> Status {
    match until {
        None => std::future::pending().await,
        Some(until) => {
            let left = until.duration_since(SystemTime::now()).unwrap_or_default();
            tokio::time::sleep(left).await;
            Status::unauthenticated("the token has expired; connect again with a fresh one")
        }
    }
}
