//! The estimator's arithmetic, by hand.

use super::*;
use crate::recalibration::{Recalibration, group_of};
use model::{CapacityType, Millis, SizeClass, Timestamp};

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_millis(0) + Millis::from_mins(minutes)
}

fn pool_of(zone: &str, instance_type: &str) -> CapacityPool {
    CapacityPool {
        zone: zone.into(),
        instance_type: instance_type.into(),
        capacity_type: CapacityType::OnDemand,
        account: None,
    }
}

fn pool() -> CapacityPool {
    pool_of("use1-az1", "m5.large")
}

/// Six decimals, as the vectors have them.
fn rounded(probability: f64) -> f64 {
    (probability * 1e6).round() / 1e6
}

fn posterior(odds: &CapacityOdds, size: u32, minutes: i64) -> f64 {
    rounded(odds.posterior(&pool(), size, at(minutes)).probability)
}

fn with_refusals(count: u32) -> CapacityOdds {
    let mut odds = CapacityOdds::default();
    (0..count).for_each(|_| odds.record(&pool(), 1, 0, at(0)));
    odds
}

#[test]
fn the_posterior_is_that_of_the_prior_and_the_decayed_outcomes() {
    // 1.9 / 2 without outcomes, 1.9 / 3 after a refusal, 1.9 / 5 after three.
    assert_eq!([0, 1, 3].map(|count| posterior(&with_refusals(count), 1, 0)), [0.95, 0.633333, 0.38]);
    let mut odds = with_refusals(3);
    // Ten minutes halve three refusals to 1.5: 1.9 / 3.5; thirty leave 0.375: 1.9 / 2.375.
    assert_eq!([10, 30].map(|minutes| posterior(&odds, 1, minutes)), [0.542857, 0.8]);
    odds.record(&pool(), 1, 1, at(10));
    // 2.9 / 4.5
    assert_eq!(posterior(&odds, 1, 10), 0.644444);
    assert_eq!(odds.posterior(&pool(), 1, at(20)).samples, 1.25, "half of 1.5 refusals and of a success");
}

#[test]
fn a_part_of_what_was_asked_is_a_success_up_to_it_and_a_refusal_above() {
    let mut odds = CapacityOdds::default();
    odds.record(&pool(), 20, 7, at(0));
    // 2.9 / 3 at 1 to 4 instances; 1.9 / 3 in the class of 8 to 16, and above.
    assert_eq!([1, 4, 16, 20].map(|size| posterior(&odds, size, 0)), [0.966667, 0.966667, 0.633333, 0.633333]);
    let mut odds = CapacityOdds::default();
    odds.record(&pool(), 4, 4, at(0));
    assert_eq!([1, 4, 5].map(|size| posterior(&odds, size, 0)), [0.966667, 0.966667, 0.95], "nothing is known of 5");
    odds.record(&pool(), 0, 0, at(0));
    assert_eq!(posterior(&odds, 1, 0), 0.966667, "a launch of nothing says nothing");
}

#[test]
fn an_outcome_from_the_past_counts_as_one_of_the_last_outcome() {
    let mut odds = with_refusals(1);
    odds.record(&pool(), 1, 0, at(10));
    odds.record(&pool(), 1, 0, at(0));
    // Half a refusal and two whole ones: 1.9 / 4.5.
    assert_eq!([posterior(&odds, 1, 10), posterior(&odds, 1, 5)], [0.422222, 0.422222]);
}

#[test]
fn what_other_pools_of_the_zone_do_changes_a_pool_without_outcomes() {
    let mut odds = CapacityOdds::default();
    let types = ["m5.large", "c5.large", "r5.large", "m6i.large"];
    for minutes in (0..600).step_by(5) {
        for zone in ["use1-az1", "use1-az2"] {
            types.iter().for_each(|name| odds.record(&pool_of(zone, name), 1, 1, at(minutes)));
        }
    }
    let fresh = |odds: &CapacityOdds, zone| odds.odds(&pool_of(zone, "g5.xlarge"), 1, at(605));
    let before = fresh(&odds, "use1-az1");
    assert!(before.samples == 0.0 && before.neighbour_samples > 4.0, "{before:?}");
    for minutes in 600..605 {
        types.iter().for_each(|name| odds.record(&pool_of("use1-az1", name), 1, 0, at(minutes)));
    }
    let (short, other) = (fresh(&odds, "use1-az1").probability, fresh(&odds, "use1-az2").probability);
    assert!(short < before.probability - 0.1 && short < other - 0.1, "{before:?}, then {short}; elsewhere {other}");
}

