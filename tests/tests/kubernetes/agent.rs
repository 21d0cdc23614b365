//! The agent's hands on a real API server, without a server above them: instructions in, objects out. It works under the role
//! that `deploy/` gives it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::config::KubernetesConfig;
use agent::{Cluster as _, Seen as Record};
use agent_kubernetes::Kubernetes;
use agent_kubernetes::cluster::Conduct;
use agent_kubernetes::connect::{connect, identify};
use agent_kubernetes::epoch::EpochStore;
use agent_kubernetes::leader::Candidate;
use agent_kubernetes::obey::guard::Guard;
use anyhow::{Context, bail, ensure};
use e2e::kubernetes::cluster::{Cluster, Seen, taints, until};
use e2e::kubernetes::deploy;
use e2e::kubernetes::kubelets::{Kubelets, Pace};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{Scenario, Stage, Told};
use e2e::kubernetes::world::AGENT;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::instruction::Action;
use kube::ResourceExt;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// The Leases that the role names.
const LEASE: &str = "fleetwright-agent";
const EPOCHS_LEASE: &str = "fleetwright-agent-epoch";

pub(super) const MACHINE: Scenario = Scenario {
    name: "a_machine_lives_by_instructions",
    limit: Duration::from_secs(180),
    needs_own: false,
    needs_scheduler: true,
    needs_all: false,
    by_name: false,
    play: |stage| Box::pin(a_machine_lives_by_instructions(stage)),
};
pub(super) const DEADLINE: Scenario = Scenario {
    name: "a_deadline_outweighs_protection_and_restarts",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: true,
    needs_all: false,
    by_name: false,
    play: |stage| Box::pin(a_deadline_outweighs_protection_and_restarts(stage)),
};
pub(super) const PICTURES: Scenario = Scenario {
    name: "pages_and_streams_show_the_same_cluster",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: true,
    needs_all: false,
    by_name: false,
    play: |stage| Box::pin(pages_and_streams_show_the_same_cluster(stage)),
};
pub(super) const OUTLIVE: Scenario = Scenario {
    name: "watches_outlive_the_api_server",
    limit: Duration::from_secs(120),
    needs_own: true,
    needs_scheduler: true,
    needs_all: false,
    by_name: false,
    play: |stage| Box::pin(watches_outlive_the_api_server(stage)),
};
pub(super) const REPLICAS: Scenario = Scenario {
    name: "one_of_two_replicas_works",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: false,
    needs_all: false,
    by_name: false,
    play: |stage| Box::pin(one_of_two_replicas_works(stage)),
};
pub(super) const EPOCHS: Scenario = Scenario {
    name: "the_highest_epoch_outlives_the_agent",
    limit: Duration::from_secs(60),
    needs_own: false,
    needs_scheduler: false,
    needs_all: false,
    by_name: false,
    play: |stage| Box::pin(the_highest_epoch_outlives_the_agent(stage)),
};

/// The agent's side of a cluster, as its service account.
struct Hands {
    cluster: Cluster,
    kubernetes: Arc<Kubernetes>,
    generation: std::sync::atomic::AtomicU64,
}

impl Hands {
    async fn new(stage: &Stage, namespace: &str, streaming_lists: bool) -> anyhow::Result<Self> {
        let cluster = Cluster::with_namespace(&stage.client, namespace).await?;
        let settings = settings(stage, &cluster, namespace).await?;
        let connected = connect(&settings).await?;
        let identity = identify(&connected.api).await?;
        let epochs = EpochStore::new(connected.api.clone(), connected.namespace, EPOCHS_LEASE.to_owned());
        let conduct = Conduct {
            instance: "test".to_owned(),
            streaming_lists,
            karpenter_absent: false,
            guard: Guard::new(100, Duration::from_secs(600)),
        };
        let kubernetes = Kubernetes::watch(connected.api, identity, epochs, conduct);
        Ok(Self { cluster, kubernetes: Arc::new(kubernetes), generation: 0.into() })
    }

