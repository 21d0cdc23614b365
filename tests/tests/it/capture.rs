//! A cluster is read alike from the messages of its agent and from the manifests of its objects: both give one planning
//! input, and one view of what runs.

use std::sync::Arc;

use cloud::catalogue::Snapshot;
use cluster::{ClusterState, PoolDriftFacts, PoolMeta, PoolRecord, running_cluster};
use e2e::agent_state;
use e2e::random_cluster::{CATALOGUE, RandomCluster};
use manifests::Source;
use model::input::PlanningInput;
use model::running::RunningCluster;
use model::{Millis, NodePool, Timestamp};
use planning_input::{Captured, Options};
use serde_json::{Value, json};

/// 2026-06-01T12:00:00Z, as the objects of [`e2e::random_cluster`] have it.
const NOW: Timestamp = Timestamp::from_millis(1_780_315_200_000);
/// Random clusters of one run; `CAPTURE_CLUSTERS` sets another number.
const CLUSTERS: u64 = 300;

/// A catalogue is most of the time of a run: one that knows no types.
fn options() -> Options {
    let snapshot = Snapshot::parse(CATALOGUE.as_bytes()).expect("a catalogue");
    Options {
        snapshot: Some(Arc::new(snapshot)),
        region: Some("us-east-1".into()),
        disrupt: true,
        now: NOW,
        allow_no_objects: true,
        ..Options::default()
    }
}

/// What files with `objects` say.
fn captured(objects: &[Value], options: &Options) -> Captured {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let source = Source { name: "capture.json".into(), bytes: list.to_string().into_bytes() };
    planning_input::read([source], options).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// What the NodePools of files say, as a server reads them.
fn pool_records(objects: &[Value], options: &Options) -> Vec<PoolRecord> {
    let Captured { input, running, .. } = captured(objects, options);
    let managed = |name: &str| {
        let pool = objects.iter().find(|object| object["kind"] == "NodePool" && object["metadata"]["name"] == name)?;
        pool["metadata"]["annotations"]["fleetwright.dev/managed"].as_str()?.parse().ok()
    };
    let record = |pool: NodePool| PoolRecord {
        disruption: running.policies.get(&pool.name).cloned().unwrap_or_default(),
        revision: "1".into(),
        meta: PoolMeta { managed: managed(&pool.name), ..PoolMeta::default() },
        drift: PoolDriftFacts::default(),
        pool,
    };
    input.pools.into_iter().map(record).collect()
}

/// The state that the messages of an agent lead to, as an owner has it that knows nothing else of the cluster.
fn observed(objects: &[Value], options: &Options) -> ClusterState {
    let is_karpenters = |object: &&Value| ["NodePool", "EC2NodeClass"].iter().any(|kind| object["kind"] == **kind);
    let karpenters: Vec<Value> = objects.iter().filter(is_karpenters).cloned().collect();
    let pools = pool_records(&karpenters, options);
    agent_state::observe(agent_state::records(objects), pools, NOW)
}

/// Without what only prices, times and NodePools tell: these are read beside the state.
fn comparable(mut running: RunningCluster) -> RunningCluster {
    for node in &mut running.nodes {
        node.price = model::MicroUsd::default();
        if let Some(claim) = &mut node.claim {
            (claim.expires, claim.drift, claim.unhealthy) = (None, None, None);
            claim.consolidatable = model::running::Consolidatable::Never;
        }
    }
    running
}

/// The first difference of two values, each printed on many lines.
fn difference(one: &impl std::fmt::Debug, other: &impl std::fmt::Debug) -> Option<String> {
    let (one, other) =
        (format!("{one:#?}"), format!("{other:#?}").replace("is not in the cluster", "is not in the input"));
    let mut lines = one.lines().zip(other.lines()).enumerate();
    let found = lines.find(|(_, (left, right))| left != right).map(|(at, _)| at);
    let at = found.or_else(|| (one.len() != other.len()).then(|| one.lines().count().min(other.lines().count())))?;
    let around = |text: &str| text.lines().skip(at.saturating_sub(25)).take(30).collect::<Vec<_>>().join("\n");
    Some(format!("files:\n{}\n\nagent:\n{}", around(&one), around(&other)))
}

fn judge(objects: &[Value], options: &Options) -> Result<(), String> {
    let files = captured(objects, options);
    let state = observed(objects, options);
    let mut input: PlanningInput = state.planning_input(&files.input.policy, NOW);
    let running = running_cluster(&state, &mut input, Millis::ZERO);
    if let Some(found) = difference(&files.input, &input) {
        return Err(format!("the planning inputs differ\n{found}"));
    }
    match difference(&comparable(files.running), &comparable(running)) {
        Some(found) => Err(format!("what runs differs\n{found}")),
        None => Ok(()),
    }
}

#[test]
fn files_and_agents_give_one_planning_input() {
    let options = options();
    let clusters = std::env::var("CAPTURE_CLUSTERS").ok().map_or(CLUSTERS, |text| text.parse().expect("a number"));
    for seed in 0..clusters {
        let objects = RandomCluster::of(seed).objects();
        if let Err(found) = judge(&objects, &options) {
            panic!("seed {seed}: {found}\n\nobjects:\n{}", serde_json::to_string_pretty(&objects).unwrap_or_default());
        }
    }
}
