//! Opt-in rules of disruption: annotations `fleetwright.dev/…` in the metadata of a NodePool that say when its nodes
//! may be removed.

use model::cron::Cron;
use model::{BudgetWindow, Millis, TimeZone};

use super::duration::{self, read_positive as read_positive_duration};
use crate::Cursor;
use crate::schema::part::{Entry, fields, text};

pub(super) const KEYS: [&str; 4] = [BUDGET_TIME_ZONE, DISRUPTION_WINDOWS, EXPIRE_JITTER, EXPIRE_REPLACE_FIRST];

const BUDGET_TIME_ZONE: &str = "fleetwright.dev/budget-time-zone";
const DISRUPTION_WINDOWS: &str = "fleetwright.dev/disruption-windows";
const EXPIRE_JITTER: &str = "fleetwright.dev/expire-jitter";
const EXPIRE_REPLACE_FIRST: &str = "fleetwright.dev/expire-replace-first";

/// The annotations of a NodePool that are read here.
pub(super) fn annotations() -> Vec<Entry> {
    fields! {
        /// The time zone of the schedules of the pool's budgets and disruption windows.
        /// Default: UTC
        /// Allowed: the name of a time zone in the IANA database
        /// Example: Europe/Berlin
        "fleetwright.dev/budget-time-zone": text(),
        /// Empty, drifted and underutilized nodes of the pool are removed only while one of these windows is open.
        /// Expiry, repair, interruptions and deletions by hand do not wait.
        /// Default: always
        /// Allowed: cron schedule, semicolon, and hours and minutes; several separated by commas
        /// Example: "0 22 * * mon-fri;6h, 0 0 * * sat;48h"
        "fleetwright.dev/disruption-windows": text(),
        /// Nodes expire earlier than by expireAfter, by up to this and at most by half of expireAfter, each by the
        /// UID of its NodeClaim: nodes of one age do not expire together.
        /// Default: none
        /// Allowed: a duration above zero such as 90s, 10m, 1h30m
        /// Example: 24h
        "fleetwright.dev/expire-jitter": text(),
        /// An expired node is drained once the nodes that its pods move to are ready, or after the time that a launch
        /// may take, or half of terminationGracePeriod.
        /// Default: "false"
        /// Allowed: "true", "false"
        /// Example: "true"
        "fleetwright.dev/expire-replace-first": text(),
    }
}

/// The time zone of the pool's schedules, in the annotations at `at`; UTC when it is absent. An
/// invalid value is an error.
pub(super) fn read_time_zone(at: &Cursor<'_>) -> TimeZone {
    let at = at.at(BUDGET_TIME_ZONE);
    let zone = at.str().and_then(|name| {
        let allowed = "the name of a time zone in the IANA database, such as Europe/Berlin or UTC";
        TimeZone::named(name).or_else(|| at.unexpected(name, allowed))
    });
    zone.unwrap_or_default()
}

/// How much earlier nodes of the pool expire at most, in the annotations at `at`; `None` when it is
/// absent. An invalid value is an error.
pub(super) fn read_expire_jitter(at: &Cursor<'_>) -> Option<Millis> {
    read_positive_duration(&at.at(EXPIRE_JITTER))
}

/// Whether expired nodes of the pool are replaced before they are drained, by the annotations at
/// `at`; false when it is absent. An invalid value is an error.
pub(super) fn read_expire_replace_first(at: &Cursor<'_>) -> bool {
    at.at(EXPIRE_REPLACE_FIRST).one_of(&[("true", true), ("false", false)]).unwrap_or(false)
}

/// The windows outside of which the pool's nodes are not removed voluntarily, in the annotations at
/// `at`; empty when it is absent. An invalid value is an error.
pub(super) fn read_windows(at: &Cursor<'_>, zone: &TimeZone) -> Vec<BudgetWindow> {
    let at = at.at(DISRUPTION_WINDOWS);
    let windows = at.str().and_then(|text| match parse_windows(text, zone) {
        Ok(windows) => Some(windows),
        Err(problem) => {
            let allowed = "windows separated by commas, each a cron schedule, a semicolon and hours and minutes, such as \
                           \"0 22 * * mon-fri;6h\"";
            at.unexpected(text, &format!("{allowed}; {problem}"))
        }
    });
    windows.unwrap_or_default()
}

/// Parses `cron;duration` entries. The commas of a schedule are before its semicolon, so that the first comma
/// after it ends the entry.
fn parse_windows(text: &str, zone: &TimeZone) -> Result<Vec<BudgetWindow>, String> {
    let (mut windows, mut rest) = (Vec::new(), Some(text));
    while let Some(entry) = rest {
        let (schedule, after) = entry.split_once(';').ok_or_else(|| format!("{:?} has no semicolon", entry.trim()))?;
        let (length, others) = after.split_once(',').map_or((after, None), |(length, others)| (length, Some(others)));
        let schedule = Cron::parse(schedule).map_err(|problem| format!("not a schedule: {problem}"))?;
        let whole_minutes =
            duration::parse(length.trim()).filter(|length| *length > Millis::ZERO && length.get() % 60_000 == 0);
        let duration = whole_minutes.ok_or_else(|| format!("{:?} is no duration above zero", length.trim()))?;
        windows.push(BudgetWindow { schedule, zone: zone.clone(), duration });
        rest = others;
    }
    Ok(windows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_separated_by_the_commas_after_durations() {
        let window = |schedule: &str, minutes: i64| BudgetWindow {
            schedule: Cron::parse(schedule).unwrap(),
            zone: TimeZone::UTC,
            duration: Millis::from_mins(minutes),
        };
        let read = |text: &str| parse_windows(text, &TimeZone::UTC);
        assert_eq!(read("0 22 * * mon-fri;6h"), Ok(vec![window("0 22 * * mon-fri", 360)]));
        let both = vec![window("0 0,12 * * sat,sun", 60), window("30 3 * * *", 90)];
        assert_eq!(read("0 0,12 * * sat,sun; 1h, 30 3 * * * ;1h30m"), Ok(both));
        for text in
            ["", "0 22 * * *", "0 22 * *;1h", "0 22 * * *;", "0 22 * * *;0m", "0 22 * * *;90s", "0 22 * * *;1h,"]
        {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
