//! One list of records as what became of another.
//!
//! Between two decisions of a cluster a few pods come and a few are bound; everything else that planning looks at stays.
//! A delta names the stretches of the list before that are still there, and holds the records that are new. It needs of the
//! list before only the hashes, so that a server with a thousand clusters does not hold what it has written.

use std::collections::HashMap;

use super::codec::{Coded, Corrupt, Reader, get_bytes, put_bytes, put_count};
use super::content;

/// A record: one pod, one node, one pool.
pub(super) type Record = Vec<u8>;

/// Tells records apart: the first half of their SHA-256. A server holds one for each record of each of its clusters.
pub(super) type Mark = [u8; 16];

/// The marks of `records`.
pub(super) fn marks(records: &[Record]) -> Vec<Mark> {
    let mark = |record: &Record| {
        let hash = content::hash(record);
        std::array::from_fn(|place| hash[place])
    };
    records.iter().map(mark).collect()
}

enum Piece<'r> {
    /// So many records of the list before, from there on.
    Kept { from: usize, count: usize },
    /// New records.
    New(&'r [Record]),
}

/// `records`, whose marks are `marks`, as a delta from the list that had the marks `before`.
pub(super) fn between(before: &[Mark], marks: &[Mark], records: &[Record]) -> Vec<u8> {
    let places: HashMap<&Mark, usize> = before.iter().enumerate().map(|(place, mark)| (mark, place)).collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < records.len() {
        let piece = match places.get(&marks[at]) {
            Some(from) => Piece::Kept { from: *from, count: common(&before[*from..], &marks[at..]) },
            None => {
                let new = marks[at..].iter().take_while(|mark| !places.contains_key(mark)).count();
                Piece::New(&records[at..at + new])
            }
        };
        at += write(&piece, &mut out);
    }
    out
}

fn common(before: &[Mark], now: &[Mark]) -> usize {
    before.iter().zip(now).take_while(|(old, new)| old == new).count()
}

/// Answers how many records it stands for.
fn write(piece: &Piece<'_>, out: &mut Vec<u8>) -> usize {
    match piece {
        Piece::Kept { from, count } => {
            put_count(count * 2 + 1, out);
            put_count(*from, out);
            *count
        }
        Piece::New(records) => {
            put_count(records.len() * 2, out);
            records.iter().for_each(|record| put_bytes(record, out));
            records.len()
        }
    }
}

/// The list that `delta` makes of `before`.
///
/// # Errors
/// When it is no delta from that list.
pub(super) fn apply(before: &[Record], delta: &mut Reader<'_>) -> Result<Vec<Record>, Corrupt> {
    const WHAT: Corrupt = Corrupt("changes since the event before");
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
        let bytes = between(&marks(&before), &marks(&after), &after);
        assert_eq!(apply(&before, &mut Reader::new(&bytes)), Ok(after));
        bytes
    }

    #[test]
    fn what_stays_costs_two_bytes_and_what_is_new_its_own() {
        assert_eq!(delta("a b c", "a b c"), [3 * 2 + 1, 0]);
        // One new record: its count, its length, its byte; then two kept ones from place 1 on.
        assert_eq!(delta("a b c", "x b c"), [2, 1, b'x', 2 * 2 + 1, 1]);
        assert!(delta("a b", "").is_empty());
    }

    #[test]
    fn any_list_becomes_any_other() {
        delta("", "a b c");
        delta("a b c d", "d c b a");
        delta("a a b", "b a a a");
        delta("a b c", "a x b y c z");
    }

    #[test]
    fn a_delta_from_another_list_is_refused() {
        let bytes = delta("a b c", "b c");
        assert!(apply(&list("a"), &mut Reader::new(&bytes)).is_err());
    }
}
