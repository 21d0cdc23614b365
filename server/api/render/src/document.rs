//! Renders a plan as a document: field names, order and types of the plan contract (§2).

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::input::PlanningInput;
use model::plan::{PlannedNode, Reason, Unschedulable};
use model::{Catalogue, Resources, Taint, quantity};
use serde::{Serialize, Serializer};

use super::Rendering;
use super::comparison::Comparison;
use super::held::HeldEntry;
use super::repacking::{RepackCostEntry, held_entries, repack_cost_entry};
use super::usd::Usd;

/// `apiVersion` of every document that this program prints.
pub(crate) const API_VERSION: &str = "fleetwright.dev/v1";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'r> {
    api_version: &'static str,
    kind: &'static str,
    nodes: Vec<NodeEntry<'r>>,
    static_nodes: Vec<NodeEntry<'r>>,
    placements: Vec<PlacementEntry<'r>>,
    unschedulable: UnschedulableEntries<'r>,
    cost: CostEntry<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Vec<HeldEntry<'r>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<&'r Comparison>,
    notes: &'r [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeEntry<'r> {
    name: &'r str,
    node_pool: &'r str,
    node_class: &'r str,
    capacity_type: &'static str,
    zone: &'r str,
    zones: Vec<&'r str>,
    instance_types: Vec<&'r str>,
    price_usd_per_hour: Usd,
    #[serde(skip_serializing_if = "Option::is_none")]
    credits_usd_per_hour: Option<Usd>,
    pods: Vec<String>,
    labels: BTreeMap<&'r str, &'r str>,
    taints: Vec<TaintEntry<'r>>,
    requests: BTreeMap<&'r str, String>,
}

#[derive(Debug, Serialize)]
struct TaintEntry<'r> {
    key: &'r str,
    value: &'r str,
    effect: &'static str,
}

#[derive(Debug, Serialize)]
struct PlacementEntry<'r> {
    pod: String,
    node: &'r str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnschedulableEntry<'r> {
    pod: String,
    reasons: Vec<ReasonEntry<'r>>,
    fits_if: &'r [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReasonEntry<'r> {
    node_pool: &'r str,
    code: &'static str,
    message: &'r str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostEntry<'r> {
    new_usd_per_hour: Usd,
    lower_bound_usd_per_hour: Usd,
    #[serde(skip_serializing_if = "Option::is_none")]
    realised_usd_per_hour: Option<Usd>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    repacking: Option<RepackCostEntry>,
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
    let plan = rendering.plan;
    Document {
        api_version: API_VERSION,
        kind: "Plan",
        nodes: plan.nodes.iter().map(|node| node_entry(rendering.input, node)).collect(),
        static_nodes: plan.static_nodes.iter().map(|node| node_entry(rendering.input, node)).collect(),
        placements: plan.placements.iter().map(|placement| placement_entry(rendering, *placement)).collect(),
        unschedulable: UnschedulableEntries(*rendering),
        cost: CostEntry {
            new_usd_per_hour: Usd(rendering.report.new_cost),
            lower_bound_usd_per_hour: Usd(rendering.report.lower_bound),
            realised_usd_per_hour: rendering.report.realised_cost.map(Usd),
            repacking: rendering.repacking.map(repack_cost_entry),
            price_date: rendering.price_date,
        },
        held: rendering.repacking.map(|summary| held_entries(rendering, summary)),
        compare: rendering.comparison,
        notes: rendering.notes,
    }
}

/// The pods without a place, each made when it is written: together they are larger than the plan.
#[derive(Debug)]
struct UnschedulableEntries<'r>(Rendering<'r>);

impl Serialize for UnschedulableEntries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(rendering) = self;
        serializer.collect_seq(rendering.report.unschedulable.iter().map(|pod| unschedulable_entry(rendering, pod)))
    }
}

pub(super) fn node_entry<'r>(input: &'r PlanningInput, node: &'r PlannedNode) -> NodeEntry<'r> {
    let pool = &input.pools[node.pool as usize];
    NodeEntry {
        name: &node.name,
        node_pool: &pool.name,
        node_class: &pool.node_class,
        capacity_type: node.capacity_type.as_str(),
        zone: node.zones.first().map_or("", |zone| zone.as_ref()),
        zones: node.zones.iter().map(AsRef::as_ref).collect(),
        instance_types: type_names(&pool.catalogue, node),
        price_usd_per_hour: Usd(node.price),
        credits_usd_per_hour: Some(Usd(node.credits)).filter(|_| node.credits.0 != 0),
        pods: node.pods.iter().map(|pod| input.pods[*pod as usize].key().to_string()).collect(),
        labels: node.labels.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect(),
        taints: node.taints.iter().map(taint_entry).collect(),
        requests: amounts(&node.requests),
    }
}

/// Names of a node's launch options, cheapest first.
pub(super) fn type_names<'r>(catalogue: &'r Catalogue, node: &PlannedNode) -> Vec<&'r str> {
    node.types.iter().map(|option| catalogue.types[*option as usize].name.as_ref()).collect()
}

fn taint_entry(taint: &Taint) -> TaintEntry<'_> {
    TaintEntry { key: &taint.key, value: &taint.value, effect: taint.effect.as_str() }
}

fn amounts(resources: &Resources) -> BTreeMap<&str, String> {
    resources.iter().map(|(name, amount)| (name.as_ref(), quantity::render(name, amount))).collect()
}

fn placement_entry<'r>(rendering: &Rendering<'r>, (pod, node): (u32, u32)) -> PlacementEntry<'r> {
    PlacementEntry { pod: rendering.pod_name(pod), node: &rendering.input.nodes[node as usize].name }
}

pub fn unschedulable_entry<'r>(rendering: &Rendering<'r>, entry: &'r Unschedulable) -> UnschedulableEntry<'r> {
    UnschedulableEntry {
        pod: rendering.pod_name(entry.pod),
        reasons: entry.reasons.iter().map(reason_entry).collect(),
        fits_if: &entry.fits_if,
    }
}

fn reason_entry(reason: &Reason) -> ReasonEntry<'_> {
    ReasonEntry {
        node_pool: reason.pool.as_ref().map_or("", |pool| pool.as_ref()),
        code: reason.code.as_str(),
        message: &reason.message,
    }
}
