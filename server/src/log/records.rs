//! A planning input as a list of records, and back.
//!
//! One record for each shape, label set, volume set, pod, node, pod on a node, pool, DaemonSet and namespace, in the order
//! of the input: the list is the input, bit for bit. Two things are arranged so that little changes between two decisions:
//! a pod names its shape, labels and volumes by hash and not by place, which moves whenever another pod comes first; and a
//! node's pods are records of their own. Catalogues are named by hash and kept once for everybody; what of them is sold
//! out stands with the pool.

use std::collections::BTreeMap;

use engine::input::{PlanningInput, Policy};
use engine::model::offering::SharedCatalogue;
use engine::model::{BoundPod, Catalogue, DaemonSet, Labels, Node, NodePool, OptInRules, Pod, Text, Timestamp};

use super::codec::{Coded, Corrupt, FORM, Reader};
use super::content;
use super::delta::{Mark, Record};
use crate::store::log::BlobHash;

/// What a record is, as its first byte.
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
}

/// The name of a shape, label set or volume set: the first bytes of its record's hash.
type Name = [u8; 8];

/// Two different values of an input have the same [`Name`], or one value stands there twice: pods could not say which they
/// mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("two shapes, label sets or volume sets of the input have one name")]
pub(crate) struct Ambiguous;

/// A catalogue by its content, and what of it cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Wares {
    /// Hash of the catalogue with everything available.
    pub(super) hash: BlobHash,
    /// The offerings that are not available, counted through all types, as distances from the one before.
    pub(super) missing: Vec<u32>,
}

impl Wares {
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

    fn mark(&self, catalogue: &mut Catalogue) -> Result<(), Corrupt> {
        let mut offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings);
        for distance in &self.missing {
            let offering = offerings.nth(*distance as usize).ok_or(Corrupt("what is sold out"))?;
            offering.available = false;
        }
        Ok(())
    }
}

/// The digest of an input: of everything that planning looks at, and of nothing else.
pub(super) fn digest(now: Timestamp, policy: &BlobHash, marks: &[Mark]) -> [u8; 32] {
    let head = [b"fleetwright input ", &[FORM][..], &now.0.to_be_bytes(), &policy.0].concat();
    content::hash_all(std::iter::once(head.as_slice()).chain(marks.iter().map(|mark| mark.as_slice())))
}

/// `input` as records; `wares` says what is known of each pool's catalogue, in order of pools.
pub(super) fn write(input: &PlanningInput, wares: &[Wares]) -> Result<Vec<Record>, Ambiguous> {
    let mut writer = Writer::default();
    let shapes = writer.table(tag::SHAPE, &input.shapes)?;
    let labels = writer.table(tag::LABELS, &input.label_sets)?;
    let volumes = writer.table(tag::VOLUMES, &input.volume_sets)?;
    let names = Names { shapes, labels, volumes };
    input.pods.iter().for_each(|pod| writer.pod(pod, &names));
    for node in &input.nodes {
        writer.node(node);
        node.pods.iter().for_each(|pod| writer.bound(pod, &names));
    }
    input.pools.iter().zip(wares).for_each(|(pool, wares)| writer.pool(pool, wares));
    input.daemons.iter().for_each(|daemon| writer.daemon(daemon, &names));
    for (namespace, labels) in &input.namespaces {
        writer.begin(tag::NAMESPACE, |out| {
            namespace.put(out);
            labels.put(out);
        });
    }
    Ok(writer.records)
}

/// Names by place.
struct Names {
    shapes: Vec<Name>,
    labels: Vec<Name>,
    volumes: Vec<Name>,
}

#[derive(Default)]
struct Writer {
    records: Vec<Record>,
}

impl Writer {
    fn begin(&mut self, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut record = vec![tag];
        fill(&mut record);
        self.records.push(record);
    }

    fn table<T: Coded>(&mut self, tag: u8, values: &[T]) -> Result<Vec<Name>, Ambiguous> {
        let mut names = Vec::with_capacity(values.len());
        for value in values {
            self.begin(tag, |out| value.put(out));
            names.extend(self.records.last().map(|record| name_of(record)));
        }
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() == names.len() { Ok(names) } else { Err(Ambiguous) }
    }

    fn pod(&mut self, pod: &Pod, names: &Names) {
        let Pod { namespace, name, shape, labels, volumes, created, workload, leaves, invalid } = pod;
        self.begin(tag::POD, |out| {
            namespace.put(out);
            name.put(out);
            names.shapes[*shape as usize].put(out);
            names.labels[*labels as usize].put(out);
            volumes.map(|volumes| names.volumes[volumes as usize]).put(out);
            created.put(out);
            workload.put(out);
            leaves.put(out);
            invalid.put(out);
        });
    }

