//! Operator commands and their audit log.

use std::time::Duration;

use fleetwright_proto::v1;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use crate::views::FleetView;
use api_messages::errors::{self, store_failed};
use api_messages::resource_names as names;
use settings::suggest::nearest;
use store::guardrails::{Freeze, FreezeOrder, FreezeScope};
use store::identity::ForgetOutcome;
use store::{StoreError, clock};

const MAX_REASON_CHARS: usize = 500;

/// Maximum characters of a cluster UID; Kubernetes uses 36.
const MAX_UID_CHARS: usize = 200;

impl FleetApi {
    pub(super) async fn create_freeze_now(
        &self,
        request: v1::CreateFreezeRequest,
        access: &Access,
    ) -> Result<v1::Freeze, Status> {
        let request = request.freeze.ok_or_else(|| errors::invalid_field("freeze", "missing, but required"))?;
        let scope = scope(&request.target)?;
        check_access(access, &scope)?;
        let ttl = ttl(request.ttl)?;
        let reason = request.reason.trim().to_owned();
        if reason.is_empty() || reason.chars().count() > MAX_REASON_CHARS {
            let sentence = format!(
                "a freeze needs a reason of 1 to {MAX_REASON_CHARS} characters, which is shown to other operators"
            );
            return Err(errors::invalid_argument("freeze.reason", sentence));
        }
        let mut clusters = self.store.clusters().await.map_err(store_failed)?;
        clusters.retain(|cluster| access.clusters.allows(cluster));
        check_exists(&scope, clusters, |cluster| pools(&self.views.borrow(), cluster))?;
        let now = clock::now();
        let until_ms = ttl.map(|ttl| (now + clock::millis(ttl)).as_millis());
        let order =
            FreezeOrder { scope, only_disruption: request.only_disruption, by: access.by.clone(), reason, until_ms };
        let id = self.store.freeze(&order).await.map_err(store_failed)?;
        Ok(message(&Freeze { id, since_ms: now.as_millis(), order }))
    }

    pub(super) async fn get_freeze_now(
        &self,
        request: v1::GetFreezeRequest,
        access: &Access,
    ) -> Result<v1::Freeze, Status> {
        let id = names::parse_number(&request.name, "freezes")?;
        let freezes = self.store.freezes().await.map_err(store_failed)?;
        // Of another cluster it is as unknown as one that has ended.
        let found = freezes.iter().find(|freeze| freeze.id == id && shows(access, &freeze.order.scope));
        found
            .map(message)
            .ok_or_else(|| Status::not_found(format!("there is no freeze {id} in force; it may have ended")))
    }

    pub(super) async fn delete_freeze_now(
        &self,
        request: v1::DeleteFreezeRequest,
        access: &Access,
    ) -> Result<(), Status> {
        let id = names::parse_number(&request.name, "freezes")?;
        if !access.clusters.is_of_all() {
            // One that is over is unknown to a client that is confined: nothing says any more whose it was.
            let freezes = self.store.freezes().await.map_err(store_failed)?;
            let known = freezes.iter().find(|freeze| freeze.id == id && shows(access, &freeze.order.scope));
            check_access(access, &known.ok_or_else(|| no_freeze(id))?.order.scope)?;
        }
        match self.store.thaw(id, &access.by).await.map_err(store_failed)? {
            true => Ok(()),
            false => Err(no_freeze(id)),
        }
    }

