//! Whoever opened a stream: what they showed at the gate, and what the trust file says of it once they say which cluster they
//! speak for.

use std::net::SocketAddr;

use engine::control::ClusterId;
use fleetwright_proto::v1;
use tonic::{Request, Status, Streaming};
use tracing::warn;

use crate::trust::admission::Admission;
use crate::trust::book::{Book, Shown, Until};
use crate::trust::gate;
use crate::trust::tls::Peer;

/// Whoever opened a stream.
pub(super) struct Visitor {
    shown: Shown,
    address: Option<SocketAddr>,
    admission: Admission,
}

impl Visitor {
    pub(super) fn of(request: &Request<Streaming<v1::ConnectRequest>>) -> Self {
        let extensions = request.extensions();
        Self {
            shown: extensions.get::<Shown>().cloned().unwrap_or_default(),
            address: extensions.get::<Peer>().map(|peer| peer.address),
            admission: extensions.get::<Admission>().cloned().unwrap_or_default(),
        }
    }

    /// Until when the visitor may speak for `cluster`.
    ///
    /// # Errors
    /// Why not; the log says more than the visitor hears, and neither says what was shown.
    pub(super) async fn admit(&self, book: &Book, cluster: &ClusterId) -> Result<Until, Status> {
        let until = self.judge(book, cluster).await?;
        if self.admission.admit() { Ok(until) } else { Err(gate::full()) }
    }

    async fn judge(&self, book: &Book, cluster: &ClusterId) -> Result<Until, Status> {
        book.agent(cluster, &self.shown).await.map_err(|refusal| {
            let peer = self.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
            warn!(%cluster, peer, reason = %refusal, "an agent is refused");
            Status::unauthenticated(gate::NOT_AN_AGENT)
        })
    }

    /// Completes when the visitor may speak for `cluster` no longer: it is judged again when its time is over, when what it was
    /// judged by has changed, and every minute.
    pub(super) async fn ends(&self, book: &Book, cluster: &ClusterId, admitted: Until) -> Status {
        let (mut changes, mut until) = (book.changes(), admitted);
        while until.is_some() {
            book.may_have_changed(&mut changes, until).await;
            match self.judge(book, cluster).await {
                Ok(again) => until = again,
                Err(_) => return Status::unauthenticated(gate::AGENT_NO_LONGER),
            }
        }
        std::future::pending().await
    }
}
