//! A process under test: started, killed, restarted; its output is appended to a file.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// A program with its arguments, environment and log.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    start: StartCommand,
    running: Option<Child>,
}

#[derive(Debug)]
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
}

impl Process {
    /// A process that is not started yet. Standard output and standard error are appended to `log`.
    #[must_use]
    pub fn new(name: &'static str, program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Self {
        let start = StartCommand { program, arguments, variables: Vec::new(), log };
        Self { name, start, running: None }
    }

    /// Sets an environment variable; nothing else is inherited.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.start.variables.push((name.to_owned(), value.into()));
        self
    }

    #[must_use]
    pub fn envs(self, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        variables.into_iter().fold(self, |process, (name, value)| process.env(name, value))
    }

    /// Starts the process.
    ///
    /// # Errors
    /// When it is already running or cannot be started.
    pub fn start(&mut self) -> anyhow::Result<()> {
        ensure!(self.running.is_none(), "{} runs already", self.name);
        self.running = Some(self.start.spawn()?);
        Ok(())
    }

    /// Whether it runs, by its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().map(Child::id)
    }

    /// Kills the process (SIGKILL).
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.running.take().with_context(|| format!("{} does not run", self.name))?;
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended by itself ({status}):\n{}", self.name, self.log_tail());
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.running.as_mut().map(Child::try_wait).transpose()?.flatten())
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
        if let Some(mut child) = self.running.take() {
            let _ended_already = child.kill();
            let _status = child.wait();
        }
    }
}
