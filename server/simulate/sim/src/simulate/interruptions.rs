//! `fleetwright-sim simulate interruptions`: spot interruption notices for many clusters through EventBridge and SQS.

use std::fmt::Write;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::form::{Form, percentile};
use server::cli::exit::{Failure, Status};
use server::telemetry;
use simulation::interruptions::{self, Plan, Report};

/// Interrupt the spot instances of many clusters through EventBridge and SQS, and kill the server meanwhile
///
/// A simulated EC2, a PostgreSQL and a server run as processes; every cluster begins with full spot instances. Each
/// instance gets a notice, a tenth of the messages is delivered twice, and the server is killed with SIGKILL after half
/// of the notices. Exit status 1 means that a notice was not stored exactly once, a Node was not tainted, a pod does
/// not run at the end, or an instance was leaked or launched twice. Needs a build with EC2.
#[derive(Debug, Args)]
pub(crate) struct InterruptionsFlags {
    /// Number of simulated clusters
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// Interrupted instances of each cluster
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// Time from the first notice to the last
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = server::config::parse_duration_flag)]
    within: Duration,
    /// Do not kill the server
    #[arg(long)]
    without_kill: bool,
    /// Rate limits of the account in percent of EC2's defaults, by which replacements are launched five a second at most,
    /// and two a second after the first thousand
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    api_limit_percent: u32,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// PostgreSQL of the server; missing tables are created. Without it a temporary server is started from the local
    /// binaries
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Log filter for standard error, of this process and the server
    #[arg(long, default_value = "error", value_name = "FILTER")]
    log: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

pub fn run(flags: InterruptionsFlags) -> Result<Status, Failure> {
    telemetry::init_logging(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let plan = Plan {
        clusters: flags.clusters,
        nodes: flags.nodes,
        within: flags.within,
        kill: !flags.without_kill,
        api_limit_percent: flags.api_limit_percent,
        seed: flags.seed,
        database_url: flags.database_url,
        log: flags.log,
    };
    let report = runtime.block_on(interruptions::run(&plan));
    let report = report.map_err(|error| Failure::internal(format!("{error:#}")))?;
    flags.output.print(|| table(&report), || document(&report))?;
    Ok(if report.is_success() { Status::Done } else { Status::Leftover })
}

fn table(report: &Report) -> String {
    let Report { clusters, notices, kills, rows, instances_stored, tainted, launched, waiting, .. } = report;
    let taint = |percent| percentile(&report.to_taint_ms, percent) as f64 / 1_000.0;
    let mut text = format!(
        "{notices} notices for {clusters} clusters in {:.0} s; the server was killed {kills} times\n\
         stored: {rows} rows for {instances_stored} instances\n\
         tainted: {tainted} Nodes, {:.2} s after the notice (median; 99% within {:.2} s, all within {:.2} s)\n\
         replaced: {launched} instances launched; {waiting} pods do not run, {:.0} s after the last notice\n",
        report.sent_in.as_secs_f64(),
        taint(50),
        taint(99),
        taint(100),
        report.settled_in.as_secs_f64(),
    );
    let (leaked, twice) = (report.leaked.len(), report.launched_twice.len());
    // Writing to a String cannot fail.
    let _always = writeln!(text, "instances leaked: {leaked}; NodeClaims with more than one instance: {twice}");
    text
}

fn document(report: &Report) -> Value {
    let taint = |percent| percentile(&report.to_taint_ms, percent);
    json!({
        "clusters": report.clusters,
        "notices": report.notices,
        "sentSeconds": report.sent_in.as_secs_f64(),
        "kills": report.kills,
        "rows": report.rows,
        "instancesStored": report.instances_stored,
        "tainted": report.tainted,
        "taintMillisP50": taint(50),
        "taintMillisP99": taint(99),
        "taintMillisMax": taint(100),
        "launched": report.launched,
        "podsWaiting": report.waiting,
        "leaked": report.leaked,
        "doubled": report.launched_twice,
        "settledSeconds": report.settled_in.as_secs_f64(),
        "well": report.is_success(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_that_was_not_stored_is_a_failure() {
        let all = Report { notices: 2, rows: 2, instances_stored: 2, tainted: 2, ..Report::default() };
        assert!(all.is_success());
        assert!(!Report { rows: 1, instances_stored: 1, ..all }.is_success());
    }

    #[test]
    fn the_time_to_the_taint_is_in_the_table() {
        let report = Report { to_taint_ms: vec![100, 200, 1_500], ..Report::default() };
        assert!(table(&report).contains("0.20 s after the notice (median; 99% within 1.50 s"), "{}", table(&report));
    }
}
