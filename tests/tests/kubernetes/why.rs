//! `fleetwright why` and `kubectl fleetwright why` on a live cluster.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::environment::{CLUSTER, Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, Skip, TestBed};
use e2e::{Program, TempDir};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(90);

const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// A pod that has no place, and what the reason of its pool begins with and names.
struct Case {
    pod: &'static str,
    spec: Value,
    cpu: &'static str,
    code: &'static str,
    names: &'static str,
}

fn cases() -> Vec<Case> {
    let on = |pool: &str| json!({ "nodeSelector": { "karpenter.sh/nodepool": pool } });
    let claim = json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "absent" } }] });
    let selector = json!({ "matchLabels": { "app": "absent" } });
    let term = json!([{ "labelSelector": selector, "topologyKey": "topology.kubernetes.io/zone" }]);
    let beside = json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } } });
    let case = |pod, spec, cpu, code, names| Case { pod, spec, cpu, code, names };
    vec![
        case("selector", json!({ "nodeSelector": { "disk": "nvme" } }), "1", "Requirements", "disk"),
        case("untolerated", on("tainted"), "1", "Taints", "dedicated"),
        // m5.large has 2 CPUs.
        case("huge", on("general"), "100", "Resources", "m5.large"),
        case("over-the-limit", on("limited"), "1", "Limits", "cpu"),
        case("unready", on("classless"), "1", "NodeClassNotReady", "absent"),
        case("volume", claim, "1", "Volumes", "absent"),
        case("lonely", beside, "1", "PodAffinity", "absent"),
    ]
}

/// Every kind of reason is answered for a pod that waits, and one for a node that stays; kubectl asks the same.
pub(super) async fn answers(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "why", Options::default()).await?;
    let output = ask(&test_bed, &environment).await;
    // The next scenario must find no NodePool without its NodeClass.
    environment.cluster.delete("karpenter.sh/v1", "NodePool", "classless").await?;
    output.with_context(|| environment.log_tails())
}

async fn ask(test_bed: &Arc<TestBed>, environment: &Environment) -> ScenarioResult {
    let cluster = &environment.cluster;
    apply_pools(environment).await?;
    cluster.deploy("web", 1, "900m", "1Gi", json!({ "nodeSelector": { "karpenter.sh/nodepool": "general" } })).await?;
    for case in cases() {
        cluster.apply(pod(&cluster.namespace, &case)).await?;
    }
    for case in cases() {
        wait_for_reason(test_bed, environment, &case).await?;
    }
    cluster.wait_until_ready(1, TIMEOUT).await?;
    let node = node_that_stays(test_bed, environment).await?;
    let plugin = ask_kubectl(test_bed, environment, &node).await?;
    Ok(format!("{} kinds of reason of pods, DoNotDisrupt of a node; {plugin}", cases().len()))
}

async fn apply_pools(environment: &Environment) -> anyhow::Result<()> {
    let m5_large = || {
        json!([
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
            { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
        ])
    };
    let taints = json!([{ "key": "dedicated", "value": "batch", "effect": "NoSchedule" }]);
    let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "absent" });
    for (pool, change) in [
        ("general", json!({})),
        ("tainted", json!({ "spec": { "template": { "spec": { "taints": taints } } } })),
        ("limited", json!({ "spec": { "limits": { "cpu": "1" } } })),
        ("classless", json!({ "spec": { "template": { "spec": { "nodeClassRef": class } } } })),
    ] {
        // The spec is whole in the first write: a pool must not launch before it has its limits.
        environment.apply_changed_pool(pool, m5_large(), change).await?;
    }
    Ok(())
}

fn pod(namespace: &str, case: &Case) -> Value {
    let requests = json!({ "cpu": case.cpu, "memory": "1Gi" });
    let mut spec = json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{ "name": "main", "image": "none", "resources": { "requests": requests } }],
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), case.spec.clone()) {
        spec.extend(more);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": case.pod, "namespace": namespace }, "spec": spec })
}

