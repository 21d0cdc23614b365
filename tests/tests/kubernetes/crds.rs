//! The custom resource definitions of `deploy/crds` on a real API server, by the tables in
//! `tests/fixtures/crds`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use e2e::kubernetes::cluster::Cluster;
use e2e::kubernetes::deploy;
use e2e::kubernetes::suite::{Scenario, ScenarioResult, TestBed};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Path of the tables, relative to this package.
const FIXTURES: &str = "fixtures/crds";

/// The parser of the tables, shared with the tests without an API server.
#[expect(
    clippy::unwrap_used,
    dead_code,
    reason = "a test that cannot read its own input has failed; they ask for more"
)]
#[path = "../../../server/read/manifests/tests/schema/cases.rs"]
mod cases;

/// Fields that an API server adds to objects without them (Karpenter: defaults of the schemas).
const FILLED_IN: &[(&str, &str)] = &[
    (
        "spec.disruption",
        r#"{"budgets":[{"nodes":"10%"}],"consolidateAfter":"0s","consolidationPolicy":"WhenEmptyOrUnderutilized"}"#,
    ),
    ("spec.disruption.budgets", r#"[{"nodes":"10%"}]"#),
    ("spec.disruption.consolidateAfter", r#""0s""#),
    ("spec.disruption.consolidationPolicy", r#""WhenEmptyOrUnderutilized""#),
    ("spec.template.spec.expireAfter", r#""720h""#),
    ("spec.expireAfter", r#""720h""#),
    (
        "spec.metadataOptions",
        r#"{"httpEndpoint":"enabled","httpProtocolIPv6":"disabled","httpPutResponseHopLimit":1,"httpTokens":"required"}"#,
    ),
    ("spec.metadataOptions.httpEndpoint", r#""enabled""#),
    ("spec.metadataOptions.httpProtocolIPv6", r#""disabled""#),
    ("spec.metadataOptions.httpPutResponseHopLimit", "1"),
];

/// A NodeClaim's status as a controller writes it.
fn status() -> Value {
    let since = "2026-01-02T03:04:05Z";
    json!({
        "allocatable": { "cpu": "1930m", "memory": "7134Mi" },
        "capacity": { "cpu": 2, "memory": "7577Mi" },
        "conditions": [
            { "type": "Launched", "status": "True", "reason": "Launched", "message": "", "lastTransitionTime": since, "observedGeneration": 1 },
            { "type": "Ready", "status": "Unknown", "reason": "", "lastTransitionTime": since },
        ],
        "imageID": "ami-0123456789abcdef0",
        "lastPodEventTime": since,
        "nodeName": "ip-10-0-0-1.ec2.internal",
        "providerID": "aws:///us-east-1a/i-0123456789abcdef0",
    })
}

/// The objects of the kind of `object`.
fn of_kind(cluster: &Cluster, object: &Value) -> Api<DynamicObject> {
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    cluster.everywhere(&text("apiVersion"), &text("kind"))
}

/// `object` under another name.
fn named(mut object: Value, name: &str) -> anyhow::Result<DynamicObject> {
    object["metadata"]["name"] = json!(name);
    serde_json::from_value(object).context("no object of Kubernetes")
}

const TRIED: PostParams = PostParams { dry_run: true, field_manager: None };

/// Fields in `stored` that are not in `sent`, by path.
///
/// # Errors
/// When a sent field is missing or changed.
fn beside(sent: &Value, stored: &Value, path: &str, found: &mut Vec<(String, Value)>) -> anyhow::Result<()> {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (key, value) in stored {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match sent.get(key) {
                    Some(sent) => beside(sent, value, &path, found)?,
                    None => found.push((path, value.clone())),
                }
            }
            let lost: Vec<&String> = sent.keys().filter(|key| !stored.contains_key(*key)).collect();
            ensure!(lost.is_empty(), "{path}: {lost:?} were sent and are not stored");
        }
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            for (sent, stored) in sent.iter().zip(stored) {
                beside(sent, stored, path, found)?;
            }
        }
        _ => ensure!(sent == stored, "{path}: {sent} was sent, {stored} is stored"),
    }
    Ok(())
}

fn by_default(path: &str, value: &Value) -> bool {
    FILLED_IN
        .iter()
        .any(|(known, default)| *known == path && serde_json::from_str(default).ok().as_ref() == Some(value))
}

/// Valid objects are stored unchanged, with Karpenter's defaults for absent fields.
pub(super) const STORED: Scenario = Scenario {
    name: "valid_objects_are_stored_as_they_were_sent",
    limit: Duration::from_secs(60),
    needs_own: false,
    needs_scheduler: false,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(valid_objects_are_stored_as_they_were_sent(test_bed)),
};

/// Invalid objects are rejected, each for the reason in the tables.
pub(super) const REFUSED: Scenario = Scenario {
    name: "invalid_objects_are_refused_with_a_reason",
    limit: Duration::from_secs(120),
    needs_own: false,
    needs_scheduler: false,
    needs_all: false,
    only_by_name: false,
    run: |test_bed| Box::pin(invalid_objects_are_refused_with_a_reason(test_bed)),
};

async fn valid_objects_are_stored_as_they_were_sent(test_bed: Arc<TestBed>) -> ScenarioResult {
    let cluster = Cluster::with_namespace(&test_bed.client, "crds").await?;
    deploy::install_crds(&cluster).await?;
    let accepted = cases::accepted();
    for (place, object) in &accepted {
        let what = format!("{place} {}", object["metadata"]["name"]);
        let stored = of_kind(&cluster, object).create(&TRIED, &named(object.clone(), "case")?).await;
        let stored = serde_json::to_value(stored.with_context(|| what.clone())?)?;
        let mut found = Vec::new();
        beside(&object["spec"], &stored["spec"], "spec", &mut found).with_context(|| what.clone())?;
        found.retain(|(path, value)| !by_default(path, value));
        ensure!(found.is_empty(), "{what}: unexpected fields {found:?}");
    }
    status_is_stored(&cluster).await?;
    Ok(format!("{} objects accepted and stored unchanged", accepted.len()))
}

async fn status_is_stored(cluster: &Cluster) -> anyhow::Result<()> {
    let claims = cases::accepted().into_iter().map(|(_, object)| object).find(|object| object["kind"] == "NodeClaim");
    let claim = claims.context("no NodeClaim among the accepted objects")?;
    let claims = of_kind(cluster, &claim);
    claims.create(&PostParams::default(), &named(claim, "crds-status")?).await?;
    let patch = Patch::Merge(json!({ "status": status() }));
    let stored = claims.patch_status("crds-status", &PatchParams::default(), &patch).await;
    claims.delete("crds-status", &DeleteParams::default()).await?;
    let stored = serde_json::to_value(stored.context("the status is refused")?)?;
    let mut found = Vec::new();
    beside(&status(), &stored["status"], "status", &mut found)?;
    ensure!(found.is_empty(), "unexpected fields {found:?}");
    Ok(())
}

async fn invalid_objects_are_refused_with_a_reason(test_bed: Arc<TestBed>) -> ScenarioResult {
    let cluster = Cluster::with_namespace(&test_bed.client, "crds").await?;
    deploy::install_crds(&cluster).await?;
    let refused = cases::refused();
    for case in &refused {
        let objects = of_kind(&cluster, &case.base);
        let tried = match case.when_changed {
            true => changed(&objects, case).await?,
            false => objects.create(&TRIED, &named(case.object.clone(), "case")?).await,
        };
        match tried {
            Err(kube::Error::Api(status)) if status.message.contains(&case.message) => {}
            Err(other) => bail!("{}: expected {:?}, got {other}", case.place, case.message),
            Ok(_) => bail!("{}: accepted; expected {:?}", case.place, case.message),
        }
    }
    Ok(format!("{} objects refused, each with its reason", refused.len()))
}

/// The API server's response when the accepted object is changed into the case.
async fn changed(objects: &Api<DynamicObject>, case: &cases::Refused) -> anyhow::Result<kube::Result<DynamicObject>> {
    const NAME: &str = "crds-changed";
    let base = objects.create(&PostParams::default(), &named(case.base.clone(), NAME)?).await?;
    let mut other = named(case.object.clone(), NAME)?;
    other.metadata = base.metadata;
    let answer = objects.replace(NAME, &TRIED, &other).await;
    objects.delete(NAME, &DeleteParams::default()).await?;
    Ok(answer)
}
