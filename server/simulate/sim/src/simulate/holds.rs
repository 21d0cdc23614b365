//! `fleetwright-sim simulate holds`: many holds of capacity on two servers that are killed all the while.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use super::form::{Form, percentile};
use server::cli::exit::{Failure, Status};
use server::telemetry;
use simulation::holds::{self, Plan, Report};

/// Hold capacity on two servers that are killed all the while, and check that no hold and no machine is lost or doubled
///
/// A simulated cloud, a PostgreSQL and two servers run as processes. Clients create holds through either server and repeat
/// their requests with the same id; a third of the holds is forgotten, a quarter released, the others are committed and, but
/// for a few, released. Exit status 1 means that a hold was lost, doubled or alive past its end, that a client was told two
/// things, or that cloud and clusters at the end have other machines than the holds that are kept.
#[derive(Debug, Args)]
pub(crate) struct HoldsFlags {
    /// Number of holds at least
    #[arg(long, default_value_t = 1_000)]
    holds: usize,
    /// Number of kills, alternately of the two servers
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Number of simulated clusters, half of them with each server
    #[arg(long, default_value_t = 6)]
    clusters: u8,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Have clients repeat their requests without request ids: the run must fail
    #[arg(long)]
    without_request_ids: bool,
    /// PostgreSQL of the servers; missing tables are created. Without it a temporary server is started from the local
    /// binaries
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Log filter for standard error, of this process and the servers
    #[arg(long, default_value = "error", value_name = "FILTER")]
    log: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

pub fn run(flags: HoldsFlags) -> Result<Status, Failure> {
    telemetry::init_logging(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let plan = Plan {
        holds: flags.holds,
        kills: flags.kills,
        clusters: flags.clusters,
        seed: flags.seed,
        database_url: flags.database_url,
        without_request_ids: flags.without_request_ids,
        log: flags.log,
    };
    let report = runtime.block_on(holds::run(&plan));
    let report = report.map_err(|error| Failure::internal(format!("{error:#}")))?;
    flags.output.print(|| table(&report), || document(&report))?;
    Ok(if report.is_success() { Status::Done } else { Status::Leftover })
}

/// What must be empty, by name.
fn violations(report: &Report) -> [(&'static str, &Vec<String>); 8] {
    [
        ("lost", &report.lost),
        ("doubled", &report.doubled),
        ("overdue", &report.overdue),
        ("contradictions", &report.contradictions),
        ("withoutRoom", &report.without_room),
        ("leftOver", &report.left_over),
        ("leaked", &report.leaked),
        ("launchedTwice", &report.launched_twice),
    ]
}

fn table(report: &Report) -> String {
    let Report { kills, created, repeated, committed, released, expired, failed, kept, launched, alive, .. } = report;
    let ready = |percent| percentile(&report.ready_ms, percent) as f64 / 1_000.0;
    let mut text = format!(
        "{created} holds, {kills} kills of two servers, {:.0} s; {repeated} calls were repeated\n\
         {committed} committed, {released} released, {expired} expired, {failed} failed ({} with nodes), {kept} kept\n\
         room was there after {:.1} s (median; 99% within {:.1} s)\n\
         {launched} instances launched; {alive} are billed at the end\n",
        report.took.as_secs_f64(),
        report.failed_with_nodes,
        ready(50),
        ready(99),
    );
    for (name, found) in violations(report) {
        // Writing to a String cannot fail.
        let _always =
            writeln!(text, "{name}: {} {}", found.len(), found.iter().take(5).cloned().collect::<Vec<_>>().join(", "));
    }
    text
}

fn document(report: &Report) -> Value {
    let mut document = json!({
        "holds": report.created,
        "kills": report.kills,
        "repeated": report.repeated,
        "committed": report.committed,
        "released": report.released,
        "expired": report.expired,
        "failed": report.failed,
        "failedWithNodes": report.failed_with_nodes,
        "kept": report.kept,
        "readyMillisP50": percentile(&report.ready_ms, 50),
        "readyMillisP99": percentile(&report.ready_ms, 99),
        "launched": report.launched,
        "alive": report.alive,
        "seconds": report.took.as_secs_f64(),
        "well": report.is_success(),
    });
    for (name, found) in violations(report) {
        document[name] = json!(found);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_violation_is_a_failure_and_is_printed() {
        assert!(Report::default().is_success());
        let lost = Report { lost: vec!["clusters/c/holds/h".to_owned()], ..Report::default() };
        assert!(!lost.is_success());
        assert!(table(&lost).contains("lost: 1 clusters/c/holds/h") && document(&lost)["well"] == false);
    }
}
