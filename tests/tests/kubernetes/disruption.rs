//! Voluntary disruption that rolls through a whole cluster by itself, while the server is killed on the way.
//!
//! The changes that the API server stored are judged afterwards, one by one: see [`e2e::kubernetes::disruption`].

pub(super) mod consolidation;
pub(super) mod drift;
pub(super) mod tight_budgets;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use e2e::Program;
use e2e::kubernetes::cluster::{Cluster, Poll, taints, wait_until};
use e2e::kubernetes::disruption::rules::PodBudget;
use e2e::kubernetes::environment::{Environment, Options, REGION};
use e2e::kubernetes::suite::{Scenario, Skip, TestBed};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use store_postgres::postgres_local::LocalPostgres;

use crate::scenario;

/// Variable that selects the size of the scenarios: `short`, which is the default, or `whole`.
const SIZE: &str = "FLEETWRIGHT_E2E_DISRUPTION";
/// For what follows at once; hundreds of pods take minutes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);
const LONG: Duration = Duration::from_secs(1_800);

const LIMIT: Duration = Duration::from_secs(2_400);

pub(super) const DRIFT: Scenario = Scenario {
    limit: LIMIT,
    ..scenario("a_drifted_pool_rolls_through_within_its_budget_while_the_server_is_killed", |s| {
        Box::pin(drift::rolls_through(s))
    })
};

/// Drift under PodDisruptionBudgets of a tenth.
pub(super) const TIGHT_BUDGETS: Scenario = Scenario {
    limit: LIMIT,
    ..scenario("drift_under_budgets_of_a_tenth_never_stands_still_while_the_server_is_killed", |s| {
        Box::pin(tight_budgets::never_stand_still(s))
    })
};

/// Consolidation after scale-in.
pub(super) const CONSOLIDATION: Scenario = Scenario {
    limit: LIMIT,
    ..scenario("after_scale_in_nodes_are_consolidated_to_the_bound_while_the_server_is_killed", |s| {
        Box::pin(consolidation::ends_near_the_bound(s))
    })
};

/// What is chosen by the variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Short,
    Whole,
}

impl Size {
    fn from_environment() -> anyhow::Result<Self> {
        match std::env::var(SIZE).as_deref() {
            Err(std::env::VarError::NotPresent) | Ok("" | "short") => Ok(Self::Short),
            Ok("whole") => Ok(Self::Whole),
            other => bail!("{SIZE} is {other:?}; it may be short or whole"),
        }
    }
}

/// When the server is killed: as soon as this many of the nodes that existed have gone, and the event happens.
#[derive(Debug, Clone, Copy)]
struct Kill {
    gone: usize,
    at: KillPoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillPoint {
    /// A NodeClaim exists whose Node is not there yet.
    Launching,
    /// A Node is there and not initialized.
    Joined,
    Draining,
}

/// A database, and an environment whose server uses it. The database ends when it is dropped, the last of the two.
async fn start(test_bed: &TestBed, name: &str, server: &str) -> anyhow::Result<(LocalPostgres, Environment)> {
    let skip = || Skip("needs PostgreSQL's server programs, and finds none".to_owned());
    let postgres = LocalPostgres::temporary()?.ok_or_else(skip)?;
    let options = Options { database: Some(postgres.url()), server: server.to_owned(), ..Options::default() };
    let environment = Environment::start(test_bed, name, options).await?;
    Ok((postgres, environment))
}

/// Kills the server at each point, and starts it again at once.
async fn kill_server(environment: &mut Environment, old: &BTreeSet<String>, kills: &[Kill]) -> anyhow::Result<()> {
    for kill in kills {
        wait_until_kill_point(&environment.cluster, old, *kill).await?;
        environment.server.kill()?;
        environment.server.start()?;
    }
    Ok(())
}

async fn wait_until_kill_point(cluster: &Cluster, old: &BTreeSet<String>, kill: Kill) -> anyhow::Result<()> {
    let claims = cluster.objects("karpenter.sh/v1", "NodeClaim");
    let poll = || async {
        let claims = claims.list(&ListParams::default()).await?.items.len();
        let nodes = cluster.nodes().await?;
        let gone = old.len() - nodes.iter().filter(|node| old.contains(&node.name_any())).count();
        let is_there = match kill.at {
            KillPoint::Launching => claims > nodes.len(),
            KillPoint::Joined => nodes.iter().any(|node| !node.labels().contains_key("karpenter.sh/initialized")),
            KillPoint::Draining => nodes.iter().any(|node| taints(node).contains(&"karpenter.sh/disrupted")),
        };
        Ok(if is_there && gone >= kill.gone {
            Poll::Ready(())
        } else {
            Poll::Pending(format!("{gone} of {} nodes are gone; {} nodes, {claims} NodeClaims", old.len(), nodes.len()))
        })
    };
    wait_until(&format!("{kill:?}"), LONG, poll).await
}

/// Applies the Deployment's PodDisruptionBudget, and waits until the disruption controller has counted its pods.
async fn apply_budget(cluster: &Cluster, budget: &PodBudget) -> anyhow::Result<()> {
    let (app, replicas) = (&budget.app, budget.replicas);
    let object = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": app, "namespace": cluster.namespace },
        "spec": { "maxUnavailable": budget.max_unavailable, "selector": { "matchLabels": { "app": app } } },
    });
    cluster.apply(object).await?;
    let budgets = cluster.objects("policy/v1", "PodDisruptionBudget");
    let poll = || async {
        let found = budgets.get(app).await?;
        let status = |key: &str| found.data.pointer(&format!("/status/{key}")).and_then(Value::as_u64);
        let counted = (status("currentHealthy"), status("expectedPods"));
        let all = u64::try_from(replicas).ok();
        Ok(if counted == (all, all) {
            Poll::Ready(())
        } else {
            Poll::Pending(format!("{counted:?} healthy and expected"))
        })
    };
    wait_until(&format!("the budget of {app} counts {replicas} pods"), TIMEOUT, poll).await
}

