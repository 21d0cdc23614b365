//! `fleetwright-sim simulate disruption`: months of load on virtual time, and how often pods move.

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::form::Form;
use command::exit::{Failure, Status};
use simulation::deterministic::guard::Guard;
use simulation::deterministic::long_run::{Load, LongRun, LongRunReport, Savings};

/// Simulate months of load on a virtual clock, without faults, and count the moves of pods
///
/// A steady load must move no pod after the first hour, a daily curve each pod once within 24 hours at most while
/// machines leave at night, and every node that has drifted must be replaced in time. LongRunReport are printed. Exit status 1
/// means that a bound was exceeded or an invariant violated.
#[derive(Debug, Args)]
pub(crate) struct DisruptionFlags {
    /// Load; all of them by default
    #[arg(long, value_enum)]
    load: Option<Load>,
    /// Simulated hours of each load
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(48..=100_000))]
    hours: u32,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Disable a guard, to verify that the exceeded bound is detected
    #[arg(long, value_enum, value_name = "GUARD")]
    without: Option<Guard>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// A load, its figures and the time that it took.
type Ran = (Load, LongRunReport, Duration);

pub fn run(flags: &DisruptionFlags) -> Result<Status, Failure> {
    let loads = flags.load.map_or_else(|| vec![Load::Steady, Load::Daily, Load::Drift], |load| vec![load]);
    let run = |load: Load| {
        let begun = Instant::now();
        let long_run = LongRun { load, hours: flags.hours, seed: flags.seed, off: flags.without };
        (load, long_run.run(), begun.elapsed())
    };
    let ran: Vec<Ran> = loads.into_iter().map(run).collect();
    flags.output.print(|| ran.iter().map(table).collect(), || ran.iter().map(document).collect())?;
    let holds = ran.iter().all(|(load, figures, _)| figures.exceeded(*load).is_empty());
    Ok(if holds { Status::Done } else { Status::Leftover })
}

fn table((load, figures, took): &Ran) -> String {
    let LongRunReport { hours, pods, machines, launched, moves, moves_after_first_hour, .. } = figures;
    let mut text = format!(
        "{load:?}: {hours} simulated hours in {:.1} s, {} to {} pods on {} to {} machines, {launched} machines launched\n\
         \x20 {moves} moves, {moves_after_first_hour} after the first hour: {:.3} a pod and day, {} of one pod within 24 h at most\n\
         \x20 machines cost ${} a day{}\n",
        took.as_secs_f64(),
        pods.0,
        pods.1,
        machines.0,
        machines.1,
        figures.moves_per_pod_and_day,
        figures.most_moves_in_a_day,
        figures.cost_per_day,
        figures.bound_per_day.map(|bound| format!(", the lower bound is ${bound}")).unwrap_or_default(),
    );
    let charged = figures.charged.total();
    let shares = figures
        .charged
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(cause, amount)| format!("{} {:.1} %", cause.as_str(), amount as f64 * 100.0 / charged as f64));
    let shares: Vec<String> = shares.collect();
    // Writing to a String cannot fail.
    let _always = writeln!(
        text,
        "  ${} charged, ${} billed; spent on {}",
        figures.charged_in_all(),
        figures.billed,
        shares.join(", ")
    );
    let stored = &figures.stored;
    let _always = writeln!(
        text,
        "  ${} stored for {} h, ${} billed; {}; {}",
        stored.total(),
        stored.until.as_millis() / 3_600_000,
        figures.billed_until_stored,
        savings("realised", &stored.realised),
        savings("overtaken", &stored.overtaken)
    );
    for (pool, longest) in &figures.drifted_for {
        // Writing to a String cannot fail.
        let _always =
            writeln!(text, "  NodePool {pool}: each drifted node was replaced within {} min", longest.as_mins());
    }
    for exceeded in figures.exceeded(*load) {
        let _always = writeln!(text, "  exceeded: {exceeded}");
    }
    text
}

fn savings(state: &str, savings: &Savings) -> String {
    let Savings { decisions, removed, predicted, realised, bought_later } = *savings;
    format!(
        "{decisions} decisions {state}: ${predicted} predicted for 24 h each, ${realised} saved, of ${removed} removed; \
         ${bought_later} bought later for moved pods"
    )
}

fn savings_document(savings: &Savings) -> Value {
    json!({
        "decisions": savings.decisions,
        "removedUsdPerDay": savings.removed.0 as f64 / 1e6,
        "predictedUsdPerDay": savings.predicted.0 as f64 / 1e6,
        "realisedUsdPerDay": savings.realised.0 as f64 / 1e6,
        "boughtLaterUsdPerDay": savings.bought_later.0 as f64 / 1e6,
    })
}

fn document((load, figures, took): &Ran) -> Value {
    let drifted: Vec<Value> = (figures.drifted_for.iter())
        .map(|(pool, longest)| json!({ "nodePool": pool.as_ref(), "longestMinutes": longest.as_mins() }))
        .collect();
    json!({
        "load": format!("{load:?}"),
        "hours": figures.hours,
        "seconds": took.as_secs_f64(),
        "pods": [figures.pods.0, figures.pods.1],
        "machines": [figures.machines.0, figures.machines.1],
        "launched": figures.launched,
        "moves": figures.moves,
        "movesAfterFirstHour": figures.moves_after_first_hour,
        "movesPerPodAndDay": figures.moves_per_pod_and_day,
        "mostMovesOfAPodInADay": figures.most_moves_in_a_day,
        "lowerBoundUsdPerDay": figures.bound_per_day.map(|bound| bound.0 as f64 / 1e6),
        "usdPerDay": figures.cost_per_day.0 as f64 / 1e6,
        "chargedUsd": figures.charged.total() as f64 / 1e6,
        "billedUsd": figures.billed.0 as f64 / 1e6,
        "spentOnUsd": figures.charged.iter().map(|(cause, amount)| (cause.as_str().to_owned(), json!(amount as f64 / 1e6)))
            .collect::<serde_json::Map<_, _>>(),
        "storedUsd": figures.stored.total().0 as f64 / 1e6,
        "billedUntilStoredUsd": figures.billed_until_stored.0 as f64 / 1e6,
        "savings": savings_document(&figures.stored.realised),
        "overtaken": savings_document(&figures.stored.overtaken),
        "replaced": figures.replaced,
        "drifted": drifted,
        "exceeded": figures.exceeded(*load),
    })
}
