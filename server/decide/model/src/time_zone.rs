//! Time zones of schedules, from the IANA database that the program contains: neither the host's
//! database nor its time zone changes a decision.

use std::fmt;
use std::hash::{Hash, Hasher};

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZoneDatabase};

use crate::Timestamp;

/// A time zone of the IANA database. Cloning copies no rules.
#[derive(Clone, PartialEq, Eq)]
pub struct TimeZone(jiff::tz::TimeZone);

impl TimeZone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(jiff::tz::TimeZone::UTC);

    /// The time zone with this name, such as `Europe/Berlin`; `None` when the database has none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self(TimeZoneDatabase::bundled().get(name).ok()?);
        // The database ignores case, and has an entry for an unknown time zone.
        (found.name() == name && !found.0.is_unknown()).then_some(found)
    }

    /// Its name in the IANA database.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// What its clocks show at `at`, as milliseconds since they showed 1970-01-01T00:00; `None` beyond the calendar.
    pub(crate) fn local_millis(&self, at: Timestamp) -> Option<i64> {
        let offset = self.0.to_offset(instant(at.as_millis())?);
        at.as_millis().checked_add(millis(offset))
    }

    /// When its clocks first show `local` or a later time. A time that they skip is that of the
    /// change, and one that they show twice is the first; `None` beyond the calendar.
    pub(crate) fn first_showing(&self, local: i64) -> Option<Timestamp> {
        let shown: DateTime = Offset::UTC.to_datetime(instant(local)?);
        let at = |offset: Offset| local.checked_sub(millis(offset));
        let first = match self.0.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset)?,
            AmbiguousOffset::Fold { before, .. } => at(before)?,
            // By the later offset, the skipped time is before the change.
            AmbiguousOffset::Gap { after, .. } => {
                let change = self.0.following(instant(at(after)?)?).next()?;
                change.timestamp().as_millisecond()
            }
        };
        Some(Timestamp::from_millis(first))
    }
}

fn instant(millis: i64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(millis).ok()
}

fn millis(offset: Offset) -> i64 {
    i64::from(offset.seconds()) * 1_000
}

impl Default for TimeZone {
    /// UTC.
    fn default() -> Self {
        Self::UTC
    }
}

impl Hash for TimeZone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn names_are_those_of_the_database() {
        assert_eq!(
            TimeZone::named("Europe/Berlin").map(|zone| zone.name().to_owned()).as_deref(),
            Some("Europe/Berlin")
        );
        assert_eq!(TimeZone::named("UTC"), Some(TimeZone::UTC));
        for name in ["", "Berlin", "europe/berlin", "CEST", "+02:00", "Etc/Unknown"] {
            assert_eq!(TimeZone::named(name), None, "{name:?}");
        }
    }

    #[test]
    fn clocks_skip_an_hour_in_spring_and_show_one_twice_in_autumn() {
        let berlin = TimeZone::named("Europe/Berlin").unwrap();
        // 1 January 2026 is day 20,454. 29 March is day 20,454 + 31 + 28 + 28 = 20,541: at 01:00 UTC clocks go from 02:00
        // to 03:00.
        let spring = 20_541 * 24 * HOUR;
        let first = |local: i64| berlin.first_showing(local).map(|at| at.as_millis());
        assert_eq!(first(spring + 2 * HOUR - 1), Some(spring + HOUR - 1));
        assert_eq!(first(spring + 2 * HOUR), Some(spring + HOUR), "the first skipped time");
        assert_eq!(first(spring + 2 * HOUR + HOUR / 2), Some(spring + HOUR), "a skipped time");
        assert_eq!(first(spring + 3 * HOUR), Some(spring + HOUR));
        assert_eq!(berlin.local_millis(Timestamp::from_millis(spring + HOUR)), Some(spring + 3 * HOUR));
        // 25 October is 210 days later: at 01:00 UTC clocks go from 03:00 back to 02:00. 02:30 is first at 00:30 UTC.
        let autumn = (20_541 + 210) * 24 * HOUR;
        assert_eq!(first(autumn + 2 * HOUR + HOUR / 2), Some(autumn + HOUR / 2));
        assert_eq!(first(autumn + 3 * HOUR), Some(autumn + 2 * HOUR));
    }

    #[test]
    fn times_beyond_the_calendar_are_none() {
        assert_eq!(TimeZone::UTC.first_showing(i64::MAX), None);
        assert_eq!(TimeZone::UTC.local_millis(Timestamp::MAX), None);
    }
}
