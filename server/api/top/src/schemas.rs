//! The fields of rows that filters name: as in the API.

use listing::{PageSizes, Schema};

use crate::row::{Cluster, Node, Pod, PodState, Stage};

/// No list of this crate has pages.
const PAGE_SIZES: PageSizes = PageSizes { default: 1, maximum: 1 };

const STAGES: &[&str] = &[
    "NODE_STAGE_UNSPECIFIED",
    "NODE_STAGE_LAUNCHING",
    "NODE_STAGE_BOOTING",
    "NODE_STAGE_REGISTERED",
    "NODE_STAGE_READY",
    "NODE_STAGE_DELETING",
    "NODE_STAGE_NOT_READY",
];

const POD_STATES: &[&str] =
    &["POD_STATE_UNSPECIFIED", "POD_STATE_WAITING", "POD_STATE_PLANNED", "POD_STATE_UNSCHEDULABLE"];

const CAPACITY_TYPES: &[&str] =
    &["CAPACITY_TYPE_UNSPECIFIED", "CAPACITY_TYPE_ON_DEMAND", "CAPACITY_TYPE_SPOT", "CAPACITY_TYPE_RESERVED"];

/// The enum's value of the label's value.
fn capacity_type_name(label: &str) -> &'static str {
    CAPACITY_TYPES[match label {
        "on-demand" => 1,
        "spot" => 2,
        "reserved" => 3,
        _ => 0,
    }]
}

/// `None` if it is empty: the row has no value for the field.
fn text(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.is_empty())
}

fn stage_name(stage: Stage) -> &'static str {
    STAGES[match stage {
        Stage::Unknown => 0,
        Stage::Launching => 1,
        Stage::Booting => 2,
        Stage::Registered => 3,
        Stage::Ready => 4,
        Stage::Draining => 5,
        Stage::NotReady => 6,
    }]
}

fn state_name(state: PodState) -> &'static str {
    POD_STATES[match state {
        PodState::Unknown => 0,
        PodState::Waiting => 1,
        PodState::Planned => 2,
        PodState::Unschedulable => 3,
    }]
}

pub(crate) fn clusters() -> Schema<Cluster> {
    Schema::new("clusters", PAGE_SIZES, "name", |row: &Cluster| &row.name)
        .boolean("stale", |row| Some(row.is_stale))
        .boolean("connected", |row| Some(row.is_connected))
        .boolean("synced", |row| Some(row.is_synced))
        .text("replica", |row| text(&row.replica))
        .text("agent_version", |row| text(&row.agent_version))
        .int("node_count", |row| Some(row.nodes.into()))
        .int("pod_count", |row| Some(row.pods.into()))
        .int("pending_pod_count", |row| Some(row.pending_pods.into()))
        .int("price_micro_usd_per_hour", |row| Some(row.price_micro_usd))
        .text("blocked_reason", |row| text(&row.blocked_reason))
}

pub(crate) fn nodes() -> Schema<Node> {
    Schema::new("nodes", PAGE_SIZES, "name", |row: &Node| &row.name)
        .text("node", |row| text(&row.node))
        .text("node_claim", |row| text(&row.node_claim))
        .text("pool", |row| text(&row.pool))
        .text("instance_type", |row| text(&row.instance_type))
        .text("zone", |row| text(&row.zone))
        .enumeration("capacity_type", CAPACITY_TYPES, |row| Some(capacity_type_name(&row.capacity_type)))
        .enumeration("stage", STAGES, |row| Some(stage_name(row.stage)))
        .timestamp("create_time", |row| row.created_ms)
        .int("price_micro_usd_per_hour", |row| Some(row.price_micro_usd))
        .int("pod_count", |row| Some(row.pods.into()))
        .int("cpu_requested_millis", |row| Some(row.cpu_requested_millis))
        .int("cpu_allocatable_millis", |row| Some(row.cpu_allocatable_millis))
        .int("memory_requested_bytes", |row| Some(row.memory_requested_bytes))
        .int("memory_allocatable_bytes", |row| Some(row.memory_allocatable_bytes))
        .text("removal_reason", |row| text(&row.removal_reason))
        .text("drain_blocked_reason", |row| text(&row.drain_blocked_reason))
}

pub(crate) fn pods() -> Schema<Pod> {
    Schema::new("pods", PAGE_SIZES, "name", |row: &Pod| &row.name)
        .timestamp("create_time", |row| row.created_ms)
        .enumeration("state", POD_STATES, |row| Some(state_name(row.state)))
        .text("planned_node", |row| text(&row.planned_node))
        .int("cpu_millis", |row| Some(row.cpu_millis))
        .int("memory_bytes", |row| Some(row.memory_bytes))
}
