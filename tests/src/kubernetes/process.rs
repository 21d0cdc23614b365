//! A process under test: started, killed, restarted; its output is appended to a file.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Poll interval of the restart watcher.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A program with its arguments, environment and log.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    start: StartCommand,
    /// Text of the last log line after which an exit leads to a restart.
    restart_after: Option<&'static str>,
    running: Arc<Mutex<Option<Child>>>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
struct StartCommand {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
}

impl StartCommand {
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log).context("cannot write a log")?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(self.variables.iter().cloned());
        // Its standard input closes when this process ends, so that programs that read it exit too.
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {}", self.program.display()))
    }

    fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Restarts the process, as a kubelet does, until it is killed or exits with another last line.
    fn restart_on_exit(&self, running: &Mutex<Option<Child>>, words: &str) {
        loop {
            std::thread::park_timeout(POLL_INTERVAL);
            let mut child = lock(running);
            match child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => {}
                Some(Ok(Some(_))) if self.log_text().lines().last().is_some_and(|line| line.contains(words)) => {
                    let Ok(again) = self.spawn() else { return };
                    *child = Some(again);
                }
                _ => return,
            }
        }
    }
}

/// Every change is one step, so the state behind a poisoned lock is consistent.
fn lock(running: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// A process that is not started yet. Standard output and standard error are appended to `log`.
    #[must_use]
    pub fn new(name: &'static str, program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Self {
        let start = StartCommand { program, arguments, variables: Vec::new(), log };
        Self { name, start, restart_after: None, running: Arc::default(), watcher: None }
    }

    /// Restarts the process when it exits with this text in its last log line, as a kubelet does.
    #[must_use]
    pub fn restart_after(mut self, words: &'static str) -> Self {
        self.restart_after = Some(words);
        self
    }

    /// Sets an environment variable; nothing else is inherited.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.start.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Sets several environment variables.
    #[must_use]
    pub fn envs(self, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        variables.into_iter().fold(self, |process, (name, value)| process.env(name, value))
    }

    /// Starts the process.
    ///
    /// # Errors
    /// When it is already running or cannot be started.
    pub fn start(&mut self) -> anyhow::Result<()> {
        ensure!(lock(&self.running).is_none(), "{} runs already", self.name);
        *lock(&self.running) = Some(self.start.spawn()?);
        self.watcher = self.restart_after.map(|words| {
            let (start, running) = (self.start.clone(), Arc::clone(&self.running));
            std::thread::spawn(move || start.restart_on_exit(&running, words))
        });
        Ok(())
    }

    /// Whether it runs, by its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        lock(&self.running).as_ref().map(Child::id)
    }

    /// Kills the process (SIGKILL).
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.take_child().with_context(|| format!("{} does not run", self.name))?;
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended by itself ({status}):\n{}", self.name, self.log_tail());
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn take_child(&mut self) -> Option<Child> {
        let child = lock(&self.running).take();
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ended = watcher.join();
        }
        child
    }

    fn ended(&self) -> anyhow::Result<Option<ExitStatus>> {
        match self.restart_after {
            Some(_) => Ok(None),
            None => Ok(lock(&self.running).as_mut().map(Child::try_wait).transpose()?.flatten()),
        }
    }

    /// Waits for a log line with all of `words`; returns the first.
    ///
    /// # Errors
    /// When there is none after `timeout`, or the process has exited.
    pub async fn wait_for_line(&mut self, words: &[&str], timeout: Duration) -> anyhow::Result<String> {
        let end = Instant::now() + timeout;
        loop {
            let log = self.start.log_text();
            if let Some(line) = log.lines().find(|line| words.iter().all(|word| line.contains(word))) {
                return Ok(line.to_owned());
            }
            let status = self.ended()?;
            if status.is_some() || Instant::now() > end {
                bail!("{} has not logged {words:?} ({status:?}); the end of its log:\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Number of log lines with all of `words`.
    #[must_use]
    pub fn count_lines(&self, words: &[&str]) -> usize {
        let log = self.start.log_text();
        log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        const LAST: usize = 25;
        let log = self.start.log_text();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.take_child() {
            let _ended_already = child.kill();
            let _status = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp_dir::TempDir;

    fn printing(folder: &TempDir, last: &str) -> Process {
        let script = format!("echo started; echo {last}");
        let arguments = vec!["-c".to_owned(), script];
        let log = folder.path().join(last.replace(' ', "-"));
        Process::new("a shell", PathBuf::from("/bin/sh"), arguments, log).restart_after("as it should")
    }

    fn starts(process: &Process, at_least: usize) -> usize {
        let end = Instant::now() + Duration::from_secs(60);
        while process.count_lines(&["started"]) < at_least && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        process.count_lines(&["started"])
    }

    #[test]
    fn a_process_restarts_only_after_its_expected_last_line() {
        let folder = TempDir::new();
        let (mut one, mut other) = (printing(&folder, "ends as it should"), printing(&folder, "fails"));
        one.start().unwrap();
        other.start().unwrap();
        assert!(starts(&one, 3) >= 3);
        assert_eq!(starts(&other, 1), 1);
        assert!(other.kill().unwrap_err().to_string().contains("has ended by itself"));
    }
}
