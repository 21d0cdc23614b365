//! Encodes a planning input as a list of records, and decodes it.
//!
//! One record per shape, label set, volume set, pod, node, pod on a node, pool, DaemonSet and
//! namespace, in the order of the input: the list is the input, bit for bit. Two choices keep the
//! difference between two decisions small: a pod references its shape, labels and volumes by hash
//! instead of by index, which would shift with other pods; and the pods of a node are separate
//! records. Catalogues are referenced by hash and stored once; the unavailable offerings are part
//! of the pool record. The input of a plan of disruption has further records ([`running`]), and removals by a
//! method have records of their own ([`removal`]).

use std::collections::BTreeMap;

pub(super) mod removal;
mod running;

use controller::DisruptionRequest;
use model::disruption_plan::DisruptionPlanSettings;
use model::input::{PlanningInput, Policy};
use model::offering::SharedCatalogue;
use model::running::RunningCluster;
use model::{BoundPod, Catalogue, DaemonSet, Labels, NodePool, Pod, Text, Timestamp};

use super::codec::{Codec, DecodeError, FORM, Reader};
use super::content;
use super::delta::{Record, RecordHash};
use store::log::BlobHash;

/// Record types: the first byte of a record.
mod tag {
    pub(super) const SHAPE: u8 = b'S';
    pub(super) const LABELS: u8 = b'L';
    pub(super) const VOLUMES: u8 = b'V';
    pub(super) const POD: u8 = b'P';
    pub(super) const NODE: u8 = b'N';
    pub(super) const BOUND: u8 = b'B';
    pub(super) const POOL: u8 = b'O';
    pub(super) const DAEMON: u8 = b'D';
    pub(super) const NAMESPACE: u8 = b'M';
    pub(super) const RUNNING_NODE: u8 = b'R';
    pub(super) const RUNNING_POD: u8 = b'Q';
    pub(super) const POD_BUDGET: u8 = b'U';
    pub(super) const POLICY: u8 = b'C';
    pub(super) const SETTINGS: u8 = b'T';
}

/// Key of a shape, label set or volume set: the first bytes of its record's hash.
type RecordKey = [u8; 8];

/// Why an input cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRecordable {
    /// Two values have the same key, so that pod references would be ambiguous.
    #[error("two shapes, label sets or volume sets of the input have the same key")]
    KeyCollision,
    /// What runs is not in the order of the nodes, or a node of it is not in the input.
    #[error("what runs is not in the order of the nodes of the input")]
    NodeOrder,
}

/// Reference to a catalogue, with its unavailable offerings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CatalogueRef {
    /// Hash of the catalogue with every offering available.
    pub(super) hash: BlobHash,
    /// Unavailable offerings, counted through all types, each as the distance from the previous
    /// one.
    pub(super) missing: Vec<u32>,
}

impl CatalogueRef {
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        let hash = BlobHash(content::hash(&catalogue.to_bytes()));
        let offerings = catalogue.types.iter().flat_map(|kind| &kind.offerings);
        let mut missing = Vec::new();
        let mut distance = 0;
        for offering in offerings {
            if offering.available {
                distance += 1;
            } else {
                missing.push(std::mem::take(&mut distance));
            }
        }
        Self { hash, missing }
    }

    fn apply_availability(&self, catalogue: &mut Catalogue) -> Result<(), DecodeError> {
        let mut offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings);
        for distance in &self.missing {
            let offering = offerings.nth(*distance as usize).ok_or(DecodeError("the unavailable offerings"))?;
            offering.available = false;
        }
        Ok(())
    }
}

/// Digest of everything that planning reads.
pub(super) fn digest(now: Timestamp, policy: &BlobHash, hashes: &[RecordHash]) -> [u8; 32] {
    let head = [b"fleetwright input ", &[FORM][..], &now.as_millis().to_be_bytes(), &policy.0].concat();
    content::hash_all(std::iter::once(head.as_slice()).chain(hashes.iter().map(|hash| hash.as_slice())))
}

/// Encodes `input`; `reference` holds the catalogue reference of each pool, in pool order, and `disruption` what a
/// plan of disruption is made from besides.
pub(super) fn write(
    input: &PlanningInput,
    reference: &[CatalogueRef],
    disruption: Option<&DisruptionRequest>,
) -> Result<Vec<Record>, NotRecordable> {
    let mut writer = RecordWriter::default();
    let shapes = writer.table(tag::SHAPE, &input.shapes)?;
    let labels = writer.table(tag::LABELS, &input.label_sets)?;
    let volumes = writer.table(tag::VOLUMES, &input.volume_sets)?;
    let keys = RecordKeys { shapes, labels, volumes };
    input.pods.iter().for_each(|pod| writer.pod(pod, &keys));
    let mut running = disruption.into_iter().flat_map(|request| &request.running.nodes).peekable();
    for (at, node) in (0..).zip(&input.nodes) {
        writer.begin(tag::NODE, |out| node.put(out));
        node.pods.iter().for_each(|pod| writer.bound(pod, &keys));
        while let Some(of_node) = running.next_if(|running| running.node == at) {
            writer.running_node(of_node, &keys);
        }
    }
    if running.next().is_some() {
        return Err(NotRecordable::NodeOrder);
    }
    input.pools.iter().zip(reference).for_each(|(pool, reference)| writer.pool(pool, reference));
    input.daemons.iter().for_each(|daemon| writer.daemon(daemon, &keys));
    for (namespace, labels) in &input.namespaces {
        writer.begin(tag::NAMESPACE, |out| {
            namespace.put(out);
            labels.put(out);
        });
    }
    if let Some(request) = disruption {
        writer.disruption(request);
    }
    Ok(writer.records)
}

