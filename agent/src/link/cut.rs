//! Long lists of changes are cut into messages that stay far below the size limit.

use fleetwright_proto::v1;
use fleetwright_proto::v1::snapshot::Part;
use prost::Message;
use sha2::{Digest, Sha256};

/// Changes in one message (the protocol's own limit).
const CHANGES_PER_MESSAGE: usize = 1_000;
/// Bytes of changes after which a message is closed: with one more change of the largest allowed kind, a manifest of 1 MiB, it
/// is still half of what a message may be.
const BYTES_PER_MESSAGE: usize = 1024 * 1024;

/// The parts of a snapshot that holds `changes`.
#[must_use]
pub fn snapshot(changes: Vec<v1::Change>, taken_at_ms: i64) -> Vec<Part> {
    let end = v1::SnapshotEnd { change_count: changes.len() as u64, digest: digest(&changes) };
    let mut parts = vec![Part::Begin(v1::SnapshotBegin { taken_at_ms })];
    parts.extend(lists(changes).into_iter().map(|changes| Part::Chunk(v1::SnapshotChunk { changes })));
    parts.push(Part::End(end));
    parts
}

/// `changes` in their order, in lists of bounded length and size.
#[must_use]
pub fn lists(changes: Vec<v1::Change>) -> Vec<Vec<v1::Change>> {
    let mut lists = Vec::new();
    let (mut list, mut bytes) = (Vec::new(), 0);
    for change in changes {
        bytes += change.encoded_len();
        list.push(change);
        if list.len() >= CHANGES_PER_MESSAGE || bytes >= BYTES_PER_MESSAGE {
            lists.push(std::mem::take(&mut list));
            bytes = 0;
        }
    }
    if !list.is_empty() {
        lists.push(list);
    }
    lists
}

/// The digest of [`v1::SnapshotEnd`].
fn digest(changes: &[v1::Change]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for change in changes {
        let bytes = change.encode_to_vec();
        // A change is smaller than a message, and that is far below 4 GiB.
        hash.update((bytes.len() as u32).to_le_bytes());
        hash.update(&bytes);
    }
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: String) -> v1::Change {
        let record = v1::NamespaceRecord { name, labels: Vec::new() };
        v1::Change { change: Some(v1::change::Change::Namespace(record)) }
    }

    #[test]
    fn lists_are_cut_by_count_and_by_size() {
        let short = (0..2_001).map(|n| namespace(format!("n{n}"))).collect();
        assert_eq!(lists(short).iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 1]);
        // Two of 600 KiB exceed 1 MiB together; the third begins another list.
        let long = (0..3).map(|_| namespace("x".repeat(600 * 1024))).collect();
        assert_eq!(lists(long).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(lists(Vec::new()).is_empty());
    }

    #[test]
    fn an_empty_snapshot_has_a_beginning_and_an_end() {
        let parts = snapshot(Vec::new(), 7);
        assert!(matches!(parts.as_slice(), [Part::Begin(begin), Part::End(end)]
            if begin.taken_at_ms == 7 && end.change_count == 0));
    }
}
