//! `fleetwright-sim simulate load`: load of many simulated clusters on a server.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::anyhow;
use serde_json::{Value, json};

use super::form::{Form, RunFlags, started};
use command::exit::{Failure, Status};
use simulation::load::{self, Disturbance, Interval, Percentiles, Plan, Progress, Recovery, Report, Usage};

const SECONDS_A_DAY: f64 = 86_400.0;
const GB: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

/// Full inputs per cluster and day in the decision log.
const WHOLE_INPUTS_A_DAY: f64 = 2.0;

pub(super) fn run(flags: &RunFlags<Plan>) -> Result<Status, Failure> {
    let runtime = started(&flags.plan.log)?;
    let plan = &flags.plan;
    let form = flags.output;
    let mut report_phase = |progress: Progress<'_>| print_part(form, &phase(plan, &progress));
    let report = runtime.block_on(async {
        // On a stop signal, all started processes are stopped.
        tokio::select! {
            report = load::run(plan, &mut report_phase) => report,
            () = server::serve::shutdown_signal() => Err(anyhow!("stopped before the measurement was complete")),
        }
    });
    let report = report.map_err(|error| Failure::internal(format!("{error:#}")))?;
    // A table has been printed phase by phase.
    form.print(String::new, || document(plan, &report))?;
    Ok(if report.is_success() { Status::Done } else { Status::Leftover })
}

/// Prints a part of a table as it becomes available; for a document it goes to standard error. A
/// closed pipe does not stop the measurement.
fn print_part(form: Form, text: &str) -> io::Result<()> {
    let written = match form {
        Form::Table => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        }
        Form::Json => io::stderr().lock().write_all(text.as_bytes()),
    };
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Text of a phase, with an empty line before each but the first.
fn phase(plan: &Plan, progress: &Progress<'_>) -> String {
    let mut text = String::new();
    match progress {
        Progress::Connected(report) => tell_taken_in(&mut text, plan, report),
        Progress::Steady(report) => tell_steady(&mut text, plan, report),
        Progress::Disturbance(disturbance) => write_disturbance(&mut text, disturbance),
        Progress::Ended(report) => tell_end(&mut text, report),
    }
    text
}

// Writing to a String cannot fail, here and below.

fn tell_taken_in(text: &mut String, plan: &Plan, report: &Report) {
    let Plan { clusters, nodes, pods, burst, period, .. } = plan;
    let period = period.as_secs_f64();
    let seconds = report.startup.took.as_secs_f64();
    let _always = writeln!(
        text,
        "{clusters} clusters with {nodes} nodes and {pods} pods each, taken in within {seconds:.1} s; a burst of {burst} \
         pods every {period} s, those of different clusters spread evenly over that"
    );
    tell_meanwhile(text, &report.startup);
}

fn tell_steady(text: &mut String, plan: &Plan, report: &Report) {
    text.push_str("\nsteady\n");
    write_interval(text, &report.steady);
    if let Some(Percentiles { count, p50_ms, p99_ms }) = report.quotes {
        let _always = writeln!(
            text,
            "  quotes            {count} over all clusters; half within {p50_ms:.1} ms, 99% within {p99_ms:.1} ms at the client"
        );
    }
    if let Some(whole) = report.whole_inputs {
        let each = whole as f64 / 1_000.0 / plan.clusters.max(1) as f64;
        let _always = writeln!(text, "  full inputs       {each:.1} KB for each cluster, twice a day");
    }
    if let Some(bytes) = a_day(report) {
        let _always = writeln!(text, "  a day             {:.2} GB", bytes / GB);
    }
}

fn write_disturbance(text: &mut String, disturbance: &Disturbance) {
    let _always = writeln!(text, "\n{}", disturbance.what);
    let seconds = disturbance.recovery.took.as_secs_f64();
    let _always = writeln!(text, "  owned again       {seconds:.1} s until the last cluster");
    tell_meanwhile(text, &disturbance.recovery);
    write_interval(text, &disturbance.interval);
}

fn tell_meanwhile(text: &mut String, recovery: &Recovery) {
    let used = users(&recovery.meanwhile).into_iter().filter_map(|(who, used)| {
        used.map(|used| format!("{who} {:.1}", used.processors * recovery.meanwhile.lasted.as_secs_f64()))
    });
    let used: Vec<String> = used.collect();
    let lasted = recovery.meanwhile.lasted.as_secs_f64();
    if !used.is_empty() {
        let _always =
            writeln!(text, "  meanwhile         seconds of processor time within {lasted:.1} s: {}", used.join(", "));
    }
}

fn tell_end(text: &mut String, report: &Report) {
    let launched_twice = report
        .launched_twice
        .as_ref()
        .map_or("not known".to_owned(), |launched_twice| launched_twice.len().to_string());
    let _always = writeln!(
        text,
        "\nat the end: {} clusters without a server, {} pods of bursts that do not run, {launched_twice} duplicate launches",
        report.unowned, report.waiting
    );
}

