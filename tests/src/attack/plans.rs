//! Plans that are as expensive as a client of scope `plan` can ask for: pods of as many kinds as a request may have, none of
//! which fits anywhere, beside as many NodePools as are accepted, and far more. Each client has a token of its own, as the plans
//! of one client share one place. Some clients wait for the answer, some go away at once. Measures the memory of the server, the
//! effect on a cluster, on another client and on the health endpoint, by how much calls miss their deadline, and whether the work
//! ends when nobody waits for it any more.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fleetwright_proto::v1;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use http::uri::PathAndQuery;
use prost::Message as _;
use prost::bytes::{Buf, BufMut, Bytes};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::agent::Agent;
use super::arguments::number;
use super::health::Probe;
use super::metrics::resident_bytes;
use super::planning::{definitions, order};
use super::test_bed::issue;
use crate::{Program, RunningProcess, TempDir, authority};

/// Pod sets of a request, its maximum.
const POD_SETS: usize = 32;

/// NodePools that a request may have, at its maximum.
const ACCEPTED_POOLS: usize = 50;

/// The cluster for which plans are asked.
const CLUSTER: &str = "target";

/// Name and token of the client that makes cheap calls.
const READER: &str = "reader";

/// Deadline of a request that states none, as here: tonic's client would end a call by itself at a deadline that it states.
const DEADLINE: Duration = Duration::from_secs(10);

/// Shortest time for which the other client is measured before the attack; a long attack has a sixth of its own.
const QUIET: Duration = Duration::from_secs(2);

/// When a client goes away that does not wait.
const IMPATIENCE: Duration = Duration::from_millis(300);

/// Bound on the memory beyond that of the idle server.
const MAX_EXTRA_MEMORY: u64 = 512 << 20;

/// Bound on the processor time that the server takes in the second that begins one second after the last client went away.
const MAX_LATE_WORK: Duration = Duration::from_millis(300);

/// Longest time from the deadline of a call to its end.
const MAX_LATENESS: Duration = Duration::from_secs(1);

/// Bound on the p99 of another client's calls, as a multiple of that before the attack.
const SLOWER: u32 = 2;

/// Largest additional latency of a NodeClaim.
const LATER: Duration = Duration::from_secs(2);

/// Bound on the response time of the health endpoint for 99 of 100 responses.
const HEALTH: Duration = Duration::from_millis(500);

/// Longest wait for the server, for the end of a call and for a NodeClaim.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Rounds that are measured before the attack.
const ROUNDS: usize = 3;

/// Sampling interval of the memory, and time between two calls of the other client.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Duration, in seconds.
    pub seconds: u64,
    /// Clients at one time, each with a token.
    pub clients: usize,
    /// NodePools of the requests that are refused.
    pub node_pools: usize,
    pub pods: i32,
    /// Added to the niceness of the clients. Beside other work of the machine, a client that gives way may be so slow that
    /// the server closes its connection.
    pub niceness: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seconds: 60, clients: 20, node_pools: 1_500, pods: 312, niceness: 0 }
    }
}

#[derive(Debug)]
pub struct Outcome {
    /// Figures, one per line.
    pub figures: Vec<String>,
    /// Bounds on memory that were exceeded, and calls that ended as none may.
    pub broken: Vec<String>,
    /// Bounds on late work and on latencies that were exceeded.
    pub late: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        self.broken.iter().chain(&self.late).try_for_each(|line| writeln!(f, "BROKEN: {line}"))
    }
}

