//! `spec.disruption` of a NodePool: when its nodes may be removed or replaced.

use model::cron::Cron;
use model::{Budget, BudgetLimit, BudgetWindow, ConsolidationPolicy, DisruptionPolicy, DisruptionReason, TimeZone};
use serde_json::json;

use super::duration;
use super::opt_in_disruption::{read_expire_jitter, read_expire_replace_first, read_time_zone, read_windows};
use crate::Cursor;
use crate::schema::part::{Part, atomic, fields, list, object, one_of_table, text};

const POLICIES: [(&str, ConsolidationPolicy); 3] = [
    ("WhenEmpty", ConsolidationPolicy::WhenEmpty),
    ("WhenEmptyOrUnderutilized", ConsolidationPolicy::WhenEmptyOrUnderutilized),
    ("Balanced", ConsolidationPolicy::Balanced),
];
const REASONS: [(&str, DisruptionReason); 4] = [
    ("Underutilized", DisruptionReason::Underutilized),
    ("Empty", DisruptionReason::Empty),
    ("Drifted", DisruptionReason::Drifted),
    ("Unhealthy", DisruptionReason::Unhealthy),
];
const MOST_BUDGETS: usize = 50;

/// The settings of `spec.disruption` at `at`, and of the pool's `annotations`. What is absent has its default,
/// `consolidateAfter` too (Karpenter 1.15; before, a written object required it). Expiry and the grace period belong to
/// the template.
#[must_use]
pub fn read(at: &Cursor<'_>, annotations: &Cursor<'_>) -> DisruptionPolicy {
    let zone = read_time_zone(annotations);
    let mut policy = DisruptionPolicy {
        windows: read_windows(annotations, &zone),
        expire_jitter: read_expire_jitter(annotations),
        expire_replace_first: read_expire_replace_first(annotations),
        ..DisruptionPolicy::default()
    };
    if !at.exists() {
        return policy;
    }
    policy.policy = at.at("consolidationPolicy").one_of(&POLICIES).unwrap_or(policy.policy);
    policy.consolidate_after = duration::read_lifetime(&at.at("consolidateAfter"), policy.consolidate_after);
    if at.at("budgets").exists() {
        policy.budgets = read_budgets(&at.at("budgets"), &zone);
    }
    policy
}

pub(crate) fn schema() -> Part {
    object(fields! {
        /// Which nodes consolidation looks at: only empty ones, all of them, or all with savings weighed against the
        /// disturbance.
        /// Example: WhenEmpty
        "consolidationPolicy": one_of_table(&POLICIES).default_value(json!("WhenEmptyOrUnderutilized")),
        /// How long a node must have seen no pod come or go before it may be consolidated. Karpenter before 1.15
        /// requires it when disruption is written out.
        /// Example: 1m
        "consolidateAfter": duration::lifetime_schema().default_value(json!("0s")),
        /// How many nodes may be disrupted at the same time. The strictest budget that is active and names the reason
        /// holds. They do not hold expiry.
        /// Default: [{nodes: 10%}]
        /// Allowed: at most 50
        "budgets": budgets_schema(),
    })
    .default_value(json!({"consolidateAfter": "0s"}))
}

fn budgets_schema() -> Part {
    const NODES: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
    // Five words, or any text that begins with a macro such as `@daily`. Readers validate the
    // schedule itself.
    const SCHEDULE: &str =
        r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
    let budget = object(fields! {
        /// How many nodes of the pool, or what share of them, rounded up.
        /// Allowed: a number such as 5, or 0% to 100%
        /// Example: 20%
        "nodes": text().pattern(NODES).default_value(json!("10%")),
        /// The reasons for which this budget holds. Unhealthy paces repairs where they are voluntary
        /// (disruption.repair).
        /// Default: all reasons
        /// Allowed: Underutilized, Empty, Drifted, Unhealthy (Karpenter 1.15)
        /// Example: [Drifted]
        "reasons": list(one_of_table(&REASONS)).max_items(50).list_type("set"),
        /// When the budget begins to be active, in UTC or the time zone of fleetwright.dev/budget-time-zone. A time
        /// that clocks skip is that of the change, and one that they show twice is the first.
        /// Default: always
        /// Allowed: five cron fields, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; together
        /// with duration
        /// Example: "0 9 * * mon-fri"
        "schedule": text().pattern(SCHEDULE),
        /// How long the budget stays active each time.
        /// Default: always
        /// Allowed: hours and minutes, such as 8h or 1h30m; together with schedule
        /// Example: 8h
        "duration": text().pattern("^(([0-9]+(h|m)|[0-9]+h[0-9]+m)(0s)?)$"),
    });
    atomic(budget.required(&["nodes"])).max_items(MOST_BUDGETS).default_value(json!([{"nodes": "10%"}])).rule(
        "self.all(x, has(x.schedule) == has(x.duration))",
        "schedule and duration belong together; write both or neither",
    )
}

fn read_budgets(at: &Cursor<'_>, zone: &TimeZone) -> Vec<Budget> {
    let entries = at.list();
    if entries.len() > MOST_BUDGETS {
        at.error(format!("{} budgets, allowed: at most {MOST_BUDGETS}", entries.len()));
    }
    entries.iter().take(MOST_BUDGETS).map(|budget| read_budget(budget, zone)).collect()
}

fn read_budget(at: &Cursor<'_>, zone: &TimeZone) -> Budget {
    let nodes_at = at.at("nodes");
    let limit = nodes_at
        .str()
        .and_then(|text| parse_limit(text).or_else(|| nodes_at.unexpected(text, "a number such as 5, or 0% to 100%")));
    let reasons_at = at.at("reasons");
    let reasons =
        reasons_at.exists().then(|| reasons_at.list().iter().filter_map(|reason| reason.one_of(&REASONS)).collect());
    Budget { limit: limit.unwrap_or(BudgetLimit::Percent(10)), reasons, window: read_window(at, zone) }
}

fn parse_limit(text: &str) -> Option<BudgetLimit> {
    let number = |text: &str| {
        let number = text.parse::<i64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))?;
        Some(u32::try_from(number).unwrap_or(u32::MAX))
    };
    match text.strip_suffix('%') {
        Some(percent) => number(percent).filter(|percent| *percent <= 100 && text.len() <= 4).map(BudgetLimit::Percent),
        None => number(text).map(BudgetLimit::Nodes),
    }
}

fn read_window(at: &Cursor<'_>, zone: &TimeZone) -> Option<BudgetWindow> {
    let (schedule_at, duration_at) = (at.at("schedule"), at.at("duration"));
    if schedule_at.exists() != duration_at.exists() {
        at.error("schedule and duration belong together; write both or neither");
        return None;
    }
    let schedule = schedule_at.str()?;
    let schedule =
        Cron::parse(schedule).map_err(|problem| schedule_at.error(format!("not a schedule: {problem}"))).ok();
    let text = duration_at.str()?;
    let whole_minutes = duration::parse(text).filter(|duration| duration.get() % 60_000 == 0);
    let duration = whole_minutes.or_else(|| duration_at.unexpected(text, "hours and minutes, such as 8h or 1h30m"));
    Some(BudgetWindow { schedule: schedule?, zone: zone.clone(), duration: duration? })
}
