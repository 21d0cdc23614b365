//! Columns of clusters.

use super::{cores_of, gibibytes_of, share_key};
use crate::column::{Cell, Column, Context, SortKey};
use crate::format;
use crate::row::{Cluster, id};
use crate::sums::{Sums, greater_permille};

/// The column of the waste: the first order, greatest first.
pub(crate) const WASTE: usize = 9;

fn sums(row: &Cluster, context: &Context<'_>) -> Sums {
    context.sums.of(Some(id(&row.name, 0)))
}

fn share(row: &Cluster, context: &Context<'_>) -> Option<i64> {
    let sums = sums(row, context);
    greater_permille(sums.cpu, sums.memory)
}

/// `unreachable` is more than stale: its nodes and pods are not known at all.
fn state(row: &Cluster, context: &Context<'_>) -> &'static str {
    if context.without_nodes.contains(id(&row.name, 0)) { "unreachable" } else { row.connection() }
}

fn seen_key(row: &Cluster) -> i64 {
    row.observed_ms.map_or(i64::MAX, |observed_ms| -observed_ms)
}

pub(crate) const COLUMNS: &[Column<Cluster>] = &[
    Column::text("CLUSTER", (16, 24), 0, SortKey::Name, |row, _, _| Cell::Text(id(&row.name, 0).to_owned())),
    Column::number(
        "NODES",
        6,
        2,
        |row, _| row.nodes.into(),
        |row, _, width| Cell::Text(format::count(row.nodes, width)),
    ),
    Column::number(
        "READY",
        6,
        9,
        |row, context| sums(row, context).ready,
        |row, context, _| Cell::Text(sums(row, context).ready.to_string()),
    ),
    Column::number("PODS", 7, 8, |row, _| row.pods.into(), |row, _, width| Cell::Text(format::count(row.pods, width))),
    Column::number(
        "PENDING",
        7,
        3,
        |row, _| row.pending_pods.into(),
        |row, _, width| Cell::Text(format::count(row.pending_pods, width)),
    ),
    Column::share(
        "REQUESTED",
        1,
        |row, context| share_key(share(row, context)),
        |row, context, _| Cell::Share(share(row, context)),
    ),
    Column::share(
        "CPU",
        10,
        |row, context| share_key(sums(row, context).cpu.permille()),
        |row, context, _| Cell::Share(sums(row, context).cpu.permille()),
    ),
    Column::share(
        "MEMORY",
        10,
        |row, context| share_key(sums(row, context).memory.permille()),
        |row, context, _| Cell::Share(sums(row, context).memory.permille()),
    ),
    Column::number(
        "$/HOUR",
        9,
        4,
        |row, _| row.price_micro_usd,
        |row, _, width| Cell::Text(format::dollars(row.price_micro_usd, width)),
    ),
    Column::number(
        "WASTE",
        9,
        5,
        |row, context| sums(row, context).waste_micro_usd,
        |row, context, width| Cell::Text(format::dollars(sums(row, context).waste_micro_usd, width)),
    ),
    Column::text("STATE", (12, 12), 6, SortKey::Text(Cluster::connection), |row, context, _| {
        Cell::Text(state(row, context).to_owned())
    }),
    Column::number(
        "SEEN",
        4,
        7,
        |row, _| seen_key(row),
        |row, context, _| Cell::Text(format::age(row.observed_ms, context.now_ms)),
    ),
    Column::number(
        "CORES REQ/ALLOC",
        17,
        12,
        |row, context| sums(row, context).cpu.allocatable,
        |row, context, _| cores_of(sums(row, context).cpu),
    ),
    Column::number(
        "GIB REQ/ALLOC",
        19,
        13,
        |row, context| sums(row, context).memory.allocatable,
        |row, context, _| gibibytes_of(sums(row, context).memory),
    ),
    Column::text("BLOCKED BY", (20, 60), 11, SortKey::Text(|row| &row.blocked_reason), |row, _, _| {
        Cell::Text(row.blocked_reason.clone())
    }),
    Column::text("AGENT", (8, 12), 14, SortKey::Text(|row| &row.agent_version), |row, _, _| {
        Cell::Text(row.agent_version.clone())
    }),
    Column::text("REPLICA", (12, 30), 15, SortKey::Text(|row| &row.replica), |row, _, _| {
        Cell::Text(row.replica.clone())
    }),
];
