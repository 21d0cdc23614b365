//! Lists, watches and lost connections.

use super::fixture::{NOW_MS, cluster, fleet, names_at, node, picture, picture_at};
use crate::{Change, Delta, Feed, Key, Kind, Top};

fn title(top: &mut Top, now_ms: i64) -> String {
    picture_at(top, 80, 24, now_ms).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn rows_that_a_new_list_does_not_have_are_removed_when_it_is_complete() {
    let mut top = fleet();
    top.handle(Key::Char('2'), NOW_MS);
    top.apply(Change::Feed(Kind::Nodes, Feed::Listing), NOW_MS);
    top.apply(Change::Nodes(Delta::of(vec![node("clusters/test/nodes/old", 0, 1, 2)])), NOW_MS);
    assert_eq!(names_at(&mut top, NOW_MS).len(), 5, "the list is not complete");
    assert!(title(&mut top, NOW_MS).ends_with("  listing nodes"));
    top.apply(Change::Feed(Kind::Nodes, Feed::Live), NOW_MS);
    assert_eq!(names_at(&mut top, NOW_MS), [">old"]);
    assert!(title(&mut top, NOW_MS).starts_with("2 clusters, 1 node, "));
}

#[test]
fn a_watch_that_goes_on_after_a_lost_connection_removes_nothing() {
    let mut top = fleet();
    top.handle(Key::Char('2'), NOW_MS);
    top.apply(Change::Feed(Kind::Nodes, Feed::Broken("no connection".to_owned())), NOW_MS);
    assert!(title(&mut top, NOW_MS).ends_with("  reconnecting, 2s old: no connection"));
    top.apply(Change::Feed(Kind::Nodes, Feed::Live), NOW_MS);
    assert_eq!(names_at(&mut top, NOW_MS).len(), 5);
}

#[test]
fn a_list_that_breaks_removes_nothing_and_the_next_one_begins_anew() {
    let mut top = fleet();
    top.handle(Key::Char('2'), NOW_MS);
    top.apply(Change::Feed(Kind::Nodes, Feed::Listing), NOW_MS);
    top.apply(Change::Feed(Kind::Nodes, Feed::Broken("no connection".to_owned())), NOW_MS);
    assert_eq!(names_at(&mut top, NOW_MS).len(), 5);
    top.apply(Change::Feed(Kind::Nodes, Feed::Listing), NOW_MS);
    top.apply(Change::Feed(Kind::Nodes, Feed::Live), NOW_MS);
    assert!(picture(&mut top, 80, 24).contains("No rows: the list is complete and has none here."));
}

#[test]
fn a_reset_voids_the_rows_of_one_cluster_only() {
    let mut top = fleet();
    top.handle(Key::Char('2'), NOW_MS);
    let rows = vec![node("clusters/prod/nodes/again", 100_000, 2, 2)];
    top.apply(Change::Nodes(Delta { reset: vec!["clusters/prod".to_owned()], rows, deleted: Vec::new() }), NOW_MS);
    assert_eq!(names_at(&mut top, NOW_MS), [">again", "old"]);
    let header = picture(&mut top, 80, 24);
    assert!(header.contains("CPU     3.0 of 8.0 cores requested, 37%"), "{header}");
    // A cluster whose name begins with the same letters is another one.
    let mut top = fleet();
    top.apply(
        Change::Nodes(Delta { reset: vec!["clusters/pro".to_owned()], rows: Vec::new(), deleted: Vec::new() }),
        NOW_MS,
    );
    assert!(title(&mut top, NOW_MS).starts_with("2 clusters, 5 nodes"));
}

#[test]
fn unreachable_clusters_are_named_until_their_rows_follow() {
    let mut top = fleet();
    top.apply(Change::Clusters(Delta::of(vec![cluster("far", 7, 0, 70_000)])), NOW_MS);
    top.apply(Change::Unreachable(Kind::Nodes, vec!["clusters/far".to_owned()]), NOW_MS);
    let unreachable = picture(&mut top, 80, 24);
    assert_eq!(unreachable.lines().nth(5), Some("! unreachable, nodes and pods missing: far; stale: test"));
    let row = unreachable.lines().find(|line| line.contains("far  ")).unwrap();
    assert!(row.contains("no data") && row.contains("unreachable"), "{row}");
    top.apply(
        Change::Nodes(Delta { reset: vec!["clusters/far".to_owned()], rows: Vec::new(), deleted: Vec::new() }),
        NOW_MS,
    );
    assert_eq!(picture(&mut top, 80, 24).lines().nth(5), Some("! stale: test"));
}

#[test]
fn the_age_is_that_of_the_oldest_kind() {
    let mut top = fleet();
    top.apply(Change::Nodes(Delta::of(Vec::new())), NOW_MS + 60_000);
    top.apply(Change::Pods(Delta::of(Vec::new())), NOW_MS + 60_000);
    assert!(title(&mut top, NOW_MS + 60_000).ends_with("  live, 1m old"), "clusters were heard of 62 s ago");
    top.apply(Change::Clusters(Delta::of(Vec::new())), NOW_MS + 59_000);
    assert!(title(&mut top, NOW_MS + 60_000).ends_with("  live, 1s old"));
}

/// The line of the header that says what is missing.
fn coverage(top: &mut Top) -> String {
    picture(top, 200, 24).lines().nth(5).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn what_the_server_depends_on_and_does_not_work_comes_before_what_is_missing() {
    let mut top = fleet();
    top.apply(Change::Notices(vec!["The cloud has not answered: nothing can be launched.".to_owned()]), NOW_MS);
    assert_eq!(coverage(&mut top), "! The cloud has not answered: nothing can be launched; stale: test");
    top.apply(Change::Notices(Vec::new()), NOW_MS);
    assert_eq!(coverage(&mut top), "! stale: test");
}

#[test]
fn a_fleet_without_clusters_says_so_once_that_is_known() {
    let mut top = Top::new(Kind::Clusters, None, true);
    assert_eq!(coverage(&mut top), "The list of clusters is not complete yet.");
    for kind in Kind::ALL {
        top.apply(Change::Feed(kind, Feed::Live), NOW_MS);
    }
    assert!(!top.is_live(), "what does not work is not known yet");
    top.apply(Change::Notices(Vec::new()), NOW_MS);
    assert_eq!(coverage(&mut top), "No cluster yet. How to connect one: fleetwright fleet problems");
    top.apply(Change::Clusters(Delta::of(vec![cluster("prod", 1, 0, 0)])), NOW_MS);
    assert!(top.is_live());
    assert_eq!(coverage(&mut top), "Every cluster is connected.");
}
