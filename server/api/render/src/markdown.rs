//! Renders a plan as a comment on a pull request, in the Markdown of GitHub: outcome and cost, nodes
//! by type, pods without a place, notes.
//!
//! Names and messages of the input may contain anything. [`code`] and [`prose`] are the only ways by
//! which they are written, so that they inject neither markup nor mentions.

pub mod disruption;
mod escape;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use model::plan::PlannedNode;
use model::{MicroUsd, NodeName};
use repack::{BlockerTotal, RepackSummary};

use self::escape::{code, prose};
use super::document::type_names;
use super::names::natural_order;
use super::usd::dollars_a_month;
use super::{Rendering, repacking, table, workload};
use command::wording::and_more;

/// Maximum number of rows of a table, of pods without a place, and of notes: a comment on GitHub has
/// at most 65,536 characters.
const MOST_ROWS: usize = 40;

/// Width of lists of pods, in characters.
const LIST_WIDTH: usize = 100;

/// Writes the report; `max_usd` is the limit that the cost is compared with.
///
/// # Errors
/// Errors of `out`.
pub fn write(rendering: &Rendering<'_>, max_usd: Option<MicroUsd>, out: &mut dyn Write) -> io::Result<()> {
    let cost = rendering.report.new_cost;
    match rendering.repacking.map(|summary| summary.cost) {
        Some(repacked) => writeln!(
            out,
            "### Fleetwright: the cluster costs ${} an hour and needs ${}\n",
            repacked.now, repacked.needed
        )?,
        None => writeln!(out, "### Fleetwright plan: ${cost} an hour (about ${} a month)\n", dollars_a_month(cost))?,
    }
    if let Some(most) = max_usd {
        writeln!(out, "{}\n", limit(cost, most))?;
    }
    if let Some(summary) = rendering.repacking {
        write_repacking(rendering, summary, out)?;
    }
    writeln!(out, "{}", table::outcome(rendering))?;
    write_nodes(rendering, "Nodes to launch", &rendering.plan.nodes, out)?;
    write_nodes(rendering, "Nodes to launch for static pools", &rendering.plan.static_nodes, out)?;
    write_placements(rendering, out)?;
    write_unschedulable(rendering, out)?;
    writeln!(out, "\n#### Cost\n\n{}", table::cost(rendering))?;
    write_comparison(rendering, out)?;
    write_notes(rendering.notes, out)
}

fn limit(cost: MicroUsd, most: MicroUsd) -> String {
    let difference = MicroUsd((cost.0 - most.0).abs());
    if cost > most {
        return format!("**The new nodes exceed the limit** of ${most} an hour (`--max-usd`) by ${difference}.");
    }
    format!("The new nodes are within the limit of ${most} an hour (`--max-usd`): ${difference} are left.")
}

fn write_repacking(rendering: &Rendering<'_>, summary: &RepackSummary, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "**{}**", repacking::headline(summary))?;
    write_blockers(summary, ("Holds", true), out)?;
    write_blockers(summary, ("Pods and pools that keep their nodes", false), out)?;
    writeln!(out, "\n{}\n", repacking::effect(rendering, summary))
}

fn write_blockers(summary: &RepackSummary, (title, liftable): (&str, bool), out: &mut dyn Write) -> io::Result<()> {
    let (blockers, more) = repacking::listed(summary, liftable, repacking::LISTED_BLOCKERS);
    let row = |total: &BlockerTotal<'_>| {
        let (blocker, nodes) = (total.blocker, total.nodes.to_string());
        [
            code(&blocker.object),
            blocker.code.as_str().to_owned(),
            nodes,
            total.price.to_string(),
            prose(&blocker.message),
        ]
    };
    let rows: Vec<[String; 5]> = blockers.iter().map(row).collect();
    write_table(title, ["Object", "Code", "Nodes:", "$/hour of nodes:", "Why"], rows, out)?;
    write_more(more, out)
}

/// Nodes of one pool, capacity type, type and cost.
#[derive(Default)]
struct NodeGroup {
    nodes: usize,
    zones: BTreeSet<String>,
    pods: Vec<u32>,
}

