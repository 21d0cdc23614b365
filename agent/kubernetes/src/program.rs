//! The program `fleetwright-agent`: reads its settings, waits until it is the replica that works, and speaks for its cluster until it is asked to
//! stop or loses its lease.

use std::hash::{BuildHasher, Hasher};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::config::{self, Config, Invocation, InvocationError};
use agent::intern::content_hash;
use agent::{Identity, Target, asked_to_stop};
use tracing::{info, warn};

use crate::Kubernetes;
use crate::api::Api;
use crate::cluster::Conduct;
use crate::connect::{Connected, connect, identify};
use crate::epoch::EpochStore;
use crate::leader::Candidate;
use crate::obey::guard::Guard;
use crate::probe::Probes;

/// Exit code for input that cannot be used.
const UNUSABLE: u8 = 2;

/// An API server that does not answer is asked again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Runs the program: reads the command line and the environment, and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let config = match Invocation::read(std::env::args_os(), std::env::vars()) {
        Ok(invocation) => match Config::resolve(&invocation.layers) {
            Ok(_) if invocation.print_config => {
                print!("{}", config::print(&invocation.layers));
                return ExitCode::SUCCESS;
            }
            Ok(config) => config,
            Err(error) => return unusable(&error.into()),
        },
        Err(InvocationError::CommandLine(error)) => error.exit(),
        Err(InvocationError::Config(error)) => return unusable(&error.into()),
    };
    config.start_log();
    match start(&config) {
        Ok(Ending::Asked) => ExitCode::SUCCESS,
        Ok(Ending::LostLease(why)) => {
            eprintln!("fleetwright-agent: {why}; ending at once, so that two replicas never work");
            ExitCode::FAILURE
        }
        Err(error) => unusable(&error),
    }
}

fn unusable(error: &anyhow::Error) -> ExitCode {
    eprintln!("fleetwright-agent: {error:#}");
    ExitCode::from(UNUSABLE)
}

/// Why the agent ends.
enum Ending {
    /// It was asked to.
    Asked,
    /// Another replica may be at work.
    LostLease(String),
}

fn start(config: &Config) -> anyhow::Result<Ending> {
    // The work is little, and every thread more would cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(run(config));
    // What is under way is cut off here, at its next request at the latest.
    runtime.shutdown_background();
    ending
}

async fn run(config: &Config) -> anyhow::Result<Ending> {
    let Connected { api, namespace } = connect(&config.kubernetes).await?;
    let identity = one_of_a_kind(&config.kubernetes.identity.clone().map_or_else(host_name, Ok)?);
    let probes = config.probe_address.map(Probes::open).transpose()?;
    let stop = asked_to_stop();
    tokio::pin!(stop);
    let lease = config.kubernetes.lease.clone();
    let candidate = Candidate {
        api: api.clone(),
        namespace: namespace.clone(),
        name: lease.clone(),
        identity: identity.clone(),
        duration: config.kubernetes.lease_duration,
    };
    let (who, mut leadership) = tokio::select! {
        () = &mut stop => return Ok(Ending::Asked),
        ready = async {
            let who = identity_of(&api).await;
            // A replica that waits for its turn is as good as the one that works.
            if let Some(probes) = &probes {
                probes.ready();
            }
            (who, candidate.acquire().await)
        } => ready,
    };
    info!(
        cluster = config.cluster_name,
        uid = who.uid,
        kubernetes = who.kubernetes_version,
        "speaking for this cluster"
    );
    let target = Target {
        server: config.server.address.clone(),
        credentials: config.server.credentials.clone(),
        cluster_name: config.cluster_name.clone(),
        region: config.region.clone(),
        karpenter_absent: config.karpenter_absent,
        seed: seed(&who, &identity),
    };
    let epochs = EpochStore::new(api.clone(), namespace, format!("{lease}-epoch"));
    let conduct = Conduct {
        instance: identity,
        streaming_lists: config.kubernetes.streaming_lists,
        karpenter_absent: config.karpenter_absent,
        guard: Guard::new(config.guard.removals, config.guard.window),
    };
    let cluster = Arc::new(Kubernetes::watch(api, who, epochs, conduct));
    // It ends with the process at the latest, as everything does.
    tokio::spawn(Arc::clone(&cluster).go_on_with_drains());
    tokio::select! {
        // A lease that is lost outweighs everything else.
        biased;
        why = leadership.keep() => return Ok(Ending::LostLease(why)),
        ran = agent::run(cluster, target, &mut stop) => ran?,
    }
    leadership.release().await;
    Ok(Ending::Asked)
}

/// Who the cluster is, asked until there is an answer.
async fn identity_of(api: &Api) -> Identity {
    loop {
        match identify(api).await {
            Ok(identity) => return identity,
            Err(error) => warn!(%error, retry_in_ms = ASK_AGAIN.as_millis(), "cannot find out which cluster this is"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = name.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.ok_or_else(|| anyhow::anyhow!("this host has no name; give this replica one with kubernetes.identity"))
}

/// A name that no other process has: two replicas on hosts of one name, or with one name in their settings, would otherwise both take
/// the Lease for their own (client-go: leader election identities). A process that is started again waits until the Lease of the one
/// before has run out, unless that gave it back.
fn one_of_a_kind(name: &str) -> String {
    // The keys of a hasher are random, and differ from process to process.
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{name}_{random:016x}")
}

/// Waits differ from replica to replica and from cluster to cluster.
fn seed(who: &Identity, identity: &str) -> u64 {
    let hash = content_hash(format!("{}/{identity}", who.uid).as_bytes());
    hash[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_replicas_of_one_name_are_told_apart() {
        let [one, other] = [one_of_a_kind("host"), one_of_a_kind("host")];
        assert!(one.starts_with("host_") && other.starts_with("host_") && one != other, "{one} {other}");
    }
}
