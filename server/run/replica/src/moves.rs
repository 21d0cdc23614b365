//! Encodes what drains move for the rows of decisions, and decodes it for the next owner of a cluster.
//!
//! A row is JSON that later versions read: a new field has a default, and no field changes its meaning.

use cluster::{DecidedMoves, MovedPart, PodOwner};
use cost::SavingDecision;
use model::{Text, Timestamp};
use serde::{Deserialize, Serialize};
use tracing::warn;

#[derive(Serialize, Deserialize)]
struct StoredMoves {
    claim: String,
    since: i64,
    /// Namespace and `Kind/name` of the owners of the pods.
    owners: Vec<(String, String)>,
    /// The decision that has moved pods of an owner to save a price.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    moved_by: Vec<StoredMover>,
}

/// The decision, and which part of the pods of an owner it has moved.
#[derive(Serialize, Deserialize)]
struct StoredMover {
    owner: (String, String),
    decision: u64,
    at: i64,
    ppm: u32,
}

/// The text of a row; empty if nothing is moved.
#[must_use]
pub fn encode(moves: &[DecidedMoves]) -> String {
    let owner = |(namespace, workload): &PodOwner| (namespace.to_string(), workload.to_string());
    let mover = |(of, part): (&PodOwner, &MovedPart)| {
        let MovedPart { saving, ppm } = *part;
        StoredMover { owner: owner(of), decision: saving.number, at: saving.at.as_millis(), ppm }
    };
    let stored = |moves: &DecidedMoves| StoredMoves {
        claim: moves.claim.to_string(),
        since: moves.since.as_millis(),
        owners: moves.owners.iter().map(owner).collect(),
        moved_by: moves.moved_by.iter().map(mover).collect(),
    };
    if moves.is_empty() {
        return String::new();
    }
    let stored: Vec<StoredMoves> = moves.iter().map(stored).collect();
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Decodes the rows of a cluster. A row that is unreadable is left out: its pods may be moved again.
pub(crate) fn decode(rows: &[String]) -> Vec<DecidedMoves> {
    let read = |row: &String| {
        let read: Result<Vec<StoredMoves>, _> = serde_json::from_str(row);
        read.inspect_err(|error| warn!(%error, "cannot read moves of a decision")).unwrap_or_default()
    };
    let owner = |(namespace, workload): (String, String)| (Text::from(namespace), Text::from(workload));
    let mover = |stored: StoredMover| {
        let saving = SavingDecision { number: stored.decision, at: Timestamp::from_millis(stored.at) };
        (owner(stored.owner), MovedPart { saving, ppm: stored.ppm })
    };
    let moves = |stored: StoredMoves| DecidedMoves {
        claim: stored.claim.into(),
        owners: stored.owners.into_iter().map(owner).collect(),
        moved_by: stored.moved_by.into_iter().map(mover).collect(),
        since: Timestamp::from_millis(stored.since),
    };
    rows.iter().flat_map(read).map(moves).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn moves(claim: &str) -> DecidedMoves {
        let owner = |name: &str| (Text::from("default"), Text::from(name));
        let owners = BTreeSet::from([owner("ReplicaSet/web"), owner("StatefulSet/db")]);
        let saving = SavingDecision { number: 7, at: Timestamp::from_millis(900) };
        let moved_by = BTreeMap::from([(owner("ReplicaSet/web"), MovedPart { saving, ppm: 250_000 })]);
        DecidedMoves { claim: claim.into(), owners, moved_by, since: Timestamp::from_millis(1_000) }
    }

    #[test]
    fn rows_are_read_as_written_and_in_their_order() {
        let (first, second) = (vec![moves("b"), moves("c")], vec![moves("a")]);
        let rows = [encode(&first), encode(&second)];
        assert_eq!(decode(&rows), [first, second].concat());
        assert_eq!(encode(&[]), "");
    }

    #[test]
    fn a_row_of_another_version_is_read_as_far_as_it_is_known() {
        let row = r#"[{"claim":"a","since":5,"owners":[["default","ReplicaSet/web"]],"later":1}]"#.to_owned();
        let read = decode(&["{".to_owned(), row]);
        let owners = BTreeSet::from([(Text::from("default"), Text::from("ReplicaSet/web"))]);
        let (moved_by, since) = (BTreeMap::new(), Timestamp::from_millis(5));
        assert_eq!(read, [DecidedMoves { claim: "a".into(), owners, moved_by, since }]);
    }
}
