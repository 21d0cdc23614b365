//! `fleetwright simulated-cloud`: the simulated cloud as a process, for tests that restart servers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use cloud::simulated::FaultProfile;
use tokio::net::TcpListener;

use server::cli::exit::{Failure, Status};
use server::cli::output;
use server::{clouds, telemetry};
use simulation::demo;
use simulation::simulated_cloud::{self, Latency};

/// Run the simulated cloud as a process; prints its address as one line on standard output
#[derive(Debug, Args)]
pub(crate) struct SimulatedCloudFlags {
    /// Listen address; port 0 lets the operating system choose
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Region of the catalogue
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Time from launch to running of an instance
    #[arg(long, default_value = "3s", value_name = "DURATION", value_parser = server::config::parse_duration_flag)]
    boot: Duration,
    /// Maximum random delay before a call takes effect
    #[arg(long, default_value = "0ms", value_name = "DURATION", value_parser = server::config::parse_duration_flag)]
    arrival: Duration,
    /// Maximum random delay before the response of a call
    #[arg(long, default_value = "0ms", value_name = "DURATION", value_parser = server::config::parse_duration_flag)]
    answer: Duration,
    /// Refuse every launch for insufficient capacity
    #[arg(long)]
    no_capacity: bool,
    /// Ignore client tokens: every launch call creates an instance
    #[arg(long)]
    ignore_tokens: bool,
    /// Exit when standard input is closed
    #[arg(long)]
    until_input_ends: bool,
    /// Log filter
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: SimulatedCloudFlags) -> Result<Status, Failure> {
    telemetry::init_logging(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime.block_on(serve(flags)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(Status::Done)
}

async fn serve(flags: SimulatedCloudFlags) -> anyhow::Result<()> {
    if !flags.listen.ip().is_loopback() {
        bail!(
            "--listen {} is not a loopback address, and the simulated cloud has no authentication: listen on 127.0.0.1",
            flags.listen
        );
    }
    let boot = milliseconds(flags.boot);
    let weather = FaultProfile {
        seed: flags.seed,
        boot_ms: (boot, boot),
        no_capacity: flags.no_capacity,
        ignore_tokens: flags.ignore_tokens,
        ..FaultProfile::default()
    };
    let cloud = clouds::simulated(weather, &flags.region, None)?;
    let latency = Latency { arrival_ms: (0, milliseconds(flags.arrival)), answer_ms: (0, milliseconds(flags.answer)) };
    let asked = server::serve::shutdown_signal();
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
    async fn a_non_loopback_address_is_rejected() {
        // 192.0.2.0/24 is reserved for documentation (RFC 5737), so listening would fail too: the
        // message tells the causes apart.
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let Command { flags } = Command::parse_from(["simulated-cloud", "--listen", address]);
            let refused = serve(flags).await.unwrap_err().to_string();
            assert!(refused.contains("is not a loopback address"), "{refused}");
        }
    }
}
