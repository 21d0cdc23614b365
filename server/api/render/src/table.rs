//! Renders a plan as a table: outcome, nodes to launch, unschedulable pods with reasons, cost,
//! notes.

mod blockers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use model::plan::{PlannedNode, Reason, Unschedulable};
use model::{MicroUsd, NodeName};

use super::columns::write_columns;
use super::comparison::Comparison;
use super::document::type_names;
use super::names::{natural_order, ranges};
use super::repacking::LISTED_BLOCKERS;
use super::usd::dollars_a_month;
use super::{Rendering, workload};
use command::wording::{and_more, counted};

/// Width of the names of nodes, in characters.
const NAMES_WIDTH: usize = 40;

/// Width of the last column and of lists of pods, in characters.
const LIST_WIDTH: usize = 72;

/// How much a table shows of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A row for nodes that differ in name and zone only, with their workloads.
    Summary,
    /// A row for each node, with all zones that its launch may use and the names of its pods.
    Wide,
}

/// Writes the names of the nodes to launch, one a line.
///
/// # Errors
/// Errors of `out`.
pub fn write_names(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    let nodes = rendering.plan.nodes.iter().chain(&rendering.plan.static_nodes);
    nodes.into_iter().try_for_each(|node| writeln!(out, "node/{}", node.name))
}

/// Writes the whole table.
///
/// # Errors
/// Errors of `out`.
pub fn write(rendering: &Rendering<'_>, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
    if let Some(summary) = rendering.repacking {
        let most = if detail == Detail::Wide { usize::MAX } else { LISTED_BLOCKERS };
        blockers::write(rendering, summary, most, out)?;
    }
    writeln!(out, "{}", outcome(rendering))?;
    write_nodes(rendering, detail, "NODES TO LAUNCH", &rendering.plan.nodes, out)?;
    write_nodes(rendering, detail, "NODES TO LAUNCH FOR STATIC POOLS", &rendering.plan.static_nodes, out)?;
    write_placements(rendering, detail, out)?;
    write_unschedulable(rendering, out)?;
    writeln!(out, "\nCOST\n  {}", cost(rendering))?;
    if let Some(other) = rendering.comparison {
        write_comparison(rendering, other, out)?;
    }
    if !rendering.notes.is_empty() {
        writeln!(out, "\nNOTES")?;
        for note in rendering.notes {
            writeln!(out, "  - {note}")?;
        }
    }
    Ok(())
}

pub(super) fn outcome(rendering: &Rendering<'_>) -> String {
    let (plan, pods) = (rendering.plan, rendering.input.pods.len());
    if pods == 0 && plan.static_nodes.is_empty() {
        return "Nothing to plan: no pod is pending.".to_owned();
    }
    let on_new: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
    let without = match plan.unschedulable.len() {
        0 => "every pod has a place".to_owned(),
        count => format!("{} NO PLACE", counted(count, "pod has", "pods have")),
    };
    format!(
        "{} planned: {on_new} on {}, {} on nodes that exist; {without}.",
        counted(pods, "pod", "pods"),
        counted(plan.nodes.len(), "node to launch", "nodes to launch"),
        plan.placements.len(),
    )
}

fn write_nodes(
    rendering: &Rendering<'_>,
    detail: Detail,
    title: &str,
    nodes: &[PlannedNode],
    out: &mut dyn Write,
) -> io::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<NodeRow> = Vec::new();
    let mut row_of = BTreeMap::new();
    for (number, node) in nodes.iter().enumerate() {
        let row = NodeRow::of(rendering, detail, node);
        let alone = (detail == Detail::Wide).then_some(number);
        let at = *row_of.entry((alone, row.group_key.clone())).or_insert(rows.len());
        match rows.get_mut(at) {
            Some(known) => known.merge(row),
            None => rows.push(row),
        }
    }
    let header = ["NODE", "POOL", "CAPACITY", "TYPE", "$/HOUR", "PODS", "ZONE", "OF"].map(str::to_owned);
    writeln!(out, "\n{title}")?;
    write_columns(std::iter::once(header).chain(rows.into_iter().map(NodeRow::cells)).collect(), out)
}

