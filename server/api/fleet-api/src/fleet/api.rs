//! What the API answers from. The method `X` of the service is answered by [`FleetApi`] in `x_now`, in the module that has what it
//! is about.

use std::sync::Arc;

use fleetwright_proto::v1;
use model::ClusterName;
use tonic::Status;

use super::access::Access;
use super::directory::{Directory, Source};
use super::outages;
use super::positions::Positions;
use super::replica_clients::ReplicaClients;
use super::shared_answers::SharedAnswers;
use crate::conditions::Conditions;
use crate::questions::Questions;
use crate::views::{ResourceChanges, Views};
use api_messages::errors::{self, Reason, store_failed};
use api_messages::resource_names as names;
use settings::suggest::nearest;
use store::lease::Scope;
use store::{Store, clock};

#[derive(Clone)]
pub struct FleetApi {
    /// This replica: one life of the process.
    pub instance: Arc<str>,
    pub owner: Arc<str>,
    pub views: Views,
    pub changes: Arc<ResourceChanges>,
    pub directory: Arc<Directory>,
    pub shared_answers: Arc<SharedAnswers>,
    pub replicas: ReplicaClients,
    pub store: Arc<dyn Store>,
    /// Whether what this replica depends on works.
    pub conditions: Arc<Conditions>,
    pub questions: Questions,
    /// Accounts and regions of the control loops.
    pub scopes: Arc<[Scope]>,
    /// Whether the cloud is simulated, so that no instance is bought.
    pub simulated: bool,
}

fleetwright_rpc::forward_fleet_service!(FleetApi, Access);

impl FleetApi {
    /// Who answers for a cluster. The store is asked about one that is not known: another replica may have got it just now.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if the client is confined to others; `NOT_FOUND` if the cluster does not exist; `UNAVAILABLE` if the
    /// store, which has to be asked, does not answer.
    pub(crate) async fn source(&self, cluster: &ClusterName, access: &Access) -> Result<Source, Status> {
        access.check(cluster)?;
        if let Some(source) = self.directory.source(cluster) {
            return Ok(source);
        }
        let clusters = self.store.clusters().await.map_err(store_failed)?;
        // Only this one: by the time of the answer, the rest of it may be older than what the directory has.
        let is_stored = clusters.iter().any(|stored| **stored == ***cluster);
        if is_stored { Ok(self.directory.add_stored(cluster)) } else { Err(self.unknown_cluster(cluster, access)) }
    }

    fn unknown_cluster(&self, cluster: &str, access: &Access) -> Status {
        let known = self.directory.all(false, clock::now()).into_iter().filter(|row| access.shows(&row.name));
        let known = known.filter_map(|row| row.name.strip_prefix("clusters/").map(str::to_owned));
        let near = nearest(cluster, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let message = format!("there is no cluster {cluster:?}{near}");
        errors::about(Reason::ClusterNotFound, &names::cluster(cluster), message)
    }

    /// Names of the clusters, or of the one cluster, for which no replica that answers decides.
    ///
    /// # Errors
    /// As for [`FleetApi::source`].
    pub(crate) async fn unreachable(&self, only: Option<&ClusterName>, access: &Access) -> Result<Vec<String>, Status> {
        let Some(cluster) = only else {
            return Ok(self.directory.unreachable().into_iter().filter(|name| access.shows(name)).collect());
        };
        match self.source(cluster, access).await? {
            Source::Stored => Ok(vec![names::cluster(cluster)]),
            Source::Own | Source::Replica(_) => Ok(Vec::new()),
        }
    }

    /// Names of the clusters of a replica that did not answer, as far as they were asked for.
    pub(crate) fn unanswered_of(
        &self,
        instance: &Arc<str>,
        only: Option<&ClusterName>,
        access: &Access,
    ) -> Vec<String> {
        let clusters = self.directory.clusters_of(instance).into_iter();
        let asked = clusters.filter(|name| only.is_none_or(|only| only == name) && access.clusters.allows(name));
        asked.map(|name| names::cluster(&name)).collect()
    }

    /// What concerns the whole server, for operators.
    fn notices(&self) -> Vec<String> {
        let simulated = "The cloud is simulated: no instance is bought, and no Node joins a real cluster.";
        let simulated = self.simulated.then(|| simulated.to_owned());
        let outages = outages::problems(&self.conditions, clock::now());
        simulated.into_iter().chain(outages.iter().map(api_messages::notice)).collect()
    }

    pub(super) async fn get_server_info_now(
        &self,
        request: v1::GetServerInfoRequest,
        _: &Access,
    ) -> Result<v1::ServerInfo, Status> {
        names::check_server_info(&request.name)?;
        Ok(v1::ServerInfo {
            name: names::SERVER_INFO.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            replica: self.instance.to_string(),
            notices: self.notices(),
            replicas: self.replicas.list(),
            problems: outages::problems(&self.conditions, clock::now()),
        })
    }

    /// Positions of the decisions of all replicas.
    pub(super) async fn decision_positions(&self, parent: &str, access: &Access) -> Result<String, Status> {
        let mut positions = Positions::of(&self.instance, self.changes.decisions.end());
        if !access.part {
            for (_, mut client) in self.replicas.reachable(&access.clusters) {
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

impl FleetApi {
    /// The API of one replica without others, for tests.
    pub fn alone(
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
            replicas: {
                let replicas = ReplicaClients::new(Arc::default());
                replicas.settle(std::iter::empty());
                replicas
            },
            store,
            conditions: Arc::default(),
            questions: crate::questions::channels(server_settings::ClusterRules::all_in_one(), 1).0,
            scopes: Arc::new([]),
            simulated: true,
        }
    }
}
