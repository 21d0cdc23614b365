//! What a server knows of a cluster from the messages of its agent: records, messages, and the session that decodes them.

use agent::Record;
use agent::intern::Interner;
use agent::link::chunk::snapshot_parts;
use agent_kubernetes::records::{self, Parser, claim, manifest, node, pod, policy, shape::ShapeInterner, storage};
use agent_session::{Output, PoolReader, Session, SessionEvent, Settings};
use cluster::{ClusterState, Observation, PoolRecord};
use controller::{ClusterEvent, Event};
use fleetwright_proto::v1;
use fleetwright_proto::v1::connect_request::Message;
use model::Timestamp;
use serde_json::Value;

/// How the agent parses objects of a kind; `None` for kinds that it does not watch.
fn parser(kind: &str) -> Option<Parser> {
    Some(match kind {
        "Pod" => pod::parse,
        "DaemonSet" => pod::parse_daemon_set,
        "Node" => node::parse,
        "CSINode" => node::parse_csi,
        "NodeClaim" => claim::parse,
        "NodePool" => manifest::parse_pool,
        "EC2NodeClass" => manifest::parse_class,
        "Namespace" => policy::parse_namespace,
        "PodDisruptionBudget" => policy::parse_budget,
        "PersistentVolumeClaim" => storage::parse_volume_claim,
        "PersistentVolume" => storage::parse_volume,
        "StorageClass" => storage::parse_class,
        _ => return None,
    })
}

/// The records of an agent that watches `objects`.
///
/// # Panics
/// The agent cannot parse an object.
#[must_use]
pub fn records(objects: &[Value]) -> Vec<Record> {
    let mut shapes = ShapeInterner::default();
    let read = |object: &Value| {
        let parser = parser(object["kind"].as_str().unwrap_or_default())?;
        Some(
            records::parse(parser, &object.to_string(), &mut shapes)
                .expect("an object that the agent can parse")
                .record,
        )
    };
    objects.iter().filter_map(read).collect()
}

/// The state of a cluster whose agent sends `records` and whose NodePools are read as `pools`, for an owner that knows
/// nothing else of the cluster.
///
/// # Panics
/// The session refuses a message.
#[must_use]
pub fn observe(records: Vec<Record>, pools: Vec<PoolRecord>, now: Timestamp) -> ClusterState {
    let (mut interner, mut changes) = (Interner::new(), Vec::new());
    records.into_iter().for_each(|record| interner.write_record(record, &mut changes));
    let reader = PoolReader::new(move |_| pools.clone());
    let mut session = Session::new("blue".into(), Settings::default(), Default::default(), reader);
    session.handle_hello(v1::Hello { cluster_uid: "u".into(), ..v1::Hello::default() });
    session.accept(1, now);
    let mut state = ClusterState::default();
    for part in snapshot_parts(changes, now.as_millis()) {
        let message = Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) });
        for output in session.handle_request(v1::ConnectRequest { message: Some(message) }, now) {
            match output {
                Output::Notify(SessionEvent::ClusterEvent(ClusterEvent {
                    event: Event::Observed(observation),
                    ..
                })) => {
                    assert!(matches!(observation, Observation::Snapshot(_)), "a change beside the snapshot");
                    state.apply(observation, now);
                }
                Output::Close(why) => panic!("the session ends: {why}"),
                _ => {}
            }
        }
    }
    assert!(state.is_synced(), "no snapshot");
    state.mark_drained_claims();
    state
}
