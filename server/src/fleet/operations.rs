//! Operator commands and their audit log.

use std::time::Duration;

use fleetwright_proto::v1;
use model::ClusterName;
use tonic::{Request, Status};
use tracing::warn;

use crate::caller;
use crate::suggest::nearest;
use crate::views::FleetView;
use auth::Client;
use auth::tls::Peer;
use store::guardrails::{AuditEntry, AuditRow, Freeze, FreezeOrder, FreezeScope};
use store::identity::ForgetOutcome;
use store::{Store, StoreError, clock};

/// Default and maximum number of listed audit entries.
const AUDIT: (u32, u32) = (50, 1_000);

/// Maximum characters of a reason.
const MAX_REASON_CHARS: usize = 500;

/// Maximum characters of a cluster UID; Kubernetes uses 36.
const MAX_UID_CHARS: usize = 200;

/// Caller for the audit log.
pub(super) fn caller<T>(request: &Request<T>) -> String {
    let extensions = request.extensions();
    let client = extensions.get::<Client>().map(|client| client.name.as_str());
    let stated = request.metadata().get(caller::USER_KEY).and_then(|value| value.to_str().ok());
    caller::name(client, stated, extensions.get::<Peer>().map(|peer| peer.address.ip()))
}

/// Creates a freeze.
pub(super) async fn freeze(
    store: &dyn Store,
    view: &FleetView,
    request: v1::FreezeRequest,
    by: String,
) -> Result<v1::Freeze, Status> {
    let scope = scope(request.scope.unwrap_or_default())?;
    let reason = request.reason.trim().to_owned();
    if reason.is_empty() || reason.chars().count() > MAX_REASON_CHARS {
        return Err(Status::invalid_argument(format!(
            "a freeze needs a reason of 1 to {MAX_REASON_CHARS} characters, which is shown to other operators"
        )));
    }
    let clusters = store.clusters().await.map_err(unavailable)?;
    check_exists(&scope, clusters, |cluster| pools(view, cluster))?;
    let now = clock::now();
    let until = now + clock::millis(Duration::from_millis(request.duration_ms));
    let until_ms = (request.duration_ms > 0).then_some(until.as_millis());
    let order = FreezeOrder { scope, only_disruption: request.only_disruption, by, reason, until_ms };
    let id = store.freeze(&order).await.map_err(unavailable)?;
    Ok(message(&Freeze { id, since_ms: now.as_millis(), order }))
}

fn scope(scope: v1::FreezeScope) -> Result<FreezeScope, Status> {
    match (scope.cluster_name, scope.pool_name) {
        (cluster, pool) if cluster.is_empty() && pool.is_empty() => Ok(FreezeScope::Fleet),
        (cluster, pool) if cluster.is_empty() => {
            Err(Status::invalid_argument(format!("a freeze of NodePool {pool} needs a cluster name")))
        }
        (cluster, pool) if pool.is_empty() => Ok(FreezeScope::Cluster(cluster)),
        (cluster, pool) => Ok(FreezeScope::Pool { cluster, pool }),
    }
}

/// NodePools of a cluster in this replica's view, if the cluster is synced.
fn pools(view: &FleetView, cluster: &str) -> Option<Vec<String>> {
    let seen = view.clusters.get(cluster).filter(|seen| seen.synced)?;
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

/// Removes a freeze.
pub(super) async fn thaw(store: &dyn Store, id: i64, by: &str) -> Result<(), Status> {
    match store.thaw(id, by).await.map_err(unavailable)? {
        true => Ok(()),
        false => Err(Status::not_found(format!("there is no freeze {id}; `fleetwright freezes` lists them"))),
    }
}

/// Lists the freezes.
pub(super) async fn freezes(store: &dyn Store) -> Result<Vec<v1::Freeze>, Status> {
    let freezes = store.freezes().await.map_err(unavailable)?;
    Ok(freezes.iter().map(message).collect())
}

/// Lists audit entries.
pub(super) async fn audit(store: &dyn Store, request: v1::ListAuditRequest) -> Result<Vec<v1::AuditEntry>, Status> {
    let limit = if request.limit == 0 { AUDIT.0 } else { request.limit.min(AUDIT.1) };
    let before = (request.before_id > 0).then_some(request.before_id);
    let rows = store.read_audit(limit, before).await.map_err(unavailable)?;
    Ok(rows.into_iter().map(audit_message).collect())
}

/// Releases the quarantine of `cluster` on whichever replica decides for it.
pub(super) async fn release(store: &dyn Store, cluster: &ClusterName, by: &str) -> Result<(), Status> {
    match store.release_quarantine(cluster, by).await.map_err(unavailable)? {
        true => Ok(()),
        false => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster:?}"))),
    }
}