    /// Releases the quarantine of `cluster` on whichever replica decides for it.
    pub(super) async fn release_quarantine_now(
        &self,
        request: v1::ReleaseQuarantineRequest,
        access: &Access,
    ) -> Result<v1::ReleaseQuarantineResponse, Status> {
        let cluster = names::parse_cluster(&request.name)?;
        access.check(&cluster)?;
        match self.store.release_quarantine(&cluster, &access.by).await.map_err(store_failed)? {
            true => Ok(v1::ReleaseQuarantineResponse {}),
            false => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster:?}"))),
        }
    }

    /// Assigns a cluster name to the cluster with another UID.
    pub(super) async fn accept_cluster_uid_now(
        &self,
        request: v1::AcceptClusterUidRequest,
        access: &Access,
    ) -> Result<v1::AcceptClusterUidResponse, Status> {
        let (cluster_name, cluster_uid) = (names::parse_cluster(&request.name)?, &request.uid);
        access.check(&cluster_name)?;
        if cluster_uid.trim().is_empty() || cluster_uid.chars().count() > MAX_UID_CHARS {
            let sentence = format!(
                "a cluster UID has 1 to {MAX_UID_CHARS} characters: `kubectl get namespace kube-system -o jsonpath={{.metadata.uid}}`"
            );
            return Err(errors::invalid_argument("uid", sentence));
        }
        match self.store.accept_uid(&cluster_name, cluster_uid.trim(), &access.by).await {
            Ok(true) => Ok(v1::AcceptClusterUidResponse {}),
            Err(StoreError::UidTaken { .. }) if !access.clusters.is_of_all() => Err(Status::failed_precondition(
                "another cluster has this UID; a client of all clusters sees which one",
            )),
            Err(error @ StoreError::UidTaken { .. }) => Err(Status::failed_precondition(error.to_string())),
            Err(error) => Err(store_failed(error)),
            Ok(false) => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster_name:?}"))),
        }
    }

    pub(super) async fn forget_cluster_now(
        &self,
        request: v1::ForgetClusterRequest,
        access: &Access,
    ) -> Result<v1::ForgetClusterResponse, Status> {
        let cluster = &*names::parse_cluster(&request.name)?.to_string();
        access.check(cluster)?;
        let seen = self.directory.get(&cluster.into(), clock::now());
        if seen.is_some_and(|seen| seen.connected && !seen.stale) {
            return Err(Status::failed_precondition(format!(
                "the agent of cluster {cluster} is connected, and would make it known again; stop the agent first"
            )));
        }
        match self.store.forget_cluster(cluster, &access.by, request.leave_machines).await.map_err(store_failed)? {
            ForgetOutcome::Forgotten => Ok(v1::ForgetClusterResponse {}),
            ForgetOutcome::Unknown => {
                let mut clusters = self.store.clusters().await.map_err(store_failed)?;
                clusters.retain(|cluster| access.clusters.allows(cluster));
                let near = near_miss(cluster, clusters);
                Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster:?}{near}")))
            }
            ForgetOutcome::HasOpenLaunches(count) => Err(Status::failed_precondition(format!(
                "cluster {cluster} has {count} machines that were launched for it and not removed; delete its NodePools and wait until \
                 no NodeClaim is left, or pass --leave-machines: the machines then continue to run, and to cost, until they are \
                 terminated in the cloud"
            ))),
        }
    }

    /// Confirms the waiting removals of `cluster` on whichever replica decides for it.
    pub(super) async fn confirm_removals_now(
        &self,
        request: v1::ConfirmRemovalsRequest,
        access: &Access,
    ) -> Result<v1::ConfirmRemovalsResponse, Status> {
        let cluster = names::parse_cluster(&request.name)?;
        access.check(&cluster)?;
        match self.store.confirm_removals(&cluster, &access.by).await.map_err(store_failed)? {
            true => Ok(v1::ConfirmRemovalsResponse {}),
            false => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster:?}"))),
        }
    }
}

/// How long; `None` for ever.
fn ttl(ttl: Option<prost_types::Duration>) -> Result<Option<Duration>, Status> {
    let Some(ttl) = ttl else { return Ok(None) };
    match Duration::try_from(ttl) {
        Ok(ttl) if ttl > Duration::ZERO => Ok(Some(ttl)),
        _ => {
            let sentence = "ttl must be longer than 0; without it the freeze lasts until it is thawed";
            Err(errors::invalid_argument("freeze.ttl", sentence))
        }
    }
}

fn scope(target: &str) -> Result<FreezeScope, Status> {
    match target.split('/').count() {
        _ if target.is_empty() => Ok(FreezeScope::Fleet),
        2 => Ok(FreezeScope::Cluster(names::parse_target_cluster(target)?.to_string())),
        _ => {
            let (cluster, pool) = names::parse_target_pool(target)?;
            Ok(FreezeScope::Pool { cluster: cluster.to_string(), pool })
        }
    }
}

