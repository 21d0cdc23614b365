//! A refused offering, judged by the log of the endpoint: two servers on one PostgreSQL launch for clusters of their own,
//! and what one of them is refused the other one does not try. Skipped without PostgreSQL.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use e2e::{Postgres, Program, RunningProcess, TempDir, authority};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fleetwright-e2e");

/// Limit for each condition.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exclusion after the first refusal, in milliseconds.
const WINDOW_MS: i64 = 30_000;

/// By then a refusal is known to both servers, and calls that began before it have arrived. In milliseconds.
const KNOWN_MS: i64 = 2_000;

/// From the arrival of a CreateFleet to its answer while the probe is under way, in milliseconds.
const SLOW_MS: i64 = 12_000;

/// Prints a figure; no assertion depends on it.
fn figure(text: &str) {
    let _no_terminal = writeln!(std::io::stderr(), "figure: {text}");
}

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
        let process = Program::new(PROGRAM, &flags).start_with_stdout();
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
    fn fleets(&self) -> Vec<Fleet> {
        let calls = self.ask("GET", "calls", "");
        calls.as_array().unwrap().iter().filter(|call| call["fleet"].is_object()).map(Fleet::read).collect()
    }

    fn fleet(&self, number: u64) -> Fleet {
        self.fleets().into_iter().find(|fleet| fleet.number == number).unwrap()
    }

    /// The first CreateFleet that `is_it`.
    fn wait_for_fleet(&self, what: &str, is_it: impl Fn(&Fleet) -> bool) -> Fleet {
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

/// Instance type and zone.
type Placement = (String, String);

/// A CreateFleet as the endpoint logged it.
#[derive(Debug)]
struct Fleet {
    number: u64,
    at_ms: i64,
    cluster: String,
    is_spot: bool,
    overrides: Vec<Placement>,
    instances: Vec<String>,
    is_answered: bool,
}

impl Fleet {
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
    let program = program.env("FLEETWRIGHT_STORE_DATABASE_URL", database);
    // The endpoint verifies no signature; no other credentials are looked for.
    let program = program.env("AWS_ACCESS_KEY_ID", "simulated").env("AWS_SECRET_ACCESS_KEY", "simulated");
    let process = program.env("AWS_EC2_METADATA_DISABLED", "true").start();
    let [grpc, _] = process.wait_for_urls(TIMEOUT);
    (process, grpc)
}

/// A cluster whose pods need machines from the beginning, and again and again.
fn agent(server: &str, cluster: &str) -> RunningProcess {
    let flags = ["simulated-agent", "--server", server, "--cluster-name", cluster, "--seed", "1", "--repeat"];
    Program::new(PROGRAM, &[&flags[..], &["--log", "warn"]].concat()).start()
}

fn settings(endpoint: &str) -> String {
    format!(
        r#"
[listen]
grpc = "127.0.0.1:0"
http = "127.0.0.1:0"
[cloud]
provider = "ec2"
endpoint = "{endpoint}"
[control]
batch-idle = "100ms"
batch-max = "500ms"
[store]
memory = false
"#
    )
}

#[test]
fn an_offering_refused_to_one_cluster_is_probed_by_one_launch_of_all_clusters_when_its_exclusion_ends() {
    let test = "an_offering_refused_to_one_cluster_is_probed_by_one_launch_of_all_clusters_when_its_exclusion_ends";
    let Some(postgres) = Postgres::start(test) else { return };
    let (cloud, folder) = (Cloud::start(), TempDir::new());
    let file = folder.write_file("fleetwright.toml", settings(&cloud.url));
    let (_first, one) = server(&file, &postgres.url());
    let (_second, two) = server(&file, &postgres.url());

    // All clusters begin with the same pods, and so prefer what the first one is launched in. Then that has no capacity.
    let like = agent(&one, "like");
    let first = cloud.wait_for_fleet("a spot instance", |fleet| fleet.is_spot && !fleet.instances.is_empty());
    drop(like);
    let offering = cloud.placement(&first.instances[0]);
    let (instance_type, zone) = &offering;
    cloud.set_faults(&json!({"pools": [{"instanceType": instance_type, "zone": zone, "available": 0}]}));
    let last = cloud.fleets().last().map_or(0, |fleet| fleet.number);
    let mut agents = vec![agent(&one, "a")];
    let is_refused = |fleet: &Fleet| fleet.number > last && fleet.cluster == "a" && fleet.lists(&offering);
    let refused = cloud.wait_for_fleet("a refusal", is_refused);
    let end_ms = refused.at_ms + WINDOW_MS;

    // Cluster b, whose server learned of it from the database, does not try it.
    agents.push(agent(&two, "b"));
    let other = cloud.wait_for_fleet("a spot launch of b", |fleet| fleet.is_spot && fleet.cluster == "b");
    assert!(other.at_ms < end_ms, "b launched {} ms after the refusal", other.at_ms - refused.at_ms);
    assert!(!other.lists(&offering), "{other:?}");
    let options = (refused.overrides.len(), other.overrides.len());
    figure(&format!(
        "{instance_type} in {zone} was refused to a, as one of {} options; b launched {:.1} s later with {} others",
        options.0,
        seconds(other.at_ms - refused.at_ms),
        options.1
    ));

    // Capacity is back, and answers are slow from now on. When the exclusion ends, a cluster of each server wants it.
    cloud.set_faults(&json!({"pools": [], "rules": [
        {"action": "CreateFleet", "effect": {"kind": "delay", "afterMs": [SLOW_MS, SLOW_MS]}},
    ]}));
    wait_until("the end of the exclusion", || (now_ms() > end_ms).then_some(()));
    agents.extend([agent(&one, "c"), agent(&two, "d")]);
    let is_later = |fleet: &Fleet| fleet.at_ms > refused.at_ms + KNOWN_MS;
    let probe = cloud.wait_for_fleet("the probe", |fleet| is_later(fleet) && fleet.lists(&offering));
    assert!(probe.at_ms >= end_ms, "{} ms before the exclusion ended", end_ms - probe.at_ms);

    // While it is under way, others launch without the offering, on both servers.
    agents.extend([agent(&one, "e"), agent(&two, "f")]);
    for cluster in ["e", "f"] {
        let fleet = cloud.wait_for_fleet("another spot launch", |fleet| fleet.is_spot && fleet.cluster == cluster);
        assert!(fleet.at_ms < probe.at_ms + SLOW_MS, "{cluster} launched after the probe was answered");
    }
    // The endpoint logs a call's outcome when it is executed, and answers it later.
    let known_ms = probe.at_ms + SLOW_MS + KNOWN_MS;
    wait_until("the answer of the probe", || {
        (now_ms() > known_ms && cloud.fleet(probe.number).is_answered).then_some(())
    });
    let answered = cloud.fleet(probe.number);
    assert_eq!(cloud.placement(&answered.instances[0]), offering, "the probe succeeded");
    let under_way = probe.at_ms..probe.at_ms + SLOW_MS;
    let spot: Vec<Fleet> = cloud.fleets().into_iter().filter(|fleet| fleet.is_spot).collect();
    let excluded: Vec<&Fleet> = spot
        .iter()
        .filter(|fleet| is_later(fleet) && !under_way.contains(&fleet.at_ms) && fleet.at_ms < end_ms)
        .collect();
    assert!(excluded.iter().all(|fleet| !fleet.lists(&offering)), "{excluded:?}");
    let probing: Vec<&Fleet> = spot.iter().filter(|fleet| under_way.contains(&fleet.at_ms)).collect();
    let listing: Vec<u64> = probing.iter().filter(|fleet| fleet.lists(&offering)).map(|fleet| fleet.number).collect();
    assert_eq!(listing, [probe.number], "one launch of both servers tries it");
    figure(&format!(
        "{} spot launches in the exclusion, none with it; the probe of {} came {:.1} s after its end; {} spot launches \
         during the probe, 1 with it",
        excluded.len(),
        probe.cluster,
        seconds(probe.at_ms - end_ms),
        probing.len()
    ));

    // After its success all may, on both servers.
    cloud.set_faults(&json!({"rules": []}));
    agents.extend([agent(&one, "g"), agent(&two, "h")]);
    for cluster in ["g", "h"] {
        let fleet = cloud.wait_for_fleet("a later spot launch", |fleet| fleet.is_spot && fleet.cluster == cluster);
        assert!(fleet.lists(&offering), "{fleet:?}");
    }
    figure("after the success of the probe, the next spot launch on each server has it again");
}

fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1_000.0
}
