//! Encodes what consolidation moves for the rows of decisions, and decodes it for the next owner of a cluster.
//!
//! A row is JSON that later versions read: a new field has a default, and no field changes its meaning.

use controller::cluster::{DecidedMoves, PodOwner};
use model::{Text, Timestamp};
use serde::{Deserialize, Serialize};
use tracing::warn;

/// What a drain moves.
#[derive(Serialize, Deserialize)]
struct StoredMoves {
    claim: String,
    since: i64,
    /// Namespace and `Kind/name` of the owners of the pods.
    owners: Vec<(String, String)>,
}

/// The text of a row; empty if nothing is moved.
#[must_use]
pub fn encode(moves: &[DecidedMoves]) -> String {
    let owner = |(namespace, workload): &PodOwner| (namespace.to_string(), workload.to_string());
    let stored = |moves: &DecidedMoves| StoredMoves {
        claim: moves.claim.to_string(),
        since: moves.since.as_millis(),
        owners: moves.owners.iter().map(owner).collect(),
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
    let moves = |stored: StoredMoves| DecidedMoves {
        claim: stored.claim.into(),
        owners: stored.owners.into_iter().map(owner).collect(),
        since: Timestamp::from_millis(stored.since),
    };
    rows.iter().flat_map(read).map(moves).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn moves(claim: &str) -> DecidedMoves {
        let owner = |name: &str| (Text::from("default"), Text::from(name));
        let owners = BTreeSet::from([owner("ReplicaSet/web"), owner("StatefulSet/db")]);
        DecidedMoves { claim: claim.into(), owners, since: Timestamp::from_millis(1_000) }
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
        assert_eq!(read, [DecidedMoves { claim: "a".into(), owners, since: Timestamp::from_millis(5) }]);
    }
}
