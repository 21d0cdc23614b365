//! What the agent costs in a cluster of 500 nodes and 5,000 pods. Minutes of work for a figure, so it is played by name only.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Seen, until};
use e2e::kubernetes::kubelets::Pace;
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{Stage, Told};
use e2e::kubernetes::world::{Options, REGION, World};
use serde_json::json;

const NODES: usize = 500;
const DEPLOYMENTS: usize = 50;
const PODS_EACH: u32 = 100;
/// Of the deployments, how many are scaled to nothing and back: 500 pods go and 500 come.
const RENEWED: usize = 5;
/// Busy machines need long for so many objects.
const PATIENCE: Duration = Duration::from_secs(900);
/// Over which CPU time is counted, in a cluster where nothing happens.
const STEADY: Duration = Duration::from_secs(60);
/// Resident memory at most, in KiB: 50 MB.
const MOST_MEMORY_KIB: u64 = 50_000_000 / 1024;
/// CPU at most, in thousandths of a core.
const MOST_CPU_PER_MILLE: u64 = 50;
/// Linux counts CPU time of processes in hundredths of a second (USER_HZ).
const TICKS_A_SECOND: u64 = 100;

pub(super) async fn of_the_agent(stage: Arc<Stage>) -> Told {
    // 500 kubelets of one process take turns of a few milliseconds each; leases are renewed half as often as usual.
    let pace = Pace { heartbeat: Duration::from_secs(20), ..Pace::default() };
    let world = World::start(&stage, "footprint", Options { pace, ..Options::default() }).await?;
    play(&world).await.with_context(|| world.last_words())
}

async fn play(world: &World) -> Told {
    let types = Types::builtin(REGION)?;
    for number in 0..NODES {
        // m5.4xlarge has 16 cores and takes 234 pods: ten pods of 100 millicores are no trouble.
        let zone = ["us-east-1a", "us-east-1b", "us-east-1c"][number % 3];
        let mut machine = types.machine(&format!("i-{number:04}"), "m5.4xlarge", zone)?;
        machine.unregistered = false;
        world.kubelets.boot(machine);
    }
    world.cluster.until_nodes(NODES, PATIENCE).await?;
    for number in 0..DEPLOYMENTS {
        world.cluster.deploy(&format!("app-{number}"), PODS_EACH, "100m", "128Mi", json!({})).await?;
    }
    world.cluster.until_ready(i32::try_from(DEPLOYMENTS)? * i32::try_from(PODS_EACH)?, PATIENCE).await?;
    let agent = world.agent.id().context("the agent does not run")?;
    until_calm(agent).await?;
    let before = cpu_ticks(agent)?;
    tokio::time::sleep(STEADY).await;
    let per_mille = (cpu_ticks(agent)? - before) * 1000 / TICKS_A_SECOND / STEADY.as_secs();
    let renewal = of_a_renewal(world, agent).await?;
    let (resident, peak) = (memory_kib(agent, "VmRSS:")?, memory_kib(agent, "VmHWM:")?);
    let told = format!(
        "{NODES} nodes, {} pods: {:.1} MB resident (peak {:.1} MB), {}.{} % of a core over {STEADY:?}; {renewal}",
        DEPLOYMENTS * PODS_EACH as usize,
        resident as f64 * 1024.0 / 1e6,
        peak as f64 * 1024.0 / 1e6,
        per_mille / 10,
        per_mille % 10,
    );
    ensure!(resident <= MOST_MEMORY_KIB, "more memory than 50 MB\n{told}");
    ensure!(per_mille <= MOST_CPU_PER_MILLE, "more than 5 % of a core\n{told}");
    Ok(told)
}

/// What it costs the agent that pods go and others come in their place.
async fn of_a_renewal(world: &World, agent: u32) -> anyhow::Result<String> {
    let (before, begun) = (cpu_ticks(agent)?, Instant::now());
    let all = i32::try_from(DEPLOYMENTS)? * i32::try_from(PODS_EACH)?;
    let renewed = i32::try_from(RENEWED)? * i32::try_from(PODS_EACH)?;
    for (replicas, ready) in [(0, all - renewed), (PODS_EACH, all)] {
        for number in 0..RENEWED {
            world.cluster.scale(&format!("app-{number}"), replicas).await?;
        }
        world.cluster.until_ready(ready, PATIENCE).await?;
    }
    until_calm(agent).await?;
    let used = (cpu_ticks(agent)? - before) * 1000 / TICKS_A_SECOND;
    let took = begun.elapsed();
    let per_mille = u128::from(used) * 1000 / took.as_millis().max(1);
    Ok(format!(
        "{renewed} pods that go and {renewed} that come: {used} ms of CPU, {}.{} % of a core over {took:.0?}",
        per_mille / 10,
        per_mille % 10,
    ))
}

/// Until what the agent has been told of the last pod is behind it: a second with less than 10 % of a core.
async fn until_calm(agent: u32) -> anyhow::Result<()> {
    let look = || async {
        let before = cpu_ticks(agent)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let used = cpu_ticks(agent)? - before;
        Ok(if used * 10 < TICKS_A_SECOND { Seen::Done(()) } else { Seen::NotYet(format!("{used} ticks in a second")) })
    };
    until("the agent is calm", PATIENCE, look).await
}

/// CPU time of a process so far, user and system.
fn cpu_ticks(process: u32) -> anyhow::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).context("the agent's process is gone")?;
    // The name in brackets may have blanks; behind it, utime and stime are the 12th and 13th fields.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let at = |index: usize| -> anyhow::Result<u64> { Ok(fields.get(index).context("no such field")?.parse()?) };
    Ok(at(11)? + at(12)?)
}

fn memory_kib(process: u32, key: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("the agent's process is gone")?;
    let line = status.lines().find(|line| line.starts_with(key)).with_context(|| format!("no {key}"))?;
    Ok(line.split_whitespace().nth(1).context("no figure")?.parse()?)
}
