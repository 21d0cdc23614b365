//! How the agent reaches the API server, as far as nodes can reach it in the same way.

use std::net::IpAddr;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::Config;
use tracing::warn;

/// Environment variable with the address of the Service `kubernetes`, which the kubelet sets in each pod.
const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// Name of the Service `kubernetes`, to which the cluster's domain may be added.
const SERVICE_NAME: &str = "kubernetes.default";
/// Characters of base64 in a line of PEM (RFC 7468).
const PEM_LINE: usize = 64;

/// URL and authorities of the client's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiAccess {
    /// The URL, if nodes can reach the API server by it; empty otherwise.
    endpoint: String,
    /// The file with the authorities (PEM), which may be replaced while the agent runs.
    authority_file: Option<PathBuf>,
    /// The authorities (PEM) without a file; empty when unknown.
    authority: Vec<u8>,
}

impl ApiAccess {
    pub(crate) fn of(config: &Config) -> Self {
        let service_host = std::env::var(SERVICE_HOST).ok();
        let certificates = config.root_cert.iter().flatten();
        Self {
            endpoint: node_endpoint(&config.cluster_url, service_host.as_deref()).unwrap_or_default(),
            authority_file: config.root_cert_file.clone(),
            authority: certificates.flat_map(|certificate| pem(certificate).into_bytes()).collect(),
        }
    }

    /// The access by this URL, with these authorities (PEM).
    #[cfg(test)]
    pub(crate) fn by(endpoint: &str, authority: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), authority_file: None, authority: authority.as_bytes().to_vec() }
    }

    /// The URL of the API server, if nodes can reach it by this; empty otherwise.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The authorities of the API server's certificate (PEM): those of the file if it can be read.
    pub(crate) fn authority(&self) -> Vec<u8> {
        let Some(file) = &self.authority_file else { return self.authority.clone() };
        std::fs::read(file).unwrap_or_else(|error| {
            warn!(path = %file.display(), %error, "cannot read the API server's authorities; using the previous ones");
            self.authority.clone()
        })
    }
}

/// `url` without a path, if a machine outside of the cluster's pods and of this machine can reach it over TLS. A pod reaches
/// the API server by the Service `kubernetes`, whose address leads nowhere on a machine that has not joined yet.
pub(crate) fn node_endpoint(url: &Uri, service_host: Option<&str>) -> Option<String> {
    let host = url.host()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let in_cluster = service_host.is_some_and(|service| service == bare)
        || bare.strip_prefix(SERVICE_NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let loopback = bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if url.scheme_str() != Some("https") || bare.is_empty() || in_cluster || loopback {
        return None;
    }
    let path = url.path().trim_end_matches('/');
    Some(url.port().map_or_else(|| format!("https://{host}{path}"), |port| format!("https://{host}:{port}{path}")))
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at(rest.len().min(PEM_LINE));
        text.push_str(line);
        text.push('\n');
        rest = next;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Option<String> {
        node_endpoint(&url.parse().unwrap(), Some("10.100.0.1"))
    }

    #[test]
    fn nodes_reach_the_api_server_by_its_own_address_only() {
        assert_eq!(endpoint("https://api.example:6443/").as_deref(), Some("https://api.example:6443"));
        assert_eq!(endpoint("https://api.example").as_deref(), Some("https://api.example"));
        assert_eq!(
            endpoint("https://api.example/k8s/clusters/c-1/").as_deref(),
            Some("https://api.example/k8s/clusters/c-1")
        );
        assert_eq!(endpoint("https://[2001:db8::1]:6443").as_deref(), Some("https://[2001:db8::1]:6443"));
        for unreachable in [
            "https://10.100.0.1:443/", // The Service, as the kubelet tells it.
            "https://kubernetes.default.svc/",
            "https://kubernetes.default.svc.cluster.local:443",
            "https://kubernetes.default",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "https://localhost:6443",
            "http://api.example:8080",
        ] {
            assert_eq!(endpoint(unreachable), None, "{unreachable}");
        }
        assert!(endpoint("https://kubernetes.defaults.example").is_some(), "another host");
        let of_ipv6 = node_endpoint(&"https://[fd00::1]:443".parse().unwrap(), Some("fd00::1"));
        assert_eq!(of_ipv6, None);
    }

    #[test]
    fn a_certificate_is_written_in_lines_of_64_characters() {
        // 49 zero bytes are 16 groups of three and one byte: 64 characters `A`, and `AA==`.
        let expected = format!("-----BEGIN CERTIFICATE-----\n{}\nAA==\n-----END CERTIFICATE-----\n", "A".repeat(64));
        assert_eq!(pem(&[0; 49]), expected);
    }

    #[test]
    fn a_file_of_authorities_is_read_again() {
        let path = std::env::temp_dir().join(format!("fleetwright-agent-{}-authority.pem", std::process::id()));
        let access =
            ApiAccess { authority_file: Some(path.clone()), authority: b"first".to_vec(), ..ApiAccess::default() };
        std::fs::write(&path, "second").unwrap();
        assert_eq!(access.authority(), b"second");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(access.authority(), b"first");
    }
}
