//! `cargo bench -p fleetwright-bench -- consolidation`: the time and the result of consolidation over a
//! whole cluster, beside the CPU time that Karpenter needs to look at each node once.
//!
//! The clusters follow those on which Karpenter's `SimulateScheduling` was measured: nodes of 16 CPUs and 32
//! GiB, 20 pods on each, Deployments of 50 pods, of which the nodes are 60 % (slack) or 97 % (tight) full.

mod verdicts;

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use disruption::{DisruptionPlan, Settings};
use manifests::Source;
use model::Timestamp;
use model::removal::RemovalReason;
use planner::CompileCache;
use planning_input::{Captured, Options};

use crate::proc::thread_cpu;

struct Case {
    name: &'static str,
    nodes: usize,
    /// How full the nodes are, in per mille.
    fill: usize,
    /// Whether the pods of each Deployment are spread over zones.
    spread: bool,
    /// CPU seconds that Karpenter needs to simulate the removal of each node once (its own measurement for
    /// this many nodes).
    karpenter_seconds: Option<f64>,
}

const CASES: [Case; 7] = [
    Case { name: "slack-100", nodes: 100, fill: 600, spread: false, karpenter_seconds: Some(1.5) },
    Case { name: "slack-1000", nodes: 1_000, fill: 600, spread: false, karpenter_seconds: Some(142.0) },
    Case { name: "tight-spread-1000", nodes: 1_000, fill: 970, spread: true, karpenter_seconds: Some(219.0) },
    Case { name: "slack-5000", nodes: 5_000, fill: 600, spread: false, karpenter_seconds: Some(4_698.0) },
    Case { name: "slack-spread-5000", nodes: 5_000, fill: 600, spread: true, karpenter_seconds: None },
    Case { name: "tight-5000", nodes: 5_000, fill: 970, spread: false, karpenter_seconds: None },
    Case { name: "tight-spread-5000", nodes: 5_000, fill: 970, spread: true, karpenter_seconds: Some(4_785.0) },
];

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const PODS_PER_NODE: usize = 20;
const PODS_PER_DEPLOYMENT: usize = 50;
/// Millicores of c6a.4xlarge that pods can use.
const NODE_CPU: usize = 15_890;
/// Time of the plan: 2026-02-01, a month after everything in the cluster began.
const NOW: Timestamp = Timestamp::from_millis(20_485 * 24 * 3_600_000);

