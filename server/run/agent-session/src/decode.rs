//! Decodes messages of an agent into values of the controller, or rejects them. No proto type passes this
//! module.
//!
//! A [`Decoder`] belongs to one snapshot and the deltas after it; it holds the definitions that
//! records refer to. Unknown definitions and records are ignored; a contract violation is a
//! [`DecodeError`].
//!
//! Reading order: this file (changes), [`shape`] (pod shapes, through the manifest parser),
//! [`record`] (single objects), [`text_pool`] (strings shared between objects), [`storage`] (node
//! requirements of volumes), [`pools`] (NodePools and their node classes), `facts` (what Hello reports for new nodes).

mod auxiliary;
mod error;
pub(crate) mod facts;
pub mod pools;
mod problems;
pub mod record;
pub mod shape;
mod storage;
mod text_pool;

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{AttachRecord, ClassRecord, ClusterSnapshot, Key, Object, Observation, PodRecord, PoolRecord};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use model::{Labels, NodeName, PodKey, PodShape, PoolName, Text};
use prost::Message;
use rustc_hash::FxHashMap;

use super::intern::Interner;
use super::memory::{MemoryAccount, RetainedMemory, SessionMemory};
use pools::{Manifest, ManifestKind, Manifests, PoolReader};
use problems::{FieldError, ProblemTracker};
use shape::DecodedShape;
use storage::{PodVolumes, Storage};
use text_pool::TextPool;

pub use error::DecodeError;

/// Bytes of a content hash on the wire.
const HASH_BYTES: usize = 16;

type Hash = [u8; HASH_BYTES];

/// Limits on the state that one agent can create. The defaults are several times the size of the
/// largest known clusters, so only a faulty agent exceeds them.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Changes in one snapshot. Clusters of 15,000 Nodes have about 450,000 pods.
    pub(crate) snapshot_changes: u64,
    /// Definitions since the start of the snapshot.
    pub definitions: usize,
    pub(crate) definition_bytes: usize,
    /// Changes in one message; a limit of the protocol.
    pub(crate) message_changes: usize,
    pub manifests: usize,
    /// Bytes of one manifest; a limit of the protocol.
    pub(crate) manifest_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            snapshot_changes: 2_000_000,
            definitions: 1_000_000,
            definition_bytes: 256 * 1024,
            message_changes: 1_000,
            manifests: 5_000,
            manifest_bytes: 1024 * 1024,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every change is an object, which a snapshot stores by value")]
pub(crate) enum Decoded {
    /// No effect on the controller.
    Ignored,
    /// An object was created or changed.
    Object(Object),
    /// An object was deleted.
    Removed(Key),
    /// A manifest changed; NodePools have to be parsed again.
    Manifests,
}

/// Decoder of one snapshot and the deltas after it.
pub struct Decoder {
    interner: Arc<Interner>,
    pool_reader: PoolReader,
    limits: Limits,
    /// Looked up, never iterated.
    shapes: FxHashMap<Hash, Arc<DecodedShape>>,
    labels: FxHashMap<Hash, Arc<Labels>>,
    volumes: FxHashMap<Hash, PodVolumes>,
    /// Shapes that depend on the pod's labels, by both hashes.
    keyed_shapes: FxHashMap<(Hash, Hash), Arc<PodShape>>,
    manifests: Manifests,
    pools: BTreeMap<PoolName, PoolRecord>,
    classes: BTreeMap<Text, ClassRecord>,
    storage: Storage,
    texts: TextPool,
    account: MemoryAccount,
    problems: ProblemTracker,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("definitions", &self.definitions()).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder for a new snapshot. Its memory is accounted in `session_memory`.
    #[must_use]
    pub fn new(
        interner: Arc<Interner>,
        pool_reader: PoolReader,
        limits: Limits,
        session_memory: &SessionMemory,
    ) -> Self {
        Self {
            interner,
            pool_reader,
            limits,
            shapes: FxHashMap::default(),
            labels: FxHashMap::default(),
            volumes: FxHashMap::default(),
            keyed_shapes: FxHashMap::default(),
            manifests: Manifests::default(),
            pools: BTreeMap::new(),
            classes: BTreeMap::new(),
            storage: Storage::default(),
            texts: TextPool::default(),
            account: session_memory.account(),
            problems: ProblemTracker::default(),
        }
    }

