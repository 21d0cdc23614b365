//! Fleet-wide changes reach every replica.

use store::guardrails::{AuditEntry, Freeze, FreezeOrder, FreezeScope};
use store::lease::Scope;
use store::{Store, clock};

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_freeze_is_announced_at_once_and_audited(store, run).await;
    a_freeze_of_disruption_alone_is_kept_and_audited_as_such(store, run).await;
    a_slow_subscriber_receives_only_the_latest_change(store, run).await;
    a_freeze_with_an_expiry_ends_by_itself(store, run).await;
    audit_is_read_latest_first(store, run).await;
    a_quarantine_release_reaches_every_replica_once(store, &format!("{run}-vouched")).await;
    a_removal_confirmation_reaches_every_replica_once(store, &format!("{run}-confirmed")).await;
}

/// Release counter of `cluster`.
async fn releases(store: &dyn Store, cluster: &str) -> Option<u64> {
    let all = store.quarantine_releases().await.unwrap();
    all.into_iter().find(|(of, _)| of == cluster).map(|(_, number)| number)
}

async fn a_quarantine_release_reaches_every_replica_once(store: &dyn Store, cluster: &str) {
    let (mut changes, known) = super::watch_changes(store).await;
    assert!(!store.release_quarantine(cluster, "kim").await.unwrap(), "it has no lease row");
    assert!(!store.clusters().await.unwrap().iter().any(|name| name == cluster));
    assert_eq!(releases(store, cluster).await, None);
    super::granted(store, &Scope::cluster(cluster), "a", super::HOUR).await;
    assert!(store.clusters().await.unwrap().iter().any(|name| name == cluster), "its lease was taken");
    assert!(store.release_quarantine(cluster, "kim").await.unwrap());
    super::wait_for_change(&mut changes, |changes| changes.releases > known.releases).await;
    assert_eq!(releases(store, cluster).await, Some(1));
    assert!(store.release_quarantine(cluster, "lee").await.unwrap());
    assert_eq!(releases(store, cluster).await, Some(2), "a second order counts again");
    let lines = store.read_audit(1000, None).await.unwrap();
    let scope = format!("cluster/{cluster}");
    let who: Vec<&str> = (lines.iter().map(|row| &row.entry))
        .filter(|line| line.what == "release-quarantine" && line.scope == scope)
        .map(|line| line.who.as_str())
        .collect();
    assert_eq!(who, ["lee", "kim"]);
}

/// Confirmation counter of `cluster`.
async fn confirmations(store: &dyn Store, cluster: &str) -> Option<u64> {
    let all = store.removal_confirmations().await.unwrap();
    all.into_iter().find(|(of, _)| of == cluster).map(|(_, number)| number)
}

async fn a_removal_confirmation_reaches_every_replica_once(store: &dyn Store, cluster: &str) {
    let (mut changes, known) = super::watch_changes(store).await;
    assert!(!store.confirm_removals(cluster, "kim").await.unwrap(), "it has no lease row");
    assert_eq!(confirmations(store, cluster).await, None);
    super::granted(store, &Scope::cluster(cluster), "a", super::HOUR).await;
    assert!(store.confirm_removals(cluster, "kim").await.unwrap());
    super::wait_for_change(&mut changes, |changes| changes.releases > known.releases).await;
    assert!(store.confirm_removals(cluster, "lee").await.unwrap());
    assert_eq!(confirmations(store, cluster).await, Some(2), "a second order counts again");
    assert_eq!(releases(store, cluster).await, None, "its quarantine was not released");
    let lines = store.read_audit(1000, None).await.unwrap();
    let scope = format!("cluster/{cluster}");
    let who: Vec<&str> = (lines.iter().map(|row| &row.entry))
        .filter(|line| line.what == "confirm-removals" && line.scope == scope)
        .map(|line| line.who.as_str())
        .collect();
    assert_eq!(who, ["lee", "kim"]);
}

fn order(scope: FreezeScope, until_ms: Option<i64>) -> FreezeOrder {
    let (by, reason) = ("kim".to_owned(), "change window".to_owned());
    FreezeOrder { scope, only_disruption: false, by, reason, until_ms }
}

/// Freezes of this run: a shared database may hold others.
async fn frozen(store: &dyn Store, ids: &[i64]) -> Vec<Freeze> {
    let freezes = store.freezes().await.unwrap();
    freezes.into_iter().filter(|freeze| ids.contains(&freeze.id)).collect()
}

