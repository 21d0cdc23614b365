//! What a repacked cluster costs, needs and holds, above the table of its plan.

use std::io::{self, Write};

use model::disruption_plan::Block;
use repack::{BlockerTotal, RepackSummary};

use super::super::Rendering;
use super::super::columns::write_columns;
use super::super::repacking::{effect, headline, listed};

/// Writes headline, effect, and the blockers, at most `most` of each kind.
pub(super) fn write(
    rendering: &Rendering<'_>,
    summary: &RepackSummary,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", headline(summary))?;
    write_blockers(summary, ("HOLDS", true), most, out)?;
    write_blockers(summary, ("PODS AND POOLS THAT KEEP THEIR NODES", false), most, out)?;
    writeln!(out, "\n{}", effect(rendering, summary))
}

fn write_blockers(
    summary: &RepackSummary,
    (title, liftable): (&str, bool),
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (blockers, more) = listed(summary, liftable, most);
    if blockers.is_empty() {
        return Ok(());
    }
    let row = |total: &BlockerTotal<'_>| {
        let Block { code, object, message } = total.blocker;
        [object.clone(), code.as_str().to_owned(), total.nodes.to_string(), total.price.to_string(), message.clone()]
    };
    let header = ["OBJECT", "CODE", "NODES", "$/HOUR OF NODES", "WHY"].map(str::to_owned);
    writeln!(out, "\n{title}")?;
    write_columns(std::iter::once(header).chain(blockers.iter().map(row)).collect(), out)?;
    if more > 0 {
        writeln!(out, "  and {more} more (-o wide)")?;
    }
    Ok(())
}
