//! The fields by which lists are filtered and ordered.

use std::sync::LazyLock;

use fleetwright_proto::v1;
use listing::{PageSizes, Schema};
use prost_types::Timestamp;

/// Rows of a page of every list.
const PAGE_SIZES: PageSizes = PageSizes { default: 100, maximum: 1_000 };

fn millis(time: Option<&Timestamp>) -> Option<i64> {
    time.map(api_messages::to_millis)
}

/// The names of all values of an enum, in the order of their numbers, which are less than 256. They live as long as the
/// schemas, which end with the program.
fn names<E: TryFrom<i32>>(name: fn(&E) -> &'static str) -> &'static [&'static str] {
    (0..256).filter_map(|number| Some(name(&E::try_from(number).ok()?))).collect::<Vec<_>>().leak()
}

/// `None` if it is empty: the resource has no value for the field.
fn text(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.is_empty())
}

/// A number of things that has a value in every resource.
macro_rules! count {
    ($field:ident) => {
        |row| Some(i64::from(row.$field))
    };
}

pub static CLUSTERS: LazyLock<Schema<v1::Cluster>> = LazyLock::new(|| {
    Schema::new("clusters", PAGE_SIZES, "name", |row: &v1::Cluster| &row.name)
        .text("uid", |row| text(&row.uid))
        .boolean("stale", |row| Some(row.stale))
        .text("replica", |row| text(&row.replica))
        .boolean("connected", |row| Some(row.connected))
        .boolean("synced", |row| Some(row.synced))
        .text("agent_version", |row| text(&row.agent_version))
        .int("node_count", count!(node_count))
        .int("machine_count", count!(machine_count))
        .int("pod_count", count!(pod_count))
        .int("pending_pod_count", count!(pending_pod_count))
        .int("price_micro_usd_per_hour", |row| Some(row.price_micro_usd_per_hour))
        .text("blocked_reason", |row| text(&row.blocked_reason))
        .int("unavailable_offering_count", count!(unavailable_offering_count))
        .boolean("guardrails.shadow", |row| row.guardrails.as_ref().map(|guardrails| guardrails.shadow))
        .int("guardrails.waiting_removal_count", |row| {
            row.guardrails.as_ref().map(|guardrails| guardrails.waiting_removal_count.into())
        })
        .texts("autoscalers", |row, index| row.autoscalers.get(index).map(String::as_str))
});

pub(crate) static POOLS: LazyLock<Schema<v1::Pool>> = LazyLock::new(|| {
    Schema::new("pools", PAGE_SIZES, "name", |row: &v1::Pool| &row.name)
        .int("weight", count!(weight))
        .int("machine_count", count!(machine_count))
        .int("price_micro_usd_per_hour", |row| Some(row.price_micro_usd_per_hour))
        .text("not_ready_reason", |row| text(&row.not_ready_reason))
        .timestamp("not_ready_time", |row| millis(row.not_ready_time.as_ref()))
        .int("disrupted_node_count", count!(disrupted_node_count))
        .int("drifted_node_count", count!(drifted_node_count))
        .int("limited_pod_count", count!(limited_pod_count))
        .boolean("deleted", |row| Some(row.deleted))
});

pub(crate) static NODES: LazyLock<Schema<v1::Node>> = LazyLock::new(|| {
    Schema::new("nodes", PAGE_SIZES, "name", |row: &v1::Node| &row.name)
        .text("uid", |row| text(&row.uid))
        .text("node", |row| text(&row.node))
        .text("node_claim", |row| text(&row.node_claim))
        .text("pool", |row| text(&row.pool))
        .text("provider_id", |row| text(&row.provider_id))
        .text("instance_type", |row| text(&row.instance_type))
        .text("zone", |row| text(&row.zone))
        .enumeration("capacity_type", names(v1::CapacityType::as_str_name), |row| {
            Some(row.capacity_type().as_str_name())
        })
        .enumeration("stage", names(v1::NodeStage::as_str_name), |row| Some(row.stage().as_str_name()))
        .timestamp("stage_time", |row| millis(row.stage_time.as_ref()))
        .timestamp("create_time", |row| millis(row.create_time.as_ref()))
        .int("price_micro_usd_per_hour", |row| Some(row.price_micro_usd_per_hour))
        .int("pod_count", count!(pod_count))
        .int("cpu_requested_millis", |row| Some(row.cpu_requested_millis))
        .int("cpu_allocatable_millis", |row| Some(row.cpu_allocatable_millis))
        .int("memory_requested_bytes", |row| Some(row.memory_requested_bytes))
        .int("memory_allocatable_bytes", |row| Some(row.memory_allocatable_bytes))
        .text("removal_reason", |row| text(&row.removal_reason))
        .text("drain_blocked_reason", |row| text(&row.drain_blocked_reason))
});

