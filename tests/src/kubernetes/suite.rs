//! Runs scenarios one after the other on one control plane, and says of each what became of it.
//!
//! A machine without a control plane runs none of them: each is reported as skipped, by name and with the reason. With
//! `CI=true` that is a failure, so that a suite that never ran cannot be taken for one that passed.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;

use super::audit::{self, Asked};
use super::cluster::Cluster;
use super::control_plane::ControlPlane;
use super::{Missing, deploy};

/// What a scenario returns: the figures that it is about.
pub type Told = anyhow::Result<String>;
/// A scenario that is being played.
pub type Play = Pin<Box<dyn Future<Output = Told> + Send>>;

/// One thing to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// A sentence with underscores.
    pub name: &'static str,
    /// It fails when it takes longer.
    pub limit: Duration,
    /// Whether it needs a control plane that it may kill and whose audit log it can read.
    pub needs_own: bool,
    /// Whether anything in it is to be scheduled. Binaries that were given may lack what does that.
    pub needs_scheduler: bool,
    /// Whether it judges what the other scenarios have done, and so means nothing without all of them.
    pub needs_all: bool,
    /// Whether it is played only when its name is given whole: it costs more than it tells every day.
    pub by_name: bool,
    /// How it is played.
    pub play: fn(Arc<Stage>) -> Play,
}

/// What scenarios are played on.
pub struct Stage {
    /// The control plane. Whoever kills it has it alone.
    pub plane: tokio::sync::Mutex<ControlPlane>,
    /// The administrator's client.
    pub client: kube::Client,
    /// What is tested.
    pub programs: Programs,
}

/// The programs under test. Cargo tells a test only where the programs of its own package are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `fleetwright`.
    pub server: PathBuf,
    /// `fleetwright-agent`.
    pub agent: PathBuf,
}

impl Stage {
    /// What service accounts have asked of the API server so far.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn audit(&self) -> anyhow::Result<Vec<Asked>> {
        audit::read(&self.plane.lock().await.audit_log()?)
    }

    async fn new(plane: ControlPlane, programs: &Programs) -> anyhow::Result<Self> {
        let client = furnish(&plane).await?;
        Ok(Self { plane: tokio::sync::Mutex::new(plane), client, programs: programs.clone() })
    }
}

/// Applies what a cluster needs for an agent; returns the administrator's client.
///
/// # Errors
/// When the API server refuses something.
pub async fn furnish(plane: &ControlPlane) -> anyhow::Result<kube::Client> {
    let config = kube::config::Kubeconfig::read_from(plane.kubeconfig()).context("cannot read the kubeconfig")?;
    let mut config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    config.read_timeout = Some(Duration::from_secs(300));
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;
    let cluster = Cluster::with_namespace(&client, "stage").await?;
    deploy::define(&cluster).await?;
    deploy::allow(&cluster).await?;
    Ok(client)
}

/// Why a scenario cannot be played on this machine, although others can: something that it needs is not installed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skip(pub String);

/// What became of a scenario.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

