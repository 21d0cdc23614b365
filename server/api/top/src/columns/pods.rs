//! Columns of pods that wait.

use super::age_key;
use crate::column::{Cell, Column, SortKey};
use crate::format;
use crate::row::{Pod, id};

/// The column of the age: the first order, oldest first.
pub(crate) const AGE: usize = 5;

/// Where the pod is planned, or why nowhere.
fn outlook(row: &Pod) -> &str {
    if row.planned_node.is_empty() { &row.reasons } else { &row.planned_node }
}

pub(crate) const COLUMNS: &[Column<Pod>] = &[
    Column::text("CLUSTER", (10, 24), 6, SortKey::Text(|row: &Pod| id(&row.name, 0)), |row, _, _| {
        Cell::Text(id(&row.name, 0).to_owned())
    })
    .for_fleet(),
    Column::text("NAMESPACE/POD", (25, 50), 0, SortKey::Name, |row, _, _| {
        Cell::Text(format!("{}/{}", id(&row.name, 1), id(&row.name, 2)))
    }),
    Column::text("STATE", (13, 13), 1, SortKey::Text(|row| row.state.name()), |row, _, _| {
        Cell::Text(row.state.name().to_owned())
    }),
    Column::number("CPU", 7, 2, |row, _| row.cpu_millis, |row, _, _| Cell::Text(format::cpu_request(row.cpu_millis))),
    Column::number(
        "MEMORY",
        8,
        3,
        |row, _| row.memory_bytes,
        |row, _, _| Cell::Text(format::memory_request(row.memory_bytes)),
    ),
    Column::number(
        "AGE",
        4,
        4,
        |row, _| age_key(row.created_ms),
        |row, context, _| Cell::Text(format::age(row.created_ms, context.now_ms)),
    ),
    Column::text("PLACE OR REASON", (16, 200), 5, SortKey::Text(outlook), |row, _, _| {
        Cell::Text(outlook(row).to_owned())
    }),
];
