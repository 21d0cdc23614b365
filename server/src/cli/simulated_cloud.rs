//! `fleetwright simulated-cloud`: the simulated cloud as a process of its own, for tests that end servers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use cloud::simulated::FaultProfile;
use tokio::net::TcpListener;

use super::exit::{Failure, Status};
use super::output;
use crate::simulated_cloud::{self, Latency};
use crate::{clouds, demo, telemetry};

/// The simulated cloud as a process of its own; its address is one line on standard output
#[derive(Debug, Args)]
pub(crate) struct SimulatedCloudFlags {
    /// Where to listen; port 0 lets the system choose
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The region whose machines are sold
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// From purchase to a running machine
    #[arg(long, default_value = "3s", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    boot: Duration,
    /// From sending a call to its taking effect, at most; from nothing on, by chance
    #[arg(long, default_value = "0ms", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    arrival: Duration,
    /// From a call's taking effect to its answer, at most; from nothing on, by chance
    #[arg(long, default_value = "0ms", value_name = "DURATION", value_parser = crate::config::parse_duration_flag)]
    answer: Duration,
    /// Every launch buys a machine, whatever its token
    #[arg(long)]
    ignore_tokens: bool,
    /// End when standard input does
    #[arg(long)]
    until_input_ends: bool,
    /// What is logged
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
}

pub(crate) fn run(flags: SimulatedCloudFlags) -> Result<Status, Failure> {
    telemetry::log(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime.block_on(serve(flags)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(Status::Done)
}

async fn serve(flags: SimulatedCloudFlags) -> anyhow::Result<()> {
    if !flags.listen.ip().is_loopback() {
        bail!(
            "--listen {} can be reached from other machines, and a simulated cloud asks nobody who they are: listen on 127.0.0.1",
            flags.listen
        );
    }
    let boot = milliseconds(flags.boot);
    let weather = FaultProfile {
        seed: flags.seed,
        boot_ms: (boot, boot),
        ignore_tokens: flags.ignore_tokens,
        ..FaultProfile::default()
    };
    let cloud = clouds::simulated(weather, &flags.region, None)?;
    let latency = Latency { arrival_ms: (0, milliseconds(flags.arrival)), answer_ms: (0, milliseconds(flags.answer)) };
    let asked = agent::asked_to_stop();
    let ended = demo::input_ended(flags.until_input_ends)?;
    let stop = async {
        tokio::select! { () = asked => {}, () = ended => {} }
    };
    let listener = TcpListener::bind(flags.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", flags.listen))?;
    output::print_text(&format!("http://{}\n", listener.local_addr()?))
        .map_err(|_| anyhow!("cannot write to standard output"))?;
    simulated_cloud::serve(listener, cloud, latency, flags.seed, stop).await
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        flags: SimulatedCloudFlags,
    }

    #[tokio::test]
    async fn an_address_that_other_machines_reach_is_not_listened_on() {
        // 192.0.2.0/24 is nobody's (RFC 5737), so it could not be listened on either: what is said tells which it was.
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let Command { flags } = Command::parse_from(["simulated-cloud", "--listen", address]);
            let refused = serve(flags).await.unwrap_err().to_string();
            assert!(refused.contains("can be reached from other machines"), "{refused}");
        }
    }
}
