//! Drift of a whole NodePool.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::disruption::recording::Recording;
use e2e::kubernetes::disruption::rules::{PodBudget, Rules, verify};
use e2e::kubernetes::environment::Environment;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::json;

use super::{Kill, KillPoint, LONG, Size, TIMEOUT, apply_budget, clear, ensure_served_without_leaks, kill_server};
use super::{node_names, start};

/// Share of the nodes that may be disrupted at one time, in percent.
const NODE_PERCENT: usize = 10;
/// Pods on each node: m5.large has 1930 millicores for pods, and each pod requests 900.
const PODS_PER_NODE: usize = 2;

struct Plan {
    nodes: usize,
    /// `maxUnavailable` of both Deployments.
    max_unavailable: usize,
    kills: Vec<Kill>,
}

impl Plan {
    fn of(size: Size) -> Self {
        let kill = |gone, at| Kill { gone, at };
        match size {
            Size::Short => Self { nodes: 6, max_unavailable: 1, kills: vec![kill(1, KillPoint::Launching)] },
            Size::Whole => Self {
                nodes: 30,
                max_unavailable: 2,
                kills: vec![kill(0, KillPoint::Launching), kill(9, KillPoint::Draining), kill(20, KillPoint::Joined)],
            },
        }
    }

    /// Half of the pods are of either Deployment.
    fn budgets(&self) -> Vec<PodBudget> {
        let (replicas, max_unavailable) = (self.nodes * PODS_PER_NODE / 2, self.max_unavailable);
        ["web", "api"].map(|app| PodBudget { app: app.to_owned(), replicas, max_unavailable }).to_vec()
    }
}

/// All nodes of a NodePool drift under a budget of ten percent, while the server is killed.
pub(crate) async fn rolls_through(test_bed: Arc<TestBed>) -> ScenarioResult {
    let plan = Plan::of(Size::from_environment()?);
    let (_postgres, mut environment) = start(&test_bed, "drift-of-a-pool", "").await?;
    let played = run(&mut environment, &plan).await;
    played.with_context(|| environment.log_tails())
}

async fn run(environment: &mut Environment, plan: &Plan) -> ScenarioResult {
    let budgets = plan.budgets();
    prepare(environment, plan, &budgets).await?;
    let cost = environment.ledger.read_ledger().await?.dollars_an_hour();
    let old = node_names(&environment.cluster).await?;
    let recording = Recording::start(&environment.cluster, TIMEOUT).await?;
    let change = json!({ "spec": { "template": { "metadata": { "labels": { "team": "a" } } } } });
    let begun = Instant::now();
    let since = environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", change).await?;
    kill_server(environment, &old, &plan.kills).await?;
    let poll = || async {
        let left = node_names(&environment.cluster).await?.intersection(&old).count();
        Ok(if left == 0 { Poll::Ready(()) } else { Poll::Pending(format!("{left} of {} nodes", old.len())) })
    };
    wait_until("no node of the old template is left", LONG, poll).await?;
    let took = begun.elapsed();
    let nodes = ensure_served_without_leaks(environment, &budgets).await?;
    ensure!(nodes == plan.nodes, "{nodes} nodes for pods that need {}", plan.nodes);
    let changes = recording.changes(&environment.cluster, TIMEOUT).await?;
    let observed = verify(&changes, since, &Rules { node_percent: NODE_PERCENT, budgets: budgets.clone() })?;
    let (gaps, ledger) = (recording.gaps(), environment.ledger.read_ledger().await?);
    let (launched, after) = (ledger.launch_count(), ledger.dollars_an_hour());
    // The next process does not know which pods a new machine is for. It removes the machine if it is empty while a
    // PodDisruptionBudget blocks the drain that it was launched for, and launches another one later.
    let most = 2 * plan.nodes + plan.kills.len();
    ensure!(
        (2 * plan.nodes..=most).contains(&launched),
        "{launched} machines were launched; {} and as many replacements are needed, and one more for each kill at most",
        plan.nodes
    );
    drop(recording);
    clear(environment, &budgets).await?;
    Ok(format!(
        "{} drifted nodes were replaced within {:.1} s with the server killed {} times; {launched} machines launched, {cost:.3} $/h before and \
         {after:.3} after\n{observed}; {gaps} gaps in the watches",
        plan.nodes,
        took.as_secs_f64(),
        plan.kills.len()
    ))
}

/// The nodes with their pods and budgets.
async fn prepare(environment: &Environment, plan: &Plan, budgets: &[PodBudget]) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    let disruption = json!({ "budgets": [{ "nodes": format!("{NODE_PERCENT}%") }] });
    environment.apply_pool("default", requirements, disruption).await?;
    for budget in budgets {
        let replicas = u32::try_from(budget.replicas)?;
        environment.cluster.deploy(&budget.app, replicas, "900m", "1Gi", json!({})).await?;
    }
    environment.cluster.wait_until_ready(i32::try_from(plan.nodes * PODS_PER_NODE)?, TIMEOUT).await?;
    for budget in budgets {
        apply_budget(&environment.cluster, budget).await?;
    }
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    ensure!(nodes == plan.nodes, "{PODS_PER_NODE} pods on each node need {} nodes, and there are {nodes}", plan.nodes);
    Ok(())
}