pub static PODS: LazyLock<Schema<v1::Pod>> = LazyLock::new(|| {
    Schema::new("pods", PAGE_SIZES, "name", |row: &v1::Pod| &row.name)
        .text("uid", |row| text(&row.uid))
        .timestamp("create_time", |row| millis(row.create_time.as_ref()))
        .enumeration("state", names(v1::PodState::as_str_name), |row| Some(row.state().as_str_name()))
        .text("planned_node", |row| text(&row.planned_node))
        .texts("reasons.code", |row, index| row.reasons.get(index).map(|reason| &*reason.code))
        .texts("reasons.pool", |row, index| row.reasons.get(index).map(|reason| &*reason.pool))
        .int("cpu_millis", |row| Some(row.cpu_millis))
        .int("memory_bytes", |row| Some(row.memory_bytes))
});

pub(crate) static DECISIONS: LazyLock<Schema<v1::Decision>> = LazyLock::new(|| {
    Schema::new("decisions", PAGE_SIZES, "name", |row: &v1::Decision| &row.name)
        .timestamp("decide_time", |row| millis(row.decide_time.as_ref()))
        .enumeration("kind", names(v1::DecisionKind::as_str_name), |row| Some(row.kind().as_str_name()))
        .text("summary", |row| text(&row.summary))
        .text("trace_id", |row| text(&row.trace_id))
        .int("moved_pod_count", count!(moved_pod_count))
        .int("savings_micro_usd_per_hour", |row| Some(row.savings_micro_usd_per_hour))
        .texts("planned_by", |row, index| row.planned_by.get(index).map(String::as_str))
        .int("unschedulable_pod_count", count!(unschedulable_pod_count))
});

pub(crate) static HOLDS: LazyLock<Schema<v1::Hold>> = LazyLock::new(|| {
    Schema::new("holds", PAGE_SIZES, "name", |row: &v1::Hold| &row.name)
        .text("cluster", |row| text(&row.cluster))
        .text("creator", |row| text(&row.creator))
        .enumeration("kind", names(v1::HoldKind::as_str_name), |row| Some(row.kind().as_str_name()))
        .boolean("guaranteed", |row| Some(row.guaranteed))
        .enumeration("state", names(v1::HoldState::as_str_name), |row| Some(row.state().as_str_name()))
        .timestamp("create_time", |row| millis(row.create_time.as_ref()))
        .timestamp("expire_time", |row| millis(row.expire_time.as_ref()))
        .timestamp("commit_time", |row| millis(row.commit_time.as_ref()))
        .timestamp("end_time", |row| millis(row.end_time.as_ref()))
        .int("price_micro_usd_per_hour", |row| Some(row.price_micro_usd_per_hour))
});

pub(crate) static PROBLEMS: LazyLock<Schema<v1::Problem>> = LazyLock::new(|| {
    Schema::new("problems", PAGE_SIZES, "name", |row: &v1::Problem| &row.name)
        .enumeration("severity", names(v1::Severity::as_str_name), |row| Some(row.severity().as_str_name()))
        .text("code", |row| text(&row.code))
        .text("resource", |row| text(&row.resource))
        .text("summary", |row| text(&row.summary))
        .timestamp("start_time", |row| millis(row.start_time.as_ref()))
        .int("count", count!(count))
});

pub(crate) static OFFERINGS: LazyLock<Schema<v1::Offering>> = LazyLock::new(|| {
    Schema::new("offerings", PAGE_SIZES, "name", |row: &v1::Offering| &row.name)
        .text("account", |row| text(&row.account))
        .text("scope", |row| text(&row.scope))
        .text("instance_type", |row| text(&row.instance_type))
        .text("zone_id", |row| text(&row.zone_id))
        .enumeration("capacity_type", names(v1::CapacityType::as_str_name), |row| {
            Some(row.capacity_type().as_str_name())
        })
        .int("min_count", count!(min_count))
        .int("failure_count", count!(failure_count))
        .timestamp("refuse_time", |row| millis(row.refuse_time.as_ref()))
        .timestamp("exclude_until_time", |row| millis(row.exclude_until_time.as_ref()))
        .text("reason", |row| text(&row.reason))
});
