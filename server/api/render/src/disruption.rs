//! Renders a plan of disruption: field names, order and types of the plan contract (§3), and a table.

use std::io::{self, Write};

use disruption::{Command, DisruptionPlan, HeldNode};
use model::MicroUsd;
use serde::Serialize;

use super::columns::write_columns;
use super::document::{API_VERSION, NodeEntry, node_entry};
use super::held::HeldEntry;
use super::usd::{Usd, dollars_a_month};
use command::wording::{and_more, counted};

/// A plan of disruption, and all notes.
pub struct Rendering<'r> {
    pub planned: &'r DisruptionPlan,
    /// Day of the prices, if the catalogue states it.
    pub price_date: Option<&'r str>,
    /// Notes of reading and planning, sorted.
    pub notes: &'r [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'r> {
    api_version: &'static str,
    kind: &'static str,
    commands: Vec<CommandEntry<'r>>,
    held: Vec<HeldEntry<'r>>,
    cost: CostEntry<'r>,
    notes: &'r [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandEntry<'r> {
    reason: String,
    nodes: Vec<&'r str>,
    replacements: Vec<NodeEntry<'r>>,
    placements: Vec<PlacementEntry<'r>>,
    savings_usd_per_hour: Usd,
}

#[derive(Debug, Serialize)]
struct PlacementEntry<'r> {
    pod: String,
    node: &'r str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostEntry<'r> {
    before_usd_per_hour: Usd,
    after_usd_per_hour: Usd,
    lower_bound_usd_per_hour: Usd,
    #[serde(skip_serializing_if = "Option::is_none")]
    price_date: Option<&'r str>,
}

/// Writes the plan as JSON, with a line feed at its end.
///
/// # Errors
/// Errors of `out`.
pub fn write_json(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(rendering))?;
    out.write_all(b"\n")
}

/// Writes the plan as YAML.
///
/// # Errors
/// Errors of `out`.
pub fn write_yaml(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let text = serde_saphyr::to_string(&document(rendering)).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

fn document<'r>(rendering: &Rendering<'r>) -> Document<'r> {
    let planned = rendering.planned;
    Document {
        api_version: API_VERSION,
        kind: "DisruptionPlan",
        commands: planned.commands.iter().map(|command| command_entry(planned, command)).collect(),
        held: planned.held.iter().map(|held| held_entry(planned, held)).collect(),
        cost: CostEntry {
            before_usd_per_hour: Usd(planned.cost.before),
            after_usd_per_hour: Usd(planned.cost.after),
            lower_bound_usd_per_hour: Usd(planned.cost.lower_bound),
            price_date: rendering.price_date,
        },
        notes: rendering.notes,
    }
}

fn command_entry<'r>(planned: &'r DisruptionPlan, command: &'r Command) -> CommandEntry<'r> {
    let placement = |(pod, node): &'r (model::PodKey, model::NodeName)| PlacementEntry { pod: pod.to_string(), node };
    CommandEntry {
        reason: command.reason.to_string(),
        nodes: command.nodes.iter().map(|node| node_name(planned, *node)).collect(),
        replacements: planned.launched_by(command).map(|node| node_entry(&planned.input, node)).collect(),
        placements: command.placements.iter().map(placement).collect(),
        savings_usd_per_hour: Usd(command.savings),
    }
}

fn node_name(planned: &DisruptionPlan, node: u32) -> &str {
    &planned.input.nodes[node as usize].name
}

fn held_entry<'r>(planned: &'r DisruptionPlan, held: &'r HeldNode) -> HeldEntry<'r> {
    HeldEntry::of(node_name(planned, held.node), held.reason, &held.by)
}

