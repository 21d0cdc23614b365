//! What was decided comes back bit for bit; what was changed since is found and named; what would have been decided
//! otherwise is worked out by hand.

mod cost;
mod world;

use engine::model::{CapacityType, Text};

use super::alternative::Alternative;
use super::every::{self, Tally};
use super::replay::{LogReader, ReplayError};
use crate::store::Archive;
use crate::store::log::LogChunk;
use world::{World, catalogue, copy, pods, source};

/// A hundred pods wait; then two others; then the same two with `box` sold out in one zone.
async fn three_decisions() -> World {
    let world = World::new().await;
    world.decide(1, &pods(100), |_| {}).await.unwrap();
    world.decide(2, &pods(102), |input| drop(input.pods.drain(..100))).await.unwrap();
    let sold_out = |input: &mut engine::input::PlanningInput| {
        input.pods.drain(..100);
        let catalogue = std::sync::Arc::make_mut(&mut input.pools[0].catalogue);
        catalogue.types[0].offerings[1].available = false;
    };
    world.decide(3, &pods(102), sold_out).await.unwrap();
    world
}

async fn said(store: &dyn Archive) -> (Tally, Vec<String>) {
    let decisions = every::read(store, None, 100, |_| true).await.unwrap();
    let mut said = Vec::new();
    let tally = every::replay(store, decisions, |stored, verdict| said.push(every::sentence(stored, verdict))).await;
    (tally.unwrap(), said)
}

#[tokio::test]
async fn every_decision_is_replayed_bit_for_bit_from_the_log_alone() {
    let world = three_decisions().await;
    let made = std::mem::take(&mut *world.made.lock().unwrap());
    for made in made {
        let stored = world.store.decision(made.number).await.unwrap().remove(0);
        let recorded = LogReader::new(&world.store).recall(stored).await.unwrap();
        assert_eq!(recorded.input, made.basis.input);
        assert_eq!((&recorded.plan, &recorded.report), (&made.basis.plan, &made.basis.report));
        assert!(recorded.replay().is_identical());
    }
    let (tally, said) = said(&world.store).await;
    assert_eq!(tally, Tally { identical: 3, ..Tally::default() });
    assert!(
        said[0].starts_with("replayed decision 1 of cluster blue: input identical, plan identical (sha256"),
        "{said:?}"
    );
}

#[tokio::test]
async fn what_has_not_changed_is_not_written_again() {
    let world = three_decisions().await;
    let segment = world.segment(1).await;
    let sizes: Vec<usize> = segment.chunks.iter().map(|chunk| chunk.bytes.len()).collect();
    assert_eq!(segment.chunks.iter().map(|chunk| chunk.last_sequence).collect::<Vec<_>>(), [1, 2, 3]);
    // The third differs from the second by the one pool that says what is sold out.
    assert!(sizes[2] * 3 < sizes[0], "{sizes:?}");
    let first = world.store.decision(1).await.unwrap().remove(0).decision.replay.unwrap();
    let third = world.store.decision(3).await.unwrap().remove(0).decision.replay.unwrap();
    assert_eq!(first.catalogues, third.catalogues, "one catalogue, whatever of it is sold out");
}

#[tokio::test]
async fn after_a_write_that_failed_the_log_begins_anew_and_has_no_hole() {
    let mut world = World::new().await;
    world.decide(1, &pods(1), |_| {}).await.unwrap();
    let held = world.lease.clone();
    world.lease.epoch -= 1;
    assert!(world.decide(2, &pods(2), |_| {}).await.is_err(), "the lease is held no more");
    world.lease = held;
    world.decide(3, &pods(3), |_| {}).await.unwrap();
    assert_eq!(world.segment(1).await.chunks.len(), 1);
    assert_eq!(world.segment(3).await.chunks[0].first_sequence, 1);
    assert_eq!(said(&world.store).await.0, Tally { identical: 2, ..Tally::default() });
}

