//! Connects to the API server with the pod's service account or a kubeconfig.

use std::path::PathBuf;

use agent::Identity;
use agent::config::KubernetesConfig;
use agent::error_chain;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::api::Api;
use crate::error::ApiError;
use crate::fields::text_at;
use crate::resource::NAMESPACE;

/// Why the API server cannot be contacted.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {}: {reason}", path.display())]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// Neither a service account nor a kubeconfig exists.
    #[error(
        "cannot connect to the API server: no service account is mounted and no kubeconfig was found ({0}); \
         set kubernetes.kubeconfig"
    )]
    NoConfiguration(String),
    /// The credentials cannot be used.
    #[error("cannot use the credentials for the API server: {0}")]
    Credentials(String),
}

/// An API client, and the agent's own namespace.
pub struct Connected {
    /// The API server.
    pub api: Api,
    /// The namespace of the service account or of the kubeconfig's context.
    pub namespace: String,
}

/// Creates the client. Sends no request.
///
/// # Errors
/// [`ConnectError`] when settings or files do not suffice.
pub async fn connect(settings: &KubernetesConfig) -> Result<Connected, ConnectError> {
    let mut config = load_config(settings).await?;
    // Callers decide about retries: an eviction that a budget rejects is no failed request.
    config.default_retry = false;
    let namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| ConnectError::Credentials(error_chain(&error)))?;
    Ok(Connected { api: Api::new(client), namespace })
}

async fn load_config(settings: &KubernetesConfig) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: settings.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &settings.kubeconfig {
        let refused = |reason: String| ConnectError::Kubeconfig { path: path.clone(), reason };
        let file = Kubeconfig::read_from(path).map_err(|error| refused(error_chain(&error)))?;
        return Config::from_custom_kubeconfig(file, &options).await.map_err(|error| refused(error_chain(&error)));
    }
    if settings.context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok(config);
    }
    Config::from_kubeconfig(&options).await.map_err(|error| ConnectError::NoConfiguration(error_chain(&error)))
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
