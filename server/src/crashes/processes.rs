//! The processes: the cloud, which lives through it all, and the server, which does not.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::Plan;

/// From sending a call to its taking effect, and back, at most, in milliseconds: wide windows, as a busy EC2 has them.
pub(super) const ARRIVAL_MS: i64 = 150;
const ANSWER_MS: i64 = 150;

/// How long the server may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The simulated cloud's process. It ends with this one, whichever way.
pub(super) struct Cloud {
    pub(super) address: String,
    _process: Child,
    _input: Option<ChildStdin>,
}

fn program() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot tell which program this is")?);
    command.kill_on_drop(true);
    Ok(command)
}

impl Cloud {
    pub(super) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let mut command = program()?;
        command.args(["simulated-cloud", "--until-input-ends", "--boot", "200ms"]);
        command.args(["--arrival", &format!("{ARRIVAL_MS}ms"), "--answer", &format!("{ANSWER_MS}ms")]);
        command.args(["--seed", &plan.seed.to_string()]);
        if plan.without_tokens {
            command.arg("--ignore-tokens");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot start the simulated cloud")?;
        let stdout = process.stdout.take().ok_or_else(|| anyhow!("the simulated cloud has no standard output"))?;
        let address = BufReader::new(stdout).lines().next_line().await?;
        let address = address.ok_or_else(|| anyhow!("the simulated cloud ended before it told its address"))?;
        Ok(Self { address, _input: process.stdin.take(), _process: process })
    }
}

/// The server's process, and where agents find it whichever process it is.
pub(super) struct Server {
    pub(super) address: String,
    port: u16,
    process: Child,
}

impl Server {
    pub(super) fn start(plan: &Plan, cloud: &str) -> anyhow::Result<Self> {
        // Agents keep the address over every restart, so it is chosen once.
        let port = TcpListener::bind("127.0.0.1:0").context("no port is free")?.local_addr()?.port();
        let process = spawn(plan, cloud, port)?;
        Ok(Self { address: format!("http://127.0.0.1:{port}"), port, process })
    }

    /// Ends the process at once (SIGKILL): it hears nothing of it and puts nothing in order.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.process.try_wait()? {
            return Err(anyhow!("the server ended by itself before it was killed: {ended}"));
        }
        self.process.kill().await.context("cannot kill the server")
    }

    pub(super) fn restart(&mut self, plan: &Plan, cloud: &str) -> anyhow::Result<()> {
        self.process = spawn(plan, cloud, self.port)?;
        Ok(())
    }

    pub(super) async fn stop(mut self) {
        // The load is over and the books are drawn: a kill is as good as a word.
        let _ended_already = tokio::time::timeout(GRACE, self.process.kill()).await;
    }
}

fn spawn(plan: &Plan, cloud: &str, port: u16) -> anyhow::Result<Child> {
    let mut command = program()?;
    command.args(["serve", "--listen-grpc", &format!("127.0.0.1:{port}"), "--listen-http", "127.0.0.1:0"]);
    command.args(["--cloud-provider", "simulated", "--cloud-address", cloud]);
    command.args(["--lease-owner", "crashes", "--lease-duration", "15s"]);
    command.args(["--control-batch-idle", "50ms", "--control-batch-max", "300ms"]);
    command.args(["--control-collect-after", if plan.without_collection { "0s" } else { "4s" }]);
    // The load is meant to be wild: nothing of it is to be held back.
    for bound in
        ["launches-per-cluster", "launches-per-fleet", "launch-dollars-per-cluster", "launch-dollars-per-fleet"]
    {
        command.args([format!("--rails-{bound}"), "0".to_owned()]);
    }
    for bound in
        ["removals-per-cluster", "removals-per-fleet", "removal-percent-per-cluster", "removal-percent-per-fleet"]
    {
        command.args([format!("--rails-{bound}"), "0".to_owned()]);
    }
    command.args(["--rails-launches-per-pod", "0", "--rails-quarantine-percent", "0"]);
    let url = plan.database_url.as_deref().unwrap_or_default();
    command.args(["--log-filter", &plan.log]).env("FLEETWRIGHT_STORE_DATABASE_URL", url);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("cannot start the server")
}
