//! `fleetwright simulate load`: many simulated clusters, and what they cost a server.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};

use super::Form;
use crate::cli::exit::{Failure, Status};
use crate::load::{self, Given, Intake, Percentiles, Plan, Report, Spell, Told, Upset, Upsets, Usage};
use crate::telemetry;

const SECONDS_A_DAY: f64 = 86_400.0;
const GB: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

/// How often a day every cluster writes its whole input to the log again.
const WHOLE_INPUTS_A_DAY: f64 = 2.0;

/// Connect many simulated clusters to a server, and tell what they cost it
///
/// Every cluster begins with nodes full of pods; once in a period a burst of pods comes that fits nowhere, and goes after half of it. Without --target everything is started here: a PostgreSQL, a simulated cloud, a server; after the
/// measurement the server is killed and started again, a second replica joins, and one of the two is killed, then asked to
/// leave. Latencies are the server's own, from its metrics: from the end of a batch window to the decision, and to the order
/// that goes out once the decision is in the store. Each phase is told when it ends: on standard output as a table, on standard
/// error when the result is to be JSON. Exit status 1 means that at the end a cluster is decided for by nobody, a
/// pod of a burst does not run, or a machine was bought twice by the cloud's own book.
#[derive(Debug, Args)]
pub(crate) struct LoadFlags {
    /// Clusters
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// Nodes of each cluster
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Pods that run in each cluster
    #[arg(long, default_value_t = 2_000)]
    pods: usize,
    /// Pods that come to each cluster at one time
    #[arg(long, default_value_t = 10)]
    burst: usize,
    /// Between two bursts of a cluster; those of different clusters are spread evenly over it
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    period: Duration,
    /// A server that runs already, as http://host:port; it is left alone
    #[arg(long, value_name = "URL", requires = "page")]
    target: Option<String>,
    /// Where that server's metrics are, as host:port
    #[arg(long, value_name = "ADDRESS", requires = "target")]
    page: Option<SocketAddr>,
    /// That server's process on this machine, for its memory and processor time
    #[arg(long, value_name = "PID", requires = "target")]
    server_pid: Option<u32>,
    /// PostgreSQL of the servers; without one, and without --target, one is started from this machine's binaries
    #[arg(long, value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// How long is measured
    #[arg(long = "for", default_value = "5m", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    lasts: Duration,
    /// Measure only: no server is killed, none joins
    #[arg(long)]
    steady: bool,
    /// After the measurement only the one server is killed and started again
    #[arg(long, conflicts_with = "steady")]
    only_restart: bool,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What is logged on standard error, here and by servers
    #[arg(long, default_value = "error", value_name = "FILTER")]
    log: String,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

pub(crate) fn run(flags: LoadFlags) -> Result<Status, Failure> {
    telemetry::log(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let given = flags.target.zip(flags.page).map(|(target, page)| Given { target, page, pid: flags.server_pid });
    let plan = Plan {
        clusters: flags.clusters,
        nodes: flags.nodes,
        pods: flags.pods,
        burst: flags.burst,
        period: flags.period,
        upsets: match () {
            () if given.is_some() || flags.steady => Upsets::None,
            () if flags.only_restart => Upsets::Restart,
            () => Upsets::All,
        },
        given,
        database_url: flags.database_url,
        lasts: flags.lasts,
        seed: flags.seed,
        log: flags.log,
    };
    let form = flags.output;
    let mut tell = |told: Told<'_>| say(form, &phase(&plan, &told));
    let report = runtime.block_on(async {
        // Whoever is asked to stop ends what it has started.
        tokio::select! {
            report = load::run(&plan, &mut tell) => report,
            () = agent::asked_to_stop() => Err(anyhow!("it was asked to stop before it had measured everything")),
        }
    });
    let report = report.map_err(|error| Failure::internal(format!("{error:#}")))?;
    // A table has been printed phase by phase.
    form.print(String::new, || document(&plan, &report))?;
    Ok(if report.is_well() { Status::Done } else { Status::Leftover })
}

/// A table is printed as it comes to be; a document is one, and what is known before it goes to standard error. A reader that
/// has gone away does not end what is being measured.
fn say(form: Form, text: &str) -> io::Result<()> {
    let said = match form {
        Form::Table => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        }
        Form::Json => io::stderr().lock().write_all(text.as_bytes()),
    };
    said.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// What is told of a phase, with an empty line before each but the first.
fn phase(plan: &Plan, told: &Told<'_>) -> String {
    let mut text = String::new();
    match told {
        Told::TakenIn(report) => tell_taken_in(&mut text, plan, report),
        Told::Steady(report) => tell_steady(&mut text, plan, report),
        Told::Upset(upset) => tell_upset(&mut text, upset),
        Told::Ended(report) => tell_end(&mut text, report),
    }
    text
}

// Writing to a String cannot fail, here and below.

fn tell_taken_in(text: &mut String, plan: &Plan, report: &Report) {
    let Plan { clusters, nodes, pods, burst, period, .. } = plan;
    let period = period.as_secs_f64();
    let seconds = report.taken_in.took.as_secs_f64();
    let _always = writeln!(
        text,
        "{clusters} clusters with {nodes} nodes and {pods} pods each, taken in within {seconds:.1} s; a burst of {burst} \
         pods every {period} s, those of different clusters spread evenly over that"
    );
    tell_meanwhile(text, &report.taken_in);
}

fn tell_steady(text: &mut String, plan: &Plan, report: &Report) {
    text.push_str("\nsteady\n");
    tell_spell(text, &report.steady);
    if let Some(whole) = report.whole_inputs {
        let each = whole as f64 / 1_000.0 / plan.clusters.max(1) as f64;
        let _always = writeln!(text, "  whole inputs      {each:.1} KB for each cluster, twice a day");
    }
    if let Some(bytes) = a_day(report) {
        let _always = writeln!(text, "  a day             {:.2} GB", bytes / GB);
    }
}

fn tell_upset(text: &mut String, upset: &Upset) {
    let _always = writeln!(text, "\n{}", upset.what);
    let seconds = upset.owned_again.took.as_secs_f64();
    let _always = writeln!(text, "  owned again       {seconds:.1} s until the last cluster");
    tell_meanwhile(text, &upset.owned_again);
    tell_spell(text, &upset.spell);
}

fn tell_meanwhile(text: &mut String, intake: &Intake) {
    let used = users(&intake.meanwhile).into_iter().filter_map(|(who, used)| {
        used.map(|used| format!("{who} {:.1}", used.processors * intake.meanwhile.lasted.as_secs_f64()))
    });
    let used: Vec<String> = used.collect();
    let lasted = intake.meanwhile.lasted.as_secs_f64();
    if !used.is_empty() {
        let _always =
            writeln!(text, "  meanwhile         seconds of processor time within {lasted:.1} s: {}", used.join(", "));
    }
}

fn tell_end(text: &mut String, report: &Report) {
    let doubled = report.doubled.as_ref().map_or("not known".to_owned(), |doubled| doubled.len().to_string());
    let _always = writeln!(
        text,
        "\nat the end: {} clusters without a server, {} pods of bursts that do not run, {doubled} machines bought twice",
        report.unowned, report.waiting
    );
}

fn tell_spell(text: &mut String, spell: &Spell) {
    let _always = writeln!(text, "  measured          {:.0} s", spell.lasted.as_secs_f64());
    for (what, Percentiles { count, p50_ms, p99_ms }) in [("decided", spell.decided), ("ordered", spell.ordered)] {
        let _always = writeln!(
            text,
            "  {what:<17} {count} times; beyond the batch window half within {p50_ms} ms, 99% within {p99_ms} ms"
        );
    }
    let _always =
        writeln!(text, "  longest wait      {:.1} s from a pod's making to its running, so far", seconds(spell));
    for (who, used) in users(spell) {
        if let Some(Usage { bytes, peak, processors }) = used {
            let (now, most) = (bytes as f64 / MIB, peak as f64 / MIB);
            let _always = writeln!(text, "  {who:<17} {now:.0} MiB ({most:.0} at most), {processors:.2} processors");
        }
    }
    if let Some((busy, all)) = spell.machine {
        let _always =
            writeln!(text, "  whole machine     {busy:.2} of {all} processors busy, with whatever else runs on it");
    }
    if let Some((rows, bytes)) = spell.written {
        let _always = writeln!(text, "  written           {rows:.1} rows/s, {:.1} KB/s", bytes / 1_000.0);
    }
}

fn seconds(spell: &Spell) -> f64 {
    spell.longest_wait_ms as f64 / 1_000.0
}

fn users(spell: &Spell) -> [(&'static str, Option<Usage>); 4] {
    [
        ("servers", spell.servers),
        ("database", spell.database),
        ("simulated cloud", spell.cloud),
        ("generator", spell.generator),
    ]
}

/// Bytes that the database writes a day.
fn a_day(report: &Report) -> Option<f64> {
    let (_, bytes) = report.steady.written?;
    Some(bytes * SECONDS_A_DAY + report.whole_inputs? as f64 * WHOLE_INPUTS_A_DAY)
}

fn document(plan: &Plan, report: &Report) -> Value {
    json!({
        "clusters": plan.clusters,
        "nodes": plan.nodes,
        "pods": plan.pods,
        "burst": plan.burst,
        "periodSeconds": plan.period.as_secs_f64(),
        "takenInSeconds": report.taken_in.took.as_secs_f64(),
        "takingIn": spell_document(&report.taken_in.meanwhile),
        "steady": spell_document(&report.steady),
        "wholeInputBytes": report.whole_inputs,
        "bytesPerDay": a_day(report),
        "upsets": report.upsets.iter().map(upset_document).collect::<Vec<_>>(),
        "podsCreated": report.pods_made,
        "clustersUnowned": report.unowned,
        "burstPodsWaiting": report.waiting,
        "doubled": report.doubled,
        "well": report.is_well(),
    })
}

fn upset_document(upset: &Upset) -> Value {
    json!({
        "what": upset.what,
        "ownedAgainSeconds": upset.owned_again.took.as_secs_f64(),
        "owningAgain": spell_document(&upset.owned_again.meanwhile),
        "spell": spell_document(&upset.spell),
    })
}

fn spell_document(spell: &Spell) -> Value {
    let latency =
        |found: Percentiles| json!({"count": found.count, "millisP50": found.p50_ms, "millisP99": found.p99_ms});
    let usage = |used: Option<Usage>| {
        used.map(|used| json!({"memoryBytes": used.bytes, "peakBytes": used.peak, "processors": used.processors}))
    };
    json!({
        "seconds": spell.lasted.as_secs_f64(),
        "decided": latency(spell.decided),
        "ordered": latency(spell.ordered),
        "longestWaitMillis": spell.longest_wait_ms,
        "servers": usage(spell.servers),
        "database": usage(spell.database),
        "simulatedCloud": usage(spell.cloud),
        "generator": usage(spell.generator),
        "machine": spell.machine.map(|(busy, all)| json!({"processorsBusy": busy, "processors": all})),
        "rowsPerSecond": spell.written.map(|(rows, _)| rows),
        "bytesPerSecond": spell.written.map(|(_, bytes)| bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_bought_twice_is_told_and_is_no_success() {
        let report = Report { doubled: Some(vec!["blue/m0".to_owned()]), ..Report::default() };
        assert!(!report.is_well());
        let plan = Plan {
            clusters: 1,
            nodes: 1,
            pods: 1,
            burst: 1,
            period: Duration::ZERO,
            given: None,
            database_url: None,
            lasts: Duration::ZERO,
            upsets: Upsets::None,
            seed: 1,
            log: String::new(),
        };
        let end = phase(&plan, &Told::Ended(&report));
        assert!(end.contains("1 machines bought twice"), "{end}");
        assert_eq!(document(&plan, &report)["doubled"][0], "blue/m0");
    }

    #[test]
    fn a_day_is_what_is_written_by_the_second_and_two_whole_inputs() {
        let steady = Spell { written: Some((1.0, 1_000.0)), ..Spell::default() };
        let report = Report { steady, whole_inputs: Some(500_000), ..Report::default() };
        // 1,000 B/s for 86,400 s and twice 500,000 B.
        assert_eq!(a_day(&report), Some(87_400_000.0));
    }
}
