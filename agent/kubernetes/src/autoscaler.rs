//! Detects other autoscalers in the cluster.
//!
//! Cluster Autoscaler is detected by its leader election Lease. For Karpenter there are three
//! signals, because a NodeClaim beside an active Karpenter is launched twice, its Lease may be in
//! any namespace, and without leader election there is none: a Lease that is renewed, a Deployment
//! of its name with more than 0 replicas, or a recent write to a NodePool, NodeClaim or
//! EC2NodeClass. The operator overrides the detection in the agent's configuration.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use serde::Deserialize;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api::Api;
use crate::error::{ApiError, ok_if_not_found};
use crate::object_cache::ObjectCache;
use crate::resource::{DEPLOYMENT, LEASE};
use crate::timestamps::{now_ms, parse_millis};

/// Detection interval: an autoscaler that starts is detected before it launches, because its own
/// batching takes longer.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Interval at which the Lease of Cluster Autoscaler is looked for while there is none, which is most clusters: what it
/// launches for is known from its Events too.
const ABSENT_INTERVAL: Duration = Duration::from_secs(60);

/// Time for which a write of Karpenter is evidence that it is active, in milliseconds: Karpenter
/// writes to its pools every few minutes.
const WRITE_EVIDENCE_MS: i64 = 15 * 60_000;

/// Name of Karpenter's Deployment, and of Karpenter in records.
const KARPENTER: &str = "karpenter";

/// Name of Karpenter's leader election Lease (the default; the namespace is a setting of
/// Karpenter).
const KARPENTER_LEASE: &str = "karpenter-leader-election";

/// Cluster Autoscaler, and namespace and name of its Lease.
const CLUSTER_AUTOSCALER: (&str, &str, &str) = ("cluster-autoscaler", "kube-system", "cluster-autoscaler");

