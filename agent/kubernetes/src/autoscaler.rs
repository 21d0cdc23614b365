//! Other autoscalers in the cluster, by the leases of their leader election.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use serde::Deserialize;
use tracing::warn;

use crate::api::Api;
use crate::error::gone_is_fine;
use crate::moment::{millis, now_ms};
use crate::picture::Picture;
use crate::resource::LEASE;

/// Leases are looked at this often: an autoscaler that starts is noticed before it buys, for its own batching takes longer.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Name of the autoscaler, namespace and name of its lease: where Karpenter and Cluster Autoscaler keep it by default.
const KNOWN: [(&str, &str, &str); 2] = [
    ("karpenter", "kube-system", "karpenter-leader-election"),
    ("cluster-autoscaler", "kube-system", "cluster-autoscaler"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseJson {
    spec: LeaseSpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpecJson {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    renew_time: Option<String>,
}

/// Looks out for other autoscalers, for ever.
pub(crate) async fn look_out(api: Api, picture: Arc<Picture>) {
    loop {
        for (name, namespace, lease) in KNOWN {
            match gone_is_fine(api.get::<LeaseJson>(&LEASE.one(namespace, lease)).await) {
                Ok(found) => picture.autoscaler(record(name, found, now_ms())),
                // What was known stays: an API server that does not answer says nothing about who is at work.
                Err(error) => warn!(autoscaler = name, %error, "cannot see whether another autoscaler is at work"),
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn record(name: &str, lease: Option<LeaseJson>, now: i64) -> v1::AutoscalerRecord {
    let spec = lease.unwrap_or_default().spec;
    let renewed_at_ms = millis(spec.renew_time.as_deref());
    let held = spec.holder_identity.is_some_and(|holder| !holder.is_empty());
    let lasts = spec.lease_duration_seconds.unwrap_or_default() * 1_000;
    v1::AutoscalerRecord { name: name.to_owned(), live: held && now < renewed_at_ms + lasts, renewed_at_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str) -> Option<LeaseJson> {
        // 2026-01-01T00:00:00Z is 1,767,225,600 s after 1970.
        serde_json::from_value(serde_json::json!({ "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z",
        } }))
        .unwrap()
    }

    #[test]
    fn an_autoscaler_is_live_while_its_lease_is_held_and_has_not_run_out() {
        const RENEWED: i64 = 1_767_225_600_000;
        for (holder, now, live) in
            [("karpenter-0", RENEWED + 14_999, true), ("karpenter-0", RENEWED + 15_000, false), ("", RENEWED, false)]
        {
            let seen = record("karpenter", lease(holder), now);
            assert_eq!((seen.live, seen.renewed_at_ms), (live, RENEWED), "{holder:?} at {now}");
        }
        assert_eq!(
            record("karpenter", None, RENEWED),
            v1::AutoscalerRecord { name: "karpenter".into(), ..Default::default() }
        );
    }
}
