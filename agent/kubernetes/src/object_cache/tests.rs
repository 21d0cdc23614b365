use super::*;

const POD: v1::ObjectKind = v1::ObjectKind::Pod;
const NODE: v1::ObjectKind = v1::ObjectKind::Node;
const TIMEOUT: Duration = Duration::from_millis(1);

fn pod(name: &str, node: &str) -> ParsedObject {
    let record =
        v1::PodRecord { name: name.into(), uid: format!("u-{name}"), node_name: node.into(), ..Default::default() };
    let seen = Record::Pod {
        record: Box::new(record),
        shape: Default::default(),
        labels: Default::default(),
        volume_claims: None,
    };
    ParsedObject { namespace: "n".into(), name: name.into(), uid: format!("u-{name}"), record: seen }
}

/// The published records, one word each.
fn words(seen: &[Record]) -> Vec<String> {
    let word = |seen: &Record| match seen {
        Record::Pod { record, .. } => match record.external_scale_up_ms {
            0 => format!("{}@{}", record.name, record.node_name),
            at => format!("{} wanted at {at}", record.name),
        },
        Record::Plain(change) => match &**change {
            v1::change::Change::Removal(removal) => format!("-{}", removal.name),
            v1::change::Change::Autoscaler(record) => format!("{} {}", record.name, record.live),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    seen.iter().map(word).collect()
}

/// A cache of pods `a` and `b`, and its changes.
async fn observed() -> (ObjectCache, ListWatch) {
    let cache = ObjectCache::new([POD]);
    cache.replace_objects(POD, vec![pod("a", ""), pod("b", "")], &[]);
    let observed = cache.list_and_watch(TIMEOUT).await.unwrap();
    assert_eq!(words(&observed.records), ["a@", "b@"]);
    (cache, observed)
}

fn published(observed: &mut ListWatch) -> Vec<Vec<String>> {
    std::iter::from_fn(|| observed.changes.try_recv().ok()).map(|seen| words(&seen)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_incomplete_until_every_kind_was_listed() {
    let cache = ObjectCache::new([POD, NODE]);
    cache.replace_objects(POD, Vec::new(), &[]);
    cache.mark_failed(NODE, "forbidden", false);
    let error = cache.list_and_watch(TIMEOUT).await.unwrap_err().to_string();
    assert!(error.contains("node (forbidden)") && !error.contains("pod"), "{error}");
    cache.replace_objects(NODE, Vec::new(), &[]);
    assert!(cache.list_and_watch(TIMEOUT).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_record_is_not_published() {
    let (cache, mut observed) = observed().await;
    cache.apply_changes(POD, vec![ObjectChange::Applied(pod("a", "")), ObjectChange::Deleted("n".into(), "x".into())]);
    cache
        .apply_changes(POD, vec![ObjectChange::Applied(pod("a", "n1")), ObjectChange::Deleted("n".into(), "b".into())]);
    assert_eq!(published(&mut observed), [["a@n1", "-b"]]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_is_published_as_its_difference() {
    let (cache, mut observed) = observed().await;
    cache.replace_objects(POD, vec![pod("a", ""), pod("c", "n1")], &[]);
    assert_eq!(published(&mut observed), [["c@n1", "-b"]]);
    assert_eq!(words(&cache.list_and_watch(TIMEOUT).await.unwrap().records), ["a@", "c@n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_is_too_far_behind_must_list_again() {
    let (cache, mut observed) = observed().await;
    for number in 0..=CHANGES_CAPACITY {
        cache.apply_changes(POD, vec![ObjectChange::Applied(pod("a", &number.to_string()))]);
    }
    assert_eq!(published(&mut observed).len(), CHANGES_CAPACITY);
    assert!(observed.changes.recv().await.is_none(), "the changes have ended");
    let last = format!("a@{CHANGES_CAPACITY}");
    assert_eq!(words(&cache.list_and_watch(TIMEOUT).await.unwrap().records), [last.as_str(), "b@"]);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_scale_up_is_published_with_its_pod_in_either_order() {
    let (cache, mut observed) = observed().await;
    cache.record_scale_up("n", "a", "u-a", 5);
    cache.record_scale_up("n", "a", "u-a", 5);
    cache.record_scale_up("n", "b", "u-of-an-earlier-b", 5);
    cache.record_scale_up("n", "c", "u-c", 7);
    cache.apply_changes(POD, vec![ObjectChange::Applied(pod("c", ""))]);
    assert_eq!(published(&mut observed), [["a wanted at 5"], ["c wanted at 7"]]);
    // The scale-up is kept across changes of the pod, and deleted with it.
    cache.apply_changes(POD, vec![ObjectChange::Applied(pod("a", "n1"))]);
    assert_eq!(published(&mut observed), [["a wanted at 5"]]);
    cache.apply_changes(POD, vec![ObjectChange::Deleted("n".into(), "a".into()), ObjectChange::Applied(pod("a", ""))]);
    assert_eq!(published(&mut observed), [["-a", "a@"]]);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_is_published_when_it_starts_and_stops_and_not_when_it_renews() {
    let (cache, mut observed) = observed().await;
    let record = |live, renewed_at_ms| v1::AutoscalerRecord {
        name: "karpenter".into(),
        live,
        renewed_at_ms,
        ..Default::default()
    };
    for record in [record(false, 0), record(true, 1), record(true, 2), record(false, 2)] {
        cache.update_autoscaler(record);
    }
    assert_eq!(published(&mut observed), [["karpenter true"], ["karpenter false"]]);
}

/// Published removals when a relist of `there` pods returns `left` of them; `None` for a new
/// snapshot.
async fn published_by_relist(there: usize, left: usize) -> Option<usize> {
    let cache = ObjectCache::new([POD]);
    let pods = |count: usize| (0..count).map(|number| pod(&format!("p{number:05}"), "")).collect::<Vec<_>>();
    cache.replace_objects(POD, pods(there), &[]);
    let mut observed = cache.list_and_watch(TIMEOUT).await.unwrap();
    cache.replace_objects(POD, pods(left), &[]);
    let output = published(&mut observed);
    let ended = matches!(observed.changes.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    assert_eq!(cache.list_and_watch(TIMEOUT).await.unwrap().records.len(), left, "the picture itself is what was seen");
    (!ended).then(|| output.iter().map(Vec::len).sum())
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_lacks_many_objects_is_a_new_snapshot_and_no_removals() {
    let removals = published_by_relist;
    assert_eq!(removals(200, 0).await, None, "nothing is left of 200");
    assert_eq!(removals(200, 100).await, None);
    // 10 % of 200 are 20.
    assert_eq!(removals(200, 179).await, None);
    assert_eq!(removals(200, 180).await, Some(20));
    assert_eq!(removals(3, 0).await, Some(3), "as few as three are told as they are");
    assert_eq!(removals(4, 0).await, None);
}

#[tokio::test(start_paused = true)]
async fn sabotage_as_single_changes_which_have_no_loss_limit_two_hundred_removals_are_published() {
    let (cache, names) = (ObjectCache::new([POD]), (0..200).map(|number| format!("p{number}")));
    cache.replace_objects(POD, names.clone().map(|name| pod(&name, "")).collect(), &[]);
    let mut observed = cache.list_and_watch(TIMEOUT).await.unwrap();
    cache.apply_changes(POD, names.map(|name| ObjectChange::Deleted("n".to_owned(), name)).collect());
    assert_eq!(published(&mut observed).iter().map(Vec::len).sum::<usize>(), 200);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_of_a_relist_is_not_removed() {
    let (cache, mut observed) = observed().await;
    cache.replace_objects(POD, vec![pod("a", "")], &[("n".to_owned(), "b".to_owned())]);
    assert!(published(&mut observed).is_empty(), "b is there, and cannot be read");
    cache.replace_objects(POD, vec![pod("a", "")], &[]);
    assert_eq!(published(&mut observed), [["-b"]]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_optional_kind_is_named_and_blocks_nothing() {
    const PRIORITY: v1::ObjectKind = v1::ObjectKind::PriorityClass;
    let unseen_kind = |seen: &[Record]| -> Vec<String> {
        let reason = |one: &Record| match one {
            Record::Plain(change) => match &**change {
                v1::change::Change::Unseen(unseen) => {
                    Some(format!("{}: {:?}", unseen.kind().as_str_name(), unseen.reason))
                }
                _ => None,
            },
            _ => None,
        };
        seen.iter().filter_map(reason).collect()
    };
    let cache = ObjectCache::new([POD, PRIORITY]);
    cache.replace_objects(POD, vec![pod("a", "")], &[]);
    cache.mark_failed(PRIORITY, "no answer", false);
    assert!(cache.list_and_watch(TIMEOUT).await.is_err(), "it may be seen in a moment");
    cache.mark_failed(PRIORITY, "forbidden", true);
    let mut observed = cache.list_and_watch(TIMEOUT).await.unwrap();
    assert_eq!(unseen_kind(&observed.records), ["OBJECT_KIND_PRIORITY_CLASS: \"forbidden\""]);
    // The role is extended.
    cache.replace_objects(PRIORITY, Vec::new(), &[]);
    assert_eq!(unseen_kind(&observed.changes.try_recv().unwrap()), ["OBJECT_KIND_PRIORITY_CLASS: \"\""]);
    assert!(unseen_kind(&cache.list_and_watch(TIMEOUT).await.unwrap().records).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_or_nominated_for_the_node_lacks_no_nomination() {
    let (cache, _observed) = observed().await;
    let wanted =
        |name: &str, uid: &str| v1::PodNomination { namespace: "n".into(), name: name.into(), uid: uid.into() };
    let mut nominated = pod("a", "");
    let Record::Pod { record, .. } = &mut nominated.record else { panic!("a pod") };
    (record.nominated_by_agent, record.nominated_node_name) = (true, "n1".into());
    cache.apply_changes(POD, vec![ObjectChange::Applied(nominated), ObjectChange::Applied(pod("b", "n2"))]);
    assert!(!cache.lacks_nomination(&wanted("a", "u-a"), "n1") && cache.lacks_nomination(&wanted("a", "u-a"), "n2"));
    assert!(!cache.lacks_nomination(&wanted("b", "u-b"), "n1"), "it is bound");
    assert!(
        cache.lacks_nomination(&wanted("b", "u-of-a-later-b"), "n1")
            && cache.lacks_nomination(&wanted("c", "u-c"), "n1")
    );
}
