//! The way to the API server: the pod's service account, or a kubeconfig.

use std::path::PathBuf;

use agent::Identity;
use agent::config::KubernetesConfig;
use agent::in_full;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::api::Api;
use crate::error::ApiError;
use crate::fields::text_at;
use crate::resource::NAMESPACE;

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {}: {reason}", path.display())]
    Kubeconfig {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is neither a service account nor a kubeconfig.
    #[error(
        "cannot find out how to reach the API server: this is no pod with a service account, and there is no kubeconfig \
         ({0}). Name one with kubernetes.kubeconfig"
    )]
    Nothing(String),
    /// The credentials cannot be used.
    #[error("cannot use the credentials for the API server: {0}")]
    Credentials(String),
}

/// An API server that can be asked, and the namespace that we live in there.
pub struct Connected {
    /// The API server.
    pub api: Api,
    /// The namespace of the service account or of the kubeconfig's context.
    pub namespace: String,
}

/// Prepares to ask the API server. Nothing is asked yet.
///
/// # Errors
/// [`ConnectError`] when settings or files leave no way.
pub async fn connect(settings: &KubernetesConfig) -> Result<Connected, ConnectError> {
    let mut config = config(settings).await?;
    // Whoever asks decides what is tried again: an eviction that a budget refuses is no request that failed.
    config.default_retry = false;
    let namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| ConnectError::Credentials(in_full(&error)))?;
    Ok(Connected { api: Api::new(client), namespace })
}

async fn config(settings: &KubernetesConfig) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: settings.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &settings.kubeconfig {
        let refused = |reason: String| ConnectError::Kubeconfig { path: path.clone(), reason };
        let file = Kubeconfig::read_from(path).map_err(|error| refused(in_full(&error)))?;
        return Config::from_custom_kubeconfig(file, &options).await.map_err(|error| refused(in_full(&error)));
    }
    if settings.context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok(config);
    }
    Config::from_kubeconfig(&options).await.map_err(|error| ConnectError::Nothing(in_full(&error)))
}

/// Asks the API server who its cluster is.
///
/// # Errors
/// [`ApiError`] when it does not answer or the role does not allow it.
pub async fn identify(api: &Api) -> Result<Identity, ApiError> {
    let namespace: Value = api.get(&NAMESPACE.one("", "kube-system")).await?;
    let version: Value = api.get("/version").await?;
    Ok(Identity {
        uid: text_at(&namespace, "/metadata/uid").to_owned(),
        kubernetes_version: text_at(&version, "/gitVersion").to_owned(),
    })
}
