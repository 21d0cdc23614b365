//! A process of the world under test: started, killed, started again; what it said is kept in a file.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// A program with everything that it is started with.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
    running: Option<Child>,
}

impl Process {
    /// Not started yet. Standard output and standard error go to `log`.
    #[must_use]
    pub fn new(name: &'static str, program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Self {
        Self { name, program, arguments, variables: Vec::new(), log, running: None }
    }

    /// An environment variable; nothing else is inherited.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Several of them.
    #[must_use]
    pub fn envs(self, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        variables.into_iter().fold(self, |process, (name, value)| process.env(name, value))
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it runs already or cannot be started.
    pub fn start(&mut self) -> anyhow::Result<()> {
        ensure!(self.running.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(&self.log).context("cannot write a log")?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(self.variables.iter().cloned());
        // Its standard input ends with this process: what knows of that ends as well.
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        self.running = Some(child);
        Ok(())
    }

    /// Whether it runs, by its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().map(Child::id)
    }

    /// Ends it without a word (SIGKILL).
    ///
    /// # Errors
    /// When it does not run, or has ended by itself.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.running.take().with_context(|| format!("{} does not run", self.name))?;
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended by itself ({status}):\n{}", self.name, self.last_lines());
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Waits until a line of its log has all of `words`; returns the first.
    ///
    /// # Errors
    /// When there is none after `patience`, or the process has ended.
    pub async fn line_with(&mut self, words: &[&str], patience: Duration) -> anyhow::Result<String> {
        let end = Instant::now() + patience;
        loop {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(line) = log.lines().find(|line| words.iter().all(|word| line.contains(word))) {
                return Ok(line.to_owned());
            }
            let status = self.running.as_mut().map(Child::try_wait).transpose()?.flatten();
            if status.is_some() || Instant::now() > end {
                bail!("{} has not said {words:?} ({status:?}); its last words:\n{}", self.name, self.last_lines());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many lines of its log have all of `words`.
    #[must_use]
    pub fn times_said(&self, words: &[&str]) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// The end of its log.
    #[must_use]
    pub fn last_lines(&self) -> String {
        const LAST: usize = 25;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            let _ended_already = child.kill();
            let _status = child.wait();
        }
    }
}
