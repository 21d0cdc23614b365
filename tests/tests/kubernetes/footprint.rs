//! Resource usage of the agent in a cluster of 500 nodes and 5,000 pods. It takes minutes, so it
//! runs by name only.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::environment::{Environment, Options, REGION};
use e2e::kubernetes::kubelets::KubeletTiming;
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::json;

const NODES: usize = 500;
const DEPLOYMENTS: usize = 50;
const PODS_EACH: u32 = 100;
/// Number of deployments that are scaled to zero and back: 500 pods are removed and 500 created.
const RENEWED: usize = 5;
/// Busy machines need minutes for so many objects.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Interval of the CPU measurement, in an idle cluster.
const STEADY: Duration = Duration::from_secs(60);
/// Resident memory at most, in KiB: 50 MB.
const MOST_MEMORY_KIB: u64 = 50_000_000 / 1024;
/// CPU at most, in thousandths of a core.
const MOST_CPU_PER_MILLE: u64 = 50;
/// Linux counts CPU time of processes in hundredths of a second (USER_HZ).
const TICKS_A_SECOND: u64 = 100;

pub(super) async fn of_the_agent(test_bed: Arc<TestBed>) -> ScenarioResult {
    // 500 kubelets of one process take turns of a few milliseconds each; leases are renewed half as
    // often as usual.
    let timing = KubeletTiming { heartbeat: Duration::from_secs(20), ..KubeletTiming::default() };
    let environment = Environment::start(&test_bed, "footprint", Options { timing, ..Options::default() }).await?;
    run(&environment).await.with_context(|| environment.log_tails())
}

async fn run(environment: &Environment) -> ScenarioResult {
    let types = Types::builtin(REGION)?;
    for number in 0..NODES {
        // m5.4xlarge has 16 cores and accepts 234 pods: ten pods of 100 millicores fit.
        let zone = ["us-east-1a", "us-east-1b", "us-east-1c"][number % 3];
        let mut machine = types.machine(&format!("i-{number:04}"), "m5.4xlarge", zone)?;
        machine.unregistered = false;
        environment.kubelets.boot_machine(machine);
    }
    environment.cluster.wait_until_nodes(NODES, TIMEOUT).await?;
    for number in 0..DEPLOYMENTS {
        environment.cluster.deploy(&format!("app-{number}"), PODS_EACH, "100m", "128Mi", json!({})).await?;
    }
    environment.cluster.wait_until_ready(i32::try_from(DEPLOYMENTS)? * i32::try_from(PODS_EACH)?, TIMEOUT).await?;
    let agent = environment.agent.id().context("the agent does not run")?;
    wait_until_calm(agent).await?;
    let before = cpu_ticks(agent)?;
    tokio::time::sleep(STEADY).await;
    let per_mille = (cpu_ticks(agent)? - before) * 1000 / TICKS_A_SECOND / STEADY.as_secs();
    let renewal = of_a_renewal(environment, agent).await?;
    let (resident, peak) = (memory_kib(agent, "VmRSS:")?, memory_kib(agent, "VmHWM:")?);
    let output = format!(
        "{NODES} nodes, {} pods: {:.1} MB resident (peak {:.1} MB), {}.{} % of a core over {STEADY:?}; {renewal}",
        DEPLOYMENTS * PODS_EACH as usize,
        resident as f64 * 1024.0 / 1e6,
        peak as f64 * 1024.0 / 1e6,
        per_mille / 10,
        per_mille % 10,
    );
    ensure!(resident <= MOST_MEMORY_KIB, "more memory than 50 MB\n{output}");
    ensure!(per_mille <= MOST_CPU_PER_MILLE, "more than 5 % of a core\n{output}");
    Ok(output)
}

/// CPU time of the agent while pods are replaced.
async fn of_a_renewal(environment: &Environment, agent: u32) -> anyhow::Result<String> {
    let (before, begun) = (cpu_ticks(agent)?, Instant::now());
    let all = i32::try_from(DEPLOYMENTS)? * i32::try_from(PODS_EACH)?;
    let renewed = i32::try_from(RENEWED)? * i32::try_from(PODS_EACH)?;
    for (replicas, ready) in [(0, all - renewed), (PODS_EACH, all)] {
        for number in 0..RENEWED {
            environment.cluster.scale(&format!("app-{number}"), replicas).await?;
        }
        environment.cluster.wait_until_ready(ready, TIMEOUT).await?;
    }
    wait_until_calm(agent).await?;
    let used = (cpu_ticks(agent)? - before) * 1000 / TICKS_A_SECOND;
    let took = begun.elapsed();
    let per_mille = u128::from(used) * 1000 / took.as_millis().max(1);
    Ok(format!(
        "{renewed} pods that go and {renewed} that come: {used} ms of CPU, {}.{} % of a core over {took:.0?}",
        per_mille / 10,
        per_mille % 10,
    ))
}

/// Waits until the agent has processed all changes: a second with less than 10 % of a core.
async fn wait_until_calm(agent: u32) -> anyhow::Result<()> {
    let poll = || async {
        let before = cpu_ticks(agent)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let used = cpu_ticks(agent)? - before;
        Ok(if used * 10 < TICKS_A_SECOND {
            Poll::Ready(())
        } else {
            Poll::Pending(format!("{used} ticks in a second"))
        })
    };
    wait_until("the agent is calm", TIMEOUT, poll).await
}

/// CPU time of a process so far, user and system.
fn cpu_ticks(process: u32) -> anyhow::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).context("the agent's process has ended")?;
    // The name in brackets may have blanks; behind it, utime and stime are the 12th and 13th
    // fields.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let at = |index: usize| -> anyhow::Result<u64> { Ok(fields.get(index).context("no such field")?.parse()?) };
    Ok(at(11)? + at(12)?)
}

fn memory_kib(process: u32, key: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("the agent's process has ended")?;
    let line = status.lines().find(|line| line.starts_with(key)).with_context(|| format!("no {key}"))?;
    Ok(line.split_whitespace().nth(1).context("no figure")?.parse()?)
}