#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct List<T> {
    items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseJson {
    metadata: Meta,
    spec: LeaseSpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpecJson {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    renew_time: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeploymentJson {
    metadata: Meta,
    spec: DeploymentSpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeploymentSpecJson {
    replicas: Option<i64>,
}

/// Detects other autoscalers until aborted. With `karpenter_absent` the operator states that there
/// is no Karpenter.
pub(crate) async fn watch_autoscalers(api: Api, cache: Arc<ObjectCache>, karpenter_absent: bool) {
    let mut overridden = false;
    let mut cluster_autoscaler_due = Instant::now();
    loop {
        if Instant::now() >= cluster_autoscaler_due {
            cluster_autoscaler_due = Instant::now() + detect_cluster_autoscaler(&api, &cache).await;
        }
        match detect_karpenter(&api, &cache).await {
            Ok(found) if karpenter_absent && found.live => {
                if !overridden {
                    let evidence = &found.evidence;
                    warn!(evidence, setting = "agent.karpenter-absent", "active Karpenter ignored");
                }
                overridden = true;
                cache.update_autoscaler(v1::AutoscalerRecord { name: found.name, ..v1::AutoscalerRecord::default() });
            }
            Ok(found) => {
                if overridden {
                    info!("Karpenter no longer active");
                }
                overridden = false;
                cache.update_autoscaler(found);
            }
            Err(error) => warn!(autoscaler = KARPENTER, %error, "cannot detect autoscaler"),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Updates the record of Cluster Autoscaler; returns when it is looked for again.
async fn detect_cluster_autoscaler(api: &Api, cache: &ObjectCache) -> Duration {
    let (name, namespace, lease) = CLUSTER_AUTOSCALER;
    match ok_if_not_found(api.get::<LeaseJson>(&LEASE.one(namespace, lease)).await) {
        Ok(found) => {
            let interval = if found.is_some() { POLL_INTERVAL } else { ABSENT_INTERVAL };
            let leases: Vec<LeaseJson> = found.into_iter().collect();
            cache.update_autoscaler(autoscaler_record(name, &leases, &[], 0, now_ms()));
            interval
        }
        // The last result is kept: a failed request is no evidence.
        Err(error) => {
            warn!(autoscaler = name, %error, "cannot detect autoscaler");
            POLL_INTERVAL
        }
    }
}

/// Whether Karpenter is active, and the evidence. The lists may be slightly stale
/// (`resourceVersion=0`), which spares the API server a read from etcd.
async fn detect_karpenter(api: &Api, cache: &ObjectCache) -> Result<v1::AutoscalerRecord, ApiError> {
    let leases = format!("{}?fieldSelector=metadata.name%3D{KARPENTER_LEASE}&resourceVersion=0", LEASE.all());
    let leases: List<LeaseJson> = api.get(&leases).await?;
    let deployments =
        format!("{}?labelSelector=app.kubernetes.io%2Fname%3D{KARPENTER}&resourceVersion=0", DEPLOYMENT.all());
    let deployments: List<DeploymentJson> = api.get(&deployments).await?;
    Ok(autoscaler_record(KARPENTER, &leases.items, &deployments.items, cache.last_karpenter_write_ms(), now_ms()))
}

/// The record of an autoscaler at `now`, from its leases, its deployments and its last write.
fn autoscaler_record(
    name: &str,
    leases: &[LeaseJson],
    deployments: &[DeploymentJson],
    last_write_ms: i64,
    now: i64,
) -> v1::AutoscalerRecord {
    let renewed = |lease: &LeaseJson| parse_millis(lease.spec.renew_time.as_deref());
    let held = |lease: &&LeaseJson| {
        let holder = lease.spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
        holder && now < renewed(lease) + lease.spec.lease_duration_seconds.unwrap_or_default() * 1_000
    };
    // A Deployment without the field has one replica (Kubernetes: the default).
    let runs = |deployment: &&DeploymentJson| deployment.spec.replicas.unwrap_or(1) > 0;
    let lease = leases
        .iter()
        .find(held)
        .map(|lease| format!("its Lease {}/{} is renewed", lease.metadata.namespace, lease.metadata.name));
    let deployment = || {
        deployments.iter().find(runs).map(|found| {
            let (Meta { namespace, name }, replicas) = (&found.metadata, found.spec.replicas.unwrap_or(1));
            format!("Deployment {namespace}/{name} has {replicas} replicas")
        })
    };
    let write = || {
        let lately = last_write_ms != 0 && now < last_write_ms + WRITE_EVIDENCE_MS;
        lately.then(|| {
            format!("it wrote to a NodePool, NodeClaim or EC2NodeClass within {} minutes", WRITE_EVIDENCE_MS / 60_000)
        })
    };
    let evidence = lease.or_else(deployment).or_else(write);
    v1::AutoscalerRecord {
        name: name.to_owned(),
        live: evidence.is_some(),
        renewed_at_ms: leases.iter().map(renewed).max().unwrap_or_default(),
        evidence: evidence.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// 2026-01-01T00:00:00Z is 1,767,225,600 s after 1970.
    const RENEWED: i64 = 1_767_225_600_000;

    fn lease(namespace: &str, holder: &str) -> LeaseJson {
        serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": KARPENTER_LEASE },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z" },
        }))
        .unwrap()
    }

    fn deployment(replicas: serde_json::Value) -> DeploymentJson {
        let metadata = json!({ "namespace": "tools", "name": "karpenter" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "replicas": replicas } })).unwrap()
    }

    #[test]
    fn an_autoscaler_is_live_while_its_lease_is_held_and_has_not_run_out_in_whatever_namespace() {
        for (holder, now, live) in
            [("karpenter-0", RENEWED + 14_999, true), ("karpenter-0", RENEWED + 15_000, false), ("", RENEWED, false)]
        {
            let leases = [lease("kube-system", ""), lease("somewhere", holder)];
            let seen = autoscaler_record(KARPENTER, &leases, &[], 0, now);
            assert_eq!((seen.live, seen.renewed_at_ms), (live, RENEWED), "{holder:?} at {now}");
            assert_eq!(seen.evidence.contains("somewhere/karpenter-leader-election"), live);
        }
        let nothing = v1::AutoscalerRecord { name: KARPENTER.into(), ..Default::default() };
        assert_eq!(autoscaler_record(KARPENTER, &[], &[], 0, RENEWED), nothing);
    }

    #[test]
    fn a_karpenter_without_leader_election_is_known_by_its_deployment_or_by_what_it_writes() {
        let by = |deployments: &[DeploymentJson], last_write_ms| {
            autoscaler_record(KARPENTER, &[], deployments, last_write_ms, RENEWED).evidence
        };
        assert_eq!(by(&[deployment(json!(0)), deployment(json!(2))], 0), "Deployment tools/karpenter has 2 replicas");
        assert_eq!(by(&[deployment(json!(null))], 0), "Deployment tools/karpenter has 1 replicas");
        assert_eq!(by(&[deployment(json!(0))], 0), "");
        // 15 minutes are 900,000 ms.
        assert_eq!(by(&[], RENEWED - 900_000), "");
        assert!(by(&[], RENEWED - 899_999).contains("wrote"));
    }

    /// Requests for the Lease of Cluster Autoscaler in ten minutes, on an API server where it is there or not.
    async fn lease_requests(is_there: bool) -> usize {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let server = tower::service_fn(move |request: Request<Body>| {
            let is_lease = request.uri().path() == LEASE.one(CLUSTER_AUTOSCALER.1, CLUSTER_AUTOSCALER.2);
            counted.fetch_add(usize::from(is_lease), Ordering::Relaxed);
            let (code, body) = match (is_lease, is_there) {
                (true, true) => (200, json!({ "metadata": { "name": "cluster-autoscaler" } })),
                (true, false) => (404, json!({ "kind": "Status", "reason": "NotFound" })),
                (false, _) => (200, json!({ "metadata": {}, "items": [] })),
            };
            let body = Body::from(body.to_string().into_bytes());
            async move { Response::builder().status(code).body(body).map_err(std::io::Error::other) }
        });
        let cache = Arc::new(crate::watch::empty_cache());
        let watched = watch_autoscalers(Api::new(Client::new(server, "default")), cache, false);
        let _endless = tokio::time::timeout(Duration::from_secs(594), watched).await;
        requests.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_not_there_is_asked_for_once_a_minute() {
        assert_eq!(lease_requests(false).await, 10);
        // Every 5 s from 0 to 590 s.
        assert_eq!(lease_requests(true).await, 119);
    }
}
