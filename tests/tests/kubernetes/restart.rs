//! Processes die at the worst moments. Nothing is lost, nothing is doubled: the cloud's book says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Seen, taints, until};
use e2e::kubernetes::suite::{Skip, Stage, Told};
use e2e::kubernetes::world::{Options, World};
use fleetwright::store::own::OwnServer;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::scale::until_nothing_is_paid;

const PATIENCE: Duration = Duration::from_secs(90);

/// How far the newest machine has come when a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Pods wait, and nothing is bought.
    Pending,
    /// The NodeClaim is there.
    Claimed,
    /// The cloud has sold the machine.
    Sold,
    /// The Node is there, with the taint that keeps pods away until it is registered.
    Joined,
}

/// In the order in which a machine passes them.
const MOMENTS: [Moment; 4] = [Moment::Pending, Moment::Claimed, Moment::Sold, Moment::Joined];

/// Whoever dies.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Agent,
    Server,
}

async fn count(world: &World, api_version: &str, kind: &str) -> anyhow::Result<usize> {
    Ok(world.cluster.objects(api_version, kind).list(&ListParams::default()).await?.items.len())
}

/// Waits for `moment` of the machine that makes `machines` of them.
async fn until_moment(world: &World, moment: Moment, machines: usize) -> anyhow::Result<()> {
    let look = || async {
        let there = match moment {
            Moment::Pending => world.cluster.pods().await?.len(),
            Moment::Claimed => count(world, "karpenter.sh/v1", "NodeClaim").await?,
            Moment::Sold => world.book.read().await?.sold(),
            Moment::Joined => world.cluster.nodes().await?.len(),
        };
        Ok(if there >= machines { Seen::Done(()) } else { Seen::NotYet(format!("{there} of {machines}")) })
    };
    until(&format!("{moment:?}"), PATIENCE, look).await
}

fn kill_and_start(world: &mut World, victim: Victim) -> anyhow::Result<()> {
    let process = match victim {
        Victim::Agent => &mut world.agent,
        Victim::Server => &mut world.server,
    };
    process.kill()?;
    process.start()
}

/// m5.large leaves 1930 millicores to pods, so every pod of 1500 millicores needs a machine of its own.
async fn one_kind(world: &World) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    world.pool("default", requirements, json!({})).await?;
    world.cluster.deploy("web", 0, "1500m", "1Gi", json!({})).await
}

/// One machine more for each moment; the victim dies at that moment, and comes back at once. Then all pods go, and the victim
/// dies while the nodes drain.
async fn die_at_every_moment(world: &mut World, victim: Victim) -> Told {
    one_kind(world).await?;
    let start = Instant::now();
    for (done, moment) in MOMENTS.into_iter().enumerate() {
        let machines = done + 1;
        world.cluster.scale("web", u32::try_from(machines)?).await?;
        until_moment(world, moment, machines).await?;
        kill_and_start(world, victim)?;
        world.cluster.until_ready(i32::try_from(machines)?, PATIENCE).await.with_context(|| format!("{moment:?}"))?;
        let nodes = world.until_book_and_cluster_agree(PATIENCE).await.with_context(|| format!("{moment:?}"))?;
        ensure!(nodes == machines, "{nodes} nodes for {machines} pods after a death at {moment:?}");
    }
    let up = start.elapsed();
    world.cluster.scale("web", 0).await?;
    let draining = || async {
        let nodes = world.cluster.nodes().await?;
        let draining = nodes.iter().filter(|node| taints(node).contains(&"karpenter.sh/disrupted")).count();
        Ok(if draining > 0 || nodes.is_empty() {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{} nodes", nodes.len()))
        })
    };
    until("a node drains", PATIENCE, draining).await?;
    kill_and_start(world, victim)?;
    world.cluster.until_nodes(0, PATIENCE).await?;
    until_nothing_is_paid(world).await?;
    world.nothing_doubled().await?;
    let sold = world.book.read().await?.sold();
    ensure!(sold == MOMENTS.len(), "{sold} machines were sold where {} were needed", MOMENTS.len());
    Ok(format!(
        "killed at {MOMENTS:?} and while draining: {sold} machines sold for {} pods, none doubled, none left; up after {:.1} s",
        MOMENTS.len(),
        up.as_secs_f64()
    ))
}

/// `kill -9` of the agent.
pub(super) async fn of_the_agent(stage: Arc<Stage>) -> Told {
    let mut world = World::start(&stage, "agent-dies", Options::default()).await?;
    let played = die_at_every_moment(&mut world, Victim::Agent).await;
    played.with_context(|| world.last_words())
}

/// `kill -9` of the server; what it knows is in its database, what exists is in cluster and cloud.
pub(super) async fn of_the_server(stage: Arc<Stage>) -> Told {
    let skip = || Skip("needs PostgreSQL's server programs, and finds none".to_owned());
    let postgres = OwnServer::throwaway()?.ok_or_else(skip)?;
    let database = Some(postgres.url());
    let mut world = World::start(&stage, "server-dies", Options { database, ..Options::default() }).await?;
    let played = die_at_every_moment(&mut world, Victim::Server).await;
    played.with_context(|| world.last_words())
}

/// The API server dies while a machine is on its way, is away, and comes back.
pub(super) async fn of_the_api_server(stage: Arc<Stage>) -> Told {
    let world = World::start(&stage, "api-server-dies", Options::default()).await?;
    play_of_the_api_server(&stage, &world).await.with_context(|| world.last_words())
}

async fn play_of_the_api_server(stage: &Stage, world: &World) -> Told {
    one_kind(world).await?;
    world.cluster.scale("web", 3).await?;
    until_moment(world, Moment::Sold, 1).await?;
    let mut plane = stage.plane.lock().await;
    plane.kill()?;
    let away = Instant::now();
    plane.start_again()?;
    let away = away.elapsed();
    drop(plane);
    let start = Instant::now();
    world.cluster.until_ready(3, PATIENCE).await?;
    let ready = start.elapsed();
    let nodes = world.until_book_and_cluster_agree(PATIENCE).await?;
    ensure!(nodes == 3, "{nodes} nodes for 3 pods");
    world.cluster.scale("web", 0).await?;
    world.cluster.until_nodes(0, PATIENCE).await?;
    until_nothing_is_paid(world).await?;
    world.nothing_doubled().await?;
    let sold = world.book.read().await?.sold();
    ensure!(sold == 3, "{sold} machines were sold where 3 were needed");
    let claims = world.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&ListParams::default()).await?.items;
    ensure!(claims.is_empty(), "left: {:?}", claims.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    Ok(format!(
        "away for {:.1} s; three pods ready {:.1} s after it came back",
        away.as_secs_f64(),
        ready.as_secs_f64()
    ))
}