fn write_nodes(rendering: &Rendering<'_>, title: &str, nodes: &[PlannedNode], out: &mut dyn Write) -> io::Result<()> {
    let mut groups: BTreeMap<[String; 3], BTreeMap<MicroUsd, NodeGroup>> = BTreeMap::new();
    for node in nodes {
        let pool = &rendering.input.pools[node.pool as usize];
        let types = type_names(&pool.catalogue, node);
        let first = and_more(types.first().copied().unwrap_or(""), types.len());
        let key = [first, pool.name.to_string(), node.capacity_type.as_str().to_owned()];
        let group = groups.entry(key).or_default().entry(node.cost()).or_default();
        group.nodes += 1;
        group.zones.extend(node.zones.first().map(ToString::to_string));
        group.pods.extend(&node.pods);
    }
    let groups = groups.iter().flat_map(|(key, by_cost)| by_cost.iter().map(move |(cost, group)| (key, *cost, group)));
    let row = |([first, pool, capacity_type], cost, group): (&[String; 3], MicroUsd, &NodeGroup)| {
        let zones: Vec<String> = group.zones.iter().map(|zone| code(zone)).collect();
        let sum = MicroUsd(cost.0.saturating_mul(i64::try_from(group.nodes).unwrap_or(i64::MAX)));
        [
            code(first),
            group.nodes.to_string(),
            code(pool),
            code(capacity_type),
            zones.join(" "),
            cost.to_string(),
            sum.to_string(),
            group.pods.len().to_string(),
            code(&workload::summary(rendering, group.pods.iter().copied(), LIST_WIDTH)),
        ]
    };
    let header = ["Type", "Nodes:", "Pool", "Capacity", "Zones", "$/hour each:", "$/hour:", "Pods:", "Of"];
    write_table(title, header, groups.map(row).collect(), out)
}

fn write_placements(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut by_node: BTreeMap<&NodeName, Vec<u32>> = BTreeMap::new();
    for (pod, node) in &rendering.plan.placements {
        by_node.entry(&rendering.input.nodes[*node as usize].name).or_default().push(*pod);
    }
    let mut by_node: Vec<(&NodeName, Vec<u32>)> = by_node.into_iter().collect();
    by_node.sort_by(|(one, _), (other, _)| natural_order(one.as_ref(), other.as_ref()));
    let row = |(node, pods): (&NodeName, Vec<u32>)| {
        let count = pods.len().to_string();
        [code(node.as_ref()), count, code(&workload::summary(rendering, pods.into_iter(), LIST_WIDTH))]
    };
    let rows = by_node.into_iter().map(row).collect();
    write_table("Pods put on nodes that exist", ["Node", "Pods:", "Of"], rows, out)
}

/// Pods of one workload with the same reasons are one entry.
fn write_unschedulable(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let groups = table::group_unschedulable(rendering);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n#### Pods without a place\n")?;
    for group in groups.iter().take(MOST_ROWS) {
        let names = table::pod_names(rendering, group.iter().map(|entry| entry.pod));
        writeln!(out, "- {}", code(&workload::shorten(&names, LIST_WIDTH)))?;
        for reason in group[0].reasons.iter() {
            writeln!(out, "  - {}", prose(&table::reason_line(reason)))?;
        }
        for relaxation in group[0].fits_if.iter() {
            writeln!(out, "  - {}", prose(relaxation))?;
        }
    }
    write_more(groups.len().saturating_sub(MOST_ROWS), out)
}

fn write_comparison(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(other) = rendering.comparison else { return Ok(()) };
    let rows = table::comparison_rows(rendering, other);
    write_table("Comparison", ["Packing", "Nodes:", "$/hour:", "$/month:", "Pods without a place:"], rows, out)
}

fn write_notes(notes: &[String], out: &mut dyn Write) -> io::Result<()> {
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n<details><summary>Notes ({})</summary>\n", notes.len())?;
    for note in notes.iter().take(MOST_ROWS) {
        writeln!(out, "- {}", prose(note))?;
    }
    write_more(notes.len().saturating_sub(MOST_ROWS), out)?;
    writeln!(out, "\n</details>")
}

/// Writes a table, unless it has no rows. Columns whose heading ends with a colon have numbers.
fn write_table<const N: usize>(
    title: &str,
    header: [&str; N],
    rows: Vec<[String; N]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let rule = header.map(|heading| if heading.ends_with(':') { "--:" } else { "---" });
    writeln!(out, "\n#### {title}\n")?;
    writeln!(out, "| {} |", header.map(|heading| heading.trim_end_matches(':')).join(" | "))?;
    writeln!(out, "|{}|", rule.join("|"))?;
    let more = rows.len().saturating_sub(MOST_ROWS);
    for row in rows.into_iter().take(MOST_ROWS) {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    write_more(more, out)
}

fn write_more(more: usize, out: &mut dyn Write) -> io::Result<()> {
    if more > 0 { writeln!(out, "\nand {more} more") } else { Ok(()) }
}
