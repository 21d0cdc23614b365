//! Authorization of a stream: the credentials of its peer, checked against the trust file once the
//! cluster is known.

use std::net::SocketAddr;

use fleetwright_proto::v1;
use model::ClusterName;
use tonic::{Request, Status, Streaming};
use tracing::warn;

use auth::admission::Admission;
use auth::authorizer::{Authorizer, ExpiresAt, PresentedCredentials};
use auth::middleware;
use auth::tls::Peer;

/// What an agent is told whose name and UID do not belong together: not whose they are.
const UID_REJECTED: &str = "the trust file of the server gives this cluster another UID, or its UID to another cluster; correct \
                            cluster.name in the agent's settings, or cluster-uid in the trust file";

/// Peer of a stream and its credentials.
pub(super) struct StreamAuth {
    credentials: PresentedCredentials,
    address: Option<SocketAddr>,
    admission: Admission,
}

impl StreamAuth {
    pub(super) fn of(request: &Request<Streaming<v1::ConnectRequest>>) -> Self {
        let extensions = request.extensions();
        Self {
            credentials: extensions.get::<PresentedCredentials>().cloned().unwrap_or_default(),
            address: extensions.get::<Peer>().map(|peer| peer.address),
            admission: extensions.get::<Admission>().cloned().unwrap_or_default(),
        }
    }

    /// Address of the peer, for logs and errors.
    pub(super) fn peer(&self) -> String {
        self.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
    }

    /// Authorizes the peer for `cluster`, which states this UID; returns when this has to be checked again.
    ///
    /// # Errors
    /// Unauthenticated. The log has the reason, the peer does not see it, and neither contains the
    /// credentials. Permission denied if the trust file gives the UID to another name, or the name another UID: that is
    /// told.
    pub(super) async fn admit(
        &self,
        authorizer: &Authorizer,
        cluster: &ClusterName,
        uid: &str,
    ) -> Result<ExpiresAt, Status> {
        let until = self.authorize(authorizer, cluster).await?;
        authorizer.check_uid(cluster, uid).map_err(|error| {
            warn!(%cluster, uid, peer = self.peer(), reason = %error, "agent rejected");
            Status::permission_denied(UID_REJECTED)
        })?;
        if self.admission.admit() { Ok(until) } else { Err(middleware::full()) }
    }

    async fn authorize(&self, authorizer: &Authorizer, cluster: &ClusterName) -> Result<ExpiresAt, Status> {
        authorizer.authorize_agent(cluster, &self.credentials).await.map_err(|error| {
            warn!(%cluster, peer = self.peer(), reason = %error, "agent rejected");
            Status::unauthenticated(middleware::AGENT_REJECTED)
        })
    }

    /// Completes when the peer is no longer authorized for `cluster`. Checked again when the
    /// credentials expire, when the trust file changes, and every minute.
    pub(super) async fn revoked(
        &self,
        authorizer: &Authorizer,
        cluster: &ClusterName,
        admitted_until: ExpiresAt,
    ) -> Status {
        let (mut changes, mut until) = (authorizer.changes(), admitted_until);
        while until.is_some() {
            authorizer.recheck_due(&mut changes, until).await;
            match self.authorize(authorizer, cluster).await {
                Ok(again) => until = again,
                Err(_) => return Status::unauthenticated(middleware::AGENT_REVOKED),
            }
        }
        std::future::pending().await
    }
}
