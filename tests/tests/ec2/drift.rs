//! Nodes drift from what their EC2NodeClass selects in the account: a server process, the AWS SDK, the simulated EC2, and
//! a simulated cluster with its agent. A node is replaced within its budget, with the reason of its drift; a lookup that
//! fails drifts nothing. Skipped without PostgreSQL.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use e2e::{Postgres, RunningProcess, Signal};
use fleetwright_proto::v1::ObjectKind;
use model::{ClaimName, ClusterName};
use serde_json::{Value, json};
use simulated_ec2::{AccountSettings, Effect, FaultRule, SimulatedEc2, Subnet};
use simulation::demo::agent::SimulatedApi;
use simulation::kube::SimulatedCluster;
use simulation::kube::cluster::{ClusterSettings, Workload};
use store::clock;
use tokio::task::JoinHandle;

use crate::examples::cluster::manifest;
use crate::{report, serve_endpoint, serve_on_ec2};

/// For each condition, on a busy machine: subnets and parameters are looked up again within a minute and a third.
const TIMEOUT: Duration = Duration::from_secs(400);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// From launch to a running instance, and from termination to its end, in milliseconds.
const BOOT_MS: i64 = 1_000;

const REGION: &str = "us-east-1";
const CLUSTER: &str = "drifting";
/// The parameter with the image of the nodes, and one with another image.
const PARAMETER: &str = "/drift/image";
const OTHER_PARAMETER: &str = "/drift/other-image";
const OTHER_IMAGE: &str = "ami-0d00000000000002";
/// The security group `default` of the account, which the EC2NodeClass does not select at the beginning.
const OTHER_GROUP: &str = "sg-0a1b2c3d4e5f60001";
const FIRST_GROUP: &str = "sg-0a1b2c3d4e5f60002";
const OTHER_SUBNET: &str = "subnet-0d000000000000002";

fn account() -> AccountSettings {
    let mut settings = AccountSettings::new(REGION, CLUSTER);
    let first = settings.images.iter().find(|image| image.architecture == "x86_64").unwrap().clone();
    settings.parameters.insert(PARAMETER.to_owned(), first.id.clone());
    settings.parameters.insert(OTHER_PARAMETER.to_owned(), OTHER_IMAGE.to_owned());
    let (id, name) = (OTHER_IMAGE.to_owned(), "another-image".to_owned());
    settings.images.push(simulated_ec2::Image { id, name, ..first });
    settings
}

fn node_class() -> Value {
    let discovery = json!([{ "tags": { "karpenter.sh/discovery": CLUSTER } }]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "default" },
        "spec": {
            "role": format!("KarpenterNodeRole-{CLUSTER}"), "amiFamily": "AL2023",
            "amiSelectorTerms": [{ "ssmParameter": PARAMETER }],
            "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
        },
    })
}

/// One node at a time is disrupted. A pod of 1.5 cores fills a node.
fn node_pool() -> Value {
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "general" },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [
                    is("node.kubernetes.io/instance-type", "m5.large"),
                    is("karpenter.sh/capacity-type", "on-demand"),
                    is("topology.kubernetes.io/zone", "us-east-1a"),
                ],
            } },
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h", "budgets": [{ "nodes": "1" }],
            },
        },
    })
}

/// The endpoint, a database, a server, and a cluster with its agent.
struct TestBed {
    ec2: SimulatedEc2,
    /// Number of nodes, each with one pod.
    nodes: usize,
    api: Arc<SimulatedApi>,
    database: Postgres,
    endpoint: String,
    grpc: String,
    server: RunningProcess,
    /// Every drift that a NodeClaim has shown, with its message.
    seen: BTreeMap<(ClaimName, String), String>,
    _agent: JoinHandle<()>,
}

