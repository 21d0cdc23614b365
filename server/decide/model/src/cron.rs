//! Cron schedules in a time zone: five fields or a macro.
//!
//! The dialect is that of Karpenter's parser: `*`, `?`, numbers, names of months and weekdays,
//! ranges, steps and lists; Sunday is 0. When both day of month and day of week are restricted,
//! either suffices.
//!
//! Each date and time of a schedule fires once: one that clocks skip when they go forward fires at
//! the change, as in cron, so that no window is lost; one that they show twice fires the first time.

use crate::{TimeZone, Timestamp};

/// Minutes, hours, days, months and weekdays on which a schedule fires, as bitsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Day of month or day of week is unrestricted, so that both must match.
    both_days: bool,
}

/// The fields of a schedule, for encodings: minutes, hours, days, months and weekdays as bitsets, and whether
/// both days must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CronParts {
    /// Bits 0 to 59.
    pub minutes: u64,
    /// Bits 0 to 23.
    pub hours: u64,
    /// Bits 1 to 31.
    pub days: u64,
    /// Bits 1 to 12.
    pub months: u64,
    /// Bits 0 to 6, from Sunday.
    pub weekdays: u64,
    /// Day of month or day of week is unrestricted, so that both must match.
    pub both_days: bool,
}

impl From<CronParts> for Cron {
    fn from(parts: CronParts) -> Self {
        let CronParts { minutes, hours, days, months, weekdays, both_days } = parts;
        Self { minutes, hours, days, months, weekdays, both_days }
    }
}

impl From<Cron> for CronParts {
    fn from(cron: Cron) -> Self {
        let Cron { minutes, hours, days, months, weekdays, both_days } = cron;
        Self { minutes, hours, days, months, weekdays, both_days }
    }
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// It has another number of fields than five, and is no macro.
    #[error("{0} fields, allowed: five (minute, hour, day of month, month, day of week) or a macro such as @daily")]
    FieldCount(usize),
    /// A field is invalid.
    #[error("{what} {field:?}, allowed: {least} to {most}, ranges, steps, lists and *")]
    Field {
        /// Name of the field.
        what: &'static str,
        /// Its content.
        field: String,
        /// The smallest number allowed.
        least: u32,
        /// The largest number allowed.
        most: u32,
    },
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Days that [`Cron::next_after`] searches: a date that does not occur within them never occurs (29
/// February can be eight years away, around a century that is no leap year).
const HORIZON_DAYS: i64 = 9 * 366;
const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: i64 = 24 * 60;

impl Cron {
    /// Parses `text`.
    ///
    /// # Errors
    /// What is invalid, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let expanded = match text.to_ascii_lowercase().as_str() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => text,
        };
        let fields: Vec<&str> = expanded.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError::FieldCount(fields.len()));
        };
        let open = |field: &str| field.split(',').any(|part| matches!(part, "*" | "?" | "*/1" | "?/1"));
        Ok(Self {
            minutes: parse_field(minute, "minute", 0, 59, &[])?,
            hours: parse_field(hour, "hour", 0, 23, &[])?,
            days: parse_field(day, "day of month", 1, 31, &[])?,
            months: parse_field(month, "month", 1, 12, &MONTHS)?,
            weekdays: parse_field(weekday, "day of week", 0, 6, &WEEKDAYS)?,
            both_days: open(day) || open(weekday),
        })
    }

    /// The first time after `after` at which the schedule fires by the clocks of `zone`; `None` when
    /// it never does.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut local = zone.local_millis(after)?;
        loop {
            local = self.next_local_after(local)?;
            let fires = zone.first_showing(local)?;
            // While clocks show an hour for the second time, its times have fired.
            if fires > after {
                return Some(fires);
            }
        }
    }

    /// The first local time after `after` that matches the fields, in milliseconds.
    fn next_local_after(&self, after: i64) -> Option<i64> {
        let first = after.div_euclid(MINUTE_MS).checked_add(1)?;
        let today = first.div_euclid(DAY_MINUTES);
        let earliest = first.rem_euclid(DAY_MINUTES);
        for day in today..today.checked_add(HORIZON_DAYS)? {
            let from = if day == today { earliest } else { 0 };
            let hit = (from..DAY_MINUTES).filter(|_| self.fires_on(day)).find(|minute| self.fires_at(*minute));
            if let Some(minute) = hit {
                return (day.checked_mul(DAY_MINUTES)? + minute).checked_mul(MINUTE_MS);
            }
        }
        None
    }

    fn fires_at(&self, minute_of_day: i64) -> bool {
        has(self.hours, minute_of_day / 60) && has(self.minutes, minute_of_day % 60)
    }

    /// Whether it fires on that day since 1970-01-01.
    fn fires_on(&self, day: i64) -> bool {
        let (month, of_month) = month_and_day(day);
        // 1 January 1970 was a Thursday.
        let weekday = (day + 4).rem_euclid(7);
        let (by_date, by_week) = (has(self.days, of_month), has(self.weekdays, weekday));
        let fits = if self.both_days { by_date && by_week } else { by_date || by_week };
        fits && has(self.months, month)
    }
}

