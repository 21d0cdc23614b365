//! NodePools and what they may buy, from the manifests that an agent sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::cluster::PoolRecord;
use engine::model::Text;
use fleetwright_proto::v1;

/// Kinds of objects that travel as manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManifestKind {
    /// EC2NodeClass of `karpenter.k8s.aws`.
    Ec2NodeClass,
    /// NodeOverlay of `karpenter.sh`.
    NodeOverlay,
    /// NodePool of `karpenter.sh`.
    NodePool,
}

impl ManifestKind {
    pub(super) fn of(kind: v1::ObjectKind) -> Option<Self> {
        match kind {
            v1::ObjectKind::NodePool => Some(Self::NodePool),
            v1::ObjectKind::Ec2NodeClass => Some(Self::Ec2NodeClass),
            v1::ObjectKind::NodeOverlay => Some(Self::NodeOverlay),
            _ => None,
        }
    }
}

/// An object as the API server holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// JSON in UTF-8, if the agent keeps to the contract.
    pub json: Vec<u8>,
    /// Changes whenever the object does.
    pub revision: Text,
}

/// All manifests of a cluster, by kind and name.
pub type Manifests = BTreeMap<(ManifestKind, Text), Manifest>;

type Read = dyn Fn(&Manifests) -> Vec<PoolRecord> + Send + Sync;

/// Reads the NodePools out of a cluster's manifests. Cloning it costs a counter.
#[derive(Clone)]
pub struct ReadPools(Arc<Read>);

impl ReadPools {
    /// A reader that is called after every change of a manifest, with all of them. A pool that cannot be used it returns with
    /// the reason in `not_ready`, so that people see it.
    #[must_use]
    pub fn new(read: impl Fn(&Manifests) -> Vec<PoolRecord> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The pools of `manifests`.
    #[must_use]
    pub fn read(&self, manifests: &Manifests) -> Vec<PoolRecord> {
        (self.0)(manifests)
    }
}

impl fmt::Debug for ReadPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadPools")
    }
}
