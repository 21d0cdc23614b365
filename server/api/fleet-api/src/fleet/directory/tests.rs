use super::*;

const OWN: &str = "this replica";

fn row(cluster: &str, epoch: i64, replica: &str, pods: i32, at_ms: i64) -> v1::Cluster {
    v1::Cluster {
        name: format!("clusters/{cluster}"),
        epoch,
        replica: replica.to_owned(),
        pod_count: pods,
        observe_time: Some(api_messages::from_millis(at_ms)),
        connected: true,
        ..v1::Cluster::default()
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Epoch, replica, pods, age in milliseconds and whether it is stale, of the clusters at `now`.
fn seen(directory: &Directory, now: i64) -> Vec<(String, i64, String, i32, i64, bool)> {
    let all = directory.all(false, at(now));
    let age = |row: &v1::Cluster| now - row.observe_time.as_ref().map_or(0, api_messages::to_millis);
    let seen = all
        .into_iter()
        .map(|row| (row.name.clone(), row.epoch, row.replica.clone(), row.pod_count, age(&row), row.stale));
    seen.collect()
}

fn entry(
    cluster: &str,
    epoch: i64,
    replica: &str,
    pods: i32,
    age: i64,
    stale: bool,
) -> (String, i64, String, i32, i64, bool) {
    (format!("clusters/{cluster}"), epoch, replica.to_owned(), pods, age, stale)
}

fn stored(cluster: &str, epoch: i64, replica: &str, pods: i32, at_ms: i64) -> ClusterSummaryRow {
    let summary = row(cluster, epoch, replica, pods, at_ms).encode_to_vec();
    let epoch = api_messages::unsigned(epoch);
    ClusterSummaryRow { cluster: cluster.into(), epoch, replica: replica.into(), observed_ms: at_ms, summary }
}

fn set_own(directory: &Directory, cluster: &str, row: v1::Cluster) {
    directory.publish_own(vec![(cluster.into(), Some(row))], at(0), || {});
}

fn both() -> Vec<String> {
    vec!["a".to_owned(), "b".to_owned()]
}

#[test]
fn clusters_of_every_source_are_listed_with_their_age() {
    let directory = Directory::default();
    let other: Arc<str> = "two/1".into();
    directory.set_stored(&["a".into(), "b".into(), "c".into(), "d".into()], vec![stored("c", 3, "three", 7, 1_000)]);
    set_own(&directory, "a", row("a", 5, OWN, 1, 2_000));
    directory.set_of_replica(&other, vec![row("b", 6, "two", 2, 2_500)], at(4_000));
    let expected = [
        // It changed at 2,000 last, and this process knows that it is so now.
        entry("a", 5, OWN, 1, 0, false),
        // The replica's last message.
        entry("b", 6, "two", 2, 1_000, false),
        entry("c", 3, "three", 7, 4_000, true),
        // A cluster without a summary; its age is that of 1970.
        entry("d", 0, "", 0, 5_000, true),
    ];
    assert_eq!(seen(&directory, 5_000), expected);
    assert_eq!(directory.unreachable(), ["clusters/c", "clusters/d"]);
    assert_eq!(directory.all(true, at(5_000)).len(), 1);
}

#[test]
fn a_cluster_is_seen_until_its_agent_or_its_replica_is_lost() {
    let directory = Directory::default();
    set_own(&directory, "a", row("a", 5, OWN, 1, 2_000));
    set_own(&directory, "a", v1::Cluster { connected: false, ..row("a", 5, OWN, 1, 8_000) });
    assert_eq!(seen(&directory, 78_000), [entry("a", 5, OWN, 1, 70_000, false)], "the agent is gone for 70 s");
    let other: Arc<str> = "two/1".into();
    let directory = Directory::default();
    // It changed long ago, and the replica said each second that it is there.
    directory.set_of_replica(&other, vec![row("b", 6, "two", 2, 2_000)], at(2_000));
    directory.set_of_replica(&other, Vec::new(), at(60_000));
    directory.lose_replica(&other);
    assert_eq!(seen(&directory, 61_000), [entry("b", 6, "two", 2, 1_000, true)]);
    let directory = Directory::default();
    set_own(&directory, "c", row("c", 1, OWN, 0, 1_000));
    directory.publish_own(vec![("c".into(), None)], at(50_000), || {});
    assert_eq!(seen(&directory, 51_000), [entry("c", 1, OWN, 0, 1_000, true)]);
}

#[test]
fn the_clusters_of_a_killed_replica_are_stale_until_another_one_decides_for_them() {
    let directory = Directory::default();
    let other: Arc<str> = "two/1".into();
    directory.set_of_replica(&other, vec![row("a", 5, "two", 1, 2_000)], at(2_000));
    directory.lose_replica(&other);
    assert_eq!(seen(&directory, 9_000), [entry("a", 5, "two", 1, 7_000, true)]);
    // The row of the store is older than what the replica said.
    directory.set_stored(&both()[..1], vec![stored("a", 5, "two", 0, 1_000)]);
    assert_eq!(seen(&directory, 9_000), [entry("a", 5, "two", 1, 7_000, true)]);
    set_own(&directory, "a", row("a", 6, OWN, 3, 9_500));
    assert_eq!(seen(&directory, 9_500), [entry("a", 6, OWN, 3, 0, false)]);
}

#[test]
fn a_replica_that_lost_the_lease_does_not_overwrite_its_successor() {
    let directory = Directory::default();
    let paused: Arc<str> = "two/1".into();
    set_own(&directory, "a", row("a", 6, OWN, 3, 1_000));
    directory.set_of_replica(&paused, vec![row("a", 5, "two", 1, 2_000)], at(2_000));
    assert_eq!(seen(&directory, 2_000), [entry("a", 6, OWN, 3, 0, false)]);
    // This process is the one that was paused.
    directory.set_of_replica(&paused, vec![row("a", 7, "two", 5, 2_500)], at(2_500));
    set_own(&directory, "a", row("a", 6, OWN, 3, 2_600));
    assert_eq!(seen(&directory, 2_600), [entry("a", 7, "two", 5, 100, false)]);
    assert_eq!(directory.own(), [].into());
    set_own(&directory, "a", row("a", 8, OWN, 3, 2_700));
    // Nor is it released by it.
    directory.release_of_replica(&paused, &["a".into()].into());
    directory.lose_replica(&paused);
    assert_eq!(directory.source(&"a".into()), Some(Source::Own));
}

#[test]
fn a_cluster_that_was_forgotten_is_listed_no_more_and_the_watch_says_so() {
    let directory = Directory::default();
    directory.set_stored(&both(), vec![stored("a", 3, "three", 7, 1_000)]);
    let begin = directory.changes().end();
    directory.set_stored(&both()[1..], Vec::new());
    assert_eq!(seen(&directory, 0).len(), 1);
    let changes = directory.changes().between(begin..directory.changes().end(), None).unwrap();
    assert!(matches!(&changes[..], [(name, Change::Deleted(_))] if &***name == "a"));
    // This process decides for it: the store's list is older than that.
    set_own(&directory, "c", row("c", 1, OWN, 0, 1_000));
    directory.set_stored(&both()[1..], Vec::new());
    assert!(directory.get(&"c".into(), at(0)).is_some());
}

#[test]
fn only_what_changed_is_said_and_written() {
    let directory = Directory::default();
    set_own(&directory, "a", row("a", 1, OWN, 1, 1_000));
    assert_eq!(directory.take_unwritten(), [stored("a", 1, OWN, 1, 1_000)]);
    let begin = directory.changes().end();
    set_own(&directory, "a", row("a", 1, OWN, 1, 2_000));
    assert_eq!((directory.take_unwritten(), directory.changes().end()), (vec![], begin));
    set_own(&directory, "a", row("a", 1, OWN, 2, 3_000));
    let rows = directory.take_unwritten();
    assert_eq!(rows, [stored("a", 1, OWN, 2, 3_000)]);
    directory.mark_unwritten(&rows);
    assert_eq!(directory.take_unwritten().len(), 1);
}

#[test]
fn a_cluster_of_the_store_is_added_once_and_changes_no_other() {
    let directory = Directory::default();
    set_own(&directory, "a", row("a", 5, OWN, 1, 2_000));
    directory.set_stored(&both()[1..], vec![stored("b", 3, "three", 7, 1_000)]);
    assert_eq!(
        ["a", "b", "c"].map(|name| directory.add_stored(&name.into())),
        [Source::Own, Source::Stored, Source::Stored]
    );
    let expected =
        [entry("a", 5, OWN, 1, 0, false), entry("b", 3, "three", 7, 4_000, true), entry("c", 0, "", 0, 5_000, true)];
    assert_eq!(seen(&directory, 5_000), expected);
}