    /// Memory of the objects that stay valid when this decoder is dropped.
    pub(super) fn retain_memory(&self) -> RetainedMemory {
        self.account.retain()
    }

    /// Checks the number of changes in a snapshot.
    ///
    /// # Errors
    /// [`DecodeError::LimitExceeded`].
    pub(crate) fn check_total(&self, changes: u64) -> Result<(), DecodeError> {
        within("changes in a snapshot", changes, self.limits.snapshot_changes)
    }

    /// Decodes the changes of one delta into observations, in their order. Changed NodePools, and
    /// pods whose volumes are affected by later changes, come last.
    ///
    /// # Errors
    /// [`DecodeError`]; the whole delta is rejected.
    pub(crate) fn decode_delta(&mut self, changes: Vec<v1::Change>) -> Result<Vec<Observation>, DecodeError> {
        within("changes in a message", changes.len() as u64, self.limits.message_changes as u64)?;
        let mut observations = Vec::with_capacity(changes.len());
        let mut manifests_changed = false;
        for change in changes {
            match self.decode_change(change)? {
                Decoded::Object(object) => observations.push(Observation::upsert(object)),
                Decoded::Removed(key) => observations.push(Observation::Delete(key)),
                Decoded::Manifests => manifests_changed = true,
                Decoded::Ignored => {}
            }
        }
        if manifests_changed {
            observations.extend(self.changed_pools());
        }
        observations
            .extend(self.storage.drain_changed_pods().into_iter().map(|pod| Observation::upsert(Object::Pod(pod))));
        let limits = self.storage.drain_changed_limits();
        observations.extend(limits.into_iter().map(|limits| match limits.limits.is_empty() {
            true => Observation::Delete(Key::Attach(limits.node)),
            false => Observation::upsert(Object::Attach(limits)),
        }));
        observations.extend(self.problems.drain_changes());
        Ok(observations)
    }

    /// Parses the NodePools again, because their parser has another catalogue: those that differ.
    pub(crate) fn reread_pools(&mut self) -> Vec<Observation> {
        self.changed_pools()
    }

    /// Adds to a complete snapshot what depends on all of its objects: NodePools, node classes and
    /// the volume requirements of pods.
    pub(crate) fn complete_snapshot(&mut self, snapshot: &mut ClusterSnapshot) {
        (self.pools, self.classes) = self.read_all_pools();
        snapshot.pools = self.pools.values().cloned().collect();
        snapshot.classes = self.classes.values().cloned().collect();
        snapshot.problems = self.problems.all();
        let limits: BTreeMap<NodeName, AttachRecord> =
            self.storage.drain_changed_limits().into_iter().map(|limits| (limits.node.clone(), limits)).collect();
        snapshot.attach.retain(|record| !limits.contains_key(&record.node));
        snapshot.attach.extend(limits.into_values());
        let changed = self.storage.drain_changed_pods().into_iter().map(|pod| (pod.key.clone(), pod));
        let mut changed: BTreeMap<PodKey, _> = changed.collect();
        for pod in &mut snapshot.pods {
            if let Some(resolved) = changed.remove(&pod.key) {
                *pod = resolved;
            }
        }
    }

