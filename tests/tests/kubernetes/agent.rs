//! The agent with a real API server and without a Fleetwright server: the test executes
//! instructions and verifies objects. The agent has the role of `deploy/`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::config::{FactsConfig, KubernetesConfig};
use agent::{Cluster as _, Record};
use agent_kubernetes::Kubernetes;
use agent_kubernetes::actions::guard::RemovalGuard;
use agent_kubernetes::cluster::ClusterOptions;
use agent_kubernetes::connect::{connect, read_identity};
use agent_kubernetes::epoch::EpochStore;
use agent_kubernetes::leader::Candidate;
use anyhow::{Context, bail, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, taints, wait_until};
use e2e::kubernetes::deploy;
use e2e::kubernetes::deploy::AGENT;
use e2e::kubernetes::kubelets::{KubeletTiming, Kubelets};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{Scenario, ScenarioResult, TestBed};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::instruction::Action;
use kube::ResourceExt;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The Leases that the role names.
const LEASE: &str = "fleetwright-agent";
const EPOCHS_LEASE: &str = "fleetwright-agent-epoch";

pub(super) const MACHINE: Scenario = Scenario {
    name: "a_machine_is_managed_by_instructions",
    limit: Duration::from_secs(180),
    needs_own: false,
    needs_scheduler: true,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(a_machine_is_managed_by_instructions(test_bed)),
};
pub(super) const DEADLINE: Scenario = Scenario {
    name: "a_deadline_outweighs_protection_and_restarts",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: true,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(a_deadline_outweighs_protection_and_restarts(test_bed)),
};
pub(super) const SNAPSHOTS: Scenario = Scenario {
    name: "pages_and_streams_show_the_same_cluster",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: true,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(pages_and_streams_show_the_same_cluster(test_bed)),
};
pub(super) const RESTARTED_API_SERVER: Scenario = Scenario {
    name: "watches_outlive_the_api_server",
    limit: Duration::from_secs(120),
    needs_own: true,
    needs_scheduler: true,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(watches_outlive_the_api_server(test_bed)),
};
pub(super) const REPLICAS: Scenario = Scenario {
    name: "one_of_two_replicas_works",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: false,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(one_of_two_replicas_works(test_bed)),
};
pub(super) const EPOCHS: Scenario = Scenario {
    name: "the_highest_epoch_outlives_the_agent",
    limit: Duration::from_secs(60),
    needs_own: false,
    needs_scheduler: false,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(the_highest_epoch_outlives_the_agent(test_bed)),
};

/// The agent's access to a cluster, as its service account.
struct AgentHarness {
    cluster: Cluster,
    kubernetes: Arc<Kubernetes>,
    generation: std::sync::atomic::AtomicU64,
}

impl AgentHarness {
    async fn new(test_bed: &TestBed, namespace: &str, streaming_lists: bool) -> anyhow::Result<Self> {
        let cluster = Cluster::with_namespace(&test_bed.client, namespace).await?;
        let settings = settings(test_bed, &cluster, namespace).await?;
        let kubernetes = start(&KubernetesConfig { streaming_lists, ..settings }).await?;
        Ok(Self { cluster, kubernetes: Arc::new(kubernetes), generation: 0.into() })
    }

    /// Carries out an action, as the next instruction on the claim `general-1`.
    async fn execute(&self, action: Action) -> agent::Done {
        let generation = 1 + self.generation.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.execute_as(3, generation, action).await
    }

    async fn execute_as(&self, epoch: u64, generation: u64, action: Action) -> agent::Done {
        let instruction = v1::Instruction {
            id: format!("{epoch}-{generation}"),
            epoch,
            generation,
            deadline_ms: i64::MAX,
            remaining_ms: None,
            subject: "nodeclaim/general-1".to_owned(),
            action: Some(action),
            ..v1::Instruction::default()
        };
        self.kubernetes.execute_instruction(instruction).await
    }

    /// Executes an action that must succeed, twice: the second time changes nothing.
    async fn execute_twice(&self, action: Action) -> anyhow::Result<()> {
        for time in ["first", "second"] {
            let done = self.execute(action.clone()).await;
            ensure!(done.outcome == v1::Outcome::Done, "the {time} time: {done:?}");
        }
        Ok(())
    }

