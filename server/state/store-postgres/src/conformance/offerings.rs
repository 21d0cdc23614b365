//! Replicas share what the cloud refuses, and probe it one at a time.

use std::time::Duration;

use store::offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer};
use store::{Store, clock};

use super::HOUR;

pub(super) async fn all(store: &dyn Store, run: &str) {
    the_later_exclusion_is_kept_and_every_change_is_announced(store, &format!("{run}-east-1")).await;
    a_success_is_read_as_a_change(store, &format!("{run}-east-2")).await;
    a_refusal_for_one_account_concerns_no_other(store, &format!("{run}-east-3")).await;
    one_of_two_holders_gets_a_probe(store, &format!("{run}-west-1")).await;
    nobody_probes_before_the_exclusion_ends_or_without_a_refusal(store, &format!("{run}-west-2")).await;
    an_outcome_ends_the_probe(store, &format!("{run}-west-3")).await;
}

fn key(zone: &str) -> OfferingKey {
    OfferingKey {
        account: None,
        instance_type: "m7g.large".to_owned(),
        zone: zone.to_owned(),
        capacity_type: "spot".to_owned(),
        size: 1,
    }
}

/// Refused `failures` times, the last time a minute before the exclusion ends.
fn refused(zone: &str, failures: u32, until_ms: i64) -> OfferingRow {
    let reason = "InsufficientInstanceCapacity".to_owned();
    OfferingRow { key: key(zone), failures, refused_ms: until_ms - 60_000, until_ms, reason, version: 0 }
}

async fn change(store: &dyn Store, region: &str, changes: &[OfferingChange]) {
    store.change_offerings(region, changes).await.unwrap();
}

async fn read(store: &dyn Store, region: &str) -> Vec<OfferingRow> {
    store.unavailable_offerings(region, "123", HOUR).await.unwrap()
}

/// Zone, refusals in a row and end of the exclusion.
fn facts(rows: &[OfferingRow]) -> Vec<(&str, u32, i64)> {
    rows.iter().map(|row| (row.key.zone.as_str(), row.failures, row.until_ms)).collect()
}

async fn claim(store: &dyn Store, region: &str, zone: &str, holder: &str, lease: Duration) -> ProbeAnswer {
    store.claim_offering_probes(region, &[key(zone)], holder, lease).await.unwrap()[0]
}

async fn the_later_exclusion_is_kept_and_every_change_is_announced(store: &dyn Store, region: &str) {
    let now = clock::now().as_millis();
    let (soon, later) = (now + 600_000, now + 900_000);
    let refusal = |zone, failures, until| OfferingChange::Refused(refused(zone, failures, until));
    let (mut changes, known) = super::watch_changes(store).await;
    let first = [refusal("b", 2, later), refusal("a", 1, soon)];
    change(store, region, &first).await;
    let known = super::wait_for_change(&mut changes, |changes| changes.offerings > known.offerings).await;
    let before = read(store, region).await;
    assert_eq!(facts(&before), [("a", 1, soon), ("b", 2, later)]);
    change(store, region, &first).await;
    assert_eq!(read(store, region).await, before, "a repetition changes nothing");
    // Of two changes of one offering in a call the last counts.
    change(store, region, &[refusal("b", 1, soon), refusal("a", 1, soon), refusal("a", 2, later)]).await;
    super::wait_for_change(&mut changes, |changes| changes.offerings > known.offerings).await;
    let after = read(store, region).await;
    assert_eq!(facts(&after), [("a", 2, later), ("b", 2, later)], "the later end is kept");
    assert!(after[0].version > before[0].version && after[1].version == before[1].version, "{before:?} {after:?}");
    assert_eq!(read(store, &format!("{region}-other")).await, []);
}

async fn a_success_is_read_as_a_change(store: &dyn Store, region: &str) {
    let until = clock::now().as_millis() + 600_000;
    let (mut changes, known) = super::watch_changes(store).await;
    change(store, region, &[OfferingChange::Cleared(key("a"))]).await;
    assert_eq!(read(store, region).await, [], "it was never refused");
    change(store, region, &[OfferingChange::Refused(refused("a", 3, until))]).await;
    let known = super::wait_for_change(&mut changes, |changes| changes.offerings > known.offerings).await;
    let before = read(store, region).await;
    change(store, region, &[OfferingChange::Cleared(key("a"))]).await;
    super::wait_for_change(&mut changes, |changes| changes.offerings > known.offerings).await;
    let after = read(store, region).await;
    assert_eq!((after[0].failures, after[0].refused_ms), (0, before[0].refused_ms));
    assert!(after[0].until_ms < until && after[0].version > before[0].version, "{before:?} {after:?}");
    // The next refusal begins anew, although its exclusion ends before the earlier one would have.
    change(store, region, &[OfferingChange::Refused(refused("a", 1, until - 300_000))]).await;
    assert_eq!(facts(&read(store, region).await), [("a", 1, until - 300_000)]);
}

