//! The clusters' processes: started here, telling their books on standard output, ended by the end of standard input, so
//! that none outlives the demo however it ends.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use ::agent::Target;
use ::agent::config::Credentials;
use anyhow::{Context, anyhow};
use simulator::SimulatedCluster;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

use super::agent::SimulatedApi;
use super::books::Books;
use super::script::{self, Script};
use super::{Plan, REGION};
use crate::clock;

/// How long a process may take to end when its standard input has.
const GRACE: Duration = Duration::from_secs(3);

/// How often a script is looked at and a book is told.
const BEAT: Duration = Duration::from_millis(200);

/// The processes and what they have told.
pub(super) struct Children {
    processes: Vec<Child>,
    told: mpsc::Receiver<(String, Books)>,
    books: BTreeMap<String, Books>,
}

impl Children {
    /// Starts a process for each of `names`.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(super) fn start(names: &[String], server: SocketAddr, plan: &Plan) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let (tell, told) = mpsc::channel(64);
        let mut processes = Vec::new();
        for (number, name) in (1..).zip(names) {
            let seed = plan.seed.wrapping_mul(1_000).wrapping_add(number);
            let mut command = Command::new(&program);
            command.args(["simulated-agent", "--server", &format!("http://{server}"), "--cluster-name", name]);
            command.args(["--seed", &seed.to_string(), "--log", &plan.log]);
            if plan.at_most.is_none() {
                command.arg("--repeat");
            }
            // A group of its own keeps Ctrl-C in the terminal from reaching it before its books are told.
            command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = command.spawn().with_context(|| format!("cannot start the process of cluster {name}"))?;
            let stdout = process.stdout.take().ok_or_else(|| anyhow!("cluster {name} has no standard output"))?;
            tokio::spawn(listen(name.clone(), stdout, tell.clone()));
            processes.push(process);
        }
        let books = names.iter().map(|name| (name.clone(), Books::default())).collect();
        Ok(Self { processes, told, books })
    }

    /// The next that a cluster tells, and what it told before.
    ///
    /// # Errors
    /// When every process has ended.
    pub(super) async fn next(&mut self) -> anyhow::Result<(String, Books, Books)> {
        let (name, books) = self.told.recv().await.ok_or_else(|| anyhow!("the clusters' processes have ended"))?;
        let before = self.books.insert(name.clone(), books.clone()).unwrap_or_default();
        Ok((name, before, books))
    }

    pub(super) fn are_finished(&self) -> bool {
        self.books.values().all(|books| books.finished)
    }

    /// Ends the processes, by their ids, and returns what they told last.
    pub(super) async fn stop(mut self) -> BTreeMap<String, Books> {
        for process in &mut self.processes {
            drop(process.stdin.take());
        }
        for process in &mut self.processes {
            if tokio::time::timeout(GRACE, process.wait()).await.is_err() {
                let _ended_already = process.kill().await;
            }
        }
        while let Ok((name, books)) = self.told.try_recv() {
            self.books.insert(name, books);
        }
        self.books
    }
}

async fn listen(name: String, stdout: ChildStdout, tell: mpsc::Sender<(String, Books)>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(books) = serde_json::from_str(&line)
            && tell.send((name.clone(), books)).await.is_err()
        {
            return;
        }
    }
}

/// One simulated cluster and its agent, until standard input ends.
///
/// # Errors
/// When the agent cannot run at all.
pub(crate) async fn simulated_agent(
    (server, credentials): (String, Credentials),
    name: String,
    seed: u64,
    repeat: bool,
) -> anyhow::Result<()> {
    let mut cluster = SimulatedCluster::new(script::settings(seed));
    cluster.add_daemon(script::daemon());
    let api = Arc::new(SimulatedApi::new(&name, cluster, script::manifests()));
    let target =
        Target { server, credentials, cluster_name: name, region: REGION.to_owned(), karpenter_absent: false, seed };
    let stop = end_of_input()?;
    tokio::select! {
        () = api.drive() => {}
        () = act(&api, repeat) => {}
        ran = ::agent::run(Arc::clone(&api), target, async { let _closed = stop.await; }) => ran?,
    }

    Ok(())
}

/// Plays the script and tells the books.
async fn act(api: &SimulatedApi, repeat: bool) {
    let mut script = Script::new(repeat);
    let mut last = Books::default();
    loop {
        let books = api.with(|cluster| {
            script.advance(cluster, clock::now());
            Books::of(cluster, script.scene(), script.is_finished())
        });
        if books != last {
            tell(&books);
            last = books;
        }
        tokio::time::sleep(BEAT).await;
    }
}

fn tell(books: &Books) {
    if let Ok(line) = serde_json::to_string(books) {
        // A demo that has ended reads no more.
        let _gone = writeln!(std::io::stdout().lock(), "{line}");
    }
}

/// Completes when standard input ends, if it `matters`; else never.
///
/// # Errors
/// When no thread can be started that reads it.
pub(crate) fn input_ended(matters: bool) -> anyhow::Result<impl Future<Output = ()>> {
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

/// Completes when standard input ends. The thread that reads does not keep the process alive.
fn end_of_input() -> anyhow::Result<oneshot::Receiver<()>> {
    let (ended, end) = oneshot::channel();
    let read = move || {
        let _until_the_end = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _nobody_waits = ended.send(());
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).context("cannot start a thread")?;
    Ok(end)
}