    async fn object(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self.cluster.objects(api_version, kind).get(name).await?)?)
    }

    async fn claim(&self) -> anyhow::Result<Value> {
        self.object("karpenter.sh/v1", "NodeClaim", "general-1").await
    }
}

/// Starts to watch a cluster, as the agent with these settings does.
pub(super) async fn start(settings: &KubernetesConfig) -> anyhow::Result<Kubernetes> {
    let connected = connect(settings).await?;
    let identity = read_identity(&connected.api).await?;
    let epochs = EpochStore::new(connected.api.clone(), connected.namespace, EPOCHS_LEASE.to_owned());
    let options = ClusterOptions {
        instance: "test".to_owned(),
        streaming_lists: settings.streaming_lists,
        karpenter_absent: false,
        access: connected.access,
        facts: FactsConfig::default(),
        guard: RemovalGuard::new(100, Duration::from_secs(600)),
    };
    Ok(Kubernetes::start(connected.api, identity, epochs, options))
}

/// Settings with which the agent's service account connects to the API server.
async fn settings(test_bed: &TestBed, cluster: &Cluster, name: &str) -> anyhow::Result<KubernetesConfig> {
    let administrator = test_bed.control_plane.lock().await.kubeconfig().to_owned();
    let kubeconfig = std::env::temp_dir().join(format!("fleetwright-{}-{name}.kubeconfig", std::process::id()));
    deploy::write_kubeconfig(cluster, &administrator, AGENT, &kubeconfig).await?;
    Ok(settings_of(kubeconfig, name))
}

pub(super) fn settings_of(kubeconfig: PathBuf, lease: &str) -> KubernetesConfig {
    KubernetesConfig {
        kubeconfig: Some(kubeconfig),
        context: None,
        namespace: Some(AGENT.0.to_owned()),
        lease: lease.to_owned(),
        lease_duration: Duration::from_secs(3),
        identity: None,
        streaming_lists: true,
    }
}

fn pair(key: &str, value: &str) -> v1::StringPair {
    v1::StringPair { key: key.to_owned(), value: value.to_owned() }
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    found.and_then(|one| one["status"].as_str()).unwrap_or("absent")
}

fn pool() -> Value {
    let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "general" },
        "spec": { "template": { "spec": { "nodeClassRef": class, "requirements": [
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }] } } },
    })
}

fn create() -> Action {
    let record = v1::NodeClaimRecord {
        name: "general-1".to_owned(),
        labels: vec![pair("karpenter.sh/nodepool", "general")],
        annotations: vec![pair("fleetwright.dev/managed", "true"), pair("karpenter.sh/nodepool-hash", "5")],
        node_class: Some(v1::NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        }),
        requirements: vec![v1::ClaimRequirement {
            key: "node.kubernetes.io/instance-type".to_owned(),
            operator: "In".to_owned(),
            values: vec!["m5.large".to_owned()],
            min_values: None,
        }],
        requests: vec![v1::Quantity { resource: "cpu".to_owned(), amount: "1800m".to_owned() }],
        expire_after: "720h".to_owned(),
        owner: Some(v1::Owner {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodePool".to_owned(),
            name: "general".to_owned(),
            uid: String::new(),
        }),
        ..v1::NodeClaimRecord::default()
    };
    Action::CreateNodeClaim(v1::CreateNodeClaim { node_claim: Some(record) })
}

fn drain(force_at_ms: Option<i64>) -> Action {
    Action::DrainNode(v1::DrainNode {
        node_claim: "general-1".to_owned(),
        node: "i-agent".to_owned(),
        force_at_ms,
        reason: "requested by the test".to_owned(),
        provider_id: "aws:///us-east-1a/i-agent".to_owned(),
        ..v1::DrainNode::default()
    })
}

