//! What a machine costs over time.

use model::{MicroUsd, Millis};

use crate::{CostCause, CostParts};

const HOUR_MS: i128 = 3_600_000;

/// What a machine of `price` per hour costs from one duration after its launch to a later one, in micro-dollars. It is billed
/// by time, without a minimum. The charges of intervals that follow each other add up to that of the whole, to the
/// micro-dollar, because each is the difference of two sums since the launch.
#[must_use]
pub fn charge(price: MicroUsd, from: Millis, to: Millis) -> i64 {
    let since_launch = |at: Millis| i128::from(price.0) * i128::from(at.get().max(0)) / HOUR_MS;
    i64::try_from(since_launch(to) - since_launch(from)).unwrap_or(i64::MAX)
}

/// Divides `amount` as `price` is split, by largest remainders (Hamilton's method), of which equal ones go to the earlier cause.
/// An amount for which no price is known is unexplained.
#[must_use]
pub fn divide(amount: i64, price: &CostParts) -> CostParts {
    let whole = i128::from(price.total());
    if whole <= 0 {
        return CostParts::of(CostCause::Unexplained, amount);
    }
    let mut parts = CostParts::default();
    let mut remainders: Vec<(i128, CostCause)> = Vec::with_capacity(CostCause::ALL.len());
    let mut left = amount;
    for (cause, part) in price.iter() {
        let product = i128::from(amount) * i128::from(part);
        let share = i64::try_from(product / whole).unwrap_or(i64::MAX);
        parts.add(cause, share);
        left -= share;
        remainders.push((product % whole, cause));
    }
    remainders.sort_by_key(|(remainder, cause)| (-remainder, *cause));
    for (_, cause) in remainders.into_iter().take(usize::try_from(left).unwrap_or(0)) {
        parts.add(cause, 1);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_hour_costs_the_price() {
        assert_eq!(charge(MicroUsd(192_000), Millis::ZERO, Millis::new(3_600_000)), 192_000);
        // 192,000 × 1,000 / 3,600,000 = 53.33: the second second takes what the first left.
        assert_eq!(charge(MicroUsd(192_000), Millis::ZERO, Millis::new(1_000)), 53);
        assert_eq!(charge(MicroUsd(192_000), Millis::new(1_000), Millis::new(2_000)), 53);
        assert_eq!(charge(MicroUsd(192_000), Millis::new(2_000), Millis::new(3_000)), 54);
    }

    #[test]
    fn remainders_go_to_the_largest() {
        // 10 × (50, 30, 20 %) is even; 11 is 5.5, 3.3, 2.2: one is left, for the first.
        let mut price = CostParts::of(CostCause::Useful, 50);
        price.add(CostCause::DaemonSets, 30);
        price.add(CostCause::Unexplained, 20);
        let shares = |amount| {
            let parts = divide(amount, &price);
            [CostCause::Useful, CostCause::DaemonSets, CostCause::Unexplained].map(|cause| parts.get(cause))
        };
        assert_eq!(shares(10), [5, 3, 2]);
        assert_eq!(shares(11), [6, 3, 2]);
        assert_eq!(shares(0), [0, 0, 0]);
        assert_eq!(divide(7, &CostParts::default()), CostParts::of(CostCause::Unexplained, 7));
    }

    proptest! {
        #[test]
        fn intervals_add_up_to_the_whole(price in 0..100_000_000_i64, mut ends in vec(0..10_000_000_000_i64, 2..20)) {
            ends.sort_unstable();
            let price = MicroUsd(price);
            let sum: i64 = ends.windows(2).map(|pair| charge(price, Millis::new(pair[0]), Millis::new(pair[1]))).sum();
            let whole = charge(price, Millis::new(ends[0]), Millis::new(ends[ends.len() - 1]));
            prop_assert_eq!(sum, whole);
        }

        #[test]
        fn parts_add_up_to_the_amount_and_are_within_one_of_their_share(
            amount in 0..1_000_000_000_000_i64,
            shares in vec(0..1_000_000_000_i64, CostCause::ALL.len()),
        ) {
            let mut price = CostParts::default();
            CostCause::ALL.into_iter().zip(&shares).for_each(|(cause, share)| price.add(cause, *share));
            let parts = divide(amount, &price);
            prop_assert_eq!(parts.total(), amount);
            let whole: i64 = shares.iter().sum();
            for (cause, part) in parts.iter().filter(|_| whole > 0) {
                let exact = i128::from(amount) * i128::from(price.get(cause));
                let distance = (i128::from(part) * i128::from(whole) - exact).abs();
                prop_assert!(distance < i128::from(whole), "{cause:?}: {part}");
            }
        }
    }
}
