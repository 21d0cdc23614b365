//! Opt-in rules of disruption: annotations `fleetwright.dev/…` in the metadata of a NodePool that say when its nodes
//! may be removed.

use model::TimeZone;

use crate::Cursor;

/// Names of these annotations.
pub(super) const KEYS: [&str; 1] = [BUDGET_TIME_ZONE];

const BUDGET_TIME_ZONE: &str = "fleetwright.dev/budget-time-zone";

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