/// Waits until the pod is unschedulable for the reason.
async fn wait_for_reason(test_bed: &Arc<TestBed>, environment: &Environment, case: &Case) -> anyhow::Result<()> {
    let namespace = &environment.cluster.namespace;
    let poll = || async {
        let report = why(test_bed, environment, &["pod", case.pod, "-n", namespace]).await?;
        let reasons = report["reasons"].as_array().cloned().unwrap_or_default();
        let is_said = reasons.iter().filter_map(Value::as_str).any(|reason| {
            reason.strip_prefix(case.code).is_some_and(|rest| rest.starts_with(": ") && rest.contains(case.names))
        });
        let is_waiting = report["state"] == "unschedulable";
        Ok(if is_said && is_waiting { Poll::Ready(()) } else { Poll::Pending(report.to_string()) })
    };
    wait_until(&format!("pod {} waits because of {}", case.pod, case.code), TIMEOUT, poll).await
}

/// The node, which stays because of its annotation.
async fn node_that_stays(test_bed: &Arc<TestBed>, environment: &Environment) -> anyhow::Result<String> {
    let nodes = environment.cluster.wait_until_nodes(1, TIMEOUT).await?;
    let node = nodes.first().and_then(|node| node.metadata.name.clone()).context("a node without a name")?;
    let annotation = json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } });
    environment.cluster.patch("v1", "Node", &node, annotation).await?;
    let poll = || async {
        let report = why(test_bed, environment, &["node", &node]).await?;
        let reasons = report["present"]["reasons"].as_array().cloned().unwrap_or_default();
        let blocks = reasons.iter().filter_map(|reason| reason["heldBy"].as_array()).flatten();
        let is_said = blocks.filter_map(|block| block["code"].as_str()).any(|code| code == "DoNotDisrupt");
        let stays = report["state"] == "stays";
        Ok(if is_said && stays { Poll::Ready(()) } else { Poll::Pending(report.to_string()) })
    };
    wait_until(&format!("node {node} stays because of its annotation"), TIMEOUT, poll).await?;
    Ok(node)
}

/// What `fleetwright why … -o json` prints.
async fn why(test_bed: &Arc<TestBed>, environment: &Environment, words: &[&str]) -> anyhow::Result<Value> {
    let server = format!("http://{}", environment.grpc);
    let words = [&["why"], words, &["--cluster", CLUSTER, "--server", &server, "-o", "json"]].concat();
    let program = Program::new(&test_bed.programs.server.display().to_string(), &words);
    let ended = tokio::task::spawn_blocking(move || program.run(COMMAND_TIMEOUT)).await?;
    ensure!(ended.status == 0, "status {}: {}", ended.status, ended.stderr);
    Ok(serde_json::from_str(&ended.stdout)?)
}

/// Has kubectl run the program as its plugin.
async fn ask_kubectl(test_bed: &Arc<TestBed>, environment: &Environment, node: &str) -> anyhow::Result<String> {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        return Err(Skip("no kubectl is installed".to_owned()).into());
    }
    let folder = TempDir::new();
    symlink(&test_bed.programs.server, folder.path().join("kubectl-fleetwright"))?;
    let kubeconfig = test_bed.control_plane.lock().await.kubeconfig().display().to_string();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let home = folder.path().display().to_string();
    let kubectl = |words: &[&str]| {
        let program = Program::new("kubectl", &[&["fleetwright", "why"], words].concat());
        program.env("PATH", &path).env("KUBECONFIG", &kubeconfig).env("HOME", &home)
    };
    let run = async |program: Program| tokio::task::spawn_blocking(move || program.run(COMMAND_TIMEOUT)).await;
    // Without a server, the error says where to name one.
    let refused = run(kubectl(&["node", node])).await?;
    let says = refused.stderr.contains("no server is named") && refused.stderr.contains("FLEETWRIGHT_SERVER");
    ensure!(refused.status != 0 && says, "{}", refused.stderr);
    let client_file = format!("server = \"http://{}\"\n", environment.grpc);
    std::fs::create_dir_all(folder.path().join(".config/fleetwright"))?;
    std::fs::write(folder.path().join(".config/fleetwright/client.toml"), client_file)?;
    let about_node = run(kubectl(&["node", node])).await?;
    let expected = format!("node {node} of cluster {CLUSTER} stays");
    ensure!(about_node.stdout.starts_with(&expected), "{}{}", about_node.stdout, about_node.stderr);
    let namespace = &environment.cluster.namespace;
    let about_pod = run(kubectl(&["pod", "huge", "-n", namespace])).await?;
    let expected = format!("pod {namespace}/huge of cluster {CLUSTER} is unschedulable");
    ensure!(about_pod.stdout.starts_with(&expected), "{}{}", about_pod.stdout, about_pod.stderr);
    Ok("the same by kubectl fleetwright".to_owned())
}
