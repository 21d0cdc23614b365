//! Alerts of `deploy/prometheus` fire in their faults, at a real server behind a real Prometheus, and are quiet before.
//!
//! Their times are shortened: how long each waits is tried by `promtool test rules` (`monitoring`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::{Postgres, Program, RunningProcess, TempDir, authority};

use crate::monitoring::{free_address, installed, prometheus_config, read};
use crate::night::start_cloud;
use crate::relists::fake_agent::{FakeAgent, Kind};
use crate::serve::json;
use crate::{PROGRAM, TIMEOUT};

/// Times of the rules, and what they are shortened to; evaluations are a second apart.
const SHORTENED: [(&str, &str); 9] = [
    ("for: 1h", "for: 1s"),
    ("for: 30m", "for: 1s"),
    ("for: 15m", "for: 1s"),
    ("for: 10m", "for: 1s"),
    ("for: 5m", "for: 1s"),
    ("for: 2m", "for: 1s"),
    ("offset 1h", "offset 5s"),
    ("[15m]", "[5s]"),
    ("[1h]", "[5s]"),
];

/// A Prometheus that scrapes a server every second and evaluates the alerts.
struct Monitor {
    address: String,
    _process: RunningProcess,
    _folder: TempDir,
}

impl Monitor {
    fn start(program: &str, target: &str) -> Self {
        let mut rules = read("prometheus/alerts.yaml");
        for (time, shortened) in SHORTENED {
            assert!(rules.contains(time) || time == "[1h]", "no alert has {time}");
            rules = rules.replace(time, shortened);
        }
        let folder = TempDir::new();
        let rules = folder.write_file("alerts.yaml", rules);
        let config = folder.write_file("prometheus.yml", prometheus_config(target, "", &[&rules]));
        let data = format!("--storage.tsdb.path={}", folder.path().join("data").display());
        let address = free_address();
        let listen = format!("--web.listen-address={address}");
        let process = Program::new(program, &[&format!("--config.file={config}"), &data, &listen]).start();
        Self { address, _process: process, _folder: folder }
    }

    /// The alerts that fire.
    fn firing(&self) -> BTreeSet<String> {
        self.values("ALERTS{alertstate=\"firing\"}", "alertname")
    }

    /// Values of a label of the series that a query has.
    fn values(&self, query: &str, label: &str) -> BTreeSet<String> {
        if std::net::TcpStream::connect(&self.address).is_err() {
            return BTreeSet::new();
        }
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = json(&self.address, &format!("/api/v1/query?query={encoded}"));
        let series = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        series.iter().filter_map(|one| one["metric"][label].as_str().map(str::to_owned)).collect()
    }

    fn has_scraped(&self, query: &str) -> bool {
        !self.values(query, "__name__").is_empty()
    }
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_there() {
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn start_server(database: &str, cloud: &str, more: &[&str]) -> RunningProcess {
    let listen = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--cloud-address", cloud];
    let program = Program::new(PROGRAM, &[&listen[..], more].concat()).env("DATABASE_URL", database);
    program.env("FLEETWRIGHT_STORE_MEMORY", "false").env("FLEETWRIGHT_LEASE_OWNER", "server-1").start()
}

/// Waits until `alert` fires that has not fired before its fault.
fn fires(monitor: &Monitor, alert: &str, fault: impl FnOnce()) {
    let before = monitor.firing();
    assert!(!before.contains(alert), "{alert} fires before its fault: {before:?}");
    fault();
    wait_for(alert, || monitor.firing().contains(alert));
}

#[test]
fn alerts_fire_in_their_faults_and_not_before() {
    let test = "alerts_fire_in_their_faults_and_not_before";
    let Some(prometheus) = installed(test, "prometheus") else { return };
    let Some(mut postgres) = Postgres::start(test) else { return };
    let (cloud, cloud_url) = start_cloud("127.0.0.1:0", &[]);
    let server = start_server(&postgres.url(), &cloud_url, &[]);
    let [grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let http = authority(&dashboard).to_owned();
    let monitor = Monitor::start(&prometheus, &http);
    let agent =
        ["simulated-agent", "--server", &grpc, "--cluster-name", "shop", "--seed", "1", "--log", "off", "--repeat"];
    let agent = Program::new(PROGRAM, &agent).start();
    wait_for("a synced cluster", || monitor.has_scraped("fleetwright_cluster_synced{cluster=\"shop\"} == 1"));
    wait_for("machines", || monitor.has_scraped("fleetwright_machines > 0"));

    let mut cloud = Some(cloud);
    let address = cloud_url.trim_start_matches("http://").to_owned();
    fires(&monitor, "FleetwrightPodsUnschedulable", || {
        drop(cloud.take());
        cloud = Some(start_cloud(&address, &["--no-capacity"]).0);
    });
    vault_loses_its_pods_and_its_agent(&monitor, &grpc);
    fires(&monitor, "FleetwrightStoreDown", || postgres.kill());
    postgres.restart();
    wait_for("the end of the alert", || !monitor.firing().contains("FleetwrightStoreDown"));
    let mut other = None;
    fires(&monitor, "FleetwrightSettingsDiffer", || {
        other = Some(start_server(&postgres.url(), &cloud_url, &["--guardrails-launches-per-cluster", "77"]));
    });
    wait_for("FleetwrightSameOwner", || monitor.firing().contains("FleetwrightSameOwner"));
    drop(other);
    fires(&monitor, "FleetwrightClusterUnowned", || drop(server));
    drop((agent, cloud));
}

/// The agent of another cluster loses sight of all pods, and then its connection.
fn vault_loses_its_pods_and_its_agent(monitor: &Monitor, grpc: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        let fires = async |alert: &str, vault: &mut FakeAgent| {
            vault.wait_until(alert, |_| monitor.firing().contains(alert).then_some(())).await;
        };
        let mut vault = FakeAgent::new("vault", "uid-of-vault");
        vault.connect(grpc).await;
        let synced = "fleetwright_cluster_synced{cluster=\"vault\"} == 1";
        vault.wait_until("a synced cluster", |_| monitor.has_scraped(synced).then_some(())).await;
        let before = monitor.firing();
        for alert in ["FleetwrightClusterQuarantined", "FleetwrightClusterNotSynced"] {
            assert!(!before.contains(alert), "{alert} fires before its fault: {before:?}");
        }
        vault.relist(&[Kind::Pods]).await;
        fires("FleetwrightClusterQuarantined", &mut vault).await;
        vault.disconnect();
        fires("FleetwrightClusterNotSynced", &mut vault).await;
    });
}
