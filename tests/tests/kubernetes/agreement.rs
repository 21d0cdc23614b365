//! kube-scheduler binds the pods, and knows nothing of the plan but what it is hinted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::kubernetes::deploy;
use e2e::kubernetes::kubelets::Pace;
use e2e::kubernetes::plan::Plan;
use e2e::kubernetes::suite::{Stage, Told};
use e2e::kubernetes::world::{Options, World};
use kube::ResourceExt;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);

/// Share of pods that are to run where they were planned when hints are honoured, in percent. A goal that is told, not held:
/// which node comes first is chance, and pods that must spread over zones depend on it.
const GOAL: usize = 98;

/// Plans of different texture: many small pods, few large ones, pods that must spread. 60 to 160 pods each.
const PLANS: [&[(&str, u32, &str, &str)]; 3] = [
    &[("small", 120, "300m", "400Mi")],
    &[("large", 30, "3", "6Gi"), ("middle", 60, "700m", "1Gi"), ("tiny", 60, "100m", "128Mi")],
    &[("spread", 60, "900m", "1Gi"), ("filler", 90, "250m", "900Mi")],
];

/// An account that may do everything but hint.
const SILENT: &str = "e2e-without-hints";

/// What came of one plan.
#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    pods: usize,
    where_planned: usize,
    planned_nodes: usize,
    nodes: usize,
    dollars: f64,
}

impl Outcome {
    fn and(self, other: Self) -> Self {
        Self {
            pods: self.pods + other.pods,
            where_planned: self.where_planned + other.where_planned,
            planned_nodes: self.planned_nodes + other.planned_nodes,
            nodes: self.nodes + other.nodes,
            dollars: self.dollars + other.dollars,
        }
    }

    /// Nodes that the plan did not have.
    fn extra(&self) -> usize {
        self.nodes.saturating_sub(self.planned_nodes)
    }

    fn told(&self, how: &str) -> String {
        let percent = 100.0 * self.where_planned as f64 / self.pods.max(1) as f64;
        let extra = self.extra();
        format!(
            "{how}: {} of {} pods where planned ({percent:.1} %), {extra} nodes beyond the {} planned, {:.2} $/h",
            self.where_planned, self.pods, self.planned_nodes, self.dollars
        )
    }
}

/// With the agent's own account, whose hints the API server takes, and with one that may not hint.
pub(super) async fn plans_are_carried_out(stage: Arc<Stage>) -> Told {
    deploy::account_without(&stage.client, SILENT, "pods/status").await?;
    let (with, mut told) = all_plans(&stage, None).await?;
    let (without, more) = all_plans(&stage, Some(SILENT)).await?;
    told.extend(more);
    let met = if with.where_planned * 100 >= with.pods * GOAL { "met" } else { "missed" };
    told.extend([
        with.told("with hints"),
        without.told("without hints"),
        format!("goal of {GOAL} % with hints: {met}"),
    ]);
    let told = told.join("\n");
    ensure!(with.where_planned > without.where_planned, "hints bring no pod to where it was planned\n{told}");
    ensure!(with.extra() <= without.extra(), "hints cost nodes\n{told}");
    Ok(told)
}

async fn all_plans(stage: &Stage, account: Option<&'static str>) -> anyhow::Result<(Outcome, Vec<String>)> {
    let (mut sum, mut told) = (Outcome::default(), Vec::new());
    for (number, plan) in PLANS.iter().enumerate() {
        // Machines take from a third of a second to six seconds, so nodes of one plan join one after the other.
        let pace = Pace { boot: (Duration::from_millis(300), Duration::from_secs(6)), ..Pace::default() };
        let options = Options { account, pace, ..Options::default() };
        let name = account.map_or("hints", |_| "no-hints");
        let world = World::start(stage, &format!("{name}-{number}"), options).await?;
        let outcome = one_plan(&world, plan).await.with_context(|| world.last_words())?;
        told.push(outcome.told(&format!("plan {number} with {name}")));
        sum = sum.and(outcome);
    }
    Ok((sum, told))
}

fn constraint(kind: &str) -> Value {
    if kind != "spread" {
        return json!({});
    }
    json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": kind } },
    }] })
}

async fn one_plan(world: &World, plan: &[(&str, u32, &str, &str)]) -> anyhow::Result<Outcome> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    let watched = Plan::watch(&world.grpc).await?;
    let mut pods = 0;
    for (kind, count, cpu, memory) in plan {
        world.cluster.deploy(kind, *count, cpu, memory, constraint(kind)).await?;
        pods += count;
    }
    // The pool comes last, so that the pods are planned together.
    world.pool("default", requirements, json!({ "consolidateAfter": "Never" })).await?;
    world.cluster.until_ready(i32::try_from(pods)?, PATIENCE).await?;
    let nodes = world.until_book_and_cluster_agree(PATIENCE).await?;
    let (expected, page) = (watched.expected(), world.book.read().await?);
    let planned_nodes = expected.values().collect::<BTreeSet<_>>().len();
    let mut where_planned = 0;
    for pod in world.cluster.pods().await? {
        let name = format!("{}/{}", world.cluster.namespace, pod.name_any());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let mut instances = page.told.sales.iter().filter_map(|sale| sale.instance.as_ref());
        let claim = instances.find(|instance| instance.id == node).map(|instance| &instance.claim);
        where_planned += usize::from(claim.is_some() && claim == expected.get(&name));
    }
    ensure!(expected.len() == pods as usize, "the server planned {} of {pods} pods", expected.len());
    Ok(Outcome { pods: pods as usize, where_planned, planned_nodes, nodes, dollars: page.dollars_an_hour() })
}
