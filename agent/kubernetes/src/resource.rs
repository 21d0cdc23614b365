//! The kinds of objects that the agent reads or writes, and their paths on the API server.

use fleetwright_proto::v1;

/// A kind of object on the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version, without the group.
    pub version: &'static str,
    /// Kind, as in manifests.
    pub kind: &'static str,
    pub plural: &'static str,
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
}

const fn resource(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Resource {
    Resource { group, version, kind, plural, namespaced }
}

pub const POD: Resource = resource("", "v1", "Pod", "pods", true);
pub const NODE: Resource = resource("", "v1", "Node", "nodes", false);
pub const NAMESPACE: Resource = resource("", "v1", "Namespace", "namespaces", false);
pub const CONFIG_MAP: Resource = resource("", "v1", "ConfigMap", "configmaps", true);
pub const SERVICE: Resource = resource("", "v1", "Service", "services", true);
pub const SERVICE_CIDR: Resource = resource("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false);
pub const CLAIM: Resource = resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true);
pub const VOLUME: Resource = resource("", "v1", "PersistentVolume", "persistentvolumes", false);
/// `v1 Event`, which Cluster Autoscaler writes.
pub const CORE_EVENT: Resource = resource("", "v1", "Event", "events", true);
/// `events.k8s.io/v1 Event`, which the agent writes.
pub const EVENT: Resource = resource("events.k8s.io", "v1", "Event", "events", true);
pub const DAEMON_SET: Resource = resource("apps", "v1", "DaemonSet", "daemonsets", true);
pub const DEPLOYMENT: Resource = resource("apps", "v1", "Deployment", "deployments", true);
pub const STORAGE_CLASS: Resource = resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", false);
pub const CSI_NODE: Resource = resource("storage.k8s.io", "v1", "CSINode", "csinodes", false);
pub const VOLUME_ATTACHMENT: Resource =
    resource("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false);
pub const BUDGET: Resource = resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true);
pub const PRIORITY_CLASS: Resource = resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false);
pub const LEASE: Resource = resource("coordination.k8s.io", "v1", "Lease", "leases", true);
pub const NODE_POOL: Resource = resource("karpenter.sh", "v1", "NodePool", "nodepools", false);
pub const NODE_CLAIM: Resource = resource("karpenter.sh", "v1", "NodeClaim", "nodeclaims", false);
pub const NODE_OVERLAY: Resource = resource("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays", false);
pub const NODE_CLASS: Resource = resource("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses", false);

impl Resource {
    /// Path of all objects of the kind, in all namespaces.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    /// Path of the objects of one namespace; the namespace is ignored where the kind has none.
    #[must_use]
    pub fn within(&self, namespace: &str) -> String {
        if self.namespaced { format!("{}/namespaces/{namespace}/{}", self.root(), self.plural) } else { self.all() }
    }

    #[must_use]
    pub fn one(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.within(namespace))
    }

    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// The resource of a kind of the protocol; `None` for a kind that this agent does not support.
#[must_use]
pub fn of_kind(kind: v1::ObjectKind) -> Option<Resource> {
    Some(match kind {
        v1::ObjectKind::Unspecified => return None,
        v1::ObjectKind::Pod => POD,
        v1::ObjectKind::Node => NODE,
        v1::ObjectKind::NodeClaim => NODE_CLAIM,
        v1::ObjectKind::NodePool => NODE_POOL,
        v1::ObjectKind::Ec2NodeClass => NODE_CLASS,
        v1::ObjectKind::NodeOverlay => NODE_OVERLAY,
        v1::ObjectKind::DaemonSet => DAEMON_SET,
        v1::ObjectKind::Namespace => NAMESPACE,
        v1::ObjectKind::PersistentVolumeClaim => CLAIM,
        v1::ObjectKind::PersistentVolume => VOLUME,
        v1::ObjectKind::StorageClass => STORAGE_CLASS,
        v1::ObjectKind::CsiNode => CSI_NODE,
        v1::ObjectKind::PodDisruptionBudget => BUDGET,
        v1::ObjectKind::PriorityClass => PRIORITY_CLASS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_group_and_namespace() {
        assert_eq!(POD.all(), "/api/v1/pods");
        assert_eq!(POD.one("shop", "web-1"), "/api/v1/namespaces/shop/pods/web-1");
        assert_eq!(NODE_CLAIM.one("", "general-7"), "/apis/karpenter.sh/v1/nodeclaims/general-7");
        assert_eq!(LEASE.within("kube-system"), "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
        assert_eq!(NODE_OVERLAY.api_version(), "karpenter.sh/v1alpha1");
    }
}
