//! Prices that change while a server runs: a server process, the AWS SDK, the simulated EC2, and a simulated cluster with
//! its agent. Each launch is judged by the log of the endpoint. Skipped without PostgreSQL.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use e2e::{Postgres, RunningProcess, Signal, authority};
use fleetwright_proto::v1::ObjectKind;
use model::ClusterName;
use serde_json::{Value, json};
use simulated_ec2::{AccountSettings, Call, Effect, FaultRule, SimulatedEc2};
use simulation::demo::agent::SimulatedApi;
use simulation::kube::SimulatedCluster;
use simulation::kube::cluster::{ClusterSettings, Workload};
use store::clock;
use tokio::task::JoinHandle;

use crate::accounts::set_up_queue;
use crate::examples::cluster::manifest;
use crate::{report, serve_endpoint, serve_on_ec2};

/// For each condition, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

const REGION: &str = "us-east-1";
const ZONE: &str = "us-east-1a";
const CLUSTER: &str = "priced";

/// What the NodePool may launch. By the built-in catalogue, spot of `c5.large` is the cheapest: 0.35 of 0.085 dollars, and
/// of 0.096 and 0.126 for the others.
const TYPES: [&str; 3] = ["c5.large", "m5.large", "r5.large"];

/// Spot prices are read each second, and what is off in these tests never.
pub(crate) const EACH_SECOND: [&str; 6] = [
    "--cloud-spot-price-refresh-interval",
    "1s",
    "--cloud-on-demand-price-refresh-interval",
    "2s",
    "--cloud-instance-type-refresh-interval",
    "2s",
];

/// An account that sells these types and a bare metal one.
fn account() -> AccountSettings {
    let mut settings = AccountSettings::new(REGION, CLUSTER);
    let is_sold = |name: &str| TYPES.contains(&name) || name == "c5.metal";
    let catalogue = &mut settings.catalogue;
    catalogue.types.retain(|row| is_sold(&row["name"]));
    catalogue.offerings.retain(|(name, _)| is_sold(name));
    catalogue.spot.retain(|row| is_sold(&row.instance_type));
    catalogue.on_demand.retain(|name, _| is_sold(name));
    settings
}

fn set_spot(settings: &mut AccountSettings, name: &str, usd: &str) {
    let rows = settings.catalogue.spot.iter_mut().filter(|row| row.instance_type == name);
    rows.for_each(|row| usd.clone_into(&mut row.usd));
}

fn manifests() -> [(ObjectKind, Value); 2] {
    let discovery = json!([{ "tags": { "karpenter.sh/discovery": CLUSTER } }]);
    let is = |key: &str, values: &[&str]| json!({ "key": key, "operator": "In", "values": values });
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "default" },
        "spec": {
            "role": format!("KarpenterNodeRole-{CLUSTER}"), "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
        },
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "general" },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [
                    is("node.kubernetes.io/instance-type", &TYPES),
                    is("karpenter.sh/capacity-type", &["spot", "on-demand"]),
                    is("topology.kubernetes.io/zone", &[ZONE]),
                ],
            } },
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" },
        },
    });
    [(ObjectKind::NodePool, pool), (ObjectKind::Ec2NodeClass, class)]
}

/// The endpoint, a database, a server, and a cluster with its agent.
pub(crate) struct TestBed {
    pub(crate) ec2: SimulatedEc2,
    pub(crate) api: Arc<SimulatedApi>,
    database: Postgres,
    endpoint: String,
    grpc: String,
    server: RunningProcess,
    pub(crate) http: String,
    settings: &'static [&'static str],
    workloads: usize,
    _agent: JoinHandle<()>,
}