fn write_interval(text: &mut String, interval: &Interval) {
    let _always = writeln!(text, "  measured          {:.0} s", interval.lasted.as_secs_f64());
    for (what, Percentiles { count, p50_ms, p99_ms }) in [("decided", interval.decided), ("ordered", interval.ordered)]
    {
        let _always = writeln!(
            text,
            "  {what:<17} {count} times; beyond the batch window half within {p50_ms} ms, 99% within {p99_ms} ms"
        );
    }
    let Percentiles { count, p50_ms, p99_ms } = interval.disruption;
    let _always =
        writeln!(text, "  consolidation     planned {count} times; half within {p50_ms} ms, 99% within {p99_ms} ms");
    let waits = interval.disruption_waits;
    let (mean, longest, share) = (waits.mean(), waits.longest, waits.cpu / interval.lasted.as_secs_f64().max(0.001));
    let _always = writeln!(
        text,
        "  their wait        {mean:.1} s on average, {longest:.1} s at most since the servers started; plans took {share:.2} processors"
    );
    let _always =
        writeln!(text, "  longest wait      {:.1} s from creation to running of a pod, so far", seconds(interval));
    for (who, used) in users(interval) {
        if let Some(Usage { bytes, peak, processors }) = used {
            let (now, most) = (bytes as f64 / MIB, peak as f64 / MIB);
            let _always = writeln!(text, "  {who:<17} {now:.0} MiB ({most:.0} at most), {processors:.2} processors");
        }
    }
    if let Some((busy, all)) = interval.host_processors {
        let _always =
            writeln!(text, "  host               {busy:.2} of {all} processors busy, including other processes");
    }
    if let Some((rows, bytes)) = interval.written {
        let _always = writeln!(text, "  written           {rows:.1} rows/s, {:.1} KB/s", bytes / 1_000.0);
    }
}

fn seconds(interval: &Interval) -> f64 {
    interval.longest_wait_ms as f64 / 1_000.0
}

fn users(interval: &Interval) -> [(&'static str, Option<Usage>); 4] {
    [
        ("servers", interval.servers),
        ("database", interval.database),
        ("simulated cloud", interval.cloud),
        ("generator", interval.generator),
    ]
}

/// Bytes that the database writes per day.
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
        "takenInSeconds": report.startup.took.as_secs_f64(),
        "takingIn": interval_document(&report.startup.meanwhile),
        "steady": interval_document(&report.steady),
        "quotes": report.quotes,
        "wholeInputBytes": report.whole_inputs,
        "bytesPerDay": a_day(report),
        "upsets": report.disturbances.iter().map(disturbance_document).collect::<Vec<_>>(),
        "podsCreated": report.pods_created,
        "clustersUnowned": report.unowned,
        "burstPodsWaiting": report.waiting,
        "doubled": report.launched_twice,
        "well": report.is_success(),
    })
}

fn disturbance_document(disturbance: &Disturbance) -> Value {
    json!({
        "what": disturbance.what,
        "ownedAgainSeconds": disturbance.recovery.took.as_secs_f64(),
        "owningAgain": interval_document(&disturbance.recovery.meanwhile),
        "spell": interval_document(&disturbance.interval),
    })
}

fn interval_document(interval: &Interval) -> Value {
    json!({
        "seconds": interval.lasted.as_secs_f64(),
        "decided": interval.decided,
        "ordered": interval.ordered,
        "consolidationPlans": interval.disruption,
        "consolidationWaits": {
            "meanSeconds": interval.disruption_waits.mean(),
            "longestSeconds": interval.disruption_waits.longest,
            "cpuSeconds": interval.disruption_waits.cpu,
        },
        "longestWaitMillis": interval.longest_wait_ms,
        "servers": interval.servers,
        "database": interval.database,
        "simulatedCloud": interval.cloud,
        "generator": interval.generator,
        "machine": interval.host_processors.map(|(busy, all)| json!({"processorsBusy": busy, "processors": all})),
        "rowsPerSecond": interval.written.map(|(rows, _)| rows),
        "bytesPerSecond": interval.written.map(|(_, bytes)| bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_launch_is_reported_as_a_failure() {
        let report = Report { launched_twice: Some(vec!["blue/m0".to_owned()]), ..Report::default() };
        assert!(!report.is_success());
        let plan = Plan { clusters: 1, ..Plan::default() };
        let end = phase(&plan, &Progress::Ended(&report));
        assert!(end.contains("1 duplicate launches"), "{end}");
        assert_eq!(document(&plan, &report)["doubled"][0], "blue/m0");
    }

    #[test]
    fn a_day_is_the_write_rate_plus_two_full_inputs() {
        let steady = Interval { written: Some((1.0, 1_000.0)), ..Interval::default() };
        let report = Report { steady, whole_inputs: Some(500_000), ..Report::default() };
        // 1,000 B/s for 86,400 s and twice 500,000 B.
        assert_eq!(a_day(&report), Some(87_400_000.0));
    }
}
