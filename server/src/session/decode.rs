//! The door: messages become the engine's values, or are refused. No proto type passes.
//!
//! A [`Decoder`] belongs to one snapshot and what follows it: it holds the definitions that records refer to. Definitions and
//! records that this server does not know are passed over; what breaks the contract is a [`Fault`].
//!
//! Reading order: here (what a change becomes), [`shape`] (pod shapes, read by the code that reads manifests), [`record`]
//! (single objects), [`texts`] (what they have in common), [`storage`] (what volumes ask of nodes), [`pools`] (NodePools with what they may buy).

mod around;
pub mod pools;
mod problems;
pub mod record;
pub mod shape;
mod storage;
mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::cluster::{ClassRecord, ClusterSnapshot, Key, Object, Observation, PodKey, PodRecord, PoolRecord};
use engine::model::{Labels, PodShape, Text};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use prost::Message;
use rustc_hash::FxHashMap;

use super::account::{Account, Kept, Ledger};
use super::intern::Interner;
use pools::{Manifest, ManifestKind, Manifests, ReadPools};
use problems::Problems;
use shape::ShapeReading;
use storage::{Named, Storage};
use texts::Texts;

/// Bytes of a content hash on the wire.
const HASH_BYTES: usize = 16;

type Hash = [u8; HASH_BYTES];

/// Bounds on what one agent may make the server remember. The defaults are several times what the largest known clusters
/// hold, and refuse what could only be a fault.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Changes in one snapshot. Clusters of 15,000 nodes hold some 450,000 pods.
    pub snapshot_changes: u64,
    /// Definitions since the snapshot began.
    pub definitions: usize,
    /// Bytes of one definition.
    pub definition_bytes: usize,
    /// Changes in one message, the protocol's own limit.
    pub message_changes: usize,
    /// Manifests.
    pub manifests: usize,
    /// Bytes of one manifest, the protocol's own limit.
    pub manifest_bytes: usize,
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

/// Why a change cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A record refers to a definition that has not come.
    #[error("{object} refers to a {kind} that was not defined: {hash}")]
    Undefined {
        /// The record.
        object: String,
        /// What kind of definition.
        kind: &'static str,
        /// Its hash, in hexadecimal digits.
        hash: String,
    },
    /// A record or definition breaks the contract.
    #[error("{object} cannot be read: {reason}")]
    Unreadable {
        /// What cannot be read.
        object: String,
        /// Why.
        reason: String,
    },
    /// More than the server remembers for one agent, or for all of them.
    #[error("{whose} {} MiB of this server's memory, and {key} allows {} MiB; raise {key} if they are meant to be so many", held.div_ceil(1 << 20), limit >> 20)]
    Memory {
        /// What takes it.
        whose: &'static str,
        /// Bytes.
        held: u64,
        /// The setting that bounds it.
        key: &'static str,
        /// Its value, in bytes.
        limit: u64,
    },
    /// More than the server takes from one agent.
    #[error("{what}: {found} exceed the limit of {limit}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
}

/// What a change has become.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// Nothing that the engine looks at.
    Nothing,
    /// An object.
    Object(Box<Object>),
    /// An object that is gone.
    Gone(Key),
    /// The manifests have changed; NodePools are to be read again.
    Manifests,
}

/// Reads the changes of one snapshot and of what follows it.
pub struct Decoder {
    interner: Arc<Interner>,
    read_pools: ReadPools,
    limits: Limits,
    /// Looked up, never iterated.
    shapes: FxHashMap<Hash, Arc<ShapeReading>>,
    labels: FxHashMap<Hash, Arc<Labels>>,
    volumes: FxHashMap<Hash, Named>,
    /// Shapes that depend on the pod's labels, by both hashes.
    keyed_shapes: FxHashMap<(Hash, Hash), Arc<PodShape>>,
    manifests: Manifests,
    pools: BTreeMap<Text, PoolRecord>,
    classes: BTreeMap<Text, ClassRecord>,
    storage: Storage,
    texts: Texts,
    account: Account,
    problems: Problems,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("definitions", &self.definitions()).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder for a snapshot that begins. What it remembers is counted in `ledger`.
    #[must_use]
    pub fn new(interner: Arc<Interner>, read_pools: ReadPools, limits: Limits, ledger: &Ledger) -> Self {
        Self {
            interner,
            read_pools,
            limits,
            shapes: FxHashMap::default(),
            labels: FxHashMap::default(),
            volumes: FxHashMap::default(),
            keyed_shapes: FxHashMap::default(),
            manifests: Manifests::default(),
            pools: BTreeMap::new(),
            classes: BTreeMap::new(),
            storage: Storage::default(),
            texts: Texts::default(),
            account: ledger.account(),
            problems: Problems::default(),
        }
    }

