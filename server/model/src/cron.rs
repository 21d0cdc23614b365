//! Cron schedules in UTC: five fields or a macro.
//!
//! The dialect is that of Karpenter's parser: `*`, `?`, numbers, names of months and weekdays,
//! ranges, steps and lists; Sunday is 0. When both day of month and day of week are restricted,
//! either suffices.

use crate::Timestamp;

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

    /// The first time after `after` at which the schedule fires; `None` when it never does.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let first = after.as_millis().div_euclid(MINUTE_MS).checked_add(1)?;
        let today = first.div_euclid(DAY_MINUTES);
        let earliest = first.rem_euclid(DAY_MINUTES);
        for day in today..today.checked_add(HORIZON_DAYS)? {
            let from = if day == today { earliest } else { 0 };
            let hit = (from..DAY_MINUTES).filter(|_| self.fires_on(day)).find(|minute| self.fires_at(*minute));
            if let Some(minute) = hit {
                return Some(Timestamp::from_millis((day.checked_mul(DAY_MINUTES)? + minute).checked_mul(MINUTE_MS)?));
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
        Cron::parse(schedule).unwrap().next_after(Timestamp::from_millis(after)).map(|at| at.as_millis())
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
