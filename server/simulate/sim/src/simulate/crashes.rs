//! `fleetwright-sim simulate crashes`: kills server processes during launches, on a real PostgreSQL.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use super::form::{Form, percentile};
use crate::cloud_flag::CloudFlag;
use server::cli::exit::{Failure, Status};
use server::telemetry;
use simulation::crashes::{self, CrashPoint, Plan, Report};

/// Kill server processes during launches, on a real PostgreSQL, and look for leaked and duplicate
/// instances
///
/// A simulated cloud with slow calls runs as a separate process; the load of simulated clusters
/// goes up and down. Each server is killed with SIGKILL between the intent and the call, the call
/// and its response, or the response and its record. After the load has stopped, each cluster loses
/// a NodeClaim, deleted while no server runs. Exit status 1 means that, by the ledgers of cloud and
/// clusters, an instance was leaked or launched twice, a NodeClaim has no instance, or pods do not
/// run at the end.
#[derive(Debug, Args)]
pub(crate) struct CrashesFlags {
    /// Number of kills
    #[arg(long, default_value_t = 200)]
    times: u32,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// PostgreSQL of the server; missing tables are created, and existing data is kept. Without it
    /// a temporary server is started from the local binaries, and restarted under load as well
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Number of simulated clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    clusters: u8,
    /// Drop every database connection after this many kills; 0 for never
    #[arg(long, default_value_t = 10, value_name = "KILLS")]
    cut_every: u32,
    /// How servers reach the cloud: by its own service, or by the AWS SDK over HTTP (in a build with EC2)
    #[arg(long, value_enum, default_value_t = CloudFlag::Simulated)]
    cloud: CloudFlag,
    /// Ignore client tokens in the cloud, to verify that duplicates are detected
    #[arg(long)]
    without_tokens: bool,
    /// Disable garbage collection in the server, to verify that leaks are detected
    #[arg(long)]
    without_collection: bool,
    /// Log filter for standard error, of this process and the server
    #[arg(long, default_value = "error", value_name = "FILTER")]
    log: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

pub fn run(flags: CrashesFlags) -> Result<Status, Failure> {
    telemetry::init_logging(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let plan = Plan {
        times: flags.times,
        seed: flags.seed,
        database_url: flags.database_url,
        clusters: flags.clusters,
        cloud: flags.cloud.into(),
        without_tokens: flags.without_tokens,
        without_collection: flags.without_collection,
        cut_every: flags.cut_every,
        log: flags.log,
    };
    let report = runtime.block_on(crashes::run(&plan));
    let report = report.map_err(|error| Failure::internal(format!("{error:#}")))?;
    flags.output.print(|| table(&report), || document(&report))?;
    Ok(if report.is_success() { Status::Done } else { Status::Leftover })
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} kills in {:.0} s; connections to the database cut {} times, the database restarted {} times; \
         {} NodeClaims removed by force\n",
        report.kills,
        report.took.as_secs_f64(),
        report.cuts,
        report.restarts,
        report.claims_removed,
    );
    // Writing to a String cannot fail.
    for crash_point in CrashPoint::ALL {
        let count = report.crash_points.get(&crash_point).copied().unwrap_or(0);
        let _always = writeln!(text, "  {:<20} {count:>4} {}", crash_point.as_str(), "#".repeat(count.min(100)));
    }
    let _always = writeln!(text, "  {:<20} {:>4}", "outside of these", report.elsewhere);
    let _always = writeln!(
        text,
        "launches resumed {} ms after a kill (median; 99% within {} ms)",
        percentile(&report.resumed_ms, 50),
        percentile(&report.resumed_ms, 99)
    );
    let _always = writeln!(
        text,
        "cloud ledger: {} launch calls, {} instances launched, {} remaining; {} pods ran, {} do not",
        report.launches, report.launched, report.alive, report.pods_ran, report.waiting
    );
    for (what, names) in verdicts(report) {
        let _always = writeln!(text, "{what}: {}{}", names.len(), listed(names));
    }
    text
}

fn verdicts(report: &Report) -> [(&'static str, &Vec<String>); 3] {
    [
        ("machines leaked", &report.leaked),
        ("NodeClaims with more than one instance", &report.launched_twice),
        ("NodeClaims without an instance", &report.hollow),
    ]
}

fn listed(names: &[String]) -> String {
    let listed: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    if listed.is_empty() { String::new() } else { format!(" ({})", listed.join(", ")) }
}

fn document(report: &Report) -> Value {
    let count = |crash_point| report.crash_points.get(&crash_point).copied().unwrap_or(0);
    json!({
        "kills": report.kills,
        "databaseCuts": report.cuts,
        "databaseRestarts": report.restarts,
        "nodeClaimsRemoved": report.claims_removed,
        "windows": {
            "intentToCall": count(CrashPoint::IntentToCall),
            "callToResponse": count(CrashPoint::CallToResponse),
            "responseToRecord": count(CrashPoint::ResponseToRecord),
            "none": report.elsewhere,
        },
        "resumedMillisP50": percentile(&report.resumed_ms, 50),
        "resumedMillisP99": percentile(&report.resumed_ms, 99),
        "launches": report.launches,
        "machinesSold": report.launched,
        "machinesAlive": report.alive,
        "podsRan": report.pods_ran,
        "podsWaiting": report.waiting,
        "leaked": report.leaked,
        "doubled": report.launched_twice,
        "claimsWithoutMachine": report.hollow,
        "seconds": report.took.as_secs_f64(),
        "well": report.is_success(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_reported_as_a_failure() {
        let report = Report { leaked: vec!["aws:///a/i-1".to_owned()], ..Report::default() };
        assert!(!report.is_success());
        assert!(table(&report).contains("machines leaked: 1 (aws:///a/i-1)\n"), "{}", table(&report));
        assert_eq!(document(&report)["leaked"][0], "aws:///a/i-1");
    }
}
