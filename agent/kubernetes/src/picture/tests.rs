use super::*;

const POD: v1::ObjectKind = v1::ObjectKind::Pod;
const NODE: v1::ObjectKind = v1::ObjectKind::Node;
const PATIENCE: Duration = Duration::from_millis(1);

fn pod(name: &str, node: &str) -> Row {
    let record =
        v1::PodRecord { name: name.into(), uid: format!("u-{name}"), node_name: node.into(), ..Default::default() };
    let seen = Seen::Pod {
        record: Box::new(record),
        shape: Default::default(),
        labels: Default::default(),
        volume_claims: None,
    };
    Row { namespace: "n".into(), name: name.into(), uid: format!("u-{name}"), seen }
}

/// What was told, one word each.
fn words(seen: &[Seen]) -> Vec<String> {
    let word = |seen: &Seen| match seen {
        Seen::Pod { record, .. } => match record.foreign_scale_up_ms {
            0 => format!("{}@{}", record.name, record.node_name),
            at => format!("{} wanted at {at}", record.name),
        },
        Seen::Plain(change) => match &**change {
            v1::change::Change::Removal(removal) => format!("-{}", removal.name),
            v1::change::Change::Autoscaler(record) => format!("{} {}", record.name, record.live),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    seen.iter().map(word).collect()
}

/// A picture of pods `a` and `b`, and what follows it.
async fn observed() -> (Picture, Observed) {
    let picture = Picture::of([POD]);
    picture.replace(POD, vec![pod("a", ""), pod("b", "")], &[]);
    let observed = picture.observe(PATIENCE).await.unwrap();
    assert_eq!(words(&observed.records), ["a@", "b@"]);
    (picture, observed)
}

fn told(observed: &mut Observed) -> Vec<Vec<String>> {
    std::iter::from_fn(|| observed.changes.try_recv().ok()).map(|seen| words(&seen)).collect()
}

#[tokio::test(start_paused = true)]
async fn there_is_no_picture_until_every_kind_has_been_seen() {
    let picture = Picture::of([POD, NODE]);
    picture.replace(POD, Vec::new(), &[]);
    picture.fails(NODE, "forbidden", false);
    let error = picture.observe(PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("node (forbidden)") && !error.contains("pod"), "{error}");
    picture.replace(NODE, Vec::new(), &[]);
    assert!(picture.observe(PATIENCE).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_told() {
    let (picture, mut observed) = observed().await;
    picture.update(POD, vec![Change::There(pod("a", "")), Change::Gone("n".into(), "x".into())]);
    picture.update(POD, vec![Change::There(pod("a", "n1")), Change::Gone("n".into(), "b".into())]);
    assert_eq!(told(&mut observed), [["a@n1", "-b"]]);
}

#[tokio::test(start_paused = true)]
async fn a_picture_that_is_taken_again_is_told_as_its_difference() {
    let (picture, mut observed) = observed().await;
    picture.replace(POD, vec![pod("a", ""), pod("c", "n1")], &[]);
    assert_eq!(told(&mut observed), [["c@n1", "-b"]]);
    assert_eq!(words(&picture.observe(PATIENCE).await.unwrap().records), ["a@", "c@n1"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_too_far_behind_is_made_to_look_again() {
    let (picture, mut observed) = observed().await;
    for number in 0..=CHANGES_BEHIND {
        picture.update(POD, vec![Change::There(pod("a", &number.to_string()))]);
    }
    assert_eq!(told(&mut observed).len(), CHANGES_BEHIND);
    assert!(observed.changes.recv().await.is_none(), "the changes have ended");
    let last = format!("a@{CHANGES_BEHIND}");
    assert_eq!(words(&picture.observe(PATIENCE).await.unwrap().records), [last.as_str(), "b@"]);
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_of_others_is_told_with_its_pod_whichever_is_seen_first() {
    let (picture, mut observed) = observed().await;
    picture.scale_up("n", "a", "u-a", 5);
    picture.scale_up("n", "a", "u-a", 5);
    picture.scale_up("n", "b", "u-of-an-earlier-b", 5);
    picture.scale_up("n", "c", "u-c", 7);
    picture.update(POD, vec![Change::There(pod("c", ""))]);
    assert_eq!(told(&mut observed), [["a wanted at 5"], ["c wanted at 7"]]);
    // It stays with the pod over further changes, and goes with it.
    picture.update(POD, vec![Change::There(pod("a", "n1"))]);
    assert_eq!(told(&mut observed), [["a wanted at 5"]]);
    picture.update(POD, vec![Change::Gone("n".into(), "a".into()), Change::There(pod("a", ""))]);
    assert_eq!(told(&mut observed), [["-a", "a@"]]);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_is_told_when_it_comes_and_goes_and_not_when_it_renews() {
    let (picture, mut observed) = observed().await;
    let record = |live, renewed_at_ms| v1::AutoscalerRecord {
        name: "karpenter".into(),
        live,
        renewed_at_ms,
        ..Default::default()
    };
    for record in [record(false, 0), record(true, 1), record(true, 2), record(false, 2)] {
        picture.autoscaler(record);
    }
    assert_eq!(told(&mut observed), [["karpenter true"], ["karpenter false"]]);
}

/// What is told when a picture of `there` pods is taken again and shows `left` of them: `None` when it is told as a whole.
async fn told_of_relist(picture: Picture, there: usize, left: usize) -> Option<usize> {
    let pods = |count: usize| (0..count).map(|number| pod(&format!("p{number:05}"), "")).collect::<Vec<_>>();
    picture.replace(POD, pods(there), &[]);
    let mut observed = picture.observe(PATIENCE).await.unwrap();
    picture.replace(POD, pods(left), &[]);
    let told = told(&mut observed);
    let ended = matches!(observed.changes.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    assert_eq!(picture.observe(PATIENCE).await.unwrap().records.len(), left, "the picture itself is what was seen");
    (!ended).then(|| told.iter().map(Vec::len).sum())
}

#[tokio::test(start_paused = true)]
async fn a_picture_that_lacks_much_of_what_was_there_is_told_as_a_whole_and_not_as_removals() {
    let told = async |there, left| told_of_relist(Picture::of([POD]), there, left).await;
    assert_eq!(told(200, 0).await, None, "nothing is left of 200");
    assert_eq!(told(200, 100).await, None);
    // 10 % of 200 are 20.
    assert_eq!(told(200, 179).await, None);
    assert_eq!(told(200, 180).await, Some(20));
    assert_eq!(told(3, 0).await, Some(3), "as few as three are told as they are");
    assert_eq!(told(4, 0).await, None);
}

#[tokio::test(start_paused = true)]
async fn sabotage_without_doubt_in_relists_two_hundred_removals_are_told() {
    assert_eq!(told_of_relist(Picture::of([POD]).trusting_relists(), 200, 0).await, Some(200));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_not_gone() {
    let (picture, mut observed) = observed().await;
    picture.replace(POD, vec![pod("a", "")], &[("n".to_owned(), "b".to_owned())]);
    assert!(told(&mut observed).is_empty(), "b is there, and cannot be read");
    picture.replace(POD, vec![pod("a", "")], &[]);
    assert_eq!(told(&mut observed), [["-b"]]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_seen_is_named_and_keeps_the_cluster_from_nothing() {
    const PRIORITY: v1::ObjectKind = v1::ObjectKind::PriorityClass;
    let unseen = |seen: &[Seen]| -> Vec<String> {
        let reason = |one: &Seen| match one {
            Seen::Plain(change) => match &**change {
                v1::change::Change::Unseen(unseen) => {
                    Some(format!("{}: {:?}", unseen.kind().as_str_name(), unseen.reason))
                }
                _ => None,
            },
            _ => None,
        };
        seen.iter().filter_map(reason).collect()
    };
    let picture = Picture::of([POD, PRIORITY]);
    picture.replace(POD, vec![pod("a", "")], &[]);
    picture.fails(PRIORITY, "no answer", false);
    assert!(picture.observe(PATIENCE).await.is_err(), "it may be seen in a moment");
    picture.fails(PRIORITY, "forbidden", true);
    let mut observed = picture.observe(PATIENCE).await.unwrap();
    assert_eq!(unseen(&observed.records), ["OBJECT_KIND_PRIORITY_CLASS: \"forbidden\""]);
    // Somebody gives the role what it lacks.
    picture.replace(PRIORITY, Vec::new(), &[]);
    assert_eq!(unseen(&observed.changes.try_recv().unwrap()), ["OBJECT_KIND_PRIORITY_CLASS: \"\""]);
    assert!(unseen(&picture.observe(PATIENCE).await.unwrap().records).is_empty());
}
