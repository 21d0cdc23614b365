//! The header: sums of what the view is about, what is missing, and how old it is.

use std::collections::BTreeSet;

use super::canvas::Canvas;
use crate::change::{Feed, Kind};
use crate::format;
use crate::row::{Cluster, id};
use crate::state::Top;
use crate::sums::{Requests, Sums};

/// Hours of a month: a year has 8,760.
const HOURS_PER_MONTH: i64 = 730;

/// Where the bars of the header begin.
const BAR_COLUMN: u16 = 56;

/// Width of the bars of the header, at most.
const BAR_WIDTH: u16 = 60;

#[derive(Default)]
struct ClusterSums {
    clusters: i64,
    pending_pods: i64,
    price_micro_usd: i64,
}

pub(super) fn draw(top: &Top, canvas: &mut Canvas<'_>, now_ms: i64) {
    let cluster = top.view().cluster.as_deref();
    let nodes = top.sums.of(cluster);
    let clusters = cluster_sums(top, cluster);
    let title = title(cluster, &clusters, &nodes);
    canvas.bold(0, 0, &title);
    canvas.right(0, length(&title), &freshness(top, now_ms));
    canvas.text(0, 1, &node_states(&nodes));
    canvas.text(0, 2, &cost(&clusters, &nodes));
    let cpu = (format::grouped_cores(nodes.cpu.requested), format::grouped_cores(nodes.cpu.allocatable));
    requests(canvas, 3, "CPU", nodes.cpu, &format!("{} of {} cores requested", cpu.0, cpu.1));
    let memory =
        (format::grouped_gibibytes(nodes.memory.requested), format::grouped_gibibytes(nodes.memory.allocatable));
    requests(canvas, 4, "Memory", nodes.memory, &format!("{} of {} GiB requested", memory.0, memory.1));
    canvas.text(0, 5, &coverage(top, cluster));
    let path = top.view().path();
    canvas.bold(0, 6, &path);
    canvas.right(6, length(&path), &selection(top, now_ms));
}

fn length(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap_or(u16::MAX)
}

fn cluster_sums(top: &Top, cluster: Option<&str>) -> ClusterSums {
    let mut sums = ClusterSums::default();
    let mut add = |row: &Cluster| {
        sums.clusters += 1;
        sums.pending_pods += i64::from(row.pending_pods);
        sums.price_micro_usd += row.price_micro_usd;
    };
    match cluster {
        Some(cluster) => top.clusters.table().find(&format!("clusters/{cluster}")).into_iter().for_each(add),
        None => top.clusters.table().rows().for_each(&mut add),
    }
    sums
}

fn title(cluster: Option<&str>, clusters: &ClusterSums, nodes: &Sums) -> String {
    let nodes = counted(nodes.nodes, "node", "nodes");
    let counts = format!("{nodes}, {} pending", counted(clusters.pending_pods, "pod", "pods"));
    match cluster {
        Some(cluster) => format!("{cluster}: {counts}"),
        None => format!("{}, {counts}", counted(clusters.clusters, "cluster", "clusters")),
    }
}

fn counted(count: i64, one: &str, several: &str) -> String {
    format!("{} {}", format::grouped(count), if count == 1 { one } else { several })
}

/// How old the oldest of the three kinds of rows is, and why no newer ones come.
fn freshness(top: &Top, now_ms: i64) -> String {
    let sources = Kind::ALL.map(|kind| (kind, top.source(kind)));
    let oldest = sources.iter().filter_map(|(_, source)| source.received_ms).min();
    let age = format::age(oldest, now_ms);
    let broken = sources.iter().find_map(|(_, source)| match &source.feed {
        Feed::Broken(reason) => Some(reason),
        _ => None,
    });
    let listed: Vec<&str> =
        sources.iter().filter(|(_, source)| source.feed == Feed::Listing).map(|(kind, _)| kind.name()).collect();
    match (broken, listed.is_empty(), top.is_paused()) {
        (_, _, true) => format!("paused, {age} old"),
        (Some(reason), ..) if age.is_empty() => format!("reconnecting: {reason}"),
        (Some(reason), ..) => format!("reconnecting, {age} old: {reason}"),
        (None, false, _) => format!("listing {}", listed.join(", ")),
        (None, true, _) => format!("live, {age} old"),
    }
}