struct NodeRow {
    names: Vec<String>,
    zones: BTreeSet<String>,
    /// Pool, capacity type, types, price, number of pods, workloads.
    group_key: [String; 6],
}

impl NodeRow {
    fn of(rendering: &Rendering<'_>, detail: Detail, node: &PlannedNode) -> Self {
        let pool = &rendering.input.pools[node.pool as usize];
        let types = type_names(&pool.catalogue, node);
        Self {
            names: vec![node.name.to_string()],
            zones: zone(detail, node).into_iter().collect(),
            group_key: [
                pool.name.to_string(),
                node.capacity_type.as_str().to_owned(),
                and_more(types.first().copied().unwrap_or(""), types.len()),
                node.cost().to_string(),
                node.pods.len().to_string(),
                pods(rendering, detail, &node.pods),
            ],
        }
    }

    fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.zones.extend(other.zones);
    }

    fn cells(self) -> [String; 8] {
        let zones: Vec<String> = self.zones.into_iter().collect();
        let [pool, capacity, types, price, pods, of] = self.group_key;
        let names = workload::shorten(&ranges(self.names), NAMES_WIDTH);
        [names, pool, capacity, types, price, pods, zones.join(" "), of]
    }
}

/// The zone of `node`; in wide tables with the others that its launch may use.
fn zone(detail: Detail, node: &PlannedNode) -> Option<String> {
    let (chosen, others) = node.zones.split_first()?;
    let others: Vec<&str> = others.iter().map(AsRef::as_ref).collect();
    match detail {
        Detail::Wide if !others.is_empty() => Some(format!("{chosen} (or {})", others.join(", "))),
        Detail::Summary | Detail::Wide => Some(chosen.to_string()),
    }
}

/// The workloads of `pods`, or in wide tables their names.
fn pods(rendering: &Rendering<'_>, detail: Detail, pods: &[u32]) -> String {
    match detail {
        Detail::Summary => workload::summary(rendering, pods.iter().copied(), LIST_WIDTH),
        Detail::Wide => pod_names(rendering, pods.iter().copied()).join(", "),
    }
}

/// `namespace/name` of pods, in natural order.
pub(super) fn pod_names(rendering: &Rendering<'_>, pods: impl Iterator<Item = u32>) -> Vec<String> {
    let mut names: Vec<String> = pods.map(|pod| rendering.pod_name(pod)).collect();
    names.sort_by(|one, other| natural_order(one, other));
    names
}

fn write_placements(rendering: &Rendering<'_>, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
    let mut by_node: BTreeMap<&NodeName, Vec<u32>> = BTreeMap::new();
    for (pod, node) in &rendering.plan.placements {
        by_node.entry(&rendering.input.nodes[*node as usize].name).or_default().push(*pod);
    }
    if by_node.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nPODS PUT ON NODES THAT EXIST")?;
    let header = ["NODE", "PODS", "OF"].map(str::to_owned);
    let mut by_node: Vec<(&NodeName, Vec<u32>)> = by_node.into_iter().collect();
    by_node.sort_by(|(one, _), (other, _)| natural_order(one.as_ref(), other.as_ref()));
    let rows = by_node
        .into_iter()
        .map(|(node, placed)| [node.to_string(), placed.len().to_string(), pods(rendering, detail, &placed)]);
    write_columns(std::iter::once(header).chain(rows).collect(), out)
}

/// Pods of one workload with the same reasons are one entry.
pub fn write_unschedulable(rendering: &Rendering<'_>, out: &mut dyn Write) -> io::Result<()> {
    if rendering.report.unschedulable.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nPODS WITHOUT A PLACE")?;
    for group in group_unschedulable(rendering) {
        let names = pod_names(rendering, group.iter().map(|entry| entry.pod));
        writeln!(out, "  {}", workload::shorten(&names, LIST_WIDTH))?;
        for reason in group[0].reasons.iter() {
            writeln!(out, "    {}", reason_line(reason))?;
        }
        for relaxation in group[0].fits_if.iter() {
            writeln!(out, "    {relaxation}")?;
        }
    }
    Ok(())
}

