//! What the API answers from.

use std::sync::Arc;

use fleetwright_proto::v1;
use model::ClusterName;
use tonic::Status;

use super::directory::{Directory, Source};
use super::positions::Positions;
use super::replica_clients::ReplicaClients;
use super::resource_names as names;
use super::shared_answers::SharedAnswers;
use crate::capacity::errors::{self, Reason, store_failed};
use crate::questions::Questions;
use crate::stores::health::StoreHealth;
use crate::suggest::nearest;
use crate::views::{ResourceChanges, Views};
use store::lease::Scope;
use store::{Store, clock};

/// What the API answers from.
#[derive(Clone)]
pub(crate) struct FleetApi {
    /// This replica: one life of the process.
    pub(crate) instance: Arc<str>,
    /// Owner name of its leases.
    pub(crate) owner: Arc<str>,
    pub(crate) views: Views,
    pub(crate) changes: Arc<ResourceChanges>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) shared_answers: Arc<SharedAnswers>,
    pub(crate) replicas: ReplicaClients,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) store_health: StoreHealth,
    pub(crate) questions: Questions,
    /// Accounts and regions of the control loops.
    pub(crate) scopes: Arc<[Scope]>,
    /// Whether the cloud is simulated, so that no instance is bought.
    pub(crate) simulated: bool,
}

impl FleetApi {
    /// Who answers for a cluster. The store is asked about one that is not known: another replica may have got it just now.
    ///
    /// # Errors
    /// `NOT_FOUND` if the cluster does not exist; `UNAVAILABLE` if the store, which has to be asked, does not answer.
    pub(crate) async fn source(&self, cluster: &ClusterName) -> Result<Source, Status> {
        if let Some(source) = self.directory.source(cluster) {
            return Ok(source);
        }
        let clusters = self.store.clusters().await.map_err(store_failed)?;
        // Only this one: by the time of the answer, the rest of it may be older than what the directory has.
        let is_stored = clusters.iter().any(|stored| **stored == ***cluster);
        if is_stored { Ok(self.directory.add_stored(cluster)) } else { Err(self.unknown_cluster(cluster)) }
    }

    fn unknown_cluster(&self, cluster: &str) -> Status {
        let known = self.directory.all(false, clock::now()).into_iter();
        let known = known.filter_map(|row| row.name.strip_prefix("clusters/").map(str::to_owned));
        let near = nearest(cluster, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let message = format!("there is no cluster {cluster:?}{near}");
        errors::about(Reason::ClusterNotFound, &names::cluster(cluster), message)
    }

    /// Names of the clusters, or of the one cluster, for which no replica that answers decides.
    ///
    /// # Errors
    /// As for [`FleetApi::source`].
    pub(crate) async fn unreachable(&self, only: Option<&ClusterName>) -> Result<Vec<String>, Status> {
        let Some(cluster) = only else { return Ok(self.directory.unreachable()) };
        match self.source(cluster).await? {
            Source::Stored => Ok(vec![names::cluster(cluster)]),
            Source::Own | Source::Replica(_) => Ok(Vec::new()),
        }
    }

    /// Names of the clusters of a replica that did not answer, as far as they were asked for.
    pub(crate) fn unanswered_of(&self, instance: &Arc<str>, only: Option<&ClusterName>) -> Vec<String> {
        let clusters = self.directory.clusters_of(instance).into_iter();
        clusters.filter(|name| only.is_none_or(|only| only == name)).map(|name| names::cluster(&name)).collect()
    }

    /// What concerns the whole server, for operators.
    pub(super) fn notices(&self) -> Vec<String> {
        let notices = [
            (self.simulated, "The cloud is simulated: no instance is bought, and no Node joins a real cluster."),
            (!self.store_health.is_up(), "The store is unavailable: nothing is decided until it answers."),
        ];
        notices.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text.to_owned()).collect()
    }

    /// Positions of the decisions of all replicas.
    pub(super) async fn decision_positions(&self, parent: &str, part: bool) -> Result<String, Status> {
        let mut positions = Positions::of(&self.instance, self.changes.decisions.end());
        if !part {
            for (_, mut client) in self.replicas.reachable() {
                // Of the part it is the position alone: every replica reads the same decisions from the store.
                let request = v1::ListDecisionsRequest { parent: parent.to_owned(), ..Default::default() };
                // A replica that does not answer begins at its first decision.
                if let Ok(answer) = client.list_decisions(request).await {
                    positions.extend(Positions::parse(&answer.into_inner().resume_token)?);
                }
            }
        }
        Ok(positions.token())
    }
}

#[cfg(test)]
impl FleetApi {
    /// The API of one replica without others.
    pub(crate) fn alone(
        views: Views,
        (directory, changes): (Arc<Directory>, Arc<ResourceChanges>),
        store: Arc<dyn Store>,
    ) -> Self {
        Self {
            instance: "me/1".into(),
            owner: "me".into(),
            views,
            changes,
            directory,
            shared_answers: Arc::default(),
            replicas: ReplicaClients::default(),
            store,
            store_health: crate::stores::health::channel().1,
            questions: crate::questions::channels(crate::config::ClusterRules::all_in_one(), 1).0,
            scopes: Arc::new([]),
            simulated: true,
        }
    }
}
