//! Columns of nodes.

use super::{age_key, cores_of, gibibytes_of, share_key};
use crate::column::{Cell, Column, SortKey};
use crate::format;
use crate::row::{Node, id};
use crate::sums::greater_permille;

/// The column of the waste: the first order, greatest first.
pub(crate) const WASTE: usize = 10;

fn share(row: &Node) -> Option<i64> {
    greater_permille(row.cpu(), row.memory())
}

/// `on-demand` is `od` in a narrow column.
fn capacity(row: &Node, width: usize) -> &str {
    match &*row.capacity_type {
        "on-demand" if width < 9 => "od",
        "reserved" if width < 8 => "rsvd",
        other => other,
    }
}

/// Empty for a node without a price, which is not free.
fn price(row: &Node, micro_usd: i64, width: usize) -> Cell {
    Cell::Text(if row.price_micro_usd == 0 { "-".to_owned() } else { format::dollars(micro_usd, width) })
}

fn state(row: &Node, width: usize) -> Cell {
    Cell::Text(if width < 10 { row.stage.short_name() } else { row.stage.full_name() }.to_owned())
}

fn leaves(row: &Node) -> String {
    let reasons = [&*row.removal_reason, &*row.drain_blocked_reason];
    reasons.into_iter().filter(|reason| !reason.is_empty()).collect::<Vec<_>>().join("; ")
}

pub(crate) const COLUMNS: &[Column<Node>] = &[
    Column::text("CLUSTER", (10, 16), 9, SortKey::Text(|row: &Node| id(&row.name, 0)), |row, _, _| {
        Cell::Text(id(&row.name, 0).to_owned())
    })
    .for_fleet(),
    Column::text("NODE", (14, 26), 0, SortKey::Text(|row: &Node| row.shown_name()), |row, _, _| {
        Cell::Text(row.shown_name().to_owned())
    }),
    Column::share("REQUESTED", 1, |row, _| share_key(share(row)), |row, _, _| Cell::Share(share(row))),
    Column::share("CPU", 11, |row, _| share_key(row.cpu().permille()), |row, _, _| Cell::Share(row.cpu().permille())),
    Column::share(
        "MEMORY",
        11,
        |row, _| share_key(row.memory().permille()),
        |row, _, _| Cell::Share(row.memory().permille()),
    ),
    Column::number("PODS", 4, 3, |row, _| row.pods.into(), |row, _, width| Cell::Text(format::count(row.pods, width))),
    Column::text("TYPE", (11, 16), 4, SortKey::Text(|row| &row.instance_type), |row, _, _| {
        Cell::Text(row.instance_type.clone())
    }),
    Column::text("ZONE", (10, 14), 5, SortKey::Text(|row| &row.zone), |row, _, _| Cell::Text(row.zone.clone())),
    Column::text("CAP", (4, 9), 6, SortKey::Text(|row| &row.capacity_type), |row, _, width| {
        Cell::Text(capacity(row, width).to_owned())
    }),
    Column::number(
        "$/HOUR",
        7,
        2,
        |row, _| row.price_micro_usd,
        |row, _, width| price(row, row.price_micro_usd, width),
    ),
    Column::number(
        "WASTE",
        7,
        10,
        |row, _| row.waste_micro_usd(),
        |row, _, width| price(row, row.waste_micro_usd(), width),
    ),
    Column::text("STATE", (8, 10), 7, SortKey::Text(|row| row.stage.full_name()), |row, _, width| state(row, width)),
    Column::number(
        "AGE",
        4,
        8,
        |row, _| age_key(row.created_ms),
        |row, context, _| Cell::Text(format::age(row.created_ms, context.now_ms)),
    ),
    Column::text("NODEPOOL", (10, 16), 10, SortKey::Text(|row| &row.pool), |row, _, _| Cell::Text(row.pool.clone())),
    Column::number("CORES REQ/ALLOC", 15, 12, |row, _| row.cpu_allocatable_millis, |row, _, _| cores_of(row.cpu())),
    Column::number(
        "GIB REQ/ALLOC",
        15,
        13,
        |row, _| row.memory_allocatable_bytes,
        |row, _, _| gibibytes_of(row.memory()),
    ),
    Column::text("WHY IT LEAVES", (20, 60), 14, SortKey::Text(|row| &row.removal_reason), |row, _, _| {
        Cell::Text(leaves(row))
    }),
    Column::text("NODECLAIM", (12, 30), 15, SortKey::Text(|row| &row.node_claim), |row, _, _| {
        Cell::Text(row.node_claim.clone())
    }),
];
