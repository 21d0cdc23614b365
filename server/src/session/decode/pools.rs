//! NodePools and what they may buy, from the manifests that an agent sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::cluster::{ClassRecord, PoolRecord};
use engine::model::Text;
use fleetwright_proto::v1;
use serde_json::Value;

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

/// Conditions that say something nobody but their writer knows. All others are verdicts on the object itself, this server's
/// own among them; an object is judged by what it is.
const KEPT_CONDITIONS: [&str; 1] = ["NodeRegistrationHealthy"];

impl Manifest {
    /// An object as it came, without what changes although nobody asks for anything else: bookkeeping of the API server and
    /// conditions. Its revision changes when the rest does, so that a status that this server writes wakes nobody.
    #[must_use]
    pub fn received(json: Vec<u8>, version: Text) -> Self {
        match essence(&json) {
            Some(json) => Self { revision: digest(&json).into(), json },
            None => Self { json, revision: version },
        }
    }
}

/// `None` when an API server did not write it.
fn essence(json: &[u8]) -> Option<Vec<u8>> {
    let mut object: Value = serde_json::from_slice(json).ok()?;
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.get("generation")?;
    metadata.retain(|key, _| !matches!(key.as_str(), "resourceVersion" | "managedFields"));
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|key, _| !matches!(key.as_str(), "resources" | "nodes"));
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.retain(|one| KEPT_CONDITIONS.iter().any(|kept| one["type"] == *kept));
            for one in conditions.iter_mut().filter_map(Value::as_object_mut) {
                one.retain(|key, _| matches!(key.as_str(), "type" | "status"));
            }
        }
    }
    serde_json::to_vec(&object).ok()
}

/// Differs where the bytes do, as far as one process can tell.
fn digest(bytes: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// What manifests were read as.
#[derive(Debug, Clone, Default)]
pub struct ReadManifests {
    /// NodePools.
    pub pools: Vec<PoolRecord>,
    /// EC2NodeClasses.
    pub classes: Vec<ClassRecord>,
}

impl From<Vec<PoolRecord>> for ReadManifests {
    fn from(pools: Vec<PoolRecord>) -> Self {
        Self { pools, classes: Vec::new() }
    }
}

/// All manifests of a cluster, by kind and name.
pub type Manifests = BTreeMap<(ManifestKind, Text), Manifest>;

type Read = dyn Fn(&Manifests) -> ReadManifests + Send + Sync;

/// Reads the NodePools out of a cluster's manifests. Cloning it costs a counter.
#[derive(Clone)]
pub struct ReadPools(Arc<Read>);

impl ReadPools {
    /// A reader that is called after every change of a manifest, with all of them. A pool that cannot be used it returns with
    /// the reason in `not_ready`, so that people see it.
    #[must_use]
    pub fn new<R: Into<ReadManifests>>(read: impl Fn(&Manifests) -> R + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |manifests| read(manifests).into()))
    }

    /// The pools and classes of `manifests`.
    #[must_use]
    pub fn read(&self, manifests: &Manifests) -> ReadManifests {
        (self.0)(manifests)
    }
}

impl fmt::Debug for ReadPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadPools")
    }
}
