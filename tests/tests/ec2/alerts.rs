//! Alerts of `deploy/prometheus` that need a real cloud fire in their faults, at a real server and the simulated EC2 behind a real
//! Prometheus, and are quiet before. What boards and alerts select of a real cloud is there. Skipped without PostgreSQL or Prometheus.

use e2e::monitoring::wanted;
use e2e::{Prometheus, authority};
use fleetwright_proto::v1::ObjectKind;
use serde_json::json;
use simulated_ec2::{Effect, FaultRule};

use crate::accounts::QUEUE;
use crate::prices::{EACH_SECOND, TestBed, fails};

const SETTINGS: [&str; 8] = {
    let [a, b, c, d, e, f] = EACH_SECOND;
    [a, b, c, d, e, f, "--interruption-queue", QUEUE]
};

/// Waits until `alert` fires that has not fired before its fault.
async fn fires(bed: &mut TestBed, monitor: &Prometheus, alert: &str, fault: impl FnOnce(&mut TestBed)) {
    let before = monitor.firing();
    assert!(!before.contains(alert), "{alert} fires before its fault: {before:?}");
    fault(bed);
    bed.wait_until(alert, |_| monitor.firing().contains(alert).then_some(())).await;
}

fn set_cpu_limit(bed: &TestBed, cpu: &str) {
    let limit = json!({ "cpu": cpu });
    bed.api.change_manifest(ObjectKind::NodePool, "general", |pool| pool["spec"]["limits"] = limit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_of_the_cloud_and_of_limits_fire_in_their_faults_and_not_before() {
    let test = "alerts_of_the_cloud_and_of_limits_fire_in_their_faults_and_not_before";
    let Some(mut bed) = TestBed::start(test, &SETTINGS, &[]).await else { return };
    let Some(monitor) = Prometheus::with_alerts(test, authority(&bed.http)) else { return };
    bed.launch().await;
    let is_received = "fleetwright_interruption_queue_available == 1";
    bed.wait_until(is_received, |_| monitor.has(is_received).then_some(())).await;
    let mut wanted = wanted(true);
    assert!(wanted.len() >= 3, "{wanted:?}");
    bed.wait_until("all series of the boards that need a real cloud", |_| {
        wanted.retain(|selector| !monitor.has(selector));
        wanted.is_empty().then_some(())
    })
    .await;
    assert!(monitor.firing().is_empty(), "{:?}", monitor.firing());
    fires(&mut bed, &monitor, "FleetwrightCatalogueOld", |bed| bed.ec2.add_fault(fails("DescribeSpotPriceHistory")))
        .await;
    fires(&mut bed, &monitor, "FleetwrightInterruptionQueueDown", |bed| {
        bed.ec2.add_fault(FaultRule::always("ReceiveMessage", Effect::error("AccessDenied")));
    })
    .await;
    // The one node has two processors: the NodePool rests at its limit, and no alert fires before a pod waits for it.
    set_cpu_limit(&bed, "2");
    let rests = "karpenter_nodepools_usage{resource_type=\"cpu\"} >= on (cluster, nodepool, resource_type) karpenter_nodepools_limit";
    bed.wait_until("a NodePool at its limit", |_| monitor.has(rests).then_some(())).await;
    fires(&mut bed, &monitor, "FleetwrightPodsLimited", TestBed::add_pod).await;
    fires(&mut bed, &monitor, "FleetwrightLaunchesRefused", |bed| {
        bed.ec2.add_fault(FaultRule::always("CreateFleet", Effect::error("UnauthorizedOperation")));
        set_cpu_limit(bed, "100");
        (0..4).for_each(|_| bed.add_pod());
    })
    .await;
    bed.wait_until("FleetwrightNodesFailToJoin", |_| {
        monitor.firing().contains("FleetwrightNodesFailToJoin").then_some(())
    })
    .await;
}
