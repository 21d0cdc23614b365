//! Runs this project's program and a baseline that implements the plan contract on the same files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, bail};
use model::input::PreferencePolicy;
use serde_json::Value;

use crate::cases::Case;
use crate::flags::Flags;
use crate::proc;
use crate::workload::Files;

/// Interval between memory samples of a running program.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// CPU requests in milli-cores, from which Karpenter derives its threads: one as deployed, five as
/// in its own benchmark.
const THREADS: [u32; 2] = [1000, 5000];

/// Result of one run of a program.
pub struct Outcome {
    /// User and system time of the whole process, reading and printing included.
    pub cpu: Duration,
    /// Peak resident memory, in MiB.
    pub peak_mib: f64,
    pub nodes: usize,
    /// Pods without a place.
    pub unplaced: usize,
    /// Dollars per hour.
    pub cost: f64,
}

/// Prints a table of both programs over those of `cases` that are small enough and use the built-in
/// catalogue, the only one that both programs support.
pub fn compare(flags: &Flags, baseline: &Path, cases: &[Case]) -> Result<()> {
    let own = match &flags.fleetwright {
        Some(program) => program.clone(),
        None => release_program()?,
    };
    println!("\nWhole processes on the same files, reading and printing included ({}):", baseline.display());
    println!("case                 program             CPU s   peak MiB   nodes unplaced     $/hour   times our CPU");
    let folder = env::temp_dir().join(format!("fleetwright-bench-{}", std::process::id()));
    let result = cases.iter().filter(|case| case.pods <= flags.baseline_pods).try_for_each(|case| {
        let workload = case.workload()?;
        if workload.setup.catalogue.is_some() {
            return Ok(());
        }
        let files = workload.write(&folder.join(&case.name))?;
        compare_case(&case.name, &own, baseline, &files, workload.preferences)
    });
    fs::remove_dir_all(&folder).or_else(|error| if folder.exists() { Err(error) } else { Ok(()) })?;
    result
}

/// The program of a release build, one folder above this one.
fn release_program() -> Result<PathBuf> {
    let this = env::current_exe().context("looking for this program")?;
    let program = this.parent().and_then(Path::parent).map(|folder| folder.join("fleetwright"));
    program
        .filter(|program| program.exists())
        .context("no fleetwright beside this program; run `cargo build --release -p fleetwright`, or set FLEETWRIGHT")
}

fn compare_case(name: &str, own: &Path, baseline: &Path, files: &Files, preferences: PreferencePolicy) -> Result<()> {
    let policy = format!("{preferences:?}");
    let mut command = Command::new(own);
    command.args(["plan", "-o", "json", "--search", "0", "--preference-policy", &policy, "-f"]).arg(&files.manifests);
    let ours = run_program(command, &files.folder)?;
    print_row(name, "fleetwright", &ours, &ours);
    for request in THREADS {
        let theirs = plan_by(baseline, files, preferences, request)?;
        print_row(name, &format!("baseline, {} thread(s)", request / 1000), &theirs, &ours);
    }
    Ok(())
}

/// The plan of the baseline for `files`, with the threads that it derives from a CPU request in
/// milli-cores.
pub fn plan_by(baseline: &Path, files: &Files, preferences: PreferencePolicy, request: u32) -> Result<Outcome> {
    let mut command = Command::new(baseline);
    let (policy, request) = (format!("{preferences:?}"), request.to_string());
    command.args(["plan", "-o", "json", "-preference-policy", &policy, "-cpu-requests", &request, "-f"]);
    command.arg(&files.manifests);
    run_program(command, &files.folder)
}

fn print_row(case: &str, program: &str, outcome: &Outcome, ours: &Outcome) {
    let ratio = outcome.cpu.as_secs_f64() / ours.cpu.as_secs_f64().max(0.01);
    println!(
        "{case:<20} {program:<19} {:5.2} {:10.0} {:7} {:8} {:10.4} {ratio:15.0}",
        outcome.cpu.as_secs_f64(),
        outcome.peak_mib,
        outcome.nodes,
        outcome.unplaced,
        outcome.cost
    );
}

/// Runs `command` to its end. Its output goes to a file, so that the program never blocks on a full
/// pipe.
fn run_program(mut command: Command, folder: &Path) -> Result<Outcome> {
    let (printed, stderr) = (folder.join("out.json"), folder.join("err.txt"));
    command.stdin(Stdio::null()).stdout(File::create(&printed)?).stderr(File::create(&stderr)?);
    let before = proc::children_cpu();
    let mut child = command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
    let mut peak_mib = 0.0_f64;
    let status = loop {
        peak_mib = peak_mib.max(proc::peak_rss_mib(&child.id().to_string()).unwrap_or(0.0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(SAMPLE_INTERVAL);
    };
    let cpu = proc::children_cpu().saturating_sub(before);
    // Exit status 1 is a valid result: some pod is unschedulable.
    if !matches!(status.code(), Some(0 | 1)) {
        let stderr = fs::read_to_string(&stderr).unwrap_or_default();
        bail!("{} ended with {status}: {}", command.get_program().display(), stderr.trim());
    }
    let plan: Value = serde_json::from_slice(&fs::read(&printed)?).context("reading the plan")?;
    let count = |field: &str| plan[field].as_array().map_or(0, Vec::len);
    let cost = plan["cost"]["newUsdPerHour"].as_f64().unwrap_or(0.0);
    Ok(Outcome { cpu, peak_mib, nodes: count("nodes"), unplaced: count("unschedulable"), cost })
}