    /// Decodes one change.
    ///
    /// # Errors
    /// [`DecodeError`] when the change refers to an undefined hash, is malformed, or exceeds a
    /// limit.
    pub(crate) fn decode_change(&mut self, change: v1::Change) -> Result<Decoded, DecodeError> {
        let Some(change) = change.change else { return Ok(Decoded::Ignored) };
        self.account.count(&change)?;
        Ok(match change {
            Change::DefinePodShape(definition) => self.define_shape(definition)?,
            Change::DefineLabelSet(definition) => self.define_labels(&definition)?,
            Change::DefineVolumeClaimSet(definition) => self.define_volumes(&definition)?,
            Change::Pod(pod) => Decoded::Object(Object::Pod(self.pod(&pod)?)),
            Change::Node(node) => self.node(&node),
            Change::DaemonSet(daemon) => Decoded::Object(Object::Daemon(self.daemon(&daemon)?)),
            Change::NodeClaim(claim) => self.claim(&claim),
            Change::Namespace(namespace) => Decoded::Object(Object::Namespace(record::namespace(&namespace))),
            Change::Manifest(manifest) => self.manifest(manifest)?,
            Change::Removal(removal) => self.removal(&removal),
            Change::PersistentVolumeClaim(claim) => {
                let read = self.storage.update_claim(&claim);
                self.report_storage(v1::ObjectKind::PersistentVolumeClaim, (&claim.namespace, &claim.name), read)
            }
            Change::PersistentVolume(volume) => {
                let read = self.storage.update_volume(&volume);
                self.report_storage(v1::ObjectKind::PersistentVolume, ("", &volume.name), read)
            }
            Change::StorageClass(class) => {
                let read = self.storage.update_class(&class);
                self.report_storage(v1::ObjectKind::StorageClass, ("", &class.name), read)
            }
            Change::CsiNode(node) => {
                let AttachRecord { node, limits } = auxiliary::attach(&node);
                Decoded::Object(Object::Attach(self.storage.set_csi_limits(node, Some(limits))))
            }
            Change::PodDisruptionBudget(budget) => self.budget(&budget),
            Change::Unseen(kind) => {
                let about = || format!("{} objects", kind_name(kind.kind()));
                let consequence = "decisions ignore them";
                let reason = (!kind.reason.is_empty()).then(|| format!("{}; {consequence}", kind.reason));
                self.problems.record(about, reason);
                Decoded::Ignored
            }
            Change::Autoscaler(other) => Decoded::Object(Object::Autoscaler(auxiliary::autoscaler(&other))),
            // The API server resolves the priorities of pods; those of DaemonSet templates affect
            // no decision.
            Change::PriorityClass(_) => Decoded::Ignored,
        })
    }

    fn node(&mut self, node: &v1::NodeRecord) -> Decoded {
        let (read, problem) = record::node(node, &mut self.texts);
        let consequence = "no new pods are placed on it, and it is not removed when empty";
        let reason = problem.map(|problem| format!("{problem}; {consequence}"));
        self.problems.record(|| subject(v1::ObjectKind::Node, "", &node.name), reason);
        self.storage.update_node(&read);
        Decoded::Object(Object::Node(read))
    }

    fn claim(&mut self, claim: &v1::NodeClaimRecord) -> Decoded {
        let (read, problem) = record::claim(claim, &mut self.texts);
        let reason = problem.map(|problem| format!("{problem}; unreadable fields count as absent"));
        self.problems.record(|| subject(v1::ObjectKind::NodeClaim, "", &claim.name), reason);
        Decoded::Object(Object::Claim(read))
    }

    fn budget(&mut self, budget: &v1::PodDisruptionBudgetRecord) -> Decoded {
        let (read, problem) = auxiliary::budget(budget);
        let reason = problem.map(|problem| format!("{problem}; it blocks the eviction of every pod in its namespace"));
        let about = || subject(v1::ObjectKind::PodDisruptionBudget, &budget.namespace, &budget.name);
        self.problems.record(about, reason);
        Decoded::Object(Object::PodBudget(read))
    }

    /// Records whether a storage object could be decoded. An undecodable one counts as absent: pods
    /// that need it stay pending with that reason.
    fn report_storage(
        &mut self,
        kind: v1::ObjectKind,
        (namespace, name): (&str, &str),
        read: Result<(), FieldError>,
    ) -> Decoded {
        let reason = read.err().map(|problem| format!("{problem}; pods that need it stay pending"));
        if reason.is_some() {
            self.storage.remove(kind, namespace, name);
        }
        self.problems.record(|| subject(kind, namespace, name), reason);
        Decoded::Ignored
    }

