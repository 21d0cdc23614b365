//! What people order, and what they ordered before.

use fleetwright_proto::v1;
use tonic::{Request, Status};
use tracing::warn;

use crate::clock;
use crate::spelling::nearest;
use crate::store::rails::{AuditEntry, AuditRow, Freeze, FreezeOrder, FreezeScope};
use crate::store::{Store, StoreError};
use crate::trust::Client;
use crate::trust::tls::Peer;
use crate::views::FleetView;

/// Entries of audit that are listed when nobody says how many, and at most.
const AUDIT: (u32, u32) = (50, 1_000);

/// Characters of a reason, at most.
const REASON_MAX: usize = 500;

/// Characters of a cluster's UID, at most; Kubernetes gives 36.
const UID_MAX: usize = 200;

/// Who asks: the client that was recognised, else the address at the other end.
pub(super) fn who<T>(request: &Request<T>) -> String {
    let extensions = request.extensions();
    let address = extensions.get::<Peer>().map(|peer| format!("peer {}", peer.address));
    let client = extensions.get::<Client>().map(|client| client.name.clone());
    client.or(address).unwrap_or_else(|| "unknown peer".to_owned())
}

/// Freezes what there is.
pub(super) async fn freeze(
    store: &dyn Store,
    view: &FleetView,
    request: v1::FreezeRequest,
    by: String,
) -> Result<v1::Freeze, Status> {
    let scope = scope(request.scope.unwrap_or_default())?;
    let reason = request.reason.trim().to_owned();
    if reason.is_empty() || reason.chars().count() > REASON_MAX {
        return Err(Status::invalid_argument(format!(
            "a freeze needs a reason of 1 to {REASON_MAX} characters: whoever finds it must know whom to ask and what for"
        )));
    }
    let clusters = store.clusters().await.map_err(unavailable)?;
    exists(&scope, clusters, |cluster| pools(view, cluster))?;
    let now = clock::now().0;
    let until_ms =
        (request.duration_ms > 0).then(|| now.saturating_add(i64::try_from(request.duration_ms).unwrap_or(i64::MAX)));
    let order = FreezeOrder { scope, by, reason, until_ms };
    let id = store.freeze(&order).await.map_err(unavailable)?;
    Ok(message(&Freeze { id, since_ms: now, order }))
}

fn scope(scope: v1::FreezeScope) -> Result<FreezeScope, Status> {
    match (scope.cluster_name, scope.pool_name) {
        (cluster, pool) if cluster.is_empty() && pool.is_empty() => Ok(FreezeScope::Fleet),
        (cluster, pool) if cluster.is_empty() => {
            Err(Status::invalid_argument(format!("say in which cluster NodePool {pool} is to be frozen")))
        }
        (cluster, pool) if pool.is_empty() => Ok(FreezeScope::Cluster(cluster)),
        (cluster, pool) => Ok(FreezeScope::Pool { cluster, pool }),
    }
}

/// The NodePools of a cluster, as far as this replica sees it.
fn pools(view: &FleetView, cluster: &str) -> Option<Vec<String>> {
    let seen = view.clusters.get(cluster).filter(|seen| seen.synced)?;
    Some(seen.pools.iter().map(|known| known.name.to_string()).collect())
}

/// Whether there is something to freeze: a cluster that a replica has decided for, and a NodePool that it has. Where `pools`
/// does not know, the pool is believed to exist.
fn exists(
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
    let near = nearest(word, known.into_iter()).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Status::not_found(format!("nothing is frozen: there is no {what}{near}"))
}

/// Thaws.
pub(super) async fn thaw(store: &dyn Store, id: i64, by: &str) -> Result<(), Status> {
    match store.thaw(id, by).await.map_err(unavailable)? {
        true => Ok(()),
        false => Err(Status::not_found(format!("there is no freeze {id}; `fleetwright freezes` lists them"))),
    }
}

/// What is frozen.
pub(super) async fn freezes(store: &dyn Store) -> Result<Vec<v1::Freeze>, Status> {
    let freezes = store.freezes().await.map_err(unavailable)?;
    Ok(freezes.iter().map(message).collect())
}

/// What people did.
pub(super) async fn audit(store: &dyn Store, request: v1::ListAuditRequest) -> Result<Vec<v1::AuditEntry>, Status> {
    let limit = if request.limit == 0 { AUDIT.0 } else { request.limit.min(AUDIT.1) };
    let before = (request.before_id > 0).then_some(request.before_id);
    let rows = store.read_audit(limit, before).await.map_err(unavailable)?;
    Ok(rows.into_iter().map(audit_message).collect())
}

/// Vouches for the agent of `cluster`, wherever it is decided for.
pub(super) async fn release(store: &dyn Store, cluster: &str, by: &str) -> Result<(), Status> {
    match store.release_quarantine(cluster, by).await.map_err(unavailable)? {
        true => Ok(()),
        false => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster:?}"))),
    }
}

/// Gives a name to the cluster of another UID.
pub(super) async fn accept_uid(
    store: &dyn Store,
    request: &v1::AcceptClusterUidRequest,
    by: &str,
) -> Result<(), Status> {
    let v1::AcceptClusterUidRequest { cluster_name, cluster_uid } = request;
    if cluster_uid.trim().is_empty() || cluster_uid.chars().count() > UID_MAX {
        return Err(Status::invalid_argument(format!(
            "a cluster has a UID of 1 to {UID_MAX} characters: `kubectl get namespace kube-system -o jsonpath={{.metadata.uid}}`"
        )));
    }
    match store.accept_uid(cluster_name, cluster_uid.trim(), by).await.map_err(unavailable)? {
        true => Ok(()),
        false => Err(Status::not_found(format!("no replica has ever decided for a cluster {cluster_name:?}"))),
    }
}

/// Confirms the removals that wait in `cluster`, wherever it is decided for.
pub(super) async fn confirm(store: &dyn Store, cluster: &str, by: &str) -> Result<(), Status> {
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
    }
}

fn audit_message(row: AuditRow) -> v1::AuditEntry {
    let AuditEntry { at_ms, who, what, scope, detail } = row.entry;
    v1::AuditEntry { id: row.id, at_ms, who, what, scope, detail }
}

pub(super) fn unavailable(error: StoreError) -> Status {
    warn!(%error, "an order could not be written down");
    Status::unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(cluster: &str, pool: &str) -> Result<(), Status> {
        let scope = scope(v1::FreezeScope { cluster_name: cluster.into(), pool_name: pool.into() })?;
        let clusters = ["production", "elsewhere"].map(str::to_owned).to_vec();
        exists(&scope, clusters, |cluster| (cluster == "production").then(|| vec!["default".to_owned()]))
    }

    #[test]
    fn what_does_not_exist_is_not_frozen_and_the_nearest_name_is_told() {
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
        assert_eq!(order("x", "").unwrap_err().message(), "nothing is frozen: there is no cluster \"x\"");
    }
}
