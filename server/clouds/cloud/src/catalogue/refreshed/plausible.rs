//! Which prices may replace the ones that are in use.

use std::fmt;

use model::MicroUsd;

/// An on-demand price is refused from this factor on, up or down. Changes of on-demand prices are a matter of percents.
const ON_DEMAND_FACTOR: i64 = 10;

/// A spot price is refused from this many on-demand prices on. Spot is no dearer than on-demand today.
const SPOT_OF_ON_DEMAND: i64 = 10;

/// A spot price is refused from this factor on, up or down. The lowest spot prices are a twentieth of on-demand.
const SPOT_FACTOR: i64 = 100;

/// A price that is not used, and the price that it was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPrice {
    /// The instance type, with the zone of a spot price.
    pub item: String,
    /// The refused price per hour.
    pub price: MicroUsd,
    /// The price per hour that it was compared with; `None` for a price that is not above zero.
    pub known: Option<MicroUsd>,
}

impl fmt::Display for RefusedPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, price, known } = self;
        match known {
            Some(known) => write!(f, "the price of {item} is {price}, and {known} was known"),
            None => write!(f, "the price of {item} is {price}"),
        }
    }
}

/// Why an on-demand price is refused: the price that it contradicts, or that it is not above zero.
pub(super) fn check_on_demand(price: MicroUsd, known: Option<MicroUsd>) -> Result<(), Option<MicroUsd>> {
    check(price, known, ON_DEMAND_FACTOR)
}

/// Why a spot price is refused, likewise.
pub(super) fn check_spot(
    price: MicroUsd,
    known: Option<MicroUsd>,
    on_demand: Option<MicroUsd>,
) -> Result<(), Option<MicroUsd>> {
    check(price, known, SPOT_FACTOR)?;
    match on_demand.filter(|on_demand| price.0 >= on_demand.0.saturating_mul(SPOT_OF_ON_DEMAND)) {
        Some(on_demand) => Err(Some(on_demand)),
        None => check(price, on_demand, SPOT_FACTOR),
    }
}

fn check(price: MicroUsd, known: Option<MicroUsd>, factor: i64) -> Result<(), Option<MicroUsd>> {
    if price.0 <= 0 {
        return Err(None);
    }
    let is_absurd =
        |known: &MicroUsd| price.0 >= known.0.saturating_mul(factor) || price.0.saturating_mul(factor) <= known.0;
    match known.filter(|known| known.0 > 0).filter(is_absurd) {
        Some(known) => Err(Some(known)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_on_demand_price_is_refused_from_ten_times_the_known_one_on() {
        let check = |price, known| check_on_demand(MicroUsd(price), Some(MicroUsd(known)));
        assert_eq!([check(999_999, 100_000), check(10_001, 100_000)], [Ok(()); 2]);
        assert_eq!([check(1_000_000, 100_000), check(10_000, 100_000)], [Err(Some(MicroUsd(100_000))); 2]);
        assert_eq!(check_on_demand(MicroUsd(5_000_000_000), None), Ok(()));
    }

    #[test]
    fn nothing_is_free() {
        for price in [0, -1] {
            assert_eq!(check_on_demand(MicroUsd(price), None), Err(None));
            assert_eq!(check_spot(MicroUsd(price), None, None), Err(None));
        }
    }

    #[test]
    fn a_spot_price_is_compared_with_the_last_one_and_with_on_demand() {
        let check = |price, known: Option<i64>, on_demand: Option<i64>| {
            check_spot(MicroUsd(price), known.map(MicroUsd), on_demand.map(MicroUsd))
        };
        // Twenty times as much, and the on-demand price: a zone without spare capacity.
        assert_eq!(check(100_000, Some(5_000), Some(100_000)), Ok(()));
        assert_eq!(check(999_999, Some(100_000), Some(100_000)), Ok(()));
        assert_eq!(check(1_000_000, Some(100_000), Some(100_000)), Err(Some(MicroUsd(100_000))));
        assert_eq!(check(1_000_000, None, Some(100_000)), Err(Some(MicroUsd(100_000))));
        // A hundred times as much or as little, without an on-demand price.
        assert_eq!(check(499_999, Some(5_000), None), Ok(()));
        assert_eq!(check(500_000, Some(5_000), None), Err(Some(MicroUsd(5_000))));
        assert_eq!(check(50, Some(5_000), None), Err(Some(MicroUsd(5_000))));
        // A hundredth of on-demand.
        assert_eq!(check(1_000, None, Some(100_000)), Err(Some(MicroUsd(100_000))));
        assert_eq!(check(1_001, None, Some(100_000)), Ok(()));
    }
}
