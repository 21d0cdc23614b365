//! Decisions replay bit for bit; modified log data is detected and named; what-if results match
//! hand-computed plans.

mod answers;
mod cost;
mod fixture;
mod removals;
mod running;

use controller::DecisionAnswer;
use model::CapacityType;
use model::plan::{Plan, PlanReport};

use super::RecordedAnswer;
use super::replay::{LogReader, RecordedDecision, RecordedPlan, ReplayError};
use super::replay_all::{self, ReplaySummary};
use super::what_if::WhatIf;
use fixture::{LoggedCluster, catalogue, copy, pods, source};
use store::Archive;
use store::log::LogChunk;

/// A hundred pods are pending; then two others; then the same two with `box` unavailable in one
/// zone.
async fn three_decisions() -> LoggedCluster {
    let cluster = LoggedCluster::new().await;
    cluster.decide(1, &pods(100), |_| {}).await.unwrap();
    cluster.decide(2, &pods(102), |input| drop(input.pods.drain(..100))).await.unwrap();
    let unavailable = |input: &mut model::input::PlanningInput| {
        input.pods.drain(..100);
        let catalogue = std::sync::Arc::make_mut(&mut input.pools[0].catalogue);
        catalogue.types[0].offerings[1].available = false;
    };
    cluster.decide(3, &pods(102), unavailable).await.unwrap();
    cluster
}

#[tokio::test]
async fn the_price_of_the_catalogue_below_an_overlay_is_replayed() {
    let cluster = LoggedCluster::new().await;
    let overlaid = |input: &mut model::input::PlanningInput| {
        let catalogue = std::sync::Arc::make_mut(&mut input.pools[0].catalogue);
        let offering = &mut catalogue.types[0].offerings[1];
        offering.catalogue_price = Some(std::mem::replace(&mut offering.price, model::MicroUsd(0)));
    };
    cluster.decide(1, &pods(1), |_| {}).await.unwrap();
    cluster.decide(2, &pods(1), overlaid).await.unwrap();
    let made = std::mem::take(&mut *cluster.made.lock().unwrap());
    for made in made {
        let stored = cluster.store.decision(made.number).await.unwrap().remove(0);
        let recorded = LogReader::new(&cluster.store).load(stored).await.unwrap();
        assert_eq!(recorded.input, made.basis.input, "decision {}", made.number);
    }
}

fn of_pods(recorded: &RecordedDecision) -> (&Plan, &PlanReport) {
    match &recorded.planned {
        RecordedPlan::Pods { plan, report } => (plan, report),
        other => panic!("no plan of pods: {other:?}"),
    }
}

async fn replay_outcomes(store: &dyn Archive) -> (ReplaySummary, Vec<String>) {
    let decisions = replay_all::read(store, None, 100, |_| true).await.unwrap();
    let mut outcomes = Vec::new();
    let summary = replay_all::replay(store, decisions, |stored, verdict| {
        outcomes.push(replay_all::describe_outcome(stored, verdict))
    })
    .await;
    (summary.unwrap(), outcomes)
}

