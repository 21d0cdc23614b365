//! Every object in `deploy/` is accepted by a real API server, without unknown fields.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::Cluster;
use e2e::kubernetes::deploy;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use kube::api::{Patch, PatchParams, ValidationDirective};
use serde_json::{Map, Value, json};

/// Folders whose manifests are applied unchanged; every other folder with manifests has a
/// kustomization.
const PLAIN: [&str; 3] = ["crds", "agent", "examples"];
const KUSTOMIZED: [&str; 2] = ["agent/run", "server"];
/// Folders whose files are read by other programs than an API server: promtool, in `it`'s `monitoring`.
const NO_MANIFESTS: [&str; 1] = ["prometheus"];
/// A namespace that no kustomization contains: deleting the kustomization would delete it.
const NAMESPACE: &str = "server/namespace.yaml";
/// The fields of kustomize that the kustomizations use.
const FIELDS: [&str; 6] = ["apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images"];

/// A dry run with strict validation, of each object as `kubectl apply --server-side` sends it.
pub(super) async fn are_accepted(test_bed: Arc<TestBed>) -> ScenarioResult {
    let cluster = Cluster::with_namespace(&test_bed.client, "stage").await?;
    let mut objects = Vec::new();
    for folder in PLAIN {
        objects.extend(deploy::objects(folder)?);
    }
    for folder in KUSTOMIZED {
        objects.extend(kustomized(folder)?);
    }
    objects.push(read(&root().join(NAMESPACE))?);
    everything_is_looked_at()?;
    let mut kinds = BTreeSet::new();
    for object in &objects {
        let kind = try_out(&cluster, object).await?;
        kinds.insert(kind);
    }
    let spoiled = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "dat": {} });
    ensure!(try_out(&cluster, &spoiled).await.is_err(), "a field that there is not was accepted");
    Ok(format!("{} objects of {} kinds accepted", objects.len(), kinds.len()))
}

async fn try_out(cluster: &Cluster, object: &Value) -> anyhow::Result<String> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, name, version) = (text("/kind"), text("/metadata/name"), text("/apiVersion"));
    let namespace = text("/metadata/namespace");
    let objects = match namespace.as_str() {
        "" => cluster.objects(&version, &kind),
        namespace => cluster.at(Some(namespace), &version, &kind),
    };
    let strictly = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some("e2e".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    let applied = objects.patch(&name, &strictly, &Patch::Apply(object)).await;
    applied.with_context(|| format!("{kind} {namespace}/{name} is refused"))?;
    Ok(kind)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// The output of `kubectl kustomize deploy/<folder>`: the resources in their namespace, and a
/// ConfigMap of the settings.
fn kustomized(folder: &str) -> anyhow::Result<Vec<Value>> {
    let path = root().join(folder);
    let about = read(&path.join("kustomization.yaml"))?;
    let fields: Vec<&String> = about.as_object().map(Map::keys).context("no kustomization")?.collect();
    ensure!(fields.iter().all(|field| FIELDS.contains(&field.as_str())), "{folder}: {fields:?} are not all known here");
    let namespace = about["namespace"].as_str().context("no namespace")?;
    let mut objects = Vec::new();
    for resource in about["resources"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let text = fs::read_to_string(path.join(resource)).with_context(|| format!("{folder}: no {resource}"))?;
        objects.extend(deploy::parse_manifest(&text)?);
    }
    for generator in about["configMapGenerator"].as_array().into_iter().flatten() {
        objects.push(generated(&path, generator)?);
    }
    for object in objects.iter_mut().filter(|object| object["kind"] != "Namespace") {
        object["metadata"]["namespace"] = json!(namespace);
    }
    images_are_used(folder, &about, &objects)?;
    Ok(objects)
}

fn generated(path: &Path, generator: &Value) -> anyhow::Result<Value> {
    let mut data = Map::new();
    for file in generator["envs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        for line in fs::read_to_string(path.join(file))?.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.split_once('=').with_context(|| format!("{file}: {line}"))?;
            data.insert(name.to_owned(), json!(value));
        }
    }
    Ok(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": generator["name"] }, "data": data }))
}

/// Verifies that a container uses every image of the kustomization; an unused entry would replace
/// nothing.
fn images_are_used(folder: &str, about: &Value, objects: &[Value]) -> anyhow::Result<()> {
    let containers = objects.iter().filter_map(|object| object.pointer("/spec/template/spec/containers")?.as_array());
    let used: BTreeSet<&str> = containers.flatten().filter_map(|container| container["image"].as_str()).collect();
    let named: BTreeSet<&str> =
        about["images"].as_array().into_iter().flatten().filter_map(|image| image["name"].as_str()).collect();
    ensure!(used == named, "{folder}: containers use {used:?}, and the kustomization names {named:?}");
    Ok(())
}

/// Verifies that every manifest in `deploy/` is tested.
fn everything_is_looked_at() -> anyhow::Result<()> {
    let mut looked_at = BTreeSet::from([root().join(NAMESPACE)]);
    for folder in PLAIN {
        looked_at.extend(manifests(&root().join(folder), false)?);
    }
    for folder in KUSTOMIZED {
        let path = root().join(folder);
        let kustomization = path.join("kustomization.yaml");
        let resources = read(&kustomization)?["resources"].as_array().cloned().unwrap_or_default();
        looked_at.extend(resources.iter().filter_map(Value::as_str).map(|resource| path.join(resource)));
        looked_at.insert(kustomization);
    }
    let mut all = manifests(&root(), true)?;
    all.retain(|path| !NO_MANIFESTS.iter().any(|folder| path.starts_with(root().join(folder))));
    let left: Vec<&PathBuf> = all.symmetric_difference(&looked_at).collect();
    ensure!(left.is_empty(), "no test covers {left:?}");
    Ok(())
}

/// Manifests in a folder, and in the folders below it if `deep`.
fn manifests(folder: &Path, deep: bool) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && deep {
            found.extend(manifests(&path, deep)?);
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            found.insert(path);
        }
    }
    Ok(found)
}

fn read(manifest: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(manifest).with_context(|| format!("no {}", manifest.display()))?;
    deploy::parse_manifest(&text)?.pop().context("an empty manifest")
}
