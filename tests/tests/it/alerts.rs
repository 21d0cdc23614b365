//! Alerts of `deploy/prometheus` fire in their faults, at a real server behind a real Prometheus, and are quiet before.
//!
//! Their times are shortened: how long each waits is tried by `promtool test rules` (`monitoring`). Those of a real cloud are
//! tried with the simulated EC2 (the test target `ec2`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use cloud::simulated::FaultProfile;
use controller::{PlanError, Planner};
use e2e::{Postgres, Program, Prometheus, RunningProcess, authority};
use model::input::PlanningInput;
use server::serve;
use server_settings::{Config, Layers, Provider};
use simulation::simulated_cloud::in_process;
use verifier::{Rule, Violation};

use crate::night::start_cloud;
use crate::relists::fake_agent::{FakeAgent, Kind};
use crate::removals::{Environment, OTHER_UID, UID};
use crate::{SIMULATOR, TIMEOUT, start_agent, wait_for};

fn start_server(database: &str, cloud: &str, more: &[&str]) -> RunningProcess {
    let listen = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--cloud-address", cloud];
    let program = Program::new(SIMULATOR, &[&listen[..], more].concat()).env("DATABASE_URL", database);
    program.env("FLEETWRIGHT_STORE_MEMORY", "false").env("FLEETWRIGHT_LEASE_OWNER", "server-1").start()
}

/// Waits until `alert` fires that has not fired before its fault.
fn fires(monitor: &Prometheus, alert: &str, fault: impl FnOnce()) {
    let before = monitor.firing();
    assert!(!before.contains(alert), "{alert} fires before its fault: {before:?}");
    fault();
    wait_for(alert, || monitor.firing().contains(alert));
}

#[test]
fn alerts_fire_in_their_faults_and_not_before() {
    let test = "alerts_fire_in_their_faults_and_not_before";
    let Some(mut postgres) = Postgres::start(test) else { return };
    let (cloud, cloud_url) = start_cloud("127.0.0.1:0", &[]);
    let server = start_server(&postgres.url(), &cloud_url, &[]);
    let [grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let Some(monitor) = Prometheus::with_alerts(test, authority(&dashboard)) else { return };
    let agent = start_agent(&grpc, "shop");
    wait_for("a synced cluster", || monitor.has("fleetwright_cluster_synced{cluster=\"shop\"} == 1"));
    wait_for("machines", || monitor.has("fleetwright_machines > 0"));

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

/// Another cluster has a pod that fits nowhere. Its agent loses sight of all others, and then its connection.
fn vault_loses_its_pods_and_its_agent(monitor: &Prometheus, grpc: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        let fires = async |alert: &str, vault: &mut FakeAgent| {
            vault.wait_until(alert, |_| monitor.firing().contains(alert).then_some(())).await;
        };
        let mut vault = FakeAgent::new("vault", "uid-of-vault");
        vault.connect(grpc).await;
        let synced = "fleetwright_cluster_synced{cluster=\"vault\"} == 1";
        vault.wait_until("a synced cluster", |_| monitor.has(synced).then_some(())).await;
        let before = monitor.firing();
        let faults = ["FleetwrightPodsUnschedulable", "FleetwrightClusterQuarantined", "FleetwrightClusterNotSynced"];
        for alert in faults {
            assert!(!before.contains(alert), "{alert} fires before its fault: {before:?}");
        }
        vault.create_unschedulable_pod().await;
        fires("FleetwrightPodsUnschedulable", &mut vault).await;
        vault.relist(&[Kind::Pods]).await;
        fires("FleetwrightClusterQuarantined", &mut vault).await;
        vault.disconnect();
        fires("FleetwrightClusterNotSynced", &mut vault).await;
    });
}

#[test]
fn alerts_of_instances_that_stay_fire() {
    let test = "alerts_of_instances_that_stay_fire";
    // The tags of the first instance name another cluster.
    let uids: Vec<&str> = std::iter::once(OTHER_UID).chain([UID; 11]).collect();
    let environment = Environment::start_with(&uids, false);
    let Some(monitor) = Prometheus::with_alerts(test, environment.http()) else { return };
    wait_for("a synced cluster", || monitor.has("fleetwright_cluster_synced == 1"));
    assert!(monitor.firing().is_empty(), "{:?}", monitor.firing());
    fires(&monitor, "FleetwrightTerminationRefused", || environment.delete_claims(0..1));
    // Its removal waits for an operator.
    wait_for("FleetwrightRemovalsWaiting", || monitor.firing().contains("FleetwrightRemovalsWaiting"));
    fires(&monitor, "FleetwrightOrphanedInstances", || {
        environment.freeze();
        environment.launch(99);
    });
}

/// What is wrong with the planner of the server in this process.
static FAULT: AtomicU8 = AtomicU8::new(NONE);
const NONE: u8 = 0;
/// Plans are slower than the limit of the alert.
const SLOW: u8 = 1;
const REJECTED: u8 = 2;

fn faulty_planner() -> Planner {
    let Planner { mut pods, disruption } = serve::new_planner();
    let plan = move |input: &PlanningInput| match FAULT.load(Ordering::Relaxed) {
        REJECTED => {
            let message = "the test says so".to_owned();
            Err(PlanError::Rejected(vec![Violation { rule: Rule::Resources, pod: None, node: None, message }]))
        }
        SLOW => {
            let end = Instant::now() + Duration::from_secs(6);
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(left);
            }
            pods(input)
        }
        _ => pods(input),
    };
    Planner { pods: Box::new(plan), disruption }
}

#[test]
fn alerts_of_plans_fire_with_a_planner_that_is_slow_or_wrong() {
    let test = "alerts_of_plans_fire_with_a_planner_that_is_slow_or_wrong";
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let mut layers = Layers::default();
    let variables = [
        ("FLEETWRIGHT_LISTEN_GRPC", "127.0.0.1:0"),
        ("FLEETWRIGHT_LISTEN_HTTP", "127.0.0.1:0"),
        ("FLEETWRIGHT_STORE_MEMORY", "true"),
    ];
    layers.add_environment(variables.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let mut config = Config::resolve(&layers).expect("a valid configuration");
    config.cloud.provider = Provider::Simulated { shared: false };
    let cloud = in_process(FaultProfile::default(), &config.cloud.region, None).expect("the built-in catalogue");
    let server = runtime.block_on(serve::start(config, None, Arc::new(cloud), faulty_planner)).expect("a server");
    let Some(monitor) = Prometheus::with_alerts(test, &server.http.to_string()) else { return };
    let server_url = format!("http://{}", server.grpc);
    let first = start_agent(&server_url, "shop");
    wait_for("machines", || monitor.has("fleetwright_machines > 0"));
    let mut others = Vec::new();
    fires(&monitor, "FleetwrightDecisionsSlow", || {
        FAULT.store(SLOW, Ordering::Relaxed);
        others.push(start_agent(&server_url, "slow"));
    });
    fires(&monitor, "FleetwrightDecisionsRefused", || {
        FAULT.store(REJECTED, Ordering::Relaxed);
        others.push(start_agent(&server_url, "wrong"));
    });
    wait_for("FleetwrightPlansFailCheck", || monitor.firing().contains("FleetwrightPlansFailCheck"));
    drop((first, others));
    runtime.block_on(server.stop(Duration::ZERO));
}
