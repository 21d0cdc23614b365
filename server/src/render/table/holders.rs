//! What a repacked cluster costs, needs and holds, above the table of its plan.

use std::io::{self, Write};

use repack::{Holder, HolderTotal, RepackSummary};

use super::super::Rendering;
use super::super::columns::write_columns;
use super::super::repacking::{effect, headline, listed};

/// Writes headline, effect, and the holders, at most `most` of each kind.
pub(super) fn write(
    rendering: &Rendering<'_>,
    summary: &RepackSummary,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", headline(summary))?;
    write_holders(summary, ("HOLDS", true), most, out)?;
    write_holders(summary, ("PODS AND POOLS THAT KEEP THEIR NODES", false), most, out)?;
    writeln!(out, "\n{}", effect(rendering, summary))
}

fn write_holders(
    summary: &RepackSummary,
    (title, liftable): (&str, bool),
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (holders, more) = listed(summary, liftable, most);
    if holders.is_empty() {
        return Ok(());
    }
    let row = |total: &HolderTotal<'_>| {
        let Holder { code, object, message } = total.holder;
        [object.clone(), code.as_str().to_owned(), total.nodes.to_string(), total.price.to_string(), message.clone()]
    };
    let header = ["OBJECT", "CODE", "NODES", "$/HOUR OF NODES", "WHY"].map(str::to_owned);
    writeln!(out, "\n{title}")?;
    write_columns(std::iter::once(header).chain(holders.iter().map(row)).collect(), out)?;
    if more > 0 {
        writeln!(out, "  and {more} more (-o wide)")?;
    }
    Ok(())
}
