//! Holds: one for each request, changed by clients through any replica and by the owner of the cluster under its lease.

use super::{HOUR, cluster, granted, launching, lost_and_held, refused, wait_for_change, watch_changes};
use store::Store;
use store::holds::{
    HoldCaller, HoldCommand, HoldCreation, HoldPlaceRow, HoldQuota, HoldRow, HoldState, HoldStatusRow, NewHold,
};
use store::identity::ForgetOutcome;
use store::lease::Scope;
use store::log::Entry;

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_request_creates_one_hold(store, &cluster(run, "holds")).await;
    calls_at_one_time_create_one_hold(store, &cluster(run, "holds-at-once")).await;
    a_client_holds_no_more_than_its_quota(store, &cluster(run, "hold-quotas")).await;
    a_hold_is_committed_when_its_room_is_there(store, &cluster(run, "hold-commit")).await;
    a_released_hold_stays_released(store, &cluster(run, "hold-release")).await;
    only_its_creator_and_an_admin_change_a_hold(store, &cluster(run, "hold-callers")).await;
    who_commits_a_hold_of_another_pays_for_it(store, &cluster(run, "hold-payers")).await;
    another_version_is_told(store, &cluster(run, "hold-version")).await;
    a_hold_is_over_at_its_end_whether_its_owner_knows_or_not(store, &cluster(run, "hold-expiry")).await;
    a_decision_writes_the_room_of_a_hold_with_its_launches(store, &cluster(run, "hold-decision")).await;
    live_holds_come_back_with_the_lease(store, &cluster(run, "hold-lease")).await;
    a_replica_that_lost_its_lease_changes_no_hold(store, &cluster(run, "hold-fenced")).await;
    an_owner_changes_no_hold_of_another_cluster(store, [&cluster(run, "hold-a"), &cluster(run, "hold-b")]).await;
    a_forgotten_cluster_has_no_live_hold(store, &cluster(run, "hold-forgotten")).await;
    commands_of_clients_are_announced(store, &cluster(run, "hold-announced")).await;
}

fn name(scope: &Scope) -> &str {
    scope.cluster_name().expect("it is a cluster")
}

/// A hold of a client of its own, named as the cluster, that lasts an hour.
fn new(scope: &Scope, request: &str) -> NewHold {
    NewHold {
        id: format!("{}-{request}", name(scope)),
        cluster: name(scope).to_owned(),
        client: name(scope).to_owned(),
        request_id: request.to_owned(),
        fingerprint: vec![1],
        pod_sets: vec![2, 0, 255],
        pods: vec![3],
        dedicated: true,
        ttl_ms: 3_600_000,
        max_price: Some(5_000),
        quota: HoldQuota::default(),
    }
}

/// The client that created a hold.
fn creator(row: &HoldRow) -> HoldCaller {
    HoldCaller { name: row.client.clone(), ..HoldCaller::default() }
}

async fn created(store: &dyn Store, new: &NewHold) -> HoldRow {
    match store.create_hold(new).await.unwrap() {
        HoldCreation::Created(row) => *row,
        other => panic!("{other:?}"),
    }
}

fn ready(id: &str) -> HoldStatusRow {
    let place = |target: &str, price| HoldPlaceRow { target: target.to_owned(), pod_set: 0, pods: 2, price };
    HoldStatusRow {
        id: id.to_owned(),
        places: vec![place("NodeClaim/m-1", 3_000), place("Node/n-1", 0)],
        ready: true,
        ..HoldStatusRow::default()
    }
}

fn ended(id: &str, end: HoldState, message: &str) -> HoldStatusRow {
    HoldStatusRow { id: id.to_owned(), message: message.to_owned(), end: Some(end), ..HoldStatusRow::default() }
}

async fn state(store: &dyn Store, row: &HoldRow) -> HoldState {
    store.hold(&row.cluster, &row.id).await.unwrap().expect("the hold exists").state
}

