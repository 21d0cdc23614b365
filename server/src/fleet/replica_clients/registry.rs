//! The replicas that are followed, and whether each answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleetwright_proto::v1;
use futures::future::try_join_all;
use store::replicas::{ReplicaEndpoint, ReplicaRow};
use tokio::sync::watch;
use tonic::Status;
use tracing::warn;

use super::connection::{CapacityClient, ReplicaClient, ReplicaConnection, connect};

struct Known {
    endpoint: ReplicaEndpoint,
    connection: Option<ReplicaConnection>,
    /// Why it is not reached.
    failure: Option<String>,
}

/// The other replicas.
#[derive(Clone)]
pub(crate) struct ReplicaClients {
    known: Arc<Mutex<BTreeMap<Arc<str>, Known>>>,
    /// Counts the replicas that began or ceased to answer.
    membership: watch::Sender<u64>,
}

impl Default for ReplicaClients {
    fn default() -> Self {
        Self { known: Arc::default(), membership: watch::channel(0).0 }
    }
}

impl ReplicaClients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replicas that answer, by instance.
    pub(crate) fn reachable(&self) -> Vec<(Arc<str>, ReplicaClient)> {
        let known = self.lock();
        known
            .iter()
            .filter_map(|(instance, one)| Some((Arc::clone(instance), one.connection.as_ref()?.fleet.clone())))
            .collect()
    }

    /// Clients of the capacity of the replicas that answer, by instance.
    pub(crate) fn reachable_capacity(&self) -> Vec<(Arc<str>, CapacityClient)> {
        let known = self.lock();
        let client = |one: &Known| Some(one.connection.as_ref()?.capacity.clone());
        known.iter().filter_map(|(instance, one)| Some((Arc::clone(instance), client(one)?))).collect()
    }

    /// The client of the capacity of the replica of that instance, if it answers.
    pub(crate) fn get_capacity(&self, instance: &str) -> Option<CapacityClient> {
        Some(self.lock().get(instance)?.connection.as_ref()?.capacity.clone())
    }

    /// Clients on connections of their own for the replicas that answer: watches are long, and a connection has few
    /// streams.
    ///
    /// # Errors
    /// `UNAVAILABLE` when one does not answer now.
    pub(crate) async fn connect_all(&self) -> Result<Vec<(Arc<str>, ReplicaClient)>, Status> {
        let endpoints: Vec<(Arc<str>, ReplicaEndpoint)> = {
            let known = self.lock();
            let answering = known.iter().filter(|(_, one)| one.connection.is_some());
            answering.map(|(instance, one)| (Arc::clone(instance), one.endpoint.clone())).collect()
        };
        let connected = endpoints.into_iter().map(async |(instance, endpoint)| match connect(&endpoint).await {
            Ok(connection) => Ok((instance, connection.fleet)),
            Err(why) => Err(Status::unavailable(format!("replica {instance} does not answer: {why}; resume"))),
        });
        try_join_all(connected).await
    }

    /// Changes when a replica begins or ceases to answer.
    pub(crate) fn membership_changes(&self) -> watch::Receiver<u64> {
        self.membership.subscribe()
    }

    /// The replica of that instance, if it answers.
    pub(crate) fn get(&self, instance: &str) -> Option<ReplicaClient> {
        Some(self.lock().get(instance)?.connection.as_ref()?.fleet.clone())
    }

    /// All of them, for operators.
    pub(crate) fn list(&self) -> Vec<v1::Replica> {
        let known = self.lock();
        let replica = |(instance, one): (&Arc<str>, &Known)| v1::Replica {
            replica: instance.to_string(),
            reachable: one.connection.is_some(),
            reason: one.failure.clone().unwrap_or_default(),
        };
        known.iter().map(replica).collect()
    }

    pub(super) fn set(&self, instance: &Arc<str>, row: &ReplicaRow, reached: Result<ReplicaConnection, String>) {
        let mut known = self.lock();
        let before = known.get(instance).and_then(|one| one.failure.clone());
        let answered = known.get(instance).is_some_and(|one| one.connection.is_some());
        let (connection, failure) = match reached {
            Ok(connection) => (Some(connection), None),
            Err(why) => (None, Some(why)),
        };
        if failure.is_some() && failure != before {
            let reason = failure.as_deref().unwrap_or_default();
            warn!(replica = row.owner, reason, "replica not reachable; its clusters are shown as they were last");
        }
        let answers = connection.is_some();
        known.insert(Arc::clone(instance), Known { endpoint: row.endpoint.clone(), connection, failure });
        drop(known);
        if answers != answered {
            self.membership.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn forget(&self, instance: &Arc<str>) {
        let known = self.lock().remove(instance);
        if known.is_some_and(|known| known.connection.is_some()) {
            self.membership.send_modify(|count| *count += 1);
        }
    }
}
