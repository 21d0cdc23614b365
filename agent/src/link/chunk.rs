//! Splits long lists of changes into messages far below the size limit.

use fleetwright_proto::v1;
use fleetwright_proto::v1::snapshot::Part;
use prost::Message;

/// Changes in one message (the protocol's own limit).
const CHANGES_PER_MESSAGE: usize = 1_000;
/// Bytes of changes after which a message is closed. Both ends of a stream keep a buffer as large as
/// its largest message, and a server has a thousand streams. With one more change of the largest
/// allowed kind, a manifest of 1 MiB, the message has a quarter of its maximum size.
const BYTES_PER_MESSAGE: usize = 32 * 1024;

/// The parts of a snapshot of `changes`.
#[must_use]
pub fn snapshot_parts(changes: Vec<v1::Change>, taken_at_ms: i64) -> Vec<Part> {
    let change_count = changes.len() as u64;
    let mut parts = vec![Part::Begin(v1::SnapshotBegin { taken_at_ms })];
    for (index, changes) in (0..).zip(split_changes(changes)) {
        parts.push(Part::Chunk(v1::SnapshotChunk { changes, index }));
    }
    // One part is the beginning.
    let chunk_count = u32::try_from(parts.len() - 1).unwrap_or(u32::MAX);
    parts.push(Part::End(v1::SnapshotEnd { chunk_count, change_count }));
    parts
}

/// `changes` in their order, in lists of bounded length and size.
#[must_use]
pub fn split_changes(changes: Vec<v1::Change>) -> Vec<Vec<v1::Change>> {
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
        assert_eq!(split_changes(short).iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 1]);
        // Two of 20 KiB exceed 32 KiB together; the third begins another list.
        let long = (0..3).map(|_| namespace("x".repeat(20 * 1024))).collect();
        assert_eq!(split_changes(long).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(split_changes(Vec::new()).is_empty());
    }

    #[test]
    fn an_empty_snapshot_has_a_beginning_and_an_end() {
        let parts = snapshot_parts(Vec::new(), 7);
        assert!(matches!(parts.as_slice(), [Part::Begin(begin), Part::End(end)]
            if begin.taken_at_ms == 7 && end.change_count == 0 && end.chunk_count == 0));
    }

    #[test]
    fn the_end_counts_chunks_and_changes() {
        let parts = snapshot_parts((0..1_001).map(|n| namespace(format!("n{n}"))).collect(), 0);
        let [Part::Begin(_), Part::Chunk(first), Part::Chunk(second), Part::End(end)] = parts.as_slice() else {
            panic!("{} parts", parts.len());
        };
        assert_eq!((first.index, second.index), (0, 1));
        assert_eq!((end.chunk_count, end.change_count), (2, 1_001));
    }
}
