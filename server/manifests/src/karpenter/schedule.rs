//! Cron schedules of disruption budgets: five fields in UTC, or a macro.
//!
//! The dialect is that of Karpenter's parser: `*`, `?`, numbers, names of months and weekdays, ranges, steps and lists;
//! Sunday is 0. When day of month and day of week are both restricted, either suffices.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Minutes, hours, days, months and weekdays on which a schedule fires, as bitsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Day of month or day of week is unrestricted, so that both must match.
    both_days: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Years that [`Schedule::next_after`] looks ahead; a date that does not come in five years (30 February) never does.
const HORIZON_DAYS: i64 = 5 * 366;

impl Schedule {
    /// Reads `text`.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
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
            return Err(format!(
                "{} fields, allowed: five (minute, hour, day of month, month, day of week) or a macro such as @daily",
                fields.len()
            ));
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

    /// The first moment after `after` at which the schedule fires, in UTC; `None` when it never does.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.checked_add(Span::new().minutes(1)).ok()?.to_zoned(TimeZone::UTC);
        let midnight = start.start_of_day().ok()?;
        for offset in 0..HORIZON_DAYS {
            let day = midnight.checked_add(Span::new().days(offset)).ok()?;
            if !self.fires_on(&day) {
                continue;
            }
            let earliest = if offset == 0 { i64::from(start.hour()) * 60 + i64::from(start.minute()) } else { 0 };
            if let Some(minute) = (earliest..24 * 60).find(|minute| self.fires_at(*minute)) {
                return day.checked_add(Span::new().minutes(minute)).ok().map(|moment| moment.timestamp());
            }
        }
        None
    }

    fn fires_at(&self, minute_of_day: i64) -> bool {
        has(self.hours, minute_of_day / 60) && has(self.minutes, minute_of_day % 60)
    }

    fn fires_on(&self, day: &jiff::Zoned) -> bool {
        let of_month = has(self.days, i64::from(day.day()));
        let of_week = has(self.weekdays, i64::from(day.weekday().since(Weekday::Sunday)));
        let fits = if self.both_days { of_month && of_week } else { of_month || of_week };
        fits && has(self.months, i64::from(day.month()))
    }
}

fn has(set: u64, member: i64) -> bool {
    set >> member & 1 == 1
}

/// The members of one field, such as `0,30`, `9-17/2`, `*/15` or `mon-fri`.
fn parse_field(field: &str, what: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let wrong = || format!("{what} {field:?}, allowed: {least} to {most}, ranges, steps, lists and *");
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

    fn next(schedule: &str, after: &str) -> String {
        let after = after.parse().unwrap();
        Schedule::parse(schedule).unwrap().next_after(after).map_or("never".to_owned(), |moment| moment.to_string())
    }

    #[test]
    fn the_next_hit_lies_strictly_after() {
        assert_eq!(
            next("0 9 * * mon-fri", "2026-01-02T09:00:00Z"),
            "2026-01-05T09:00:00Z",
            "2 January 2026 is a Friday"
        );
        assert_eq!(next("0 9 * * mon-fri", "2026-01-02T08:59:30Z"), "2026-01-02T09:00:00Z");
        assert_eq!(next("@daily", "2026-12-31T00:00:00Z"), "2027-01-01T00:00:00Z");
        assert_eq!(next("*/20 1 29 feb *", "2026-01-01T00:00:00Z"), "2028-02-29T01:00:00Z");
        assert_eq!(next("0 0 30 2 *", "2026-01-01T00:00:00Z"), "never");
    }

    #[test]
    fn two_restricted_days_are_alternatives() {
        assert_eq!(next("0 0 15 * 0", "2026-01-05T00:00:00Z"), "2026-01-11T00:00:00Z", "a Sunday before the 15th");
        assert_eq!(next("0 0 15 * *", "2026-01-05T00:00:00Z"), "2026-01-15T00:00:00Z");
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
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
            assert!(Schedule::parse(text).is_err(), "{text:?}");
        }
    }
}
