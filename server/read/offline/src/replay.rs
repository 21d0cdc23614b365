//! `fleetwright replay`: replays a decision bit for bit, or under another policy.

mod comparison;
mod disruption;
mod removals;

use std::path::Path;

use clap::{ArgGroup, Args};
use serde::Serialize;

use super::archive::ArchiveFlags;
use super::decision_reference::{DecisionReference, unknown};
use client::archive::failed;
use command::exit::{Failure, Status};
use command::rows::Format;
use command::{output, sources};
use comparison::Comparison;
use controller::DisruptionRequest;
use controller::disruption::selection::RemovalRecord;
use decision_log::replay::{LogReader, RecordedDecision, RecordedPlan, ReplayError, ReplayOutcome};
use decision_log::what_if::{PolicyOverride, WhatIf};
use decision_log::{DisruptionAnswer, ENGINE, RemovalAnswer, replay_all};
use disruption::{CommandFigures, DisruptionComparison};
use model::plan::{Plan, PlanReport};
use planner::CompileCache;
use removals::RemovalComparison;
use render::Rendering;
use server_settings::{Config, Layers};
use store::lease::Scope;
use store::log::StoredDecision;

/// Replay decisions from the log and compare the results
///
/// Plans are pure: the same input gives the same plan, bit for bit. Replay reads the input of a
/// decision, plans again and compares input and plan; exit status 1 means that they differ. With
/// another policy or catalogue it prints the alternative decision and the difference in nodes and
/// dollars. Removals by a disruption method are made without a plan: replay selects and checks them
/// again; manifests of NodePools replace the disruption settings that they were selected under.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["decision", "all"])))]
pub struct ReplayFlags {
    /// Decision to replay: its number, the last digits of it, or `last`, the latest one that can be replayed
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
            if !matches!(verdict, Err(ReplayError::NotRecorded { .. })) {
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
        Err(error @ ReplayError::NotRecorded { .. }) => return Err(Failure::refused(error)),
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
    let config = Config::resolve(&layers)?;
    let control = config.control;
    Ok(PolicyOverride {
        preferences: control.preferences,
        min_values: control.min_values,
        min_savings: config.consolidation.min_savings,
        churn_price: config.consolidation.churn_price,
        spot_to_spot: control.feature_gates.spot_to_spot_consolidation,
    })
}

fn compare(recorded: &RecordedDecision, alternative: &WhatIf, format: Format) -> Result<Status, Failure> {
    if let Some(why) = recorded.replay().input {
        return Err(Failure::refused(format!("cannot reconstruct the input of the decision: {why}")));
    }
    match &recorded.planned {
        RecordedPlan::Pods { plan, report } => compare_pods(recorded, (plan, report), alternative, format),
        RecordedPlan::Disruption { request, answer } => {
            compare_disruption(recorded, (request, answer), alternative, format)
        }
        RecordedPlan::Removals(basis) => compare_removals(recorded, basis, alternative, format),
    }
}

fn compare_disruption(
    recorded: &RecordedDecision,
    (request, answer): (&DisruptionRequest, &DisruptionAnswer),
    alternative: &WhatIf,
    format: Format,
) -> Result<Status, Failure> {
    let (mut input, mut request) = (recorded.input.clone(), request.clone());
    alternative.apply_to_disruption(&mut input, &mut request).map_err(Failure::input)?;
    let again = ::disruption::plan(&input, &request.running, &request.settings, &mut CompileCache::default());
    let again = again.map_err(|violations| Failure::failed_check(&violations))?;
    let then = CommandFigures::of(&recorded.input, &answer.commands, &answer.cost);
    let otherwise = CommandFigures::of(&input, &again.commands, &again.cost);
    let comparison = DisruptionComparison::of(&recorded.stored, then, otherwise);
    match format {
        Format::Table => output::print_text(&comparison.table())?,
        format => print_value(&comparison, format)?,
    }
    Ok(Status::Done)
}

fn compare_removals(
    recorded: &RecordedDecision,
    basis: &RemovalRecord,
    alternative: &WhatIf,
    format: Format,
) -> Result<Status, Failure> {
    if alternative.settings.is_some() || alternative.catalogue.is_some() {
        return Err(Failure::refused(format!(
            "decision {} removes machines without a plan: neither prices nor the settings of a server are among what the \
             log has of it. Use --with-policy with manifests of NodePools",
            recorded.stored.decision.number
        )));
    }
    let RemovalRecord { mut input, mut check, answer } = basis.clone();
    alternative.apply_to_removals(&mut input, &mut check).map_err(Failure::input)?;
    let again = RemovalAnswer::again(&input, &check);
    let comparison = RemovalComparison::of(&recorded.stored, &answer, &again);
    match format {
        Format::Table => output::print_text(&comparison.table())?,
        format => print_value(&comparison, format)?,
    }
    Ok(Status::Done)
}

fn compare_pods(
    recorded: &RecordedDecision,
    (plan, report): (&Plan, &PlanReport),
    alternative: &WhatIf,
    format: Format,
) -> Result<Status, Failure> {
    let mut input = recorded.input.clone();
    alternative.apply(&mut input).map_err(Failure::input)?;
    let again = planner::plan(&input).map_err(|violations| Failure::failed_check(&violations))?;
    // The log has the prices and not their date.
    let then = Rendering {
        input: &recorded.input,
        plan,
        report,
        price_date: None,
        notes: &[],
        comparison: None,
        repacking: None,
    };
    let otherwise = Rendering {
        input: &input,
        plan: &again.plan,
        report: &again.report,
        price_date: None,
        notes: &[],
        comparison: None,
        repacking: None,
    };
    let comparison = Comparison::of(&recorded.stored, &then, &otherwise);
    match format {
        Format::Table => output::print_text(&comparison.table(&otherwise).map_err(Failure::internal)?)?,
        format => print_value(&comparison, format)?,
    }
    Ok(Status::Done)
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