/// Unschedulable pods by namespace, workload, reasons and relaxations; groups in the order of their first pods.
pub(super) fn group_unschedulable<'r>(rendering: &Rendering<'r>) -> Vec<Vec<&'r Unschedulable>> {
    let mut group_of = BTreeMap::new();
    let mut groups: Vec<Vec<&Unschedulable>> = Vec::new();
    for entry in &rendering.report.unschedulable {
        let pod = rendering.pod(entry.pod);
        let key = (&pod.namespace, &pod.workload, &entry.reasons, &entry.fits_if);
        let at = *group_of.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(entry);
    }
    groups
}

pub(super) fn reason_line(reason: &Reason) -> String {
    match &reason.pool {
        Some(pool) => format!("pool {pool}: {}: {}", reason.code.as_str(), reason.message),
        None => format!("{}: {}", reason.code.as_str(), reason.message),
    }
}

/// Cost, its lower bound if that [says something](is_telling), and the realised cost if it differs.
pub(super) fn cost(rendering: &Rendering<'_>) -> String {
    let (new, bound) = (rendering.report.new_cost, rendering.report.lower_bound);
    if rendering.plan.nodes.is_empty() {
        return "nothing is bought".to_owned();
    }
    let gap = if new == bound {
        "; no plan can be cheaper".to_owned()
    } else if is_telling(bound, new) {
        format!("; lower bound ${bound} an hour (no plan can be cheaper)")
    } else {
        String::new()
    };
    let realised = match rendering.report.realised_cost {
        Some(realised) if realised != new => {
            format!("; about ${realised} an hour once kube-scheduler has bound the pods")
        }
        _ => String::new(),
    };
    let prices = rendering.price_date.map(|date| format!("; prices of {date}")).unwrap_or_default();
    format!("${new} an hour (about ${} a month){gap}{realised}{prices}", dollars_a_month(new))
}

fn write_comparison(rendering: &Rendering<'_>, other: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let header = ["PACKING", "NODES", "$/HOUR", "$/MONTH", "PODS WITHOUT A PLACE"].map(str::to_owned);
    writeln!(out, "\nCOMPARISON")?;
    write_columns(std::iter::once(header).chain(comparison_rows(rendering, other)).collect(), out)?;
    other.differences.iter().try_for_each(|difference| writeln!(out, "  {difference}"))
}

/// The plan, another packing and the lower bound if it [says something](is_telling), a row each: name, nodes, cost per hour and month,
/// pods without a place.
pub(super) fn comparison_rows(rendering: &Rendering<'_>, other: &Comparison) -> Vec<[String; 5]> {
    let (plan, report) = (rendering.plan, rendering.report);
    let row = |name: &str, nodes: Option<usize>, cost: MicroUsd, left: Option<usize>| {
        let count = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        [name.to_owned(), count(nodes), cost.to_string(), dollars_a_month(cost), count(left)]
    };
    let mut rows = vec![
        row("this plan", Some(plan.nodes.len()), report.new_cost, Some(plan.unschedulable.len())),
        row(other.name, Some(other.nodes), other.new_usd_per_hour.0, Some(other.unschedulable)),
    ];
    if is_telling(report.lower_bound, report.new_cost) {
        rows.push(row("lower bound", None, report.lower_bound, None));
    }
    rows
}

/// Whether a lower bound on `cost` says something: it is two thirds of it at least. JSON and YAML have it in any case.
pub(super) fn is_telling(bound: MicroUsd, cost: MicroUsd) -> bool {
    bound.0.saturating_mul(3) >= cost.0.saturating_mul(2)
}
