//! Many hostile connections of one kind at a time, while honest agents work.

use std::io::Write;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustls::ClientConfig;

use super::ground::Ground;
use super::hostile::Kind;
use super::metrics::{Decisions, believes, resident, scrape};
use super::{number, word};

/// What all sessions together may hold beyond what the honest ones do.
const MEMORY: u64 = 512 << 20;
/// The 95th of a hundred decisions may be twice as late as in quiet, or so many milliseconds later.
const LATER_MS: f64 = 100.0;
/// Between two looks at the server's memory.
const LOOK: Duration = Duration::from_millis(250);

/// How many, for how long.
#[derive(Debug, Clone, Copy)]
struct Plan {
    seconds: u64,
    connections: u64,
    /// Priority of the attackers, as `nice` counts it.
    nice: u64,
    timing: bool,
}

/// What a kind of attackers got done.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    connections: u64,
    messages: u64,
}

/// One kind of attacker, or none.
#[derive(Debug)]
struct Figures {
    peak: u64,
    decisions: Decisions,
    complaints: Vec<String>,
}

/// Attacks and judges.
pub(super) fn main(words: &[&str]) -> ExitCode {
    let plan = Plan {
        seconds: number(words, "--seconds", 60),
        connections: number(words, "--connections", 1_000),
        nice: number(words, "--nice", 10),
        timing: !words.contains(&"--without-timing"),
    };
    let only = word(words, "--only");
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| only.is_none_or(|only| only == kind.name())).collect();
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

/// Bounds that were passed.
fn attack(plan: Plan, kinds: &[Kind]) -> anyhow::Result<Vec<String>> {
    let program = std::env::current_exe()?.display().to_string();
    let ground = Ground::start(&program)?;
    let config = believes(&ground.path("ca.crt"))?;
    let quiet = watch(&ground, &config, plan.seconds)?;
    let base = resident(ground.server.id());
    say("quiet", &quiet, base)?;
    let mut broken = Vec::new();
    for kind in kinds {
        let mut attackers = unleash(&program, &ground, *kind, plan)?;
        let figures = watch(&ground, &config, plan.seconds);
        attackers.kill().context("the attackers do not end")?;
        let told = attackers.wait_with_output().context("the attackers do not end")?.stdout;
        let (figures, done) = (figures?, done(&String::from_utf8_lossy(&told)));
        say(kind.name(), &figures, base)?;
        writeln!(
            std::io::stdout(),
            "{:<10} {} connections, {} messages of attackers",
            "",
            done.connections,
            done.messages
        )?;
        broken.extend(judge(kind.name(), plan, &quiet, &figures, base));
        if done.connections < plan.connections.min(20) || *kind != Kind::Silent && done.messages == 0 {
            broken.push(format!("{}: the attack did not take place: {done:?}", kind.name()));
        }
    }
    Ok(broken)
}

/// What the last whole line says.
fn done(told: &str) -> Done {
    let mut lines = told.rsplit('\n').skip(1);
    let numbers = lines.next().and_then(|line| line.split_once(' '));
    let parsed = numbers.and_then(|(connections, messages)| Some((connections.parse().ok()?, messages.parse().ok()?)));
    parsed.map(|(connections, messages)| Done { connections, messages }).unwrap_or_default()
}

/// Attackers at low priority. Each ends by itself when its time is over.
fn unleash(program: &str, ground: &Ground, kind: Kind, plan: Plan) -> anyhow::Result<Child> {
    let (seconds, connections) = (plan.seconds.to_string(), plan.connections.to_string());
    let arguments = ["hostile", kind.name(), "--seconds", &seconds, "--connections", &connections];
    let files = [ground.text("ca.crt"), ground.text("evil"), ground.text("made-up")];
    let at = [
        "--grpc",
        &ground.grpc,
        "--http",
        &ground.http,
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

/// Looks on for so many seconds.
fn watch(ground: &Ground, config: &Arc<ClientConfig>, seconds: u64) -> anyhow::Result<Figures> {
    let before = Decisions::of(&scrape(ground, config)?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut peak = 0;
    while Instant::now() < end {
        peak = peak.max(resident(ground.server.id()));
        std::thread::park_timeout(LOOK);
    }
    let after = Decisions::of(&scrape(ground, config).context("the page is not served under attack")?);
    Ok(Figures { peak, decisions: after.since(&before), complaints: ground.complaints() })
}

fn say(kind: &str, figures: &Figures, base: u64) -> anyhow::Result<()> {
    let p95 = figures.decisions.p95_ms().map_or_else(|| "-".to_owned(), |p95| format!("{p95:.0} ms"));
    let (beyond, count, cut) =
        (figures.peak.saturating_sub(base) >> 20, figures.decisions.count(), figures.complaints.len());
    writeln!(
        std::io::stdout(),
        "{kind:<10} memory +{beyond} MiB at its peak; {count} decisions, p95 {p95}; {cut} streams of honest agents cut"
    )?;
    Ok(())
}

fn judge(kind: &str, plan: Plan, quiet: &Figures, figures: &Figures, base: u64) -> Vec<String> {
    let mut broken = Vec::new();
    let beyond = figures.peak.saturating_sub(base);
    if beyond > MEMORY {
        broken.push(format!("{kind}: {} MiB beyond what honest agents hold", beyond >> 20));
    }
    if let Some(complaint) = figures.complaints.first() {
        broken.push(format!("{kind}: an honest agent lost its stream: {complaint}"));
    }
    let (before, under) = (quiet.decisions.p95_ms().unwrap_or(0.0), figures.decisions.p95_ms().unwrap_or(0.0));
    if plan.timing && under > (2.0 * before).max(before + LATER_MS) {
        broken.push(format!("{kind}: decisions took {under:.0} ms, and {before:.0} ms in quiet (p95)"));
    }
    if plan.timing && figures.decisions.count() == 0 && quiet.decisions.count() > 0 {
        broken.push(format!("{kind}: nothing was decided"));
    }
    broken
}