/// Writes the plan for terminals: the commands, the nodes that stay, and what is saved.
///
/// # Errors
/// Errors of `out`.
pub fn write_table(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let planned = rendering.planned;
    writeln!(out, "{}", headline(rendering))?;
    if !planned.commands.is_empty() {
        let header = ["REASON", "NODES", "REPLACED BY", "PODS MOVED", "SAVES $/HOUR"].map(str::to_owned);
        let rows = planned.commands.iter().map(|command| command_row(planned, command));
        writeln!(out, "\nCOMMANDS")?;
        write_columns(std::iter::once(header).chain(rows).collect(), out)?;
    }
    if !planned.held.is_empty() {
        let header = ["NODE", "WOULD GO AS", "HELD BY", "CODE", "WHY"].map(str::to_owned);
        let rows = planned.held.iter().flat_map(|held| held_rows(planned, held));
        writeln!(out, "\nNODES THAT STAY")?;
        write_columns(std::iter::once(header).chain(rows).collect(), out)?;
    }
    if !rendering.notes.is_empty() {
        writeln!(out, "\nNOTES")?;
    }
    for note in rendering.notes {
        writeln!(out, "  - {note}")?;
    }
    Ok(())
}

/// What the commands do and save, in two sentences.
pub(super) fn headline(rendering: &Rendering<'_>) -> String {
    let planned = rendering.planned;
    let prices = rendering.price_date.map(|date| format!("; prices of {date}")).unwrap_or_default();
    let cost = planned.cost;
    let saved = MicroUsd(cost.before.0 - cost.after.0);
    let removed: usize = planned.commands.iter().map(|command| command.nodes.len()).sum();
    let launched: usize = planned.commands.iter().map(|command| command.replacements.len()).sum();
    let moved: usize = planned.commands.iter().map(|command| command.placements.len()).sum();
    let telling = super::table::is_telling(cost.lower_bound, cost.after);
    let bound = if telling { format!("; no plan costs less than ${}", cost.lower_bound) } else { String::new() };
    let saving = match saved.0 {
        0 => "the cost stays the same".to_owned(),
        more if more < 0 => format!("that costs ${} an hour more", MicroUsd(-more)),
        _ => format!("that saves ${saved} an hour (about ${} a month)", dollars_a_month(saved)),
    };
    format!(
        "{} may be removed now, {} launched instead, and {} moved: {saving}. The nodes cost ${} an hour now and ${} \
         then{bound}{prices}.",
        counted(removed, "node", "nodes"),
        counted(launched, "node", "nodes"),
        counted(moved, "pod", "pods"),
        cost.before,
        cost.after
    )
}

/// Reason, nodes, replacements, number of pods moved, savings.
pub(super) fn command_row(planned: &DisruptionPlan, command: &Command) -> [String; 5] {
    let first = command.nodes.first().map_or("", |node| node_name(planned, *node));
    let machine = |node: &model::plan::PlannedNode| {
        let pool = &planned.input.pools[node.pool as usize];
        let kind = node.types.first().map_or("", |kind| pool.catalogue.types[*kind as usize].name.as_ref());
        format!("{kind} {}", node.capacity_type.as_str())
    };
    let machine = planned.launched_by(command).next().map(machine);
    [
        command.reason.to_string(),
        and_more(first, command.nodes.len()),
        machine.map_or_else(|| "-".to_owned(), |machine| and_more(&machine, command.replacements.len())),
        command.placements.len().to_string(),
        command.savings.to_string(),
    ]
}

/// Node, reason, object, code and message, a row for each hold; node and reason only in the first one.
pub(super) fn held_rows(planned: &DisruptionPlan, held: &HeldNode) -> Vec<[String; 5]> {
    let row = |(at, hold): (usize, &disruption::Block)| {
        let first = |text: String| if at == 0 { text } else { String::new() };
        [
            first(node_name(planned, held.node).to_owned()),
            first(held.reason.to_string()),
            hold.object.clone(),
            hold.code.as_str().to_owned(),
            hold.message.clone(),
        ]
    };
    held.by.iter().enumerate().map(row).collect()
}