/// Record keys by index.
struct RecordKeys {
    shapes: Vec<RecordKey>,
    labels: Vec<RecordKey>,
    volumes: Vec<RecordKey>,
}

impl RecordKeys {
    fn put_pod(&self, pod: &Pod, out: &mut Vec<u8>) {
        let Pod { namespace, name, shape, labels, volumes, created, workload, moved_from, invalid } = pod;
        namespace.put(out);
        name.put(out);
        self.shapes[*shape as usize].put(out);
        self.labels[*labels as usize].put(out);
        volumes.map(|volumes| self.volumes[volumes as usize]).put(out);
        created.put(out);
        workload.put(out);
        moved_from.put(out);
        invalid.put(out);
    }
}

#[derive(Default)]
struct RecordWriter {
    records: Vec<Record>,
}

impl RecordWriter {
    fn begin(&mut self, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut record = vec![tag];
        fill(&mut record);
        self.records.push(record);
    }

    fn table<T: Codec>(&mut self, tag: u8, values: &[T]) -> Result<Vec<RecordKey>, NotRecordable> {
        let mut names = Vec::with_capacity(values.len());
        for value in values {
            self.begin(tag, |out| value.put(out));
            names.extend(self.records.last().map(|record| key_of(record)));
        }
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() == names.len() { Ok(names) } else { Err(NotRecordable::KeyCollision) }
    }

    fn pod(&mut self, pod: &Pod, keys: &RecordKeys) {
        self.begin(tag::POD, |out| keys.put_pod(pod, out));
    }

    fn bound(&mut self, pod: &BoundPod, keys: &RecordKeys) {
        let BoundPod { namespace, name, shape, labels, volumes, daemon, terminating, leaving } = pod;
        self.begin(tag::BOUND, |out| {
            namespace.put(out);
            name.put(out);
            keys.shapes[*shape as usize].put(out);
            keys.labels[*labels as usize].put(out);
            volumes.map(|volumes| keys.volumes[volumes as usize]).put(out);
            daemon.put(out);
            terminating.put(out);
            leaving.put(out);
        });
    }

    fn pool(&mut self, pool: &NodePool, reference: &CatalogueRef) {
        self.begin(tag::POOL, |out| {
            pool.put(out);
            reference.hash.0.put(out);
            reference.missing.put(out);
            pool.rules.put(out);
        });
    }

    fn daemon(&mut self, daemon: &DaemonSet, keys: &RecordKeys) {
        let DaemonSet { namespace, name, shape, labels } = daemon;
        self.begin(tag::DAEMON, |out| {
            namespace.put(out);
            name.put(out);
            keys.shapes[*shape as usize].put(out);
            keys.labels[*labels as usize].put(out);
        });
    }
}

fn key_of(record: &[u8]) -> RecordKey {
    let hash = content::hash(record);
    std::array::from_fn(|place| hash[place])
}

/// Hashes of the catalogues that the pools among `records` reference.
pub(super) fn catalogues(records: &[Record]) -> Result<Vec<BlobHash>, DecodeError> {
    let pools = records.iter().filter(|record| record.first() == Some(&tag::POOL));
    let mut hashes = pools
        .map(|record| Ok(pool(&mut Reader::new(&record[1..]))?.1.hash))
        .collect::<Result<Vec<_>, DecodeError>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes)
}

/// Decodes `records` into the input, and for a plan of disruption what it was made from besides.
///
/// # Errors
/// When a record is invalid, or references a catalogue that is not in `catalogues`.
pub(super) fn read(
    records: &[Record],
    now: Timestamp,
    policy: Policy,
    catalogues: &BTreeMap<BlobHash, Catalogue>,
) -> Result<(PlanningInput, Option<DisruptionRequest>), DecodeError> {
    let input = PlanningInput { now, policy, ..PlanningInput::default() };
    let mut readers = RecordReader {
        input,
        disruption: ReadDisruption::default(),
        catalogues,
        places: BTreeMap::new(),
        shared: BTreeMap::new(),
    };
    for record in records {
        let (tag, rest) = record.split_first().ok_or(DecodeError("a record"))?;
        let mut from = Reader::new(rest);
        if !readers.take(*tag, record, &mut from)? {
            readers.take_disruption(*tag, &mut from)?;
        }
        from.end()?;
    }
    Ok((readers.input, readers.disruption.request()))
}

