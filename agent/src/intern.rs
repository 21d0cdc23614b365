//! Contents that many pods share are sent once: shapes, label sets and volume claim sets, by the
//! hash of their bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use prost::Message;
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::port::Record;

/// Bytes of a content hash: 128 bits of SHA-256, so that a tenant who creates pods cannot construct
/// two contents with one hash.
pub const HASH_BYTES: usize = 16;

/// The hash of some content, as [`v1::Definition`] defines it.
#[must_use]
pub fn content_hash(content: &[u8]) -> [u8; HASH_BYTES] {
    let digest = Sha256::digest(content);
    std::array::from_fn(|at| digest[at])
}

/// The contents that were sent since the last snapshot began.
#[derive(Debug, Default)]
pub struct Interner {
    /// The key contains the kind, because the protocol defines the three kinds separately.
    sent: BTreeSet<(Kind, [u8; HASH_BYTES])>,
    /// The last content of each kind: consecutive pods of one workload have equal contents.
    shape: Option<Interned<str>>,
    labels: Option<Interned<v1::LabelSet>>,
}

/// A content that was sent, and its hash.
type Interned<T> = (Arc<T>, [u8; HASH_BYTES]);

/// The hash of `content`, if it is the last one again.
fn matching_hash<T: PartialEq + ?Sized>(last: Option<&Interned<T>>, content: &Arc<T>) -> Option<[u8; HASH_BYTES]> {
    last.filter(|(last, _)| Arc::ptr_eq(last, content) || last == content).map(|(_, hash)| *hash)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Shape,
    LabelSet,
    VolumeClaimSet,
}

impl Interner {
    /// An interner for a stream on which nothing was sent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all contents, so that the next snapshot sends them again.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Number of contents that have been sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Appends the record to `changes`, after the definitions that the server lacks.
    pub fn write_record(&mut self, record: Record, changes: &mut Vec<v1::Change>) {
        match record {
            Record::Pod { mut record, shape, labels, volume_claims } => {
                record.shape = self.intern_shape(shape, changes);
                record.labels = self.intern_labels(labels, changes);
                if let Some(set) = volume_claims {
                    let hash = self.intern_content(Kind::VolumeClaimSet, &set.encode_to_vec(), changes);
                    record.volume_claims = Bytes::copy_from_slice(&hash);
                }
                push(changes, Change::Pod(record));
            }
            Record::DaemonSet { mut record, shape, labels } => {
                record.shape = self.intern_shape(shape, changes);
                record.labels = self.intern_labels(labels, changes);
                push(changes, Change::DaemonSet(record));
            }
            Record::Plain(change) => push(changes, *change),
        }
    }

    fn intern_shape(&mut self, shape: Arc<str>, changes: &mut Vec<v1::Change>) -> Bytes {
        let known = matching_hash(self.shape.as_ref(), &shape);
        let hash = known.unwrap_or_else(|| self.intern_content(Kind::Shape, shape.as_bytes(), changes));
        self.shape = Some((shape, hash));
        Bytes::copy_from_slice(&hash)
    }

    fn intern_labels(&mut self, labels: Arc<v1::LabelSet>, changes: &mut Vec<v1::Change>) -> Bytes {
        let known = matching_hash(self.labels.as_ref(), &labels);
        let hash = known.unwrap_or_else(|| self.intern_content(Kind::LabelSet, &labels.encode_to_vec(), changes));
        self.labels = Some((labels, hash));
        Bytes::copy_from_slice(&hash)
    }

    fn intern_content(&mut self, kind: Kind, content: &[u8], changes: &mut Vec<v1::Change>) -> [u8; HASH_BYTES] {
        let hash = content_hash(content);
        if self.sent.insert((kind, hash)) {
            let definition = v1::Definition { hash: hash.to_vec(), content: content.to_vec() };
            push(
                changes,
                match kind {
                    Kind::Shape => Change::DefinePodShape(definition),
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

    fn pod(name: &str, cpu: &str) -> Record {
        Record::Pod {
            record: Box::new(v1::PodRecord { name: name.into(), ..Default::default() }),
            shape: format!(r#"{{"spec":{{"overhead":{{"cpu":"{cpu}"}}}}}}"#).into(),
            labels: Arc::default(),
            volume_claims: None,
        }
    }

    fn kinds(changes: &[v1::Change]) -> Vec<&'static str> {
        let kind = |change: &v1::Change| match change.change {
            Some(Change::DefinePodShape(_)) => "shape",
            Some(Change::DefineLabelSet(_)) => "labels",
            Some(Change::Pod(_)) => "pod",
            _ => "other",
        };
        changes.iter().map(kind).collect()
    }

    #[test]
    fn shared_contents_are_sent_once_and_before_the_first_pod_that_needs_them() {
        let (mut interner, mut changes) = (Interner::new(), Vec::new());
        for record in [pod("a", "1"), pod("b", "1"), pod("c", "2")] {
            interner.write_record(record, &mut changes);
        }
        // b shares shape and labels with a; c shares the (empty) labels only.
        assert_eq!(kinds(&changes), ["shape", "labels", "pod", "pod", "shape", "pod"]);
        interner.clear();
        changes.clear();
        interner.write_record(pod("d", "1"), &mut changes);
        assert_eq!(kinds(&changes), ["shape", "labels", "pod"]);
    }

    #[test]
    fn the_hash_is_the_beginning_of_sha_256() {
        // SHA-256 of nothing begins e3b0c442 98fc1c14 9afbf4c8 996fb924 (FIPS 180-4 examples).
        let expected = [0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24];
        assert_eq!(content_hash(b""), expected);
    }
}
