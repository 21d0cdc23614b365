//! The agent of a cluster and a capture of it lead to one planning input, in each state that decisions tell apart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::agent::Cluster as _;
use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, wait_until};
use e2e::kubernetes::control_plane::ControlPlane;
use e2e::kubernetes::deploy;
use e2e::kubernetes::suite::{Scenario, ScenarioResult, TestBed};
use e2e::random_cluster::RandomCluster;
use e2e::state_comparison;
use kube::api::{DeleteParams, Patch, PatchParams};
use model::Timestamp;
use serde_json::{Value, json};

use super::agent;
use super::capture::Capture;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Random clusters; together they are in each of [`STATES`].
const CLUSTERS: u64 = 20;
/// Keeps an object that is being deleted.
const FINALIZER: &str = "example.com/kept";

/// A state of an object, by name.
type State = (&'static str, fn(&Value) -> bool);

const STATES: [State; 20] = [
    ("pod that no Node fits", |one| pod_reason(one) == "Unschedulable"),
    ("gated pod", |one| pod_reason(one) == "SchedulingGated"),
    ("nominated pod", |one| one["status"]["nominatedNodeName"].is_string()),
    ("pod of another scheduler", |one| one["spec"]["schedulerName"] == "volcano"),
    ("pod that is being deleted", |one| one["kind"] == "Pod" && is_deleted(one)),
    ("pod with a volume", |one| one.pointer("/spec/volumes/0/persistentVolumeClaim").is_some()),
    ("pod with overhead", |one| one.pointer("/spec/overhead/cpu").is_some()),
    ("protected pod", |one| one["kind"] == "Pod" && annotation(one, "karpenter.sh/do-not-disrupt").is_string()),
    ("budget that allows nothing", |one| one["status"]["disruptionsAllowed"] == 0),
    ("budget whose status is outdated", |one| {
        one["kind"] == "PodDisruptionBudget" && one["status"]["observedGeneration"] != one["metadata"]["generation"]
    }),
    ("NodeClaim in flight", |one| one["kind"] == "NodeClaim" && one["status"]["nodeName"].is_null()),
    ("NodeClaim that is being deleted", |one| one["kind"] == "NodeClaim" && is_deleted(one)),
    ("unregistered Node", |one| has_taint(one, "karpenter.sh/unregistered")),
    ("registered Node that is not initialized", |one| {
        label(one, "karpenter.sh/registered").is_string() && label(one, "karpenter.sh/initialized").is_null()
    }),
    ("draining Node", |one| annotation(one, "fleetwright.dev/drain").is_string()),
    ("Node with the taint of another removal", |one| {
        has_taint(one, "karpenter.sh/disrupted") && annotation(one, "fleetwright.dev/drain").is_null()
    }),
    ("Node that is being deleted", |one| one["kind"] == "Node" && is_deleted(one)),
    ("cordoned Node", |one| one["spec"]["unschedulable"] == true),
    ("Node without a NodePool", |one| one["kind"] == "Node" && label(one, "karpenter.sh/nodepool").is_null()),
    ("static NodePool", |one| one["kind"] == "NodePool" && one["spec"]["replicas"].is_number()),
];

fn pod_reason(object: &Value) -> &str {
    let conditions = object["status"]["conditions"].as_array();
    let mut scheduled = conditions.into_iter().flatten().filter(|one| one["type"] == "PodScheduled");
    scheduled.next().and_then(|one| one["reason"].as_str()).unwrap_or_default()
}

fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn annotation<'v>(object: &'v Value, key: &str) -> &'v Value {
    &object["metadata"]["annotations"][key]
}

fn label<'v>(object: &'v Value, key: &str) -> &'v Value {
    &object["metadata"]["labels"][key]
}

