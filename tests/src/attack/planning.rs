//! The pods of one cluster are as expensive to plan as a tenant can make them: each has a different
//! shape with many contradictory preferences. Measures the effect on another cluster of the server
//! and on the health endpoint.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::agent::{Agent, change};
use super::arguments::number;
use super::health::{Probe, get};
use crate::{Program, RunningProcess, authority};
use prost::Message;

/// Pods of the other cluster that are measured before the attack begins.
const ROUNDS: usize = 5;

/// Timeout for the NodeClaim of a pod of the other cluster.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Largest additional latency of the other cluster's NodeClaim.
const LATER: Duration = Duration::from_secs(2);

/// Bounds on the response time of the health endpoint: for 99 of 100 responses, and for all.
const HEALTH: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Interval at which the planning of the expensive pods is polled; at least this many polls are
/// between two waves.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const POLLS_PER_WAVE: usize = 30;

/// Log messages of a lost or endangered lease.
const LEASE_LOSS_MESSAGES: [&str; 4] =
    ["lost cluster lease", "skipping lease renewal", "dependency=lease renewal", "lease is not held"];

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of expensive pods in a wave.
    pub pods: usize,
    /// Number of preferred node terms of each pod, and of preferred pod terms.
    pub terms: usize,
    /// Minimum duration, in seconds.
    pub seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { pods: 3_000, terms: 50, seconds: 60 }
    }
}

#[derive(Debug)]
pub struct Outcome {
    /// Figures, one per line.
    pub figures: Vec<String>,
    pub broken: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        self.broken.iter().try_for_each(|line| writeln!(f, "BROKEN: {line}"))
    }
}

