//! The way of an agent: objects as its watches deliver them, its records, its messages, and the session that decodes them.

use agent::intern::Interner;
use agent::link::chunk::snapshot_parts;
use agent_kubernetes::records::{Parser, claim, manifest, node, pod, policy, shape::ShapeInterner, storage};
use agent_session::{Output, PoolReader, Session, SessionEvent, Settings};
use cluster::{Observation, PoolRecord};
use controller::Event;
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

fn changes(objects: &[Value]) -> Vec<v1::Change> {
    let (mut shapes, mut interner, mut changes) = (ShapeInterner::default(), Interner::new(), Vec::new());
    for object in objects {
        let Some(parse) = parser(object["kind"].as_str().unwrap_or_default()) else { continue };
        let parsed = parse(&object.to_string(), &mut shapes).expect("an object that the agent can parse");
        interner.write_record(parsed.record, &mut changes);
    }
    changes
}

/// What a session observes of a cluster with `objects`, whose NodePools are read as `pools`.
pub(crate) fn observations(objects: &[Value], pools: Vec<PoolRecord>, now: Timestamp) -> Vec<Observation> {
    let reader = PoolReader::new(move |_| pools.clone());
    let mut session = Session::new("blue".into(), Settings::default(), Default::default(), reader);
    session.handle_hello(v1::Hello { cluster_uid: "u".into(), ..v1::Hello::default() });
    session.accept(1, now);
    let mut observed = Vec::new();
    for part in snapshot_parts(changes(objects), now.as_millis()) {
        let message = Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) });
        for output in session.handle_request(v1::ConnectRequest { message: Some(message) }, now) {
            match output {
                Output::Notify(SessionEvent::ClusterEvent(Event::Observed { observation, .. })) => {
                    observed.push(observation);
                }
                Output::Close(why) => panic!("the session ends: {why}"),
                _ => {}
            }
        }
    }
    assert_eq!(observed.len(), 1, "one snapshot");
    observed
}