/// Plays those scenarios whose names contain the first argument that is no flag; all without one.
#[must_use]
pub fn run(programs: &Programs, scenarios: &[Scenario]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let wants = |one: &&Scenario| match filter {
        Some(filter) if one.by_name => one.name == *filter,
        Some(filter) => one.name.contains(filter.as_str()),
        None => !one.by_name,
    };
    let wanted: Vec<&Scenario> = scenarios.iter().filter(wants).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        wanted.iter().for_each(|one| println!("{}: test", one.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let all = filter.is_none();
    let outcomes = if wanted.is_empty() { Vec::new() } else { play_all(programs, &wanted, all) };
    conclude(&outcomes, scenarios.len() - wanted.len())
}

fn play_all(programs: &Programs, wanted: &[&Scenario], all: bool) -> Vec<Outcome> {
    let runtime = tokio::runtime::Runtime::new().expect("the system has threads to give");
    let stage = ControlPlane::find_or_start().and_then(|plane| runtime.block_on(Stage::new(plane, programs)));
    let stage = match stage {
        Ok(stage) => Arc::new(stage),
        Err(error) => {
            let must_run = must_run(std::env::var("CI").ok().as_deref());
            return wanted.iter().map(|one| tell(one, unavailable(&error, must_run), Duration::ZERO)).collect();
        }
    };
    let play = |one: &&Scenario| {
        let start = Instant::now();
        let outcome = runtime.block_on(play(one, Arc::clone(&stage), all));
        tell(one, outcome, start.elapsed())
    };
    wanted.iter().map(play).collect()
}

/// Whether somebody relies on the answer, by the variable `CI`.
fn must_run(ci: Option<&str>) -> bool {
    ci.is_some_and(|ci| !["", "false", "0"].contains(&ci))
}

/// Without a control plane: skipped, or failed where somebody relies on the answer.
fn unavailable(error: &anyhow::Error, must_run: bool) -> Outcome {
    match error.downcast_ref::<Missing>() {
        Some(missing) if !must_run => Outcome::Skipped(missing.to_string()),
        _ => Outcome::Failed(format!("{error:#}")),
    }
}

async fn play(scenario: &Scenario, stage: Arc<Stage>, all: bool) -> Outcome {
    if scenario.needs_all && !all {
        return Outcome::Skipped("needs all scenarios, without a filter".to_owned());
    }
    if scenario.needs_own && !stage.plane.lock().await.is_own() {
        return Outcome::Skipped("needs a control plane of its own".to_owned());
    }
    if scenario.needs_scheduler && !stage.plane.lock().await.schedules() {
        return Outcome::Skipped(
            "needs kube-scheduler and kube-controller-manager, which the binaries that were given lack".to_owned(),
        );
    }
    let playing = AssertUnwindSafe((scenario.play)(stage)).catch_unwind();
    match tokio::time::timeout(scenario.limit, playing).await {
        Ok(Ok(Ok(figures))) => Outcome::Passed(figures),
        Ok(Ok(Err(error))) => match error.downcast_ref::<Skip>() {
            Some(skip) => Outcome::Skipped(skip.to_string()),
            None => Outcome::Failed(format!("{error:#}")),
        },
        Ok(Err(_)) => Outcome::Failed("it panicked; the reason is on standard error".to_owned()),
        Err(_) => Outcome::Failed(format!("it has not ended after {:?}", scenario.limit)),
    }
}

fn tell(scenario: &Scenario, outcome: Outcome, took: Duration) -> Outcome {
    let (name, seconds) = (scenario.name, took.as_secs_f64());
    match &outcome {
        Outcome::Passed(figures) => println!("test {name} ... ok ({seconds:.1} s)\n{}", indented(figures)),
        Outcome::Failed(reason) => println!("test {name} ... FAILED ({seconds:.1} s)\n{}", indented(reason)),
        Outcome::Skipped(reason) => println!("test {name} ... SKIPPED: {reason}"),
    }
    outcome
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn conclude(outcomes: &[Outcome], filtered: usize) -> ExitCode {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| wanted(outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed(_)));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let verdict = if failed > 0 { "FAILED" } else { "ok" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; {filtered} filtered out\n"
    );
    if failed > 0 { ExitCode::from(101) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_control_plane_a_scenario_is_skipped_and_fails_where_somebody_relies_on_it() {
        let missing = anyhow::Error::from(Missing("there is no Go".to_owned()));
        assert_eq!(unavailable(&missing, false), Outcome::Skipped("there is no Go".to_owned()));
        assert_eq!(unavailable(&missing, true), Outcome::Failed("there is no Go".to_owned()));
        // What is there and does not start is no reason to skip anything.
        let broken = anyhow::anyhow!("the control plane does not build");
        assert_eq!(unavailable(&broken, false), Outcome::Failed("the control plane does not build".to_owned()));
    }

    #[test]
    fn ci_says_that_somebody_relies_on_the_answer() {
        for (ci, relies) in [(None, false), (Some(""), false), (Some("false"), false), (Some("0"), false)] {
            assert_eq!(must_run(ci), relies, "{ci:?}");
        }
        assert!(must_run(Some("true")) && must_run(Some("1")));
    }

    #[test]
    fn what_failed_fails_the_suite_and_what_was_skipped_does_not() {
        let skipped = || Outcome::Skipped(String::new());
        let failed =
            |outcomes: &[Outcome]| format!("{:?}", conclude(outcomes, 0)) != format!("{:?}", ExitCode::SUCCESS);
        assert!(!failed(&[Outcome::Passed(String::new()), skipped()]));
        assert!(failed(&[skipped(), Outcome::Failed(String::new())]));
    }
}