/// `attack planning`: prints the figures, and fails beyond the bounds.
pub(super) fn main(words: &[&str]) -> ExitCode {
    let usual = Settings::default();
    let size = |flag: &str, usual: usize| usize::try_from(number(words, flag, usual as u64)).unwrap_or(usual);
    let settings = Settings {
        pods: size("--pods", usual.pods),
        terms: size("--terms", usual.terms),
        seconds: number(words, "--seconds", usual.seconds),
    };
    let me = std::env::current_exe().unwrap_or_default();
    let outcome = run(&me.to_string_lossy(), &["fleetwright-sim"], &settings);
    print!("{outcome}");
    if outcome.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the attack on a server started as `program` with the arguments `first` before its own.
///
/// # Panics
/// When the server cannot be started, does not respond, or does not plan the expensive pods.
#[must_use]
pub fn run(program: &str, first: &[&str], settings: &Settings) -> Outcome {
    // `attack connections` tests the bounds on memory.
    let memory = ["--session-memory", "4096", "--session-memory-total", "8192"];
    let listen = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let arguments = [&["serve"][..], &listen, &memory].concat();
    let server = Program::new(program, &[first, &arguments].concat()).start();
    let [grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let http = authority(&dashboard).to_owned();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(attack(&server, &grpc, &http, settings))
}

async fn attack(server: &RunningProcess, grpc: &str, http: &str, settings: &Settings) -> Outcome {
    let mut other_cluster = Agent::join(grpc, "other", definitions()).await;
    let mut number = 0;
    let mut usual = Vec::new();
    for _ in 0..ROUNDS {
        usual.push(order(&mut other_cluster, &mut number).await);
    }
    usual.sort_unstable();
    // The usual latency is measured before the attack, on the same server.
    let probe = Probe::start(http);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(settings.seconds);
    let expensive = tokio::spawn(run_expensive_cluster(grpc.to_owned(), http.to_owned(), *settings, end));
    let mut later = Vec::new();
    while Instant::now() < end {
        later.push(order(&mut other_cluster, &mut number).await);
    }
    let lasted = begun.elapsed();
    later.sort_unstable();
    let (waves, planning, polls) = expensive.await.unwrap_or_default();
    let health = probe.end();
    assert!(planning > 0, "in {polls} polls no plan for the expensive pods was under way: nothing was attacked");
    let lapsed: Vec<String> = server
        .take_stderr_lines()
        .into_iter()
        .filter(|line| LEASE_LOSS_MESSAGES.iter().any(|words| line.contains(words)))
        .collect();
    check_bounds(
        &usual,
        &later,
        &health,
        &lapsed,
        &format!(
            "{} expensive pods with {} + {} preferred terms, {waves} times in {:.0} s; in {planning} of {polls} polls a plan for them was under way",
            settings.pods,
            settings.terms,
            settings.terms,
            lasted.as_secs_f64(),
        ),
    )
}

/// Sends waves of expensive pods until `end`, each when the previous one is planned. Returns the
/// number of waves, of polls during planning, and of polls.
async fn run_expensive_cluster(grpc: String, http: String, settings: Settings, end: Instant) -> (usize, usize, usize) {
    let mut agent = Agent::join(&grpc, "expensive", build_expensive_pods(0, settings).await).await;
    let (mut waves, mut planning, mut polls) = (1, 0, 0);
    while Instant::now() < end {
        tokio::time::sleep(POLL_INTERVAL).await;
        polls += 1;
        if plans(&http, "expensive") {
            planning += 1;
        } else if polls % POLLS_PER_WAVE == 0 {
            let pods = build_expensive_pods(waves, settings).await;
            assert!(agent.send_changes(pods).await, "the server has ended the expensive agent's stream");
            waves += 1;
        }
    }
    (waves, planning, polls)
}

fn check_bounds(
    usual: &[Duration],
    later: &[Duration],
    health: &[Duration],
    lapsed: &[String],
    about: &str,
) -> Outcome {
    let most = |all: &[Duration]| all.last().copied().unwrap_or(TIMEOUT);
    let at = |all: &[Duration], percent: usize| {
        all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied().unwrap_or(TIMEOUT)
    };
    let figures = vec![
        about.to_owned(),
        format!("pod of the other cluster ordered, before: median {:?}, at worst {:?}", at(usual, 50), most(usual)),
        format!(
            "pod of the other cluster ordered, during: median {:?}, at worst {:?} of {}",
            at(later, 50),
            most(later),
            later.len()
        ),
        format!("/healthz: p99 {:?}, at worst {:?} of {}", at(health, 99), most(health), health.len()),
        format!("leases lapsed: {}", lapsed.len()),
    ];
    // Bounds are relative to the usual latency, because the machine of the test is unknown.
    let mut broken: Vec<String> = lapsed.to_vec();
    if most(later) > at(usual, 50) + LATER {
        broken.push(format!("a pod of the other cluster was ordered {LATER:?} later than usual"));
    }
    if at(health, 99) > HEALTH[0] || most(health) > HEALTH[1] {
        broken.push(format!("/healthz took longer than {HEALTH:?}"));
    }
    Outcome { figures, broken }
}

/// Time until the server requests a NodeClaim for one more pod of the other cluster.
pub(super) async fn order(other_cluster: &mut Agent, number: &mut usize) -> Duration {
    *number += 1;
    let name = format!("web-{number}");
    if !other_cluster.send_changes(vec![pod("default", &name, &web(), &labels("web"))]).await {
        return TIMEOUT;
    }
    other_cluster.time_until_ordered(TIMEOUT).await.unwrap_or(TIMEOUT)
}

/// Whether a plan for `cluster` is in progress, according to the fleet API.
fn plans(http: &str, cluster: &str) -> bool {
    get(http, &format!("/v1/clusters/{cluster}")).is_ok_and(|answer| answer.contains("\"planning\":{"))
}

pub(super) fn definitions() -> Vec<v1::Change> {
    vec![define_shape(&web()), define_labels(&labels("web"))]
}

/// The shape of a pod that requires a node without others of its kind.
fn web() -> Value {
    let apart = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": selector("web") });
    shape(500, json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [apart] } }))
}

fn shape(millicores: usize, affinity: Value) -> Value {
    let requests = json!({ "cpu": format!("{millicores}m"), "memory": "256Mi" });
    let container = json!({ "name": "main", "resources": { "requests": requests } });
    json!({ "spec": { "containers": [container], "affinity": affinity } })
}

/// The same, while the other cluster's agent continues.
async fn build_expensive_pods(wave: usize, settings: Settings) -> Vec<v1::Change> {
    tokio::task::spawn_blocking(move || expensive_pods(wave, &settings)).await.unwrap_or_default()
}