/// `attack plans`: prints the figures, and fails beyond the bounds.
pub(super) fn main(words: &[&str]) -> ExitCode {
    let usual = Settings::default();
    let size = |flag: &str, usual: usize| usize::try_from(number(words, flag, usual as u64)).unwrap_or(usual);
    let settings = Settings {
        seconds: number(words, "--seconds", usual.seconds),
        // Late work is measured by a plan of one of them.
        clients: size("--clients", usual.clients).max(1),
        node_pools: size("--node-pools", usual.node_pools),
        pods: i32::try_from(number(words, "--pods", 312)).unwrap_or(usual.pods),
        // The clients would be on other machines: they give way to the server.
        niceness: 19,
    };
    let me = std::env::current_exe().unwrap_or_default();
    let outcome = run(&me.to_string_lossy(), &["fleetwright-sim"], settings);
    print!("{outcome}");
    if outcome.broken.is_empty() && outcome.late.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the attack on a server started as `program` with the arguments `first` before its own.
///
/// # Panics
/// When the server cannot be started, ends, or does not refuse a plan with `settings.node_pools` NodePools.
#[must_use]
pub fn run(program: &str, first: &[&str], settings: Settings) -> Outcome {
    let folder = TempDir::new();
    let trust = write_trust_file(&folder, settings.clients).expect("a trust file");
    let agent_token = std::fs::read_to_string(folder.path().join(CLUSTER)).expect("the token of the agent");
    let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--auth-file", &trust];
    let server = Program::new(program, &[first, &arguments[..]].concat()).start();
    let [grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let http = authority(&dashboard).to_owned();
    let niceness = settings.niceness;
    let give_way = move || {
        rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness).expect("a priority");
    };
    let mut clients = tokio::runtime::Builder::new_multi_thread();
    let runtime = clients.enable_all().on_thread_start(give_way).build().expect("a runtime");
    runtime.block_on(async {
        let cluster = Agent::join_with_token(&grpc, CLUSTER, Some(&agent_token), definitions()).await;
        attack(&server, &grpc, &http, cluster, settings).await
    })
}

/// Writes a trust file with a client of scope `plan` for each attacker, one of scope `read`, and the agent of the cluster,
/// whose token is in a file beside it. The token of a client is its name.
fn write_trust_file(folder: &TempDir, clients: usize) -> anyhow::Result<String> {
    let mut trust = issue(folder, CLUSTER)?;
    let attackers = (0..clients).map(|number| (planner(number), "plan"));
    for (name, scope) in attackers.chain([(READER.to_owned(), "read")]) {
        let digest: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        trust.push_str(&format!("[[clients]]\nname = '{name}'\nscope = '{scope}'\ntoken-sha256 = '{digest}'\n"));
    }
    Ok(folder.write_file("auth.toml", trust))
}

/// Name and token of an attacker.
fn planner(number: usize) -> String {
    format!("planner-{number}")
}

/// How the calls of the clients ended.
#[derive(Debug, Default)]
struct Answers {
    by_code: BTreeMap<String, usize>,
    gone: usize,
    /// Ends that no call may have.
    unexpected: BTreeMap<String, usize>,
    /// Longest time by which a call ended after its deadline.
    latest: Duration,
}

impl Answers {
    fn end_call(&mut self, code: Code, took: Duration, is_too_large: bool) {
        *self.by_code.entry(format!("{code:?}")).or_default() += 1;
        let is_expected = match code {
            Code::Ok | Code::ResourceExhausted | Code::DeadlineExceeded => true,
            Code::InvalidArgument => is_too_large,
            _ => false,
        };
        if !is_expected {
            *self.unexpected.entry(format!("{code:?}")).or_default() += 1;
        }
        self.latest = self.latest.max(took.saturating_sub(DEADLINE));
    }

    fn add(&mut self, other: Self) {
        self.gone += other.gone;
        other.by_code.into_iter().for_each(|(code, count)| *self.by_code.entry(code).or_default() += count);
        other.unexpected.into_iter().for_each(|(code, count)| *self.unexpected.entry(code).or_default() += count);
        self.latest = self.latest.max(other.latest);
    }
}

/// What was measured; latencies are sorted, the shortest first.
struct Measured {
    /// Memory of the idle server, and its peak during the attack, in bytes.
    idle: u64,
    peak: u64,
    late_work: Duration,
    /// Pods ordered before the attack and during it.
    usual: Vec<Duration>,
    later: Vec<Duration>,
    /// Longest time by which a call of the attacker that does not give way ended after its deadline.
    latest: Duration,
    /// Calls of the other client before the attack and during it.
    quiet: Vec<Duration>,
    busy: Vec<Duration>,
    health: Vec<Duration>,
}

async fn attack(server: &RunningProcess, grpc: &str, http: &str, mut cluster: Agent, settings: Settings) -> Outcome {
    let mut orders = 0;
    let mut usual = Vec::new();
    for _ in 0..ROUNDS {
        usual.push(order(&mut cluster, &mut orders).await);
    }
    usual.sort_unstable();
    // Before the clients, which may otherwise be refused for the plans of the others each time that they ask for this one.
    let refused = plan(connect(grpc).await, &planner(0), request(settings, settings.node_pools)).await;
    assert_eq!(refused, Code::InvalidArgument, "a plan with {} NodePools must be refused", settings.node_pools);
    let quiet =
        read_until(grpc.to_owned(), Instant::now() + QUIET.max(Duration::from_secs(settings.seconds / 6))).await;
    let idle = resident_bytes(server.id());
    let probe = Probe::start(http);
    let end = Instant::now() + Duration::from_secs(settings.seconds);
    let clients: Vec<_> =
        (1..settings.clients).map(|client| tokio::spawn(ask_until(grpc.to_owned(), settings, client, end))).collect();
    // Each on a thread of its own, so that it does not wait for the clients of this process.
    let first = run_apart(ask_until(grpc.to_owned(), settings, 0, end));
    let reader = run_apart(read_until(grpc.to_owned(), end));
    let memory = tokio::spawn(peak_until(server.id(), end));
    let mut later = Vec::new();
    while Instant::now() < end {
        later.push(order(&mut cluster, &mut orders).await);
    }
    later.sort_unstable();
    let mut answers = first.join().expect("a client");
    let latest = answers.latest;
    for client in clients {
        answers.add(client.await.expect("a client"));
    }
    let busy = reader.join().expect("the other client");
    let late_work = late_work(server, grpc, settings).await;
    let (peak, health) = (memory.await.expect("samples"), probe.end());
    assert!(peak > 0, "the server has ended");
    check_bounds(settings, &Measured { idle, peak, late_work, usual, later, latest, quiet, busy, health }, &answers)
}

/// Runs `task` on a thread that does not give way.
fn run_apart<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> std::thread::JoinHandle<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    std::thread::spawn(move || runtime.block_on(task))
}

