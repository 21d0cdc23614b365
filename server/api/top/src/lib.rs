//! The fleet live in a terminal: what `fleetwright top` shows, without a terminal, a clock and a connection.
//!
//! [`Top`] is a state machine. Changes of the fleet ([`Change`]) and keys ([`Key`]) go in with a time, and [`Top::draw`] draws
//! the picture into a frame of ratatui. [`Top::plain_text`] makes the same picture as lines of text.
//!
//! - **Rows** are the clusters, the nodes and the pods that wait for a node. The API has no pods that are bound.
//! - **Requested** is what the pods of a node request, divided by what the node has allocatable. It is never use. The column
//!   REQUESTED has the greater share of CPU and memory.
//! - **Waste** of a node is its price times the share of its allocatable that is requested neither in CPU nor in memory:
//!   `price * (1 - max(CPU requested / allocatable, memory requested / allocatable))`. A machine that has not joined, and a
//!   node without a price, wastes nothing.
//! - **Nothing moves under the cursor.** The selection follows its row. While the selection is moved, and [`HOLD_MS`] after
//!   that, values change and the order of the rows does not. While the view is paused the caller passes no changes on
//!   ([`Top::is_paused`]).
//! - **100,000 nodes.** Sums are kept with each change. The filter is evaluated for rows that changed, and for all rows when it
//!   is edited. Rows are sorted by integers, once for a picture at most. A picture has the cells of the visible rows only.
//!   `cargo bench -p fleetwright-top` prints the time from a key to its picture.
//!
//! Reading order: [`row`], [`change`], `sums`, `table`, `column`, `pane`, `view`, [`state`], `screen`.

pub mod change;
mod column;
mod columns;
mod filter;
mod format;
pub mod key;
mod pane;
pub mod row;
mod schemas;
mod screen;
mod sorting;
pub mod state;
mod sums;
mod table;
mod view;

pub use change::{Change, Delta, Feed, Kind};
pub use key::{Action, Key};
pub use row::{Cluster, Node, Pod, PodState, Stage};
pub use state::{HOLD_MS, Top};

#[cfg(test)]
mod tests;