/// Month (1 to 12) and day of month of a day since 1970-01-01 in the Gregorian calendar. Years begin in March, so that the
/// leap day is the last of its year; 400 years have 146,097 days, and five months from March on have 153.
fn month_and_day(day: i64) -> (i64, i64) {
    let since_march_0000 = day + 719_468;
    let of_era = since_march_0000.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    (if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 }, of_month)
}

fn has(set: u64, member: i64) -> bool {
    set >> member & 1 == 1
}

/// The members of one field, such as `0,30`, `9-17/2`, `*/15` or `mon-fri`.
fn parse_field(field: &str, what: &'static str, least: u32, most: u32, names: &[&str]) -> Result<u64, CronError> {
    let wrong = || CronError::Field { what, field: field.to_owned(), least, most };
    let mut members = 0;
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step = step.map_or(Some(1), |step| step.parse::<u32>().ok()).filter(|step| *step > 0).ok_or_else(wrong)?;
        let number = |text: &str| parse_number(text, least, names);
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (least, most),
            Some((from, to)) => (number(from).ok_or_else(wrong)?, number(to).ok_or_else(wrong)?),
            None => {
                let from = number(range).ok_or_else(wrong)?;
                (from, if part.contains('/') { most } else { from })
            }
        };
        if from < least || to > most || from > to {
            return Err(wrong());
        }
        members |= (from..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX)).fold(0, |set, at| set | 1 << at);
    }
    Ok(members)
}

