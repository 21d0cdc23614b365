//! `fleetwright replay`: replays a decision bit for bit, or under another policy.

use std::path::Path;

use clap::{ArgGroup, Args};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport};
use serde::Serialize;

use super::archive::{ArchiveFlags, failed};
use super::decision_reference::{DecisionReference, unknown};
use super::exit::{Failure, Status};
use super::history::dollars;
use super::remote::Format;
use super::{output, sources};
use crate::config::{Config, Layers};
use decision_log::replay::{LogReader, RecordedDecision, ReplayError, ReplayOutcome};
use decision_log::what_if::{PolicyOverride, WhatIf};
use decision_log::{ENGINE, diff, replay_all};
use store::lease::Scope;
use store::log::StoredDecision;

/// Replay decisions from the log and compare the results
///
/// Plans are pure: the same input gives the same plan, bit for bit. Replay reads the input of a
/// decision, plans again and compares input and plan; exit status 1 means that they differ. With
/// another policy or catalogue it prints the alternative decision and the difference in nodes and
/// dollars.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["decision", "all"])))]
pub struct ReplayFlags {
    /// Decision to replay: its number, the last digits of it, or `last`, the latest one with a plan
    decision: Option<DecisionReference>,
    /// All stored decisions
    #[arg(long, conflicts_with_all = ["with_policy", "with_catalogue"])]
    all: bool,
    #[command(flatten)]
    archive: ArchiveFlags,
    /// Only decisions for this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// With --all: maximum number, latest first
    #[arg(long, default_value_t = 10_000)]
    limit: usize,
    /// Use this policy instead: manifests with NodePools, which replace those of the same name, or
    /// a server configuration (.toml); repeatable
    #[arg(long, value_name = "FILE")]
    with_policy: Vec<String>,
    /// Use these instance types and prices instead, in the format of `plan --catalogue`
    #[arg(long, value_name = "FILE")]
    with_catalogue: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &ReplayFlags) -> Result<Status, Failure> {
    match &flags.decision {
        Some(decision) => one(flags, decision),
        None => all(flags),
    }
}

fn all(flags: &ReplayFlags) -> Result<Status, Failure> {
    let scope = flags.cluster.as_deref().map(Scope::cluster);
    let mut outcomes = Vec::new();
    let tally = flags.archive.ask(async |store| {
        let decisions = replay_all::read(&*store, scope, flags.limit, |_| true).await.map_err(failed)?;
        let print_result = |stored: &StoredDecision, verdict: &Result<ReplayOutcome, ReplayError>| {
            if !matches!(verdict, Err(ReplayError::NoPlan { .. })) {
                outcomes.push(outcome(stored, verdict));
            }
        };
        replay_all::replay(&*store, decisions, print_result).await.map_err(failed)
    })?;
    match flags.output {
        Format::Table => {
            let lines: Vec<&str> = outcomes.iter().map(|outcome| outcome.said.as_str()).collect();
            print_lines(lines.into_iter().chain([tally.to_string().as_str()]))?;
        }
        format => print_value(&outcomes, format)?,
    }
    Ok(if tally.is_success() { Status::Done } else { Status::Leftover })
}

/// Result of one replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    decision: u64,
    cluster: String,
    identical: bool,
    said: String,
}

fn outcome(stored: &StoredDecision, verdict: &Result<ReplayOutcome, ReplayError>) -> Outcome {
    Outcome {
        decision: stored.decision.number,
        cluster: stored.scope.cluster_name().unwrap_or_default().to_owned(),
        identical: verdict.as_ref().is_ok_and(ReplayOutcome::is_identical),
        said: replay_all::describe_outcome(stored, verdict),
    }
}

fn one(flags: &ReplayFlags, decision: &DecisionReference) -> Result<Status, Failure> {
    let alternative = alternative(flags)?;
    let recorded = flags.archive.ask(async |store| {
        let number =
            decision.number(&*store, flags.cluster.as_deref(), |stored| stored.decision.replay.is_some()).await?;
        let found = store.decision(number).await.map_err(failed)?;
        let stored = only(found, number, flags.cluster.as_deref())?;
        Ok(LogReader::new(&*store).load(stored).await)
    })?;
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(ReplayError::Store(error)) => return Err(failed(error)),
        Err(error @ ReplayError::NoPlan { .. }) => return Err(Failure::refused(error)),
        Err(error) => {
            print_lines([error.to_string().as_str()])?;
            return Ok(Status::Leftover);
        }
    };
    match alternative {
        None => repeat(&recorded, flags.output),
        Some(alternative) => compare(&recorded, &alternative, flags.output),
    }
}

/// Selects the only matching decision.
fn only(found: Vec<StoredDecision>, number: u64, cluster: Option<&str>) -> Result<StoredDecision, Failure> {
    let meant = |stored: &StoredDecision| cluster.is_none_or(|name| stored.scope.cluster_name() == Some(name));
    let mut meant: Vec<StoredDecision> = found.into_iter().filter(meant).collect();
    match (meant.pop(), meant.pop()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::refused(unknown(&number.to_string()))),
        (Some(one), Some(other)) => Err(Failure::refused(format!(
            "there is a decision {number} of {} and one of {}; add --cluster",
            replay_all::scope_name(&other.scope),
            replay_all::scope_name(&one.scope)
        ))),
    }
}

