use super::*;
use model::{CapacityType, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(0);

fn pool(name: &str) -> CapacityPool {
    CapacityPool { zone: "z".into(), instance_type: name.into(), capacity_type: CapacityType::Spot, account: None }
}

fn request(count: u32, names: &[&str]) -> LaunchRequest {
    LaunchRequest { count, options: names.iter().map(|name| pool(name)).collect() }
}

/// Nothing is known, so each pool has .95.
fn probability(requests: &[LaunchRequest]) -> f64 {
    let found = CapacityOdds::default().order_odds(requests, NOW).probability;
    (found * 1e9).round() / 1e9
}

#[test]
fn any_alternative_fills_a_request_and_every_request_must_be_filled() {
    assert_eq!(probability(&[]), 1.0);
    assert_eq!(probability(&[request(1, &["a"])]), 0.95);
    // 1 - .05²
    assert_eq!(probability(&[request(1, &["a", "b"])]), 0.9975);
    // .95²
    assert_eq!(probability(&[request(1, &["a"]), request(1, &["b"])]), 0.9025);
    assert_eq!(probability(&[request(1, &[])]), 0.0, "a request without an option is never filled");
    assert_eq!(probability(&[request(0, &[])]), 1.0, "a request for nothing is");
}

#[test]
fn requests_that_share_a_pool_fail_together() {
    assert_eq!(probability(&[request(1, &["a"]), request(3, &["a"])]), 0.95, "not .95²");
    // a up: 1. a down: b and c, .95². So .95 + .05 × .9025.
    assert_eq!(probability(&[request(1, &["a", "b"]), request(1, &["a", "c"])]), 0.995125);
    // All of {a, b}, {b, c}, {a, c}: at least two of the three are up, .95³ + 3 × .95² × .05.
    let pairs = [request(1, &["a", "b"]), request(1, &["b", "c"]), request(1, &["a", "c"])];
    assert_eq!(probability(&pairs), 0.99275);
}

#[test]
fn more_shared_pools_than_are_combined_exactly_give_a_lower_bound() {
    // Twelve pools in a circle; each request names two neighbours, so no two neighbours may be short.
    let names: Vec<String> = (0..MAX_SHARED + 2).map(|nth| format!("t{nth}")).collect();
    let next = |nth: usize| &*names[(nth + 1) % names.len()];
    let requests: Vec<LaunchRequest> = (0..names.len()).map(|nth| request(1, &[&names[nth], next(nth)])).collect();
    // Exactly: the sum of the 12th powers of the roots of x² = .95 x + .95 × .05, which are .9976136 and -.0476136.
    let exact = 0.9976136_f64.powi(12) + 0.0476136_f64.powi(12);
    let independent = 0.9975_f64.powi(12);
    let found = probability(&requests);
    assert!(found < exact && found > independent, "{independent} < {found} < {exact}");
    // With ten pools the result is exact.
    let last = request(1, &[&names[9], &names[0]]);
    let ten = probability(&[&requests[..9], &[last]].concat());
    assert!((ten - 0.9976136_f64.powi(10)).abs() < 1e-6, "{ten}");
}

#[test]
fn requests_ask_a_shared_pool_for_all_their_instances_together() {
    let mut odds = CapacityOdds::default();
    // 20 asked, 4 got: four instances and fewer succeed, more are refused.
    (0..50).for_each(|_| odds.record(&pool("a"), 20, 4, NOW));
    let of = |requests: &[LaunchRequest]| odds.order_odds(requests, NOW);
    let (one, both) = (of(&[request(3, &["a"])]), of(&[request(3, &["a"]), request(3, &["a", "b"])]));
    assert!(one.probability > 0.9 && both.probability < 0.2, "{one:?}, {both:?}");
    assert_eq!((one.samples, both.samples), (50.0, 50.0));
}

#[test]
fn an_order_is_corrected_by_the_outcomes_of_orders() {
    let mut odds = CapacityOdds::default();
    let order = [request(1, &["a", "b"])];
    (0..2_000).for_each(|_| odds.record_order(&order, false, NOW));
    assert!(odds.order_odds(&order, NOW).probability < 0.1);
    let single = odds.odds(&pool("a"), 1, NOW).probability;
    assert!((single - 0.95).abs() < 1e-9, "single launches are not: {single}");
}
