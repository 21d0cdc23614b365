//! How it went, by the books of the cloud and of the clusters.

use std::collections::BTreeMap;
use std::fmt::Write;

use cloud::simulated::SimulatedCloud;

use super::books::Books;
use crate::clock;

/// Names that a line lists.
const NAMES_SHOWN: usize = 12;

/// The verdict and its grounds.
pub(super) struct Verdict {
    /// Every pod ran, every empty node was removed, nothing was bought twice.
    pub(super) well: bool,
    /// For people.
    pub(super) text: String,
}

/// Draws the verdict. A demo that was `stopped` half-way is not judged by what it had no time for.
pub(super) fn draw(clusters: &BTreeMap<String, Books>, cloud: &SimulatedCloud, stopped: bool) -> Verdict {
    let mut text = String::from("\nBy the books of the clusters:\n");
    for (name, books) in clusters {
        let _infallible = writeln!(
            text,
            "  {name:<10} {} pods made, {} ran (longest wait {}.{} s), {} moved before they ran, {} never ran; {} nodes joined, \
             {} removed, {} empty",
            books.created,
            books.ran,
            books.longest_wait_ms / 1000,
            books.longest_wait_ms % 1000 / 100,
            books.withdrawn,
            books.waiting,
            books.joined,
            books.removed,
            books.empty_nodes.len(),
        );
    }
    let book = cloud.book();
    let _infallible = writeln!(
        text,
        "By the book of the cloud:\n  {} machines sold, {} still there, {} taken back, ${} spent; {} launches refused for lack of \
         capacity, {} calls slowed down, {} answers lost",
        book.sold(),
        book.alive().count(),
        book.interrupted(),
        book.spent(clock::now()),
        book.refused,
        book.throttled,
        book.answers_lost,
    );
    let faults = faults(clusters, cloud);
    let well = stopped || faults.is_empty();
    match (stopped, faults.is_empty()) {
        (true, _) => text.push_str("Stopped before the script had come to its end.\n"),
        (false, true) => text.push_str("It went well: every pod ran and every empty node was removed.\n"),
        (false, false) => faults.iter().for_each(|fault| text.push_str(&format!("It did not go well: {fault}\n"))),
    }
    Verdict { well, text }
}

fn faults(clusters: &BTreeMap<String, Books>, cloud: &SimulatedCloud) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, books) in clusters {
        if books.waiting > 0 {
            faults.push(format!("{name}: pods that never ran: {}", list(&books.waiting_names, books.waiting)));
        }
        if !books.empty_nodes.is_empty() {
            let empty = list(&books.empty_nodes, books.empty_nodes.len());
            faults.push(format!("{name}: empty nodes that were not removed: {empty}"));
        }
        if !books.finished && books.waiting == 0 && books.empty_nodes.is_empty() {
            faults.push(format!("{name}: time ran out during {:?}", books.scene));
        }
    }
    for (cluster, claim) in cloud.book().doubles() {
        faults.push(format!("{cluster}: more than one machine was bought for NodeClaim {claim}"));
    }
    let alive = cloud.book().alive().count();
    if faults.is_empty() && alive > 0 {
        faults.push(format!("{alive} machines are still paid for although no cluster has a node"));
    }
    faults
}

fn list(names: &[String], count: usize) -> String {
    let shown = names.len().min(NAMES_SHOWN);
    let more = if count > shown { format!(" and {} more", count - shown) } else { String::new() };
    format!("{}{more}", names[..shown].join(", "))
}

#[cfg(test)]
mod tests {
    use cloud::simulated::FaultProfile;

    use super::*;

    fn cloud() -> SimulatedCloud {
        SimulatedCloud::new(FaultProfile::default(), None)
    }

    fn one(books: Books) -> BTreeMap<String, Books> {
        BTreeMap::from([("amber".to_owned(), books)])
    }

    #[test]
    fn a_finished_script_with_clean_books_went_well() {
        let verdict = draw(&one(Books { finished: true, created: 3, ran: 3, ..Books::default() }), &cloud(), false);
        assert!(verdict.well);
        assert!(verdict.text.contains("every pod ran and every empty node was removed"), "{}", verdict.text);
    }

    #[test]
    fn pods_that_never_ran_are_named() {
        let waiting_names = vec!["shop/web-0".to_owned()];
        let verdict = draw(&one(Books { waiting: 1, waiting_names, ..Books::default() }), &cloud(), false);
        assert!(!verdict.well);
        assert!(verdict.text.contains("amber: pods that never ran: shop/web-0\n"), "{}", verdict.text);
    }

    #[test]
    fn a_node_that_stays_empty_and_a_script_that_does_not_end_are_faults() {
        let empty = Books { finished: true, empty_nodes: vec!["ip-x".to_owned()], ..Books::default() };
        assert!(!draw(&one(empty), &cloud(), false).well);
        assert!(!draw(&one(Books::default()), &cloud(), false).well);
        assert!(draw(&one(Books::default()), &cloud(), true).well);
    }
}
