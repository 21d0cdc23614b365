//! The program `fleetwright-agent`: reads its configuration, waits for the leader lease, and runs
//! the agent until it receives a signal. When it loses the lease, as in an outage of the API server, it drops everything and
//! waits for the lease again.

use std::hash::{BuildHasher, Hasher};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::config::{Config, Invocation, InvocationError};
use agent::intern::content_hash;
use agent::link::backoff::Backoff;
use agent::{Identity, Target, shutdown_signal};
use tracing::{info, warn};

use crate::Kubernetes;
use crate::actions::guard::RemovalGuard;
use crate::api::Api;
use crate::cluster::ClusterOptions;
use crate::connect::{Connected, connect, read_identity};
use crate::epoch::EpochStore;
use crate::leader::{Candidate, LeaseLoss};
use crate::probe::Probes;

/// Exit code for input that cannot be used.
const EXIT_INVALID_INPUT: u8 = 2;

/// First and longest wait before the cluster's identity is read again, in milliseconds.
const IDENTITY_WAITS_MS: (u64, u64) = (2_000, 30_000);

/// Runs the program and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let config = match Invocation::read(std::env::args_os(), std::env::vars()) {
        Ok(invocation) => match Config::resolve(&invocation.layers) {
            Ok(_) if invocation.print_config => {
                print!("{}", settings::print(&invocation.layers));
                return ExitCode::SUCCESS;
            }
            Ok(config) => config,
            Err(error) => return report_invalid_input(&error.into()),
        },
        Err(InvocationError::CommandLine(error)) => error.exit(),
        Err(InvocationError::Config(error)) => return report_invalid_input(&error.into()),
    };
    config.start_log();
    loop {
        match start(&config) {
            Ok(ExitReason::Shutdown) => return ExitCode::SUCCESS,
            // Everything that acts in the cluster ended with the runtime; another replica may be active.
            Ok(ExitReason::LeaseLost(why)) => warn!(reason = %why, "leader lease lost; waiting for it again"),
            Err(error) => return report_invalid_input(&error),
        }
    }
}

fn report_invalid_input(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(EXIT_INVALID_INPUT)
}

enum ExitReason {
    Shutdown,
    /// The lease was lost; another replica may be active.
    LeaseLost(LeaseLoss),
}

fn start(config: &Config) -> anyhow::Result<ExitReason> {
    // One thread suffices for the load, and every further thread needs memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reason = runtime.block_on(run(config));
    // The tasks of the agent run on this thread: none is running now, and all are dropped with the runtime.
    runtime.shutdown_background();
    reason
}

async fn run(config: &Config) -> anyhow::Result<ExitReason> {
    // First of all: a signal that nothing awaits would be lost once a handler was installed.
    let stop = shutdown_signal();
    tokio::pin!(stop);
    let Connected { api, access, namespace } = connect(&config.kubernetes).await?;
    let identity = unique_identity(&config.kubernetes.identity.clone().map_or_else(host_name, Ok)?);
    let probes = config.probe_address.map(Probes::listen).transpose()?;
    let lease = config.kubernetes.lease.clone();
    let candidate = Candidate {
        api: api.clone(),
        namespace: namespace.clone(),
        name: lease.clone(),
        identity: identity.clone(),
        duration: config.kubernetes.lease_duration,
    };
    let (cluster_identity, mut leadership) = tokio::select! {
        () = &mut stop => return Ok(ExitReason::Shutdown),
        ready = async {
            let cluster_identity = await_identity(&api).await;
            // A replica that waits for the Lease is ready too.
            if let Some(probes) = &probes {
                probes.mark_ready();
            }
            (cluster_identity, candidate.acquire_lease().await)
        } => ready,
    };
    info!(
        cluster = config.cluster_name,
        uid = cluster_identity.uid,
        kubernetes = cluster_identity.kubernetes_version,
        "agent started"
    );
    let target = Target {
        server: config.server.address.clone(),
        credentials: config.server.credentials.clone(),
        cluster_name: config.cluster_name.clone(),
        region: config.region.clone(),
        karpenter_absent: config.karpenter_absent,
        seed: seed(&cluster_identity, &identity),
    };
    let epochs = EpochStore::new(api.clone(), namespace, format!("{lease}-epoch"));
    let options = ClusterOptions {
        instance: identity,
        streaming_lists: config.kubernetes.streaming_lists,
        karpenter_absent: config.karpenter_absent,
        access,
        facts: config.facts.clone(),
        guard: RemovalGuard::new(config.guard.removals, config.guard.window),
    };
    let cluster = Kubernetes::start(api, cluster_identity, epochs, options);
    let cluster = Arc::new(cluster.with_api_server_status(leadership.api_server_unreachable()));
    // The task ends with the runtime.
    tokio::spawn(Arc::clone(&cluster).resume_drains());
    tokio::select! {
        // The loss of the lease takes precedence over other results.
        biased;
        why = leadership.hold_lease() => return Ok(ExitReason::LeaseLost(why)),
        ran = agent::run(cluster, target, &mut stop) => ran?,
    }
    leadership.release_lease().await;
    Ok(ExitReason::Shutdown)
}

/// Reads the cluster's identity, retried until it succeeds.
async fn await_identity(api: &Api) -> Identity {
    let mut backoff = Backoff::between(IDENTITY_WAITS_MS.0, IDENTITY_WAITS_MS.1, 0);
    loop {
        match read_identity(api).await {
            Ok(identity) => return identity,
            Err(error) => {
                let retry_in_ms = backoff.next_wait_ms();
                warn!(%error, retry_in_ms, "cannot read the cluster identity; retrying");
                tokio::time::sleep(Duration::from_millis(retry_in_ms)).await;
            }
        }
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = name.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.ok_or_else(|| anyhow::anyhow!("cannot read the host name; set kubernetes.identity to a name for this replica"))
}

/// A unique identity of this process. Two replicas with one host name or one configured name would
/// otherwise both consider the Lease their own (client-go: leader election identities). A restarted
/// process waits until the Lease of its predecessor has expired, unless it was released.
fn unique_identity(name: &str) -> String {
    // The keys of a hasher are random, and differ from process to process.
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{name}_{random:016x}")
}

/// Waits differ from replica to replica and from cluster to cluster.
fn seed(cluster_identity: &Identity, identity: &str) -> u64 {
    let hash = content_hash(format!("{}/{identity}", cluster_identity.uid).as_bytes());
    hash[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_replicas_of_one_name_have_different_identities() {
        let [one, other] = [unique_identity("host"), unique_identity("host")];
        assert!(one.starts_with("host_") && other.starts_with("host_") && one != other, "{one} {other}");
    }
}
