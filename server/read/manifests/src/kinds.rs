//! The supported kinds, their equivalent versions, and which of them are namespaced.

use crate::edit_distance::nearest_step;

/// A kind that is read, or that is known and ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1 Pod`.
    Pod,
    /// `apps/v1 Deployment`.
    Deployment,
    /// `apps/v1 StatefulSet`.
    StatefulSet,
    /// `apps/v1 ReplicaSet`.
    ReplicaSet,
    /// `batch/v1 Job`.
    Job,
    /// `apps/v1 DaemonSet`.
    DaemonSet,
    /// `v1 Node`.
    Node,
    /// `storage.k8s.io/v1 CSINode`.
    CsiNode,
    /// `v1 Namespace`.
    Namespace,
    /// `v1 PersistentVolumeClaim`.
    PersistentVolumeClaim,
    /// `v1 PersistentVolume`.
    PersistentVolume,
    /// `storage.k8s.io/v1 StorageClass`.
    StorageClass,
    /// `policy/v1 PodDisruptionBudget`.
    PodDisruptionBudget,
    /// `scheduling.k8s.io/v1 PriorityClass`.
    PriorityClass,
    /// `v1 Service`; read for its selector when default spread constraints are set, else ignored.
    Service,
    /// `autoscaling/v2 HorizontalPodAutoscaler`; `v1` has the fields that are read too.
    HorizontalPodAutoscaler,
    /// `batch/v1 CronJob`; its pods are created on schedule.
    CronJob,
    /// `v1 LimitRange`; read for the requests that containers without any get.
    LimitRange,
    /// `node.k8s.io/v1 RuntimeClass`.
    RuntimeClass,
    /// `karpenter.sh/v1 NodePool`.
    NodePool,
    /// `karpenter.sh/v1 NodeClaim`.
    NodeClaim,
    /// `karpenter.sh/v1alpha1 NodeOverlay`.
    NodeOverlay,
    /// `karpenter.k8s.aws/v1 EC2NodeClass`.
    Ec2NodeClass,
}

/// Group, name and versions of a kind.
#[derive(Debug)]
pub struct KindRow {
    /// The kind that the row describes.
    pub kind: Kind,
    /// Its API group; empty for the core group.
    pub group: &'static str,
    pub name: &'static str,
    pub versions: &'static [&'static str],
    pub namespaced: bool,
}

const fn row(kind: Kind, group: &'static str, name: &'static str, namespaced: bool) -> KindRow {
    KindRow { kind, group, name, versions: &["v1"], namespaced }
}

pub const KINDS: [KindRow; 23] = [
    row(Kind::Pod, "", "Pod", true),
    row(Kind::Deployment, "apps", "Deployment", true),
    row(Kind::StatefulSet, "apps", "StatefulSet", true),
    row(Kind::ReplicaSet, "apps", "ReplicaSet", true),
    row(Kind::Job, "batch", "Job", true),
    row(Kind::DaemonSet, "apps", "DaemonSet", true),
    row(Kind::Node, "", "Node", false),
    row(Kind::CsiNode, "storage.k8s.io", "CSINode", false),
    row(Kind::Namespace, "", "Namespace", false),
    row(Kind::PersistentVolumeClaim, "", "PersistentVolumeClaim", true),
    row(Kind::PersistentVolume, "", "PersistentVolume", false),
    row(Kind::StorageClass, "storage.k8s.io", "StorageClass", false),
    KindRow { versions: &["v1", "v1beta1"], ..row(Kind::PodDisruptionBudget, "policy", "PodDisruptionBudget", true) },
    row(Kind::PriorityClass, "scheduling.k8s.io", "PriorityClass", false),
    row(Kind::Service, "", "Service", true),
    KindRow {
        versions: &["v2", "v1"],
        ..row(Kind::HorizontalPodAutoscaler, "autoscaling", "HorizontalPodAutoscaler", true)
    },
    KindRow { versions: &["v1", "v1beta1"], ..row(Kind::CronJob, "batch", "CronJob", true) },
    row(Kind::LimitRange, "", "LimitRange", true),
    row(Kind::RuntimeClass, "node.k8s.io", "RuntimeClass", false),
    row(Kind::NodePool, "karpenter.sh", "NodePool", false),
    row(Kind::NodeClaim, "karpenter.sh", "NodeClaim", false),
    KindRow { versions: &["v1alpha1", "v1"], ..row(Kind::NodeOverlay, "karpenter.sh", "NodeOverlay", false) },
    row(Kind::Ec2NodeClass, "karpenter.k8s.aws", "EC2NodeClass", false),
];

/// The resolution of an apiVersion and kind.
#[derive(Debug)]
pub enum ResolvedKind {
    /// A kind that is read.
    Known(&'static KindRow),
    /// A known kind in a version that no API server with Karpenter v1 has.
    WrongVersion(&'static KindRow),
    /// Not a kind of a built-in group, and similar to one.
    Misspelt(&'static KindRow),
    /// Not a supported kind.
    Unknown,
}

/// Resolves `api_version` and `name`. Another group may have a kind of the same name.
#[must_use]
pub fn meaning(api_version: &str, name: &str) -> ResolvedKind {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let mut named = KINDS.iter().filter(|row| row.name == name);
    match named.next() {
        Some(row) if row.group == group && row.versions.contains(&version) => ResolvedKind::Known(row),
        Some(row) if row.group == group || belongs_to_kubernetes(group) => ResolvedKind::WrongVersion(row),
        _ => similar(group, name).map_or(ResolvedKind::Unknown, ResolvedKind::Misspelt),
    }
}

/// The kind of `group` that `name` is likely a typing error of. Other groups may have any kinds.
fn similar(group: &str, name: &str) -> Option<&'static KindRow> {
    let rows: Vec<&KindRow> =
        KINDS.iter().filter(|row| row.group == group && belongs_to_kubernetes(row.group)).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    let near = nearest_step(name, &names)?;
    rows.into_iter().find(|row| row.name == near)
}

fn belongs_to_kubernetes(group: &str) -> bool {
    !group.contains('.') || ["storage.k8s.io", "scheduling.k8s.io", "node.k8s.io"].contains(&group)
}

impl KindRow {
    /// The supported versions, as in `apiVersion`.
    #[must_use]
    pub fn allowed(&self) -> String {
        let full = |version: &&str| {
            if self.group.is_empty() { (*version).to_owned() } else { format!("{}/{version}", self.group) }
        };
        self.versions.iter().map(full).collect::<Vec<String>>().join(", ")
    }
}