pub(crate) fn report(only: &str, runs: u32, verdicts: usize) -> Result<()> {
    println!(
        "| case | CPU ms | of Karpenter's scan | candidates | removed | replaced | left | $/hour before | after | bound |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in CASES.iter().filter(|case| case.name.contains(only)) {
        let captured = read(case)?;
        let mut times = Vec::new();
        let mut planned = plan(&captured)?;
        for _ in 0..runs {
            let before = thread_cpu();
            planned = plan(&captured)?;
            times.push((thread_cpu() - before).as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let seconds = times[times.len() / 2];
        println!("{}", row(case, seconds, &captured, &planned));
        for refused in &planned.refused {
            println!("refused: {refused}");
        }
        if verdicts > 0 {
            for machines in [verdicts::MAX_MACHINES, verdicts::ANY_NUMBER] {
                print_verdicts(case, &captured, &planned, (verdicts, machines))?;
            }
        }
    }
    Ok(())
}

fn print_verdicts(
    case: &Case,
    captured: &Captured,
    planned: &DisruptionPlan,
    (most, machines): (usize, i64),
) -> Result<()> {
    let (confirmed, others) = verdicts::confirm(captured, planned, (most, machines))?;
    let sampled = confirmed + others.len();
    println!("{}: {confirmed} verdicts of {sampled} confirmed with at most {machines} machines for a node", case.name);
    others.iter().for_each(|other| println!("{other}"));
    Ok(())
}

fn plan(captured: &Captured) -> Result<DisruptionPlan> {
    let planned =
        disruption::plan(&captured.input, &captured.running, &Settings::default(), &mut CompileCache::default());
    planned.map_err(|violations| anyhow!("{violations:?}"))
}

fn row(case: &Case, seconds: f64, captured: &Captured, planned: &DisruptionPlan) -> String {
    let ratio = case.karpenter_seconds.map_or_else(|| "-".to_owned(), |theirs| format!("1/{:.0}", theirs / seconds));
    let of = |reason: RemovalReason| planned.commands.iter().filter(move |command| command.reason == reason);
    let consolidated = || of(RemovalReason::Underutilized);
    let nodes = |replaced: bool| {
        let commands = consolidated().filter(move |command| command.replacements.is_empty() != replaced);
        commands.map(|command| command.nodes.len()).sum::<usize>()
    };
    format!(
        "| {} | {:.0} | {ratio} | {} | {} | {} | {} | {} | {} | {} |",
        case.name,
        seconds * 1e3,
        captured.running.nodes.len(),
        nodes(false),
        nodes(true),
        planned.held.len(),
        planned.cost.before,
        planned.cost.after,
        planned.cost.lower_bound
    )
}

fn read(case: &Case) -> Result<Captured> {
    let options = Options { disrupt: true, now: NOW, ..Options::default() };
    let source = Source { name: case.name.to_owned(), bytes: manifests(case).into_bytes() };
    planning_input::read([source], &options).map_err(|errors| anyhow!("{errors:?}"))
}

/// A pseudo-random sequence (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}

fn manifests(case: &Case) -> String {
    let mut text = String::from(POOL);
    let sizes = sizes(case);
    let nodes = assign(case, &sizes);
    for (number, pods) in nodes.iter().enumerate() {
        node(&mut text, number);
        for (deployment, pod) in pods {
            pod_of(&mut text, case, (number, *deployment, *pod), sizes[*deployment]);
        }
    }
    text
}

/// The CPU request of the pods of each Deployment: from 70 % to 130 % of the mean, which fills the nodes.
fn sizes(case: &Case) -> Vec<usize> {
    let deployments = (case.nodes * PODS_PER_NODE).div_ceil(PODS_PER_DEPLOYMENT);
    let mut random = Random(7);
    let weights: Vec<usize> = (0..deployments).map(|_| 700 + random.below(601)).collect();
    let all: usize = weights.iter().sum();
    let mean = NODE_CPU * case.fill / 1_000 / PODS_PER_NODE;
    weights.iter().map(|weight| weight * mean * deployments / all).collect()
}

/// The pods of each node, as (Deployment, pod): zones in turn for the pods of a Deployment, and in a zone the
/// node that is least full, large pods first.
fn assign(case: &Case, sizes: &[usize]) -> Vec<Vec<(usize, usize)>> {
    let mut nodes = vec![Vec::new(); case.nodes];
    let mut used: Vec<usize> = vec![0; case.nodes];
    let mut in_zone: Vec<std::collections::BTreeSet<(usize, usize)>> = vec![Default::default(); ZONES.len()];
    for node in 0..case.nodes {
        in_zone[node % ZONES.len()].insert((0, node));
    }
    let mut pods: Vec<(usize, usize)> =
        (0..case.nodes * PODS_PER_NODE).map(|pod| (pod / PODS_PER_DEPLOYMENT, pod)).collect();
    pods.sort_by_key(|(deployment, pod)| (std::cmp::Reverse(sizes[*deployment]), *deployment, *pod));
    for (deployment, pod) in pods {
        let zone = &mut in_zone[(deployment + pod) % ZONES.len()];
        let Some((full, node)) = zone.pop_first() else { continue };
        used[node] = full + sizes[deployment];
        nodes[node].push((deployment, pod));
        zone.insert((used[node], node));
    }
    nodes
}

const POOL: &str = r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"default"},"spec":{"disruption":{"consolidationPolicy":"WhenEmptyOrUnderutilized","consolidateAfter":"0s","budgets":[{"nodes":"100%"}]},"template":{"spec":{"expireAfter":"Never","nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"default"},"requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}
---
{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{"name":"default"},"spec":{"role":"nodes","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"tags":{"a":"b"}}],"securityGroupSelectorTerms":[{"tags":{"a":"b"}}]},"status":{"subnets":[{"id":"subnet-a","zone":"us-east-1a"},{"id":"subnet-b","zone":"us-east-1b"},{"id":"subnet-c","zone":"us-east-1c"}],"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Ready","message":""}]}}
---
"#;

/// Adds the NodeClaim and the Node with this number.
fn node(text: &mut String, number: usize) {
    let zone = ZONES[number % ZONES.len()];
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"{kind}","message":""}}"#
        )
    };
    let conditions = ["Launched", "Registered", "Initialized", "Consolidatable"].map(condition).join(",");
    let labels = format!(
        r#"{{"karpenter.sh/nodepool":"default","node.kubernetes.io/instance-type":"c6a.4xlarge","topology.kubernetes.io/zone":"{zone}","karpenter.sh/capacity-type":"on-demand","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux","kubernetes.io/hostname":"n{number:05}","karpenter.sh/registered":"true","karpenter.sh/initialized":"true"}}"#
    );
    let resources = format!(
        r#""capacity":{{"cpu":"16","memory":"32Gi","pods":"234"}},"allocatable":{{"cpu":"{NODE_CPU}m","memory":"29Gi","pods":"234"}}"#
    );
    let _ = write!(
        text,
        r#"{{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{{"name":"c{number:05}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{labels}}},"spec":{{"expireAfter":"Never","nodeClassRef":{{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"default"}},"requirements":[]}},"status":{{"nodeName":"n{number:05}","providerID":"aws:///{zone}/i-{number}",{resources},"conditions":[{conditions}]}}}}
---
{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n{number:05}","labels":{labels},"creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"providerID":"aws:///{zone}/i-{number}"}},"status":{{{resources},"conditions":[{}]}}}}
---
"#,
        condition("Ready")
    );
}

fn pod_of(text: &mut String, case: &Case, (node, deployment, pod): (usize, usize, usize), cpu: usize) {
    let app = format!("d{deployment}");
    let spread = match case.spread {
        true => format!(
            r#","topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{{"matchLabels":{{"app":"{app}"}}}}}}]"#
        ),
        false => String::new(),
    };
    let memory = cpu * 17 / 10;
    let _ = write!(
        text,
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{pod}","namespace":"default","labels":{{"app":"{app}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{app}","controller":true}}]}},"spec":{{"nodeName":"n{node:05}","containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}}}}]{spread}}},"status":{{"phase":"Running","startTime":"2026-01-01T00:00:00Z"}}}}
---
"#
    );
}
