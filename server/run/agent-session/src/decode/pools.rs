//! NodePools and node classes from the manifests that an agent sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cluster::{ClassRecord, PoolRecord};
use fleetwright_proto::v1;
use model::Text;
use serde_json::Value;

/// Kind of an object that is sent as a manifest.
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

/// Object as the API server stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// JSON in UTF-8, if the agent conforms to the protocol.
    pub json: Vec<u8>,
    /// Changes whenever the relevant content changes.
    pub revision: Text,
}

/// The condition of a NodePool with information of its own. The others are derived from the object, some of them by this
/// server, and are not an input.
const REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

impl Manifest {
    /// Strips API server metadata and derived conditions from a received object. Its revision
    /// depends only on the rest, so a status write of this server triggers nothing, unless it says that an EC2NodeClass
    /// is not ready: what the cloud says about it is known from there alone.
    #[must_use]
    pub fn received(kind: ManifestKind, json: Vec<u8>, version: Text) -> Self {
        match without_volatile_fields(kind, &json) {
            Some(json) => Self { revision: digest(&json).into(), json },
            None => Self { json, revision: version },
        }
    }
}

/// `None` when the JSON was not written by an API server.
fn without_volatile_fields(kind: ManifestKind, json: &[u8]) -> Option<Vec<u8>> {
    let mut object: Value = serde_json::from_slice(json).ok()?;
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.get("generation")?;
    metadata.retain(|key, _| !matches!(key.as_str(), "resourceVersion" | "managedFields"));
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|key, _| !matches!(key.as_str(), "resources" | "nodes"));
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            let is_class = kind == ManifestKind::Ec2NodeClass;
            conditions
                .retain(|one| if is_class { one["status"] != "True" } else { one["type"] == REGISTRATION_HEALTHY });
            for one in conditions.iter_mut().filter_map(Value::as_object_mut) {
                one.retain(|key, _| match key.as_str() {
                    "type" | "status" => true,
                    "reason" | "message" => is_class,
                    _ => false,
                });
            }
        }
    }
    serde_json::to_vec(&object).ok()
}

/// Hash of the content, stable within one process.
fn digest(bytes: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[derive(Debug, Clone, Default)]
pub struct DecodedManifests {
    pub pools: Vec<PoolRecord>,
    /// Parsed EC2NodeClasses.
    pub classes: Vec<ClassRecord>,
}

impl From<Vec<PoolRecord>> for DecodedManifests {
    fn from(pools: Vec<PoolRecord>) -> Self {
        Self { pools, classes: Vec::new() }
    }
}

/// All manifests of a cluster, by kind and name.
pub type Manifests = BTreeMap<(ManifestKind, Text), Manifest>;

type Read = dyn Fn(&Manifests) -> DecodedManifests + Send + Sync;

/// Parser for the NodePools in a cluster's manifests. Clones share it.
#[derive(Clone)]
pub struct PoolReader(Arc<Read>);

impl PoolReader {
    /// Wraps `read`, which is called with all manifests after every change. It returns an unusable
    /// pool with the reason in `not_ready`, so that operators see it.
    #[must_use]
    pub fn new<R: Into<DecodedManifests>>(read: impl Fn(&Manifests) -> R + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |manifests| read(manifests).into()))
    }

    /// Parses the pools and node classes in `manifests`.
    #[must_use]
    pub fn read(&self, manifests: &Manifests) -> DecodedManifests {
        (self.0)(manifests)
    }
}

impl fmt::Debug for PoolReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PoolReader")
    }
}