#[tokio::test]
async fn a_changed_event_is_found_and_named_and_what_came_before_it_still_replays() {
    let world = three_decisions().await;
    let spoil = |chunk: &mut LogChunk| {
        if chunk.first_sequence == 2 {
            chunk.bytes = super::content::pack(&[1, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    };
    let (tally, said) = said(&copy(&world, spoil, |_| {}, |_| {}).await).await;
    assert_eq!(tally, Tally { identical: 1, unreadable: 2, ..Tally::default() });
    assert!(said[1].contains("event 2 of segment 1 of the log of cluster/blue was changed"), "{said:?}");
}

#[tokio::test]
async fn a_changed_catalogue_is_found_and_named() {
    let world = three_decisions().await;
    let hash = world.store.decision(1).await.unwrap()[0].decision.replay.as_ref().unwrap().catalogues[0];
    let spoil = |blob: &mut crate::store::log::Blob| {
        if blob.kind == "catalogue" {
            let mut bytes = super::content::unpack(&blob.bytes).unwrap();
            // The price of some offering, or anything else: one bit.
            bytes[100] ^= 1;
            blob.bytes = super::content::pack(&bytes);
        }
    };
    let (tally, said) = said(&copy(&world, |_| {}, spoil, |_| {}).await).await;
    assert_eq!(tally, Tally { unreadable: 3, ..Tally::default() });
    assert!(said[0].contains(&format!("catalogue {hash} was changed")), "{said:?}");
}

#[tokio::test]
async fn a_changed_moment_or_plan_shows_as_a_difference() {
    let world = three_decisions().await;
    let spoil = |row: &mut crate::store::log::DecisionRow| match (row.number, &mut row.replay) {
        (1, Some(replay)) => replay.stance[1] ^= 2,
        (2, Some(replay)) => {
            let (mut plan, report) = super::tail::read_answer(&replay.plan).unwrap();
            plan.nodes[0].capacity_type = CapacityType::Spot;
            let answer = super::tail::answer(&plan, &report);
            replay.plan = super::content::pack(&answer);
            replay.plan_digest = super::content::hash(&answer).to_vec();
        }
        _ => {}
    };
    let (tally, said) = said(&copy(&world, |_| {}, |_| {}, spoil).await).await;
    assert_eq!(tally, Tally { identical: 1, different: 2, ..Tally::default() });
    assert!(said[0].contains("input DIFFERENT"), "{said:?}");
    assert!(said[1].contains("plan DIFFERENT (nodes: then general-1 (box in lab-a, spot"), "{said:?}");
}

#[tokio::test]
async fn a_decision_without_a_plan_says_so() {
    let world = World::new().await;
    world.remove(1).await;
    let stored = world.store.decision(1).await.unwrap().remove(0);
    let refused = LogReader::new(&world.store).recall(stored).await.unwrap_err();
    assert!(matches!(refused, ReplayError::NoPlan { .. }));
    assert!(refused.to_string().contains("decision 1 of cluster/blue (empty) was made without a plan"), "{refused}");
    assert_eq!(said(&world.store).await.0, Tally { without_plan: 1, ..Tally::default() });
}

#[tokio::test]
async fn another_policy_and_other_machines_show_their_price() {
    let world = World::new().await;
    world.decide(1, &pods(2), |_| {}).await.unwrap();
    let stored = world.store.decision(1).await.unwrap().remove(0);
    let recorded = LogReader::new(&world.store).recall(stored).await.unwrap();
    // Two pods of 3 cores; a box has 4 cores, so each takes one: 2 × $0.20.
    assert_eq!((recorded.plan.nodes.len(), recorded.report.new_cost.0), (2, 400_000));
    let otherwise = |alternative: Alternative| {
        let mut input = recorded.input.clone();
        alternative.apply(&mut input).unwrap();
        let again = engine::decide::plan(&input).unwrap();
        (again.plan.nodes.len(), again.report.new_cost.0)
    };
    // The same pool, and spot allowed: 2 × $0.08. The class is not among the manifests: the machines are the decision's.
    let spot = Alternative { manifests: vec![source("pool", world::pool("spot"))], ..Alternative::default() };
    assert_eq!(otherwise(spot), (2, 160_000));
    // A crate has 8 cores and takes both: $0.30.
    let crates = Alternative { catalogue: Some(catalogue(true)), ..Alternative::default() };
    assert_eq!(otherwise(crates), (1, 300_000));
    assert_eq!(otherwise(Alternative::default()), (2, 400_000));
    let kind = |place: usize| Text::clone(&recorded.input.pools[0].catalogue.types[place].name);
    assert_eq!(kind(0).as_ref(), "box");
}