    fn node(&mut self, node: &Node) {
        let Node {
            name,
            pool,
            labels,
            taints,
            unschedulable,
            allocatable,
            capacity,
            stage,
            pods: _,
            attach_limits,
            created,
        } = node;
        self.begin(tag::NODE, |out| {
            name.put(out);
            pool.put(out);
            labels.put(out);
            taints.put(out);
            unschedulable.put(out);
            allocatable.put(out);
            capacity.put(out);
            stage.put(out);
            attach_limits.put(out);
            created.put(out);
        });
    }

    fn bound(&mut self, pod: &BoundPod, names: &Names) {
        let BoundPod { namespace, name, shape, labels, volumes, daemon, terminating, leaving } = pod;
        self.begin(tag::BOUND, |out| {
            namespace.put(out);
            name.put(out);
            names.shapes[*shape as usize].put(out);
            names.labels[*labels as usize].put(out);
            volumes.map(|volumes| names.volumes[volumes as usize]).put(out);
            daemon.put(out);
            terminating.put(out);
            leaving.put(out);
        });
    }

    fn pool(&mut self, pool: &NodePool, wares: &Wares) {
        let NodePool {
            name,
            node_class,
            weight,
            labels,
            taints,
            startup_taints,
            requirements,
            limits,
            replicas,
            not_ready,
            unhealthy,
            catalogue: _,
            rules,
        } = pool;
        self.begin(tag::POOL, |out| {
            name.put(out);
            node_class.put(out);
            weight.put(out);
            labels.put(out);
            taints.put(out);
            startup_taints.put(out);
            requirements.put(out);
            limits.put(out);
            replicas.put(out);
            not_ready.put(out);
            unhealthy.put(out);
            wares.hash.0.put(out);
            wares.missing.put(out);
            rules.put(out);
        });
    }

    fn daemon(&mut self, daemon: &DaemonSet, names: &Names) {
        let DaemonSet { namespace, name, shape, labels } = daemon;
        self.begin(tag::DAEMON, |out| {
            namespace.put(out);
            name.put(out);
            names.shapes[*shape as usize].put(out);
            names.labels[*labels as usize].put(out);
        });
    }
}

fn name_of(record: &[u8]) -> Name {
    let hash = content::hash(record);
    std::array::from_fn(|place| hash[place])
}

/// The catalogues that the pools among `records` name.
pub(super) fn catalogues(records: &[Record]) -> Result<Vec<BlobHash>, Corrupt> {
    let pools = records.iter().filter(|record| record.first() == Some(&tag::POOL));
    let mut hashes =
        pools.map(|record| Ok(pool(&mut Reader::new(&record[1..]))?.1.hash)).collect::<Result<Vec<_>, Corrupt>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes)
}

/// The input that `records` are.
///
/// # Errors
/// When they are none, or name a catalogue that is not in `catalogues`.
pub(super) fn read(
    records: &[Record],
    now: Timestamp,
    policy: Policy,
    catalogues: &BTreeMap<BlobHash, Catalogue>,
) -> Result<PlanningInput, Corrupt> {
    let input = PlanningInput { now, policy, ..PlanningInput::default() };
    let mut readers = Readers { input, catalogues, places: BTreeMap::new(), shared: BTreeMap::new() };
    for record in records {
        let (tag, rest) = record.split_first().ok_or(Corrupt("a record"))?;
        let mut from = Reader::new(rest);
        readers.take(*tag, record, &mut from)?;
        from.end()?;
    }
    Ok(readers.input)
}

struct Readers<'c> {
    input: PlanningInput,
    catalogues: &'c BTreeMap<BlobHash, Catalogue>,
    /// Places by kind of table and name.
    places: BTreeMap<(u8, Name), u32>,
    shared: BTreeMap<Wares, SharedCatalogue>,
}