fn has_taint(object: &Value, key: &str) -> bool {
    object["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

pub(super) const AGREE: Scenario = Scenario {
    name: "a_capture_and_an_agent_give_one_planning_input",
    limit: Duration::from_secs(300),
    needs_own: true,
    needs_scheduler: false,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(agree(test_bed)),
};

/// An API server alone: controllers and a scheduler would change the states.
async fn agree(test_bed: Arc<TestBed>) -> ScenarioResult {
    let control_plane = tokio::task::spawn_blocking(ControlPlane::start_api_server).await??;
    let kubeconfig = control_plane.kubeconfig().to_owned();
    let config = kube::config::Kubeconfig::read_from(&kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    let cluster = Cluster::with_namespace(&kube::Client::try_from(config)?, "states").await?;
    deploy::install_crds(&cluster).await?;
    prepare(&cluster).await?;
    let agent = agent::start(&agent::settings_of(kubeconfig.clone(), "states")).await?;
    let program = test_bed.programs.server.display().to_string();
    let (mut seen, mut objects) = (BTreeSet::new(), 0);
    for seed in 0..CLUSTERS {
        let written = RandomCluster::of(seed).objects();
        for object in &written {
            write(&cluster, object.clone()).await?;
        }
        let captured = Capture::take(&program, &kubeconfig).await?.objects()?;
        let is_in = |state: &&State| captured.iter().any(|one| state.1(one));
        seen.extend(STATES.iter().filter(is_in).map(|(name, _)| *name));
        objects += written.len();
        // The watches deliver what was written in their own time.
        let options = state_comparison::options(Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()));
        let poll = || async {
            let records = agent.list_and_watch().await?.records;
            let result = state_comparison::compare(&captured, records, &options);
            Ok(result.map_or_else(Poll::Pending, Poll::Ready))
        };
        wait_until(&format!("seed {seed}: agent and capture agree"), TIMEOUT, poll).await?;
        for object in written.iter().rev() {
            remove(&cluster, object).await?;
        }
    }
    let missing: Vec<&str> = STATES.iter().map(|(name, _)| *name).filter(|name| !seen.contains(name)).collect();
    ensure!(missing.is_empty(), "no cluster has: {missing:?}");
    Ok(format!("{CLUSTERS} clusters, {objects} objects, {} states: 0 planning inputs differ", seen.len()))
}

/// What pods need that no controller creates here.
async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    for namespace in ["default", "shop"] {
        cluster.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } })).await?;
        let metadata = json!({ "name": "default", "namespace": namespace });
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
                              "automountServiceAccountToken": false });
        cluster.apply(account).await?;
    }
    for (name, value) in [("high", 100), ("low", -5)] {
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
                            "value": value });
        cluster.apply(class).await?;
    }
    let sandbox = json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "sandbox" },
                          "handler": "sandbox", "overhead": { "podFixed": { "cpu": "50m" } } });
    cluster.apply(sandbox).await?;
    Ok(())
}

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn api(cluster: &Cluster, object: &Value) -> kube::Api<kube::api::DynamicObject> {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    cluster.at(namespace, text(object, "/apiVersion"), text(object, "/kind"))
}

/// Brings an object into the state that `object` describes. The API server sets uid and times.
async fn write(cluster: &Cluster, mut object: Value) -> anyhow::Result<()> {
    let name = text(&object, "/metadata/name").to_owned();
    let is_being_deleted = is_deleted(&object);
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    let metadata = object["metadata"].as_object_mut().context("no metadata")?;
    ["uid", "creationTimestamp", "generation", "deletionTimestamp"].iter().for_each(|key| drop(metadata.remove(*key)));
    if is_being_deleted {
        metadata.insert("finalizers".into(), json!([FINALIZER]));
    }
    if object["kind"] == "Pod" {
        // Admission sets priority and overhead, by class.
        let spec = object["spec"].as_object_mut().context("no spec")?;
        drop(spec.remove("overhead"));
        let priority = spec.remove("priority");
        match priority.as_ref().and_then(Value::as_i64) {
            Some(100) => object["spec"]["priorityClassName"] = "high".into(),
            Some(-5) => object["spec"]["priorityClassName"] = "low".into(),
            _ => {}
        }
    }
    let objects = api(cluster, &object);
    let created = cluster.apply(object.clone()).await?;
    if object["kind"] == "Node" {
        // Admission adds a taint to each new Node.
        let spec = json!({ "spec": { "taints": object["spec"]["taints"] } });
        objects.patch(&name, &PatchParams::default(), &Patch::Merge(spec)).await.context("cannot set taints")?;
    }
    if let Some(mut status) = status {
        if object["kind"] == "PodDisruptionBudget" {
            // The random generation is 2, and that of a new object 1.
            let is_outdated = status["observedGeneration"] != 2;
            status["observedGeneration"] = json!(created.metadata.generation.unwrap_or(1) - i64::from(is_outdated));
        }
        let patch = Patch::Merge(json!({ "status": status }));
        let kind = text(&object, "/kind");
        let patched = objects.patch_status(&name, &PatchParams::default(), &patch).await;
        patched.with_context(|| format!("cannot set the status of {kind} {name}"))?;
    }
    if is_being_deleted {
        objects.delete(&name, &DeleteParams::default()).await.with_context(|| format!("cannot delete {name}"))?;
    }
    Ok(())
}

/// Removes an object with its finalizers; a Namespace stays.
async fn remove(cluster: &Cluster, object: &Value) -> anyhow::Result<()> {
    if object["kind"] == "Namespace" {
        return Ok(());
    }
    let (objects, name) = (api(cluster, object), text(object, "/metadata/name"));
    let absent = |error: &kube::Error| matches!(error, kube::Error::Api(refused) if refused.code == 404);
    let deleted = objects.delete(name, &DeleteParams::default().grace_period(0)).await;
    if let Err(error) = deleted.map(drop)
        && !absent(&error)
    {
        return Err(error).with_context(|| format!("cannot delete {name}"));
    }
    let finalizers = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    match objects.patch(name, &PatchParams::default(), &finalizers).await {
        Err(error) if !absent(&error) => Err(error).with_context(|| format!("cannot remove the finalizers of {name}")),
        _ => Ok(()),
    }
}
