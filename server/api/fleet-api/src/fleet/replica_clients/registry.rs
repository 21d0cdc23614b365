//! The replicas that are followed, and whether each answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auth::cluster_access::ClusterAccess;
use fleetwright_proto::v1;
use futures::future::try_join_all;
use store::clock;
use store::replicas::{ReplicaEndpoint, ReplicaRow};
use tokio::sync::watch;
use tonic::Status;

use super::connection::{CapacityClient, ReplicaClient, ReplicaConnection, connect};
use crate::conditions::{Conditions, Dependency, Failure};
use api_messages::timestamp;

struct Known {
    endpoint: ReplicaEndpoint,
    connection: Option<ReplicaConnection>,
    /// Why it is not reached.
    failure: Option<String>,
}

#[derive(Clone)]
pub struct ReplicaClients {
    known: Arc<Mutex<BTreeMap<Arc<str>, Known>>>,
    /// Counts the replicas that began or ceased to answer.
    membership: watch::Sender<u64>,
    /// Whether the replicas that were there at the start have been asked.
    is_settled: Arc<AtomicBool>,
    /// Whether each answers, with the time.
    conditions: Arc<Conditions>,
}

impl ReplicaClients {
    /// Without any, and none looked for.
    pub fn new(conditions: Arc<Conditions>) -> Self {
        Self { known: Arc::default(), membership: watch::channel(0).0, is_settled: Arc::default(), conditions }
    }

    /// Whether the replicas that were there when this one started have been asked: what it says of the fleet is whole.
    pub fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// These replicas are followed. Once each has answered, or failed to, the fleet is known.
    pub(in crate::fleet) fn settle<'i>(&self, mut followed: impl Iterator<Item = &'i Arc<str>>) {
        let known = self.lock();
        if followed.all(|instance| known.contains_key(instance)) {
            self.is_settled.store(true, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replicas that answer, by instance, for requests of clients with this access.
    pub(crate) fn reachable(&self, access: &ClusterAccess) -> Vec<(Arc<str>, ReplicaClient)> {
        let known = self.lock();
        known
            .iter()
            .filter_map(|(instance, one)| Some((Arc::clone(instance), one.connection.as_ref()?.fleet(access))))
            .collect()
    }

    /// Clients of the capacity of the replicas that answer, by instance.
    pub(crate) fn reachable_capacity(&self, access: &ClusterAccess) -> Vec<(Arc<str>, CapacityClient)> {
        let known = self.lock();
        let client = |one: &Known| Some(one.connection.as_ref()?.capacity(access));
        known.iter().filter_map(|(instance, one)| Some((Arc::clone(instance), client(one)?))).collect()
    }

    /// The client of the capacity of the replica of that instance, if it answers.
    pub(crate) fn get_capacity(&self, instance: &str, access: &ClusterAccess) -> Option<CapacityClient> {
        Some(self.lock().get(instance)?.connection.as_ref()?.capacity(access))
    }

    /// Clients on connections of their own for the replicas that answer: watches are long, and a connection has few
    /// streams.
    ///
    /// # Errors
    /// `UNAVAILABLE` when one does not answer now.
    pub(crate) async fn connect_all(&self, access: &ClusterAccess) -> Result<Vec<(Arc<str>, ReplicaClient)>, Status> {
        let endpoints: Vec<(Arc<str>, ReplicaEndpoint)> = {
            let known = self.lock();
            let answering = known.iter().filter(|(_, one)| one.connection.is_some());
            answering.map(|(instance, one)| (Arc::clone(instance), one.endpoint.clone())).collect()
        };
        let connected = endpoints.into_iter().map(async |(instance, endpoint)| match connect(&endpoint).await {
            Ok(connection) => Ok((instance, connection.fleet(access))),
            Err(why) => Err(Status::unavailable(format!("replica {instance} does not answer: {why}; resume"))),
        });
        try_join_all(connected).await
    }

    /// Changes when a replica begins or ceases to answer.
    pub(crate) fn membership_changes(&self) -> watch::Receiver<u64> {
        self.membership.subscribe()
    }

    /// The replica of that instance, if it answers.
    pub(crate) fn get(&self, instance: &str, access: &ClusterAccess) -> Option<ReplicaClient> {
        Some(self.lock().get(instance)?.connection.as_ref()?.fleet(access))
    }

    /// All of them, for operators.
    pub fn list(&self) -> Vec<v1::Replica> {
        let failing = self.conditions.failing(clock::now());
        let known = self.lock();
        let replica = |(instance, one): (&Arc<str>, &Known)| v1::Replica {
            replica: instance.to_string(),
            reachable: one.connection.is_some(),
            reason: one.failure.clone().unwrap_or_default(),
            fail_time: failing.iter().find_map(|condition| {
                let is_this = matches!(&condition.dependency, Dependency::Replica(failing) if failing == instance);
                is_this.then(|| timestamp(condition.since))
            }),
        };
        known.iter().map(replica).collect()
    }

    pub(super) fn set(&self, instance: &Arc<str>, row: &ReplicaRow, reached: Result<ReplicaConnection, String>) {
        let mut known = self.lock();
        let answered = known.get(instance).is_some_and(|one| one.connection.is_some());
        let (connection, failure) = match reached {
            Ok(connection) => (Some(connection), None),
            Err(why) => (None, Some(why)),
        };
        let answers = connection.is_some();
        let result = failure.clone().map_or(Ok(()), |why| Err(Failure::no_answer(why)));
        self.conditions.report(&Dependency::Replica(Arc::clone(instance)), result, clock::now());
        known.insert(Arc::clone(instance), Known { endpoint: row.endpoint.clone(), connection, failure });
        drop(known);
        if answers != answered {
            self.membership.send_modify(|count| *count += 1);
        }
    }

    /// A replica that answers has sent a message.
    pub(super) fn heard(&self, instance: &Arc<str>) {
        self.conditions.report(&Dependency::Replica(Arc::clone(instance)), Ok(()), clock::now());
    }

    pub(super) fn forget(&self, instance: &Arc<str>) {
        self.conditions.forget(&Dependency::Replica(Arc::clone(instance)));
        let known = self.lock().remove(instance);
        if known.is_some_and(|known| known.connection.is_some()) {
            self.membership.send_modify(|count| *count += 1);
        }
    }
}
