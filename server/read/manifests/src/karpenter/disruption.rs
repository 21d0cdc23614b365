//! `spec.disruption` of a NodePool: when its nodes may be removed or replaced.

use model::cron::Cron;
use model::{BudgetWindow, Millis, TimeZone};

use super::duration::{self, Lifetime};
use super::opt_in_disruption::{read_expire_jitter, read_expire_replace_first, read_time_zone, read_windows};
use crate::Cursor;

/// `spec.disruption`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// `consolidationPolicy`.
    pub policy: ConsolidationPolicy,
    /// `consolidateAfter`.
    pub consolidate_after: Lifetime,
    /// `budgets`; an empty list limits nothing.
    pub budgets: Vec<Budget>,
    /// Windows outside of which no node is removed voluntarily, by annotation; without an entry it is allowed at any
    /// time.
    pub windows: Vec<BudgetWindow>,
    /// How much earlier than by `expireAfter` nodes expire at most, by annotation.
    pub expire_jitter: Option<Millis>,
    /// Whether an expired node is drained once the nodes that its pods move to are ready, by annotation.
    pub expire_replace_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsolidationPolicy {
    /// Only empty nodes.
    WhenEmpty,
    WhenEmptyOrUnderutilized,
    /// Empty and underutilized nodes, if the savings outweigh the disruption.
    Balanced,
}

/// One entry of `budgets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// `nodes`.
    pub nodes: Quota,
    /// `reasons`; `None` applies to all reasons, an empty list to none.
    pub reasons: Option<Vec<DisruptionReason>>,
    /// `schedule` and `duration`, in the pool's time zone; `None` is always active.
    pub window: Option<BudgetWindow>,
}

/// Maximum number of nodes that may be disrupted at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    Nodes(i64),
    /// Percentage of the pool's nodes, rounded up.
    Percent(i64),
}

/// Why a node is removed or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisruptionReason {
    /// Its pods could run elsewhere, or on a cheaper machine.
    Underutilized,
    /// It runs only DaemonSet pods.
    Empty,
    /// It differs from the spec of its pool.
    Drifted,
    /// It is unhealthy, and repairs are voluntary (Karpenter 1.15).
    Unhealthy,
}

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

impl Default for Budget {
    /// Ten percent of the nodes, always active (Karpenter: default budget).
    fn default() -> Self {
        Self { nodes: Quota::Percent(10), reasons: None, window: None }
    }
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
            consolidate_after: Lifetime::Finite(Millis::ZERO),
            budgets: vec![Budget::default()],
            windows: Vec::new(),
            expire_jitter: None,
            expire_replace_first: false,
        }
    }
}

impl Disruption {
    /// Parses the object at `at`, and the pool's `annotations`. What is absent has its default, `consolidateAfter`
    /// too (Karpenter 1.15; before, a written object required it).
    #[must_use]
    pub fn read(at: &Cursor<'_>, annotations: &Cursor<'_>) -> Self {
        let zone = read_time_zone(annotations);
        let windows = read_windows(annotations, &zone);
        let mut disruption = Self { windows, expire_jitter: read_expire_jitter(annotations), ..Self::default() };
        disruption.expire_replace_first = read_expire_replace_first(annotations);
        if !at.exists() {
            return disruption;
        }
        disruption.policy = at.at("consolidationPolicy").one_of(&POLICIES).unwrap_or(disruption.policy);
        let after = duration::read_lifetime(&at.at("consolidateAfter"));
        disruption.consolidate_after = after.unwrap_or(disruption.consolidate_after);
        if at.at("budgets").exists() {
            disruption.budgets = read_budgets(&at.at("budgets"), &zone);
        }
        disruption
    }
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
    let nodes = match nodes_at.exists() {
        true => nodes_at.str().and_then(|text| {
            parse_quota(text).or_else(|| nodes_at.unexpected(text, "a number such as 5, or 0% to 100%"))
        }),
        false => None,
    };
    let reasons_at = at.at("reasons");
    let reasons =
        reasons_at.exists().then(|| reasons_at.list().iter().filter_map(|reason| reason.one_of(&REASONS)).collect());
    Budget { nodes: nodes.unwrap_or(Quota::Percent(10)), reasons, window: read_window(at, zone) }
}

fn parse_quota(text: &str) -> Option<Quota> {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    match text.strip_suffix('%') {
        Some(percent) => digits(percent).filter(|percent| *percent <= 100 && text.len() <= 4).map(Quota::Percent),
        None => digits(text).map(Quota::Nodes),
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