/// One machine from its NodeClaim to its deletion: every instruction about machines, each executed
/// twice.
async fn a_machine_is_managed_by_instructions(test_bed: Arc<TestBed>) -> ScenarioResult {
    let harness = AgentHarness::new(&test_bed, "machine", true).await?;
    let kubelets =
        Kubelets::new(test_bed.client.clone(), KubeletTiming { forgotten: Duration::ZERO, ..KubeletTiming::default() });
    harness.cluster.apply(pool()).await?;
    launched(&harness).await?;
    let machine = Types::builtin("us-east-1")?.machine("i-agent", "m5.large", "us-east-1a")?;
    kubelets.boot_machine(machine);
    harness.cluster.wait_until_nodes(1, TIMEOUT).await?;
    let nominated = registered(&harness).await?;
    in_service(&harness).await?;
    is_not_drained_as_empty(&harness).await?;
    let blocked = drained(&harness).await?;
    kubelets.lose_machine("i-agent");
    let deletion = v1::DeleteNodeClaim {
        node_claim: "general-1".to_owned(),
        node: "i-agent".to_owned(),
        reason: "its instance is terminated".to_owned(),
        provider_id: "aws:///us-east-1a/i-agent".to_owned(),
    };
    harness.execute_twice(Action::DeleteNodeClaim(deletion)).await?;
    ensure!(harness.claim().await.is_err(), "the claim exists");
    harness.cluster.wait_until_nodes(0, TIMEOUT).await?;
    harness.cluster.delete("karpenter.sh/v1", "NodePool", "general").await?;
    Ok(format!("{nominated} of 2 pods nominated; a budget blocked the drain for {blocked:.1?}"))
}

/// Creates a NodeClaim and marks it as launched.
async fn launched(harness: &AgentHarness) -> anyhow::Result<()> {
    harness.execute_twice(create()).await?;
    let claim = harness.claim().await?;
    let pool = harness.object("karpenter.sh/v1", "NodePool", "general").await?;
    ensure!(claim["metadata"]["finalizers"] == json!(["karpenter.sh/termination"]), "{claim}");
    ensure!(claim["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"], "{claim}");
    let amount =
        |resource: &str, amount: &str| v1::Quantity { resource: resource.to_owned(), amount: amount.to_owned() };
    let launch = v1::MarkLaunched {
        node_claim: "general-1".to_owned(),
        provider_id: "aws:///us-east-1a/i-agent".to_owned(),
        labels: vec![pair("topology.kubernetes.io/zone", "us-east-1a"), pair("karpenter.sh/nodepool", "not this one")],
        capacity: vec![amount("cpu", "2")],
        allocatable: vec![amount("cpu", "1930m")],
        image_id: "ami-1".to_owned(),
    };
    harness.execute_twice(Action::MarkLaunched(launch)).await?;
    let claim = harness.claim().await?;
    ensure!(claim["status"]["providerID"] == "aws:///us-east-1a/i-agent", "{claim}");
    ensure!(claim["status"]["imageID"] == "ami-1", "{claim}");
    ensure!(claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "general", "an existing label is overwritten");
    ensure!((condition(&claim, "Launched"), condition(&claim, "Ready")) == ("True", "Unknown"), "{claim}");
    // Older instructions are rejected, also by an agent that was restarted.
    let stale = harness.execute_as(3, 1, drain(None)).await;
    ensure!(stale.outcome == v1::Outcome::Stale, "{stale:?}");
    let earlier_epoch = harness.execute_as(2, 99, drain(None)).await;
    ensure!(earlier_epoch.outcome == v1::Outcome::Stale, "{earlier_epoch:?}");
    Ok(())
}