    /// What is believed on although this decoder goes.
    pub(super) fn kept(&self) -> Kept {
        self.account.kept()
    }

    /// Whether a snapshot may hold so many changes.
    ///
    /// # Errors
    /// [`Fault::TooMuch`].
    pub fn check_total(&self, changes: u64) -> Result<(), Fault> {
        within("changes in a snapshot", changes, self.limits.snapshot_changes)
    }

    /// The changes of one delta, as observations in their order; those of NodePools, and of pods whose volumes were told of
    /// after them, come last.
    ///
    /// # Errors
    /// [`Fault`]; nothing of the delta is to be believed then.
    pub fn delta(&mut self, changes: Vec<v1::Change>) -> Result<Vec<Observation>, Fault> {
        within("changes in a message", changes.len() as u64, self.limits.message_changes as u64)?;
        let mut observations = Vec::with_capacity(changes.len());
        let mut manifests_changed = false;
        for change in changes {
            match self.take(change)? {
                Decoded::Object(object) => observations.push(Observation::Upsert(object)),
                Decoded::Gone(key) => observations.push(Observation::Delete(key)),
                Decoded::Manifests => manifests_changed = true,
                Decoded::Nothing => {}
            }
        }
        if manifests_changed {
            observations.extend(self.changed_pools());
        }
        observations.extend(self.storage.changed().into_iter().map(|pod| Observation::upsert(Object::Pod(pod))));
        observations.extend(self.problems.changed());
        Ok(observations)
    }

    /// Adds to the picture of a complete snapshot what only the whole of it tells: NodePools, NodeClasses, and what the
    /// volumes of pods ask for.
    pub fn complete(&mut self, picture: &mut ClusterSnapshot) {
        (self.pools, self.classes) = self.read_all_pools();
        picture.pools = self.pools.values().cloned().collect();
        picture.classes = self.classes.values().cloned().collect();
        picture.problems = self.problems.all();
        let changed = self.storage.changed().into_iter().map(|pod| (pod.key.clone(), pod));
        let mut changed: BTreeMap<PodKey, _> = changed.collect();
        for pod in &mut picture.pods {
            if let Some(resolved) = changed.remove(&pod.key) {
                *pod = resolved;
            }
        }
    }

    /// Takes one change.
    ///
    /// # Errors
    /// [`Fault`] when the change refers to what was not defined, cannot be read, or is too much.
    pub fn take(&mut self, change: v1::Change) -> Result<Decoded, Fault> {
        let Some(change) = change.change else { return Ok(Decoded::Nothing) };
        self.account.count(&change)?;
        Ok(match change {
            Change::DefineShape(definition) => self.define_shape(definition)?,
            Change::DefineLabelSet(definition) => self.define_labels(&definition)?,
            Change::DefineVolumeClaimSet(definition) => self.define_volumes(&definition)?,
            Change::Pod(pod) => object(Object::Pod(self.pod(pod)?)),
            Change::Node(node) => self.node(&node),
            Change::DaemonSet(daemon) => object(Object::Daemon(self.daemon(&daemon)?)),
            Change::NodeClaim(claim) => self.claim(&claim),
            Change::Namespace(namespace) => object(Object::Namespace(record::namespace(&namespace))),
            Change::Manifest(manifest) => self.manifest(manifest)?,
            Change::Removal(removal) => self.removal(&removal),
            Change::PersistentVolumeClaim(claim) => {
                self.storage.see_claim(&claim);
                Decoded::Nothing
            }
            Change::PersistentVolume(volume) => {
                let read = self.storage.see_volume(&volume);
                self.stored(v1::ObjectKind::PersistentVolume, &volume.name, read)
            }
            Change::StorageClass(class) => {
                let read = self.storage.see_class(&class);
                self.stored(v1::ObjectKind::StorageClass, &class.name, read)
            }
            Change::CsiNode(node) => object(Object::Attach(around::attach(&node))),
            Change::PodDisruptionBudget(budget) => self.budget(&budget),
            Change::Unseen(kind) => {
                let about = || format!("{} objects", plain(kind.kind()));
                let consequence = "decisions are made without them";
                let reason = (!kind.reason.is_empty()).then(|| format!("{}; {consequence}", kind.reason));
                self.problems.judge(about, reason);
                Decoded::Nothing
            }
            Change::Autoscaler(other) => object(Object::Autoscaler(around::autoscaler(&other))),
            // The API server resolves the priorities of pods; those of DaemonSets' templates decide nothing.
            Change::PriorityClass(_) => Decoded::Nothing,
        })
    }

