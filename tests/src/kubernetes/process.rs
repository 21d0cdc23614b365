//! A process of the world under test: started, killed, started again; what it said is kept in a file.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// How often somebody looks whether a process has to be started again.
const LOOK: Duration = Duration::from_millis(100);

/// A program with everything that it is started with.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    start: Start,
    /// What it says last when it ends as it should, and is to be started again.
    comes_back_after: Option<&'static str>,
    running: Arc<Mutex<Option<Child>>>,
    watch: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
struct Start {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
}

impl Start {
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log).context("cannot write a log")?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(self.variables.iter().cloned());
        // Its standard input ends with this process: what knows of that ends as well.
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {}", self.program.display()))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Plays the kubelet until the process is killed, or ends with other last words.
    fn keep(&self, running: &Mutex<Option<Child>>, words: &str) {
        loop {
            std::thread::park_timeout(LOOK);
            let mut child = lock(running);
            match child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => {}
                Some(Ok(Some(_))) if self.said().lines().last().is_some_and(|line| line.contains(words)) => {
                    let Ok(again) = self.spawn() else { return };
                    *child = Some(again);
                }
                _ => return,
            }
        }
    }
}

/// Each change is one step, so a panic elsewhere spoils nothing.
fn lock(running: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Not started yet. Standard output and standard error go to `log`.
    #[must_use]
    pub fn new(name: &'static str, program: PathBuf, arguments: Vec<String>, log: PathBuf) -> Self {
        let start = Start { program, arguments, variables: Vec::new(), log };
        Self { name, start, comes_back_after: None, running: Arc::default(), watch: None }
    }

    /// It ends itself with these last words as it should, and is started again, as a kubelet does.
    #[must_use]
    pub fn comes_back_after(mut self, words: &'static str) -> Self {
        self.comes_back_after = Some(words);
        self
    }

    /// An environment variable; nothing else is inherited.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.start.variables.push((name.to_owned(), value.into()));
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
        ensure!(lock(&self.running).is_none(), "{} runs already", self.name);
        *lock(&self.running) = Some(self.start.spawn()?);
        self.watch = self.comes_back_after.map(|words| {
            let (start, running) = (self.start.clone(), Arc::clone(&self.running));
            std::thread::spawn(move || start.keep(&running, words))
        });
        Ok(())
    }

    /// Whether it runs, by its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        lock(&self.running).as_ref().map(Child::id)
    }

    /// Ends it without a word (SIGKILL).
    ///
    /// # Errors
    /// When it does not run, or has ended by itself.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.take().with_context(|| format!("{} does not run", self.name))?;
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended by itself ({status}):\n{}", self.name, self.last_lines());
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn take(&mut self) -> Option<Child> {
        let child = lock(&self.running).take();
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            let _ended = watch.join();
        }
        child
    }

    fn ended(&self) -> anyhow::Result<Option<ExitStatus>> {
        match self.comes_back_after {
            Some(_) => Ok(None),
            None => Ok(lock(&self.running).as_mut().map(Child::try_wait).transpose()?.flatten()),
        }
    }

    /// Waits until a line of its log has all of `words`; returns the first.
    ///
    /// # Errors
    /// When there is none after `patience`, or the process has ended.
    pub async fn line_with(&mut self, words: &[&str], patience: Duration) -> anyhow::Result<String> {
        let end = Instant::now() + patience;
        loop {
            let log = self.start.said();
            if let Some(line) = log.lines().find(|line| words.iter().all(|word| line.contains(word))) {
                return Ok(line.to_owned());
            }
            let status = self.ended()?;
            if status.is_some() || Instant::now() > end {
                bail!("{} has not said {words:?} ({status:?}); its last words:\n{}", self.name, self.last_lines());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many lines of its log have all of `words`.
    #[must_use]
    pub fn times_said(&self, words: &[&str]) -> usize {
        let log = self.start.said();
        log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// The end of its log.
    #[must_use]
    pub fn last_lines(&self) -> String {
        const LAST: usize = 25;
        let log = self.start.said();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.take() {
            let _ended_already = child.kill();
            let _status = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    fn saying(folder: &Folder, last: &str) -> Process {
        let script = format!("echo started; echo {last}");
        let arguments = vec!["-c".to_owned(), script];
        let log = folder.path().join(last.replace(' ', "-"));
        Process::new("a shell", PathBuf::from("/bin/sh"), arguments, log).comes_back_after("as it should")
    }

    fn starts(process: &Process, at_least: usize) -> usize {
        let end = Instant::now() + Duration::from_secs(60);
        while process.times_said(&["started"]) < at_least && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        process.times_said(&["started"])
    }

    #[test]
    fn who_ends_as_it_should_is_started_again_and_nobody_else() {
        let folder = Folder::new();
        let (mut one, mut other) = (saying(&folder, "ends as it should"), saying(&folder, "fails"));
        one.start().unwrap();
        other.start().unwrap();
        assert!(starts(&one, 3) >= 3);
        assert_eq!(starts(&other, 1), 1);
        assert!(other.kill().unwrap_err().to_string().contains("has ended by itself"));
    }
}
