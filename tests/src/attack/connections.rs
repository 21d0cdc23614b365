//! Many hostile connections of one kind at a time, while honest agents are connected.

use std::io::{BufRead as _, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustls::ClientConfig;

use super::arguments::{number, word};
use super::hostile::AttackKind;
use super::metrics::{Decisions, resident_bytes, scrape, trusting_config};
use super::test_bed::TestBed;

/// Bound on the memory of all sessions, beyond that of honest agents.
const MAX_EXTRA_MEMORY: u64 = 512 << 20;
/// Bound on the p95 latency of decisions: twice that without attackers, or so many milliseconds
/// more.
const MAX_EXTRA_LATENCY_MS: f64 = 100.0;
/// Longest time after the measurement in which an attack must have begun.
const LATE_SECONDS: u64 = 60;
/// Sampling interval of the server's memory.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Size and duration of the attack.
#[derive(Debug, Clone, Copy)]
struct AttackPlan {
    seconds: u64,
    connections: u64,
    /// Priority of the attackers, in the units of `nice`.
    nice: u64,
    timing: bool,
}

/// Progress of the attackers of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct AttackProgress {
    connections: u64,
    messages: u64,
}

/// Measurements during one kind of attack, or without any.
#[derive(Debug)]
struct Measurements {
    peak: u64,
    decisions: Decisions,
    lost_streams: Vec<String>,
}

