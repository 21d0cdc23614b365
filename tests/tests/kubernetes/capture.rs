//! `fleetwright capture | fleetwright plan`, with and without Karpenter's kinds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, wait_until};
use e2e::kubernetes::control_plane::ControlPlane;
use e2e::kubernetes::deploy;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use e2e::{ExitResult, Program, TempDir};
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

/// Pods without a controller.
const SINGLE_PODS: usize = 4_980;
const REPLICAS: u32 = 20;
/// Requests at a time while pods are created.
const AT_ONCE: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(240);
/// In the environment of every container; it must not leave the cluster.
const SECRET: &str = "s3cret-of-the-cluster";

const NODE_CLASS: &str = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: { name: default }\nspec:\n  role: nodes\n  \
                          amiSelectorTerms: [{ alias: al2023@latest }]\n  subnetSelectorTerms: [{ tags: { a: b } }]\n  \
                          securityGroupSelectorTerms: [{ tags: { a: b } }]\n";
const NODE_POOL: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: { name: default }\nspec:\n  template:\n    spec:\n      \
                         nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }\n      requirements:\n      \
                         - { key: karpenter.sh/capacity-type, operator: In, values: [on-demand] }\n";

/// A control plane of its own, because the others have Karpenter's kinds.
pub(super) async fn is_planned(test_bed: Arc<TestBed>) -> ScenarioResult {
    let control_plane = tokio::task::spawn_blocking(ControlPlane::find_or_start).await??;
    let kubeconfig = control_plane.kubeconfig().to_owned();
    let config = kube::config::Kubeconfig::read_from(&kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    let cluster = Cluster::with_namespace(&kube::Client::try_from(config)?, "capture").await?;
    create_pods(&cluster).await?;
    let program = test_bed.programs.server.display().to_string();
    let folder = TempDir::new();
    let pool = folder.write_file("pool.yaml", format!("{NODE_CLASS}---\n{NODE_POOL}"));

    let without = Capture::take(&program, &kubeconfig).await?;
    let absent = "the cluster does not have nodepools.karpenter.sh, nodeclaims.karpenter.sh, nodeoverlays.karpenter.sh, \
                  ec2nodeclasses.karpenter.k8s.aws; pass a NodePool";
    ensure!(without.result.stderr.contains(absent), "{}", without.result.stderr);
    without.ensure_complete(&cluster).await?;
    let (plan, planning) = without.plan(&program, &["-f", &pool]).await?;

    deploy::install_crds(&cluster).await?;
    for manifest in [NODE_CLASS, NODE_POOL] {
        for object in deploy::parse_manifest(manifest)? {
            cluster.apply(object).await?;
        }
    }
    let with = Capture::take(&program, &kubeconfig).await?;
    ensure!(!with.result.stderr.contains("does not have"), "{}", with.result.stderr);
    with.ensure_complete(&cluster).await?;
    let (same, again) = with.plan(&program, &[]).await?;
    ensure!(plan["nodes"] == same["nodes"], "the NodePool of a file and that of the cluster lead to different nodes");

    refused_without_rights(&program, &cluster, &kubeconfig, &folder).await?;
    Ok(format!(
        "{} pods; without Karpenter's kinds: captured in {:.2} s, planned in {:.2} s; with them: {:.2} s and {:.2} s; {} nodes each; {:.1} MB",
        SINGLE_PODS + REPLICAS as usize,
        without.took.as_secs_f64(),
        planning.as_secs_f64(),
        with.took.as_secs_f64(),
        again.as_secs_f64(),
        plan["nodes"].as_array().map_or(0, Vec::len),
        with.result.stdout.len() as f64 / 1e6,
    ))
}

/// What `fleetwright capture` printed.
pub(super) struct Capture {
    result: ExitResult,
    took: Duration,
}

impl Capture {
    pub(super) async fn take(program: &str, kubeconfig: &Path) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let result =
            run(program, &["capture", "--kubeconfig", &kubeconfig.display().to_string()], String::new()).await?;
        ensure!(result.status == 0, "capture ends with {}: {}", result.status, result.stderr);
        Ok(Self { result, took: begun.elapsed() })
    }

    pub(super) fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.result.stdout).context("the capture is no JSON")?;
        Ok(list["items"].as_array().context("no items")?.clone())
    }

    /// Every pod of the cluster is in the capture, and no secret.
    async fn ensure_complete(&self, cluster: &Cluster) -> anyhow::Result<()> {
        ensure!(!self.result.stdout.contains(SECRET), "the capture has the environment of a container");
        let items = self.objects()?;
        let pods =
            items.iter().filter(|item| item["kind"] == "Pod" && item["metadata"]["namespace"] == *cluster.namespace);
        let captured: BTreeSet<&str> = pods.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        let pods = cluster.pods().await?;
        let missing: Vec<String> =
            pods.iter().map(ResourceExt::name_any).filter(|name| !captured.contains(name.as_str())).collect();
        ensure!(missing.is_empty() && captured.len() == pods.len(), "not captured: {missing:?}");
        Ok(())
    }

    async fn plan(&self, program: &str, more: &[&str]) -> anyhow::Result<(Value, Duration)> {
        let begun = Instant::now();
        let arguments = [&["plan", "-f", "-", "--region", "us-east-1", "-o", "json"], more].concat();
        let result = run(program, &arguments, self.result.stdout.clone()).await?;
        ensure!(result.status == 0, "plan ends with {}: {}", result.status, result.stderr);
        let plan: Value = serde_json::from_str(&result.stdout)?;
        let nodes = plan["nodes"].as_array().context("no nodes")?;
        let planned: usize = nodes.iter().filter_map(|node| Some(node["pods"].as_array()?.len())).sum();
        ensure!(planned == SINGLE_PODS + REPLICAS as usize, "{planned} pods are planned");
        Ok((plan, begun.elapsed()))
    }
}

