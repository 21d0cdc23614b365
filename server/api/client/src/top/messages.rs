//! Rows of the picture from messages of the API.

use ::top::{Change, Cluster, Delta, Node, Pod, PodState, Stage};
use fleetwright_proto::v1;
use prost_types::Timestamp;

use api_messages::{enum_values, to_millis};
use command::escape::escape_unprintable;

pub(super) fn clusters(delta: Delta<v1::Cluster>) -> Change {
    Change::Clusters(mapped(delta, cluster))
}

pub(super) fn nodes(delta: Delta<v1::Node>) -> Change {
    Change::Nodes(mapped(delta, node))
}

pub(super) fn pods(delta: Delta<v1::Pod>) -> Change {
    Change::Pods(mapped(delta, pod))
}

fn mapped<M, R>(delta: Delta<M>, row: fn(M) -> R) -> Delta<R> {
    let printable_names = |names: Vec<String>| names.into_iter().map(printable).collect();
    let (reset, deleted) = (printable_names(delta.reset), printable_names(delta.deleted));
    Delta { reset, rows: delta.rows.into_iter().map(row).collect(), deleted }
}

/// Texts come from clusters: control characters could change the terminal.
fn printable(text: String) -> String {
    match escape_unprintable(&text) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(escaped) => escaped,
    }
}

/// A number of things, which the server sends as a signed one.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

fn millis(time: Option<&Timestamp>) -> Option<i64> {
    time.map(to_millis)
}

fn cluster(row: v1::Cluster) -> Cluster {
    Cluster {
        observed_ms: millis(row.observe_time.as_ref()),
        name: printable(row.name),
        nodes: count(row.node_count),
        pods: count(row.pod_count),
        pending_pods: count(row.pending_pod_count),
        price_micro_usd: row.price_micro_usd_per_hour,
        is_stale: row.stale,
        is_connected: row.connected,
        is_synced: row.synced,
        replica: printable(row.replica),
        agent_version: printable(row.agent_version),
        blocked_reason: printable(row.blocked_reason),
    }
}

fn node(row: v1::Node) -> Node {
    Node {
        stage: stage(row.stage()),
        capacity_type: enum_values::capacity_type_label(row.capacity_type()),
        created_ms: millis(row.create_time.as_ref()),
        name: printable(row.name),
        node: printable(row.node),
        node_claim: printable(row.node_claim),
        pool: printable(row.pool),
        instance_type: printable(row.instance_type),
        zone: printable(row.zone),
        price_micro_usd: row.price_micro_usd_per_hour,
        pods: count(row.pod_count),
        cpu_requested_millis: row.cpu_requested_millis,
        cpu_allocatable_millis: row.cpu_allocatable_millis,
        memory_requested_bytes: row.memory_requested_bytes,
        memory_allocatable_bytes: row.memory_allocatable_bytes,
        removal_reason: printable(row.removal_reason),
        drain_blocked_reason: printable(row.drain_blocked_reason),
    }
}

fn stage(stage: v1::NodeStage) -> Stage {
    match stage {
        v1::NodeStage::Unspecified => Stage::Unknown,
        v1::NodeStage::Launching => Stage::Launching,
        v1::NodeStage::Booting => Stage::Booting,
        v1::NodeStage::Registered => Stage::Registered,
        v1::NodeStage::Ready => Stage::Ready,
        v1::NodeStage::Deleting => Stage::Draining,
        v1::NodeStage::NotReady => Stage::NotReady,
    }
}

fn pod(row: v1::Pod) -> Pod {
    let state = match row.state() {
        v1::PodState::Unspecified => PodState::Unknown,
        v1::PodState::Waiting => PodState::Waiting,
        v1::PodState::Planned => PodState::Planned,
        v1::PodState::Unschedulable => PodState::Unschedulable,
    };
    let reasons = row.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message));
    Pod {
        state,
        created_ms: millis(row.create_time.as_ref()),
        reasons: printable(reasons.collect::<Vec<_>>().join("; ")),
        name: printable(row.name),
        planned_node: printable(row.planned_node),
        cpu_millis: row.cpu_millis,
        memory_bytes: row.memory_bytes,
    }
}
