//! Renders a plan of disruption as a comment on a pull request: what may be removed, and what holds the rest.

use std::io::{self, Write};

use super::super::disruption::{Rendering, command_row, headline, held_rows};
use super::escape::{code, prose};
use super::{write_notes, write_table};

/// Writes the report.
///
/// # Errors
/// Errors of `out`.
pub fn write(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let planned = rendering.planned;
    writeln!(out, "### Fleetwright plan of disruption\n\n{}", headline(rendering))?;
    let commands = planned.commands.iter().map(|command| {
        let [reason, nodes, replacements, moved, savings] = command_row(planned, command);
        [prose(&reason), code(&nodes), code(&replacements), moved, savings]
    });
    let header = ["Reason", "Nodes", "Replaced by", "Pods moved:", "Saves $/hour:"];
    write_table("Commands", header, commands.collect(), out)?;
    let held = planned.held.iter().flat_map(|held| held_rows(planned, held));
    let held = held.map(|[node, reason, object, hold, message]| {
        // A row without a node has a further hold of the node above it.
        let node = if node.is_empty() { node } else { code(&node) };
        [node, prose(&reason), code(&object), prose(&hold), prose(&message)]
    });
    write_table("Nodes that stay", ["Node", "Would go as", "Held by", "Code", "Why"], held.collect(), out)?;
    write_notes(rendering.notes, out)
}