    fn node(&mut self, node: &v1::NodeRecord) -> Decoded {
        let (read, problem) = record::node(node);
        let consequence = "it takes no new pods, and does not go for being empty";
        let said = problem.map(|problem| format!("{problem}; {consequence}"));
        self.problems.judge(|| subject(v1::ObjectKind::Node, "", &node.name), said);
        let node = self.texts.node(read);
        self.storage.see_node(&node);
        object(Object::Node(node))
    }

    fn claim(&mut self, claim: &v1::NodeClaimRecord) -> Decoded {
        let (read, problem) = record::claim(claim);
        let said = problem.map(|problem| format!("{problem}; what cannot be read counts as absent"));
        self.problems.judge(|| subject(v1::ObjectKind::NodeClaim, "", &claim.name), said);
        object(Object::Claim(self.texts.claim(read)))
    }

    fn budget(&mut self, budget: &v1::PodDisruptionBudgetRecord) -> Decoded {
        let (read, problem) = around::budget(budget);
        let said = problem.map(|problem| format!("{problem}; it counts as one that lets no pod of its namespace go"));
        let about = || subject(v1::ObjectKind::PodDisruptionBudget, &budget.namespace, &budget.name);
        self.problems.judge(about, said);
        object(Object::PodBudget(read))
    }

    /// Notes whether an object of storage could be read. One that cannot is none: pods that need it wait and say so.
    fn stored(&mut self, kind: v1::ObjectKind, name: &str, read: Result<(), String>) -> Decoded {
        let said = read.err().map(|problem| format!("{problem}; pods that need it find no place"));
        if said.is_some() {
            self.storage.forget(kind, "", name);
        }
        self.problems.judge(|| subject(kind, "", name), said);
        Decoded::Nothing
    }

    fn pod(&mut self, pod: v1::PodRecord) -> Result<PodRecord, Fault> {
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
        let volumes = match pod.volume_claims.as_slice() {
            [] => None,
            reference => Some(find(&self.volumes, reference, "volume claim set", object)?),
        };
        let pod = self.texts.pod(record::pod(pod, shape, labels, reading.problem()));
        Ok(self.storage.mount(pod, volumes))
    }

    fn daemon(&self, daemon: &v1::DaemonSetRecord) -> Result<engine::cluster::DaemonRecord, Fault> {
        let object = || format!("daemonset {}/{}", daemon.namespace, daemon.name);
        let labels = find(&self.labels, &daemon.labels, "label set", object)?;
        let shape = find(&self.shapes, &daemon.shape, "pod shape", object)?.for_daemon(&labels);
        Ok(engine::cluster::DaemonRecord {
            namespace: daemon.namespace.as_str().into(),
            name: daemon.name.as_str().into(),
            shape: Arc::new(shape),
            labels,
        })
    }

    fn define_shape(&mut self, definition: v1::Definition) -> Result<Decoded, Fault> {
        let hash = self.check_definition("pod shape", &definition)?;
        let reading = self.interner.shape(definition.content, shape::read)?;
        self.shapes.insert(hash, reading);
        Ok(Decoded::Nothing)
    }

    fn define_labels(&mut self, definition: &v1::Definition) -> Result<Decoded, Fault> {
        let hash = self.check_definition("label set", definition)?;
        let set: v1::LabelSet = decode("label set", &definition.content)?;
        self.labels.insert(hash, Arc::new(record::labels(&set.labels)));
        Ok(Decoded::Nothing)
    }

    fn define_volumes(&mut self, definition: &v1::Definition) -> Result<Decoded, Fault> {
        let hash = self.check_definition("volume claim set", definition)?;
        let set: v1::VolumeClaimSet = decode("volume claim set", &definition.content)?;
        self.volumes.insert(hash, storage::named(&set));
        Ok(Decoded::Nothing)
    }