#[tokio::test]
async fn every_decision_is_replayed_bit_for_bit_from_the_log_alone() {
    let cluster = three_decisions().await;
    let made = std::mem::take(&mut *cluster.made.lock().unwrap());
    for made in made {
        let stored = cluster.store.decision(made.number).await.unwrap().remove(0);
        let recorded = LogReader::new(&cluster.store).load(stored).await.unwrap();
        assert_eq!(recorded.input, made.basis.input);
        let (plan, report) = of_pods(&recorded);
        assert!(made.basis.answer == DecisionAnswer::Pods(Box::new((plan.clone(), report.clone()))));
        assert!(recorded.replay().is_identical());
    }
    let (summary, outcomes) = replay_outcomes(&cluster.store).await;
    assert_eq!(summary, ReplaySummary { identical: 3, ..ReplaySummary::default() });
    assert!(
        outcomes[0].starts_with("replayed decision 1 of cluster blue: input identical, plan identical (sha256"),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_decision_of_a_search_is_replayed_bit_for_bit_with_the_steps_that_it_was_granted() {
    let cluster = LoggedCluster::new().await;
    let grant = |input: &mut model::input::PlanningInput| {
        (input.policy.search_steps, input.policy.nominations) = (300_000, true);
    };
    cluster.decide(1, &pods(100), grant).await.unwrap();
    cluster.decide(2, &pods(100), |_| {}).await.unwrap();
    let stored = cluster.store.decision(1).await.unwrap().remove(0);
    let recorded = LogReader::new(&cluster.store).load(stored).await.unwrap();
    assert_eq!(recorded.input.policy.search_steps, 300_000);
    let report = of_pods(&recorded).1;
    assert!(report.first_cost.is_some_and(|first| first >= report.new_cost));
    assert_eq!(replay_outcomes(&cluster.store).await.0, ReplaySummary { identical: 2, ..ReplaySummary::default() });
}

#[tokio::test]
async fn unchanged_records_are_not_written_again() {
    let cluster = three_decisions().await;
    let segment = cluster.segment(1).await;
    let sizes: Vec<usize> = segment.chunks.iter().map(|chunk| chunk.bytes.len()).collect();
    assert_eq!(segment.chunks.iter().map(|chunk| chunk.last_sequence).collect::<Vec<_>>(), [1, 2, 3]);
    // The third differs from the second by the pool record with the unavailable offering.
    assert!(sizes[2] * 3 < sizes[0], "{sizes:?}");
    let first = cluster.store.decision(1).await.unwrap().remove(0).decision.replay.unwrap();
    let third = cluster.store.decision(3).await.unwrap().remove(0).decision.replay.unwrap();
    assert_eq!(first.catalogues, third.catalogues, "one catalogue, regardless of availability");
}

#[tokio::test]
async fn after_a_failed_write_a_new_segment_begins_without_a_gap() {
    let mut cluster = LoggedCluster::new().await;
    cluster.decide(1, &pods(1), |_| {}).await.unwrap();
    let held = cluster.lease.clone();
    cluster.lease.epoch -= 1;
    assert!(cluster.decide(2, &pods(2), |_| {}).await.is_err(), "the lease is lost");
    cluster.lease = held;
    cluster.decide(3, &pods(3), |_| {}).await.unwrap();
    assert_eq!(cluster.segment(1).await.chunks.len(), 1);
    assert_eq!(cluster.segment(3).await.chunks[0].first_sequence, 1);
    assert_eq!(replay_outcomes(&cluster.store).await.0, ReplaySummary { identical: 2, ..ReplaySummary::default() });
}

#[tokio::test]
async fn a_modified_event_is_named_and_earlier_ones_still_replay() {
    let cluster = three_decisions().await;
    let spoil = |chunk: &mut LogChunk| {
        if chunk.first_sequence == 2 {
            chunk.bytes = super::content::pack(&[1, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    };
    let (summary, outcomes) = replay_outcomes(&copy(&cluster, spoil, |_| {}, |_| {}).await).await;
    assert_eq!(summary, ReplaySummary { identical: 1, unreadable: 2, ..ReplaySummary::default() });
    assert!(outcomes[1].contains("event 2 of segment 1 of the log of cluster/blue was changed"), "{outcomes:?}");
}

#[tokio::test]
async fn a_modified_catalogue_is_named() {
    let cluster = three_decisions().await;
    let hash = cluster.store.decision(1).await.unwrap()[0].decision.replay.as_ref().unwrap().catalogues[0];
    let spoil = |blob: &mut store::log::Blob| {
        if blob.kind == "catalogue" {
            let mut bytes = super::content::unpack(&blob.bytes).unwrap();
            // Any byte: one bit is flipped.
            bytes[100] ^= 1;
            blob.bytes = super::content::pack(&bytes);
        }
    };
    let (summary, outcomes) = replay_outcomes(&copy(&cluster, |_| {}, spoil, |_| {}).await).await;
    assert_eq!(summary, ReplaySummary { unreadable: 3, ..ReplaySummary::default() });
    assert!(outcomes[0].contains(&format!("catalogue {hash} was changed")), "{outcomes:?}");
}

#[tokio::test]
async fn a_modified_time_or_plan_is_reported_as_a_difference() {
    let cluster = three_decisions().await;
    let spoil = |row: &mut store::log::DecisionRow| match (row.number, &mut row.replay) {
        (1, Some(replay)) => replay.stance[1] ^= 2,
        (2, Some(replay)) => {
            let answer = super::writer::decode_recorded(&replay.plan).unwrap();
            let RecordedAnswer::Pods(mut plan, report) = answer else { panic!("{answer:?}") };
            plan.nodes[0].capacity_type = CapacityType::Spot;
            let answer = super::writer::encode_answer(&plan, &report);
            replay.plan = super::content::pack(&answer);
            replay.plan_digest = super::content::hash(&answer).to_vec();
        }
        _ => {}
    };
    let (summary, outcomes) = replay_outcomes(&copy(&cluster, |_| {}, |_| {}, spoil).await).await;
    assert_eq!(summary, ReplaySummary { identical: 1, different: 2, ..ReplaySummary::default() });
    assert!(outcomes[0].contains("input DIFFERENT"), "{outcomes:?}");
    assert!(outcomes[1].contains("plan DIFFERENT (nodes: then general-1 (box in lab-a, spot"), "{outcomes:?}");
}

#[tokio::test]
async fn a_removal_of_an_earlier_release_is_reported_as_not_recorded() {
    let cluster = LoggedCluster::new().await;
    cluster.remove(1).await;
    let stored = cluster.store.decision(1).await.unwrap().remove(0);
    let refused = LogReader::new(&cluster.store).load(stored).await.unwrap_err();
    assert!(matches!(refused, ReplayError::NotRecorded { .. }));
    assert!(
        refused
            .to_string()
            .contains("decision 1 of cluster/blue (empty) cannot be repeated: what it was made from was not recorded"),
        "{refused}"
    );
    assert_eq!(replay_outcomes(&cluster.store).await.0, ReplaySummary { not_recorded: 1, ..ReplaySummary::default() });
}

#[tokio::test]
async fn what_if_replays_report_their_cost() {
    let cluster = LoggedCluster::new().await;
    cluster.decide(1, &pods(2), |_| {}).await.unwrap();
    let stored = cluster.store.decision(1).await.unwrap().remove(0);
    let recorded = LogReader::new(&cluster.store).load(stored).await.unwrap();
    // Two pods of 3 cores; a box has 4 cores, so each needs one: 2 × $0.20.
    let (plan, report) = of_pods(&recorded);
    assert_eq!((plan.nodes.len(), report.new_cost.0), (2, 400_000));
    let otherwise = |alternative: WhatIf| {
        let mut input = recorded.input.clone();
        alternative.apply(&mut input).unwrap();
        let again = planner::plan(&input).unwrap();
        (again.plan.nodes.len(), again.report.new_cost.0)
    };
    // The same pool with spot allowed: 2 × $0.08. The class is not among the manifests: the
    // catalogue is the decision's.
    let spot = WhatIf { manifests: vec![source("pool", fixture::pool("spot"))], ..WhatIf::default() };
    assert_eq!(otherwise(spot), (2, 160_000));
    // A crate has 8 cores and fits both: $0.30.
    let crates = WhatIf { catalogue: Some(catalogue(true)), ..WhatIf::default() };
    assert_eq!(otherwise(crates), (1, 300_000));
    assert_eq!(otherwise(WhatIf::default()), (2, 400_000));
    assert_eq!(recorded.input.pools[0].catalogue.types[0].name, "box");
}
