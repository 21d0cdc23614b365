//! Processes of this program for simulations: a simulated cloud, and servers that may be killed.
//!
//! Each exits with the process that started it: they are killed on drop, and the cloud also exits
//! when its standard input closes.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use store_postgres::postgres_local::LocalPostgres;

/// Limit for a server's exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// Error without a PostgreSQL.
pub(crate) const NO_POSTGRES: &str =
    "PostgreSQL is not installed on this machine; pass a running one with --database-url";

/// What every run on servers of its own is told.
#[derive(Debug, Clone, Args)]
pub struct RunOptions {
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// PostgreSQL of the servers; missing tables are created, and existing data is kept. Without it a temporary server is
    /// started from the local binaries
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Log filter for standard error, of this process and the servers
    #[arg(long, default_value = "error", value_name = "FILTER")]
    pub log: String,
}

pub(crate) struct CloudProcess {
    pub address: String,
    /// URL of its EC2 account, if it has one.
    pub ec2: Option<String>,
    process: Child,
    _input: Option<ChildStdin>,
}

fn program() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find the path of this executable")?);
    command.kill_on_drop(true);
    Ok(command)
}

impl CloudProcess {
    /// Starts a simulated cloud with these flags of `fleetwright-sim simulated-cloud`.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(flags: &[String]) -> anyhow::Result<Self> {
        let mut command = program()?;
        command.args(["simulated-cloud", "--until-input-ends"]).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot start the simulated cloud")?;
        let stdout = process.stdout.take().ok_or_else(|| anyhow!("the simulated cloud has no standard output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let ended = || anyhow!("the simulated cloud exited before it printed its address");
        let address = lines.next_line().await?.ok_or_else(ended)?;
        let ec2 = match flags.iter().any(|flag| flag == "--ec2-listen") {
            true => Some(lines.next_line().await?.ok_or_else(ended)?),
            false => None,
        };
        Ok(Self { address, ec2, _input: process.stdin.take(), process })
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }
}

/// A server process; its addresses survive restarts.
pub(crate) struct ServerProcess {
    pub grpc: SocketAddr,
    /// HTTP address.
    pub http: SocketAddr,
    flags: Vec<String>,
    database_url: String,
    process: Child,
}

impl ServerProcess {
    /// Starts a server on `database_url` that logs by the filter `log`, without guardrail limits and with these flags of
    /// `fleetwright-sim serve`. Restarts keep its ports.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(database_url: &str, log: &str, flags: &[[&str; 2]]) -> anyhow::Result<Self> {
        let (grpc, http) = (free_address()?, free_address()?);
        let with_log = [flags, &[["--log-filter", log]]].concat();
        let flags: Vec<String> =
            with_log.as_flattened().iter().map(|word| (*word).to_owned()).chain(without_bounds()).collect();
        let process = spawn(database_url, grpc, http, &flags)?;
        Ok(Self { grpc, http, flags, database_url: database_url.to_owned(), process })
    }

    /// Process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Kills the process (SIGKILL), so that it cannot clean up.
    ///
    /// # Errors
    /// When it had already exited.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.process.try_wait()? {
            return Err(anyhow!("the server exited before it was killed: {ended}"));
        }
        self.process.kill().await.context("cannot kill the server")
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Errors
    /// When it does not exit in time.
    pub async fn terminate(&mut self) -> anyhow::Result<()> {
        let pid = self.pid().ok_or_else(|| anyhow!("the server has already exited"))?;
        // The shell's builtin `kill`: a minimal machine has no such program.
        let signalled = Command::new("sh").args(["-c", "kill -15 \"$0\"", &pid.to_string()]).status().await;
        signalled.context("cannot send SIGTERM to the server")?;
        let ended = tokio::time::timeout(GRACE, self.process.wait()).await;
        ended.map_err(|_| anyhow!("the server did not exit within {} s after SIGTERM", GRACE.as_secs()))??;
        Ok(())
    }

    /// Restarts the process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.process = spawn(&self.database_url, self.grpc, self.http, &self.flags)?;
        Ok(())
    }

    /// Kills the process for good: the results are computed already, so an orderly shutdown adds
    /// nothing.
    pub async fn stop(mut self) {
        let _ended_already = tokio::time::timeout(GRACE, self.process.kill()).await;
    }
}

/// The database at `url`, or a temporary one from this machine's binaries.
///
/// # Errors
/// When no PostgreSQL is installed, or it does not start.
pub(crate) fn database(url: Option<&String>) -> anyhow::Result<(String, Option<LocalPostgres>)> {
    if let Some(url) = url {
        return Ok((url.clone(), None));
    }
    let own = LocalPostgres::temporary().context("cannot start PostgreSQL; pass a running one with --database-url")?;
    let own = own.ok_or_else(|| anyhow!(NO_POSTGRES))?;
    Ok((own.url(), Some(own)))
}

/// For a simulated EC2, which verifies no signature; no other credentials are looked for.
fn with_simulated_credentials(command: &mut Command) -> &mut Command {
    command.env("AWS_ACCESS_KEY_ID", "simulated").env("AWS_SECRET_ACCESS_KEY", "simulated");
    command.env("AWS_EC2_METADATA_DISABLED", "true")
}

fn free_address() -> anyhow::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("no port is free")
}

fn spawn(database_url: &str, grpc: SocketAddr, http: SocketAddr, flags: &[String]) -> anyhow::Result<Child> {
    let mut command = program()?;
    command.args(["serve", "--listen-grpc", &grpc.to_string(), "--listen-http", &http.to_string()]);
    command.args(flags).env("FLEETWRIGHT_STORE_DATABASE_URL", database_url);
    with_simulated_credentials(&mut command).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("cannot start the server")
}

/// Flags that disable every guardrail limit, for artificial loads.
fn without_bounds() -> Vec<String> {
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
    BOUNDS.iter().flat_map(|bound| [format!("--guardrails-{bound}"), "0".to_owned()]).collect()
}