/// Asks for plans until `end`: accepted and refused ones, with and without patience.
async fn ask_until(grpc: String, settings: Settings, client: usize, end: Instant) -> Answers {
    let mut answers = Answers::default();
    let (channel, token) = (connect(&grpc).await, planner(client));
    let [accepted, too_large] = [ACCEPTED_POOLS, settings.node_pools].map(|pools| request(settings, pools));
    let mut number = client;
    while Instant::now() < end {
        number += 1;
        let (is_too_large, is_impatient) = (number.is_multiple_of(4), number.is_multiple_of(3));
        let message = if is_too_large { &too_large } else { &accepted }.clone();
        let begun = Instant::now();
        let asked = plan(channel.clone(), &token, message);
        match tokio::time::timeout(if is_impatient { IMPATIENCE } else { TIMEOUT }, asked).await {
            Ok(code) => {
                answers.end_call(code, begun.elapsed(), is_too_large);
                // A client that is told to come later does so.
                if code == Code::ResourceExhausted {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            Err(_) if is_impatient => answers.gone += 1,
            Err(_) => *answers.unexpected.entry(format!("no answer in {TIMEOUT:?}")).or_default() += 1,
        }
    }
    answers
}

async fn connect(grpc: &str) -> Channel {
    Endpoint::from_shared(grpc.to_owned()).expect("an address").connect().await.expect("the server accepts connections")
}

fn authorized<M>(message: M, token: &str) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().expect("a token is ASCII"));
    request
}