/// What is read beside a planning input.
#[derive(Default)]
struct ReadDisruption {
    running: RunningCluster,
    settings: Option<DisruptionPlanSettings>,
}

impl ReadDisruption {
    /// The request; `None` for the input of a plan of pods.
    fn request(self) -> Option<DisruptionRequest> {
        let Self { running, settings } = self;
        Some(DisruptionRequest { running, settings: settings? })
    }
}

struct RecordReader<'c> {
    input: PlanningInput,
    disruption: ReadDisruption,
    catalogues: &'c BTreeMap<BlobHash, Catalogue>,
    /// Indices by record type and key.
    places: BTreeMap<(u8, RecordKey), u32>,
    shared: BTreeMap<CatalogueRef, SharedCatalogue>,
}

impl RecordReader<'_> {
    /// Reads a record of a planning input; returns whether it is one.
    fn take(&mut self, tag: u8, record: &[u8], from: &mut Reader<'_>) -> Result<bool, DecodeError> {
        match tag {
            tag::SHAPE => self.entry(tag, record, |input| &mut input.shapes, from)?,
            tag::LABELS => self.entry(tag, record, |input| &mut input.label_sets, from)?,
            tag::VOLUMES => self.entry(tag, record, |input| &mut input.volume_sets, from)?,
            tag::POD => self.pod(from)?,
            tag::NODE => self.input.nodes.push(Codec::get(from)?),
            tag::BOUND => self.bound(from)?,
            tag::POOL => self.pool(from)?,
            tag::DAEMON => self.daemon(from)?,
            tag::NAMESPACE => {
                let (namespace, labels) = <(Text, Labels)>::get(from)?;
                self.input.namespaces.insert(namespace, labels);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn entry<T: Codec>(
        &mut self,
        tag: u8,
        record: &[u8],
        table: impl FnOnce(&mut PlanningInput) -> &mut Vec<T>,
        from: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        let table = table(&mut self.input);
        let place = u32::try_from(table.len()).map_err(|_| DecodeError("a table"))?;
        table.push(T::get(from)?);
        self.places.insert((tag, key_of(record)), place);
        Ok(())
    }

    fn place(&self, tag: u8, from: &mut Reader<'_>) -> Result<u32, DecodeError> {
        let name = RecordKey::get(from)?;
        self.places.get(&(tag, name)).copied().ok_or(DecodeError("the name of a shape, label set or volume set"))
    }

    fn volumes(&self, from: &mut Reader<'_>) -> Result<Option<u32>, DecodeError> {
        bool::get(from)?.then(|| self.place(tag::VOLUMES, from)).transpose()
    }

    fn pod(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let pod = self.read_pod(from)?;
        self.input.pods.push(pod);
        Ok(())
    }

    fn read_pod(&self, from: &mut Reader<'_>) -> Result<Pod, DecodeError> {
        Ok(Pod {
            namespace: Codec::get(from)?,
            name: Codec::get(from)?,
            shape: self.place(tag::SHAPE, from)?,
            labels: self.place(tag::LABELS, from)?,
            volumes: self.volumes(from)?,
            created: Codec::get(from)?,
            workload: Codec::get(from)?,
            moved_from: Codec::get(from)?,
            invalid: Codec::get(from)?,
        })
    }

    fn bound(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let pod = BoundPod {
            namespace: Codec::get(from)?,
            name: Codec::get(from)?,
            shape: self.place(tag::SHAPE, from)?,
            labels: self.place(tag::LABELS, from)?,
            volumes: self.volumes(from)?,
            daemon: Codec::get(from)?,
            terminating: Codec::get(from)?,
            leaving: Codec::get(from)?,
        };
        let node = self.input.nodes.last_mut().ok_or(DecodeError("a pod on a node"))?;
        node.pods.push(pod);
        Ok(())
    }

    fn pool(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let (mut pool, reference) = pool(from)?;
        if let Some(shared) = self.shared.get(&reference) {
            pool.catalogue = SharedCatalogue::clone(shared);
        } else {
            let mut catalogue =
                self.catalogues.get(&reference.hash).ok_or(DecodeError("a pool with its catalogue"))?.clone();
            reference.apply_availability(&mut catalogue)?;
            pool.catalogue = SharedCatalogue::new(catalogue);
            self.shared.insert(reference, SharedCatalogue::clone(&pool.catalogue));
        }
        self.input.pools.push(pool);
        Ok(())
    }

    fn daemon(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let daemon = DaemonSet {
            namespace: Codec::get(from)?,
            name: Codec::get(from)?,
            shape: self.place(tag::SHAPE, from)?,
            labels: self.place(tag::LABELS, from)?,
        };
        self.input.daemons.push(daemon);
        Ok(())
    }
}

/// Decodes a pool without its catalogue, and its catalogue reference.
fn pool(from: &mut Reader<'_>) -> Result<(NodePool, CatalogueRef), DecodeError> {
    let mut pool = NodePool::get(from)?;
    let reference = CatalogueRef { hash: BlobHash(Codec::get(from)?), missing: Codec::get(from)? };
    pool.rules = Codec::get(from)?;
    Ok((pool, reference))
}
