//! First difference between two plans for the same input.

use std::fmt::Debug;

use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode};

/// Plan and report of the planner.
type PlannerOutput<'a> = (&'a Plan, &'a PlanReport);

/// The first difference, as text; `None` for equal plans.
pub fn first(input: &PlanningInput, then: PlannerOutput<'_>, again: PlannerOutput<'_>) -> Option<String> {
    let (plans, reports) = ((then.0, again.0), (then.1, again.1));
    nodes("nodes", input, &plans.0.nodes, &plans.1.nodes)
        .or_else(|| nodes("static nodes", input, &plans.0.static_nodes, &plans.1.static_nodes))
        .or_else(|| value("pods on nodes that are there", &plans.0.placements, &plans.1.placements))
        .or_else(|| value("pods without a place", &plans.0.unschedulable, &plans.1.unschedulable))
        .or_else(|| value("order of placing", &plans.0.order, &plans.1.order))
        .or_else(|| value("cost of new nodes", &reports.0.new_cost, &reports.1.new_cost))
        .or_else(|| value("lower bound", &reports.0.lower_bound, &reports.1.lower_bound))
        .or_else(|| value("realised cost", &reports.0.realised_cost, &reports.1.realised_cost))
        .or_else(|| value("cost of the first packing", &reports.0.first_cost, &reports.1.first_cost))
        .or_else(|| value("reasons", &reports.0.unschedulable, &reports.1.unschedulable))
        .or_else(|| value("notes", &reports.0.notes, &reports.1.notes))
        .or_else(|| value("steps of the search", &reports.0.search_steps, &reports.1.search_steps))
}

fn nodes(what: &str, input: &PlanningInput, then: &[PlannedNode], again: &[PlannedNode]) -> Option<String> {
    let differs = then.iter().zip(again).find(|(then, again)| then != again);
    if let Some((then, again)) = differs {
        return Some(format!("{what}: then {}; now {}", node(input, then), node(input, again)));
    }
    (then.len() != again.len()).then(|| format!("{what}: then {}; now {}", then.len(), again.len()))
}

/// `general-1 (c7a.large in us-east-1a, spot, $0.03 an hour, pods: 4)`.
pub fn node(input: &PlanningInput, node: &PlannedNode) -> String {
    format!("{} ({})", node.name, machine(input, node))
}

/// `c7a.large in us-east-1a, spot, $0.03 an hour, pods: 4`.
pub fn machine(input: &PlanningInput, node: &PlannedNode) -> String {
    let (kind, zone) = (kind(input, node), node.zones.first().map_or("?", |zone| zone));
    let (paid, pods) = (node.capacity_type.as_str(), node.pods.len());
    format!("{kind} in {zone}, {paid}, ${} an hour, pods: {pods}", node.price)
}

/// The first instance type of the node.
pub fn kind<'i>(input: &'i PlanningInput, node: &PlannedNode) -> &'i str {
    let pool = input.pools.get(node.pool as usize);
    let kind = pool.and_then(|pool| pool.catalogue.types.get(*node.types.first()? as usize));
    kind.map_or("?", |kind| &kind.name)
}

fn value<T: PartialEq + Debug>(what: &str, then: &T, again: &T) -> Option<String> {
    (then != again).then(|| format!("{what}: then {}; now {}", brief(then), brief(again)))
}

/// Maximum length of a printed value, in characters.
const SHOWN: usize = 300;

fn brief(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
