//! Runs scenarios and reports each result. Scenarios mostly wait, so three control planes run them: each runs one at a
//! time. A cluster that was given is one control plane.
//!
//! Without a control plane every scenario is skipped, by name and with the reason. With `CI=true`
//! that is a failure, so that a suite that never ran cannot pass.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt;

use super::audit::{self, AuditedRequest};
use super::cluster::Cluster;
use super::control_plane::ControlPlane;
use super::{Unavailable, deploy};

/// Control planes that run scenarios at the same time.
const CONTROL_PLANES: usize = 3;

/// Result of a scenario: its figures, as text.
pub type ScenarioResult = anyhow::Result<String>;
pub type ScenarioFuture = Pin<Box<dyn Future<Output = ScenarioResult> + Send>>;

/// A scenario of the suite and its requirements.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Name: a sentence with underscores.
    pub name: &'static str,
    /// Time after which the scenario fails.
    pub limit: Duration,
    /// Whether it needs a control plane that it may kill and whose audit log it can read.
    pub needs_own: bool,
    /// Whether it needs kube-scheduler. A folder of binaries may lack it.
    pub needs_scheduler: bool,
    /// Whether it verifies the effects of all other scenarios, and is skipped without them.
    pub needs_all: bool,
    /// Whether it runs only when selected by its full name, because it is expensive.
    pub only_by_name: bool,
    pub run: fn(Arc<TestBed>) -> ScenarioFuture,
}

/// The control plane and the programs that scenarios use.
pub struct TestBed {
    /// The control plane. A scenario that kills it holds the lock.
    pub control_plane: Arc<tokio::sync::Mutex<ControlPlane>>,
    /// Control planes that ran other scenarios: of interest to one that verifies the effects of all.
    others: Vec<Arc<tokio::sync::Mutex<ControlPlane>>>,
    pub client: kube::Client,
    pub programs: Programs,
}

/// The programs under test. Cargo passes a test only the paths of its own package's programs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `fleetwright`.
    pub server: PathBuf,
    /// `fleetwright-sim`, with servers on a simulated cloud.
    pub simulator: PathBuf,
    /// `fleetwright-agent`.
    pub agent: PathBuf,
}

impl TestBed {
    /// Requests of service accounts so far.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub async fn audit(&self) -> anyhow::Result<Vec<AuditedRequest>> {
        let mut requests = Vec::new();
        for control_plane in std::iter::once(&self.control_plane).chain(&self.others) {
            requests.extend(audit::parse_audit_log(&control_plane.lock().await.audit_log()?)?);
        }
        Ok(requests)
    }

    async fn new(control_plane: ControlPlane, programs: &Programs) -> anyhow::Result<Self> {
        let client = prepare_cluster(&control_plane).await?;
        let control_plane = Arc::new(tokio::sync::Mutex::new(control_plane));
        Ok(Self { control_plane, others: Vec::new(), client, programs: programs.clone() })
    }

    /// Starts one, or as many as run scenarios at the same time.
    async fn start(number: usize, programs: &Programs) -> anyhow::Result<Vec<Arc<Self>>> {
        let first = ControlPlane::find_or_start()?;
        let number = if first.is_own() { number } else { 1 };
        let mut test_beds = vec![Arc::new(Self::new(first, programs).await?)];
        while test_beds.len() < number {
            test_beds.push(Arc::new(Self::new(ControlPlane::find_or_start()?, programs).await?));
        }
        Ok(test_beds)
    }

    /// The first of `test_beds`, with the audit logs of all.
    fn of_all(test_beds: &[Arc<Self>]) -> Option<Arc<Self>> {
        let (first, others) = test_beds.split_first()?;
        Some(Arc::new(Self {
            control_plane: Arc::clone(&first.control_plane),
            others: others.iter().map(|other| Arc::clone(&other.control_plane)).collect(),
            client: first.client.clone(),
            programs: first.programs.clone(),
        }))
    }
}

/// Applies the agent's prerequisites; returns the administrator's client.
///
/// # Errors
/// When the API server rejects an object.
pub async fn prepare_cluster(control_plane: &ControlPlane) -> anyhow::Result<kube::Client> {
    let config =
        kube::config::Kubeconfig::read_from(control_plane.kubeconfig()).context("cannot read the kubeconfig")?;
    let mut config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    config.read_timeout = Some(Duration::from_secs(300));
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;
    let cluster = Cluster::with_namespace(&client, "stage").await?;
    deploy::install_crds(&cluster).await?;
    deploy::apply_rbac(&cluster).await?;
    Ok(client)
}

/// A scenario's own prerequisite is not installed on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skip(pub String);

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