impl Readers<'_> {
    fn take(&mut self, tag: u8, record: &[u8], from: &mut Reader<'_>) -> Result<(), Corrupt> {
        match tag {
            tag::SHAPE => self.entry(tag, record, |input| &mut input.shapes, from),
            tag::LABELS => self.entry(tag, record, |input| &mut input.label_sets, from),
            tag::VOLUMES => self.entry(tag, record, |input| &mut input.volume_sets, from),
            tag::POD => self.pod(from),
            tag::NODE => self.node(from),
            tag::BOUND => self.bound(from),
            tag::POOL => self.pool(from),
            tag::DAEMON => self.daemon(from),
            tag::NAMESPACE => {
                let (namespace, labels) = <(Text, Labels)>::get(from)?;
                self.input.namespaces.insert(namespace, labels);
                Ok(())
            }
            _ => Err(Corrupt("a record of a kind that this program knows")),
        }
    }

    fn entry<T: Coded>(
        &mut self,
        tag: u8,
        record: &[u8],
        table: impl FnOnce(&mut PlanningInput) -> &mut Vec<T>,
        from: &mut Reader<'_>,
    ) -> Result<(), Corrupt> {
        let table = table(&mut self.input);
        let place = u32::try_from(table.len()).map_err(|_| Corrupt("a table"))?;
        table.push(T::get(from)?);
        self.places.insert((tag, name_of(record)), place);
        Ok(())
    }

    fn place(&self, tag: u8, from: &mut Reader<'_>) -> Result<u32, Corrupt> {
        let name = Name::get(from)?;
        self.places.get(&(tag, name)).copied().ok_or(Corrupt("the name of a shape, label set or volume set"))
    }

    fn volumes(&self, from: &mut Reader<'_>) -> Result<Option<u32>, Corrupt> {
        bool::get(from)?.then(|| self.place(tag::VOLUMES, from)).transpose()
    }

    fn pod(&mut self, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        let pod = Pod {
            namespace: Coded::get(from)?,
            name: Coded::get(from)?,
            shape: self.place(tag::SHAPE, from)?,
            labels: self.place(tag::LABELS, from)?,
            volumes: self.volumes(from)?,
            created: Coded::get(from)?,
            workload: Coded::get(from)?,
            leaves: Coded::get(from)?,
            invalid: Coded::get(from)?,
        };
        self.input.pods.push(pod);
        Ok(())
    }

    fn node(&mut self, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        let node = Node {
            name: Coded::get(from)?,
            pool: Coded::get(from)?,
            labels: Coded::get(from)?,
            taints: Coded::get(from)?,
            unschedulable: Coded::get(from)?,
            allocatable: Coded::get(from)?,
            capacity: Coded::get(from)?,
            stage: Coded::get(from)?,
            pods: Vec::new(),
            attach_limits: Coded::get(from)?,
            created: Coded::get(from)?,
        };
        self.input.nodes.push(node);
        Ok(())
    }

    fn bound(&mut self, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        let pod = BoundPod {
            namespace: Coded::get(from)?,
            name: Coded::get(from)?,
            shape: self.place(tag::SHAPE, from)?,
            labels: self.place(tag::LABELS, from)?,
            volumes: self.volumes(from)?,
            daemon: Coded::get(from)?,
            terminating: Coded::get(from)?,
            leaving: Coded::get(from)?,
        };
        let node = self.input.nodes.last_mut().ok_or(Corrupt("a pod on a node"))?;
        node.pods.push(pod);
        Ok(())
    }

    fn pool(&mut self, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        let (mut pool, wares) = pool(from)?;
        if let Some(shared) = self.shared.get(&wares) {
            pool.catalogue = SharedCatalogue::clone(shared);
        } else {
            let mut catalogue = self.catalogues.get(&wares.hash).ok_or(Corrupt("a pool with its catalogue"))?.clone();
            wares.mark(&mut catalogue)?;
            pool.catalogue = SharedCatalogue::new(catalogue);
            self.shared.insert(wares, SharedCatalogue::clone(&pool.catalogue));
        }
        self.input.pools.push(pool);
        Ok(())
    }

    fn daemon(&mut self, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        let daemon = DaemonSet {
            namespace: Coded::get(from)?,
            name: Coded::get(from)?,
            shape: self.place(tag::SHAPE, from)?,
            labels: self.place(tag::LABELS, from)?,
        };
        self.input.daemons.push(daemon);
        Ok(())
    }
}

/// A pool without its catalogue, and which one that is.
fn pool(from: &mut Reader<'_>) -> Result<(NodePool, Wares), Corrupt> {
    let mut pool = NodePool {
        name: Coded::get(from)?,
        node_class: Coded::get(from)?,
        weight: Coded::get(from)?,
        labels: Coded::get(from)?,
        taints: Coded::get(from)?,
        startup_taints: Coded::get(from)?,
        requirements: Coded::get(from)?,
        limits: Coded::get(from)?,
        replicas: Coded::get(from)?,
        not_ready: Coded::get(from)?,
        unhealthy: Coded::get(from)?,
        catalogue: SharedCatalogue::default(),
        rules: OptInRules::default(),
    };
    let wares = Wares { hash: BlobHash(Coded::get(from)?), missing: Coded::get(from)? };
    pool.rules = Coded::get(from)?;
    Ok((pool, wares))
}
