use agent::Record;
use serde_json::json;

use super::*;
use crate::records::pod;
use crate::records::shape::ShapeInterner;

fn running_pod(name: &str) -> NodePod {
    NodePod { name: name.into(), uid: name.into(), grace_ms: Some(30_000), ..NodePod::default() }
}

fn names(pods: &[&NodePod]) -> Vec<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

fn deleted(step: &DrainStep<'_>) -> Vec<(String, i64)> {
    step.delete.iter().map(|(pod, seconds)| (pod.name.clone(), *seconds)).collect()
}

#[test]
fn groups_go_one_after_the_other_and_the_critical_ones_last() {
    let mut pods = vec![
        NodePod { critical: true, from_daemon_set: true, ..running_pod("critical daemon") },
        NodePod { critical: true, ..running_pod("critical") },
        NodePod { from_daemon_set: true, ..running_pod("daemon") },
        running_pod("ordinary"),
    ];
    for expected in ["ordinary", "daemon", "critical", "critical daemon"] {
        let evicted = names(&plan_step(&pods, 0, None).evict);
        assert_eq!(evicted, [expected]);
        pods.retain(|pod| pod.name != expected);
    }
    assert_eq!(plan_step(&pods, 0, None), DrainStep::default());
}

#[test]
fn a_group_waits_until_the_previous_one_has_terminated() {
    let pods = [
        NodePod { deletion_ms: Some(50_000), ..running_pod("leaving") },
        NodePod { from_daemon_set: true, ..running_pod("daemon") },
    ];
    let step = plan_step(&pods, 0, None);
    assert!(step.evict.is_empty());
    assert_eq!(names(&step.remaining), ["leaving", "daemon"]);
}

#[test]
fn a_protected_pod_is_waited_for_and_never_evicted_before_the_deadline() {
    let pods = [NodePod { do_not_disrupt: true, ..running_pod("protected") }];
    assert!(plan_step(&pods, 0, None).evict.is_empty());
    assert_eq!(names(&plan_step(&pods, 0, None).remaining), ["protected"]);
    // Its grace is 30 s, the deadline is at 100 s: at 70 s it still fits, a millisecond later it
    // does not.
    assert!(plan_step(&pods, 70_000, Some(100_000)).delete.is_empty());
    // 100,000 − 70,001 = 29,999 ms are 29 whole seconds.
    assert_eq!(deleted(&plan_step(&pods, 70_001, Some(100_000))), [("protected".to_owned(), 29)]);
}

#[test]
fn at_the_deadline_every_group_is_deleted_at_once_with_one_second() {
    let pods =
        [running_pod("ordinary"), NodePod { critical: true, from_daemon_set: true, ..running_pod("critical daemon") }];
    let at_the_end = plan_step(&pods, 100_000, Some(100_000));
    assert_eq!(deleted(&at_the_end), [("ordinary".to_owned(), 1), ("critical daemon".to_owned(), 1)]);
    assert!(at_the_end.evict.is_empty(), "what is deleted is not evicted as well");
    assert_eq!(deleted(&plan_step(&pods, 500_000, Some(100_000)))[0].1, 1);
}

#[test]
fn a_pod_that_is_leaving_is_hurried_only_when_it_would_be_late() {
    let leaving = |deletion_ms| [NodePod { deletion_ms: Some(deletion_ms), ..running_pod("leaving") }];
    assert!(plan_step(&leaving(100_000), 40_000, Some(100_000)).delete.is_empty());
    assert_eq!(deleted(&plan_step(&leaving(100_001), 40_000, Some(100_000))), [("leaving".to_owned(), 60)]);
}

#[test]
fn a_pod_without_a_grace_of_its_own_is_never_deleted_by_force() {
    let pods = [NodePod { grace_ms: None, ..running_pod("odd") }];
    assert!(plan_step(&pods, 200_000, Some(100_000)).delete.is_empty());
    assert_eq!(names(&plan_step(&pods, 200_000, Some(100_000)).evict), ["odd"]);
}

fn read(json: serde_json::Value) -> NodePod {
    // 2026-01-01T00:00:00Z is 1,767,225,600 s after 1970.
    let row = pod::parse(&json.to_string(), &mut ShapeInterner::default()).unwrap();
    let Record::Pod { record, shape, volume_claims, .. } = row.record else { panic!("no pod") };
    node_pod(&record, &shape, volume_claims.as_ref(), 1_767_225_600_000)
}

#[test]
fn the_pod_determines_whether_it_is_exempt() {
    assert!(!read(json!({ "status": { "phase": "Running" } })).exempt);
    assert!(read(json!({ "status": { "phase": "Succeeded" } })).exempt);
    assert!(read(json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } })).exempt);
    let tolerates = |toleration| read(json!({ "spec": { "tolerations": [toleration] } })).exempt;
    assert!(tolerates(json!({ "operator": "Exists" })));
    assert!(tolerates(json!({ "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule" })));
    assert!(!tolerates(json!({ "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute" })));
    assert!(!tolerates(json!({ "key": "another", "operator": "Exists" })));
    // Stuck: the pod should have terminated less than 60 s ago, or more.
    let leaving = |moment: &str| read(json!({ "metadata": { "deletionTimestamp": moment } })).exempt;
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
    // Started 90 minutes before the time, and a second later.
    assert!(!protected("1h30m", Some("2025-12-31T22:30:00Z")));
    assert!(protected("1h30m", Some("2025-12-31T22:30:01Z")));
}

#[test]
fn the_rest_is_read_from_the_specification() {
    let pod = read(json!({
        "metadata": { "name": "db-0", "ownerReferences": [{ "kind": "DaemonSet", "controller": true }] },
        "spec": {
            "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 5,
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } },
                        { "name": "scratch", "ephemeral": {} }, { "name": "conf", "configMap": { "name": "x" } }],
        },
    }));
    assert!(pod.critical && pod.from_daemon_set);
    assert_eq!((pod.grace_ms, pod.claims), (Some(5_000), vec!["data-db-0".to_owned(), "db-0-scratch".to_owned()]));
}
