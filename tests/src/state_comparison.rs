//! Compares what files and the messages of an agent say of one cluster: its planning input, and what runs.

use std::sync::Arc;

use agent::Record;
use cloud::catalogue::Snapshot;
use cluster::{PoolDriftFacts, PoolMeta, PoolRecord, running_cluster};
use manifests::Source;
use model::input::PlanningInput;
use model::running::RunningCluster;
use model::{Millis, NodePool, Timestamp};
use planning_input::{Captured, Options};
use serde_json::{Value, json};

use crate::agent_state;
use crate::random_cluster::CATALOGUE;

/// How files are read: a catalogue of many types would be most of the time of a comparison.
///
/// # Panics
/// The catalogue of random clusters cannot be parsed.
#[must_use]
pub fn options(now: Timestamp) -> Options {
    let snapshot = Snapshot::parse(CATALOGUE.as_bytes()).expect("a catalogue");
    Options {
        snapshot: Some(Arc::new(snapshot)),
        region: Some("us-east-1".into()),
        disrupt: true,
        now,
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

/// Whether `objects` of files and `records` of an agent lead to one planning input, and to one view of what runs.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// The files have mistakes, or the session refuses the records.
pub fn compare(objects: &[Value], records: Vec<Record>, options: &Options) -> Result<(), String> {
    let files = captured(objects, options);
    let is_karpenters = |object: &&Value| ["NodePool", "EC2NodeClass"].iter().any(|kind| object["kind"] == **kind);
    let karpenters: Vec<Value> = objects.iter().filter(is_karpenters).cloned().collect();
    let state = agent_state::observe(records, pool_records(&karpenters, options), options.now);
    let mut input: PlanningInput = state.planning_input(&files.input.policy, options.now);
    let running = running_cluster(&state, &mut input, Millis::ZERO);
    if let Some(found) = difference(&files.input, &input) {
        return Err(format!("the planning inputs differ\n{found}"));
    }
    match difference(&comparable(files.running), &comparable(running)) {
        Some(found) => Err(format!("what runs differs\n{found}")),
        None => Ok(()),
    }
}