async fn node_names(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    Ok(cluster.nodes().await?.iter().map(ResourceExt::name_any).collect())
}

/// Verifies that exactly the pods of the budgets are served, and that each machine that is paid for is the node of one
/// NodeClaim. Returns the number of nodes.
async fn ensure_served_without_leaks(environment: &Environment, budgets: &[PodBudget]) -> anyhow::Result<usize> {
    let cluster = &environment.cluster;
    let replicas: usize = budgets.iter().map(|budget| budget.replicas).sum();
    cluster.wait_until_ready(i32::try_from(replicas)?, TIMEOUT).await?;
    let pods = cluster.pods().await?;
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    let names = node_names(cluster).await?;
    let unbound = pods.iter().filter(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        node.is_none_or(|node| !names.contains(node))
    });
    ensure!(pods.len() == replicas && unbound.count() == 0, "{} pods, of which some run nowhere", pods.len());
    let claims = cluster.objects("karpenter.sh/v1", "NodeClaim").list(&ListParams::default()).await?.items;
    let of_claims: BTreeSet<String> = (claims.iter())
        .filter_map(|claim| claim.data.pointer("/status/nodeName").and_then(Value::as_str).map(str::to_owned))
        .collect();
    ensure!(of_claims == names && claims.len() == nodes, "nodes {names:?}, and nodes of NodeClaims {of_claims:?}");
    environment.ensure_no_double_launches().await?;
    Ok(nodes)
}

/// What `fleetwright capture` prints.
async fn capture(test_bed: &Arc<TestBed>) -> anyhow::Result<Value> {
    let kubeconfig = test_bed.control_plane.lock().await.kubeconfig().display().to_string();
    let captured = run(test_bed, &["capture", "--kubeconfig", &kubeconfig], String::new()).await?;
    serde_json::from_str(&captured).context("the capture is no JSON")
}

/// What `fleetwright plan` prints with `flags` for a capture.
async fn plan(test_bed: &Arc<TestBed>, captured: &Value, flags: &[&str]) -> anyhow::Result<Value> {
    let arguments = [&["plan", "-f", "-", "--region", REGION, "-o", "json"], flags].concat();
    let planned = run(test_bed, &arguments, captured.to_string()).await?;
    serde_json::from_str(&planned).context("the plan is no JSON")
}

/// Runs the program on a thread of its own.
async fn run(test_bed: &Arc<TestBed>, arguments: &[&str], input: String) -> anyhow::Result<String> {
    let program = Program::new(&test_bed.programs.server.display().to_string(), arguments).input(input);
    let ended = tokio::task::spawn_blocking(move || program.run(TIMEOUT)).await?;
    ensure!(ended.status == 0, "{arguments:?} ends with {}: {}", ended.status, ended.stderr);
    Ok(ended.stdout)
}

/// A figure of the cost of a plan, in dollars per hour.
fn dollars(plan: &Value, key: &str) -> anyhow::Result<f64> {
    plan["cost"][key].as_f64().with_context(|| format!("the plan has no {key}"))
}

/// Deletes all pods, and waits until nothing is paid for.
async fn clear(environment: &Environment, budgets: &[PodBudget]) -> anyhow::Result<()> {
    let all = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "100%" }] } } });
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", all).await?;
    for budget in budgets {
        environment.cluster.scale(&budget.app, 0).await?;
    }
    environment.cluster.wait_until_nodes(0, TIMEOUT).await?;
    crate::scale::wait_until_nothing_is_paid(environment).await?;
    environment.ensure_no_double_launches().await
}
