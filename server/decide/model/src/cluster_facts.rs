//! What a cluster says about itself, for its nodes.

use core::net::IpAddr;

use crate::Text;

/// What a cluster's nodes need to know to join it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterFacts {
    /// URL of the API server, `https://…`; empty when unknown.
    pub endpoint: Text,
    /// Certificates of the API server's authority: PEM in base64; empty when unknown.
    pub certificate_authority: Text,
    /// Addresses of Services, such as `10.100.0.0/16`. AL2023 requires it.
    pub service_cidr: Option<Text>,
    /// Addresses of the DNS service.
    pub dns: Vec<IpAddr>,
    /// Version of the API server, such as `v1.35.2`; empty when unknown.
    pub kubernetes_version: Text,
}
