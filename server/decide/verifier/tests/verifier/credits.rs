//! Surplus credits of burstable types.

use model::{Burstable, MicroUsd};
use verifier::Rule;

use crate::fixture::{Fixture, LARGE, SMALL, plain};

/// A pod of 1,000 millicores on a small machine, whose baseline is 400; a large one is the second
/// option.
fn burstable(credit_price: i64) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.machine(SMALL).burstable = Some(Burstable { baseline: 400, credit_price: MicroUsd(credit_price) });
    let pod = fixture.pod("web", plain());
    fixture.launch(&[SMALL, LARGE], &["a"], &[pod]);
    fixture
}

#[test]
fn credits_are_what_the_requests_take_beyond_the_baseline() {
    // (1,000 - 400) millicores × $0.05 per vCPU = $0.03.
    let mut fixture = burstable(50_000);
    fixture.assert_breaks(Rule::Credits);
    fixture.plan.nodes[0].credits = MicroUsd(30_000);
    fixture.assert_clean();
    fixture.plan.nodes[0].credits = MicroUsd(30_001);
    fixture.assert_breaks(Rule::Credits);
}

#[test]
fn a_pool_that_ignores_credits_pays_none() {
    let mut fixture = burstable(50_000);
    fixture.pool().rules.ignores_credits = true;
    fixture.assert_clean();
    fixture.plan.nodes[0].credits = MicroUsd(30_000);
    fixture.assert_breaks(Rule::Credits);
}

#[test]
fn no_option_has_less_price_and_credits_than_the_first() {
    // $0.1 + 0.6 × $0.2 = $0.22 on the small machine; the large one costs $0.2.
    let mut fixture = burstable(200_000);
    fixture.plan.nodes[0].credits = MicroUsd(120_000);
    fixture.assert_breaks(Rule::Options);
}