/// Runs the program on a thread of its own.
async fn run(program: &str, arguments: &[&str], input: String) -> anyhow::Result<ExitResult> {
    let program = Program::new(program, arguments).input(input);
    Ok(tokio::task::spawn_blocking(move || program.run(TIMEOUT)).await?)
}

async fn create_pods(cluster: &Cluster) -> anyhow::Result<()> {
    let account = cluster.objects("v1", "ServiceAccount");
    let poll = || async {
        Ok(match account.get_opt("default").await? {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending("no service account default".to_owned()),
        })
    };
    wait_until("pods are admitted", TIMEOUT, poll).await?;
    cluster.deploy("web", REPLICAS, "100m", "128Mi", json!({})).await?;
    let pods = cluster.objects("v1", "Pod");
    stream::iter(0..SINGLE_PODS)
        .map(|number| {
            let pods = pods.clone();
            async move {
                pods.create(&PostParams::default(), &serde_json::from_value(pod(number))?)
                    .await
                    .map_err(anyhow::Error::from)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let poll = || async {
        let pods = cluster.pods().await?.len();
        let all = SINGLE_PODS + REPLICAS as usize;
        Ok(if pods == all { Poll::Ready(()) } else { Poll::Pending(format!("{pods} of {all} pods")) })
    };
    wait_until("all pods exist", TIMEOUT, poll).await
}

fn pod(number: usize) -> Value {
    let container = json!({ "name": "main", "image": "none", "env": [{ "name": "PASSWORD", "value": SECRET }],
                            "resources": { "requests": { "cpu": "250m", "memory": "512Mi" } } });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("batch-{number}") },
            "spec": { "containers": [container] } })
}

/// An account without a role is told what it may not list, and nothing is printed.
async fn refused_without_rights(
    program: &str,
    cluster: &Cluster,
    administrator: &Path,
    folder: &TempDir,
) -> anyhow::Result<()> {
    let file = folder.path().join("nobody.kubeconfig");
    deploy::write_kubeconfig(cluster, administrator, (&cluster.namespace, "default"), &file).await?;
    let result = run(program, &["capture", "--kubeconfig", &file.display().to_string()], String::new()).await?;
    ensure!(result.status == 2 && result.stdout.is_empty(), "status {}: {}", result.status, result.stdout);
    ensure!(result.stderr.contains("not allowed to list pods, deployments.apps, "), "{}", result.stderr);
    Ok(())
}
