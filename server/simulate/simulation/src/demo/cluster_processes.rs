//! The clusters' processes. They print their ledgers on standard output and exit when standard
//! input closes, so that none outlives the demo.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crate::kube::SimulatedCluster;
use ::agent::Target;
use ::agent::config::Credentials;
use anyhow::{Context, anyhow};
use model::ClusterName;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

use super::agent::SimulatedApi;
use super::ledger::ClusterLedger;
use super::plan::{Plan, REGION};
use super::scenario::{self, Scenario};
use store::clock;

/// Limit for a process's exit after its standard input closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The processes and their last ledgers.
pub(super) struct ClusterProcesses {
    processes: Vec<Child>,
    received: mpsc::Receiver<(ClusterName, ClusterLedger)>,
    ledgers: BTreeMap<ClusterName, ClusterLedger>,
}

impl ClusterProcesses {
    /// Starts a process for each of `names`.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub(super) fn start(names: &[ClusterName], server: SocketAddr, plan: &Plan) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this executable")?;
        let (print_ledger, received) = mpsc::channel(64);
        let mut processes = Vec::new();
        for (number, name) in (1..).zip(names) {
            let seed = plan.seed.wrapping_mul(1_000).wrapping_add(number);
            let mut command = Command::new(&program);
            command.args(["simulated-agent", "--server", &format!("http://{server}"), "--cluster-name", name]);
            command.args(["--seed", &seed.to_string(), "--log", &plan.log]);
            if plan.at_most.is_none() {
                command.arg("--repeat");
            }
            // Its own process group keeps Ctrl-C of the terminal from ending it before its last
            // ledger.
            command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = command.spawn().with_context(|| format!("cannot start the process of cluster {name}"))?;
            let stdout = process.stdout.take().ok_or_else(|| anyhow!("cluster {name} has no standard output"))?;
            tokio::spawn(read_ledgers(name.clone(), stdout, print_ledger.clone()));
            processes.push(process);
        }
        let ledgers = names.iter().map(|name| (name.clone(), ClusterLedger::default())).collect();
        Ok(Self { processes, received, ledgers })
    }

    /// The next ledger of some cluster, after its previous one.
    ///
    /// # Errors
    /// When every process has exited.
    pub(super) async fn next(&mut self) -> anyhow::Result<(ClusterName, ClusterLedger, ClusterLedger)> {
        let (name, ledger) = self.received.recv().await.ok_or_else(|| anyhow!("the cluster processes have exited"))?;
        let before = self.ledgers.insert(name.clone(), ledger.clone()).unwrap_or_default();
        Ok((name, before, ledger))
    }

    pub(super) fn are_finished(&self) -> bool {
        self.ledgers.values().all(|ledger| ledger.finished)
    }

    /// Stops the processes, by their ids, and returns their last ledgers.
    pub(super) async fn stop(mut self) -> BTreeMap<ClusterName, ClusterLedger> {
        for process in &mut self.processes {
            drop(process.stdin.take());
        }
        for process in &mut self.processes {
            if tokio::time::timeout(EXIT_TIMEOUT, process.wait()).await.is_err() {
                let _ended_already = process.kill().await;
            }
        }
        while let Ok((name, ledger)) = self.received.try_recv() {
            self.ledgers.insert(name, ledger);
        }
        self.ledgers
    }
}

async fn read_ledgers(
    name: ClusterName,
    stdout: ChildStdout,
    print_ledger: mpsc::Sender<(ClusterName, ClusterLedger)>,
) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(ledger) = serde_json::from_str(&line)
            && print_ledger.send((name.clone(), ledger)).await.is_err()
        {
            return;
        }
    }
}

/// Runs one simulated cluster and its agent until standard input closes.
///
/// # Errors
/// When the agent cannot start.
pub async fn simulated_agent(
    (server, credentials): (String, Credentials),
    name: String,
    seed: u64,
    repeat: bool,
) -> anyhow::Result<()> {
    let mut cluster = SimulatedCluster::new(scenario::settings(seed));
    cluster.add_daemon(scenario::daemon());
    let api = Arc::new(SimulatedApi::new(&ClusterName::from(name.as_str()), cluster, scenario::manifests()));
    let target =
        Target { server, credentials, cluster_name: name, region: REGION.to_owned(), karpenter_absent: false, seed };
    let stop = end_of_input()?;
    tokio::select! {
        () = api.drive() => {}
        () = run_scenario(&api, repeat) => {}
        ran = ::agent::run(Arc::clone(&api), target, async { let _closed = stop.await; }) => ran?,
    }

    Ok(())
}

/// Runs the scenario and prints the ledger when it changes.
async fn run_scenario(api: &SimulatedApi, repeat: bool) {
    let mut scenario = Scenario::new(repeat);
    let mut last = ClusterLedger::default();
    loop {
        let ledger = api.with(|cluster| {
            scenario.advance(cluster, clock::now());
            ClusterLedger::of(cluster, scenario.step_name(), scenario.is_finished())
        });
        if ledger != last {
            print_ledger(&ledger);
            last = ledger;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn print_ledger(ledger: &ClusterLedger) {
    if let Ok(line) = serde_json::to_string(ledger) {
        // A demo that has exited reads no more.
        let _gone = writeln!(std::io::stdout().lock(), "{line}");
    }
}

/// Completes when standard input closes, if `matters`; else never.
///
/// # Errors
/// When the reading thread cannot be started.
pub fn input_ended(matters: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let end = if matters { Some(end_of_input()?) } else { None };
    Ok(async {
        match end {
            Some(end) => {
                let _closed = end.await;
            }
            None => std::future::pending().await,
        }
    })
}

/// Completes when standard input closes. The reading thread does not keep the process alive.
fn end_of_input() -> anyhow::Result<oneshot::Receiver<()>> {
    let (ended, end) = oneshot::channel();
    let read = move || {
        let _until_the_end = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _nobody_waits = ended.send(());
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).context("cannot start a thread")?;
    Ok(end)
}