#[track_caller]
fn done(answer: HoldCommand) -> HoldRow {
    match answer {
        HoldCommand::Done(row) => *row,
        other => panic!("{other:?}"),
    }
}

async fn a_request_creates_one_hold(store: &dyn Store, scope: &Scope) {
    let asked = new(scope, "r1");
    assert_eq!(store.create_hold(&asked).await.unwrap(), HoldCreation::UnknownCluster);
    granted(store, scope, "a", HOUR).await;
    let row = created(store, &asked).await;
    assert_eq!((row.state, row.version, row.max_price), (HoldState::Pending, 1, Some(5_000)));
    assert_eq!((&row.pod_sets, &row.pods, row.dedicated), (&vec![2, 0, 255], &vec![3], true));
    assert!((3_500_000..=3_600_000).contains(&row.left_ms), "{}", row.left_ms);
    assert_eq!(row.expires_ms - row.created_ms, 3_600_000);
    // The same again, with another id as another replica makes it.
    let again = created(store, &NewHold { id: "another".to_owned(), ..asked.clone() }).await;
    assert_eq!((&again.id, again.version), (&row.id, 1));
    let other = NewHold { fingerprint: vec![9], ..asked.clone() };
    assert_eq!(store.create_hold(&other).await.unwrap(), HoldCreation::OtherRequest);
    // Request ids of another client are its own.
    let neighbour =
        NewHold { client: format!("{}-neighbour", asked.client), id: "its-own".to_owned() + &asked.id, ..asked };
    assert_ne!(created(store, &neighbour).await.id, row.id);
    assert_eq!(store.holds(Some(name(scope))).await.unwrap().len(), 2);
    assert_eq!(store.hold("another-cluster", &row.id).await.unwrap(), None);
}

async fn calls_at_one_time_create_one_hold(store: &dyn Store, scope: &Scope) {
    granted(store, scope, "a", HOUR).await;
    let asked: Vec<NewHold> =
        (0..8).map(|n| NewHold { id: format!("{}-{n}", name(scope)), ..new(scope, "r1") }).collect();
    let answers = futures::future::join_all(asked.iter().map(|new| created(store, new))).await;
    assert!(answers.iter().all(|row| row.id == answers[0].id));
    assert_eq!(store.holds(Some(name(scope))).await.unwrap().len(), 1);
}

async fn a_client_holds_no_more_than_its_quota(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let quota = HoldQuota { holds: Some(2), price: Some(9_000) };
    let asked = |request: &str| NewHold { quota, ..new(scope, request) };
    let first = created(store, &asked("r1")).await;
    // 9,000 less the limit of the first one, whose price is not known yet.
    let second = created(store, &asked("r2")).await;
    assert_eq!((first.max_price, second.max_price), (Some(5_000), Some(4_000)));
    assert_eq!(store.create_hold(&asked("r3")).await.unwrap(), HoldCreation::TooManyHolds(2));
    assert_eq!(created(store, &asked("r1")).await.id, first.id, "a repeated request needs no quota");
    done(store.release_hold((&first.cluster, &first.id), None, &creator(&first)).await.unwrap());
    // The second one costs 3,000 of its 4,000; a hold without a limit of its own gets what is left.
    store.write_hold(&lease, &ready(&second.id)).await.unwrap();
    let third = created(store, &NewHold { max_price: None, ..asked("r3") }).await;
    assert_eq!(third.max_price, Some(6_000));
    done(store.release_hold((&second.cluster, &second.id), None, &creator(&second)).await.unwrap());
    let more = NewHold { quota: HoldQuota { holds: None, price: Some(6_000) }, ..asked("r4") };
    assert_eq!(store.create_hold(&more).await.unwrap(), HoldCreation::TooExpensive(6_000));
}

