//! Processes of this program, started by simulations that want real ones: a simulated cloud, and servers that may be killed.
//!
//! Each ends with the process that started it, whichever way that ends: they are killed when they are dropped, and the cloud
//! also when its standard input closes.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// How long a server may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(10);

/// The simulated cloud's process.
pub(crate) struct Cloud {
    /// Where it is reached.
    pub(crate) address: String,
    process: Child,
    _input: Option<ChildStdin>,
}

fn program() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot tell which program this is")?);
    command.kill_on_drop(true);
    Ok(command)
}

impl Cloud {
    /// Starts one with these flags of `fleetwright simulated-cloud`.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start(flags: &[String]) -> anyhow::Result<Self> {
        let mut command = program()?;
        command.args(["simulated-cloud", "--until-input-ends"]).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot start the simulated cloud")?;
        let stdout = process.stdout.take().ok_or_else(|| anyhow!("the simulated cloud has no standard output"))?;
        let address = BufReader::new(stdout).lines().next_line().await?;
        let address = address.ok_or_else(|| anyhow!("the simulated cloud ended before it told its address"))?;
        Ok(Self { address, _input: process.stdin.take(), process })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }
}

/// A server's process, and where it is found whichever process it is.
pub(crate) struct Server {
    /// Where agents connect.
    pub(crate) grpc: SocketAddr,
    /// Where its page is.
    pub(crate) http: SocketAddr,
    flags: Vec<String>,
    database_url: String,
    process: Child,
}

impl Server {
    /// Starts a server on `database_url` with these flags of `fleetwright serve`. Its ports stay the same over every restart.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(database_url: &str, flags: Vec<String>) -> anyhow::Result<Self> {
        let (grpc, http) = (free_address()?, free_address()?);
        let process = spawn(database_url, grpc, http, &flags)?;
        Ok(Self { grpc, http, flags, database_url: database_url.to_owned(), process })
    }

    /// Its process, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends the process at once (SIGKILL): it hears nothing of it and puts nothing in order.
    ///
    /// # Errors
    /// When it had ended by itself.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.process.try_wait()? {
            return Err(anyhow!("the server ended by itself before it was killed: {ended}"));
        }
        self.process.kill().await.context("cannot kill the server")
    }

    /// Asks the process to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// When it does not end.
    pub(crate) async fn ask_to_end(&mut self) -> anyhow::Result<()> {
        let pid = self.pid().ok_or_else(|| anyhow!("the server has ended by itself"))?;
        // The shell's own `kill`: a bare machine has no program of that name.
        let told = Command::new("sh").args(["-c", "kill -15 \"$0\"", &pid.to_string()]).status().await;
        told.context("cannot tell the server to end")?;
        let ended = tokio::time::timeout(GRACE, self.process.wait()).await;
        ended.map_err(|_| anyhow!("the server did not end within {} s", GRACE.as_secs()))??;
        Ok(())
    }

    /// Starts the process again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.process = spawn(&self.database_url, self.grpc, self.http, &self.flags)?;
        Ok(())
    }

    /// Ends the process for good: the books are drawn, so a kill is as good as a word.
    pub(crate) async fn stop(mut self) {
        let _ended_already = tokio::time::timeout(GRACE, self.process.kill()).await;
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("no port is free")
}

fn spawn(database_url: &str, grpc: SocketAddr, http: SocketAddr, flags: &[String]) -> anyhow::Result<Child> {
    let mut command = program()?;
    command.args(["serve", "--listen-grpc", &grpc.to_string(), "--listen-http", &http.to_string()]);
    command.args(flags).env("FLEETWRIGHT_STORE_DATABASE_URL", database_url);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("cannot start the server")
}

/// Flags of a server that no rail holds back: for loads that are meant to be wild.
pub(crate) fn without_bounds() -> Vec<String> {
    const BOUNDS: [&str; 10] = [
        "launches-per-cluster",
        "launches-per-fleet",
        "launch-dollars-per-cluster",
        "launch-dollars-per-fleet",
        "removals-per-cluster",
        "removals-per-fleet",
        "removal-percent-per-cluster",
        "removal-percent-per-fleet",
        "launches-per-pod",
        "quarantine-percent",
    ];
    BOUNDS.iter().flat_map(|bound| [format!("--rails-{bound}"), "0".to_owned()]).collect()
}
