//! Stored plans: what newer versions append, and what older ones lack.

use model::plan::{Plan, PlanReport, PlannedNode};
use model::{CapacityType, MicroUsd};

use crate::content;
use crate::writer::{RecordedAnswer, decode_recorded, encode_answer};

fn node(credits: i64) -> PlannedNode {
    PlannedNode {
        name: "general-1".into(),
        pool: 0,
        capacity_type: CapacityType::OnDemand,
        zones: ["a".into()].into(),
        types: [0].into(),
        price: MicroUsd(37_600),
        credits: MicroUsd(credits),
        reservation: None,
        pods: vec![0],
        labels: Default::default(),
        taints: [].into(),
        requests: Default::default(),
    }
}

fn answer(credits: i64, static_credits: i64, realised: Option<i64>) -> (Plan, PlanReport) {
    let plan = Plan { nodes: vec![node(credits)], static_nodes: vec![node(static_credits)], ..Plan::default() };
    (plan, PlanReport { realised_cost: realised.map(MicroUsd), ..PlanReport::default() })
}

#[test]
fn credits_and_realised_cost_are_read_back_with_and_without_each_other() {
    let answers =
        [answer(5_000, 0, None), answer(0, 7_000, None), answer(0, 0, Some(40_000)), answer(5_000, 7_000, Some(0))];
    for (plan, report) in answers {
        let decoded = decode_recorded(&content::pack(&encode_answer(&plan, &report)));
        assert_eq!(decoded, Ok(RecordedAnswer::Pods(plan, report)));
    }
}

#[test]
fn the_cost_of_the_first_packing_is_read_back_with_and_without_the_others() {
    for (credits, realised) in [(0, None), (5_000, None), (0, Some(40_000))] {
        let (plan, report) = answer(credits, 0, realised);
        let report = PlanReport { first_cost: Some(MicroUsd(50_000)), search_steps: 7, ..report };
        let decoded = decode_recorded(&content::pack(&encode_answer(&plan, &report)));
        assert_eq!(decoded, Ok(RecordedAnswer::Pods(plan, report)));
    }
}

#[test]
fn an_answer_without_credits_and_realised_cost_is_a_prefix_of_one_with_them() {
    let (plan, report) = answer(0, 0, None);
    let older = encode_answer(&plan, &report);
    let newer = encode_answer(&plan, &PlanReport { realised_cost: Some(MicroUsd(1)), ..report });
    // Some, 1 in zigzag, and two lists of one node with credits of 0.
    assert_eq!((&newer[..older.len()], &newer[older.len()..]), (&older[..], &[1, 2, 1, 0, 1, 0][..]));
}
