//! Decisions by plans of disruption replay bit for bit from the log alone, and a change of the log is found.

#[path = "../../../../decide/disruption/tests/disruption/properties/clusters.rs"]
#[expect(dead_code, reason = "the crate disruption uses the rest")]
mod clusters;
mod log;
#[path = "../../../../decide/disruption/tests/disruption/objects.rs"]
#[expect(dead_code, reason = "the crate disruption uses the rest")]
mod objects;
mod size;
mod what_if;

use decision_log::replay::{LogReader, RecordedPlan};
use disruption::Settings;
use model::MicroUsd;
use store::Archive;

use clusters::Cluster;
use log::{Log, captured};
use objects::{node, pod, pool, two_nodes};

/// A `big` with one pod of one CPU, which a `box` has room for: the removal saves 0.40.
fn not_needed() -> String {
    pool("default").text() + &two_nodes(&node("n-1", "big"), &pod("web-1", "n-1", "1"))
}

#[tokio::test]
async fn random_plans_of_disruption_are_recorded_and_replay_bit_for_bit() {
    let (log, mut made) = (Log::new().await, Vec::new());
    for number in 1..=150 {
        let cluster = Cluster::random(number, number % 3 > 0);
        let captured = captured(&cluster.text());
        let planned = log.decide(number, &captured, &cluster.settings).await;
        made.push((number, captured, cluster.settings, planned));
    }
    for (number, captured, settings, planned) in &made {
        let recorded = log.load(*number).await;
        let RecordedPlan::Disruption { request, answer } = &recorded.planned else {
            panic!("{number}: a plan of pods")
        };
        assert_eq!(&recorded.input, &captured.input, "{number}");
        assert_eq!((&request.running, &request.settings), (&captured.running, settings), "{number}");
        assert_eq!((&answer.plan, &answer.commands), (&planned.plan, &planned.commands), "{number}");
        assert_eq!((&answer.cost, &answer.notes), (&planned.cost, &planned.notes), "{number}");
        let held: Vec<u32> = answer.held.iter().map(|(node, _)| *node).collect();
        assert_eq!(held, planned.held.iter().map(|held| held.node).collect::<Vec<_>>(), "{number}");
        let outcome = recorded.replay();
        assert!(outcome.is_identical(), "{number}: {outcome:?}");
    }
    let changing = made.iter().filter(|(.., planned)| !planned.commands.is_empty()).count();
    let launching = made.iter().filter(|(.., planned)| !planned.plan.nodes.is_empty()).count();
    assert!(changing > 75 && launching > 20, "{changing} of the clusters have commands, {launching} launches");
}

#[tokio::test]
async fn plans_of_pods_and_of_disruption_do_not_mix_in_a_segment() {
    let log = Log::new().await;
    let captured = captured(&not_needed());
    let _planned = log.decide(1, &captured, &Settings::default()).await;
    log.provision(2, &captured).await;
    let _planned = log.decide(3, &captured, &Settings::default()).await;
    log.provision(4, &captured).await;
    let mut positions = Vec::new();
    for number in 1..=4 {
        let recorded = log.load(number).await;
        assert!(recorded.replay().is_identical(), "{number}");
        let replay = recorded.stored.decision.replay.unwrap();
        positions.push((replay.segment, replay.sequence));
    }
    assert_eq!(positions, [(1, 1), (2, 1), (1, 2), (2, 2)]);
    // The same input again is a few bytes: a format, a number, a checksum, one range.
    let segment = log.store.log_segment(&log.lease.scope, 1).await.unwrap().unwrap();
    assert!(segment.chunks[1].bytes.len() < 32, "{}", segment.chunks[1].bytes.len());
}

#[tokio::test]
async fn sabotage_a_setting_that_is_changed_in_the_log_is_found() {
    let log = Log::new().await;
    let captured = captured(&not_needed());
    let planned = log.decide(1, &captured, &Settings::default()).await;
    assert_eq!(planned.commands.len(), 1);
    assert!(log.load(1).await.replay().is_identical());

    // As if the log said that a removal must save more than 0.50 an hour.
    let mut recorded = log.load(1).await;
    let RecordedPlan::Disruption { request, .. } = &mut recorded.planned else { panic!("a plan of pods") };
    request.settings.min_savings = MicroUsd(500_000);
    let outcome = recorded.replay();
    assert_eq!(outcome.plan.as_deref(), Some("commands: then 1; now 0"), "{outcome:?}");

    // As if a PodDisruptionBudget were on the pod.
    let mut recorded = log.load(1).await;
    let RecordedPlan::Disruption { request, .. } = &mut recorded.planned else { panic!("a plan of pods") };
    request.running.nodes[0].do_not_disrupt = Some(model::removal::DoNotDisrupt::Always);
    assert!(recorded.replay().plan.is_some());
}

#[tokio::test]
async fn sabotage_a_byte_that_is_changed_in_the_log_is_found() {
    let log = Log::new().await;
    let captured = captured(&not_needed());
    let _planned = log.decide(1, &captured, &Settings::default()).await;
    let whole = log.store.decision(1).await.unwrap().remove(0);
    let size = whole.decision.replay.as_ref().unwrap().plan.len();
    for at in 0..size {
        let mut stored = whole.clone();
        let replay = stored.decision.replay.as_mut().unwrap();
        replay.plan[at] ^= 1;
        // What no digest of the log agrees with any more.
        replay.plan_digest[at % 32] ^= 1;
        match LogReader::new(&log.store).load(stored).await {
            Ok(recorded) => assert!(!recorded.replay().is_identical(), "byte {at}"),
            Err(error) => assert!(error.to_string().contains("was changed after it was written"), "byte {at}: {error}"),
        }
    }
}