/// # Errors
/// `PERMISSION_DENIED` if the client is confined to other clusters.
fn check_access(access: &Access, scope: &FreezeScope) -> Result<(), Status> {
    match scope {
        FreezeScope::Fleet => access.check_fleet("a freeze of the whole fleet"),
        FreezeScope::Cluster(cluster) | FreezeScope::Pool { cluster, .. } => access.check(cluster),
    }
}

/// Whether a client may see a freeze of this scope: one of the fleet concerns its clusters too.
pub(super) fn shows(access: &Access, scope: &FreezeScope) -> bool {
    *scope == FreezeScope::Fleet || check_access(access, scope).is_ok()
}

/// NodePools of a cluster in this replica's view, if the cluster is synced.
fn pools(view: &FleetView, cluster: &str) -> Option<Vec<String>> {
    let seen = view.view(cluster).filter(|seen| seen.synced)?;
    Some(seen.pools.iter().map(|known| known.name.to_string()).collect())
}

/// Checks that the scope exists: a cluster that some replica has decided for, and one of its
/// NodePools. When the pools are unknown, the pool is assumed to exist.
fn check_exists(
    scope: &FreezeScope,
    clusters: Vec<String>,
    pools: impl FnOnce(&str) -> Option<Vec<String>>,
) -> Result<(), Status> {
    let (cluster, pool) = match scope {
        FreezeScope::Fleet => return Ok(()),
        FreezeScope::Cluster(cluster) => (cluster, None),
        FreezeScope::Pool { cluster, pool } => (cluster, Some(pool)),
    };
    if !clusters.contains(cluster) {
        return Err(missing(&format!("cluster {cluster:?}"), cluster, clusters));
    }
    match pool.zip(pools(cluster)) {
        Some((pool, known)) if !known.contains(pool) => {
            Err(missing(&format!("NodePool {pool:?} in cluster {cluster:?}"), pool, known))
        }
        _ => Ok(()),
    }
}

fn missing(what: &str, word: &str, known: Vec<String>) -> Status {
    Status::not_found(format!("no freeze created: there is no {what}{}", near_miss(word, known)))
}

fn near_miss(word: &str, known: Vec<String>) -> String {
    nearest(word, known.into_iter()).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

fn no_freeze(id: i64) -> Status {
    Status::not_found(format!("there is no freeze {id}; `fleetwright freezes` lists them"))
}

pub(super) fn message(freeze: &Freeze) -> v1::Freeze {
    let target = match &freeze.order.scope {
        FreezeScope::Fleet => String::new(),
        FreezeScope::Cluster(cluster) => names::cluster(cluster),
        FreezeScope::Pool { cluster, pool } => names::child(cluster, "pools", pool),
    };
    v1::Freeze {
        name: format!("freezes/{}", freeze.id),
        target,
        creator: freeze.order.by.clone(),
        reason: freeze.order.reason.clone(),
        create_time: Some(api_messages::from_millis(freeze.since_ms)),
        expire_time: freeze.order.until_ms.map(api_messages::from_millis),
        only_disruption: freeze.order.only_disruption,
        ttl: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(target: &str) -> Result<(), Status> {
        let scope = scope(target)?;
        let clusters = ["production", "elsewhere"].map(str::to_owned).to_vec();
        check_exists(&scope, clusters, |cluster| (cluster == "production").then(|| vec!["default".to_owned()]))
    }

    #[test]
    fn an_unknown_scope_is_rejected_with_the_nearest_name() {
        for target in
            ["", "clusters/production", "clusters/production/pools/default", "clusters/elsewhere/pools/not-seen"]
        {
            assert!(order(target).is_ok(), "{target}");
        }
        for (target, near) in [("clusters/productoin", "production"), ("clusters/production/pools/defualt", "default")]
        {
            let refused = order(target).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::NotFound);
            assert!(refused.message().ends_with(&format!("did you mean {near:?}?")), "{refused}");
        }
        assert_eq!(order("clusters/x").unwrap_err().message(), "no freeze created: there is no cluster \"x\"");
        assert_eq!(order("production").unwrap_err().code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn a_freeze_lasts_for_ever_or_for_a_time_above_zero() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        assert_eq!(ttl(None).unwrap(), None);
        assert_eq!(ttl(seconds(5)).unwrap(), Some(Duration::from_secs(5)));
        assert!(ttl(seconds(0)).is_err());
        assert!(ttl(seconds(-5)).is_err());
    }
}
