//! The lower bound on what a day of a load costs.

use cluster::{ClusterSnapshot, ClusterState, Observation, PoolRecord, Scheduling};
use model::{MicroUsd, Timestamp};
use server::serve;

use crate::deterministic::setup::{GIB, settings};
use crate::kube::SimulatedCluster;
use crate::kube::cluster::{Workload, pod_spec};

/// The lower bound on the price per hour of machines of `pool` for these replicas, if all were launched anew; `None` if
/// the pods cannot be planned.
pub(super) fn per_hour(pool: &PoolRecord, replicas: &[(Workload, usize)]) -> Option<MicroUsd> {
    let now = Timestamp::default();
    let mut cluster = SimulatedCluster::new(settings(0, None));
    cluster.add_daemon(Workload::new("kube-system", "agentd", &pod_spec(50, GIB / 8)));
    replicas.iter().for_each(|(workload, replicas)| cluster.scale(workload, *replicas, now));
    let mut shown = ClusterSnapshot { pools: vec![pool.clone()], ..cluster.snapshot() };
    shown.pods.iter_mut().for_each(|pod| pod.scheduling = Scheduling::Unschedulable);
    let mut state = ClusterState::default();
    state.apply(Observation::Snapshot(Box::new(shown)), now);
    let (_, report) = (serve::new_planner().pods)(&state.planning_input(&serve::policy(), now)).ok()?;
    Some(report.lower_bound)
}
