//! `deploy/events.md` and the reasons in the code are the same.

use std::collections::BTreeMap;

use super::*;
use crate::status_reporter::event_recorder::interval;

/// The rows of the table in `deploy/events.md` by reason, of those that the server records: type and interval.
fn documented() -> BTreeMap<String, (String, String)> {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/events.md"));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>();
    let rows = document.lines().filter(|line| line.starts_with("| `")).map(cells);
    let of_server = rows.filter(|row| row[5] == "server" || row[5] == "both");
    of_server.map(|row| (row[1].trim_matches('`').to_owned(), (row[2].clone(), row[4].clone()))).collect()
}

#[test]
fn every_reason_is_documented_with_its_type_and_its_interval_and_no_other() {
    let (pool, node) = (ObjectRef::Pool(text("p")), ObjectRef::Node(text("n")));
    let minutes = |reason| {
        let [of_pool, of_node] = [&pool, &node].map(|subject| interval(reason, subject).as_mins());
        if of_pool == of_node { format!("{of_node} min") } else { format!("{of_node} min, NodePool {of_pool} min") }
    };
    let of_code = EventReason::ALL.into_iter().map(|reason| {
        let kind = if reason.is_warning() { "Warning" } else { "Normal" };
        (reason.as_str().to_owned(), (kind.to_owned(), minutes(reason)))
    });
    assert_eq!(of_code.collect::<BTreeMap<_, _>>(), documented());
}