/// `attack connections`: prints a line for each kind of attacker, and fails beyond the bounds.
pub(super) fn main(words: &[&str]) -> ExitCode {
    let plan = AttackPlan {
        seconds: number(words, "--seconds", 60),
        connections: number(words, "--connections", 1_000),
        nice: number(words, "--nice", 10),
        timing: !words.contains(&"--without-timing"),
    };
    let only = word(words, "--only");
    let kinds: Vec<AttackKind> =
        AttackKind::ALL.into_iter().filter(|kind| only.is_none_or(|only| only == kind.name())).collect();
    match attack(plan, &kinds) {
        Ok(broken) if broken.is_empty() => ExitCode::SUCCESS,
        Ok(broken) => {
            broken.iter().for_each(|one| eprintln!("BROKEN {one}"));
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs the attacks and returns the bounds that were exceeded.
fn attack(plan: AttackPlan, kinds: &[AttackKind]) -> anyhow::Result<Vec<String>> {
    let program = std::env::current_exe()?.display().to_string();
    let test_bed = TestBed::start(&program)?;
    let config = trusting_config(&test_bed.path("ca.crt"))?;
    let quiet = watch(&test_bed, &config, plan.seconds)?;
    let base = resident_bytes(test_bed.server.id());
    print_measurements("quiet", &quiet, base)?;
    let mut broken = Vec::new();
    for kind in kinds {
        let mut attackers = start_attackers(&program, &test_bed, *kind, plan)?;
        let progress = read_progress(&mut attackers)?;
        let measurements = watch(&test_bed, &config, plan.seconds);
        let done = wait_for_attack(&progress, *kind, plan);
        attackers.kill().context("the attackers do not end")?;
        let _ended = attackers.wait().context("the attackers do not end")?;
        let measurements = measurements?;
        print_measurements(kind.name(), &measurements, base)?;
        writeln!(
            std::io::stdout(),
            "{:<10} {} connections, {} messages of attackers",
            "",
            done.connections,
            done.messages
        )?;
        broken.extend(check_bounds(kind.name(), plan, &quiet, &measurements, base));
        if !done.takes_place(*kind, plan) {
            broken.push(format!("{}: the attack did not take place: {done:?}", kind.name()));
        }
    }
    Ok(broken)
}

impl AttackProgress {
    fn parse(line: &str) -> Option<Self> {
        let (connections, messages) = line.split_once(' ')?;
        Some(Self { connections: connections.parse().ok()?, messages: messages.parse().ok()? })
    }

    fn takes_place(self, kind: AttackKind, plan: AttackPlan) -> bool {
        self.connections >= plan.connections.min(20) && (kind == AttackKind::Silent || self.messages > 0)
    }
}

/// The last progress that the attackers have printed.
fn read_progress(attackers: &mut Child) -> anyhow::Result<Arc<Mutex<AttackProgress>>> {
    let output = attackers.stdout.take().context("the attackers have no output")?;
    let progress = Arc::new(Mutex::new(AttackProgress::default()));
    let last = Arc::clone(&progress);
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let _reader = std::thread::spawn(move || {
        for line in lines {
            if let (Some(read), Ok(mut last)) = (AttackProgress::parse(&line), last.lock()) {
                *last = read;
            }
        }
    });
    Ok(progress)
}

/// Waits until the attack takes place: on a busy machine that may take longer than the measurement.
fn wait_for_attack(progress: &Mutex<AttackProgress>, kind: AttackKind, plan: AttackPlan) -> AttackProgress {
    let read = || progress.lock().map(|progress| *progress).unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(LATE_SECONDS);
    while !read().takes_place(kind, plan) && Instant::now() < end {
        std::thread::park_timeout(POLL_INTERVAL);
    }
    read()
}

/// Starts the attackers at low priority. Each exits when its time is over.
fn start_attackers(program: &str, test_bed: &TestBed, kind: AttackKind, plan: AttackPlan) -> anyhow::Result<Child> {
    let (seconds, connections) = ((plan.seconds + LATE_SECONDS).to_string(), plan.connections.to_string());
    let arguments = ["hostile", kind.name(), "--seconds", &seconds, "--connections", &connections];
    let files = [test_bed.text("ca.crt"), test_bed.text("evil"), test_bed.text("made-up")];
    let at = [
        "--grpc",
        &test_bed.grpc,
        "--http",
        &test_bed.http,
        "--ca",
        &files[0],
        "--evil",
        &files[1],
        "--made-up",
        &files[2],
    ];
    let mut command = Command::new("nice");
    let nice = plan.nice.to_string();
    command.args(["-n", &nice, program]).args(arguments).args(at).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().context("attackers cannot be started")
}

/// Measures the server for so many seconds.
fn watch(test_bed: &TestBed, config: &Arc<ClientConfig>, seconds: u64) -> anyhow::Result<Measurements> {
    let before = Decisions::of(&scrape(test_bed, config)?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut peak = 0;
    while Instant::now() < end {
        peak = peak.max(resident_bytes(test_bed.server.id()));
        std::thread::park_timeout(POLL_INTERVAL);
    }
    let after = Decisions::of(&scrape(test_bed, config).context("the page is not served under attack")?);
    Ok(Measurements { peak, decisions: after.since(&before), lost_streams: test_bed.lost_streams() })
}

fn print_measurements(kind: &str, measurements: &Measurements, base: u64) -> anyhow::Result<()> {
    let p95 = measurements.decisions.p95_ms().map_or_else(|| "-".to_owned(), |p95| format!("{p95:.0} ms"));
    let (beyond, count, cut) =
        (measurements.peak.saturating_sub(base) >> 20, measurements.decisions.count(), measurements.lost_streams.len());
    writeln!(
        std::io::stdout(),
        "{kind:<10} memory +{beyond} MiB at its peak; {count} decisions, p95 {p95}; {cut} streams of honest agents cut"
    )?;
    Ok(())
}

fn check_bounds(
    kind: &str,
    plan: AttackPlan,
    quiet: &Measurements,
    measurements: &Measurements,
    base: u64,
) -> Vec<String> {
    let mut broken = Vec::new();
    let beyond = measurements.peak.saturating_sub(base);
    if beyond > MAX_EXTRA_MEMORY {
        broken.push(format!("{kind}: {} MiB beyond what honest agents hold", beyond >> 20));
    }
    if let Some(complaint) = measurements.lost_streams.first() {
        broken.push(format!("{kind}: an honest agent lost its stream: {complaint}"));
    }
    let (before, under) = (quiet.decisions.p95_ms().unwrap_or(0.0), measurements.decisions.p95_ms().unwrap_or(0.0));
    if plan.timing && under > (2.0 * before).max(before + MAX_EXTRA_LATENCY_MS) {
        broken.push(format!("{kind}: decisions took {under:.0} ms, and {before:.0} ms in quiet (p95)"));
    }
    if plan.timing && measurements.decisions.count() == 0 && quiet.decisions.count() > 0 {
        broken.push(format!("{kind}: nothing was decided"));
    }
    broken
}