impl TestBed {
    async fn start(test: &str, nodes: usize) -> Option<Self> {
        let database = Postgres::start(test)?;
        let faults = FaultProfile { boot_ms: (BOOT_MS, BOOT_MS), shutdown_ms: BOOT_MS, ..FaultProfile::default() };
        let cloud = Arc::new(ClockedCloud::new(SimulatedCloud::new(faults, None), clock::now));
        let ec2 = SimulatedEc2::builder(account()).cloud(cloud).build();
        let endpoint = serve_endpoint(&ec2).await;
        let grpc = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let server = serve(&grpc, &endpoint, &database);
        let mut cluster = SimulatedCluster::new(ClusterSettings::default().with_fast_nodes());
        let containers = json!([{ "name": "main", "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } } }]);
        cluster.scale(&Workload::new("default", "web", &json!({ "containers": containers })), nodes, ec2.cloud().now());
        let manifests =
            vec![manifest(ObjectKind::NodePool, &node_pool()), manifest(ObjectKind::Ec2NodeClass, &node_class())];
        let api = Arc::new(SimulatedApi::new(&ClusterName::from(CLUSTER), cluster, manifests));
        let agent = tokio::spawn(Arc::clone(&api).run_with_agent(format!("http://{grpc}"), 1));
        Some(Self { ec2, nodes, api, database, endpoint, grpc, server, seen: BTreeMap::new(), _agent: agent })
    }

    async fn restart_server(&mut self) {
        self.server.signal(Signal::Kill);
        while self.server.is_running() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.server = serve(&self.grpc, &self.endpoint, &self.database);
    }

    /// NodeClaims with an initialized Node and a pod.
    fn settled(&self) -> BTreeSet<ClaimName> {
        self.api.with(|cluster| {
            let has_pod = |name: &model::NodeName| cluster.pods().any(|pod| pod.node.as_ref() == Some(name));
            let nodes: Vec<_> = cluster.nodes().filter(|node| !node.deleting && has_pod(&node.name)).collect();
            let provider_ids: BTreeSet<_> =
                nodes.iter().filter(|node| node.ready).map(|node| &node.provider_id).collect();
            let up = cluster.claims().filter(|claim| provider_ids.contains(&claim.provider_id));
            up.map(|claim| claim.name.clone()).collect()
        })
    }

    /// Records what the NodeClaims show, and checks the budget.
    fn observe(&mut self) {
        let claims: Vec<ClaimName> =
            self.api.with(|cluster| cluster.claims().map(|claim| claim.name.clone()).collect());
        for claim in claims {
            let conditions = self.api.conditions(&claim);
            let drifted = conditions.into_iter().find(|one| one.r#type == "Drifted" && one.status == "True");
            if let Some(drifted) = drifted {
                self.seen.insert((claim, drifted.reason), drifted.message);
            }
        }
        let tainted = self.api.with(|cluster| {
            let taints = cluster.nodes().map(|node| &node.taints);
            taints.filter(|taints| taints.iter().any(|taint| &*taint.key == "karpenter.sh/disrupted")).count()
        });
        assert!(tainted <= 1, "{tainted} nodes are disrupted together");
    }

    async fn wait_until(&mut self, what: &str, mut is_true: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.observe();
            if is_true(self) {
                return;
            }
            let lines = || self.server.take_stderr_lines().join("\n");
            assert!(Instant::now() < deadline, "waited for {what}; drift: {:#?}\n{}", self.seen, lines());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits for nodes with a pod each, none of which is among `before`, and which show no drift.
    async fn wait_for_new_nodes(&mut self, before: &BTreeSet<ClaimName>) -> BTreeSet<ClaimName> {
        let started = Instant::now();
        let mut found = BTreeSet::new();
        self.wait_until("new nodes", |test_bed| {
            found = test_bed.settled();
            let claims = test_bed.api.with(|cluster| cluster.claims().count());
            found.len() == test_bed.nodes && claims == test_bed.nodes && found.is_disjoint(before)
        })
        .await;
        let (nodes, seconds) = (self.nodes, started.elapsed().as_secs_f64());
        report(format_args!("figure: {nodes} new nodes with pods after {seconds:.1} s"));
        found
    }

    /// Waits until the instances were listed, and the EC2NodeClass was looked up, several times more.
    async fn let_the_server_compare(&mut self) {
        let count = |test_bed: &Self, action: &str| test_bed.ec2.calls_of(action).len();
        let listings = count(self, "DescribeInstances");
        self.wait_until("more listings", |test_bed| count(test_bed, "DescribeInstances") > listings + 8).await;
    }

    /// The status of a condition of the EC2NodeClass, and its reason.
    fn condition(&self, kind: &str) -> (String, String) {
        let class = self.api.manifest(ObjectKind::Ec2NodeClass, "default").unwrap();
        let conditions = class["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"))
    }

    fn change_class(&self, change: impl FnOnce(&mut Value)) {
        self.api.change_manifest(ObjectKind::Ec2NodeClass, "default", |class| change(&mut class["spec"]));
    }

    /// The drift that each of `claims` has shown, which is the only one.
    fn check_reason(&self, claims: &BTreeSet<ClaimName>, reason: &str, message: &str) {
        for claim in claims {
            let shown: Vec<(&String, &String)> = self
                .seen
                .iter()
                .filter(|((drifted, _), _)| drifted == claim)
                .map(|((_, reason), message)| (reason, message))
                .collect();
            assert_eq!(shown, [(&reason.to_owned(), &message.to_owned())], "{claim}");
        }
    }

    /// NodeClaims that have shown a drift.
    fn drifted(&self) -> BTreeSet<ClaimName> {
        self.seen.keys().map(|(claim, _)| claim.clone()).collect()
    }
}

fn serve(grpc: &str, endpoint: &str, database: &Postgres) -> RunningProcess {
    // Instances are listed every second.
    serve_on_ec2(REGION, grpc, endpoint, database, &["--control-gc-after", "2s"])
}

/// The tag moves from all subnets to another one in the same zone.
fn move_subnet_tag(settings: &mut AccountSettings) {
    let first = settings.subnets.iter().find(|subnet| subnet.zone == "us-east-1a").unwrap().clone();
    settings.subnets.iter_mut().for_each(|subnet| subnet.tags.clear());
    settings.subnets.push(Subnet { id: OTHER_SUBNET.to_owned(), cidr: ([10, 200, 0, 0], 18), ..first });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_other_groups_are_replaced_within_their_budget_and_not_while_the_lookup_is_throttled() {
    let test = "nodes_of_other_groups_are_replaced_within_their_budget_and_not_while_the_lookup_is_throttled";
    let Some(mut test_bed) = TestBed::start(test, 2).await else { return };
    let first = test_bed.wait_for_new_nodes(&BTreeSet::new()).await;
    test_bed.let_the_server_compare().await;
    // A new selector whose lookup is throttled changes nothing, until it succeeds.
    test_bed.ec2.add_fault(FaultRule::always("DescribeSecurityGroups", Effect::error("RequestLimitExceeded")));
    test_bed.change_class(|spec| spec["securityGroupSelectorTerms"] = json!([{ "id": OTHER_GROUP }]));
    let throttled = ("Unknown".to_owned(), "RequestLimitExceeded".to_owned());
    test_bed.wait_until("a throttled lookup", |test_bed| test_bed.condition("SecurityGroupsReady") == throttled).await;
    test_bed.let_the_server_compare().await;
    assert_eq!((test_bed.drifted(), test_bed.settled()), (BTreeSet::new(), first.clone()), "a throttled lookup");
    test_bed.ec2.change_faults(|faults| faults.rules.clear());
    let second = test_bed.wait_for_new_nodes(&first).await;
    let message = format!(
        "the instance has security groups {FIRST_GROUP}, and the EC2NodeClass selects {OTHER_GROUP}: {FIRST_GROUP} is not \
         selected, {OTHER_GROUP} is missing"
    );
    test_bed.check_reason(&first, "SecurityGroupDrift", &message);
    // The new ones match.
    test_bed.let_the_server_compare().await;
    assert_eq!((test_bed.drifted(), test_bed.settled()), (first, second));
    assert_eq!(test_bed.ec2.calls_of("CreateFleet").len(), 4, "nothing else was launched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_replaced_when_the_account_changes_and_not_when_the_server_restarts() {
    let test = "a_node_is_replaced_when_the_account_changes_and_not_when_the_server_restarts";
    let Some(mut test_bed) = TestBed::start(test, 1).await else { return };
    let first = test_bed.wait_for_new_nodes(&BTreeSet::new()).await;
    test_bed.let_the_server_compare().await;
    // The account changes, and the EC2NodeClass does not.
    let of_zone = |subnet: &&Subnet| subnet.zone == "us-east-1a";
    let subnet = account().subnets.iter().find(of_zone).map(|subnet| subnet.id.clone()).unwrap();
    test_bed.ec2.change_account(move_subnet_tag);
    let second = test_bed.wait_for_new_nodes(&first).await;
    let message = format!("the instance is in {subnet}, and the EC2NodeClass selects {OTHER_SUBNET}");
    test_bed.check_reason(&first, "SubnetDrift", &message);

    // The next owner of the cluster finds the same.
    test_bed.restart_server().await;
    test_bed.let_the_server_compare().await;
    assert_eq!((test_bed.drifted(), test_bed.settled()), (first.clone(), second.clone()), "a restart");
    assert_eq!(test_bed.ec2.calls_of("CreateFleet").len(), 2, "nothing else was launched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_image_is_replaced_and_not_while_a_right_is_missing() {
    let test = "a_node_of_another_image_is_replaced_and_not_while_a_right_is_missing";
    let Some(mut test_bed) = TestBed::start(test, 1).await else { return };
    let first = test_bed.wait_for_new_nodes(&BTreeSet::new()).await;
    test_bed.let_the_server_compare().await;
    let image = account().parameters[PARAMETER].clone();
    test_bed.change_class(|spec| spec["amiSelectorTerms"] = json!([{ "ssmParameter": OTHER_PARAMETER }]));
    let second = test_bed.wait_for_new_nodes(&first).await;
    let message = format!("the instance has image {image}, and the EC2NodeClass selects {OTHER_IMAGE} for m5.large");
    test_bed.check_reason(&first, "AMIDrift", &message);

    for action in ["DescribeSubnets", "DescribeImages", "DescribeSecurityGroups"] {
        test_bed.ec2.add_fault(FaultRule::always(action, Effect::error("UnauthorizedOperation")));
    }
    test_bed.change_class(|spec| {
        spec["amiSelectorTerms"] = json!([{ "id": image }]);
        spec["subnetSelectorTerms"] = json!([{ "tags": { "Name": "*" } }]);
        spec["securityGroupSelectorTerms"] = json!([{ "id": OTHER_GROUP }]);
    });
    test_bed.wait_until("a denied lookup", |test_bed| test_bed.condition("SubnetsReady").0 == "Unknown").await;
    test_bed.let_the_server_compare().await;
    assert_eq!((test_bed.drifted(), test_bed.settled()), (first, second), "a denied lookup");
    assert_eq!(test_bed.ec2.calls_of("CreateFleet").len(), 2, "nothing else was launched");
}