    /// Carries out an action, as the next instruction on the claim `general-1`.
    async fn obey(&self, action: Action) -> agent::Done {
        let generation = 1 + self.generation.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.obey_as(3, generation, action).await
    }

    async fn obey_as(&self, epoch: u64, generation: u64, action: Action) -> agent::Done {
        let instruction = v1::Instruction {
            id: format!("{epoch}-{generation}"),
            epoch,
            generation,
            deadline_ms: i64::MAX,
            remaining_ms: None,
            subject: "nodeclaim/general-1".to_owned(),
            action: Some(action),
        };
        self.kubernetes.carry_out(instruction).await
    }

    /// Carries out an action that must succeed, twice: the second time changes nothing.
    async fn done(&self, action: Action) -> anyhow::Result<()> {
        for time in ["first", "second"] {
            let done = self.obey(action.clone()).await;
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

/// How the agent's service account reaches the API server.
async fn settings(stage: &Stage, cluster: &Cluster, name: &str) -> anyhow::Result<KubernetesConfig> {
    let administrator = stage.plane.lock().await.kubeconfig().to_owned();
    let kubeconfig = std::env::temp_dir().join(format!("fleetwright-{}-{name}.kubeconfig", std::process::id()));
    deploy::kubeconfig_of(cluster, &administrator, AGENT, &kubeconfig).await?;
    Ok(KubernetesConfig {
        kubeconfig: Some(kubeconfig),
        context: None,
        namespace: Some(AGENT.0.to_owned()),
        lease: name.to_owned(),
        lease_duration: Duration::from_secs(3),
        identity: None,
        streaming_lists: true,
    })
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
        node: "i-hands".to_owned(),
        force_at_ms,
        reason: "the test says so".to_owned(),
        provider_id: "aws:///us-east-1a/i-hands".to_owned(),
        ..v1::DrainNode::default()
    })
}

/// One machine from its claim to its end: every instruction about machines, each of them twice.
async fn a_machine_lives_by_instructions(stage: Arc<Stage>) -> Told {
    let hands = Hands::new(&stage, "hands", true).await?;
    let kubelets = Kubelets::new(stage.client.clone(), Pace { forgotten: Duration::ZERO, ..Pace::default() });
    hands.cluster.apply(pool()).await?;
    launched(&hands).await?;
    let machine = Types::builtin("us-east-1")?.machine("i-hands", "m5.large", "us-east-1a")?;
    kubelets.boot(machine);
    hands.cluster.until_nodes(1, PATIENCE).await?;
    let hinted = registered(&hands).await?;
    in_service(&hands).await?;
    is_not_drained_as_empty(&hands).await?;
    let held = drained(&hands).await?;
    kubelets.lose("i-hands");
    let deletion = v1::DeleteNodeClaim {
        node_claim: "general-1".to_owned(),
        node: "i-hands".to_owned(),
        reason: "its machine is gone".to_owned(),
        provider_id: "aws:///us-east-1a/i-hands".to_owned(),
    };
    hands.done(Action::DeleteNodeClaim(deletion)).await?;
    ensure!(hands.claim().await.is_err(), "the claim is there");
    hands.cluster.until_nodes(0, PATIENCE).await?;
    hands.cluster.delete("karpenter.sh/v1", "NodePool", "general").await?;
    Ok(format!("{hinted} of 2 pods hinted; a budget held the drain for {held:.1?}"))
}

/// A claim that was created and launched.
async fn launched(hands: &Hands) -> anyhow::Result<()> {
    hands.done(create()).await?;
    let claim = hands.claim().await?;
    let pool = hands.object("karpenter.sh/v1", "NodePool", "general").await?;
    ensure!(claim["metadata"]["finalizers"] == json!(["karpenter.sh/termination"]), "{claim}");
    ensure!(claim["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"], "{claim}");
    let amount =
        |resource: &str, amount: &str| v1::Quantity { resource: resource.to_owned(), amount: amount.to_owned() };
    let launch = v1::MarkLaunched {
        node_claim: "general-1".to_owned(),
        provider_id: "aws:///us-east-1a/i-hands".to_owned(),
        labels: vec![pair("topology.kubernetes.io/zone", "us-east-1a"), pair("karpenter.sh/nodepool", "not this one")],
        capacity: vec![amount("cpu", "2")],
        allocatable: vec![amount("cpu", "1930m")],
    };
    hands.done(Action::MarkLaunched(launch)).await?;
    let claim = hands.claim().await?;
    ensure!(claim["status"]["providerID"] == "aws:///us-east-1a/i-hands", "{claim}");
    ensure!(claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "general", "a label that was there is overwritten");
    ensure!((condition(&claim, "Launched"), condition(&claim, "Ready")) == ("True", "Unknown"), "{claim}");
    // What is older than what was obeyed is refused, also by an agent that remembers nothing itself.
    let stale = hands.obey_as(3, 1, drain(None)).await;
    ensure!(stale.outcome == v1::Outcome::Stale, "{stale:?}");
    let earlier_epoch = hands.obey_as(2, 99, drain(None)).await;
    ensure!(earlier_epoch.outcome == v1::Outcome::Stale, "{earlier_epoch:?}");
    Ok(())
}

/// The node is let in, and the pods that wait are hinted at it. Returns how many were seen with a hint of ours.
async fn registered(hands: &Hands) -> anyhow::Result<usize> {
    hands.cluster.deploy("two", 2, "800m", "100Mi", json!({ "terminationGracePeriodSeconds": 1 })).await?;
    let look = || async {
        let pods = hands.cluster.pods().await?;
        Ok(if pods.len() == 2 { Seen::Done(pods) } else { Seen::NotYet(format!("{} pods", pods.len())) })
    };
    let pods = until("two pods", PATIENCE, look).await?;
    let hint = |pod: &k8s_openapi::api::core::v1::Pod| v1::PodNomination {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    };
    let mut observed = hands.kubernetes.observe().await?;
    let registration = v1::RegisterNode {
        node_claim: "general-1".to_owned(),
        node: "i-hands".to_owned(),
        labels: vec![pair("karpenter.sh/nodepool", "general"), pair("team", "shop")],
        taints: Vec::new(),
        hints: pods.iter().map(hint).collect(),
    };
    hands.done(Action::RegisterNode(registration)).await?;
    let node = hands.cluster.nodes().await?.pop().context("no node")?;
    ensure!(!taints(&node).contains(&"karpenter.sh/unregistered"), "{:?}", taints(&node));
    ensure!(node.labels().get("karpenter.sh/registered").is_some_and(|value| value == "true"), "{:?}", node.labels());
    ensure!(node.annotations().get("karpenter.sh/nodepool-hash").is_some_and(|value| value == "5"));
    ensure!(!node.annotations().keys().any(|key| key.starts_with("fleetwright.dev/")), "{:?}", node.annotations());
    let claim = hands.claim().await?;
    ensure!(
        (condition(&claim, "Registered"), claim["status"]["nodeName"].as_str()) == ("True", Some("i-hands")),
        "{claim}"
    );
    hands.cluster.until_ready(2, PATIENCE).await?;
    let mut hinted = 0;
    while let Ok(seen) = observed.changes.try_recv() {
        hinted += seen.iter().filter(|one| matches!(one, Record::Pod { record, .. } if record.nominated_by_us)).count();
    }
    ensure!(hinted >= 2, "the watch showed {hinted} pods with a hint of ours");
    Ok(hinted.min(2))
}

/// The node is put into service; the pool's status and an event are written.
async fn in_service(hands: &Hands) -> anyhow::Result<()> {
    let initialization = v1::InitializeNode { node_claim: "general-1".to_owned(), node: "i-hands".to_owned() };
    hands.done(Action::InitializeNode(initialization)).await?;
    let claim = hands.claim().await?;
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
    hands.done(Action::WriteObject(written.clone())).await?;
    let before = hands.object("karpenter.sh/v1", "NodePool", "general").await?;
    ensure!(before["status"]["nodes"] == 1 && condition(&before, "Ready") == "True", "{before}");
    hands.done(Action::WriteObject(written)).await?;
    let after = hands.object("karpenter.sh/v1", "NodePool", "general").await?;
    ensure!(before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"], "written without need");
    let event = v1::RecordEvent {
        kind: v1::ObjectKind::NodeClaim.into(),
        name: "general-1".to_owned(),
        r#type: "Normal".to_owned(),
        reason: "Unconsolidatable".to_owned(),
        message: "nothing is cheaper".to_owned(),
        ..v1::RecordEvent::default()
    };
    hands.done(Action::RecordEvent(event)).await?;
    let events = hands.cluster.at(Some("default"), "events.k8s.io/v1", "Event").list(&Default::default()).await?;
    let ours = events.items.iter().filter(|event| event.data["reason"] == "Unconsolidatable").count();
    ensure!(ours == 1, "{ours} events");
    Ok(())
}

/// The Node is said to be empty, and the API server lists two pods on it.
async fn is_not_drained_as_empty(hands: &Hands) -> anyhow::Result<()> {
    let Action::DrainNode(order) = drain(None) else { bail!("not the order to drain") };
    let done = hands.obey(Action::DrainNode(v1::DrainNode { only_if_empty: true, ..order })).await;
    ensure!(done.outcome == v1::Outcome::PreconditionFailed && done.detail.contains("pods to move"), "{done:?}");
    let node = hands.cluster.nodes().await?.pop().context("no node")?;
    ensure!(!taints(&node).contains(&"karpenter.sh/disrupted"), "{:?}", taints(&node));
    Ok(())
}

/// A budget that allows nothing holds the drain until it allows more. Returns for how long.
async fn drained(hands: &Hands) -> anyhow::Result<Duration> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "none", "namespace": hands.cluster.namespace },
        "spec": { "maxUnavailable": 0, "selector": {} },
    });
    hands.cluster.apply(budget).await?;
    let observed = || async {
        let budget = hands.object("policy/v1", "PodDisruptionBudget", "none").await?;
        let known = budget["status"]["expectedPods"] == 2;
        Ok(if known { Seen::Done(()) } else { Seen::NotYet(budget["status"].to_string()) })
    };
    until("the budget knows its pods", PATIENCE, observed).await?;
    let begun = Instant::now();
    let kubernetes = Arc::clone(&hands.kubernetes);
    hands.generation.store(1_000, std::sync::atomic::Ordering::Relaxed);
    let instruction = v1::Instruction { epoch: 3, generation: 1_000, action: Some(drain(None)), ..Default::default() };
    let task = tokio::spawn(async move { kubernetes.carry_out(instruction).await });
    let held = || async {
        let events = hands.cluster.at(Some("default"), "events.k8s.io/v1", "Event").list(&Default::default()).await?;
        let refused = events.items.iter().any(|event| event.data["reason"] == "FailedDraining");
        Ok(if refused { Seen::Done(()) } else { Seen::NotYet("no refusal".to_owned()) })
    };
    until("the drain is held by the budget", PATIENCE, held).await?;
    ensure!(hands.cluster.pods().await?.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()), "a pod goes");
    let node = hands.cluster.nodes().await?.pop().context("no node")?;
    ensure!(taints(&node).contains(&"karpenter.sh/disrupted"), "{:?}", taints(&node));
    ensure!(condition(&hands.claim().await?, "Drained") == "Unknown");
    hands.cluster.delete("policy/v1", "PodDisruptionBudget", "none").await?;
    let held = begun.elapsed();
    let done = tokio::time::timeout(PATIENCE, task).await.context("the drain does not end")??;
    ensure!(done.outcome == v1::Outcome::Done, "{done:?}");
    let claim = hands.claim().await?;
    ensure!((condition(&claim, "Drained"), condition(&claim, "VolumesDetached")) == ("True", "True"), "{claim}");
    let bound = hands
        .cluster
        .pods()
        .await?
        .iter()
        .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
        .count();
    ensure!(bound == 0, "{bound} pods are on the node");
    hands.cluster.delete("apps/v1", "Deployment", "two").await?;
    Ok(held)
}

