//! Delta encoding of record lists.
//!
//! Between two decisions of a cluster a few pods are created or bound; the rest of the input is
//! unchanged. A delta references runs of the previous list and contains the new records. It needs
//! only the hashes of the previous list, so a server with a thousand clusters does not hold their
//! records.

use std::collections::HashMap;

use super::codec::{Codec, DecodeError, Reader, get_bytes, put_bytes, put_count};
use super::content;

/// An encoded record: one pod, one node, one pool.
pub(super) type Record = Vec<u8>;

/// Identity of a record: the first half of its SHA-256. A server holds one per record of each
/// cluster.
pub(super) type RecordHash = [u8; 16];

/// The hashes of `records`.
pub(super) fn hash_records(records: &[Record]) -> Vec<RecordHash> {
    let hash = |record: &Record| {
        let hash = content::hash(record);
        std::array::from_fn(|place| hash[place])
    };
    records.iter().map(hash).collect()
}

enum Chunk<'r> {
    /// A run of records of the previous list.
    Copied {
        from: usize,
        count: usize,
    },
    New(&'r [Record]),
}

/// Encodes `records`, with hashes `hashes`, as a delta from the list with hashes `before`.
pub(super) fn between(before: &[RecordHash], hashes: &[RecordHash], records: &[Record]) -> Vec<u8> {
    let places: HashMap<&RecordHash, usize> = before.iter().enumerate().map(|(place, hash)| (hash, place)).collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < records.len() {
        let piece = match places.get(&hashes[at]) {
            Some(from) => Chunk::Copied { from: *from, count: common(&before[*from..], &hashes[at..]) },
            None => {
                let new = hashes[at..].iter().take_while(|hash| !places.contains_key(hash)).count();
                Chunk::New(&records[at..at + new])
            }
        };
        at += write(&piece, &mut out);
    }
    out
}

fn common(before: &[RecordHash], now: &[RecordHash]) -> usize {
    before.iter().zip(now).take_while(|(old, new)| old == new).count()
}

/// Encodes a chunk; returns the number of its records.
fn write(piece: &Chunk<'_>, out: &mut Vec<u8>) -> usize {
    match piece {
        Chunk::Copied { from, count } => {
            put_count(count * 2 + 1, out);
            put_count(*from, out);
            *count
        }
        Chunk::New(records) => {
            put_count(records.len() * 2, out);
            records.iter().for_each(|record| put_bytes(record, out));
            records.len()
        }
    }
}

/// Applies `delta` to `before`.
///
/// # Errors
/// When the delta does not belong to that list.
pub(super) fn apply(before: &[Record], delta: &mut Reader<'_>) -> Result<Vec<Record>, DecodeError> {
    const WHAT: DecodeError = DecodeError("changes since the event before");
    let mut records = Vec::with_capacity(before.len());
    while !delta.is_empty() {
        let head = usize::try_from(u64::get(delta)?).map_err(|_| WHAT)?;
        let count = head / 2;
        if head % 2 == 1 {
            let from = usize::try_from(u64::get(delta)?).map_err(|_| WHAT)?;
            let kept = from.checked_add(count).and_then(|end| before.get(from..end)).ok_or(WHAT)?;
            records.extend_from_slice(kept);
        } else {
            for _ in 0..count {
                records.push(get_bytes(delta)?.to_vec());
            }
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &str) -> Vec<Record> {
        words.split(' ').filter(|word| !word.is_empty()).map(|word| word.as_bytes().to_vec()).collect()
    }

    fn delta(before: &str, after: &str) -> Vec<u8> {
        let (before, after) = (list(before), list(after));
        let bytes = between(&hash_records(&before), &hash_records(&after), &after);
        assert_eq!(apply(&before, &mut Reader::new(&bytes)), Ok(after));
        bytes
    }

    #[test]
    fn a_copied_run_takes_two_bytes_and_a_new_record_its_own() {
        assert_eq!(delta("a b c", "a b c"), [3 * 2 + 1, 0]);
        // One new record: its count, its length, its byte; then two copied ones from position 1 on.
        assert_eq!(delta("a b c", "x b c"), [2, 1, b'x', 2 * 2 + 1, 1]);
        assert!(delta("a b", "").is_empty());
    }

    #[test]
    fn any_list_can_be_encoded_against_any_other() {
        delta("", "a b c");
        delta("a b c d", "d c b a");
        delta("a a b", "b a a a");
        delta("a b c", "a x b y c z");
    }

    #[test]
    fn a_delta_of_another_list_is_rejected() {
        let bytes = delta("a b c", "b c");
        assert!(apply(&list("a"), &mut Reader::new(&bytes)).is_err());
    }
}
