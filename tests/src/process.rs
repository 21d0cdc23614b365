//! The program as a process: started with an empty environment, ended by a deadline at the latest.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The program with its arguments and environment.
#[derive(Debug)]
pub struct Program {
    command: Command,
    input: Vec<u8>,
}

#[derive(Debug)]
pub struct ExitResult {
    /// Exit status; -1 when a signal ended it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug)]
pub struct RunningProcess {
    child: Child,
    stderr_lines: mpsc::Receiver<String>,
    stdout_lines: Option<mpsc::Receiver<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGKILL: no signal handler runs.
    Kill,
    /// SIGTERM: the process shuts down.
    Terminate,
    /// SIGSTOP: the process is suspended.
    Stop,
    /// SIGCONT: the process resumes.
    Continue,
}

impl Signal {
    fn flag(self) -> &'static str {
        match self {
            Self::Kill => "-KILL",
            Self::Terminate => "-TERM",
            Self::Stop => "-STOP",
            Self::Continue => "-CONT",
        }
    }
}

impl Program {
    /// The program at `path` with these arguments.
    #[must_use]
    pub fn new(path: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        // A server under test stores nothing on this machine unless its test configures it.
        command.args(arguments).env_clear().env("FLEETWRIGHT_STORE_MEMORY", "true");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, input: Vec::new() }
    }

    /// Limits the address space to `kib` KiB: an allocation beyond it ends the process.
    #[must_use]
    pub fn in_memory(path: &str, kib: u64, arguments: &[&str]) -> Self {
        let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
        let mut all = vec!["-c", &script, path];
        all.extend(arguments);
        Self::new("/bin/sh", &all)
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the content of standard input.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Runs the program until it exits.
    ///
    /// # Panics
    /// When it cannot be started, or has not ended after `deadline`.
    #[must_use]
    pub fn run(mut self, deadline: Duration) -> ExitResult {
        let mut child = self.command.spawn().expect("the program starts");
        let stdin = child.stdin.take();
        let input = self.input;
        thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
        let stdout = spawn_reader(child.stdout.take());
        let stderr = spawn_reader(child.stderr.take());
        let status = wait_for_exit(&mut child, deadline);
        let text =
            |bytes: thread::JoinHandle<Vec<u8>>| String::from_utf8_lossy(&bytes.join().expect("a reader")).into_owned();
        ExitResult { status: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Starts the program.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(mut self) -> RunningProcess {
        let mut child = self.command.stdout(Stdio::null()).spawn().expect("the program starts");
        let stderr_lines = spawn_line_reader(child.stderr.take().expect("standard error is piped"));
        RunningProcess { child, stderr_lines, stdout_lines: None }
    }

    /// Starts the program and captures its standard output.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_with_stdout(mut self) -> RunningProcess {
        let mut child = self.command.spawn().expect("the program starts");
        let stderr_lines = spawn_line_reader(child.stderr.take().expect("standard error is piped"));
        let stdout_lines = spawn_line_reader(child.stdout.take().expect("standard output is piped"));
        RunningProcess { child, stderr_lines, stdout_lines: Some(stdout_lines) }
    }
}

impl RunningProcess {
    /// Reads standard error until a line contains all of `words`, and returns that line.
    ///
    /// # Panics
    /// When there is no such line after `deadline`; the message contains every line read.
    #[must_use]
    pub fn wait_for_line(&self, words: &[&str], deadline: Duration) -> String {
        let end = Instant::now() + deadline;
        let mut read = Vec::new();
        while let Ok(line) = self.stderr_lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
            read.push(line);
        }
        panic!("no line with {words:?} among:\n{}", read.join("\n"));
    }

    /// The URLs of a server's listeners, which it logs when it serves: gRPC, and the dashboard
    /// without a slash at its end.
    ///
    /// # Panics
    /// When the server has not logged them within `deadline`.
    #[must_use]
    pub fn wait_for_urls(&self, deadline: Duration) -> [String; 2] {
        urls(&self.wait_for_line(&["dashboard"], deadline))
    }

    /// The next line on standard output of a process started with
    /// [`start_with_stdout`](Program::start_with_stdout).
    ///
    /// # Panics
    /// When there is no line after `deadline`, or standard output is not captured.
    #[must_use]
    pub fn next_stdout_line(&self, deadline: Duration) -> String {
        let stdout_lines = self.stdout_lines.as_ref().expect("standard output is captured");
        stdout_lines.recv_timeout(deadline).unwrap_or_else(|error| panic!("nothing on standard output: {error}"))
    }

    /// Returns the lines of standard error that were not read yet.
    #[must_use]
    pub fn take_stderr_lines(&self) -> Vec<String> {
        self.stderr_lines.try_iter().collect()
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process has exited.
    pub fn signal(&self, signal: Signal) {
        // The shell's own `kill`: a bare machine has no program of that name.
        let command = format!("kill {} \"$0\"", signal.flag());
        let sent = Command::new("sh").args(["-c", &command, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the process takes signals");
    }

    /// Whether the process is running.
    ///
    /// # Panics
    /// When its status cannot be read.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Panics
    /// When it has not exited after `deadline`.
    #[must_use]
    pub fn stop(mut self, deadline: Duration) -> i32 {
        self.signal(Signal::Terminate);
        wait_for_exit(&mut self.child, deadline).code().unwrap_or(-1)
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn spawn_reader<R: Read + Send + 'static>(stream: Option<R>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _until_it_ends = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn spawn_line_reader(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _no_receiver = sender.send(line);
        }
    });
    receiver
}

fn wait_for_exit(child: &mut Child, deadline: Duration) -> ExitStatus {
    let end = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status;
        }
        if Instant::now() > end {
            let _ended_already = child.kill();
            panic!("the process has not ended after {deadline:?}");
        }
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// Host and port of a URL.
#[must_use]
pub fn authority(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_scheme, rest)| rest)
}

/// The URLs in the log line of a server that serves: gRPC and the dashboard.
///
/// # Panics
/// When the line lacks one of them.
#[must_use]
pub fn urls(line: &str) -> [String; 2] {
    let of = |name: &str| {
        // In text, `name=URL`; in JSON, `"name":"URL"`.
        let rest = line.split(name).nth(1).unwrap_or_else(|| panic!("{name} in {line}"));
        let url = rest.trim_start_matches(['"', ':', '=']).split([' ', '"']).next().unwrap_or_default();
        url.trim_end_matches('/').to_owned()
    };
    ["grpc", "dashboard"].map(of)
}
