//! Applies the objects of `deploy/` to a cluster: custom resource definitions, roles, and the
//! agent's service account.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::Client;
use serde_json::{Value, json};

use super::cluster::{Cluster, Poll, wait_until};
use super::tokens::request_token;

/// Namespace and name of the agent's service account in `deploy/`.
pub const AGENT: (&str, &str) = ("fleetwright-system", "fleetwright-agent");
/// Timeout for the definitions to be established.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Lifetime of the agent's tokens, in seconds: longer than any run.
const TOKEN_SECONDS: i64 = 4 * 3600;

/// All objects in the files of `deploy/<folder>`, by file name.
///
/// # Errors
/// When a file cannot be read, or is no YAML.
pub fn objects(folder: &str) -> anyhow::Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(folder);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        objects.extend(parse_manifest(&text).with_context(|| format!("{} is no YAML", file.display()))?);
    }
    ensure!(!objects.is_empty(), "{} has no objects", folder.display());
    Ok(objects)
}

/// The objects of a manifest.
///
/// # Errors
/// When it is no YAML.
pub fn parse_manifest(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Applies the custom resource definitions and waits until the API server serves them.
///
/// # Errors
/// When the API server rejects a definition.
pub async fn install_crds(cluster: &Cluster) -> anyhow::Result<()> {
    apply_definitions(cluster, objects("crds")?).await
}

/// Applies these custom resource definitions and waits until the API server serves them.
///
/// # Errors
/// When the API server rejects a definition.
pub async fn apply_definitions(cluster: &Cluster, definitions: Vec<Value>) -> anyhow::Result<()> {
    for definition in definitions {
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        cluster.apply(definition).await?;
        let definitions = cluster.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let poll = || async {
            let status = definitions.get(&name).await?.data.pointer("/status/conditions").cloned().unwrap_or_default();
            let mut conditions = status.as_array().into_iter().flatten();
            let done = conditions.any(|one| one["type"] == "Established" && one["status"] == "True");
            Ok(if done { Poll::Ready(()) } else { Poll::Pending(status.to_string()) })
        };
        wait_until(&format!("{name} is established"), TIMEOUT, poll).await?;
    }
    Ok(())
}

/// Applies the agent's namespace, service account and roles. Makes the keys of the API server's
/// token issuer readable without an account, as they are on EKS.
///
/// # Errors
/// When the API server rejects an object.
pub async fn apply_rbac(cluster: &Cluster) -> anyhow::Result<()> {
    for object in objects("agent")? {
        cluster.apply(object).await?;
    }
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                       "name": "system:service-account-issuer-discovery" });
    let anyone =
        json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated" }]);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "e2e-issuer-discovery" },
        "roleRef": role,
        "subjects": anyone,
    });
    cluster.apply(binding).await.map(drop)
}

/// Creates the service account `name` with the agent's roles, except for one resource.
///
/// # Errors
/// When the API server rejects a role.
pub async fn account_without(client: &Client, name: &str, resource: &str) -> anyhow::Result<()> {
    let cluster = Cluster::with_namespace(client, "stage").await?;
    let metadata = json!({ "name": name, "namespace": AGENT.0 });
    cluster.apply(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata })).await?;
    for mut object in objects("agent")? {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if !["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"].contains(&kind.as_str()) {
            continue;
        }
        object["metadata"]["name"] = json!(name);
        if kind.ends_with("Binding") {
            object["roleRef"]["name"] = json!(name);
            object["subjects"][0]["name"] = json!(name);
        } else if let Some(rules) = object["rules"].as_array_mut() {
            rules.retain(|rule| rule["resources"] != json!([resource]));
        }
        cluster.apply(object).await?;
    }
    Ok(())
}

/// Writes a kubeconfig of the service account for the server in `administrator`'s kubeconfig to
/// `file`.
///
/// # Errors
/// When no token is granted, or a file cannot be read or written.
pub async fn write_kubeconfig(
    cluster: &Cluster,
    administrator: &Path,
    (namespace, name): (&str, &str),
    file: &Path,
) -> anyhow::Result<()> {
    let token = request_token(&cluster.client, (namespace, name), &[], TOKEN_SECONDS).await?;
    let text = fs::read_to_string(administrator).context("cannot read the administrator's kubeconfig")?;
    let mut config: Value = serde_saphyr::from_str(&text)?;
    config["users"] = json!([{ "name": name, "user": { "token": token } }]);
    config["contexts"][0]["context"]["user"] = json!(name);
    config["contexts"][0]["context"]["namespace"] = json!(namespace);
    fs::write(file, serde_json::to_vec_pretty(&config)?).context("cannot write the agent's kubeconfig")
}