/// The expensive pods of one wave, and the removal of those of the wave before.
fn expensive_pods(wave: usize, settings: &Settings) -> Vec<v1::Change> {
    let name = |wave: usize, at: usize| format!("expensive-{wave}-{at}");
    let gone = |at: usize| {
        change(Change::Removal(v1::Removal {
            kind: v1::ObjectKind::Pod.into(),
            namespace: "expensive".to_owned(),
            name: name(wave.saturating_sub(1), at),
        }))
    };
    let before = (0..settings.pods).filter(|_| wave > 0).map(gone);
    let apps = (0..APPS).map(|at| define_labels(&labels(&format!("a{at}"))));
    let pods = (0..settings.pods).flat_map(|at| {
        let shape = expensive_shape(wave * settings.pods + at, settings.terms);
        [define_shape(&shape), pod("expensive", &name(wave, at), &shape, &labels(&format!("a{}", at % APPS)))]
    });
    before.chain(apps).chain(pods).collect()
}

const APPS: usize = 97;
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const FAMILIES: [&str; 12] = ["m5", "c5", "r5", "m6i", "c6i", "r6i", "m7g", "c7g", "r7g", "t3", "m6a", "c6a"];

fn expensive_shape(at: usize, terms: usize) -> Value {
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let weight = |term: usize| (at * 7 + term * 13) % 100 + 1;
    let expression = |term: usize| {
        let (key, operator, value) = match term % 4 {
            0 => ("karpenter.k8s.aws/instance-family", "NotIn", FAMILIES[(at + term) % FAMILIES.len()].to_owned()),
            1 => ("topology.kubernetes.io/zone", "In", ZONES[(at + term) % ZONES.len()].to_owned()),
            2 => ("karpenter.k8s.aws/instance-cpu", "Gt", ((at + term) % 32).to_string()),
            _ => ("karpenter.k8s.aws/instance-memory", "Lt", (65_536 + 1_024 * ((at + term) % 64)).to_string()),
        };
        json!({ "key": key, "operator": operator, "values": [value] })
    };
    let node =
        |term: usize| json!({ "weight": weight(term), "preference": { "matchExpressions": [expression(term)] } });
    let near = |term: usize| {
        let key = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"][term % 2];
        let selector = selector(&format!("a{}", (at + 31 * term) % APPS));
        json!({ "weight": weight(term + 50), "podAffinityTerm": { "topologyKey": key, "labelSelector": selector } })
    };
    let affinity = json!({
        "nodeAffinity": { PREFERRED: (0..terms).map(node).collect::<Value>() },
        "podAffinity": { PREFERRED: (0..terms / 2).map(near).collect::<Value>() },
        "podAntiAffinity": { PREFERRED: (terms / 2..terms).map(near).collect::<Value>() },
    });
    shape(100 + at % 1_900, affinity)
}

fn selector(app: &str) -> Value {
    json!({ "matchLabels": { "app": app } })
}

fn labels(app: &str) -> v1::LabelSet {
    v1::LabelSet { labels: vec![v1::StringPair { key: "app".to_owned(), value: app.to_owned() }] }
}

fn hash(content: &[u8]) -> Vec<u8> {
    Sha256::digest(content)[..16].to_vec()
}

fn define_shape(shape: &Value) -> v1::Change {
    let content = shape.to_string().into_bytes();
    change(Change::DefinePodShape(v1::Definition { hash: hash(&content), content }))
}

fn define_labels(labels: &v1::LabelSet) -> v1::Change {
    let content = labels.encode_to_vec();
    change(Change::DefineLabelSet(v1::Definition { hash: hash(&content), content }))
}

fn pod(namespace: &str, name: &str, shape: &Value, labels: &v1::LabelSet) -> v1::Change {
    change(Change::Pod(Box::new(v1::PodRecord {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        shape: hash(shape.to_string().as_bytes()).into(),
        labels: hash(&labels.encode_to_vec()).into(),
        phase: v1::PodPhase::Pending.into(),
        scheduled_reason: "Unschedulable".to_owned(),
        created_at_ms: 1,
        ..v1::PodRecord::default()
    })))
}
