use agent::Seen;
use serde_json::json;

use super::*;
use crate::seen::pod;
use crate::seen::shape::Shared;

fn standing(name: &str) -> Guest {
    Guest { name: name.into(), uid: name.into(), grace_ms: Some(30_000), ..Guest::default() }
}

fn names(guests: &[&Guest]) -> Vec<String> {
    guests.iter().map(|guest| guest.name.clone()).collect()
}

fn deleted(step: &Step<'_>) -> Vec<(String, i64)> {
    step.delete.iter().map(|(guest, seconds)| (guest.name.clone(), *seconds)).collect()
}

#[test]
fn groups_go_one_after_the_other_and_the_critical_ones_last() {
    let mut guests = vec![
        Guest { critical: true, daemon: true, ..standing("critical daemon") },
        Guest { critical: true, ..standing("critical") },
        Guest { daemon: true, ..standing("daemon") },
        standing("ordinary"),
    ];
    for expected in ["ordinary", "daemon", "critical", "critical daemon"] {
        let evicted = names(&step(&guests, 0, None).evict);
        assert_eq!(evicted, [expected]);
        guests.retain(|guest| guest.name != expected);
    }
    assert_eq!(step(&guests, 0, None), Step::default());
}

#[test]
fn a_group_waits_until_the_one_before_is_gone_and_not_only_evicted() {
    let guests = [Guest { gone_by: Some(50_000), ..standing("leaving") }, Guest { daemon: true, ..standing("daemon") }];
    let step = step(&guests, 0, None);
    assert!(step.evict.is_empty());
    assert_eq!(names(&step.waits_for), ["leaving", "daemon"]);
}

#[test]
fn a_protected_pod_is_waited_for_and_never_evicted_before_the_deadline() {
    let guests = [Guest { do_not_disrupt: true, ..standing("protected") }];
    assert!(step(&guests, 0, None).evict.is_empty());
    assert_eq!(names(&step(&guests, 0, None).waits_for), ["protected"]);
    // Its grace is 30 s, the deadline is at 100 s: at 70 s it still fits, a millisecond later it does not.
    assert!(step(&guests, 70_000, Some(100_000)).delete.is_empty());
    // 100,000 − 70,001 = 29,999 ms are 29 whole seconds.
    assert_eq!(deleted(&step(&guests, 70_001, Some(100_000))), [("protected".to_owned(), 29)]);
}

#[test]
fn at_the_deadline_every_group_goes_at_once_with_one_second() {
    let guests = [standing("ordinary"), Guest { critical: true, daemon: true, ..standing("critical daemon") }];
    let at_the_end = step(&guests, 100_000, Some(100_000));
    assert_eq!(deleted(&at_the_end), [("ordinary".to_owned(), 1), ("critical daemon".to_owned(), 1)]);
    assert!(at_the_end.evict.is_empty(), "what is deleted is not evicted as well");
    assert_eq!(deleted(&step(&guests, 500_000, Some(100_000)))[0].1, 1);
}

#[test]
fn a_pod_that_is_leaving_is_hurried_only_when_it_would_be_late() {
    let leaving = |gone_by| [Guest { gone_by: Some(gone_by), ..standing("leaving") }];
    assert!(step(&leaving(100_000), 40_000, Some(100_000)).delete.is_empty());
    assert_eq!(deleted(&step(&leaving(100_001), 40_000, Some(100_000))), [("leaving".to_owned(), 60)]);
}

#[test]
fn a_pod_without_a_grace_of_its_own_is_never_deleted_by_force() {
    let guests = [Guest { grace_ms: None, ..standing("odd") }];
    assert!(step(&guests, 200_000, Some(100_000)).delete.is_empty());
    assert_eq!(names(&step(&guests, 200_000, Some(100_000)).evict), ["odd"]);
}

fn read(json: serde_json::Value) -> Guest {
    // 2026-01-01T00:00:00Z is 1,767,225,600 s after 1970.
    let row = pod::read(&json.to_string(), &mut Shared::default()).unwrap();
    let Seen::Pod { record, shape, volume_claims, .. } = row.seen else { panic!("no pod") };
    guest(&record, &shape, volume_claims.as_ref(), 1_767_225_600_000)
}

#[test]
fn who_stays_is_told_from_the_pod() {
    assert!(!read(json!({ "status": { "phase": "Running" } })).stays);
    assert!(read(json!({ "status": { "phase": "Succeeded" } })).stays);
    assert!(read(json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } })).stays);
    let tolerates = |toleration| read(json!({ "spec": { "tolerations": [toleration] } })).stays;
    assert!(tolerates(json!({ "operator": "Exists" })));
    assert!(tolerates(json!({ "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule" })));
    assert!(!tolerates(json!({ "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute" })));
    assert!(!tolerates(json!({ "key": "another", "operator": "Exists" })));
    // Stuck: it should have been gone 60 s ago or less, or more.
    let leaving = |moment: &str| read(json!({ "metadata": { "deletionTimestamp": moment } })).stays;
    assert!(!leaving("2025-12-31T23:59:00Z"));
    assert!(leaving("2025-12-31T23:58:59Z"));
}

#[test]
fn protection_is_for_ever_for_a_time_from_the_start_or_not_at_all() {
    let protected = |value: &str, started: Option<&str>| {
        let status = started.map_or(json!({}), |moment| json!({ "startTime": moment }));
        let annotations = json!({ "karpenter.sh/do-not-disrupt": value });
        read(json!({ "metadata": { "annotations": annotations }, "status": status })).do_not_disrupt
    };
    assert!(protected("true", None));
    assert!(!protected("yes", None) && !protected("-5m", None) && !protected("0s", None) && !protected("", None));
    assert!(protected("1h30m", None), "it has not started");
    // Started 90 minutes before the moment, and a second later.
    assert!(!protected("1h30m", Some("2025-12-31T22:30:00Z")));
    assert!(protected("1h30m", Some("2025-12-31T22:30:01Z")));
}

#[test]
fn the_rest_is_read_from_the_specification() {
    let guest = read(json!({
        "metadata": { "name": "db-0", "ownerReferences": [{ "kind": "DaemonSet", "controller": true }] },
        "spec": {
            "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 5,
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } },
                        { "name": "scratch", "ephemeral": {} }, { "name": "conf", "configMap": { "name": "x" } }],
        },
    }));
    assert!(guest.critical && guest.daemon);
    assert_eq!((guest.grace_ms, guest.claims), (Some(5_000), vec!["data-db-0".to_owned(), "db-0-scratch".to_owned()]));
}
