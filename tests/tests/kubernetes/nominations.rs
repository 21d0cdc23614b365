//! What nominations cost the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use e2e::kubernetes::deploy::AGENT;
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(300);

/// Variable with the number of pods; 1,000 in full.
const PODS: &str = "FLEETWRIGHT_E2E_NOMINATIONS";
/// Requests for each hundred nominations at most: kube-scheduler may bind a pod before the request arrives.
const REQUESTS_PERCENT: usize = 120;

/// Each nomination is one request, and none reads the pod, which is watched.
pub(super) async fn take_one_request_each(test_bed: Arc<TestBed>) -> ScenarioResult {
    let pods: u32 = match std::env::var(PODS) {
        Ok(number) if !number.is_empty() => number.parse().with_context(|| format!("{PODS} is no number"))?,
        _ => 100,
    };
    let environment = Environment::start(&test_bed, "nominations", Options::default()).await?;
    let output = run(&test_bed, &environment, pods).await;
    output.with_context(|| environment.log_tails())
}

async fn run(test_bed: &TestBed, environment: &Environment, pods: u32) -> ScenarioResult {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"] },
    ]);
    environment.apply_pool("default", requirements, json!({ "consolidateAfter": "5m" })).await?;
    let begun = Instant::now();
    environment.cluster.deploy("web", pods, "350m", "64Mi", json!({})).await?;
    environment.cluster.wait_until_ready(i32::try_from(pods)?, TIMEOUT).await?;
    let took = begun.elapsed();
    let user = format!("system:serviceaccount:{}:{}", AGENT.0, AGENT.1);
    let audit = test_bed.audit().await?;
    let namespace = &environment.cluster.namespace;
    let ours = || audit.iter().filter(|asked| asked.user == user && asked.namespace == *namespace);
    let patches: Vec<_> = ours().filter(|asked| asked.verb == "patch" && asked.resource == "pods/status").collect();
    // A nomination that kube-scheduler clears is made again.
    let made: Vec<&str> = patches.iter().filter(|asked| asked.code == 200).map(|asked| asked.name.as_str()).collect();
    let nominated: BTreeSet<&str> = made.iter().copied().collect();
    let reads = ours().filter(|asked| asked.verb == "get" && asked.resource == "pods").count();
    let mut codes: BTreeMap<i64, usize> = BTreeMap::new();
    patches.iter().for_each(|asked| *codes.entry(asked.code).or_default() += 1);
    let figures = format!(
        "{pods} pods ready within {:.1} s: {} nominations of {} pods by {} requests (by status code: {codes:?}), {reads} \
         reads",
        took.as_secs_f64(),
        made.len(),
        nominated.len(),
        patches.len()
    );
    if made.is_empty() {
        bail!("nothing was nominated: {figures}");
    }
    ensure!(reads == 0 && patches.len() * 100 <= made.len() * REQUESTS_PERCENT, "{figures}");
    Ok(figures)
}
