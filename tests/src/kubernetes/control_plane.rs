//! A control plane that runs: found, or started and stopped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::assets::Assets;
use super::source::{self, Source};
use super::{Missing, program};
use crate::Folder;

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
    made_of: MadeOf,
    folder: Folder,
    /// In the order in which each needs those before it.
    running: Vec<Child>,
    /// Bytes of the audit log that were written while it was starting.
    starting: Vec<std::ops::Range<usize>>,
}

/// What is started.
#[derive(Debug)]
enum MadeOf {
    /// The program in `tests/control-plane`, which is everything in one process.
    Program(PathBuf),
    /// A process each.
    Assets(Assets),
}

impl ControlPlane {
    /// The cluster that was given; else a control plane of its own, empty, of binaries that were given or of the program.
    ///
    /// # Errors
    /// [`Missing`] when this machine has none of these and cannot build one; anything else when it does not start.
    pub fn find_or_start() -> anyhow::Result<Self> {
        let made_of = match source::find(|variable| std::env::var_os(variable))? {
            Source::Given(kubeconfig) => return Ok(Self { kubeconfig, own: None }),
            _ if !cfg!(target_os = "linux") => {
                return Err(Missing("the control plane for tests runs on Linux only".to_owned()).into());
            }
            Source::Assets(assets) => MadeOf::Assets(assets),
            Source::OwnProgram => MadeOf::Program(program::find_or_build()?),
        };
        let mut own = Own { made_of, folder: Folder::new(), running: Vec::new(), starting: Vec::new() };
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

    /// Whether it has a kube-scheduler, and a controller-manager that makes pods for it. A cluster that was given has both.
    #[must_use]
    pub fn schedules(&self) -> bool {
        match self.own.as_ref().map(|own| &own.made_of) {
            Some(MadeOf::Assets(assets)) => assets.schedules(),
            Some(MadeOf::Program(_)) | None => true,
        }
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

    /// A key or certificate of one that was started here, by its file name, such as `ca.crt`; its folder says which there are.
    ///
    /// # Errors
    /// When it was not started here.
    pub fn secret(&self, name: &str) -> anyhow::Result<PathBuf> {
        ensure!(self.is_own(), "a cluster that was given keeps its keys to itself");
        let folder = self.kubeconfig.parent().context("a kubeconfig without a folder")?;
        Ok(folder.join("pki").join(name))
    }

    /// Kills it without a word. It stays away until [`start_again`](Self::start_again).
    ///
    /// # Errors
    /// When it was not started here, or cannot be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("a cluster that was given cannot be killed")?;
        ensure!(!own.running.is_empty(), "the control plane does not run");
        own.end().context("cannot kill the control plane")
    }

    /// Starts it again with what it had: data, keys, port.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let own = self.own.as_mut().context("a cluster that was given cannot be started")?;
        ensure!(own.running.is_empty(), "the control plane runs");
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
        let home = self.folder.path().join("control-plane");
        let started = match &self.made_of {
            MadeOf::Program(program) => self.start_program(program, &home).map(|child| vec![child]),
            MadeOf::Assets(assets) => assets.start(&home, &self.log(), &self.audit_log(), NODE_GRACE),
        };
        self.running = started.with_context(|| format!("no control plane; its last words:\n{}", self.last_lines()))?;
        self.starting.push(before..self.audited());
        Ok(home.join("admin.kubeconfig"))
    }

    fn start_program(&self, program: &Path, home: &Path) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(self.log()).context("cannot write the log")?;
        let mut command = Command::new(program);
        command.arg("--dir").arg(home).arg("--audit-log").arg(self.audit_log()).args(["--node-grace", NODE_GRACE]);
        // It ends when its standard input closes, and nobody but this process holds the other end.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let ready = first_line(&mut child, PATIENCE);
        if ready.is_some_and(|line| line.starts_with("READY ")) {
            return Ok(child);
        }
        child.kill().and_then(|()| child.wait()).context("cannot end what did not start")?;
        bail!("it is not ready after {PATIENCE:?}")
    }

    /// Ends it without a word, the API server's clients first.
    fn end(&mut self) -> std::io::Result<()> {
        for mut child in self.running.drain(..).rev() {
            match self.made_of {
                MadeOf::Program(_) => child.kill()?,
                // Each is on a leash of standard input, which ends after it.
                MadeOf::Assets(_) => drop(child.stdin.take()),
            }
            child.wait()?;
        }
        Ok(())
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
        let _ended_already = self.end();
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
