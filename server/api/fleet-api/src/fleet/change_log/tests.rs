use fleetwright_proto::v1;

use super::*;

fn node(name: &str, zone: &str) -> Arc<v1::Node> {
    Arc::new(v1::Node { name: name.to_owned(), zone: zone.to_owned(), ..v1::Node::default() })
}

fn set(name: &str, zone: &str, before: Option<&str>) -> Change<v1::Node> {
    Change::Set { row: node(name, zone), before: before.map(|zone| node(name, zone)) }
}

fn said(changes: Vec<Change<v1::Node>>, zone: &str) -> (Vec<String>, Vec<String>) {
    let changes = changes.into_iter().map(|change| (ClusterName::from("c"), change)).collect();
    let said = coalesce(changes, |node: &v1::Node| node.zone == zone);
    (said.rows.iter().map(|row| row.name.clone()).collect(), said.deleted)
}

#[test]
fn a_watch_gets_the_last_state_of_each_resource_once() {
    let changes =
        vec![set("n", "a", None), set("n", "a", Some("a")), set("m", "a", None), Change::Deleted(node("m", "a"))];
    // `m` came and went in between.
    assert_eq!(said(changes, "a"), (vec!["n".to_owned()], vec![]));
}

#[test]
fn what_is_not_selected_any_more_is_deleted_and_what_never_was_is_not_mentioned() {
    let changes = || vec![set("left", "b", Some("a")), set("stays", "b", Some("b")), set("joins", "a", Some("b"))];
    assert_eq!(said(changes(), "a"), (vec!["joins".to_owned()], vec!["left".to_owned()]));
    let gone = vec![set("n", "b", Some("a")), Change::Deleted(node("n", "b"))];
    assert_eq!(said(gone, "a"), (vec![], vec!["n".to_owned()]));
}

#[test]
fn a_reset_voids_what_was_said_of_the_cluster_before() {
    let of = |cluster: &str, change| (ClusterName::from(cluster), change);
    let changes = vec![
        of("moved", set("old", "a", None)),
        of("stays", set("kept", "a", None)),
        of("moved", Change::Reset),
        of("moved", set("new", "a", None)),
    ];
    let said = coalesce(changes, |_| true);
    assert_eq!(said.reset, [ClusterName::from("moved")]);
    assert_eq!(said.rows.iter().map(|row| row.name()).collect::<Vec<_>>(), ["new", "kept"]);
    assert_eq!(said.deleted, [] as [&str; 0]);
}

#[test]
fn a_position_before_the_log_is_too_old_and_so_is_one_of_another_log() {
    let log: ChangeLog<v1::Node> = ChangeLog::with_capacity(3);
    let cluster = ClusterName::from("c");
    log.push(&cluster, (0..5).map(|n| set(&n.to_string(), "a", None)));
    assert_eq!(log.end(), 5);
    assert_eq!(log.between(1..5, None).unwrap_err(), TooOld);
    assert_eq!(log.between(2..5, None).unwrap().len(), 3);
    assert_eq!(log.between(2..4, None).unwrap().len(), 2);
    assert_eq!(log.between(5..5, None).unwrap().len(), 0);
    assert_eq!(log.between(6..6, None).unwrap_err(), TooOld);
    assert_eq!(log.between(5..6, None).unwrap_err(), TooOld);
    assert_eq!(log.between(2..5, Some(&"other".into())).unwrap().len(), 0);
}

#[test]
fn readers_of_one_tick_see_the_same_end() {
    let log: ChangeLog<v1::Node> = ChangeLog::default();
    let cluster = ClusterName::from("c");
    log.push(&cluster, [set("n", "a", None)]);
    assert_eq!(log.end_at(10), 1);
    log.push(&cluster, [set("m", "a", None)]);
    assert_eq!((log.end_at(10), log.end_at(9), log.end()), (1, 1, 2));
    assert_eq!(log.end_at(11), 2);
}