fn parse_number(text: &str, least: u32, names: &[&str]) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let named = names.iter().position(|name| *name == lower).and_then(|at| u32::try_from(at).ok());
    named.map(|at| at + least).or_else(|| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    fn next(schedule: &str, after: i64) -> Option<i64> {
        next_in(&TimeZone::UTC, schedule, after)
    }

    fn next_in(zone: &TimeZone, schedule: &str, after: i64) -> Option<i64> {
        Cron::parse(schedule).unwrap().next_after(Timestamp::from_millis(after), zone).map(|at| at.as_millis())
    }

    #[test]
    fn days_have_their_dates() {
        // 1970 has 365 days, 1972 is a leap year: its 29 February is day 365 + 365 + 31 + 28 = 789.
        assert_eq!([month_and_day(0), month_and_day(364), month_and_day(365)], [(1, 1), (12, 31), (1, 1)]);
        assert_eq!([month_and_day(788), month_and_day(789), month_and_day(790)], [(2, 28), (2, 29), (3, 1)]);
        // 1 January 2000 is day 30 × 365 + 7 leap days = 10,957; 2000 is a leap year, so 60 days later is 1 March.
        assert_eq!(
            [month_and_day(10_957), month_and_day(10_957 + 59), month_and_day(10_957 + 60)],
            [(1, 1), (2, 29), (3, 1)]
        );
        assert_eq!(month_and_day(-1), (12, 31));
    }

    #[test]
    fn the_next_time_is_strictly_later() {
        assert_eq!(next("0 9 * * *", 9 * HOUR - 1), Some(9 * HOUR));
        assert_eq!(next("0 9 * * *", 9 * HOUR), Some(DAY + 9 * HOUR));
        assert_eq!(next("@daily", 0), Some(DAY));
        assert_eq!(next("*/20 1 * * *", HOUR), Some(HOUR + 20 * 60_000));
        // 1 January 1970 was a Thursday: the next Monday is the 5th, the next Saturday the 3rd.
        assert_eq!(next("0 0 * * mon-wed", 0), Some(4 * DAY));
        assert_eq!(next("0 0 * * 6", 0), Some(2 * DAY));
        assert_eq!(next("0 0 29 feb *", 0), Some(789 * DAY));
        assert_eq!(next("0 0 30 2 *", 0), None);
    }

    #[test]
    fn two_restricted_days_are_alternatives() {
        // The first Sunday of 1970 is the 4th, before the 15th; with the weekday open only the 15th counts.
        assert_eq!(next("0 0 15 * 0", 0), Some(3 * DAY));
        assert_eq!(next("0 0 15 * *", 0), Some(14 * DAY));
    }

    #[test]
    fn a_schedule_follows_the_clocks_of_its_time_zone() {
        let tokyo = TimeZone::named("Asia/Tokyo").unwrap();
        // Tokyo is nine hours ahead: its 9 o'clock of 2 January 1970 is midnight UTC.
        assert_eq!(next_in(&tokyo, "0 9 * * *", 0), Some(DAY));
        // Its Saturday, 3 January, begins at 15:00 UTC of the 2nd.
        assert_eq!(next_in(&tokyo, "0 0 * * sat", 0), Some(DAY + 15 * HOUR));
        let new_york = TimeZone::named("America/New_York").unwrap();
        // 1 January 2026 is day 20,454, in winter five hours behind UTC; 1 July is 181 days later, in summer four.
        assert_eq!(next_in(&new_york, "0 9 * * *", 20_454 * DAY), Some(20_454 * DAY + 14 * HOUR));
        assert_eq!(next_in(&new_york, "0 9 * * *", 20_635 * DAY), Some(20_635 * DAY + 13 * HOUR));
    }

    /// Berlin's clocks go from 02:00 to 03:00 on 29 March 2026, day 20,541, at 01:00 UTC.
    #[test]
    fn a_time_that_clocks_skip_fires_at_the_change() {
        let berlin = TimeZone::named("Europe/Berlin").unwrap();
        let (midnight, change) = (20_541 * DAY, 20_541 * DAY + HOUR);
        assert_eq!(next_in(&berlin, "30 2 * * *", midnight), Some(change));
        // It fired for that day: the next one is 02:30 of the 30th, in summer time, 00:30 UTC.
        assert_eq!(next_in(&berlin, "30 2 * * *", change), Some(midnight + DAY + HOUR / 2));
        // The four skipped times are one.
        assert_eq!(next_in(&berlin, "*/15 2 * * *", change - 1), Some(change));
        assert_eq!(next_in(&berlin, "*/15 2 * * *", change), Some(midnight + DAY));
        // 03:00 is the same instant as the change.
        assert_eq!(next_in(&berlin, "0 2,3 * * *", change - 1), Some(change));
        assert_eq!(next_in(&berlin, "0 2,3 * * *", change), Some(midnight + DAY));
    }

    /// Berlin's clocks go from 03:00 back to 02:00 on 25 October 2026, day 20,751, at 01:00 UTC.
    #[test]
    fn a_time_that_clocks_show_twice_fires_once() {
        let berlin = TimeZone::named("Europe/Berlin").unwrap();
        let midnight = 20_751 * DAY;
        // 02:30 is first 00:30 UTC, and again 01:30 UTC; the day after it is 01:30 UTC, in winter time.
        assert_eq!(next_in(&berlin, "30 2 * * *", midnight), Some(midnight + HOUR / 2));
        assert_eq!(next_in(&berlin, "30 2 * * *", midnight + HOUR / 2), Some(midnight + DAY + HOUR + HOUR / 2));
        assert_eq!(next_in(&berlin, "30 2 * * *", midnight + HOUR), Some(midnight + DAY + HOUR + HOUR / 2));
        // Hourly: 02:00 is 00:00 UTC, and 03:00 is 02:00 UTC.
        assert_eq!(next_in(&berlin, "@hourly", midnight), Some(midnight + 2 * HOUR));
    }

    #[test]
    fn invalid_schedules_are_rejected() {
        for text in [
            "",
            "0 9 * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "@reboot",
            "a * * * *",
        ] {
            assert!(Cron::parse(text).is_err(), "{text:?}");
        }
    }
}