/// Latencies until `end` of calls that take the server no time, the shortest first.
async fn read_until(grpc: String, end: Instant) -> Vec<Duration> {
    let mut client = FleetServiceClient::new(connect(&grpc).await);
    let mut took = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let request = v1::GetClusterRequest { name: format!("clusters/{CLUSTER}") };
        let is_answered = client.get_cluster(authorized(request, READER)).await.is_ok();
        took.push(if is_answered { begun.elapsed() } else { TIMEOUT });
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    took.sort_unstable();
    took
}

async fn plan(channel: Channel, token: &str, request: Bytes) -> Code {
    let mut client = Grpc::new(channel).max_decoding_message_size(usize::MAX);
    if client.ready().await.is_err() {
        return Code::Unavailable;
    }
    let path = PathAndQuery::from_static("/fleetwright.v1.CapacityService/PlanCluster");
    let answer = client.unary(authorized(request, token), path, EncodedCodec).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// Sends requests that are encoded, and does not read answers: clients are not measured, and many run beside the server.
struct EncodedCodec;

impl Codec for EncodedCodec {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for EncodedCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for EncodedCodec {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        from.advance(from.remaining());
        Ok(Some(()))
    }
}

/// The greatest resident memory until `end`; 0 once the process has ended.
async fn peak_until(pid: u32, end: Instant) -> u64 {
    let mut peak = 0;
    while Instant::now() < end {
        match resident_bytes(pid) {
            0 => return 0,
            bytes => peak = peak.max(bytes),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    peak
}

/// Processor time of the server in the second that begins a second after a client went away whose plan was under way.
async fn late_work(server: &RunningProcess, grpc: &str, settings: Settings) -> Duration {
    let token = planner(0);
    let asked = plan(connect(grpc).await, &token, request(settings, ACCEPTED_POOLS));
    let _gone = tokio::time::timeout(IMPATIENCE, asked).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = processor_time(server.id());
    tokio::time::sleep(Duration::from_secs(1)).await;
    processor_time(server.id()).saturating_sub(before)
}

/// User and system time of a process, which Linux counts in hundredths of a second.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may have spaces.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<&str>>()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// A percentile of sorted latencies.
fn at(all: &[Duration], percent: usize) -> Duration {
    all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied().unwrap_or(TIMEOUT)
}

fn figures(settings: Settings, measured: &Measured, answers: &Answers) -> Vec<String> {
    let Measured { idle, peak, late_work, usual, later, latest, quiet, busy, health } = measured;
    vec![
        format!(
            "{POD_SETS} pod sets of {} pods, {ACCEPTED_POOLS} or {} NodePools, {} clients, {} s: answers {:?}, {} clients gone",
            settings.pods, settings.node_pools, settings.clients, settings.seconds, answers.by_code, answers.gone
        ),
        format!("memory: idle {} MiB, +{} MiB at its peak", idle >> 20, peak.saturating_sub(*idle) >> 20),
        format!(
            "GetCluster of another client: quiet p99 {:?} of {}, under attack p99 {:?} of {}",
            at(quiet, 99),
            quiet.len(),
            at(busy, 99),
            busy.len()
        ),
        format!(
            "longest time by which a call ended after its deadline of {DEADLINE:?}: {latest:?}, of clients that give way {:?}",
            answers.latest
        ),
        format!("processor time from 1 to 2 s after the client went away: {late_work:?}"),
        format!(
            "pod ordered, before: median {:?}; during: median {:?}, at worst {:?} of {}",
            at(usual, 50),
            at(later, 50),
            at(later, 100),
            later.len()
        ),
        format!("/healthz: p99 {:?}, at worst {:?} of {}", at(health, 99), at(health, 100), health.len()),
    ]
}

fn check_bounds(settings: Settings, measured: &Measured, answers: &Answers) -> Outcome {
    let (mut broken, mut late) = (Vec::new(), Vec::new());
    let extra = measured.peak.saturating_sub(measured.idle);
    if extra > MAX_EXTRA_MEMORY {
        broken.push(format!("{} MiB beyond what the idle server has", extra >> 20));
    }
    if !answers.unexpected.is_empty() {
        broken.push(format!(
            "calls ended otherwise than with Ok, ResourceExhausted or DeadlineExceeded: {:?}",
            answers.unexpected
        ));
    }
    // How many plans are finished depends on the machine; one that was asked for and not refused was under way.
    let was_planned =
        answers.gone > 0 || ["Ok", "DeadlineExceeded"].into_iter().any(|code| answers.by_code.contains_key(code));
    if !was_planned {
        broken.push("no plan was under way: nothing was attacked".to_owned());
    }
    if measured.late_work > MAX_LATE_WORK {
        late.push(format!("the server worked for {:?} when nobody waited any more", measured.late_work));
    }
    if measured.latest > MAX_LATENESS {
        late.push(format!("a call ended {:?} after its deadline", measured.latest));
    }
    if at(&measured.busy, 99) > at(&measured.quiet, 99) * SLOWER {
        late.push(format!("calls of another client took more than {SLOWER} times as long as before"));
    }
    if at(&measured.later, 100) > at(&measured.usual, 50) + LATER {
        late.push(format!("a pod was ordered {LATER:?} later than usual"));
    }
    if at(&measured.health, 99) > HEALTH {
        late.push(format!("/healthz took longer than {HEALTH:?}"));
    }
    Outcome { figures: figures(settings, measured, answers), broken, late }
}

fn request(settings: Settings, pools: usize) -> Bytes {
    let items: Vec<Value> = (0..pools).flat_map(|number| [node_pool(number), node_class(number)]).collect();
    let request = v1::PlanClusterRequest {
        name: "clusters/target".to_owned(),
        pod_sets: (0..POD_SETS).map(|number| pod_set(number, settings.pods)).collect(),
        policy: Some(to_struct(&json!({"apiVersion": "v1", "kind": "List", "items": items}))),
        ..v1::PlanClusterRequest::default()
    };
    request.encode_to_vec().into()
}

/// Pods that no machine has room for, each kind with other requirements.
fn pod_set(number: usize, count: i32) -> v1::PodSet {
    let container =
        json!({"name": "main", "resources": {"requests": {"cpu": format!("{}", 900 + number), "memory": "1Gi"}}});
    let apart = json!({"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": format!("a{number}")}}});
    let template = json!({"metadata": {"labels": {"app": format!("a{number}")}},
        "spec": {"containers": [container], "topologySpreadConstraints": [apart]}});
    v1::PodSet { name: format!("set-{number}"), count, template: Some(to_struct(&template)), ..v1::PodSet::default() }
}

fn node_pool(number: usize) -> Value {
    let name = format!("pool-{number}");
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}})
}

/// A class of its own for each pool, so that each has a catalogue of its own.
fn node_class(number: usize) -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": format!("pool-{number}")},
        "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "kubelet": {"maxPods": 10 + number % 200},
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}})
}

fn to_struct(object: &Value) -> Struct {
    match to_proto(object).kind {
        Some(Kind::StructValue(of)) => of,
        _ => Struct::default(),
    }
}

fn to_proto(value: &Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or_default()),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::Array(values) => Kind::ListValue(ListValue { values: values.iter().map(to_proto).collect() }),
        Value::Object(fields) => Kind::StructValue(Struct {
            fields: fields.iter().map(|(key, value)| (key.clone(), to_proto(value))).collect(),
        }),
    };
    ProtoValue { kind: Some(kind) }
}
