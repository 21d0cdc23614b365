//! What EKS says about a cluster.

use aws_sdk_eks::types::{AuthenticationMode, Cluster};
use model::Text;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EksCluster {
    /// Addresses of Services: IPv4 if there are some, else IPv6.
    pub(super) service_cidr: Option<Text>,
    /// Nodes join by access entries only. With the ConfigMap `aws-auth`, an access entry is not required.
    pub(super) requires_access_entries: bool,
}

/// Whether the role of the nodes may join the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AccessEntry {
    /// Not an EKS cluster, another authentication mode, or a right is missing.
    NotChecked,
    /// There is one.
    Present,
    /// There is none for the role with this ARN.
    Missing(Text),
}

pub(super) fn read(described: &Cluster) -> EksCluster {
    let network = described.kubernetes_network_config();
    let ipv4 = network.and_then(|network| network.service_ipv4_cidr());
    let cidr = ipv4.or_else(|| network.and_then(|network| network.service_ipv6_cidr()));
    let mode = described.access_config().and_then(|access| access.authentication_mode());
    EksCluster { service_cidr: cidr.map(Text::from), requires_access_entries: mode == Some(&AuthenticationMode::Api) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_eks::types::{AccessConfigResponse, KubernetesNetworkConfigResponse};

    fn described(ipv4: Option<&str>, ipv6: Option<&str>, mode: AuthenticationMode) -> EksCluster {
        let network = KubernetesNetworkConfigResponse::builder()
            .set_service_ipv4_cidr(ipv4.map(str::to_owned))
            .set_service_ipv6_cidr(ipv6.map(str::to_owned));
        let access = AccessConfigResponse::builder().authentication_mode(mode).build();
        read(&Cluster::builder().kubernetes_network_config(network.build()).access_config(access).build())
    }

    #[test]
    fn the_service_cidr_is_ipv4_before_ipv6() {
        let both = described(Some("10.100.0.0/16"), Some("fd00::/108"), AuthenticationMode::Api);
        assert_eq!(both.service_cidr.as_deref(), Some("10.100.0.0/16"));
        let six = described(None, Some("fd00::/108"), AuthenticationMode::Api);
        assert_eq!(six.service_cidr.as_deref(), Some("fd00::/108"));
        assert_eq!(read(&Cluster::builder().build()).service_cidr, None);
    }

    #[test]
    fn access_entries_are_required_in_the_mode_api_only() {
        let modes = [AuthenticationMode::Api, AuthenticationMode::ApiAndConfigMap, AuthenticationMode::ConfigMap];
        let required = modes.map(|mode| described(None, None, mode).requires_access_entries);
        assert_eq!(required, [true, false, false]);
    }
}
