//! The columns of each kind of rows.

pub(crate) mod clusters;
pub(crate) mod nodes;
pub(crate) mod pods;

use crate::column::Cell;
use crate::format;
use crate::sums::Requests;

/// `1.5/3.9`: requested and allocatable.
fn cores_of(cpu: Requests) -> Cell {
    of(cpu, format::cores)
}

fn gibibytes_of(memory: Requests) -> Cell {
    of(memory, format::gibibytes)
}

fn of(requests: Requests, text: fn(i64) -> String) -> Cell {
    Cell::Text(format!("{}/{}", text(requests.requested), text(requests.allocatable)))
}

/// Greater for what was created earlier; least where that is not known.
fn age_key(created_ms: Option<i64>) -> i64 {
    created_ms.map_or(i64::MIN, |created_ms| -created_ms)
}

/// Thousandths as a key: least where there is no value.
fn share_key(permille: Option<i64>) -> i64 {
    permille.unwrap_or(i64::MIN)
}
