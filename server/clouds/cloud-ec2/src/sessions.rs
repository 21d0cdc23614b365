//! Whose credentials calls are made with.
//!
//! Lookups, prices and the queue are shared by all clusters of the account, and made with the account's role. What
//! changes something for one cluster (launch templates, fleets, terminations, instance profiles) is made in a session of
//! that cluster, which the policy of its role confines to the cluster's resources. The cluster is the one of the order,
//! the owner or the query, which the server has authenticated; nothing in an EC2NodeClass chooses a session.
//!
//! Reading order: `role` (the session of one role), `renewal` (sessions that AWS no longer accepts), then the sessions of
//! the clusters here.

pub(crate) mod renewal;
pub(crate) mod role;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_config::SdkConfig;
use model::{ClusterName, Millis, Text, Timestamp};

use self::role::{AssumedRole, RoleSession, role_of};
use crate::call_error::CallError;
use crate::clients::{Clients, Connection};
use crate::settings::Roles;

/// Clients of a cluster without a change during this time are dropped; credentials live as long.
const UNUSED: Millis = Millis::from_hours(1);
/// Time between searches for unused clients.
const SWEEP_INTERVAL: Millis = Millis::from_mins(10);
/// Maximum number of clusters with clients. One more takes the place of the one that was used least recently, and costs
/// that an AssumeRole.
const MAX_CLUSTERS: usize = 5_000;

/// Clients for the changes of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterClients {
    pub(crate) ec2: aws_sdk_ec2::Client,
    config: SdkConfig,
    /// Whose credentials they have, for errors; `None` for the server's own.
    pub(crate) holder: Option<Text>,
}

impl ClusterClients {
    /// A client of IAM, made for each use: a client is kilobytes for each cluster, and an instance profile is made once.
    pub(crate) fn iam(&self) -> aws_sdk_iam::Client {
        aws_sdk_iam::Client::new(&self.config)
    }
}

/// The credentials of one account and region.
#[derive(Debug)]
pub(crate) struct Sessions {
    connection: Connection,
    shared: Clients,
    roles: Roles,
    clock: fn() -> Timestamp,
    clusters: Mutex<Clusters>,
}

#[derive(Debug, Default)]
struct Clusters {
    by_name: BTreeMap<ClusterName, Entry>,
    swept: Timestamp,
}

#[derive(Debug)]
struct Entry {
    session: Arc<RoleSession>,
    clients: ClusterClients,
    used: Timestamp,
}

impl Sessions {
    /// Sessions of `roles`. None is made before the first call that needs it.
    pub(crate) fn new(connection: Connection, roles: Roles, clock: fn() -> Timestamp) -> Self {
        let assumed = roles.account.as_ref().map(|arn| AssumedRole::of_account(arn, &roles));
        let session = assumed.map(|role| Arc::new(RoleSession::new(connection.sts(), role, clock)));
        let shared = connection.clients(session.as_ref());
        Self { connection, shared, roles, clock, clusters: Mutex::default() }
    }

    /// Clients for what all clusters share.
    pub(crate) fn shared(&self) -> &Clients {
        &self.shared
    }

    /// Clients for the changes of `cluster`.
    ///
    /// # Errors
    /// The cluster's name cannot be part of a role.
    pub(crate) fn of(&self, cluster: &ClusterName) -> Result<ClusterClients, CallError> {
        let own =
            || ClusterClients { ec2: self.shared.ec2.clone(), config: self.connection.config().clone(), holder: None };
        self.with_entry(cluster, |entry| entry.clients.clone()).unwrap_or_else(|| Ok(own()))
    }

