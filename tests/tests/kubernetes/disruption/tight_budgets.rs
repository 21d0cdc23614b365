//! Drift of a NodePool whose pods have ten sizes and PodDisruptionBudgets of a tenth.
//!
//! Drains wait for the budgets, so that pods which leave one node take room that was launched for those of another. The
//! disruption must go on all the same: room that exists is used, and no pod waits because others use the machines that were
//! launched for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, taints, wait_until};
use e2e::kubernetes::disruption::recording::Recording;
use e2e::kubernetes::disruption::rules::{PodBudget, Rules, verify};
use e2e::kubernetes::environment::Environment;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::{Kill, KillPoint, LONG, Size, TIMEOUT, apply_budget, clear, ensure_served_without_leaks, kill_server};
use super::{node_names, start};

/// Share of the nodes that may be disrupted at one time, in percent.
const NODE_PERCENT: usize = 20;
/// Requests of the pods of each Deployment. Each is a multiple of the smaller ones, which makes the rule of capacity exact.
/// A pod of each Deployment needs 3,750 millicores, and an m5.2xlarge has 7,910: 48 nodes for a hundred of each.
const MILLICORES: [u32; 10] = [125, 125, 125, 125, 250, 250, 250, 500, 1_000, 1_000];
/// Longest time in which no node or NodeClaim comes or goes and no pod moves.
const LONGEST_STANDSTILL: Duration = Duration::from_secs(45);
/// Machines that are launched for at most 48 nodes that drift. Pods of one Node may take the room that was launched for those
/// of another, so that a few more are needed.
const MOST_LAUNCHED: usize = 52;

struct Plan {
    replicas: usize,
    kills: Vec<Kill>,
}

impl Plan {
    fn of(size: Size) -> Self {
        let kill = |gone, at| Kill { gone, at };
        match size {
            Size::Short => Self { replicas: 20, kills: vec![kill(1, KillPoint::Draining)] },
            Size::Whole => Self {
                replicas: 100,
                kills: vec![kill(0, KillPoint::Launching), kill(15, KillPoint::Draining), kill(30, KillPoint::Joined)],
            },
        }
    }

    fn budgets(&self) -> Vec<PodBudget> {
        let (replicas, max_unavailable) = (self.replicas, self.replicas / 10);
        (0..MILLICORES.len()).map(|number| PodBudget { app: format!("w{number}"), replicas, max_unavailable }).collect()
    }
}

/// All nodes drift while the server is killed.
pub(crate) async fn never_stand_still(test_bed: Arc<TestBed>) -> ScenarioResult {
    let plan = Plan::of(Size::from_environment()?);
    let (_postgres, mut environment) = start(&test_bed, "drift-under-tight-budgets", "").await?;
    let played = run(&mut environment, &plan).await;
    played.with_context(|| environment.log_tails())
}

async fn run(environment: &mut Environment, plan: &Plan) -> ScenarioResult {
    let budgets = plan.budgets();
    prepare(environment, plan, &budgets).await?;
    let old = node_names(&environment.cluster).await?;
    let before = environment.ledger.read_ledger().await?.launch_count();
    let recording = Recording::start(&environment.cluster, TIMEOUT).await?;
    let change = json!({ "spec": { "template": { "metadata": { "labels": { "team": "a" } } } } });
    let begun = Instant::now();
    let since = environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", change).await?;
    let standstill = {
        let cluster = environment.cluster.clone();
        let watched = watch_progress(&cluster, &old);
        let killed = kill_server(environment, &old, &plan.kills);
        let (standstill, killed) = tokio::join!(watched, killed);
        killed?;
        standstill?
    };
    let took = begun.elapsed();
    ensure_served_without_leaks(environment, &budgets).await?;
    let changes = recording.changes(&environment.cluster, TIMEOUT).await?;
    let observed = verify(&changes, since, &Rules { node_percent: NODE_PERCENT, budgets: budgets.clone() })?;
    let launched = environment.ledger.read_ledger().await?.launch_count() - before;
    drop(recording);
    let figures = format!(
        "{} drifted nodes with {} pods were replaced within {:.1} s with the server killed {} times; longest standstill {:.1} s; \
         {launched} machines launched\n{observed}",
        old.len(),
        plan.replicas * MILLICORES.len(),
        took.as_secs_f64(),
        plan.kills.len(),
        standstill.as_secs_f64(),
    );
    ensure!(standstill <= LONGEST_STANDSTILL, "it stood still: {figures}");
    ensure!(launched <= MOST_LAUNCHED, "more than {MOST_LAUNCHED} machines were launched: {figures}");
    clear(environment, &budgets).await?;
    Ok(figures)
}

/// Waits until the nodes `old` are gone; returns the longest time without any change.
async fn watch_progress(cluster: &Cluster, old: &BTreeSet<String>) -> anyhow::Result<Duration> {
    let last = Mutex::new((String::new(), Instant::now(), Duration::ZERO));
    let poll = || async {
        let (nodes, pods) = (cluster.nodes().await?, cluster.pods().await?);
        let claims = cluster.objects("karpenter.sh/v1", "NodeClaim").list(&ListParams::default()).await?.items.len();
        let left = nodes.iter().filter(|node| old.contains(&node.name_any())).count();
        let draining = nodes.iter().filter(|node| taints(node).contains(&"karpenter.sh/disrupted")).count();
        let initialized = nodes.iter().filter(|node| node.labels().contains_key("karpenter.sh/initialized")).count();
        let node_of = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref()?.node_name.clone();
        let unmoved = pods.iter().filter_map(node_of).filter(|node| old.contains(node)).count();
        let seen = format!(
            "{left} old nodes with {unmoved} pods, {draining} draining, {initialized} initialized, {claims} NodeClaims"
        );
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != seen {
            let longest = last.2.max(last.1.elapsed());
            *last = (seen.clone(), Instant::now(), longest);
        }
        Ok(if left == 0 { Poll::Ready(last.2) } else { Poll::Pending(format!("{seen} for {:.0?}", last.1.elapsed())) })
    };
    wait_until("no node of the old template is left", LONG, poll).await
}

/// The nodes with their pods and budgets.
async fn prepare(environment: &Environment, plan: &Plan, budgets: &[PodBudget]) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"] },
    ]);
    let disruption = json!({ "budgets": [{ "nodes": format!("{NODE_PERCENT}%") }] });
    environment.apply_pool("default", requirements, disruption).await?;
    for (budget, millicores) in budgets.iter().zip(MILLICORES) {
        let (replicas, cpu) = (u32::try_from(budget.replicas)?, format!("{millicores}m"));
        environment.cluster.deploy(&budget.app, replicas, &cpu, "64Mi", json!({})).await?;
    }
    environment.cluster.wait_until_ready(i32::try_from(plan.replicas * MILLICORES.len())?, TIMEOUT).await?;
    for budget in budgets {
        apply_budget(&environment.cluster, budget).await?;
    }
    environment.wait_until_ledger_matches_cluster(TIMEOUT).await.map(drop)
}