/// Runs the scenarios whose names contain the first argument that is no flag; all without one.
#[must_use]
pub fn run(programs: &Programs, scenarios: &[Scenario]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let wants = |one: &&Scenario| match filter {
        Some(filter) if one.only_by_name => one.name == *filter,
        Some(filter) => one.name.contains(filter.as_str()),
        None => !one.only_by_name,
    };
    let wanted: Vec<&Scenario> = scenarios.iter().filter(wants).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        wanted.iter().for_each(|one| println!("{}: test", one.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let all = filter.is_none();
    let outcomes = if wanted.is_empty() { Vec::new() } else { run_all(programs, &wanted, all) };
    summarize(&outcomes, scenarios.len() - wanted.len())
}

fn run_all(programs: &Programs, wanted: &[&Scenario], all: bool) -> Vec<Outcome> {
    let runtime = tokio::runtime::Runtime::new().expect("the system has threads to give");
    let number = wanted.len().min(CONTROL_PLANES);
    let test_beds = match runtime.block_on(TestBed::start(number, programs)) {
        Ok(test_beds) => test_beds,
        Err(error) => {
            let must_run = must_run(std::env::var("CI").ok().as_deref());
            return wanted.iter().map(|one| report(one, unavailable(&error, must_run), Duration::ZERO)).collect();
        }
    };
    let run = |one: &Scenario, test_bed: &Arc<TestBed>| {
        let start = Instant::now();
        let outcome = runtime.block_on(run_scenario(one, Arc::clone(test_bed), all));
        report(one, outcome, start.elapsed())
    };
    let (last, first): (Vec<&Scenario>, Vec<&Scenario>) = wanted.iter().partition(|one| one.needs_all);
    let waiting = Mutex::new(first.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run_waiting = |test_bed| std::iter::from_fn(next).map(|one| run(one, test_bed)).collect::<Vec<_>>();
    let mut outcomes: Vec<Outcome> = thread::scope(|scope| {
        let running: Vec<_> = test_beds.iter().map(|test_bed| scope.spawn(|| run_waiting(test_bed))).collect();
        running.into_iter().flat_map(|one| one.join().expect("a scenario's panic is its outcome")).collect()
    });
    let of_all = TestBed::of_all(&test_beds);
    outcomes.extend(of_all.iter().flat_map(|of_all| last.iter().map(|one| run(one, of_all))));
    outcomes
}

/// Whether the variable `CI` requires the scenarios to run.
fn must_run(ci: Option<&str>) -> bool {
    ci.is_some_and(|ci| !["", "false", "0"].contains(&ci))
}

/// The outcome without a control plane: skipped, or failed when the scenarios must run.
fn unavailable(error: &anyhow::Error, must_run: bool) -> Outcome {
    match error.downcast_ref::<Unavailable>() {
        Some(missing) if !must_run => Outcome::Skipped(missing.to_string()),
        _ => Outcome::Failed(format!("{error:#}")),
    }
}

async fn run_scenario(scenario: &Scenario, test_bed: Arc<TestBed>, all: bool) -> Outcome {
    if scenario.needs_all && !all {
        return Outcome::Skipped("needs all scenarios, without a filter".to_owned());
    }
    if scenario.needs_own && !test_bed.control_plane.lock().await.is_own() {
        return Outcome::Skipped("needs a control plane of its own".to_owned());
    }
    if scenario.needs_scheduler && !test_bed.control_plane.lock().await.has_scheduler() {
        return Outcome::Skipped(
            "needs kube-scheduler and kube-controller-manager, which the binaries that were given lack".to_owned(),
        );
    }
    let running = AssertUnwindSafe((scenario.run)(test_bed)).catch_unwind();
    match tokio::time::timeout(scenario.limit, running).await {
        Ok(Ok(Ok(figures))) => Outcome::Passed(figures),
        Ok(Ok(Err(error))) => match error.downcast_ref::<Skip>() {
            Some(skip) => Outcome::Skipped(skip.to_string()),
            None => Outcome::Failed(format!("{error:#}")),
        },
        Ok(Err(_)) => Outcome::Failed("it panicked; the reason is on standard error".to_owned()),
        Err(_) => Outcome::Failed(format!("it has not ended after {:?}", scenario.limit)),
    }
}

fn report(scenario: &Scenario, outcome: Outcome, took: Duration) -> Outcome {
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

fn summarize(outcomes: &[Outcome], filtered: usize) -> ExitCode {
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
    fn without_a_control_plane_a_scenario_is_skipped_or_fails_when_it_must_run() {
        let missing = anyhow::Error::from(Unavailable("there is no Go".to_owned()));
        assert_eq!(unavailable(&missing, false), Outcome::Skipped("there is no Go".to_owned()));
        assert_eq!(unavailable(&missing, true), Outcome::Failed("there is no Go".to_owned()));
        // A control plane that does not start is no reason to skip.
        let broken = anyhow::anyhow!("the control plane does not build");
        assert_eq!(unavailable(&broken, false), Outcome::Failed("the control plane does not build".to_owned()));
    }

    #[test]
    fn ci_requires_the_scenarios_to_run() {
        for (ci, relies) in [(None, false), (Some(""), false), (Some("false"), false), (Some("0"), false)] {
            assert_eq!(must_run(ci), relies, "{ci:?}");
        }
        assert!(must_run(Some("true")) && must_run(Some("1")));
    }

    #[test]
    fn a_failed_scenario_fails_the_suite_and_a_skipped_one_does_not() {
        let skipped = || Outcome::Skipped(String::new());
        let failed =
            |outcomes: &[Outcome]| format!("{:?}", summarize(outcomes, 0)) != format!("{:?}", ExitCode::SUCCESS);
        assert!(!failed(&[Outcome::Passed(String::new()), skipped()]));
        assert!(failed(&[skipped(), Outcome::Failed(String::new())]));
    }
}