    fn pod(&mut self, pod: &v1::PodRecord) -> Result<PodRecord, DecodeError> {
        let object = || format!("pod {}/{}", pod.namespace, pod.name);
        let labels = find(&self.labels, &pod.labels, "label set", object)?;
        let reading = find(&self.shapes, &pod.shape, "pod shape", object)?;
        let shape = match reading.plain() {
            Some(shape) => Arc::clone(shape),
            None => {
                let hashes = (hash(&pod.shape).unwrap_or_default(), hash(&pod.labels).unwrap_or_default());
                let keyed = self.keyed_shapes.entry(hashes);
                Arc::clone(keyed.or_insert_with(|| Arc::new(reading.for_labels(&labels))))
            }
        };
        let volumes = match &*pod.volume_claims {
            [] => None,
            reference => Some(find(&self.volumes, reference, "volume claim set", object)?),
        };
        let parts = record::PodParts { shape, labels, problem: reading.problem(), scheduler: reading.scheduler() };
        let pod = record::pod(pod, parts, &mut self.texts);
        Ok(self.storage.mount(pod, volumes))
    }

    fn daemon(&self, daemon: &v1::DaemonSetRecord) -> Result<cluster::DaemonRecord, DecodeError> {
        let object = || format!("daemonset {}/{}", daemon.namespace, daemon.name);
        let labels = find(&self.labels, &daemon.labels, "label set", object)?;
        let shape = find(&self.shapes, &daemon.shape, "pod shape", object)?.for_daemon(&labels);
        Ok(cluster::DaemonRecord {
            namespace: daemon.namespace.as_str().into(),
            name: daemon.name.as_str().into(),
            shape: Arc::new(shape),
            labels,
        })
    }

    fn define_shape(&mut self, definition: v1::Definition) -> Result<Decoded, DecodeError> {
        let hash = self.check_definition("pod shape", &definition)?;
        let reading = self.interner.shape(definition.content, shape::read)?;
        self.shapes.insert(hash, reading);
        Ok(Decoded::Ignored)
    }

    fn define_labels(&mut self, definition: &v1::Definition) -> Result<Decoded, DecodeError> {
        let hash = self.check_definition("label set", definition)?;
        let set: v1::LabelSet = decode("label set", &definition.content)?;
        self.labels.insert(hash, Arc::new(record::labels(&set.labels)));
        Ok(Decoded::Ignored)
    }

    fn define_volumes(&mut self, definition: &v1::Definition) -> Result<Decoded, DecodeError> {
        let hash = self.check_definition("volume claim set", definition)?;
        let set: v1::VolumeClaimSet = decode("volume claim set", &definition.content)?;
        self.volumes.insert(hash, storage::pod_volumes(&set));
        Ok(Decoded::Ignored)
    }

    fn check_definition(&self, kind: &'static str, definition: &v1::Definition) -> Result<Hash, DecodeError> {
        let bytes = definition.content.len() as u64;
        within("bytes in a definition", bytes, self.limits.definition_bytes as u64)?;
        within("definitions", self.definitions() as u64 + 1, self.limits.definitions as u64)?;
        hash(&definition.hash).ok_or_else(|| DecodeError::Unreadable {
            object: format!("the definition of a {kind}"),
            reason: format!("its hash has {} bytes instead of {HASH_BYTES}", definition.hash.len()),
        })
    }

    fn definitions(&self) -> usize {
        self.shapes.len() + self.labels.len() + self.volumes.len()
    }

    fn manifest(&mut self, manifest: v1::ManifestRecord) -> Result<Decoded, DecodeError> {
        let Some(kind) = ManifestKind::of(manifest.kind()) else { return Ok(Decoded::Ignored) };
        within("bytes in a manifest", manifest.json.len() as u64, self.limits.manifest_bytes as u64)?;
        within("manifests", self.manifests.len() as u64 + 1, self.limits.manifests as u64)?;
        let kept = Manifest::received(kind, manifest.json, manifest.resource_version.into());
        let known = self.manifests.insert((kind, manifest.name.into()), kept.clone());
        Ok(if known.as_ref() == Some(&kept) { Decoded::Ignored } else { Decoded::Manifests })
    }