impl TestBed {
    pub(crate) async fn start(test: &str, settings: &'static [&'static str], faults: &[FaultRule]) -> Option<Self> {
        let database = Postgres::start(test)?;
        let profile = FaultProfile { boot_ms: (200, 200), ..FaultProfile::default() };
        let cloud = Arc::new(ClockedCloud::new(SimulatedCloud::new(profile, None), clock::now));
        let ec2 = SimulatedEc2::builder(account()).cloud(cloud).build();
        ec2.change_account(|account| set_spot(account, "m5.large", "0.015"));
        faults.iter().for_each(|rule| ec2.add_fault(rule.clone()));
        let endpoint = serve_endpoint(&ec2).await;
        if settings.contains(&"--interruption-queue") {
            tokio::task::block_in_place(|| set_up_queue(REGION, &endpoint));
        }
        let grpc = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let server = serve_on_ec2(REGION, &grpc, &endpoint, &database, settings);
        let [_, http] = server.wait_for_urls(TIMEOUT);
        let cluster = SimulatedCluster::new(ClusterSettings::default().with_fast_nodes());
        let objects = manifests().iter().map(|(kind, object)| manifest(*kind, object)).collect();
        let api = Arc::new(SimulatedApi::new(&ClusterName::from(CLUSTER), cluster, objects));
        let agent = tokio::spawn(Arc::clone(&api).run_with_agent(format!("http://{grpc}"), 1));
        let workloads = 0;
        Some(Self { ec2, api, database, endpoint, grpc, server, http, settings, workloads, _agent: agent })
    }

    async fn restart_server(&mut self) {
        self.server.signal(Signal::Kill);
        self.wait_until("the end of the server", |bed| (!bed.server.is_running()).then_some(())).await;
        self.server = serve_on_ec2(REGION, &self.grpc, &self.endpoint, &self.database, self.settings);
        let [_, http] = self.server.wait_for_urls(TIMEOUT);
        self.http = http;
    }

    pub(crate) async fn wait_until<T>(&mut self, what: &str, mut poll: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = poll(self) {
                return found;
            }
            let lines = || self.server.take_stderr_lines().join("\n");
            assert!(Instant::now() < deadline, "waited for {what}\n{}", lines());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Adds a pod that needs a node of its own.
    pub(crate) fn add_pod(&mut self) {
        self.workloads += 1;
        let containers = json!([{ "name": "main", "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } } }]);
        let workload =
            Workload::new("default", &format!("web-{}", self.workloads), &json!({ "containers": containers }));
        let now = self.ec2.cloud().now();
        self.api.with(|cluster| cluster.scale(&workload, 1, now));
    }

    /// Adds such a pod. Returns capacity type and first instance type of its launch.
    pub(crate) async fn launch(&mut self) -> (String, String) {
        let before = self.ec2.calls_of("CreateFleet").len();
        self.add_pod();
        let launched = |call: &Call| {
            let fleet = call.fleet.as_ref().filter(|fleet| !fleet.instances.is_empty())?;
            Some((fleet.capacity_type.clone()?, fleet.overrides.first()?.instance_type.clone()?))
        };
        let first = |bed: &mut Self| bed.ec2.calls_of("CreateFleet").iter().skip(before).find_map(launched);
        let chosen = self.wait_until("a launch", first).await;
        // Its pod is bound: the next pod finds no space there.
        self.wait_until("the pod's node", |bed| {
            bed.api.with(|cluster| cluster.waiting().next().is_none()).then_some(())
        })
        .await;
        chosen
    }

    /// Launches until the server has chosen this. Returns the number of launches.
    async fn launch_until(&mut self, capacity_type: &str, instance_type: &str) -> usize {
        let wanted = (capacity_type.to_owned(), instance_type.to_owned());
        let deadline = Instant::now() + TIMEOUT;
        for launches in 1.. {
            let chosen = self.launch().await;
            if chosen == wanted {
                return launches;
            }
            assert!(Instant::now() < deadline, "waited for a launch of {wanted:?}; the last one was {chosen:?}");
        }
        unreachable!("the loop has no end")
    }

    /// Waits until the endpoint has had `count` more calls of `action` than now, each of them after all changes.
    async fn wait_for_calls(&mut self, action: &str, count: usize) {
        let before = self.ec2.calls_of(action).len();
        self.wait_until(action, |bed| (bed.ec2.calls_of(action).len() >= before + count).then_some(())).await;
    }

    /// The value of a metric of the account and region by kind; `None` when it is absent.
    fn metric(&self, name: &str, kind: &str) -> Option<f64> {
        let host = authority(&self.http);
        let mut stream = TcpStream::connect(host).ok()?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let labels = format!("{name}{{account=\"default\",region=\"{REGION}\",kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&labels)?.trim().parse().ok())
    }
}

pub(crate) fn fails(action: &str) -> FaultRule {
    FaultRule::always(action, Effect::error("RequestLimitExceeded"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launches_follow_the_prices_of_the_region_and_the_last_good_ones_while_they_cannot_be_read() {
    let test = "launches_follow_the_prices_of_the_region_and_the_last_good_ones_while_they_cannot_be_read";
    let Some(mut bed) = TestBed::start(test, &EACH_SECOND, &[]).await else { return };
    // 0.015 dollars, which the built-in catalogue does not have.
    bed.launch_until("spot", "m5.large").await;
    bed.ec2.change_account(|account| set_spot(account, "r5.large", "0.010"));
    let launches = bed.launch_until("spot", "r5.large").await;
    report(format_args!("figure: the launch number {launches} after a change of a spot price has its type"));

    // All spot prices are above on-demand: 0.085 dollars for c5.large.
    bed.ec2.change_account(|account| TYPES.iter().for_each(|name| set_spot(account, name, "0.200")));
    bed.launch_until("on-demand", "c5.large").await;
    bed.ec2.change_account(|account| set_spot(account, "r5.large", "0.010"));
    bed.launch_until("spot", "r5.large").await;

    // Half of an answer is no answer, and an absurd price is none.
    let failures =
        |bed: &TestBed| bed.metric("fleetwright_catalogue_refresh_failures_total", "spot").unwrap_or_default();
    let before = failures(&bed);
    bed.ec2.add_fault(fails("DescribeSpotPriceHistory"));
    bed.ec2.add_fault(fails("GetProducts"));
    bed.ec2.change_account(|account| set_spot(account, "m5.large", "0.005"));
    bed.wait_until("failed reads", |bed| (failures(bed) >= before + 2.0).then_some(())).await;
    assert_eq!(bed.launch().await, ("spot".to_owned(), "r5.large".to_owned()), "the last good price");
    assert!(bed.metric("fleetwright_catalogue_age_seconds", "spot").is_some_and(|age| age > 0.0));

    // A start needs no prices: the built-in catalogue has them.
    bed.restart_server().await;
    assert_eq!(bed.launch().await, ("spot".to_owned(), "c5.large".to_owned()), "the built-in price");
    assert_eq!(bed.metric("fleetwright_catalogue_age_seconds", "spot"), None);
    bed.ec2.change_faults(|faults| faults.rules.clear());
    bed.launch_until("spot", "m5.large").await;
    assert_eq!(bed.metric("fleetwright_catalogue_refused_total", "spot"), Some(0.0));
    bed.ec2.change_account(|account| set_spot(account, "r5.large", "0.000050"));
    bed.wait_until("a refused price", |bed| {
        bed.metric("fleetwright_catalogue_refused_total", "spot").filter(|count| *count > 0.0)
    })
    .await;
    assert_eq!(bed.launch().await, ("spot".to_owned(), "m5.large".to_owned()), "an absurd price is not used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_refresh_of_spot_prices_those_of_the_catalogue_hold() {
    const OFF: [&str; 6] = [
        "--cloud-spot-price-refresh-interval",
        "0s",
        "--cloud-on-demand-price-refresh-interval",
        "1s",
        "--cloud-instance-type-refresh-interval",
        "1s",
    ];
    let test = "without_a_refresh_of_spot_prices_those_of_the_catalogue_hold";
    let Some(mut bed) = TestBed::start(test, &OFF, &[]).await else { return };
    // The endpoint has m5.large for 0.015 dollars. Several catalogues are read without it.
    bed.wait_for_calls("DescribeInstanceTypes", 3).await;
    bed.wait_for_calls("GetProducts", 4).await;
    assert_eq!(bed.launch().await, ("spot".to_owned(), "c5.large".to_owned()));
    assert_eq!(bed.ec2.calls_of("DescribeSpotPriceHistory").len(), 0);
}
