//! Consolidation of a whole cluster after scale-in.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::disruption::recording::Recording;
use e2e::kubernetes::disruption::rules::{PodBudget, Rules, verify};
use e2e::kubernetes::environment::Environment;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::{Value, json};

use super::{Kill, KillPoint, LONG, Size, TIMEOUT, apply_budget, clear, ensure_served_without_leaks, kill_server};
use super::{capture, dollars, node_names, start};

/// Share of the nodes that may be disrupted at one time, in percent.
const NODE_PERCENT: usize = 10;

/// The steps with which a server plans disruption when no other cluster searches: a quarter of its largest search, because
/// a plan searches for several groups. With the same steps the command line plans the same.
const SEARCH: &str = "2250000";

/// A Deployment. The requests of each are multiples of those of the smaller ones, which makes the rule of capacity
/// exact.
struct Kind {
    app: &'static str,
    cpu: &'static str,
    memory: &'static str,
    /// Pods before and after scale-in.
    pods: [usize; 2],
}

struct Plan {
    kinds: [Kind; 3],
    /// Largest cost of the consolidated cluster beyond the lower bound. The bound counts parts of machines, and a part
    /// of one of three machines is much.
    most_over_bound: f64,
    kills: Vec<Kill>,
}

impl Plan {
    /// 300 + 120 + 80 = 500 pods, and 90 + 36 + 24 = 150; short 36 + 14 + 10 = 60, and 12 + 5 + 3 = 20.
    fn of(size: Size) -> Self {
        let kill = |gone, at| Kill { gone, at };
        let (pods, most_over_bound, kills) = match size {
            Size::Short => ([[36, 12], [14, 5], [10, 3]], 0.25, vec![kill(0, KillPoint::Draining)]),
            Size::Whole => (
                [[300, 90], [120, 36], [80, 24]],
                0.03,
                vec![kill(0, KillPoint::Draining), kill(4, KillPoint::Draining), kill(8, KillPoint::Draining)],
            ),
        };
        let [small, medium, large] = pods;
        let kind = |app, cpu, memory, pods| Kind { app, cpu, memory, pods };
        let kinds = [
            kind("small", "250m", "512Mi", small),
            kind("medium", "500m", "1Gi", medium),
            kind("large", "1", "2Gi", large),
        ];
        Self { kinds, most_over_bound, kills }
    }

    /// A tenth of each Deployment may be unavailable.
    fn budgets(&self) -> Vec<PodBudget> {
        let budget = |kind: &Kind| PodBudget {
            app: kind.app.to_owned(),
            replicas: kind.pods[1],
            max_unavailable: kind.pods[1].div_ceil(10),
        };
        self.kinds.iter().map(budget).collect()
    }
}

/// The settings of the server. Budgets let it consolidate in several steps, and a later one may move a pod again, which the
/// interval of moves would hold for a day. The command line knows no moves, and would propose them until then.
const SETTINGS: &str = "[disruption]\ninterval = \"5s\"\nmove-interval = \"0s\"\n";

/// After scale-in the nodes are consolidated, while the server is killed.
pub(crate) async fn ends_near_the_bound(test_bed: Arc<TestBed>) -> ScenarioResult {
    let plan = Plan::of(Size::from_environment()?);
    let (_postgres, mut environment) = start(&test_bed, "consolidation", SETTINGS).await?;
    let played = run(&test_bed, &mut environment, &plan).await;
    played.with_context(|| environment.log_tails())
}

async fn run(test_bed: &Arc<TestBed>, environment: &mut Environment, plan: &Plan) -> ScenarioResult {
    let budgets = plan.budgets();
    prepare(environment, plan, &budgets).await?;
    let before = environment.ledger.read_ledger().await?;
    let old = node_names(&environment.cluster).await?;
    let recording = Recording::start(&environment.cluster, TIMEOUT).await?;
    let begun = Instant::now();
    let allowed = json!({ "spec": { "disruption": { "budgets": [{ "nodes": format!("{NODE_PERCENT}%") }] } } });
    let since = environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", allowed).await?;
    kill_server(environment, &old, &plan.kills).await?;
    let cost = wait_until_consolidated(test_bed).await?;
    let took = begun.elapsed();
    let nodes = ensure_served_without_leaks(environment, &budgets).await?;
    let changes = recording.changes(&environment.cluster, TIMEOUT).await?;
    let observed = verify(&changes, since, &Rules { node_percent: NODE_PERCENT, budgets: budgets.clone() })?;
    let (gaps, ledger) = (recording.gaps(), environment.ledger.read_ledger().await?);
    let over = cost.now / cost.bound - 1.0;
    ensure!(
        (cost.now - ledger.dollars_an_hour()).abs() < 0.001,
        "the capture costs {} $/h, and the ledger has {}",
        cost.now,
        ledger.dollars_an_hour()
    );
    let figures = format!(
        "{} nodes at {:.3} $/h became {nodes} at {:.3} $/h within {:.1} s with the server killed {} times; that is {:.1} % over \
         the lower bound of {:.3} $/h, and `--repack` would need {:.3} $/h; {} machines launched\n{observed}; {gaps} gaps in the watches",
        old.len(),
        before.dollars_an_hour(),
        ledger.dollars_an_hour(),
        took.as_secs_f64(),
        plan.kills.len(),
        over * 100.0,
        cost.bound,
        cost.needed,
        ledger.launch_count() - before.launch_count(),
    );
    ensure!(
        over <= plan.most_over_bound,
        "the cluster costs more than {} over the bound: {figures}",
        plan.most_over_bound
    );
    drop(recording);
    clear(environment, &budgets).await?;
    Ok(figures)
}

