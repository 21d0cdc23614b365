//! What a request may see and act on: the clusters that the trust file confines its client to. Every method gets it with its
//! request. A replica that passes a request on tells the other one of the client's confinement, and of no other replica's word
//! is anything believed.

use auth::Client;
use auth::cluster_access::{CLUSTERS_KEY, ClusterAccess};
use auth::tls::Peer;
use tonic::{Request, Status};

use super::replica_clients::PART_KEY;
use api_messages::errors::{self, Reason};
use api_messages::{caller, resource_names as names};

/// What a request may see and act on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// Whether another replica asks for what this one knows itself.
    pub part: bool,
    /// Clusters that the client is confined to.
    pub clusters: ClusterAccess,
    /// Who asks, for the audit log.
    pub by: String,
    client: String,
}

impl Access {
    /// That of a request.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when what the other replica states is not readable.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let client = request.extensions().get::<Client>();
        let is_replica = client.is_none_or(|client| client.is_replica);
        let stated = request.metadata().get(CLUSTERS_KEY).filter(|_| is_replica);
        let clusters = match (stated, client) {
            (Some(stated), _) => ClusterAccess::of_metadata(stated.to_str().unwrap_or_default())
                .map_err(|error| Status::invalid_argument(error.to_string()))?,
            (None, Some(client)) => client.clusters.clone(),
            (None, None) => ClusterAccess::all(),
        };
        let part = is_replica && request.metadata().contains_key(PART_KEY);
        let client = client.map_or_else(|| "this client".to_owned(), |client| client.name.clone());
        Ok(Self { part, clusters, by: caller(request), client })
    }

    /// Checks the access to a cluster. The answer does not depend on whether the cluster exists.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`.
    pub fn check(&self, cluster: &str) -> Result<(), Status> {
        if self.clusters.allows(cluster) {
            return Ok(());
        }
        let message = format!(
            "{} is confined to {} (clusters in the trust file), and {cluster:?} is none of them",
            self.client, self.clusters
        );
        Err(errors::about(Reason::PermissionDenied, &names::cluster(cluster), message))
    }

    /// Checks the access to what concerns the whole fleet.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`.
    pub(crate) fn check_fleet(&self, what: &str) -> Result<(), Status> {
        if self.clusters.is_of_all() {
            return Ok(());
        }
        let message = format!(
            "{what} needs a client of all clusters; {} is confined to {} (clusters in the trust file)",
            self.client, self.clusters
        );
        Err(errors::status(Reason::PermissionDenied, message))
    }

    /// Whether the resource of this name is of a cluster that the client may see.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.clusters.is_of_all() || name.split('/').nth(1).is_some_and(|cluster| self.clusters.allows(cluster))
    }
}

/// Who asks, for the audit log.
fn caller<T>(request: &Request<T>) -> String {
    let extensions = request.extensions();
    let client = extensions.get::<Client>().map(|client| client.name.as_str());
    let stated = request.metadata().get(caller::USER_KEY).and_then(|value| value.to_str().ok());
    caller::name(client, stated, extensions.get::<Peer>().map(|peer| peer.address.ip()))
}

#[cfg(test)]
mod tests {
    use auth::{ClientQuota, Scope};
    use tonic::Code;

    use super::*;

    fn request(client: Option<(&[&str], bool)>, metadata: &[(&'static str, &str)]) -> Request<()> {
        let mut request = Request::new(());
        if let Some((patterns, is_replica)) = client {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            let clusters = ClusterAccess::of_patterns(&patterns).unwrap_or_default();
            let (name, scope, quota) = ("team".to_owned(), Scope::Operate, ClientQuota::default());
            request.extensions_mut().insert(Client { name, scope, quota, clusters, is_replica });
        }
        for (key, value) in metadata {
            request.metadata_mut().insert(*key, value.parse().expect("a value"));
        }
        request
    }

    #[test]
    fn a_client_is_confined_by_its_entry_and_the_word_of_a_replica_alone() {
        let allows = |request: &Request<()>| {
            let access = Access::of(request).expect("it is readable");
            (access.part, access.clusters.allows("team-a"), access.clusters.allows("other"))
        };
        let stated = [(PART_KEY, "1"), (CLUSTERS_KEY, "*")];
        assert_eq!(allows(&request(Some((&["team-*"], false)), &[])), (false, true, false));
        assert_eq!(allows(&request(Some((&["team-*"], false)), &stated)), (false, true, false), "its own word");
        assert_eq!(allows(&request(Some((&[], true)), &[(PART_KEY, "1")])), (true, true, true));
        let passed_on = [(PART_KEY, "1"), (CLUSTERS_KEY, "team-*")];
        assert_eq!(allows(&request(Some((&[], true)), &passed_on)), (true, true, false));
        let unreadable = Access::of(&request(Some((&[], true)), &[(CLUSTERS_KEY, "a b")]));
        assert_eq!(unreadable.err().map(|status| status.code()), Some(Code::InvalidArgument));
    }

    #[test]
    fn what_is_denied_is_the_same_for_every_cluster() {
        let access = Access::of(&request(Some((&["team-*"], false)), &[])).expect("it is readable");
        let denied = access.check("other").expect_err("it is denied");
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert_eq!(
            denied.message(),
            "team is confined to clusters team-* (clusters in the trust file), and \"other\" is none of them"
        );
        assert!(access.check("team-b").is_ok() && access.check_fleet("a freeze of the fleet").is_err());
        assert!(access.shows("clusters/team-a/nodes/n") && !access.shows("clusters/other/nodes/n"));
        assert!(!access.shows("freezes"));
    }
}