async fn a_hold_is_committed_when_its_room_is_there(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let row = created(store, &new(scope, "r1")).await;
    let by = creator(&row);
    let commit = || store.commit_hold((&row.cluster, &row.id), None, &by);
    assert!(matches!(commit().await.unwrap(), HoldCommand::Refused(row) if row.state == HoldState::Pending));
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    let active = store.hold(&row.cluster, &row.id).await.unwrap().unwrap();
    assert_eq!((active.state, &active.status), (HoldState::Active, &ready(&row.id)));
    assert!(active.version > row.version);
    let committed = done(commit().await.unwrap());
    assert_eq!(committed.state, HoldState::Committed);
    assert_eq!(done(commit().await.unwrap()).version, committed.version, "repeating it changes nothing");
    // The owner ends no committed hold, and writes where its room is.
    store.write_hold(&lease, &ended(&row.id, HoldState::Expired, "late")).await.unwrap();
    assert_eq!(state(store, &row).await, HoldState::Committed);
    store
        .write_hold(&lease, &HoldStatusRow { ready: false, message: "lost".to_owned(), ..ready(&row.id) })
        .await
        .unwrap();
    let read = store.hold(&row.cluster, &row.id).await.unwrap().unwrap();
    assert_eq!((read.state, read.status.message.as_str()), (HoldState::Committed, "lost"));
    assert_eq!(
        store.commit_hold((&row.cluster, "unheard-of"), None, &creator(&row)).await.unwrap(),
        HoldCommand::Unknown
    );
    assert_eq!(
        store.commit_hold(("another-cluster", &row.id), None, &creator(&row)).await.unwrap(),
        HoldCommand::Unknown
    );
}

async fn a_released_hold_stays_released(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let row = created(store, &new(scope, "r1")).await;
    let by = creator(&row);
    let release = || store.release_hold((&row.cluster, &row.id), None, &by);
    let released = done(release().await.unwrap());
    assert_eq!((released.state, released.ended_ms.is_some()), (HoldState::Released, true));
    assert_eq!(done(release().await.unwrap()).version, released.version);
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    assert_eq!(
        store.hold(&row.cluster, &row.id).await.unwrap().unwrap().status,
        HoldStatusRow { id: row.id.clone(), ..Default::default() }
    );
    let commit = store.commit_hold((&row.cluster, &row.id), None, &creator(&row)).await.unwrap();
    assert!(matches!(commit, HoldCommand::Refused(row) if row.state == HoldState::Released));
    // The same request finds it, and creates no other one.
    assert_eq!(created(store, &new(scope, "r1")).await.state, HoldState::Released);
    assert_eq!(
        store.release_hold((&row.cluster, "unheard-of"), None, &creator(&row)).await.unwrap(),
        HoldCommand::Unknown
    );
}

/// What the audit log says of the holds of a cluster, oldest first.
async fn audited(store: &dyn Store, scope: &Scope) -> Vec<(String, String, String)> {
    let mut rows = store.read_audit(1_000, None).await.unwrap();
    rows.reverse();
    let entries = rows.into_iter().map(|row| row.entry).filter(|entry| entry.scope.contains(name(scope)));
    entries.map(|entry| (entry.who, entry.what, entry.detail)).collect()
}

async fn only_its_creator_and_an_admin_change_a_hold(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let row = created(store, &new(scope, "r1")).await;
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    let hold = (&*row.cluster, &*row.id);
    let stranger = HoldCaller { name: format!("{}-stranger", row.client), ..HoldCaller::default() };
    let admin = HoldCaller { is_admin: true, name: format!("{}-admin", row.client), ..HoldCaller::default() };
    let is_refused = |answer| matches!(answer, HoldCommand::OtherClient(_));
    assert!(is_refused(store.commit_hold(hold, None, &stranger).await.unwrap()));
    assert!(is_refused(store.release_hold(hold, None, &stranger).await.unwrap()));
    assert_eq!(state(store, &row).await, HoldState::Active);
    done(store.commit_hold(hold, None, &creator(&row)).await.unwrap());
    // The same again, as after a lost answer, is written once.
    done(store.commit_hold(hold, None, &creator(&row)).await.unwrap());
    done(store.release_hold(hold, None, &admin).await.unwrap());
    let (client, id) = (&row.client, &row.id);
    let line = |who: &str, what: &str, detail: String| (who.to_owned(), what.to_owned(), detail);
    let expected = [
        line(client, "create-hold", format!("hold {id}")),
        line(client, "commit-hold", format!("hold {id}")),
        line(&admin.name, "release-hold", format!("hold {id} of {client}")),
    ];
    assert_eq!(audited(store, scope).await, expected);
}

