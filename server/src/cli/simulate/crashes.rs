//! `fleetwright simulate crashes`: real server processes on a real PostgreSQL, killed while they buy.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use super::Form;
use crate::cli::exit::{Failure, Status};
use crate::crashes::{self, Plan, Report, Window};
use crate::telemetry;

/// Kill real server processes on a real PostgreSQL while they buy machines, and look for leaks and doubles
///
/// A simulated cloud runs as a process of its own with calls that take their time; simulated clusters come and go with their
/// load. Each time the server is ended with SIGKILL at a moment that lies between the intent and the call, the call and its
/// answer, or the answer and its record. When the load has stopped each cluster loses a NodeClaim, removed by force while no
/// server is there. Exit status 1 means that by the books of cloud and clusters a machine was leaked or bought twice, that a
/// NodeClaim was left without its machine, or that pods do not run at the end.
#[derive(Debug, Args)]
pub(crate) struct CrashesFlags {
    /// How often the server is killed
    #[arg(long, default_value_t = 200)]
    times: u32,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// PostgreSQL that the server uses; its tables are made when they are missing, and what is there stays. Without one a
    /// throw-away server is started from this machine's binaries, and restarted under load as well
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Simulated clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    clusters: u8,
    /// Cut every connection of the database after so many kills; 0 for never
    #[arg(long, default_value_t = 10, value_name = "KILLS")]
    cut_every: u32,
    /// A cloud that ignores tokens, to see that the run notices doubles
    #[arg(long)]
    without_tokens: bool,
    /// A server that collects no garbage, to see that the run notices leaks
    #[arg(long)]
    without_collection: bool,
    /// What is logged on standard error, here and by the server
    #[arg(long, default_value = "error", value_name = "FILTER")]
    log: String,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

pub(crate) fn run(flags: CrashesFlags) -> Result<Status, Failure> {
    telemetry::log(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let plan = Plan {
        times: flags.times,
        seed: flags.seed,
        database_url: flags.database_url,
        clusters: flags.clusters,
        without_tokens: flags.without_tokens,
        without_collection: flags.without_collection,
        cut_every: flags.cut_every,
        log: flags.log,
    };
    let report = runtime.block_on(crashes::run(&plan));
    let report = report.map_err(|error| Failure::internal(format!("{error:#}")))?;
    flags.output.print(|| table(&report), || document(&report))?;
    Ok(if report.is_well() { Status::Done } else { Status::Leftover })
}

/// The value that `percent` of all values do not exceed, in milliseconds; 0 of none.
fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} kills in {:.0} s; connections to the database cut {} times, the database restarted {} times; \
         {} NodeClaims removed by force\n",
        report.kills,
        report.took.as_secs_f64(),
        report.cuts,
        report.restarts,
        report.taken,
    );
    // Writing to a String cannot fail.
    for window in Window::ALL {
        let count = report.windows.get(&window).copied().unwrap_or(0);
        let _always = writeln!(text, "  {:<20} {count:>4} {}", window.as_str(), "#".repeat(count.min(100)));
    }
    let _always = writeln!(text, "  {:<20} {:>4}", "in none of them", report.elsewhere);
    let _always = writeln!(
        text,
        "launches went on {} ms after a kill (median; 99% within {} ms)",
        percentile(&report.resumed_ms, 50),
        percentile(&report.resumed_ms, 99)
    );
    let _always = writeln!(
        text,
        "by the cloud's book: {} launches, {} machines sold, {} still there; {} pods ran, {} do not",
        report.launches, report.sold, report.alive, report.pods_ran, report.waiting
    );
    for (what, names) in verdicts(report) {
        let _always = writeln!(text, "{what}: {}{}", names.len(), listed(names));
    }
    text
}

fn verdicts(report: &Report) -> [(&'static str, &Vec<String>); 3] {
    [
        ("machines leaked", &report.leaked),
        ("NodeClaims with more than one machine", &report.doubled),
        ("NodeClaims whose machine is gone", &report.hollow),
    ]
}

fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}

fn document(report: &Report) -> Value {
    let count = |window| report.windows.get(&window).copied().unwrap_or(0);
    json!({
        "kills": report.kills,
        "databaseCuts": report.cuts,
        "databaseRestarts": report.restarts,
        "nodeClaimsRemoved": report.taken,
        "windows": {
            "intentToCall": count(Window::IntentToCall),
            "callToResponse": count(Window::CallToResponse),
            "responseToRecord": count(Window::ResponseToRecord),
            "none": report.elsewhere,
        },
        "resumedMillisP50": percentile(&report.resumed_ms, 50),
        "resumedMillisP99": percentile(&report.resumed_ms, 99),
        "launches": report.launches,
        "machinesSold": report.sold,
        "machinesAlive": report.alive,
        "podsRan": report.pods_ran,
        "podsWaiting": report.waiting,
        "leaked": report.leaked,
        "doubled": report.doubled,
        "claimsWithoutMachine": report.hollow,
        "seconds": report.took.as_secs_f64(),
        "well": report.is_well(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(percentile(&[], 50), 0);
        assert_eq!(percentile(&[30, 10, 20], 50), 20);
        assert_eq!(percentile(&[30, 10, 20], 99), 30);
    }

    #[test]
    fn a_leak_is_told_and_is_no_success() {
        let report = Report { leaked: vec!["aws:///a/i-1".to_owned()], ..Report::default() };
        assert!(!report.is_well());
        assert!(table(&report).contains("machines leaked: 1 (aws:///a/i-1)\n"), "{}", table(&report));
        assert_eq!(document(&report)["leaked"][0], "aws:///a/i-1");
    }
}
