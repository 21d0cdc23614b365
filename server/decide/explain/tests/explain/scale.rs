//! Many equivalent pods share one explanation.

use crate::fixture::{Fixture, asks, pool};

#[test]
fn ten_thousand_failed_replicas_share_one_explanation() {
    let fixture = Fixture::new().pool(pool("general")).pods(10_000, "big", asks(9000, 1));
    let explained = fixture.explained();
    assert_eq!(explained.len(), 10_000);
    let first = &explained[0];
    assert!(explained.iter().zip(0..).all(|(one, pod)| one.pod == pod && one.reasons == first.reasons));
    assert_eq!(*first.fits_if, ["fits if cpu is at most 7.91"]);
}

#[test]
fn pods_with_different_waiting_times_get_separate_explanations() {
    let mut general = pool("general");
    general.rules.spot_fallback_after = Some(model::Millis::from_mins(1));
    let shape = crate::fixture::selecting(asks(500, 1), "topology.kubernetes.io/zone", "b");
    let mut fixture = Fixture::new().pool(general).pods(2, "web", shape);
    fixture.input.now = model::Timestamp::from_millis(60_000);
    fixture.input.pods[0].created = Some(model::Timestamp::from_millis(30_000));
    fixture.input.pods[1].created = Some(model::Timestamp::from_millis(40_000));
    let left: Vec<bool> = fixture
        .explained()
        .iter()
        .zip(["30s", "40s"])
        .map(|(one, left)| one.reasons[0].message.contains(&format!("another {left} ")))
        .collect();
    assert_eq!(left, [true, true]);
}

#[test]
fn pods_of_a_stateful_set_share_one_explanation_although_each_has_a_label_of_its_own() {
    let mut fixture = Fixture::new().pool(pool("general")).pods(150, "db", asks(9000, 1));
    for pod in &mut fixture.input.pods {
        let mut labels = fixture.input.label_sets[pod.labels as usize].clone();
        labels.insert("statefulset.kubernetes.io/pod-name".into(), pod.name.clone());
        pod.labels = u32::try_from(fixture.input.label_sets.len()).unwrap();
        fixture.input.label_sets.push(labels);
    }
    // Relaxations are computed for at most a hundred kinds of pods; here there is one.
    assert!(fixture.explained().iter().all(|one| *one.fits_if == ["fits if cpu is at most 7.91"]));
}