async fn who_commits_a_hold_of_another_pays_for_it(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let one_hold = HoldQuota { holds: Some(1), price: Some(5_000) };
    let asked = |request: &str| NewHold { quota: one_hold, ..new(scope, request) };
    let row = created(store, &asked("r1")).await;
    assert_eq!(store.create_hold(&asked("r2")).await.unwrap(), HoldCreation::TooManyHolds(1));
    // Its nodes cost 3,000.
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    let admin = |quota| HoldCaller { is_admin: true, name: format!("{}-admin", row.client), quota };
    let commit = async |quota| store.commit_hold((&row.cluster, &row.id), None, &admin(quota)).await.unwrap();
    let most = |holds, price| HoldQuota { holds, price };
    assert_eq!(commit(most(Some(0), None)).await, HoldCommand::TooManyHolds(0));
    assert_eq!(commit(most(None, Some(2_999))).await, HoldCommand::TooExpensive(3_000));
    assert_eq!(state(store, &row).await, HoldState::Active);
    done(commit(most(Some(1), Some(3_000))).await);
    // It counts for the admin now, and for its creator no more.
    created(store, &asked("r2")).await;
    let of_admin = NewHold {
        client: admin(HoldQuota::default()).name,
        id: format!("{}-of-admin", row.id),
        quota: most(Some(1), None),
        ..new(scope, "r1")
    };
    assert_eq!(store.create_hold(&of_admin).await.unwrap(), HoldCreation::TooManyHolds(1));
}

async fn another_version_is_told(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let row = created(store, &new(scope, "r1")).await;
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    let old = Some(row.version);
    let now = Some(store.hold(&row.cluster, &row.id).await.unwrap().unwrap().version);
    let other = |answer| matches!(answer, HoldCommand::OtherVersion(_));
    assert!(other(store.commit_hold((&row.cluster, &row.id), old, &creator(&row)).await.unwrap()));
    assert!(other(store.release_hold((&row.cluster, &row.id), old, &creator(&row)).await.unwrap()));
    assert_eq!(state(store, &row).await, HoldState::Active);
    let committed = done(store.commit_hold((&row.cluster, &row.id), now, &creator(&row)).await.unwrap());
    done(store.release_hold((&row.cluster, &row.id), Some(committed.version), &creator(&row)).await.unwrap());
}

async fn a_hold_is_over_at_its_end_whether_its_owner_knows_or_not(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let row = created(store, &NewHold { ttl_ms: 0, ..new(scope, "r1") }).await;
    assert_eq!(state(store, &row).await, HoldState::Expired);
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    assert_eq!(state(store, &row).await, HoldState::Expired);
    assert!(matches!(
        store.commit_hold((&row.cluster, &row.id), None, &creator(&row)).await.unwrap(),
        HoldCommand::Refused(_)
    ));
    // Its machines have to be removed, so the owner still gets it.
    let is_live = |live: &store::holds::LiveHolds| live.holds.iter().any(|one| one.id == row.id);
    assert!(is_live(&store.live_holds().await.unwrap()));
    store.write_hold(&lease, &ended(&row.id, HoldState::Expired, "it was not committed in time")).await.unwrap();
    assert!(!is_live(&store.live_holds().await.unwrap()));
    assert_eq!(state(store, &row).await, HoldState::Expired);
    // It counts no more.
    let next = NewHold { quota: HoldQuota { holds: Some(1), price: None }, ..new(scope, "r2") };
    created(store, &next).await;
}

