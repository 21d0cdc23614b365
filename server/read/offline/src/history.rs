//! `fleetwright history`: lists decisions with cost and reasons.

use std::time::Duration;

use clap::Args;
use model::{MicroUsd, Timestamp};
use serde::Serialize;

use super::archive::ArchiveFlags;
use super::decision_reference::DecisionReference;
use client::archive::failed;
use client::cluster_names;
use command::escape::escape_unprintable;
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, moment, print_rows};
use command::wording::dollars;
use decision_log::{RecordedAnswer, replay, replay_all};
use store::clock;
use store::lease::Scope;
use store::log::StoredDecision;

/// List decisions, or show one decision with its reasons
#[derive(Debug, Args)]
pub struct HistoryFlags {
    /// Decision to show in full: its number, the last digits of it, or `last`
    decision: Option<DecisionReference>,
    #[command(flatten)]
    archive: ArchiveFlags,
    /// Only decisions for this cluster
    #[arg(long, value_name = "NAME", add = cluster_names::completer())]
    cluster: Option<String>,
    /// Maximum age of decisions, such as 30m or 1d
    #[arg(long, value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    since: Option<Duration>,
    /// Maximum number of decisions, latest first
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Row of the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    decision: u64,
    at_ms: i64,
    cluster: String,
    kind: String,
    epoch: u64,
    /// Number of launches; absent without a plan.
    nodes: Option<usize>,
    cost_per_hour: Option<f64>,
    lower_bound_per_hour: Option<f64>,
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &HistoryFlags) -> Result<Status, Failure> {
    match &flags.decision {
        Some(decision) => one(flags, decision),
        None => list(flags),
    }
}

fn list(flags: &HistoryFlags) -> Result<Status, Failure> {
    let from = flags.since.map(|since| earlier(clock::now(), since));
    let scope = flags.cluster.as_deref().map(Scope::cluster);
    let found = flags.archive.ask(async |store| {
        let keep = |stored: &StoredDecision| from.is_none_or(|from| stored.decision.decided_at_ms >= from.as_millis());
        replay_all::read(&*store, scope, flags.limit, keep).await.map_err(failed)
    })?;
    let rows: Vec<Row> = found.into_iter().map(row).collect();
    print_list(&rows, flags.output)
}

fn print_list(rows: &[Row], format: Format) -> Result<Status, Failure> {
    let headings = ["DECISION", "WHEN (UTC)", "CLUSTER", "KIND", "EPOCH", "NODES", "$/HOUR", "LOWER BOUND", "WHAT"];
    print_rows(rows, format, headings, |row| {
        [
            row.decision.to_string(),
            moment(row.at_ms),
            row.cluster.clone(),
            row.kind.clone(),
            row.epoch.to_string(),
            row.nodes.map_or_else(String::new, |nodes| nodes.to_string()),
            row.cost_per_hour.map_or_else(String::new, |cost| cost.to_string()),
            row.lower_bound_per_hour.map_or_else(String::new, |bound| bound.to_string()),
            row.summary.clone(),
        ]
    })
}

fn one(flags: &HistoryFlags, decision: &DecisionReference) -> Result<Status, Failure> {
    let found = flags.archive.ask(async |store| {
        let number = decision.number(&*store, flags.cluster.as_deref(), |_| true).await?;
        store.decision(number).await.map_err(failed)
    })?;
    let rows: Vec<Row> = found.into_iter().map(whole).collect();
    if flags.output != Format::Table {
        return print_list(&rows, flags.output);
    }
    output::print_text(&rows.iter().map(story).collect::<Vec<String>>().join("\n"))?;
    Ok(Status::Done)
}

fn earlier(now: Timestamp, since: Duration) -> Timestamp {
    now - clock::millis(since)
}

fn row(stored: StoredDecision) -> Row {
    let answer = replay::answer_of(&stored).and_then(plan_columns);
    let cluster = stored.scope.cluster_name().map_or_else(|| stored.scope.key(), str::to_owned);
    Row {
        decision: stored.decision.number,
        at_ms: stored.decision.decided_at_ms,
        cluster,
        kind: stored.decision.kind,
        epoch: stored.epoch,
        nodes: answer.map(|plan| plan.nodes),
        cost_per_hour: answer.map(|plan| dollars(plan.cost)),
        lower_bound_per_hour: answer.and_then(|plan| plan.lower_bound).map(dollars),
        summary: stored.decision.summary,
        reasons: Vec::new(),
        engine: None,
    }
}

/// A recorded plan in figures.
#[derive(Debug, Clone, Copy)]
struct PlanColumns {
    /// Number of machines to launch.
    nodes: usize,
    /// What they cost per hour.
    cost: MicroUsd,
    /// The lower bound of that; `None` for a plan of disruption, whose bound is that of the whole cluster.
    lower_bound: Option<MicroUsd>,
}

/// `None` for removals by a method, which are made without a plan.
fn plan_columns(answer: RecordedAnswer) -> Option<PlanColumns> {
    match answer {
        RecordedAnswer::Pods(plan, report) => Some(PlanColumns {
            nodes: plan.nodes.len() + plan.static_nodes.len(),
            cost: report.new_cost,
            lower_bound: Some(report.lower_bound),
        }),
        RecordedAnswer::Disruption(answer) => Some(PlanColumns {
            nodes: answer.plan.nodes.len(),
            cost: MicroUsd(answer.plan.nodes.iter().map(|node| node.price.0).sum()),
            lower_bound: None,
        }),
        RecordedAnswer::Removals(_) => None,
    }
}

fn whole(stored: StoredDecision) -> Row {
    let reasons = stored.decision.report.lines().map(str::to_owned).collect();
    let engine = stored.decision.replay.as_ref().map(|replay| replay.engine_version.clone());
    Row { reasons, engine, ..row(stored) }
}

fn story(row: &Row) -> String {
    let (cluster, kind) = (escape_unprintable(&row.cluster), escape_unprintable(&row.kind));
    let mut text = format!("decision {} of cluster {cluster} ({kind}), epoch {}\n", row.decision, row.epoch);
    text.push_str(&format!("  when     {} UTC\n  what     {}\n", moment(row.at_ms), escape_unprintable(&row.summary)));
    if let (Some(nodes), Some(cost)) = (row.nodes, row.cost_per_hour) {
        let bound = |bound| format!("; lower bound ${bound} an hour (no plan can be cheaper)");
        let bound = row.lower_bound_per_hour.map_or_else(String::new, bound);
        text.push_str(&format!("  plan     nodes: {nodes}, ${cost} an hour{bound}\n"));
    }
    match &row.engine {
        Some(engine) => {
            text.push_str(&format!("  engine   {engine}; `fleetwright replay {}` repeats it\n", row.decision))
        }
        None => text.push_str("  engine   what it was made from was not recorded; there is nothing to replay\n"),
    }
    for reason in &row.reasons {
        text.push_str(&format!("  why      {}\n", escape_unprintable(reason)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_escapes_control_characters_and_keeps_its_lines() {
        let hostile = "x\u{1b}]0;pwned\u{7}\n  why      made up".to_owned();
        let row = Row {
            decision: 7,
            at_ms: 0,
            cluster: hostile.clone(),
            kind: hostile.clone(),
            epoch: 1,
            nodes: None,
            cost_per_hour: None,
            lower_bound_per_hour: None,
            summary: hostile.clone(),
            reasons: vec![hostile],
            engine: None,
        };
        let story = story(&row);
        assert!(story.chars().all(|c| c == '\n' || !c.is_control()), "{story:?}");
        assert_eq!(story.lines().count(), 5, "{story}");
    }
}
