//! kube-scheduler binds the pods. Of the plan it has only the nominations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::deploy;
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::expected_placements::ExpectedPlacements;
use e2e::kubernetes::kubelets::KubeletTiming;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use kube::ResourceExt;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Target percentage of pods bound as planned when nominations are honoured. Reported, not
/// asserted, as is the number of additional nodes: both depend on kube-scheduler's timing while
/// nodes register.
const GOAL: usize = 98;

/// Plans of different texture: many small pods, few large ones, pods that must spread. 60 to 160
/// pods each.
const PLANS: [&[(&str, u32, &str, &str)]; 3] = [
    &[("small", 120, "300m", "400Mi")],
    &[("large", 30, "3", "6Gi"), ("middle", 60, "700m", "1Gi"), ("tiny", 60, "100m", "128Mi")],
    &[("spread", 60, "900m", "1Gi"), ("filler", 90, "250m", "900Mi")],
];

/// A service account that may do everything except nominate.
const WITHOUT_NOMINATIONS: &str = "e2e-without-nominations";

#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    pods: usize,
    /// Pods on the machine that they were planned for.
    where_planned: usize,
    /// The same, with replicas of one workload interchangeable: as many of a kind on a node as
    /// planned.
    as_planned: usize,
    planned_nodes: usize,
    nodes: usize,
    dollars: f64,
    /// From the NodePool to the last pod ready.
    seconds: f64,
}

impl Outcome {
    fn and(self, other: Self) -> Self {
        Self {
            pods: self.pods + other.pods,
            where_planned: self.where_planned + other.where_planned,
            as_planned: self.as_planned + other.as_planned,
            planned_nodes: self.planned_nodes + other.planned_nodes,
            nodes: self.nodes + other.nodes,
            dollars: self.dollars + other.dollars,
            seconds: self.seconds + other.seconds,
        }
    }

    /// Nodes that the plan did not have.
    fn extra(&self) -> usize {
        self.nodes.saturating_sub(self.planned_nodes)
    }

    fn percent(&self, pods: usize) -> f64 {
        100.0 * pods as f64 / self.pods.max(1) as f64
    }

    fn output(&self, how: &str) -> String {
        format!(
            "{how}: of {} pods {:.1} % where planned, replicas apart {:.1} %; {} nodes beyond the {} planned, {:.2} $/h, ready after {:.1} s",
            self.pods,
            self.percent(self.as_planned),
            self.percent(self.where_planned),
            self.extra(),
            self.planned_nodes,
            self.dollars,
            self.seconds,
        )
    }
}

/// Every plan with the agent's own account, and with an account that may not nominate.
pub(super) async fn plans_are_carried_out(test_bed: Arc<TestBed>) -> ScenarioResult {
    deploy::account_without(&test_bed.client, WITHOUT_NOMINATIONS, "pods/status").await?;
    let (mut with, mut without, mut output) = (Outcome::default(), Outcome::default(), Vec::new());
    for number in 0..PLANS.len() {
        let outcome = run(&test_bed, number, None).await?;
        output.push(outcome.output(&format!("plan {number}")));
        with = with.and(outcome);
        let outcome = run(&test_bed, number, Some(WITHOUT_NOMINATIONS)).await?;
        output.push(outcome.output(&format!("plan {number} without nominations")));
        without = without.and(outcome);
    }
    let met = if with.as_planned * 100 >= with.pods * GOAL { "met" } else { "missed" };
    output.extend([
        with.output("all plans"),
        without.output("all plans without nominations"),
        format!("goal of {GOAL} % where planned: {met}"),
    ]);
    let output = output.join("\n");
    // How many of the others are bound as planned depends on the load of the machine.
    ensure!(with.as_planned * 2 > with.pods, "most pods are not where they were planned\n{output}");
    Ok(output)
}

async fn run(test_bed: &TestBed, number: usize, account: Option<&'static str>) -> anyhow::Result<Outcome> {
    // Boot times between a third of a second and six seconds: nodes of one plan join one after the
    // other.
    let timing =
        KubeletTiming { boot: (Duration::from_millis(300), Duration::from_secs(6)), ..KubeletTiming::default() };
    let options = Options { account, timing, ..Options::default() };
    let name = account.map_or("nominations", |_| "no-nominations");
    let environment = Environment::start(test_bed, &format!("{name}-{number}"), options).await?;
    one_plan(&environment, PLANS[number]).await.with_context(|| environment.log_tails())
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

async fn one_plan(environment: &Environment, plan: &[(&str, u32, &str, &str)]) -> anyhow::Result<Outcome> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    let watched = ExpectedPlacements::watch(&environment.grpc).await?;
    let mut pods = 0;
    for (kind, count, cpu, memory) in plan {
        environment.cluster.deploy(kind, *count, cpu, memory, constraint(kind)).await?;
        pods += count;
    }
    // The pool is applied last, so that the pods are planned together.
    environment.apply_pool("default", requirements, json!({ "consolidateAfter": "Never" })).await?;
    let start = Instant::now();
    environment.cluster.wait_until_ready(i32::try_from(pods)?, TIMEOUT).await?;
    let seconds = start.elapsed().as_secs_f64();
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    let (expected, ledger) = (watched.expected(), environment.ledger.read_ledger().await?);
    ensure!(expected.len() == pods as usize, "the server planned {} of {pods} pods", expected.len());
    let planned_nodes = expected.values().collect::<BTreeSet<_>>().len();
    let instances = ledger.response.entries.iter().filter_map(|entry| entry.instance.as_ref());
    let claims: BTreeMap<&str, &str> = instances.map(|one| (one.id.as_str(), one.claim.as_str())).collect();
    let mut actual: BTreeMap<String, String> = BTreeMap::new();
    for pod in environment.cluster.pods().await? {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let claim = claims.get(node).copied().unwrap_or_default();
        actual.insert(format!("{}/{}", environment.cluster.namespace, pod.name_any()), claim.to_owned());
    }
    let where_planned = actual.iter().filter(|(pod, claim)| expected.get(*pod) == Some(claim)).count();
    let (wanted, got) = (by_kind(&expected), by_kind(&actual));
    let as_planned = wanted.iter().map(|(place, count)| *count.min(got.get(place).unwrap_or(&0))).sum();
    let (pods, dollars) = (pods as usize, ledger.dollars_an_hour());
    Ok(Outcome { pods, where_planned, as_planned, planned_nodes, nodes, dollars, seconds })
}

/// Number of pods of each workload on each machine. The name of a replica begins with the name of
/// its Deployment.
fn by_kind(places: &BTreeMap<String, String>) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for (pod, claim) in places {
        let name = pod.rsplit('/').next().unwrap_or_default();
        let kind = name.split('-').next().unwrap_or_default();
        *counts.entry((kind.to_owned(), claim.clone())).or_default() += 1;
    }
    counts
}