async fn a_decision_writes_the_room_of_a_hold_with_its_launches(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let row = created(store, &new(scope, "r1")).await;
    let entry = Entry { holds: vec![ready(&row.id)], ..launching(1, &[super::intent("m-1", 1)]) };
    store.record_decision(&lease, &entry).await.unwrap();
    assert_eq!(state(store, &row).await, HoldState::Active);
    // A repetition undoes nothing that was written since.
    store.write_hold(&lease, &HoldStatusRow { ready: false, ..ready(&row.id) }).await.unwrap();
    store.record_decision(&lease, &entry).await.unwrap();
    assert_eq!(state(store, &row).await, HoldState::Pending);
}

async fn live_holds_come_back_with_the_lease(store: &dyn Store, scope: &Scope) {
    let (lease, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.holds.holds, []);
    let [kept, released, failed] = [
        created(store, &new(scope, "r1")).await,
        created(store, &new(scope, "r2")).await,
        created(store, &new(scope, "r3")).await,
    ];
    store.write_hold(&lease, &ready(&kept.id)).await.unwrap();
    done(store.release_hold((&released.cluster, &released.id), None, &creator(&released)).await.unwrap());
    store.write_hold(&lease, &ended(&failed.id, HoldState::Failed, "no capacity")).await.unwrap();
    let read = store.hold(&failed.cluster, &failed.id).await.unwrap().unwrap();
    assert_eq!((read.state, read.status.message.as_str()), (HoldState::Failed, "no capacity"));
    let (_, next) = granted(store, scope, "a", HOUR).await;
    assert_eq!(next.holds.holds.iter().map(|row| &row.id).collect::<Vec<_>>(), [&kept.id]);
    assert_eq!(next.holds.holds[0].status, ready(&kept.id));
    assert!(next.holds.read > open.holds.read, "a later list has a higher number");
}

async fn a_replica_that_lost_its_lease_changes_no_hold(store: &dyn Store, scope: &Scope) {
    let (lost, _) = lost_and_held(store, scope).await;
    let row = created(store, &new(scope, "r1")).await;
    refused(store.write_hold(&lost, &ready(&row.id)).await);
    assert_eq!(state(store, &row).await, HoldState::Pending);
}

async fn an_owner_changes_no_hold_of_another_cluster(store: &dyn Store, [one, other]: [&Scope; 2]) {
    let (lease, _) = granted(store, one, "a", HOUR).await;
    granted(store, other, "b", HOUR).await;
    let row = created(store, &new(other, "r1")).await;
    store.write_hold(&lease, &ended(&row.id, HoldState::Failed, "not mine")).await.unwrap();
    assert_eq!(state(store, &row).await, HoldState::Pending);
}

async fn a_forgotten_cluster_has_no_live_hold(store: &dyn Store, scope: &Scope) {
    granted(store, scope, "a", HOUR).await;
    let row = created(store, &new(scope, "r1")).await;
    assert_eq!(store.forget_cluster(name(scope), "op", false).await.unwrap(), ForgetOutcome::Forgotten);
    let read = store.hold(&row.cluster, &row.id).await.unwrap().unwrap();
    assert_eq!((read.state, read.status.message.as_str()), (HoldState::Failed, "the cluster was forgotten"));
}

async fn commands_of_clients_are_announced(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let (mut changes, present) = watch_changes(store).await;
    let row = created(store, &new(scope, "r1")).await;
    let known = wait_for_change(&mut changes, |changes| changes.holds > present.holds).await;
    store.write_hold(&lease, &ready(&row.id)).await.unwrap();
    done(store.commit_hold((&row.cluster, &row.id), None, &creator(&row)).await.unwrap());
    let known = wait_for_change(&mut changes, |changes| changes.holds > known.holds).await;
    done(store.release_hold((&row.cluster, &row.id), None, &creator(&row)).await.unwrap());
    wait_for_change(&mut changes, |changes| changes.holds > known.holds).await;
}