/// Registers the node with nominations for the pending pods. Returns how many nominated pods were
/// observed.
async fn registered(harness: &AgentHarness) -> anyhow::Result<usize> {
    harness.cluster.deploy("two", 2, "800m", "100Mi", json!({ "terminationGracePeriodSeconds": 1 })).await?;
    let poll = || async {
        let pods = harness.cluster.pods().await?;
        Ok(if pods.len() == 2 { Poll::Ready(pods) } else { Poll::Pending(format!("{} pods", pods.len())) })
    };
    let pods = wait_until("two pods", TIMEOUT, poll).await?;
    let nomination = |pod: &k8s_openapi::api::core::v1::Pod| v1::PodNomination {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    };
    // The watch begins before the registration, so that it returns the nominated pods.
    let mut observed = harness.kubernetes.list_and_watch().await?;
    let registration = v1::RegisterNode {
        node_claim: "general-1".to_owned(),
        node: "i-agent".to_owned(),
        labels: vec![pair("karpenter.sh/nodepool", "general"), pair("team", "shop")],
        taints: Vec::new(),
        nominations: pods.iter().map(nomination).collect(),
    };
    harness.execute_twice(Action::RegisterNode(registration)).await?;
    let node = harness.cluster.nodes().await?.pop().context("no node")?;
    ensure!(!taints(&node).contains(&"karpenter.sh/unregistered"), "{:?}", taints(&node));
    ensure!(node.labels().get("karpenter.sh/registered").is_some_and(|value| value == "true"), "{:?}", node.labels());
    ensure!(node.annotations().get("karpenter.sh/nodepool-hash").is_some_and(|value| value == "5"));
    ensure!(!node.annotations().keys().any(|key| key.starts_with("fleetwright.dev/")), "{:?}", node.annotations());
    let claim = harness.claim().await?;
    ensure!(
        (condition(&claim, "Registered"), claim["status"]["nodeName"].as_str()) == ("True", Some("i-agent")),
        "{claim}"
    );
    harness.cluster.wait_until_ready(2, TIMEOUT).await?;
    let mut nominated = 0;
    while let Ok(seen) = observed.changes.try_recv() {
        nominated +=
            seen.iter().filter(|one| matches!(one, Record::Pod { record, .. } if record.nominated_by_agent)).count();
    }
    ensure!(nominated >= 2, "the watch returned {nominated} pods nominated by the agent");
    Ok(nominated.min(2))
}