#[test]
fn outcomes_of_one_account_say_nothing_about_another() {
    let mut odds = CapacityOdds::default();
    let of = |account: &str| CapacityPool { account: Some(account.into()), ..pool() };
    (0..20).for_each(|_| odds.record(&of("111111111111"), 1, 0, at(0)));
    let samples = |pool: &CapacityPool| {
        let found = odds.odds(pool, 1, at(0));
        (found.samples, found.neighbour_samples)
    };
    assert_eq!(
        [samples(&of("111111111111")), samples(&of("222222222222")), samples(&pool())],
        [(20.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    );
}

#[test]
fn no_size_is_likelier_than_a_smaller_one() {
    let mut odds = with_refusals(5);
    odds.record(&pool(), 1, 1, at(60));
    let probability = |size| odds.odds(&pool(), size, at(60)).probability;
    let by_size = [1, 2, 5, 17].map(probability);
    assert!(by_size.is_sorted_by(|small, large| small >= large), "{by_size:?}");
}

#[test]
fn statements_are_corrected_by_what_happened() {
    let mut recalibration = Recalibration::default();
    let stated = |recalibration: &Recalibration, value| recalibration.curve(group_of(None)).at(value);
    assert!((stated(&recalibration, 0.72) - 0.72).abs() < 1e-9, "without outcomes nothing is corrected");
    for nth in 0..1_000 {
        recalibration.record(0.725, None, nth % 5 == 0);
    }
    // Ten assumed statements of .725 and about 787 remembered ones, of which a fifth succeeded, in both curves.
    assert!((stated(&recalibration, 0.725) - 0.2).abs() < 0.02, "{}", stated(&recalibration, 0.725));
    let all = [0.0, 0.3, 0.5, 0.725, 0.8, 0.95, 1.0].map(|value| stated(&recalibration, value));
    assert!(all.is_sorted() && all[0] >= 0.0 && all[6] <= 1.0, "{all:?}");
}

#[test]
fn old_evidence_is_corrected_by_the_outcomes_after_old_evidence() {
    let mut recalibration = Recalibration::default();
    let (young, old) = (Some(Millis::from_secs(10)), Some(Millis::from_hours(1)));
    for _ in 0..500 {
        recalibration.record(0.5, young, false);
        recalibration.record(0.5, old, true);
    }
    let found = [young, old].map(|age| recalibration.curve(group_of(age)).at(0.5));
    assert!(found[0] < 0.1 && found[1] > 0.9, "{found:?}");
}

#[test]
fn the_least_recent_scopes_are_forgotten_first_and_so_is_what_has_no_weight() {
    let mut odds = CapacityOdds::with_max_scopes(100);
    for minute in 0..500 {
        odds.record(&pool_of("use1-az1", &format!("m{minute}.large")), 1, 0, at(minute));
    }
    assert!(odds.histories.len() <= 100, "{} scopes", odds.histories.len());
    let samples = |minute: i64| odds.posterior(&pool_of("use1-az1", &format!("m{minute}.large")), 1, at(500)).samples;
    assert!(samples(499) > 0.9 && samples(0) == 0.0);
    // 27 hours are 6.75 of the longer half-lives: less than a hundredth of an outcome is left of most scopes.
    odds.forget(at(500) + Millis::from_hours(200));
    assert_eq!(odds.histories.len(), 0);
}

#[test]
fn many_scopes_of_one_time_keep_to_the_limit() {
    let mut odds = CapacityOdds::with_max_scopes(50);
    (0..200).for_each(|nth| odds.record(&pool_of("use1-az1", &format!("m{nth}.large")), 1, 0, at(0)));
    assert!(odds.histories.len() <= 50);
}

#[test]
fn a_restored_snapshot_states_the_same() {
    let mut odds = CapacityOdds::default();
    for minute in 0..200 {
        let name = ["m5.large", "c5.large", "g5.xlarge"][minute as usize % 3];
        odds.record(&pool_of("use1-az1", name), 1 + minute as u32 % 20, minute as u32 % 7, at(minute));
    }
    odds.record_order(&[LaunchRequest { count: 2, options: vec![pool()] }], false, at(200));
    let restored = CapacityOdds::restore(odds.snapshot(), MAX_SCOPES);
    assert_eq!(restored, odds);
    assert!(odds.snapshot().histories.iter().all(|row| SizeClass::ALL.contains(&row.size)));
}
