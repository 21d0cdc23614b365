//! Points in time and durations, in whole milliseconds. All arithmetic saturates: an absurd time
//! in a record cannot overflow.

use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The latest point in time.
    pub const MAX: Self = Self(i64::MAX);

    /// The point in time `millis` milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Time from `earlier` to `self`, zero when `earlier` lies in the future. The difference with
    /// its sign is `self - earlier`.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> Millis {
        (self - earlier).max(Millis::ZERO)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, whole seconds, as Kubernetes writes timestamps. A time that RFC 3339 cannot express is written as
    /// the beginning of 1970.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = jiff::Timestamp::from_second(self.0.div_euclid(1_000)).unwrap_or_default();
        write!(f, "{second}")
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;

    fn add(self, wait: Millis) -> Self {
        Self(self.0.saturating_add(wait.0))
    }
}

impl Sub<Millis> for Timestamp {
    type Output = Self;

    fn sub(self, wait: Millis) -> Self {
        Self(self.0.saturating_sub(wait.0))
    }
}

impl Sub for Timestamp {
    type Output = Millis;

    fn sub(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in milliseconds. It is negative between a point in time and an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(i64);

impl Millis {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest duration.
    pub const MAX: Self = Self(i64::MAX);

    /// A duration of `millis` milliseconds.
    #[must_use]
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// A duration of `seconds` seconds.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// A duration of `minutes` minutes.
    #[must_use]
    pub const fn from_mins(minutes: i64) -> Self {
        Self(minutes.saturating_mul(60_000))
    }

    /// A duration of `hours` hours.
    #[must_use]
    pub const fn from_hours(hours: i64) -> Self {
        Self(hours.saturating_mul(3_600_000))
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The number of whole seconds, rounded towards zero.
    #[must_use]
    pub const fn as_secs(self) -> i64 {
        self.0 / 1_000
    }

    /// The number of whole minutes, rounded towards zero.
    #[must_use]
    pub const fn as_mins(self) -> i64 {
        self.0 / 60_000
    }
}

impl Add for Millis {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Millis {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<i64> for Millis {
    type Output = Self;

    fn mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<i64> for Millis {
    type Output = Self;

    /// A part of the duration, rounded towards zero.
    ///
    /// # Panics
    /// When `divisor` is zero, as for integers.
    fn div(self, divisor: i64) -> Self {
        Self(self.0.saturating_div(divisor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Timestamp = Timestamp::from_millis(i64::MIN);

    #[test]
    fn a_time_is_written_in_whole_seconds_of_utc() {
        // 20,000 days after 1970-01-01 are 2024-10-04.
        let at = Timestamp::from_millis(20_000 * 86_400_000 + 61_999);
        assert_eq!(at.to_string(), "2024-10-04T00:01:01Z");
        assert_eq!(Timestamp::MAX.to_string(), "1970-01-01T00:00:00Z", "RFC 3339 has four digits for the year");
    }

    #[test]
    fn a_time_plus_or_minus_a_duration_saturates_at_both_ends() {
        let at = Timestamp::from_millis(1_000);
        assert_eq!(at + Millis::new(234), Timestamp::from_millis(1_234));
        assert_eq!(at - Millis::new(1_234), Timestamp::from_millis(-234));
        assert_eq!(at + Millis::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::MAX - Millis::new(-1), Timestamp::MAX);
        assert_eq!(MIN - Millis::new(1), MIN);
        assert_eq!(MIN + Millis::new(-1), MIN);
    }

    #[test]
    fn the_difference_of_two_times_saturates_at_both_ends() {
        let (early, late) = (Timestamp::from_millis(-500), Timestamp::from_millis(1_000));
        assert_eq!((late - early, early - late), (Millis::new(1_500), Millis::new(-1_500)));
        assert_eq!(Timestamp::MAX - early, Millis::MAX);
        assert_eq!(MIN - late, Millis::new(i64::MIN));
    }

    #[test]
    fn the_duration_since_a_later_time_is_zero() {
        let (early, late) = (Timestamp::from_millis(-500), Timestamp::from_millis(1_000));
        assert_eq!((late.duration_since(early), early.duration_since(late)), (Millis::new(1_500), Millis::ZERO));
        assert_eq!(
            (Timestamp::MAX.duration_since(MIN), MIN.duration_since(Timestamp::MAX)),
            (Millis::MAX, Millis::ZERO)
        );
    }

    #[test]
    fn arithmetic_on_durations_saturates_at_both_ends() {
        let min = Millis::new(i64::MIN);
        assert_eq!(Millis::from_secs(2) + Millis::new(5), Millis::new(2_005));
        assert_eq!(Millis::from_secs(2) - Millis::new(5), Millis::new(1_995));
        assert_eq!((Millis::MAX + Millis::new(1), min + Millis::new(-1)), (Millis::MAX, min));
        assert_eq!((Millis::MAX - Millis::new(-1), min - Millis::new(1)), (Millis::MAX, min));
        assert_eq!((Millis::new(3) * 4, Millis::new(7) / 2), (Millis::new(12), Millis::new(3)));
        assert_eq!((Millis::MAX * 2, min * 2, min / -1), (Millis::MAX, min, Millis::MAX));
    }

    #[test]
    fn the_units_of_a_duration_agree_and_saturate() {
        assert_eq!(Millis::from_secs(3), Millis::new(3_000));
        assert_eq!(Millis::from_mins(2), Millis::from_secs(120));
        assert_eq!(Millis::from_hours(2), Millis::from_mins(120));
        assert_eq!((Millis::new(119_999).as_secs(), Millis::new(119_999).as_mins()), (119, 1));
        assert_eq!((Millis::from_secs(i64::MAX), Millis::from_hours(i64::MIN)), (Millis::MAX, Millis::new(i64::MIN)));
    }
}