/// Initializes the node, and writes the pool's status and an event.
async fn in_service(harness: &AgentHarness) -> anyhow::Result<()> {
    let initialization = v1::InitializeNode { node_claim: "general-1".to_owned(), node: "i-agent".to_owned() };
    harness.execute_twice(Action::InitializeNode(initialization)).await?;
    let claim = harness.claim().await?;
    ensure!((condition(&claim, "Initialized"), condition(&claim, "Ready")) == ("True", "True"), "{claim}");
    let ready = json!([{ "type": "Ready", "status": "True", "reason": "Ready" }]);
    let status = json!({ "nodes": 1, "resources": { "cpu": "2" }, "conditions": ready });
    let written = v1::WriteObject {
        kind: v1::ObjectKind::NodePool.into(),
        name: "general".to_owned(),
        status: serde_json::to_vec(&status)?,
        annotations: vec![pair("karpenter.sh/nodepool-hash", "5")],
        ..v1::WriteObject::default()
    };
    harness.execute_twice(Action::WriteObject(written.clone())).await?;
    let before = harness.object("karpenter.sh/v1", "NodePool", "general").await?;
    ensure!(before["status"]["nodes"] == 1 && condition(&before, "Ready") == "True", "{before}");
    // The same write again must not change the resource version.
    harness.execute_twice(Action::WriteObject(written)).await?;
    let after = harness.object("karpenter.sh/v1", "NodePool", "general").await?;
    ensure!(before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"], "written without need");
    let event = v1::RecordEvent {
        kind: v1::ObjectKind::NodeClaim.into(),
        name: "general-1".to_owned(),
        r#type: "Normal".to_owned(),
        reason: "Unconsolidatable".to_owned(),
        message: "nothing is cheaper".to_owned(),
        ..v1::RecordEvent::default()
    };
    harness.execute_twice(Action::RecordEvent(event)).await?;
    let events = harness.cluster.at(Some("default"), "events.k8s.io/v1", "Event").list(&Default::default()).await?;
    let ours = events.items.iter().filter(|event| event.data["reason"] == "Unconsolidatable").count();
    ensure!(ours == 1, "{ours} events");
    Ok(())
}

/// The server claims that the Node is empty, and the API server lists two pods on it.
async fn is_not_drained_as_empty(harness: &AgentHarness) -> anyhow::Result<()> {
    let Action::DrainNode(order) = drain(None) else { bail!("not the order to drain") };
    let done = harness.execute(Action::DrainNode(v1::DrainNode { only_if_empty: true, ..order })).await;
    ensure!(done.outcome == v1::Outcome::PreconditionFailed && done.detail.contains("pods to move"), "{done:?}");
    let node = harness.cluster.nodes().await?.pop().context("no node")?;
    ensure!(!taints(&node).contains(&"karpenter.sh/disrupted"), "{:?}", taints(&node));
    Ok(())
}

/// A budget without disruptions blocks the drain until it is raised. Returns the time that the
/// drain was blocked.
async fn drained(harness: &AgentHarness) -> anyhow::Result<Duration> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "none", "namespace": harness.cluster.namespace },
        "spec": { "maxUnavailable": 0, "selector": {} },
    });
    harness.cluster.apply(budget).await?;
    let observed = || async {
        let budget = harness.object("policy/v1", "PodDisruptionBudget", "none").await?;
        let known = budget["status"]["expectedPods"] == 2;
        Ok(if known { Poll::Ready(()) } else { Poll::Pending(budget["status"].to_string()) })
    };
    // The disruption controller must have counted the pods; before that, evictions fail for another
    // reason.
    wait_until("the budget has its pods", TIMEOUT, observed).await?;
    let begun = Instant::now();
    let kubernetes = Arc::clone(&harness.kubernetes);
    harness.generation.store(1_000, std::sync::atomic::Ordering::Relaxed);
    let instruction = v1::Instruction { epoch: 3, generation: 1_000, action: Some(drain(None)), ..Default::default() };
    let task = tokio::spawn(async move { kubernetes.execute_instruction(instruction).await });
    let held = || async {
        let events = harness.cluster.at(Some("default"), "events.k8s.io/v1", "Event").list(&Default::default()).await?;
        let rejected = events.items.iter().any(|event| event.data["reason"] == "FailedDraining");
        Ok(if rejected { Poll::Ready(()) } else { Poll::Pending("no rejected eviction".to_owned()) })
    };
    wait_until("the drain is blocked by the budget", TIMEOUT, held).await?;
    ensure!(
        harness.cluster.pods().await?.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()),
        "a pod is deleted"
    );
    let node = harness.cluster.nodes().await?.pop().context("no node")?;
    ensure!(taints(&node).contains(&"karpenter.sh/disrupted"), "{:?}", taints(&node));
    ensure!(condition(&harness.claim().await?, "Drained") == "Unknown");
    harness.cluster.delete("policy/v1", "PodDisruptionBudget", "none").await?;
    let held = begun.elapsed();
    let done = tokio::time::timeout(TIMEOUT, task).await.context("the drain does not end")??;
    ensure!(done.outcome == v1::Outcome::Done, "{done:?}");
    let claim = harness.claim().await?;
    ensure!((condition(&claim, "Drained"), condition(&claim, "VolumesDetached")) == ("True", "True"), "{claim}");
    let bound = harness
        .cluster
        .pods()
        .await?
        .iter()
        .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
        .count();
    ensure!(bound == 0, "{bound} pods are on the node");
    harness.cluster.delete("apps/v1", "Deployment", "two").await?;
    Ok(held)
}

