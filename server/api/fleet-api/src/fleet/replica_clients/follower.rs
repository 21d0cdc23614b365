//! Follows one replica: lists the clusters that it decides for, then watches them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use auth::cluster_access::ClusterAccess;
use fleetwright_proto::v1;
use model::ClusterName;
use prost_types::Duration as ProtoDuration;
use store::clock;
use store::replicas::ReplicaRow;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tracing::info;

use super::connection::{ReplicaClient, ReplicaConnection, connect};
use super::registry::ReplicaClients;
use crate::fleet::directory::Directory;
use api_messages::resource_names::parse_cluster;

/// Delay before a replica that failed is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A replica that is silent for this long does not answer any more: it sends a message each second.
const MAX_SILENCE: Duration = Duration::from_secs(3);

/// Least time between two messages of a watch.
const INTERVAL: ProtoDuration = ProtoDuration { seconds: 0, nanos: 200_000_000 };

/// Follows the replica until `ended`.
pub(super) async fn follow(
    row: ReplicaRow,
    clients: ReplicaClients,
    directory: Arc<Directory>,
    ended: CancellationToken,
) {
    let instance: Arc<str> = row.instance.as_str().into();
    let follower = Follower { instance: Arc::clone(&instance), row, clients: clients.clone(), directory };
    ended.run_until_cancelled(follower.run()).await;
    follower.directory.lose_replica(&instance);
    clients.forget(&instance);
}

struct Follower {
    instance: Arc<str>,
    row: ReplicaRow,
    clients: ReplicaClients,
    directory: Arc<Directory>,
}

impl Follower {
    async fn run(&self) {
        loop {
            let why = match connect(&self.row.endpoint).await {
                Ok(connection) => self.follow_connected(connection).await,
                Err(why) => why,
            };
            self.directory.lose_replica(&self.instance);
            self.clients.set(&self.instance, &self.row, Err(why));
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns why it ended. A watch whose position is lost begins again with a list.
    async fn follow_connected(&self, connection: ReplicaConnection) -> String {
        let mut client = connection.fleet(&ClusterAccess::all());
        loop {
            let ended = match self.list(&mut client).await {
                Ok(token) => {
                    info!(replica = self.row.owner, "following replica");
                    self.clients.set(&self.instance, &self.row, Ok(connection.clone()));
                    self.watch(&mut client, token).await
                }
                Err(status) => status,
            };
            if ended.code() != Code::OutOfRange {
                return ended.message().to_owned();
            }
        }
    }

    /// Lists all its clusters; those that it had before and that are not listed are released.
    async fn list(&self, client: &mut ReplicaClient) -> Result<String, Status> {
        let before = self.directory.clusters_of(&self.instance);
        // A part has no pages: it is what this replica selects of the first page of one that has no end.
        let response = client.list_clusters(v1::ListClustersRequest::default()).await?.into_inner();
        let listed: BTreeSet<ClusterName> =
            response.clusters.iter().filter_map(|row| parse_cluster(&row.name).ok()).collect();
        self.directory.set_of_replica(&self.instance, response.clusters, clock::now());
        let released = before.difference(&listed).cloned().collect();
        self.directory.release_of_replica(&self.instance, &released);
        Ok(response.resume_token)
    }

    async fn watch(&self, client: &mut ReplicaClient, resume_token: String) -> Status {
        let request = v1::WatchClustersRequest { resume_token, min_interval: Some(INTERVAL), ..Default::default() };
        let mut changes = match client.watch_clusters(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return status,
        };
        loop {
            let message = match timeout(MAX_SILENCE, changes.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Status::unavailable("it ended the watch"),
                Ok(Err(status)) => return status,
                Err(_) => return Status::unavailable(format!("it was silent for {} s", MAX_SILENCE.as_secs())),
            };
            self.clients.heard(&self.instance);
            self.directory.set_of_replica(&self.instance, message.clusters, clock::now());
            let released = message.deleted.iter().filter_map(|name| parse_cluster(name).ok()).collect();
            self.directory.release_of_replica(&self.instance, &released);
        }
    }
}