/// The nodes with the pods that are left after scale-in, and their budgets. Until then no node may be disrupted.
async fn prepare(environment: &Environment, plan: &Plan, budgets: &[PodBudget]) -> anyhow::Result<()> {
    let cluster = &environment.cluster;
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
        { "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2", "4", "8"] },
    ]);
    let none = json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{ "nodes": "0" }] });
    environment.apply_pool("default", requirements, none).await?;
    for kind in &plan.kinds {
        cluster.deploy(kind.app, u32::try_from(kind.pods[0])?, kind.cpu, kind.memory, json!({})).await?;
    }
    let sum = |at: usize| i32::try_from(plan.kinds.iter().map(|kind| kind.pods[at]).sum::<usize>());
    cluster.wait_until_ready(sum(0)?, TIMEOUT).await?;
    for kind in &plan.kinds {
        cluster.scale(kind.app, u32::try_from(kind.pods[1])?).await?;
    }
    cluster.wait_until_ready(sum(1)?, TIMEOUT).await?;
    let poll = || async {
        let pods = cluster.pods().await?.len();
        Ok(if i32::try_from(pods)? == sum(1)? { Poll::Ready(()) } else { Poll::Pending(format!("{pods} pods")) })
    };
    wait_until("the pods of scale-in are gone", TIMEOUT, poll).await?;
    for budget in budgets {
        apply_budget(cluster, budget).await?;
    }
    environment.wait_until_ledger_matches_cluster(TIMEOUT).await.map(drop)
}

/// Dollars per hour.
struct Cost {
    now: f64,
    /// What a plan of `--repack` would cost.
    needed: f64,
    bound: f64,
}

/// Waits until a plan of disruption of the cluster, made by the command line from a capture, proposes nothing.
async fn wait_until_consolidated(test_bed: &Arc<TestBed>) -> anyhow::Result<Cost> {
    let poll = || async {
        let captured = capture(test_bed).await?;
        let planned = super::plan(test_bed, &captured, &["--disrupt", "--search", SEARCH]).await?;
        let commands = planned["commands"].as_array().context("no commands")?.len();
        let moving: Vec<&str> = (planned["held"].as_array().into_iter().flatten())
            .flat_map(|held| held["by"].as_array().into_iter().flatten())
            .filter_map(|by| by["code"].as_str())
            .filter(|code| !["NoSavings", "NoCapacity"].contains(code))
            .collect();
        Ok(if commands == 0 && moving.is_empty() {
            Poll::Ready(captured)
        } else {
            Poll::Pending(format!("{commands} commands; held by {moving:?}"))
        })
    };
    let captured = wait_until("nothing is left to consolidate", LONG, poll).await?;
    let repacked = super::plan(test_bed, &captured, &["--repack"]).await?;
    let anew = super::plan(test_bed, &without_nodes(captured), &[]).await?;
    let [now, needed] = ["nowUsdPerHour", "neededUsdPerHour"].map(|key| dollars(&repacked, key));
    Ok(Cost { now: now?, needed: needed?, bound: dollars(&anew, "lowerBoundUsdPerHour")? })
}

/// The capture with its pods pending and no node. The lower bound of its plan is the one that `--repack` states when no
/// node stays; `--repack` states none when it leaves the cluster as it is.
fn without_nodes(mut captured: Value) -> Value {
    if let Some(items) = captured["items"].as_array_mut() {
        items.retain(|item| item["kind"] != "Node" && item["kind"] != "NodeClaim");
        for pod in items.iter_mut().filter(|item| item["kind"] == "Pod") {
            pod["status"] = json!({ "phase": "Pending" });
            pod["spec"]["nodeName"] = Value::Null;
        }
    }
    captured
}