    fn check_definition(&self, kind: &'static str, definition: &v1::Definition) -> Result<Hash, Fault> {
        let bytes = definition.content.len() as u64;
        within("bytes in a definition", bytes, self.limits.definition_bytes as u64)?;
        within("definitions", self.definitions() as u64 + 1, self.limits.definitions as u64)?;
        hash(&definition.hash).ok_or_else(|| Fault::Unreadable {
            object: format!("the definition of a {kind}"),
            reason: format!("its hash has {} bytes instead of {HASH_BYTES}", definition.hash.len()),
        })
    }

    fn definitions(&self) -> usize {
        self.shapes.len() + self.labels.len() + self.volumes.len()
    }

    fn manifest(&mut self, manifest: v1::ManifestRecord) -> Result<Decoded, Fault> {
        let Some(kind) = ManifestKind::of(manifest.kind()) else { return Ok(Decoded::Nothing) };
        within("bytes in a manifest", manifest.json.len() as u64, self.limits.manifest_bytes as u64)?;
        within("manifests", self.manifests.len() as u64 + 1, self.limits.manifests as u64)?;
        let kept = Manifest::received(manifest.json, manifest.resource_version.into());
        let known = self.manifests.insert((kind, manifest.name.into()), kept.clone());
        Ok(if known.as_ref() == Some(&kept) { Decoded::Nothing } else { Decoded::Manifests })
    }

    fn removal(&mut self, removal: &v1::Removal) -> Decoded {
        self.problems.judge(|| subject(removal.kind(), &removal.namespace, &removal.name), None);
        let name: Text = removal.name.as_str().into();
        let namespace = || Text::from(removal.namespace.as_str());
        let key = match removal.kind() {
            v1::ObjectKind::Pod => {
                let key = PodKey { namespace: namespace(), name };
                self.storage.unmount(&key);
                Key::Pod(key)
            }
            v1::ObjectKind::Node => {
                self.storage.forget_node(&name);
                Key::Node(name)
            }
            v1::ObjectKind::CsiNode => Key::Attach(name),
            v1::ObjectKind::PodDisruptionBudget => Key::PodBudget(namespace(), name),
            v1::ObjectKind::NodeClaim => Key::Claim(name),
            v1::ObjectKind::DaemonSet => Key::Daemon(namespace(), name),
            v1::ObjectKind::Namespace => Key::Namespace(name),
            other if self.storage.forget(other, &removal.namespace, &removal.name) => return Decoded::Nothing,
            other => {
                let known = ManifestKind::of(other).and_then(|kind| self.manifests.remove(&(kind, name)));
                return if known.is_some() { Decoded::Manifests } else { Decoded::Nothing };
            }
        };
        Decoded::Gone(key)
    }

    fn read_all_pools(&self) -> (BTreeMap<Text, PoolRecord>, BTreeMap<Text, ClassRecord>) {
        let read = self.read_pools.read(&self.manifests);
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

/// An object for people: kind in lower case, namespace and name.
fn subject(kind: v1::ObjectKind, namespace: &str, name: &str) -> String {
    let kind = plain(kind);
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// A kind in lower case, such as `nodepool`.
fn plain(kind: v1::ObjectKind) -> String {
    kind.as_str_name().trim_start_matches("OBJECT_KIND_").replace('_', "").to_lowercase()
}

fn object(object: Object) -> Decoded {
    Decoded::Object(Box::new(object))
}

fn hash(bytes: &[u8]) -> Option<Hash> {
    bytes.try_into().ok()
}

fn find<T: Clone>(
    defined: &FxHashMap<Hash, T>,
    reference: &[u8],
    kind: &'static str,
    object: impl Fn() -> String,
) -> Result<T, Fault> {
    let known = hash(reference).and_then(|hash| defined.get(&hash));
    known.cloned().ok_or_else(|| Fault::Undefined { object: object(), kind, hash: hex(reference) })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().take(HASH_BYTES).fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn decode<M: Message + Default>(object: &str, bytes: &[u8]) -> Result<M, Fault> {
    M::decode(bytes).map_err(|error| Fault::Unreadable { object: object.to_owned(), reason: error.to_string() })
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<(), Fault> {
    if found <= limit { Ok(()) } else { Err(Fault::TooMuch { what, found, limit }) }
}

#[cfg(test)]
mod tests;
