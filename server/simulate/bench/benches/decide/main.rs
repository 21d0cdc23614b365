//! `cargo bench -p fleetwright-bench`: one table of the cost of deciding, and the cost of the
//! plans.
//!
//! Every case runs in a separate process, so that its peak memory is measured alone. Reading order:
//! `cases` (what is measured) and the origin of its pods (`template`, `generate`, `trace`,
//! `catalogue`, `existing_cluster`); `workload` (pods and pools as manifests, and as a planning
//! input); `measure` (one case in this process), `subprocess` (one case in a process of its own),
//! `proc` (Linux process statistics); `growth` and `table` (what is printed); `baseline` (another
//! planner on the same files); `cost` and `random` (what plans cost); `features` (one kind of constraint at a time against a plain input);
//! `quotes` (quotes over a whole fleet).

mod baseline;
mod cases;
mod catalogue;
mod consolidation;
mod cost;
mod existing_cluster;
mod features;
mod flags;
mod generate;
mod growth;
mod measure;
mod proc;
mod quotes;
mod random;
mod subprocess;
mod table;
mod template;
mod trace;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::cases::Case;
use crate::flags::Flags;

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<()> {
    if flags.table.as_deref() == Some("features") {
        return features::report(&flags.only, flags.runs, flags.small);
    }
    if flags.table.as_deref() == Some("consolidation") {
        return consolidation::report(&flags.only, flags.runs, flags.verdicts);
    }
    if flags.table.as_deref() == Some("quotes") {
        return quotes::report(flags);
    }
    if flags.table.as_deref() == Some("random") {
        return random::report(flags);
    }
    let cases = cases::all(flags.data.as_deref());
    if flags.table.as_deref() == Some("cost") {
        let chosen = cases.iter().filter(|case| case.name.contains(&flags.only));
        return cost::report(chosen, flags);
    }
    if let Some(name) = &flags.case {
        let case = cases.iter().find(|case| case.name == *name).with_context(|| format!("no case named {name}"))?;
        let measurement = measure::measure(case, flags.runs)?;
        println!("{}", serde_json::to_string(&measurement)?);
        return Ok(());
    }
    let chosen: Vec<Case> = cases.into_iter().filter(|case| case.name.contains(&flags.only)).collect();
    if let Some(folder) = &flags.write {
        return write(&chosen, folder);
    }
    report(flags, &chosen)
}

fn write(cases: &[Case], folder: &Path) -> Result<()> {
    for case in cases {
        let files = case.workload()?.write(&folder.join(&case.name))?;
        println!("{}: {}", case.name, files.folder.display());
    }
    Ok(())
}

fn report(flags: &Flags, cases: &[Case]) -> Result<()> {
    println!("{}", table::machine());
    println!("{}", table::HEAD);
    let mut measured = Vec::new();
    for case in cases {
        let measurement = subprocess::run(&case.name, flags)?;
        println!("{}", table::row(&case.name, &measurement));
        measured.push((case, measurement));
    }
    for family in [cases::Family::Diverse, cases::Family::Plain] {
        let points = measured.iter().filter(|(case, _)| case.family == family);
        let points: Vec<(f64, f64)> = points.map(|(_, f)| (f.pods as f64, f.decide.median)).collect();
        if let Some(exponent) = growth::exponent(&points) {
            println!("{}", table::growth(family, &points, exponent));
        }
    }
    match &flags.baseline {
        Some(baseline) => baseline::compare(flags, baseline, cases),
        None => Ok(()),
    }
}
