//! A refused offering, judged by the log of the endpoint: two servers on one PostgreSQL launch for clusters of their own,
//! and what one of them is refused the other one does not try. Skipped without PostgreSQL.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use e2e::{Postgres, Program, RunningProcess, TempDir, authority};
use serde_json::{Value, json};

use crate::{PROGRAM, SIMULATOR, report, with_simulated_credentials};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exclusion after the first refusal, in milliseconds.
const WINDOW_MS: i64 = 30_000;

/// By then a refusal is known to both servers, and calls that began before it have arrived. In milliseconds.
const KNOWN_MS: i64 = 2_000;

/// From the arrival of a CreateFleet to its answer while the probe is under way, in milliseconds.
const SLOW_MS: i64 = 12_000;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Polls until there is a value.
fn wait_until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// The simulated cloud's process with its EC2 endpoint.
struct Cloud {
    _process: RunningProcess,
    url: String,
}

impl Cloud {
    fn start() -> Self {
        let flags = ["simulated-cloud", "--until-input-ends", "--boot", "200ms", "--ec2-listen", "127.0.0.1:0"];
        let process = Program::new(SIMULATOR, &flags).start_with_stdout();
        let _grpc = process.next_stdout_line(TIMEOUT);
        let url = process.next_stdout_line(TIMEOUT);
        Self { _process: process, url }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let host = authority(&self.url);
        let mut stream = TcpStream::connect(host).unwrap();
        let length = body.len();
        let head = format!("{method} /_simulated/{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        write!(stream, "{head}content-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (status, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(status.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    fn set_faults(&self, faults: &Value) {
        self.ask("POST", "faults", &faults.to_string());
    }

    /// All CreateFleet calls that arrived, in order.
    fn fleets(&self) -> Vec<FleetCall> {
        let calls = self.ask("GET", "calls", "");
        calls.as_array().unwrap().iter().filter(|call| call["fleet"].is_object()).map(FleetCall::read).collect()
    }

    fn fleet(&self, number: u64) -> FleetCall {
        self.fleets().into_iter().find(|fleet| fleet.number == number).unwrap()
    }

    /// The first CreateFleet that `is_it`.
    fn wait_for_fleet(&self, what: &str, is_it: impl Fn(&FleetCall) -> bool) -> FleetCall {
        wait_until(what, || self.fleets().into_iter().find(&is_it))
    }

    /// Type and zone of a launched instance.
    fn placement(&self, id: &str) -> Placement {
        let ledger = self.ask("GET", "ledger", "");
        let entry = ledger.as_array().unwrap().iter().find(|entry| entry["id"] == id).unwrap();
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        (text("instanceType"), text("zone"))
    }
}

type Placement = (String, String);

/// A CreateFleet as the endpoint logged it.
#[derive(Debug)]
struct FleetCall {
    number: u64,
    at_ms: i64,
    cluster: String,
    is_spot: bool,
    overrides: Vec<Placement>,
    instances: Vec<String>,
    is_answered: bool,
}

impl FleetCall {
    fn read(call: &Value) -> Self {
        let fleet = &call["fleet"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let overrides = fleet["overrides"].as_array().unwrap();
        Self {
            number: call["number"].as_u64().unwrap(),
            at_ms: call["atMs"].as_i64().unwrap(),
            cluster: text(&fleet["tags"]["fleetwright.dev/cluster"]),
            is_spot: fleet["capacityType"] == "spot",
            overrides: overrides.iter().map(|one| (text(&one["instanceType"]), text(&one["zone"]))).collect(),
            instances: fleet["instances"].as_array().unwrap().iter().map(text).collect(),
            is_answered: call["outcome"]["kind"] == "answered",
        }
    }

    /// Whether it asks for spot capacity of this type in this zone.
    fn lists(&self, offering: &Placement) -> bool {
        self.is_spot && self.overrides.contains(offering)
    }
}

/// A server, and the address for its agents.
fn server(settings: &str, database: &str) -> (RunningProcess, String) {
    let program = Program::new(PROGRAM, &["serve", "--config", settings]);
    let process = with_simulated_credentials(program.env("FLEETWRIGHT_STORE_DATABASE_URL", database)).start();
    let [grpc, _] = process.wait_for_urls(TIMEOUT);
    (process, grpc)
}

/// A cluster whose pods need machines from the beginning, and again and again.
fn agent(server: &str, cluster: &str) -> RunningProcess {
    let flags = ["simulated-agent", "--server", server, "--cluster-name", cluster, "--seed", "1", "--repeat"];
    Program::new(SIMULATOR, &[&flags[..], &["--log", "warn"]].concat()).start()
}

fn settings(endpoint: &str) -> String {
    format!(
        r#"
[listen]
grpc = "127.0.0.1:0"
http = "127.0.0.1:0"
[cloud]
endpoint = "{endpoint}"
[control]
batch-idle = "100ms"
batch-max = "500ms"
[store]
memory = false
"#
    )
}

/// Two servers on one database, and the clusters whose agents connect to them.
struct Fleet {
    cloud: Cloud,
    servers: [(RunningProcess, String); 2],
    agents: Vec<RunningProcess>,
    _postgres: Postgres,
    _folder: TempDir,
}

impl Fleet {
    fn start(test: &str) -> Option<Self> {
        let postgres = Postgres::start(test)?;
        let (cloud, folder) = (Cloud::start(), TempDir::new());
        let file = folder.write_file("fleetwright.toml", settings(&cloud.url));
        let servers = [server(&file, &postgres.url()), server(&file, &postgres.url())];
        Some(Self { cloud, servers, agents: Vec::new(), _postgres: postgres, _folder: folder })
    }

    /// Connects one cluster to each server.
    fn connect(&mut self, clusters: [&str; 2]) {
        let agents = self.servers.iter().zip(clusters).map(|((_, address), cluster)| agent(address, cluster));
        self.agents.extend(agents);
    }

    /// Launches a spot instance for a cluster that is then gone, and takes the capacity of its offering away. All
    /// clusters begin with the same pods, and so prefer it.
    fn exhaust_preferred_offering(&self) -> Placement {
        let like = agent(&self.servers[0].1, "like");
        let is_launched = |call: &FleetCall| call.is_spot && !call.instances.is_empty();
        let first = self.cloud.wait_for_fleet("a spot instance", is_launched);
        drop(like);
        let offering = self.cloud.placement(&first.instances[0]);
        let (instance_type, zone) = &offering;
        self.cloud.set_faults(&json!({"pools": [{"instanceType": instance_type, "zone": zone, "available": 0}]}));
        offering
    }

    /// Connects cluster `a` to the first server, which is refused the offering, and cluster `b` to the second one, which
    /// learned of it from the database and does not try it. Returns the refused call.
    fn refuse(&mut self, offering: &Placement) -> FleetCall {
        let last = self.cloud.fleets().last().map_or(0, |call| call.number);
        self.agents.push(agent(&self.servers[0].1, "a"));
        let is_refused = |call: &FleetCall| call.number > last && call.cluster == "a" && call.lists(offering);
        let refused = self.cloud.wait_for_fleet("a refusal", is_refused);
        self.agents.push(agent(&self.servers[1].1, "b"));
        let other = self.cloud.wait_for_fleet("a spot launch of b", |call| call.is_spot && call.cluster == "b");
        let later_ms = other.at_ms - refused.at_ms;
        assert!(later_ms < WINDOW_MS, "b launched {later_ms} ms after the refusal");
        assert!(!other.lists(offering), "{other:?}");
        let ((instance_type, zone), options) = (offering, (refused.overrides.len(), other.overrides.len()));
        report(format_args!(
            "figure: {instance_type} in {zone} was refused to a, as one of {} options; b launched {:.1} s later with {} others",
            options.0,
            seconds(later_ms),
            options.1
        ));
        refused
    }

    /// Capacity is back, and answers are slow. When the exclusion ends, clusters of both servers want the offering, and
    /// while one launch probes it, further ones do. Returns the probe, which succeeded.
    fn probe(&mut self, offering: &Placement, refused: &FleetCall) -> FleetCall {
        self.cloud.set_faults(&json!({"pools": [], "rules": [
            {"action": "CreateFleet", "effect": {"kind": "delay", "afterMs": [SLOW_MS, SLOW_MS]}},
        ]}));
        let end_ms = refused.at_ms + WINDOW_MS;
        wait_until("the end of the exclusion", || (now_ms() > end_ms).then_some(()));
        self.connect(["c", "d"]);
        let is_probe = |call: &FleetCall| call.at_ms > refused.at_ms + KNOWN_MS && call.lists(offering);
        let probe = self.cloud.wait_for_fleet("the probe", is_probe);
        assert!(probe.at_ms >= end_ms, "{} ms before the exclusion ended", end_ms - probe.at_ms);
        self.connect(["e", "f"]);
        for cluster in ["e", "f"] {
            let is_next = |call: &FleetCall| call.is_spot && call.cluster == cluster;
            let call = self.cloud.wait_for_fleet("another spot launch", is_next);
            assert!(call.at_ms < probe.at_ms + SLOW_MS, "{cluster} launched after the probe was answered");
        }
        // The endpoint logs a call's outcome when it is executed, and answers it later.
        let known_ms = probe.at_ms + SLOW_MS + KNOWN_MS;
        wait_until("the answer of the probe", || {
            (now_ms() > known_ms && self.cloud.fleet(probe.number).is_answered).then_some(())
        });
        let answered = self.cloud.fleet(probe.number);
        assert_eq!(self.cloud.placement(&answered.instances[0]), *offering, "the probe succeeded");
        probe
    }

    /// Of all launches from the refusal until the probe was answered, only the probe lists the offering.
    fn check_calls(&self, offering: &Placement, refused: &FleetCall, probe: &FleetCall) {
        let (is_later, end_ms) = (|call: &FleetCall| call.at_ms > refused.at_ms + KNOWN_MS, refused.at_ms + WINDOW_MS);
        let under_way = probe.at_ms..probe.at_ms + SLOW_MS;
        let spot: Vec<FleetCall> = self.cloud.fleets().into_iter().filter(|call| call.is_spot).collect();
        let excluded: Vec<&FleetCall> = spot
            .iter()
            .filter(|call| is_later(call) && !under_way.contains(&call.at_ms) && call.at_ms < end_ms)
            .collect();
        assert!(excluded.iter().all(|call| !call.lists(offering)), "{excluded:?}");
        let probing: Vec<&FleetCall> = spot.iter().filter(|call| under_way.contains(&call.at_ms)).collect();
        let listing: Vec<u64> = probing.iter().filter(|call| call.lists(offering)).map(|call| call.number).collect();
        assert_eq!(listing, [probe.number], "one launch of both servers tries it");
        report(format_args!(
            "figure: {} spot launches in the exclusion, none with it; the probe of {} came {:.1} s after its end; {} spot \
             launches during the probe, 1 with it",
            excluded.len(),
            probe.cluster,
            seconds(probe.at_ms - end_ms),
            probing.len()
        ));
    }
}

#[test]
fn an_offering_refused_to_one_cluster_is_probed_by_one_launch_of_all_clusters_when_its_exclusion_ends() {
    let test = "an_offering_refused_to_one_cluster_is_probed_by_one_launch_of_all_clusters_when_its_exclusion_ends";
    let Some(mut fleet) = Fleet::start(test) else { return };
    let offering = fleet.exhaust_preferred_offering();
    let refused = fleet.refuse(&offering);
    let probe = fleet.probe(&offering, &refused);
    fleet.check_calls(&offering, &refused, &probe);
    // After the success of the probe all may, on both servers.
    fleet.cloud.set_faults(&json!({"rules": []}));
    fleet.connect(["g", "h"]);
    for cluster in ["g", "h"] {
        let is_next = |call: &FleetCall| call.is_spot && call.cluster == cluster;
        let call = fleet.cloud.wait_for_fleet("a later spot launch", is_next);
        assert!(call.lists(&offering), "{call:?}");
    }
    report(format_args!("figure: after the success of the probe, the next spot launch on each server has it again"));
}

fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1_000.0
}
