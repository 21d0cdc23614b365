//! The formulas, worked out by hand.

use super::normalise::{by_largest, by_largest_reversed, by_range};
use super::resources::{balanced_allocation, least_allocated};
use super::spread::{domain_weight, normalise, points, rounded};

const GIB: i64 = 1 << 30;
/// A node with 4 CPUs and 4 GiB.
const NODE: [i64; 2] = [4000, 4 * GIB];

fn normalised(scores: &[i64], normalise: impl Fn(&mut [i64])) -> Vec<i64> {
    let mut scores = scores.to_vec();
    normalise(&mut scores);
    scores
}

#[test]
fn least_allocated_is_the_mean_of_the_free_percentages() {
    // CPU: (4000 − 1000) × 100 / 4000 = 75; memory: (4 − 1) × 100 / 4 = 75.
    assert_eq!(least_allocated([1000, GIB], NODE), 75);
    // CPU: (3 − 1) × 100 / 3 = 66, rounded down; memory: 100; (66 + 100) / 2 = 83.
    assert_eq!(least_allocated([1, 0], [3, GIB]), 83);
    // More than everything of the CPU: 0; memory: 50; (0 + 50) / 2 = 25.
    assert_eq!(least_allocated([5000, 2 * GIB], NODE), 25);
}

#[test]
fn a_resource_that_a_node_lacks_has_no_weight() {
    assert_eq!(least_allocated([1000, 0], [4000, 0]), 75);
    assert_eq!(least_allocated([0, 0], [0, 0]), 0);
}

#[test]
fn balanced_allocation_is_75_if_the_pod_changes_nothing() {
    // Balance before: shares 1/4 and 1/4, deviation 0, 100. After: 1/2 and 1/2, 100.
    // 50 + (50 + 100 − 100) / 2 = 75.
    assert_eq!(balanced_allocation([1000, GIB], [2000, 2 * GIB], NODE), 75);
}

#[test]
fn balanced_allocation_rises_with_the_balance_and_falls_with_it() {
    // After: shares 1/2 and 0, deviation (1/2 − 0) / 2 = 1/4, balance 75; before: 100.
    // 50 + (50 + 75 − 100) / 2 = 50 + 12 (of 12.5) = 62.
    assert_eq!(balanced_allocation([0, 0], [2000, 0], NODE), 62);
    // The other half: balance 75 before, 100 after. 50 + (50 + 100 − 75) / 2 = 50 + 37 (of 37.5) = 87.
    assert_eq!(balanced_allocation([2000, 0], [2000, 2 * GIB], NODE), 87);
}

#[test]
fn a_domain_weighs_by_the_logarithm_of_their_number() {
    // Three domains: ln(3 + 2) = 1.6094. Two pods and a skew of 5: 2 × 1.6094 + 4 = 7.2189, about 7.
    let raw = points(2, 5, domain_weight(3));
    assert!((raw - 7.2189).abs() < 0.0001, "{raw}");
    assert_eq!(rounded(raw), 7);
}

#[test]
fn spread_is_best_in_the_emptiest_domain() {
    let mut scores = Vec::new();
    // Largest 4, least 2: 100 × (4 + 2 − 2) / 4 = 100; 100 × (4 + 2 − 4) / 4 = 50.
    normalise(&[Some(2), Some(4), None], &mut scores);
    assert_eq!(scores, [100, 50, 0]);
    normalise(&[Some(0), None], &mut scores);
    assert_eq!(scores, [100, 0]);
}

#[test]
fn preferences_are_normalised_by_the_largest() {
    // 100 × 20 / 50 = 40.
    assert_eq!(normalised(&[0, 20, 50], by_largest), [0, 40, 100]);
    assert_eq!(normalised(&[0, 0], by_largest), [0, 0]);
}

#[test]
fn the_fewest_soft_taints_are_best() {
    // 100 − 100 × 1 / 2 = 50.
    assert_eq!(normalised(&[0, 1, 2], by_largest_reversed), [100, 50, 0]);
    assert_eq!(normalised(&[0, 0], by_largest_reversed), [100, 100]);
}

#[test]
fn pod_affinity_is_normalised_over_its_range() {
    // 100 × (−20 + 50) / 100 = 30.
    assert_eq!(normalised(&[-50, -20, 50], by_range), [0, 30, 100]);
    assert_eq!(normalised(&[7, 7], by_range), [0, 0]);
}