fn node_states(nodes: &Sums) -> String {
    let states = [
        ("ready", nodes.ready),
        ("starting", nodes.starting),
        ("draining", nodes.draining),
        ("not ready", nodes.not_ready),
    ];
    let states: Vec<String> =
        states.iter().map(|(state, count)| format!("{} {state}", format::grouped(*count))).collect();
    format!("Nodes   {}", states.join(", "))
}

/// The price is that of the clusters, which is known also where the nodes of one are not; the waste is that of the nodes.
fn cost(clusters: &ClusterSums, nodes: &Sums) -> String {
    let hour = clusters.price_micro_usd;
    let month = hour.saturating_mul(HOURS_PER_MONTH);
    let price = format!("{}/h, {}/month", format::dollars_and_cents(hour), format::whole_dollars(month));
    let waste = Requests { requested: nodes.waste_micro_usd, allocatable: nodes.price_micro_usd };
    let wasted = format::dollars_and_cents(nodes.waste_micro_usd);
    let share = waste.permille().map_or_else(String::new, |share| format!(" ({})", format::percent(Some(share))));
    let unpriced = match nodes.unpriced {
        0 => String::new(),
        count => format!(", {} unpriced", format::grouped(count)),
    };
    format!("Cost    {price}, waste {wasted}/h{share}{unpriced}")
}

fn requests(canvas: &mut Canvas<'_>, y: u16, label: &str, requests: Requests, amounts: &str) {
    let share = requests.permille();
    canvas.text(0, y, &format!("{label:<8}{amounts}, {}", format::percent(share)));
    let room = canvas.width().saturating_sub(BAR_COLUMN).min(BAR_WIDTH);
    if let Some(share) = share {
        canvas.bar(BAR_COLUMN, y, share, room);
    }
}

/// What does not work, and what is missing. A fleet of which nothing is missing says so.
fn coverage(top: &Top, cluster: Option<&str>) -> String {
    let is_meant = |id: &str| cluster.is_none_or(|cluster| cluster == id);
    let of_state = |state: &str| {
        let rows = top.clusters.table().rows().filter(|row| row.connection() == state);
        rows.map(|row| id(&row.name, 0)).filter(|id| is_meant(id)).collect::<BTreeSet<&str>>()
    };
    let sources = [Kind::Nodes, Kind::Pods].map(|kind| &top.source(kind).unreachable);
    let unreachable = sources.into_iter().flatten().map(String::as_str).filter(|id| is_meant(id)).collect();
    let missing = [
        ("unreachable, nodes and pods missing", unreachable),
        ("stale", of_state("stale")),
        ("disconnected", of_state("disconnected")),
        ("syncing", of_state("syncing")),
    ];
    let named = missing.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| {
        let ids: Vec<&str> = ids.iter().copied().collect();
        format!("{what}: {}", ids.join(", "))
    });
    let notices = top.notices.iter().flatten().map(|notice| notice.trim_end_matches('.').to_owned());
    let named: Vec<String> = notices.chain(named).collect();
    match (named.is_empty(), &top.source(Kind::Clusters).feed) {
        (false, _) => format!("! {}", named.join("; ")),
        (true, Feed::Listing) => "The list of clusters is not complete yet.".to_owned(),
        (true, _) if top.clusters.table().len() == 0 => {
            "No cluster yet. How to connect one: fleetwright fleet problems".to_owned()
        }
        (true, _) => "Every cluster is connected.".to_owned(),
    }
}

/// How many rows are shown, in which order, and by which filter.
fn selection(top: &Top, now_ms: i64) -> String {
    let (order, title, total) = match top.view().kind {
        Kind::Clusters => described(&top.clusters),
        Kind::Nodes => described(&top.nodes),
        Kind::Pods => described(&top.pods),
    };
    let direction = if order.is_descending { "▼" } else { "▲" };
    let held = if top.is_held(now_ms) { " (held)" } else { "" };
    let filter = match &*top.view().filter {
        "" => String::new(),
        filter => format!("  filter {filter}"),
    };
    let (shown, total) = (top.shown_len(), total);
    let count = |number: usize| format::grouped(i64::try_from(number).unwrap_or(i64::MAX));
    format!("{} of {}  {title} {direction}{held}{filter}", count(shown), count(total))
}

fn described<R: crate::row::Row>(pane: &crate::pane::Pane<R>) -> (crate::sorting::RowOrder, &'static str, usize) {
    let order = pane.row_order();
    (order, pane.columns()[order.column].title, pane.table().len())
}
