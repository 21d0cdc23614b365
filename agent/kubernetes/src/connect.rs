//! Connects to the API server with the pod's service account or a kubeconfig.

use std::path::PathBuf;

use agent::Identity;
use agent::config::KubernetesConfig;
use agent::error_chain;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::api::Api;
use crate::api_access::ApiAccess;
use crate::error::ApiError;
use crate::fields::text_at;
use crate::resource::NAMESPACE;

/// Namespace of the agent's Leases where neither a setting nor a service account nor a kubeconfig
/// names one: that of its Role in `deploy/agent/rbac.yaml`.
pub(crate) const DEFAULT_NAMESPACE: &str = "fleetwright-system";

/// Why the API server cannot be contacted.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot use the kubeconfig {}: {reason}", path.display())]
    Kubeconfig { path: PathBuf, reason: String },
    /// Neither a service account nor a kubeconfig exists.
    #[error(
        "cannot connect to the API server: no service account is mounted and no kubeconfig was found ({0}); \
         set kubernetes.kubeconfig"
    )]
    NoConfiguration(String),
    #[error("cannot use the credentials for the API server: {0}")]
    Credentials(String),
}

/// An API client, and the agent's own namespace.
pub struct Connected {
    pub api: Api,
    /// How the client reaches the API server.
    pub access: ApiAccess,
    /// `kubernetes.namespace`, else the namespace of the service account or of the kubeconfig's
    /// context, else [`DEFAULT_NAMESPACE`].
    pub namespace: String,
}

/// Creates the client. Sends no request.
///
/// # Errors
/// [`ConnectError`] when settings or files do not suffice.
pub async fn connect(settings: &KubernetesConfig) -> Result<Connected, ConnectError> {
    let (mut config, found) = load_config(settings).await?;
    // Callers decide about retries: an eviction that a budget rejects is no failed request.
    config.default_retry = false;
    let namespace = settings.namespace.clone().or(found).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let access = ApiAccess::of(&config);
    let client = Client::try_from(config).map_err(|error| ConnectError::Credentials(error_chain(&error)))?;
    Ok(Connected { api: Api::new(client), access, namespace })
}

/// The client's configuration, and the namespace that the service account or the kubeconfig names.
/// `Config::default_namespace` does not show whether a kubeconfig names one.
async fn load_config(settings: &KubernetesConfig) -> Result<(Config, Option<String>), ConnectError> {
    let context = settings.context.as_deref();
    let options = KubeConfigOptions { context: settings.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &settings.kubeconfig {
        let refused = |error| ConnectError::Kubeconfig { path: path.clone(), reason: error_chain(&error) };
        let file = Kubeconfig::read_from(path).map_err(refused)?;
        let namespace = context_namespace(&file, context);
        let config = Config::from_custom_kubeconfig(file, &options).await.map_err(refused)?;
        return Ok((config, namespace));
    }
    if context.is_none()
        && let Ok(config) = Config::incluster()
    {
        let namespace = config.default_namespace.clone();
        return Ok((config, Some(namespace)));
    }
    let refused = |error| ConnectError::NoConfiguration(error_chain(&error));
    let file = Kubeconfig::read().map_err(refused)?;
    let namespace = context_namespace(&file, context);
    Ok((Config::from_custom_kubeconfig(file, &options).await.map_err(refused)?, namespace))
}

/// The namespace of this context, or of the current one.
fn context_namespace(file: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let wanted = context.or(file.current_context.as_deref())?;
    let found = file.contexts.iter().find(|named| named.name == wanted)?.context.as_ref()?;
    found.namespace.clone().filter(|namespace| !namespace.is_empty())
}

/// Reads the identity of the cluster.
///
/// # Errors
/// [`ApiError`] when the API server does not respond or the role forbids it.
pub async fn read_identity(api: &Api) -> Result<Identity, ApiError> {
    let namespace: Value = api.get(&NAMESPACE.one("", "kube-system")).await?;
    let version: Value = api.get("/version").await?;
    Ok(Identity {
        uid: text_at(&namespace, "/metadata/uid").to_owned(),
        kubernetes_version: text_at(&version, "/gitVersion").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig() -> Kubeconfig {
        serde_json::from_value(serde_json::json!({
            "current-context": "admin",
            "contexts": [
                { "name": "admin", "context": { "cluster": "c", "user": "u" } },
                { "name": "team", "context": { "cluster": "c", "user": "u", "namespace": "team-a" } },
                { "name": "empty", "context": { "cluster": "c", "user": "u", "namespace": "" } },
            ],
            "clusters": [{ "name": "c", "cluster": { "server": "http://127.0.0.1:1" } }],
            "users": [{ "name": "u", "user": {} }],
        }))
        .unwrap()
    }

    #[test]
    fn a_context_has_a_namespace_only_if_the_kubeconfig_names_one() {
        assert_eq!(context_namespace(&kubeconfig(), None), None);
        assert_eq!(context_namespace(&kubeconfig(), Some("team")).as_deref(), Some("team-a"));
        assert_eq!(context_namespace(&kubeconfig(), Some("empty")), None);
    }

    #[tokio::test]
    async fn the_namespace_is_the_setting_then_that_of_the_context_then_that_of_the_role() {
        let path = std::env::temp_dir().join(format!("fleetwright-agent-{}.kubeconfig", std::process::id()));
        std::fs::write(&path, serde_json::to_vec(&kubeconfig()).unwrap()).unwrap();
        let namespace = async |context: Option<&str>, namespace: Option<&str>| {
            let settings = KubernetesConfig {
                kubeconfig: Some(path.clone()),
                context: context.map(str::to_owned),
                namespace: namespace.map(str::to_owned),
                lease: "fleetwright-agent".to_owned(),
                lease_duration: std::time::Duration::from_secs(15),
                identity: None,
                streaming_lists: true,
            };
            connect(&settings).await.unwrap().namespace
        };
        assert_eq!(namespace(None, None).await, "fleetwright-system");
        assert_eq!(namespace(Some("team"), None).await, "team-a");
        assert_eq!(namespace(Some("team"), Some("chosen")).await, "chosen");
        std::fs::remove_file(&path).unwrap();
    }
}