    /// Checks that there is a session for the changes of `cluster`, and makes one if there is none.
    ///
    /// # Errors
    /// Why its role cannot be assumed.
    pub(crate) async fn check(&self, cluster: &ClusterName) -> Result<(), CallError> {
        match self.with_entry(cluster, |entry| Arc::clone(&entry.session)) {
            Some(session) => session?.credentials().await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether changes for `cluster` are made in a session of its own.
    pub(crate) fn confines(&self, cluster: &ClusterName) -> bool {
        role_of(&self.roles, cluster).is_some()
    }

    /// What `read` takes from the entry of `cluster`, which is made if there is none; `None` without roles.
    fn with_entry<T>(&self, cluster: &ClusterName, read: impl FnOnce(&Entry) -> T) -> Option<Result<T, CallError>> {
        let arn = match role_of(&self.roles, cluster)? {
            Ok(arn) => arn,
            Err(error) => return Some(Err(error)),
        };
        let now = (self.clock)();
        let mut clusters = self.clusters();
        clusters.sweep(now);
        if !clusters.by_name.contains_key(cluster) {
            clusters.make_place(MAX_CLUSTERS);
            clusters.by_name.insert(cluster.clone(), self.entry(cluster, &arn, now));
        }
        let entry = clusters.by_name.get_mut(cluster)?;
        entry.used = now;
        Some(Ok(read(entry)))
    }

    fn entry(&self, cluster: &ClusterName, arn: &str, now: Timestamp) -> Entry {
        let role = AssumedRole::of_cluster(arn, cluster, &self.roles);
        let holder = Some(Text::from(role.to_string()));
        let session = Arc::new(RoleSession::new(self.connection.sts(), role, self.clock));
        let (ec2, config) = self.connection.client_of(&session);
        Entry { session, clients: ClusterClients { ec2, config, holder }, used: now }
    }

    fn clusters(&self) -> MutexGuard<'_, Clusters> {
        // Every change leaves the map valid, so a poisoned lock holds valid data.
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clusters {
    fn sweep(&mut self, now: Timestamp) {
        if now.duration_since(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            self.by_name.retain(|_, entry| now.duration_since(entry.used) < UNUSED);
        }
    }

    fn make_place(&mut self, max: usize) {
        if self.by_name.len() >= max {
            let oldest = self.by_name.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.by_name.remove(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_budget::LocalBudget;
    use crate::testing::REGION;
    use std::sync::atomic::{AtomicI64, Ordering};

    static MINUTES: AtomicI64 = AtomicI64::new(0);

    fn clock() -> Timestamp {
        Timestamp::from_millis(0) + Millis::from_mins(MINUTES.load(Ordering::SeqCst))
    }

    fn sessions(roles: Roles, clock: fn() -> Timestamp) -> Sessions {
        let credentials = aws_sdk_ec2::config::Credentials::new("AKIDTEST", "secret", None, None, "test");
        let connection = Connection::with_credentials(REGION, None, credentials, Arc::<LocalBudget>::default());
        Sessions::new(connection, roles, clock)
    }

    fn roles() -> Roles {
        Roles { cluster: Some("arn:aws:iam::1:role/fleetwright-{cluster}".to_owned()), ..Roles::default() }
    }

    fn known(sessions: &Sessions) -> Vec<String> {
        sessions.clusters().by_name.keys().map(ToString::to_string).collect()
    }

    fn holder(sessions: &Sessions, cluster: &str) -> Option<String> {
        sessions.of(&cluster.into()).unwrap().holder.map(|holder| holder.to_string())
    }

    #[test]
    fn a_cluster_has_clients_of_its_own_role_and_without_roles_the_servers_own() {
        let own = sessions(roles(), || Timestamp::from_millis(0));
        let expected = "the role arn:aws:iam::1:role/fleetwright-blue for cluster blue";
        assert_eq!(holder(&own, "blue").as_deref(), Some(expected));
        assert!(own.of(&"x/admin".into()).is_err());
        let none = sessions(Roles::default(), || Timestamp::from_millis(0));
        assert_eq!(holder(&none, "blue"), None);
        assert!(known(&none).is_empty());
    }

    #[test]
    fn clients_of_a_cluster_without_changes_are_dropped_after_an_hour() {
        let sessions = sessions(roles(), clock);
        for (minute, cluster, expected) in
            [(0, "a", &["a"][..]), (59, "b", &["a", "b"]), (60, "b", &["a", "b"]), (69, "b", &["b"])]
        {
            MINUTES.store(minute, Ordering::SeqCst);
            holder(&sessions, cluster);
            // Searched for at minutes 0, 59 and 69: every ten minutes.
            assert_eq!(known(&sessions), expected, "{minute}");
        }
    }

    #[test]
    fn the_cluster_that_was_used_least_recently_makes_place() {
        let sessions = sessions(roles(), || Timestamp::from_millis(0));
        for cluster in ["a", "b", "c"] {
            holder(&sessions, cluster);
        }
        let mut clusters = sessions.clusters();
        clusters.by_name.get_mut(&ClusterName::from("a")).unwrap().used = Timestamp::from_millis(1);
        clusters.make_place(4);
        assert_eq!(clusters.by_name.len(), 3);
        clusters.make_place(3);
        let left: Vec<_> = clusters.by_name.keys().map(ToString::to_string).collect();
        assert_eq!(left, ["a", "c"], "b and c have one time, and the first of them went");
    }
}