    fn removal(&mut self, removal: &v1::Removal) -> Decoded {
        self.problems.record(|| subject(removal.kind(), &removal.namespace, &removal.name), None);
        let name: Text = removal.name.as_str().into();
        let namespace = || Text::from(removal.namespace.as_str());
        let key = match removal.kind() {
            v1::ObjectKind::Pod => {
                let key = PodKey { namespace: namespace(), name };
                self.storage.unmount(&key);
                Key::Pod(key)
            }
            v1::ObjectKind::Node => {
                let node = NodeName::from(name);
                self.storage.remove_node(&node);
                Key::Node(node)
            }
            v1::ObjectKind::CsiNode => {
                let left = self.storage.set_csi_limits(name.into(), None);
                return match left.limits.is_empty() {
                    true => Decoded::Removed(Key::Attach(left.node)),
                    false => Decoded::Object(Object::Attach(left)),
                };
            }
            v1::ObjectKind::PodDisruptionBudget => Key::PodBudget(namespace(), name),
            v1::ObjectKind::NodeClaim => Key::Claim(name.into()),
            v1::ObjectKind::DaemonSet => Key::Daemon(namespace(), name),
            v1::ObjectKind::Namespace => Key::Namespace(name),
            other if self.storage.remove(other, &removal.namespace, &removal.name) => return Decoded::Ignored,
            other => {
                let known = ManifestKind::of(other).and_then(|kind| self.manifests.remove(&(kind, name)));
                return if known.is_some() { Decoded::Manifests } else { Decoded::Ignored };
            }
        };
        Decoded::Removed(key)
    }

    fn read_all_pools(&self) -> (BTreeMap<PoolName, PoolRecord>, BTreeMap<Text, ClassRecord>) {
        let read = self.pool_reader.read(&self.manifests);
        let pools = read.pools.into_iter().map(|pool| (pool.pool.name.clone(), pool));
        (pools.collect(), read.classes.into_iter().map(|class| (class.name.clone(), class)).collect())
    }

    fn changed_pools(&mut self) -> Vec<Observation> {
        let (pools, classes) = self.read_all_pools();
        let before = std::mem::replace(&mut self.pools, pools);
        let classes_before = std::mem::replace(&mut self.classes, classes);
        let gone = before.keys().filter(|name| !self.pools.contains_key(*name));
        let mut observations: Vec<Observation> =
            gone.map(|name| Observation::Delete(Key::Pool(name.clone()))).collect();
        let changed = self.pools.values().filter(|pool| before.get(&pool.pool.name) != Some(*pool));
        observations.extend(changed.map(|pool| Observation::upsert(Object::Pool(pool.clone()))));
        let gone = classes_before.keys().filter(|name| !self.classes.contains_key(*name));
        observations.extend(gone.map(|name| Observation::Delete(Key::Class(name.clone()))));
        let changed = self.classes.values().filter(|class| classes_before.get(&class.name) != Some(*class));
        observations.extend(changed.map(|class| Observation::upsert(Object::Class(class.clone()))));
        observations
    }
}

/// Object reference for messages: kind in lower case, namespace and name.
fn subject(kind: v1::ObjectKind, namespace: &str, name: &str) -> String {
    let kind = kind_name(kind);
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Kind in lower case, such as `nodepool`.
fn kind_name(kind: v1::ObjectKind) -> String {
    kind.as_str_name().trim_start_matches("OBJECT_KIND_").replace('_', "").to_lowercase()
}

fn hash(bytes: &[u8]) -> Option<Hash> {
    bytes.try_into().ok()
}

fn find<T: Clone>(
    defined: &FxHashMap<Hash, T>,
    reference: &[u8],
    kind: &'static str,
    object: impl Fn() -> String,
) -> Result<T, DecodeError> {
    let known = hash(reference).and_then(|hash| defined.get(&hash));
    known.cloned().ok_or_else(|| DecodeError::Undefined { object: object(), kind, hash: hex(reference) })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().take(HASH_BYTES).fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn decode<M: Message + Default>(object: &str, bytes: &[u8]) -> Result<M, DecodeError> {
    M::decode(bytes).map_err(|error| DecodeError::Unreadable { object: object.to_owned(), reason: error.to_string() })
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<(), DecodeError> {
    if found <= limit { Ok(()) } else { Err(DecodeError::LimitExceeded { what, found, limit }) }
}

#[cfg(test)]
pub(crate) mod tests;
