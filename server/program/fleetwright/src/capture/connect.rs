//! Connects to the API server of a kubeconfig's context.

use std::path::Path;

use agent::error_chain;
use agent_kubernetes::api::Api;
use command::exit::Failure;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Creates a client. Sends no request.
///
/// # Errors
/// The kubeconfig or its context cannot be used.
pub(super) async fn connect(path: Option<&Path>, context: Option<&str>) -> Result<Api, Failure> {
    let config = config(path, context).await?;
    let client = Client::try_from(config).map_err(|error| {
        Failure::refused(format!("cannot use the credentials of the kubeconfig: {}", error_chain(&error)))
    })?;
    Ok(Api::new(client))
}

async fn config(path: Option<&Path>, context: Option<&str>) -> Result<Config, Failure> {
    let read = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => return in_cluster(path, context, &error_chain(&error)),
    };
    if let Some(refused) = context.and_then(|context| unknown_context(&kubeconfig, context)) {
        return Err(Failure::refused(refused));
    }
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|error| Failure::refused(format!("cannot use the kubeconfig: {}", error_chain(&error))))
}

/// The service account of this pod, unless a kubeconfig was asked for.
fn in_cluster(path: Option<&Path>, context: Option<&str>, unreadable: &str) -> Result<Config, Failure> {
    if path.is_none()
        && context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok(config);
    }
    Err(Failure::refused(format!("no kubeconfig: {unreadable}; pass one by --kubeconfig, or set KUBECONFIG")))
}

fn unknown_context(kubeconfig: &Kubeconfig, wanted: &str) -> Option<String> {
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    if names.contains(&wanted) {
        return None;
    }
    let remedy = match settings::suggest::nearest(wanted, names.iter().map(|name| (*name).to_owned())) {
        Some(near) => format!("did you mean {near}?"),
        None if names.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", names.join(", ")),
    };
    Some(format!("the kubeconfig has no context {wanted}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_context_is_refused_with_the_nearest_one() {
        let text = "contexts: [{ name: production-1, context: { cluster: a, user: a } }]";
        let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
        assert_eq!(unknown_context(&kubeconfig, "production-1"), None);
        let refused = |name: &str| unknown_context(&kubeconfig, name).expect("no such context");
        assert_eq!(refused("prodution-1"), "the kubeconfig has no context prodution-1; did you mean production-1?");
        assert_eq!(refused("staging"), "the kubeconfig has no context staging; it has production-1");
    }
}