async fn a_refusal_for_one_account_concerns_no_other(store: &dyn Store, region: &str) {
    let until = clock::now().as_millis() + 600_000;
    let quota =
        OfferingRow { key: OfferingKey { account: Some("123".to_owned()), ..key("a") }, ..refused("a", 1, until) };
    change(store, region, &[OfferingChange::Refused(quota), OfferingChange::Refused(refused("b", 1, until))]).await;
    let of = async |account: &str| {
        let rows = store.unavailable_offerings(region, account, HOUR).await.unwrap();
        rows.into_iter().map(|row| row.key.zone).collect::<Vec<_>>()
    };
    assert_eq!(of("123").await, ["b", "a"], "those of all accounts first");
    assert_eq!(of("456").await, ["b"]);
    let none = store.unavailable_offerings(region, "123", Duration::ZERO).await.unwrap();
    assert_eq!(none, [], "none has changed since");
}

async fn one_of_two_holders_gets_a_probe(store: &dyn Store, region: &str) {
    let ended = clock::now().as_millis() - 1_000;
    let both = ["a", "b"].map(|zone| OfferingChange::Refused(refused(zone, 1, ended)));
    change(store, region, &both).await;
    let keys = [key("b"), key("a")];
    let claims = ["one", "two"].map(|holder| store.claim_offering_probes(region, &keys, holder, HOUR));
    let [one, two] = claims;
    let (one, two) = futures::join!(one, two);
    let (one, two) = (one.unwrap(), two.unwrap());
    let granted = |answers: &[ProbeAnswer]| answers.iter().all(|answer| *answer == ProbeAnswer::Granted);
    assert!(granted(&one) != granted(&two), "{one:?} {two:?}");
    let (winner, loser) = if granted(&one) { ("one", "two") } else { ("two", "one") };
    assert_eq!(claim(store, region, "a", loser, HOUR).await, ProbeAnswer::Denied);
    // The holder extends it, here to a moment that has passed at the next call: then the other one gets it.
    assert_eq!(claim(store, region, "a", winner, Duration::ZERO).await, ProbeAnswer::Granted);
    assert_eq!(claim(store, region, "a", loser, HOUR).await, ProbeAnswer::Granted, "the lease has ended");
    assert_eq!(claim(store, region, "a", winner, HOUR).await, ProbeAnswer::Denied);
    // Only its holder gives a probe back.
    let release = |holder: &str| OfferingChange::ProbeReleased { key: key("a"), holder: holder.to_owned() };
    change(store, region, &[release(winner)]).await;
    assert_eq!(claim(store, region, "a", winner, HOUR).await, ProbeAnswer::Denied);
    change(store, region, &[release(loser)]).await;
    assert_eq!(claim(store, region, "a", winner, HOUR).await, ProbeAnswer::Granted);
    assert_eq!(facts(&read(store, region).await), [("a", 1, ended), ("b", 1, ended)], "probes are no outcomes");
}

async fn nobody_probes_before_the_exclusion_ends_or_without_a_refusal(store: &dyn Store, region: &str) {
    let now = clock::now().as_millis();
    let rows = [refused("a", 1, now + 600_000), refused("b", 1, now - 1_000), refused("c", 1, now - 1_000)];
    change(store, region, &rows.map(OfferingChange::Refused)).await;
    change(store, region, &[OfferingChange::Cleared(key("b"))]).await;
    let keys = ["a", "b", "c", "d"].map(key);
    let answers = store.claim_offering_probes(region, &keys, "one", HOUR).await.unwrap();
    let expected = [ProbeAnswer::Denied, ProbeAnswer::Absent, ProbeAnswer::Granted, ProbeAnswer::Absent];
    assert_eq!(answers, expected);
}

async fn an_outcome_ends_the_probe(store: &dyn Store, region: &str) {
    let now = clock::now().as_millis();
    change(store, region, &[OfferingChange::Refused(refused("a", 1, now - 2_000))]).await;
    assert_eq!(claim(store, region, "a", "one", HOUR).await, ProbeAnswer::Granted);
    // Refused again; this exclusion has ended as well.
    change(store, region, &[OfferingChange::Refused(refused("a", 2, now - 1_000))]).await;
    assert_eq!(claim(store, region, "a", "two", HOUR).await, ProbeAnswer::Granted);
    change(store, region, &[OfferingChange::Cleared(key("a"))]).await;
    change(store, region, &[OfferingChange::Refused(refused("a", 1, now - 1_000))]).await;
    assert_eq!(claim(store, region, "a", "one", HOUR).await, ProbeAnswer::Granted);
}