/// A pod protected by an annotation is deleted at the deadline, also when the agent that began the
/// drain has exited and there is no server.
async fn a_deadline_outweighs_protection_and_restarts(test_bed: Arc<TestBed>) -> ScenarioResult {
    let harness = AgentHarness::new(&test_bed, "deadline", true).await?;
    let kubelets =
        Kubelets::new(test_bed.client.clone(), KubeletTiming { forgotten: Duration::ZERO, ..KubeletTiming::default() });
    kubelets.boot_machine(Types::builtin("us-east-1")?.machine("i-agent", "m5.large", "us-east-1a")?);
    harness.cluster.wait_until_nodes(1, TIMEOUT).await?;
    // The label of a managed node whose NodeClaim does not exist.
    let labels = json!({ "karpenter.sh/nodepool": "general" });
    let untaint = json!({ "metadata": { "labels": labels }, "spec": { "taints": null } });
    harness.cluster.patch("v1", "Node", "i-agent", untaint).await?;
    let spec = json!({ "terminationGracePeriodSeconds": 2 });
    harness.cluster.deploy("held", 1, "100m", "100Mi", spec).await?;
    let protect =
        json!({ "spec": { "template": { "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } } } });
    harness.cluster.patch("apps/v1", "Deployment", "held", protect).await?;
    harness.cluster.wait_until_ready(1, TIMEOUT).await?;
    let begun = Instant::now();
    let deadline = jiff::Timestamp::now().as_millisecond() + 8_000;
    let done = tokio::time::timeout(TIMEOUT, harness.execute(drain(Some(deadline))))
        .await
        .context("the drain does not end")?;
    ensure!(done.outcome == v1::Outcome::Done, "{done:?}");
    let took = begun.elapsed();
    // The pod's grace is 2 s, so it is deleted 6 s after the beginning, and not before.
    ensure!(took >= Duration::from_secs(6), "the pod went after {took:?}");
    harness.cluster.delete("apps/v1", "Deployment", "held").await?;
    kubelets.lose_machine("i-agent");
    harness.cluster.wait_until_nodes(0, TIMEOUT).await?;
    Ok(format!("drained by the next replica {took:.1?} after a deadline of 8 s was set"))
}

/// The agent's records of the cluster, sorted.
async fn output(harness: &AgentHarness) -> anyhow::Result<Vec<String>> {
    let observed = harness.kubernetes.list_and_watch().await?;
    let mut output: Vec<String> = observed.records.iter().map(|record| format!("{record:?}")).collect();
    output.sort();
    Ok(output)
}

/// Lists in pages and streaming lists return the same records.
async fn pages_and_streams_show_the_same_cluster(test_bed: Arc<TestBed>) -> ScenarioResult {
    let streamed = AgentHarness::new(&test_bed, "pictures", true).await?;
    // More than one page: a page has 500 objects.
    for number in 0..520 {
        let name = format!("class-{number}");
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": number });
        streamed.cluster.apply(class).await?;
    }
    let paged = AgentHarness::new(&test_bed, "pictures", false).await?;
    let (by_stream, by_page) = (output(&streamed).await?, output(&paged).await?);
    let classes = by_page.iter().filter(|record| record.contains("PriorityClassRecord { name: \"class-")).count();
    ensure!(classes == 520, "{classes} classes in pages");
    // Leases and events are not among the records, so nothing changes meanwhile.
    let differing: Vec<&String> = by_stream.iter().filter(|record| !by_page.contains(record)).collect();
    ensure!(differing.is_empty() && by_stream.len() == by_page.len(), "{differing:?}");
    let classes = streamed.cluster.objects("scheduling.k8s.io/v1", "PriorityClass");
    for number in 0..520 {
        classes.delete(&format!("class-{number}"), &Default::default()).await?;
    }
    Ok(format!("{} records either way", by_page.len()))
}

/// The API server is killed and restarted: the watches resume and miss nothing.
async fn watches_outlive_the_api_server(test_bed: Arc<TestBed>) -> ScenarioResult {
    let harness = AgentHarness::new(&test_bed, "outlive", true).await?;
    let mut observed = harness.kubernetes.list_and_watch().await?;
    {
        let mut control_plane = test_bed.control_plane.lock().await;
        tokio::task::block_in_place(|| control_plane.kill().and_then(|()| control_plane.restart()))?;
    }
    // The change is made after the restart, so that only a resumed watch returns it.
    let back = Instant::now();
    let named = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    harness.cluster.apply(named("after-the-restart")).await?;
    let seen = async {
        while let Some(records) = observed.changes.recv().await {
            let is_it = |record: &Record| match record {
                Record::Plain(change) => {
                    matches!(&**change, Change::Namespace(record) if record.name == "after-the-restart")
                }
                _ => false,
            };
            let removal =
                |record: &Record| matches!(record, Record::Plain(change) if matches!(**change, Change::Removal(_)));
            ensure!(!records.iter().any(removal), "an object was reported as removed: {records:?}");
            if records.iter().any(is_it) {
                return Ok(());
            }
        }
        anyhow::bail!("the changes ended")
    };
    tokio::time::timeout(TIMEOUT, seen).await.context("the watch does not continue")??;
    let took = back.elapsed();
    harness.cluster.delete("v1", "Namespace", "after-the-restart").await?;
    Ok(format!("a change was observed {took:.1?} after the API server restarted"))
}

/// Two replicas and one Lease: one is active; a released Lease is acquired at once, and a lost
/// Lease ends the active replica.
async fn one_of_two_replicas_works(test_bed: Arc<TestBed>) -> ScenarioResult {
    let cluster = Cluster::with_namespace(&test_bed.client, "replicas").await?;
    let settings = settings(&test_bed, &cluster, "replicas").await?;
    let api = connect(&settings).await?.api;
    let candidate = |identity: &str| Candidate {
        api: api.clone(),
        namespace: AGENT.0.to_owned(),
        name: LEASE.to_owned(),
        identity: identity.to_owned(),
        duration: Duration::from_secs(3),
    };
    let mut first = tokio::time::timeout(TIMEOUT, candidate("first").acquire_lease()).await?;
    let second = candidate("second");
    let waiting = tokio::spawn(async move { second.acquire_lease().await });
    // Two durations: an unrenewed Lease would have been acquired.
    let kept = tokio::time::timeout(Duration::from_secs(6), first.hold_lease()).await;
    ensure!(kept.is_err() && !waiting.is_finished(), "{kept:?}");
    let released = Instant::now();
    first.release_lease().await;
    let mut second = tokio::time::timeout(TIMEOUT, waiting).await??;
    let handed_over = released.elapsed();
    ensure!(
        handed_over < Duration::from_secs(3),
        "the second waited {handed_over:?} although the lease was given back"
    );
    let leases = cluster.at(Some(AGENT.0), "coordination.k8s.io/v1", "Lease");
    let stolen = json!({ "spec": { "holderIdentity": "thief" } });
    leases.patch(LEASE, &Default::default(), &kube::api::Patch::Merge(stolen)).await?;
    let why = tokio::time::timeout(TIMEOUT, second.hold_lease()).await.context("the second works on")?;
    ensure!(why.to_string().contains("thief"), "{why}");
    leases.delete(LEASE, &Default::default()).await?;
    Ok(format!("handed over in {handed_over:.1?}"))
}

/// The highest epoch never decreases and survives the agent, also with concurrent writes.
async fn the_highest_epoch_outlives_the_agent(test_bed: Arc<TestBed>) -> ScenarioResult {
    let cluster = Cluster::with_namespace(&test_bed.client, "epochs").await?;
    let settings = settings(&test_bed, &cluster, "epochs").await?;
    let api = connect(&settings).await?.api;
    let store = || EpochStore::new(api.clone(), AGENT.0.to_owned(), EPOCHS_LEASE.to_owned());
    ensure!(store().read_epoch().await? == 0);
    let (low, high) = (store(), store());
    let (one, other) = tokio::join!(low.raise_epoch(7), high.raise_epoch(9));
    one.and(other)?;
    store().raise_epoch(8).await?;
    ensure!(store().read_epoch().await? == 9, "{:?}", store().read_epoch().await);
    let leases = cluster.at(Some(AGENT.0), "coordination.k8s.io/v1", "Lease");
    let broken = json!({ "metadata": { "annotations": { "fleetwright.dev/highest-epoch": "many" } } });
    leases.patch(EPOCHS_LEASE, &Default::default(), &kube::api::Patch::Merge(broken)).await?;
    let error = store().read_epoch().await.err().context("an epoch that is no number was read")?.to_string();
    ensure!(error.contains("\"many\" is not a number"), "{error}");
    leases.delete(EPOCHS_LEASE, &Default::default()).await?;
    Ok("0, then 9 of 7, 9 and 8".to_owned())
}
