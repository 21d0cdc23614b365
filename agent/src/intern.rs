//! What many pods share is sent once: shapes, label sets and volume claim sets by the hash of their bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::port::Seen;

/// Bytes of a content hash. 128 bits of SHA-256: whoever may create pods cannot build two contents that meet.
pub const HASH_BYTES: usize = 16;

/// The hash of some content, as [`v1::Definition`] defines it.
#[must_use]
pub fn content_hash(content: &[u8]) -> [u8; HASH_BYTES] {
    let digest = Sha256::digest(content);
    std::array::from_fn(|at| digest[at])
}

/// Remembers which contents the other side has been told since the last snapshot began.
#[derive(Debug, Default)]
pub struct Interner {
    /// A kind takes part in the key, because the three kinds are defined apart on the wire.
    told: BTreeSet<(Kind, [u8; HASH_BYTES])>,
    /// What was referred to last: pods of one workload follow each other and are alike.
    shape: Option<Referred<v1::PodShape>>,
    labels: Option<Referred<v1::LabelSet>>,
}

/// A content that has been told, and its hash.
type Referred<T> = (Arc<T>, [u8; HASH_BYTES]);

/// The hash of `content`, if it is the last one again.
fn again<T: PartialEq>(last: Option<&Referred<T>>, content: &Arc<T>) -> Option<[u8; HASH_BYTES]> {
    last.filter(|(last, _)| Arc::ptr_eq(last, content) || last == content).map(|(_, hash)| *hash)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Shape,
    LabelSet,
    VolumeClaimSet,
}

impl Interner {
    /// An interner for a conversation in which nothing has been told.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything: the next snapshot tells it again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// How many contents have been told.
    #[must_use]
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Whether nothing has been told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Writes what was seen to `changes`: first the definitions that the other side lacks, then the record.
    pub fn write(&mut self, seen: Seen, changes: &mut Vec<v1::Change>) {
        match seen {
            Seen::Pod { mut record, shape, labels, volume_claims } => {
                record.shape = self.refer_to_shape(shape, changes);
                record.labels = self.refer_to_labels(labels, changes);
                record.volume_claims = volume_claims
                    .map(|set| self.refer(Kind::VolumeClaimSet, &set, changes).to_vec())
                    .unwrap_or_default();
                push(changes, Change::Pod(*record));
            }
            Seen::DaemonSet { mut record, shape, labels } => {
                record.shape = self.refer_to_shape(shape, changes);
                record.labels = self.refer_to_labels(labels, changes);
                push(changes, Change::DaemonSet(record));
            }
            Seen::Plain(change) => push(changes, *change),
        }
    }

    fn refer_to_shape(&mut self, shape: Arc<v1::PodShape>, changes: &mut Vec<v1::Change>) -> Vec<u8> {
        let known = again(self.shape.as_ref(), &shape);
        let hash = known.unwrap_or_else(|| self.refer(Kind::Shape, &*shape, changes));
        self.shape = Some((shape, hash));
        hash.to_vec()
    }

    fn refer_to_labels(&mut self, labels: Arc<v1::LabelSet>, changes: &mut Vec<v1::Change>) -> Vec<u8> {
        let known = again(self.labels.as_ref(), &labels);
        let hash = known.unwrap_or_else(|| self.refer(Kind::LabelSet, &*labels, changes));
        self.labels = Some((labels, hash));
        hash.to_vec()
    }

    fn refer(&mut self, kind: Kind, message: &impl Message, changes: &mut Vec<v1::Change>) -> [u8; HASH_BYTES] {
        let content = message.encode_to_vec();
        let hash = content_hash(&content);
        if self.told.insert((kind, hash)) {
            let definition = v1::Definition { hash: hash.to_vec(), content };
            push(
                changes,
                match kind {
                    Kind::Shape => Change::DefineShape(definition),
                    Kind::LabelSet => Change::DefineLabelSet(definition),
                    Kind::VolumeClaimSet => Change::DefineVolumeClaimSet(definition),
                },
            );
        }
        hash
    }
}

fn push(changes: &mut Vec<v1::Change>, change: Change) {
    changes.push(v1::Change { change: Some(change) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, cpu: &str) -> Seen {
        let request = v1::Quantity { resource: "cpu".into(), amount: cpu.into() };
        let resources = v1::ResourceRequirements { requests: vec![request], ..Default::default() };
        let container = v1::Container { resources: Some(resources), ..Default::default() };
        Seen::Pod {
            record: Box::new(v1::PodRecord { name: name.into(), ..Default::default() }),
            shape: Arc::new(v1::PodShape { containers: vec![container], ..Default::default() }),
            labels: Arc::default(),
            volume_claims: None,
        }
    }

    fn kinds(changes: &[v1::Change]) -> Vec<&'static str> {
        let kind = |change: &v1::Change| match change.change {
            Some(Change::DefineShape(_)) => "shape",
            Some(Change::DefineLabelSet(_)) => "labels",
            Some(Change::Pod(_)) => "pod",
            _ => "other",
        };
        changes.iter().map(kind).collect()
    }

    #[test]
    fn what_pods_share_is_told_once_and_before_the_first_that_needs_it() {
        let (mut interner, mut changes) = (Interner::new(), Vec::new());
        for seen in [pod("a", "1"), pod("b", "1"), pod("c", "2")] {
            interner.write(seen, &mut changes);
        }
        // b shares shape and labels with a; c shares the (empty) labels only.
        assert_eq!(kinds(&changes), ["shape", "labels", "pod", "pod", "shape", "pod"]);
        interner.forget();
        changes.clear();
        interner.write(pod("d", "1"), &mut changes);
        assert_eq!(kinds(&changes), ["shape", "labels", "pod"]);
    }

    #[test]
    fn the_hash_is_the_beginning_of_sha_256() {
        // SHA-256 of nothing begins e3b0c442 98fc1c14 9afbf4c8 996fb924 (FIPS 180-4 examples).
        let expected = [0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24];
        assert_eq!(content_hash(b""), expected);
    }
}