/// A pod that refuses disruption goes all the same when the deadline has come, also when the agent that began the drain has ended
/// and no server says anything.
async fn a_deadline_outweighs_protection_and_restarts(stage: Arc<Stage>) -> Told {
    let hands = Hands::new(&stage, "deadline", true).await?;
    let kubelets = Kubelets::new(stage.client.clone(), Pace { forgotten: Duration::ZERO, ..Pace::default() });
    kubelets.boot(Types::builtin("us-east-1")?.machine("i-hands", "m5.large", "us-east-1a")?);
    hands.cluster.until_nodes(1, PATIENCE).await?;
    // The label of a machine of ours whose NodeClaim is gone.
    let labels = json!({ "karpenter.sh/nodepool": "general" });
    let untaint = json!({ "metadata": { "labels": labels }, "spec": { "taints": null } });
    hands.cluster.change("v1", "Node", "i-hands", untaint).await?;
    let spec = json!({ "terminationGracePeriodSeconds": 2 });
    hands.cluster.deploy("held", 1, "100m", "100Mi", spec).await?;
    let protect =
        json!({ "spec": { "template": { "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } } } });
    hands.cluster.change("apps/v1", "Deployment", "held", protect).await?;
    hands.cluster.until_ready(1, PATIENCE).await?;
    let begun = Instant::now();
    let deadline = jiff::Timestamp::now().as_millisecond() + 8_000;
    let done =
        tokio::time::timeout(PATIENCE, hands.obey(drain(Some(deadline)))).await.context("the drain does not end")?;
    ensure!(done.outcome == v1::Outcome::Done, "{done:?}");
    let took = begun.elapsed();
    // The pod's grace is 2 s, so it is deleted 6 s after the beginning, and not before.
    ensure!(took >= Duration::from_secs(6), "the pod went after {took:?}");
    hands.cluster.delete("apps/v1", "Deployment", "held").await?;
    kubelets.lose("i-hands");
    hands.cluster.until_nodes(0, PATIENCE).await?;
    Ok(format!("drained by the next replica {took:.1?} after a deadline of 8 s was set"))
}

/// What the agent says of the cluster, in an order of its own.
async fn told(hands: &Hands) -> anyhow::Result<Vec<String>> {
    let observed = hands.kubernetes.observe().await?;
    let mut told: Vec<String> = observed.records.iter().map(|record| format!("{record:?}")).collect();
    told.sort();
    Ok(told)
}

/// Lists in pages and lists that are streamed are the same picture.
async fn pages_and_streams_show_the_same_cluster(stage: Arc<Stage>) -> Told {
    let streamed = Hands::new(&stage, "pictures", true).await?;
    // More than one page of them: 500 objects are one.
    for number in 0..520 {
        let name = format!("class-{number}");
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": number });
        streamed.cluster.apply(class).await?;
    }
    let paged = Hands::new(&stage, "pictures", false).await?;
    let (by_stream, by_page) = (told(&streamed).await?, told(&paged).await?);
    let classes = by_page.iter().filter(|record| record.contains("PriorityClassRecord { name: \"class-")).count();
    ensure!(classes == 520, "{classes} classes in pages");
    // The leases of nodes and the events of the cluster are not part of the picture, so nothing moves meanwhile.
    let differing: Vec<&String> = by_stream.iter().filter(|record| !by_page.contains(record)).collect();
    ensure!(differing.is_empty() && by_stream.len() == by_page.len(), "{differing:?}");
    let classes = streamed.cluster.objects("scheduling.k8s.io/v1", "PriorityClass");
    for number in 0..520 {
        classes.delete(&format!("class-{number}"), &Default::default()).await?;
    }
    Ok(format!("{} records either way", by_page.len()))
}

/// The API server is killed and comes back: the watches go on where they stood, and miss nothing.
async fn watches_outlive_the_api_server(stage: Arc<Stage>) -> Told {
    let hands = Hands::new(&stage, "outlive", true).await?;
    let mut observed = hands.kubernetes.observe().await?;
    {
        let mut plane = stage.plane.lock().await;
        tokio::task::block_in_place(|| plane.kill().and_then(|()| plane.start_again()))?;
    }
    let back = Instant::now();
    let named = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    hands.cluster.apply(named("after-the-restart")).await?;
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
            ensure!(!records.iter().any(removal), "something was told as removed: {records:?}");
            if records.iter().any(is_it) {
                return Ok(());
            }
        }
        anyhow::bail!("the changes ended")
    };
    tokio::time::timeout(PATIENCE, seen).await.context("the watch does not go on")??;
    let took = back.elapsed();
    hands.cluster.delete("v1", "Namespace", "after-the-restart").await?;
    Ok(format!("a change was seen {took:.1?} after the API server came back"))
}

/// Two replicas and one Lease: one works; a release is noticed at once, a theft ends the work.
async fn one_of_two_replicas_works(stage: Arc<Stage>) -> Told {
    let cluster = Cluster::with_namespace(&stage.client, "replicas").await?;
    let settings = settings(&stage, &cluster, "replicas").await?;
    let api = connect(&settings).await?.api;
    let candidate = |identity: &str| Candidate {
        api: api.clone(),
        namespace: AGENT.0.to_owned(),
        name: LEASE.to_owned(),
        identity: identity.to_owned(),
        duration: Duration::from_secs(3),
    };
    let mut first = tokio::time::timeout(PATIENCE, candidate("first").acquire()).await?;
    let second = candidate("second");
    let waiting = tokio::spawn(async move { second.acquire().await });
    // Two durations: a Lease that was not renewed would have been taken.
    let kept = tokio::time::timeout(Duration::from_secs(6), first.keep()).await;
    ensure!(kept.is_err() && !waiting.is_finished(), "{kept:?}");
    let released = Instant::now();
    first.release().await;
    let mut second = tokio::time::timeout(PATIENCE, waiting).await??;
    let handed_over = released.elapsed();
    ensure!(
        handed_over < Duration::from_secs(3),
        "the second waited {handed_over:?} although the lease was given back"
    );
    let leases = cluster.at(Some(AGENT.0), "coordination.k8s.io/v1", "Lease");
    let stolen = json!({ "spec": { "holderIdentity": "thief" } });
    leases.patch(LEASE, &Default::default(), &kube::api::Patch::Merge(stolen)).await?;
    let why = tokio::time::timeout(PATIENCE, second.keep()).await.context("the second works on")?;
    ensure!(why.contains("thief"), "{why}");
    leases.delete(LEASE, &Default::default()).await?;
    Ok(format!("handed over in {handed_over:.1?}"))
}

/// The highest epoch grows, never shrinks, and is there for the next agent, also when two raise it at the same time.
async fn the_highest_epoch_outlives_the_agent(stage: Arc<Stage>) -> Told {
    let cluster = Cluster::with_namespace(&stage.client, "epochs").await?;
    let settings = settings(&stage, &cluster, "epochs").await?;
    let api = connect(&settings).await?.api;
    let store = || EpochStore::new(api.clone(), AGENT.0.to_owned(), EPOCHS_LEASE.to_owned());
    ensure!(store().read().await? == 0);
    let (low, high) = (store(), store());
    let (one, other) = tokio::join!(low.raise(7), high.raise(9));
    one.and(other)?;
    store().raise(8).await?;
    ensure!(store().read().await? == 9, "{:?}", store().read().await);
    let leases = cluster.at(Some(AGENT.0), "coordination.k8s.io/v1", "Lease");
    let broken = json!({ "metadata": { "annotations": { "fleetwright.dev/highest-epoch": "many" } } });
    leases.patch(EPOCHS_LEASE, &Default::default(), &kube::api::Patch::Merge(broken)).await?;
    let error = store().read().await.err().context("an epoch that is no number was read")?.to_string();
    ensure!(error.contains("\"many\" is not a number"), "{error}");
    leases.delete(EPOCHS_LEASE, &Default::default()).await?;
    Ok("0, then 9 of 7, 9 and 8".to_owned())
}
