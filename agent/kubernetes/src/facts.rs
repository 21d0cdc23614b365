//! What the cluster's nodes need to join it: from settings, from the client's configuration, and from three objects.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::config::FactsConfig;
use fleetwright_proto::v1;
use kube::config::Kubeconfig;
use serde_json::Value;
use tracing::warn;

use crate::api::Api;
use crate::api_access::{ApiAccess, node_endpoint};
use crate::error::{ApiError, ErrorKind, ok_if_not_found};
use crate::fields::{text_at, texts_at};
use crate::resource::{CONFIG_MAP, SERVICE, SERVICE_CIDR};

/// Timeout of reading all facts: the connection to the server waits for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Namespace and name of the ConfigMap that kubeadm makes for machines that join (kubeadm: cluster-info).
const CLUSTER_INFO: (&str, &str) = ("kube-public", "cluster-info");
/// Namespace and name of the DNS service, which CoreDNS has kept from its predecessor.
const DNS_SERVICE: (&str, &str) = ("kube-system", "kube-dns");
/// Name of the ServiceCIDR that the API server makes from its flag `--service-cluster-ip-range`.
const DEFAULT_SERVICE_CIDR: &str = "kubernetes";

/// Reads the facts of a cluster.
pub(crate) struct FactsReader {
    api: Api,
    access: ApiAccess,
    settings: FactsConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What was read last.
    last: v1::ClusterFacts,
    /// What could not be read and is logged.
    logged: BTreeSet<&'static str>,
}

enum Read<T> {
    /// Its present value; the default where the cluster does not have it.
    Known(T),
    /// It cannot be read now; the last value stays.
    Unknown,
}

impl<T> Read<T> {
    fn or(self, last: T) -> T {
        match self {
            Self::Known(value) => value,
            Self::Unknown => last,
        }
    }
}

impl FactsReader {
    /// A reader; settings take precedence over what the cluster says.
    pub(crate) fn new(api: Api, access: ApiAccess, settings: FactsConfig) -> Self {
        Self { api, access, settings, state: Mutex::default() }
    }

    /// Reads all facts. One that the agent's role forbids is empty; one that cannot be read for another reason has its
    /// last value.
    pub(crate) async fn read(&self) -> v1::ClusterFacts {
        let (endpoint, cidr, dns) = tokio::join!(self.endpoint(), self.service_cidr(), self.dns_addresses());
        let authority = self.authority();
        let mut state = self.state();
        let last = std::mem::take(&mut state.last);
        state.last = v1::ClusterFacts {
            api_endpoint: endpoint.or(last.api_endpoint),
            certificate_authority: authority.or(last.certificate_authority),
            service_cidr: cidr.or(last.service_cidr),
            dns_addresses: dns.or(last.dns_addresses),
        };
        state.last.clone()
    }

    async fn endpoint(&self) -> Read<String> {
        if let Some(endpoint) = &self.settings.api_endpoint {
            return Read::Known(endpoint.trim_end_matches('/').to_owned());
        }
        let (namespace, name) = CLUSTER_INFO;
        let endpoint = self.object("the API endpoint", CONFIG_MAP.one(namespace, name), cluster_info_endpoint).await;
        match endpoint {
            Read::Known(endpoint) if endpoint.is_empty() => Read::Known(self.access.endpoint().to_owned()),
            other => other,
        }
    }

    fn authority(&self) -> Read<Vec<u8>> {
        const FACT: &str = "the API server's authorities";
        let Some(file) = &self.settings.api_ca_file else { return Read::Known(self.access.authority()) };
        match std::fs::read(file) {
            Ok(certificates) => {
                self.state().logged.remove(FACT);
                Read::Known(certificates)
            }
            Err(error) => {
                if self.state().logged.insert(FACT) {
                    warn!(path = %file.display(), %error, "cannot read cluster.api-ca-file");
                }
                Read::Unknown
            }
        }
    }

    async fn service_cidr(&self) -> Read<String> {
        if let Some(cidr) = &self.settings.service_cidr {
            return Read::Known(cidr.clone());
        }
        let first = |object: &Value| text_at(object, "/spec/cidrs/0").to_owned();
        self.object("the range of Services", SERVICE_CIDR.one("", DEFAULT_SERVICE_CIDR), first).await
    }

    async fn dns_addresses(&self) -> Read<Vec<String>> {
        let (namespace, name) = DNS_SERVICE;
        self.object("the addresses of DNS", SERVICE.one(namespace, name), service_addresses).await
    }

    /// The fact that `parse` finds in the object at `path`. An error is logged when it is new.
    async fn object<T: Default>(&self, fact: &'static str, path: String, parse: impl Fn(&Value) -> T) -> Read<T> {
        let object = within_timeout(&path, self.api.get::<Value>(&path)).await;
        match ok_if_not_found(object) {
            Ok(object) => {
                self.state().logged.remove(fact);
                Read::Known(object.map(|object| parse(&object)).unwrap_or_default())
            }
            Err(error) => {
                if self.state().logged.insert(fact) {
                    warn!(fact, %error, "cannot read a fact for new nodes");
                }
                if error.kind == ErrorKind::Forbidden { Read::Known(T::default()) } else { Read::Unknown }
            }
        }
    }

    /// Every critical section leaves a consistent state, so a poisoned lock guards one.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn within_timeout<T>(path: &str, request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let late = |_| {
        let reason = format!("no response within {} s", READ_TIMEOUT.as_secs());
        Err(ApiError::unreachable(format!("GET {path}"), reason))
    };
    tokio::time::timeout(READ_TIMEOUT, request).await.unwrap_or_else(late)
}

/// The URL in the kubeconfig of `cluster-info`; empty without one that nodes can reach.
fn cluster_info_endpoint(config_map: &Value) -> String {
    let config = Kubeconfig::from_yaml(text_at(config_map, "/data/kubeconfig")).ok();
    let server = config.and_then(|config| config.clusters.into_iter().next()?.cluster?.server);
    server.and_then(|url| node_endpoint(&url.parse().ok()?, None)).unwrap_or_default()
}

/// The cluster addresses of a Service, the primary one first; none of a headless Service.
fn service_addresses(service: &Value) -> Vec<String> {
    let mut addresses = texts_at(service, "/spec/clusterIPs");
    if addresses.is_empty() {
        addresses.push(text_at(service, "/spec/clusterIP").to_owned());
    }
    addresses.retain(|address| address.parse::<IpAddr>().is_ok());
    addresses
}

#[cfg(test)]
mod tests;
