//! A control plane that runs: found, or started and stopped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::{Missing, program};
use crate::Folder;

/// Names the kubeconfig of a cluster that the tests may fill and empty as they please, such as one of kind. A plain
/// `KUBECONFIG` is never used: it may point to something that somebody needs.
pub const GIVEN: &str = "FLEETWRIGHT_E2E_KUBECONFIG";
/// From start to ready: five seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a silent node is believed in.
const NODE_GRACE: &str = "40s";

/// A control plane and how to reach it.
#[derive(Debug)]
pub struct ControlPlane {
    kubeconfig: PathBuf,
    own: Option<Own>,
}

/// One that was started here.
#[derive(Debug)]
struct Own {
    program: PathBuf,
    folder: Folder,
    running: Option<Child>,
    /// Bytes of the audit log that were written while it was starting.
    starting: Vec<std::ops::Range<usize>>,
}

impl ControlPlane {
    /// The cluster that [`GIVEN`] names; else a control plane of its own, empty.
    ///
    /// # Errors
    /// [`Missing`] when this machine has neither and cannot build one; anything else when it does not start.
    pub fn find_or_start() -> anyhow::Result<Self> {
        if let Some(given) = std::env::var_os(GIVEN).filter(|given| !given.is_empty()) {
            let kubeconfig = PathBuf::from(given);
            ensure!(kubeconfig.is_file(), "{GIVEN} names {}, which is no file", kubeconfig.display());
            return Ok(Self { kubeconfig, own: None });
        }
        if !cfg!(target_os = "linux") {
            return Err(Missing("the control plane for tests runs on Linux only".to_owned()).into());
        }
        let program = program::find_or_build()?;
        let mut own = Own { program, folder: Folder::new(), running: None, starting: Vec::new() };
        let kubeconfig = own.start()?;
        Ok(Self { kubeconfig, own: Some(own) })
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Whether it was started here, and so can be stopped and listened to.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// What service accounts outside kube-system have asked so far, one JSON event a line; empty for a cluster that was
    /// given. Requests from before it was ready are left out: until then it has not read the roles and forbids everything.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn audit_log(&self) -> anyhow::Result<String> {
        let Some(own) = &self.own else { return Ok(String::new()) };
        let mut log = fs::read_to_string(own.audit_log()).context("cannot read the audit log")?;
        own.starting.iter().rev().for_each(|range| log.replace_range(range.clone(), ""));
        Ok(log)
    }

    /// Process id of the one that was started here.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.own.as_ref()?.running.as_ref().map(Child::id)
    }

    /// Kills it without a word. It stays away until [`start_again`](Self::start_again).
    ///
    /// # Errors
    /// When it was not started here, or cannot be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("a cluster that was given cannot be killed")?;
        let mut child = own.running.take().context("the control plane does not run")?;
        child.kill().context("cannot kill the control plane")?;
        child.wait().context("cannot wait for the control plane").map(drop)
    }

    /// Starts it again with what it had: data, keys, port.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("a cluster that was given cannot be started")?;
        ensure!(own.running.is_none(), "the control plane runs");
        own.start().map(drop)
    }
}

impl Own {
    fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// Length of the audit log, up to the end of its last whole line.
    fn audited(&self) -> usize {
        let log = fs::read(self.audit_log()).unwrap_or_default();
        log.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("control-plane.log")
    }

    /// Starts it and waits until it is ready; returns the administrator's kubeconfig.
    fn start(&mut self) -> anyhow::Result<PathBuf> {
        let before = self.audited();
        let log = File::options().create(true).append(true).open(self.log()).context("cannot write the log")?;
        let mut command = Command::new(&self.program);
        command.arg("--dir").arg(self.folder.path().join("control-plane")).arg("--audit-log").arg(self.audit_log());
        command.args(["--node-grace", NODE_GRACE]);
        // It ends when its standard input closes, and nobody but this process holds the other end.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let ready = first_line(&mut child, PATIENCE);
        self.running = Some(child);
        match ready.as_deref().and_then(|line| line.strip_prefix("READY ")) {
            Some(path) => {
                self.starting.push(before..self.audited());
                Ok(PathBuf::from(path))
            }
            None => bail!("the control plane is not ready after {PATIENCE:?}:\n{}", self.last_lines()),
        }
    }

    fn last_lines(&self) -> String {
        const LAST: usize = 20;
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            let _ended_already = child.kill();
            let _status = child.wait();
        }
    }
}

/// The first line on standard output; `None` when it ends or `patience` does.
fn first_line(child: &mut Child, patience: Duration) -> Option<String> {
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        if BufReader::new(stdout).read_line(&mut line).is_ok() {
            let _nobody_waits = sender.send(line);
        }
    });
    let end = Instant::now() + patience;
    let line = receiver.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
    Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
}
