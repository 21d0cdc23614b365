//! A running control plane: an existing one, or one started here.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::binaries::Binaries;
use super::source::{self, Source};
use super::{Unavailable, go_build};
use crate::TempDir;

/// From start to ready: five seconds on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Grace period of nodes that do not report.
const NODE_GRACE: &str = "40s";

/// A control plane and its kubeconfig.
#[derive(Debug)]
pub struct ControlPlane {
    kubeconfig: PathBuf,
    own: Option<OwnControlPlane>,
}

#[derive(Debug)]
struct OwnControlPlane {
    implementation: Implementation,
    folder: TempDir,
    /// The processes, each after its dependencies.
    running: Vec<Child>,
    /// Bytes of the audit log that were written while it was starting.
    starting: Vec<std::ops::Range<usize>>,
}

/// The program or programs that are started.
#[derive(Debug)]
enum Implementation {
    /// The program in `tests/control-plane`, with its flags: all components in one process.
    Program(PathBuf, &'static [&'static str]),
    /// Binaries: one process for each component.
    Binaries(Binaries),
}

impl ControlPlane {
    /// The existing cluster that the environment names; otherwise an empty control plane, from
    /// binaries or from the Go program.
    ///
    /// # Errors
    /// [`Unavailable`] when this machine has none of these and cannot build one; anything else when
    /// it does not start.
    pub fn find_or_start() -> anyhow::Result<Self> {
        let implementation = match source::find(|variable| std::env::var_os(variable))? {
            Source::ExistingCluster(kubeconfig) => return Ok(Self { kubeconfig, own: None }),
            _ if !cfg!(target_os = "linux") => {
                return Err(Unavailable("the control plane for tests runs on Linux only".to_owned()).into());
            }
            Source::Binaries(binaries) => Implementation::Binaries(binaries),
            Source::OwnProgram => Implementation::Program(go_build::find_or_build()?, &[]),
        };
        Self::start(implementation)
    }

    /// An API server without kube-scheduler and kube-controller-manager: nothing changes what a test writes to it.
    ///
    /// # Errors
    /// As [`find_or_start`](Self::find_or_start), and when the environment names an existing cluster.
    pub fn start_api_server() -> anyhow::Result<Self> {
        Self::start(match source::find(|variable| std::env::var_os(variable))? {
            Source::ExistingCluster(_) => bail!("an existing cluster has controllers"),
            Source::Binaries(binaries) => Implementation::Binaries(binaries.without_clients()),
            Source::OwnProgram => Implementation::Program(go_build::find_or_build()?, &["--api-server-only"]),
        })
    }

    fn start(implementation: Implementation) -> anyhow::Result<Self> {
        let mut own =
            OwnControlPlane { implementation, folder: TempDir::new(), running: Vec::new(), starting: Vec::new() };
        let kubeconfig = own.start()?;
        Ok(Self { kubeconfig, own: Some(own) })
    }

    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Whether it was started here, so that it can be stopped and audited.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether it has kube-scheduler and kube-controller-manager. An existing cluster has both.
    #[must_use]
    pub fn has_scheduler(&self) -> bool {
        match self.own.as_ref().map(|own| &own.implementation) {
            Some(Implementation::Binaries(binaries)) => binaries.has_scheduler(),
            Some(Implementation::Program(_, flags)) => flags.is_empty(),
            None => true,
        }
    }

    /// Audit log of service accounts outside kube-system, one JSON event per line; empty for an
    /// existing cluster. Requests during startup are omitted: until its roles are loaded, the API
    /// server forbids everything.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn audit_log(&self) -> anyhow::Result<String> {
        let Some(own) = &self.own else { return Ok(String::new()) };
        let mut log = fs::read_to_string(own.audit_log()).context("cannot read the audit log")?;
        own.starting.iter().rev().for_each(|range| log.replace_range(range.clone(), ""));
        Ok(log)
    }

    /// Path of a key or certificate of a control plane started here, by file name, such as
    /// `ca.crt`.
    ///
    /// # Errors
    /// When it was not started here.
    pub fn secret(&self, name: &str) -> anyhow::Result<PathBuf> {
        ensure!(self.is_own(), "a cluster that was given keeps its keys to itself");
        let folder = self.kubeconfig.parent().context("a kubeconfig without a folder")?;
        Ok(folder.join("pki").join(name))
    }

    /// Kills it (SIGKILL). It stays down until [`restart`](Self::restart).
    ///
    /// # Errors
    /// When it was not started here, or cannot be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("a cluster that was given cannot be killed")?;
        ensure!(!own.running.is_empty(), "the control plane does not run");
        own.kill_processes().context("cannot kill the control plane")
    }

    /// Starts it again with the same data, keys and port.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("a cluster that was given cannot be started")?;
        ensure!(own.running.is_empty(), "the control plane runs");
        own.start().map(drop)
    }
}

impl OwnControlPlane {
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
        let home = self.folder.path().join("control-plane");
        let started = match &self.implementation {
            Implementation::Program(program, flags) => {
                self.start_program(program, flags, &home).map(|child| vec![child])
            }
            Implementation::Binaries(binaries) => binaries.start(&home, &self.log(), &self.audit_log(), NODE_GRACE),
        };
        self.running = started.with_context(|| format!("no control plane; its last words:\n{}", self.log_tail()))?;
        self.starting.push(before..self.audited());
        Ok(home.join("admin.kubeconfig"))
    }

    fn start_program(&self, program: &Path, flags: &[&str], home: &Path) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(self.log()).context("cannot write the log")?;
        let mut command = Command::new(program);
        command
            .args(flags)
            .arg("--dir")
            .arg(home)
            .arg("--audit-log")
            .arg(self.audit_log())
            .args(["--node-grace", NODE_GRACE]);
        // It exits when its standard input closes, and only this process has the other end.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let ready = first_line(&mut child, TIMEOUT);
        if ready.is_some_and(|line| line.starts_with("READY ")) {
            return Ok(child);
        }
        child.kill().and_then(|()| child.wait()).context("cannot end what did not start")?;
        bail!("it is not ready after {TIMEOUT:?}")
    }

    /// Kills the processes, the API server's clients first.
    fn kill_processes(&mut self) -> std::io::Result<()> {
        for mut child in self.running.drain(..).rev() {
            match self.implementation {
                Implementation::Program(..) => child.kill()?,
                // A guard process kills each when standard input closes, and exits after it.
                Implementation::Binaries(_) => drop(child.stdin.take()),
            }
            child.wait()?;
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        const LAST: usize = 20;
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }
}

impl Drop for OwnControlPlane {
    fn drop(&mut self) {
        let _ended_already = self.kill_processes();
    }
}

/// The first line on standard output; `None` at its end or after `timeout`.
fn first_line(child: &mut Child, timeout: Duration) -> Option<String> {
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        if BufReader::new(stdout).read_line(&mut line).is_ok() {
            let _no_receiver = sender.send(line);
        }
    });
    let end = Instant::now() + timeout;
    let line = receiver.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
    Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
}
