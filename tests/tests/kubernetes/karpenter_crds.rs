//! NodePools with every operator under the CRDs of Karpenter's releases, which a cluster keeps when it moves to Fleetwright.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::go_module::module_folder;
use e2e::kubernetes::cluster::Cluster;
use e2e::kubernetes::deploy;
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, Skip, TestBed};
use kube::api::ListParams;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(90);

/// Releases of Karpenter; `Gte` and `Lte` exist from 1.9 on.
const RELEASES: [&str; 6] = ["1.0.0", "1.5.0", "1.8.0", "1.12.0", "1.14.0", "1.15.0"];

/// A NodePool with every operator that its CRD knows launches under each release.
pub(super) async fn accept_what_is_written(test_bed: Arc<TestBed>) -> ScenarioResult {
    let mut done = Vec::new();
    for release in RELEASES {
        let module = format!("sigs.k8s.io/karpenter@v{release}");
        match tokio::task::spawn_blocking(move || module_folder(&module)).await? {
            Ok(folder) => done.push(launch_under(&test_bed, release, &folder.join("pkg/apis/crds")).await),
            // One that needs a newer Go than is installed, for example.
            Err(why) => eprintln!("SKIPPED the CRDs of Karpenter {release}: {why}"),
        }
    }
    // The next scenario must find Fleetwright's.
    deploy::install_crds(&Cluster::with_namespace(&test_bed.client, "crds").await?).await?;
    let done = done.into_iter().collect::<anyhow::Result<Vec<String>>>()?;
    if done.is_empty() {
        return Err(Skip("no release of Karpenter can be had".to_owned()).into());
    }
    Ok(done.join("; "))
}

async fn launch_under(test_bed: &Arc<TestBed>, release: &str, crds: &Path) -> anyhow::Result<String> {
    let namespace = format!("crds-{}", release.replace('.', "-"));
    let environment = Environment::prepare_environment(test_bed, &namespace, Options::default()).await?;
    let mut operators = "";
    for kind in ["nodepools", "nodeclaims"] {
        let file = crds.join(format!("karpenter.sh_{kind}.yaml"));
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        operators = if text.contains("- Gte") { "with Gte and Lte" } else { "without Gte and Lte" };
        deploy::apply_definitions(&environment.cluster, deploy::parse_manifest(&text)?).await?;
    }
    let mut environment = environment;
    environment.start_processes().await?;
    let launched = launch(&environment, operators == "with Gte and Lte").await;
    let launched = launched.with_context(|| environment.log_tails()).with_context(|| format!("Karpenter {release}"))?;
    Ok(format!("{release} ({operators}): {launched}"))
}

async fn launch(environment: &Environment, has_inclusive: bool) -> anyhow::Result<String> {
    let entry =
        |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
    let mut requirements = vec![
        entry("karpenter.sh/capacity-type", "In", &["on-demand"]),
        entry("karpenter.k8s.aws/instance-category", "NotIn", &["t", "x"]),
        json!({ "key": "kubernetes.io/arch", "operator": "Exists" }),
        json!({ "key": "karpenter.k8s.aws/instance-gpu-name", "operator": "DoesNotExist" }),
        entry("karpenter.k8s.aws/instance-cpu", "Gt", &["1"]),
        entry("karpenter.k8s.aws/instance-cpu", "Lt", &["9"]),
        entry("karpenter.k8s.aws/instance-generation", "Gt", &["4"]),
    ];
    if has_inclusive {
        requirements.push(entry("karpenter.k8s.aws/instance-memory", "Gte", &["4096"]));
        requirements.push(entry("karpenter.k8s.aws/instance-memory", "Lte", &["65536"]));
    }
    environment.apply_pool("default", Value::Array(requirements), json!({})).await?;
    environment.cluster.deploy("web", 1, "900m", "1Gi", json!({})).await?;
    environment.cluster.wait_until_ready(1, TIMEOUT).await?;
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 1, "{launched} machines were launched");
    let claims = environment.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&ListParams::default()).await?.items;
    let claim = claims.first().context("no NodeClaim")?;
    let bounds = claim.data.pointer("/spec/requirements").and_then(Value::as_array).into_iter().flatten();
    let bounds: Vec<String> = bounds
        .filter(|entry| matches!(entry["operator"].as_str(), Some("Gt" | "Lt" | "Gte" | "Lte")))
        .map(|entry| {
            format!("{} {}", entry["operator"].as_str().unwrap_or(""), entry["values"][0].as_str().unwrap_or(""))
        })
        .collect();
    Ok(format!("launched, bounds {}", bounds.join(" ")))
}