fn repeat(recorded: &RecordedDecision, format: Format) -> Result<Status, Failure> {
    if let Some(other) = recorded.other_engine() {
        eprintln!(
            "note: the decision was made by engine {other}, this is {ENGINE}; a difference may come from the engine"
        );
    }
    let verdict = Ok(recorded.replay());
    let outcome = outcome(&recorded.stored, &verdict);
    match format {
        Format::Table => print_lines([outcome.said.as_str()])?,
        format => print_value(&outcome, format)?,
    }
    Ok(if outcome.identical { Status::Done } else { Status::Leftover })
}

/// The alternative of a what-if replay; `None` for an exact one.
fn alternative(flags: &ReplayFlags) -> Result<Option<WhatIf>, Failure> {
    if flags.with_policy.is_empty() && flags.with_catalogue.is_none() {
        return Ok(None);
    }
    let mut alternative = WhatIf::default();
    for file in &flags.with_policy {
        if file.ends_with(".toml") {
            alternative.settings = Some(settings(Path::new(file))?);
        } else {
            alternative.manifests.push(sources::open_file(file)?);
        }
    }
    alternative.catalogue = flags.with_catalogue.as_deref().map(sources::open_file).transpose()?;
    Ok(Some(alternative))
}

fn settings(file: &Path) -> Result<PolicyOverride, Failure> {
    let mut layers = Layers::default();
    layers.add_file(file);
    let control = Config::resolve(&layers)?.control;
    Ok(PolicyOverride { preferences: control.preferences, min_values: control.min_values })
}

/// Plan in figures.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InstanceTypeInfo {
    nodes: usize,
    cost_per_hour: f64,
    lower_bound_per_hour: f64,
    pods_without_place: usize,
    machines: Vec<String>,
}

/// Two plans in comparison.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    decision: u64,
    cluster: String,
    then: InstanceTypeInfo,
    otherwise: InstanceTypeInfo,
    nodes_difference: i64,
    cost_per_hour_difference: f64,
}

fn compare(recorded: &RecordedDecision, alternative: &WhatIf, format: Format) -> Result<Status, Failure> {
    if let Some(why) = recorded.replay().input {
        return Err(Failure::refused(format!("cannot reconstruct the input of the decision: {why}")));
    }
    let mut input = recorded.input.clone();
    alternative.apply(&mut input).map_err(Failure::input)?;
    let again = planner::plan(&input).map_err(|violations| {
        let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Failure::internal(format!("the plan failed the plan verifier: {}", violations.join("; ")))
    })?;
    let (then_cost, again_cost) = (recorded.report.new_cost.0, again.report.new_cost.0);
    let then = figures(&recorded.input, &recorded.plan, &recorded.report);
    let otherwise = figures(&input, &again.plan, &again.report);
    let comparison = Comparison {
        decision: recorded.stored.decision.number,
        cluster: recorded.stored.scope.cluster_name().unwrap_or_default().to_owned(),
        nodes_difference: otherwise.nodes as i64 - then.nodes as i64,
        cost_per_hour_difference: (again_cost - then_cost) as f64 / 1e6,
        then,
        otherwise,
    };
    match format {
        Format::Table => output::print_text(&table(&comparison))?,
        format => print_value(&comparison, format)?,
    }
    Ok(Status::Done)
}

fn figures(input: &PlanningInput, plan: &Plan, report: &PlanReport) -> InstanceTypeInfo {
    let nodes = plan.nodes.iter().chain(&plan.static_nodes);
    InstanceTypeInfo {
        nodes: plan.nodes.len() + plan.static_nodes.len(),
        cost_per_hour: dollars(report.new_cost),
        lower_bound_per_hour: dollars(report.lower_bound),
        pods_without_place: plan.unschedulable.len(),
        machines: nodes.map(|node| diff::node(input, node)).collect(),
    }
}

fn table(comparison: &Comparison) -> String {
    let Comparison { decision, cluster, then, otherwise, nodes_difference, cost_per_hour_difference } = comparison;
    let mut text = format!(
        "decision {decision} of cluster {cluster}\n            NODES   $/HOUR      BOUND       WITHOUT A PLACE\n"
    );
    for (name, figures) in [("then", then), ("otherwise", otherwise)] {
        let InstanceTypeInfo { nodes, cost_per_hour, lower_bound_per_hour, pods_without_place, .. } = figures;
        text.push_str(&format!(
            "{name:<11} {nodes:<7} {cost_per_hour:<11} {lower_bound_per_hour:<11} {pods_without_place}\n"
        ));
    }
    text.push_str(&format!("difference  {nodes_difference:<+7} {cost_per_hour_difference:<+11}\n"));
    for (name, figures) in [("then", then), ("otherwise", otherwise)] {
        figures.machines.iter().for_each(|machine| text.push_str(&format!("{name}: {machine}\n")));
    }
    text
}

fn print_lines<'l>(lines: impl IntoIterator<Item = &'l str>) -> Result<(), Failure> {
    output::print_escaped(|out| lines.into_iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn print_value(value: &impl Serialize, format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Yaml => serde_saphyr::to_string(value).map_err(Failure::internal)?,
        _ => serde_json::to_string_pretty(value).map_err(Failure::internal)? + "\n",
    };
    output::print_document(&text)
}