async fn a_freeze_is_announced_at_once_and_audited(store: &dyn Store, run: &str) {
    let (mut changes, known) = super::watch_changes(store).await;
    let scope = FreezeScope::Pool { cluster: run.to_owned(), pool: "default".to_owned() };
    let id = store.freeze(&order(scope.clone(), None)).await.unwrap();
    let known = super::wait_for_change(&mut changes, |changes| changes.freezes > known.freezes).await;
    assert_eq!(frozen(store, &[id]).await[0].order, order(scope, None));
    assert!(store.thaw(id, "lee").await.unwrap());
    super::wait_for_change(&mut changes, |changes| changes.freezes > known.freezes).await;
    assert_eq!(frozen(store, &[id]).await, []);
    assert!(store.thaw(id, "lee").await.unwrap(), "thawing twice is harmless");
    assert!(!store.thaw(i64::MAX, "lee").await.unwrap(), "there never was such a freeze");
    let lines = store.read_audit(1000, None).await.unwrap();
    let mine = lines.iter().map(|row| &row.entry).filter(|line| line.scope == format!("pool/{run}/default"));
    let mine: Vec<_> = mine.map(|line| (line.who.as_str(), line.what.as_str(), line.detail.as_str())).collect();
    let thaw = format!("freeze {id}");
    assert_eq!(mine, [("lee", "thaw", thaw.as_str()), ("kim", "freeze", "change window")]);
}

async fn a_freeze_of_disruption_alone_is_kept_and_audited_as_such(store: &dyn Store, run: &str) {
    let scope = FreezeScope::Cluster(format!("{run}-only"));
    let only = FreezeOrder { only_disruption: true, ..order(scope.clone(), None) };
    let (one, other) = (store.freeze(&only).await.unwrap(), store.freeze(&order(scope, None)).await.unwrap());
    let kept = frozen(store, &[one, other]).await;
    assert_eq!(kept.iter().map(|freeze| freeze.order.only_disruption).collect::<Vec<_>>(), [true, false]);
    let lines = store.read_audit(1000, None).await.unwrap();
    let mine = lines.iter().map(|row| &row.entry).filter(|line| line.scope == format!("cluster/{run}-only"));
    let details: Vec<&str> = mine.map(|line| line.detail.as_str()).collect();
    assert_eq!(details, ["change window", "only disruption: change window"]);
    for id in [one, other] {
        assert!(store.thaw(id, "lee").await.unwrap());
    }
}

async fn a_slow_subscriber_receives_only_the_latest_change(store: &dyn Store, run: &str) {
    let ((mut slow, before), (mut eager, _)) = (super::watch_changes(store).await, super::watch_changes(store).await);
    let (scope, mut seen) = (FreezeScope::Cluster(format!("{run}-slow")), before.freezes);
    for _ in 0..3 {
        let id = store.freeze(&order(scope.clone(), None)).await.unwrap();
        seen = super::wait_for_change(&mut eager, |changes| changes.freezes > seen).await.freezes;
        assert!(store.thaw(id, "kim").await.unwrap());
        seen = super::wait_for_change(&mut eager, |changes| changes.freezes > seen).await.freezes;
    }
    let next = super::wait_for_change(&mut slow, |_| true).await;
    assert!(next.freezes >= seen, "six changes after {before:?}: {next:?}");
}

async fn a_freeze_with_an_expiry_ends_by_itself(store: &dyn Store, run: &str) {
    let now = clock::now().as_millis();
    let scope = FreezeScope::Cluster(run.to_owned());
    let over = store.freeze(&order(scope.clone(), Some(now - 1))).await.unwrap();
    let lasting = store.freeze(&order(scope, Some(now + 3_600_000))).await.unwrap();
    let fleet = store.freeze(&order(FreezeScope::Fleet, None)).await.unwrap();
    let found: Vec<i64> = frozen(store, &[over, lasting, fleet]).await.iter().map(|freeze| freeze.id).collect();
    assert_eq!(found, [lasting, fleet]);
    for id in [lasting, fleet] {
        store.thaw(id, "kim").await.unwrap();
    }
}

async fn audit_is_read_latest_first(store: &dyn Store, run: &str) {
    let line = |what: &str| AuditEntry {
        at_ms: 1_763_765_432_123,
        who: "kim".to_owned(),
        what: what.to_owned(),
        scope: format!("audit/{run}"),
        detail: "{}".to_owned(),
    };
    for what in ["first", "second", "third"] {
        store.append_audit(&line(what)).await.unwrap();
    }
    let last = store.read_audit(2, None).await.unwrap();
    assert_eq!([&last[0].entry, &last[1].entry], [&line("third"), &line("second")]);
    let before = store.read_audit(1, Some(last[1].id)).await.unwrap();
    assert_eq!(before[0].entry, line("first"));
}