/// Assigns a cluster name to the cluster with another UID.
pub(super) async fn accept_uid(
    store: &dyn Store,
    request: &v1::AcceptClusterUidRequest,
    by: &str,
) -> Result<(), Status> {
    let v1::AcceptClusterUidRequest { cluster_name, cluster_uid } = request;
    if cluster_uid.trim().is_empty() || cluster_uid.chars().count() > MAX_UID_CHARS {
        return Err(Status::invalid_argument(format!(
            "a cluster UID has 1 to {MAX_UID_CHARS} characters: `kubectl get namespace kube-system -o jsonpath={{.metadata.uid}}`"
        )));
    }
    match store.accept_uid(cluster_name, cluster_uid.trim(), by).await {
        Ok(true) => Ok(()),
        Err(error @ StoreError::UidTaken { .. }) => Err(Status::failed_precondition(error.to_string())),
        Err(error) => Err(unavailable(error)),
        Ok(false) => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster_name:?}"))),
    }
}

/// Forgets a cluster.
pub(super) async fn forget_cluster(
    store: &dyn Store,
    view: &FleetView,
    request: &v1::ForgetClusterRequest,
    by: &str,
) -> Result<(), Status> {
    let v1::ForgetClusterRequest { cluster_name: cluster, leave_machines } = request;
    if view.clusters.get(cluster.as_str()).is_some_and(|seen| seen.connected) {
        return Err(Status::failed_precondition(format!(
            "the agent of cluster {cluster} is connected, and would make it known again; stop the agent first"
        )));
    }
    match store.forget_cluster(cluster, by, *leave_machines).await.map_err(unavailable)? {
        ForgetOutcome::Forgotten => Ok(()),
        ForgetOutcome::Unknown => {
            let clusters = store.clusters().await.map_err(unavailable)?;
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
pub(super) async fn confirm(store: &dyn Store, cluster: &ClusterName, by: &str) -> Result<(), Status> {
    match store.confirm_removals(cluster, by).await.map_err(unavailable)? {
        true => Ok(()),
        false => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster:?}"))),
    }
}

fn message(freeze: &Freeze) -> v1::Freeze {
    let (cluster_name, pool_name) = match &freeze.order.scope {
        FreezeScope::Fleet => (String::new(), String::new()),
        FreezeScope::Cluster(cluster) => (cluster.clone(), String::new()),
        FreezeScope::Pool { cluster, pool } => (cluster.clone(), pool.clone()),
    };
    v1::Freeze {
        id: freeze.id,
        scope: Some(v1::FreezeScope { cluster_name, pool_name }),
        frozen_by: freeze.order.by.clone(),
        reason: freeze.order.reason.clone(),
        since_ms: freeze.since_ms,
        until_ms: freeze.order.until_ms.unwrap_or(0),
        only_disruption: freeze.order.only_disruption,
    }
}

fn audit_message(row: AuditRow) -> v1::AuditEntry {
    let AuditEntry { at_ms, who, what, scope, detail } = row.entry;
    v1::AuditEntry { id: row.id, at_ms, who, what, scope, detail }
}

pub(super) fn unavailable(error: StoreError) -> Status {
    warn!(%error, "store failed an operator request");
    Status::unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(cluster: &str, pool: &str) -> Result<(), Status> {
        let scope = scope(v1::FreezeScope { cluster_name: cluster.into(), pool_name: pool.into() })?;
        let clusters = ["production", "elsewhere"].map(str::to_owned).to_vec();
        check_exists(&scope, clusters, |cluster| (cluster == "production").then(|| vec!["default".to_owned()]))
    }

    #[test]
    fn an_unknown_scope_is_rejected_with_the_nearest_name() {
        for (cluster, pool) in
            [("", ""), ("production", ""), ("production", "default"), ("elsewhere", "that this replica does not see")]
        {
            assert!(order(cluster, pool).is_ok(), "{cluster}/{pool}");
        }
        for (cluster, pool, near) in [("productoin", "", "production"), ("production", "defualt", "default")] {
            let refused = order(cluster, pool).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::NotFound);
            assert!(refused.message().ends_with(&format!("did you mean {near:?}?")), "{refused}");
        }
        assert_eq!(order("x", "").unwrap_err().message(), "no freeze created: there is no cluster \"x\"");
    }
}
