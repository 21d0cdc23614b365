//! First difference between two plans for the same input.

use std::fmt::Debug;

use controller::Removal;
use controller::disruption::selection::{PlannedReplacement, RemovalAnswer};
use model::disruption_plan::Command;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode};

use super::disruption_answer::DisruptionAnswer;

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

/// The first difference between two plans of disruption, as text; `None` for equal plans.
pub fn disruption(input: &PlanningInput, then: &DisruptionAnswer, again: &DisruptionAnswer) -> Option<String> {
    commands(input, &then.commands, &again.commands)
        .or_else(|| nodes("machines to launch", input, &then.plan.nodes, &again.plan.nodes))
        .or_else(|| value("pods on nodes that are there", &then.plan.placements, &again.plan.placements))
        .or_else(|| value("plan of the pods that move", &then.plan, &again.plan))
        .or_else(|| value("cost", &then.cost, &again.cost))
        .or_else(|| value("nodes that stay", &then.held, &again.held))
        .or_else(|| value("refused commands", &then.refused, &again.refused))
        .or_else(|| value("notes", &then.notes, &again.notes))
        .or_else(|| {
            (then.blocks != again.blocks).then(|| "the reasons of nodes that stay differ in their words".to_owned())
        })
        .or_else(|| {
            (then.planned != again.planned).then(|| "what was planned for the pods that move differs".to_owned())
        })
}

/// The first difference between two answers of a method, as text; `None` for equal answers.
pub fn removals(then: &RemovalAnswer, again: &RemovalAnswer) -> Option<String> {
    let (old, new) = (&then.selection, &again.selection);
    machines("selected removals", &old.removals, &new.removals, removal)
        .or_else(|| machines("replacements", &old.replacements, &new.replacements, replacement))
        .or_else(|| machines("decided removals", &then.removals, &again.removals, ToString::to_string))
        .or_else(|| value("machines that budgets hold", &old.held_by_budget, &new.held_by_budget))
        .or_else(|| value("blocked repairs", &old.blocked_repairs, &new.blocked_repairs))
        .or_else(|| value("next selection", &old.next_check, &new.next_check))
}

/// `ip-10-0-1-7 (general-x7k2p: node ip-10-0-1-7 holds only DaemonSet pods …)`.
pub fn removal(Removal { claim, node, reason }: &Removal) -> String {
    format!("{node} ({claim}: {reason})")
}

fn replacement(PlannedReplacement { removal: replaced, moves_pods }: &PlannedReplacement) -> String {
    format!("{}, its pods {}", removal(replaced), if *moves_pods { "move" } else { "wait" })
}

fn machines<T: PartialEq>(what: &str, then: &[T], again: &[T], show: impl Fn(&T) -> String) -> Option<String> {
    let differs = then.iter().zip(again).find(|(then, again)| then != again);
    if let Some((then, again)) = differs {
        return Some(format!("{what}: then {}; now {}", show(then), show(again)));
    }
    (then.len() != again.len()).then(|| format!("{what}: then {}; now {}", then.len(), again.len()))
}

fn commands(input: &PlanningInput, then: &[Command], again: &[Command]) -> Option<String> {
    let differs = then.iter().zip(again).find(|(then, again)| then != again);
    if let Some((then, again)) = differs {
        return Some(format!("commands: then {}; now {}", command(input, then), command(input, again)));
    }
    (then.len() != again.len()).then(|| format!("commands: then {}; now {}", then.len(), again.len()))
}

/// `Underutilized: ip-10-0-1-7, ip-10-0-2-7, launched: 1, moved pods: 4, saves $0.2 an hour`.
pub fn command(input: &PlanningInput, command: &Command) -> String {
    let name = |at: &u32| input.nodes.get(*at as usize).map_or("?", |node| node.name.as_ref());
    let names: Vec<&str> = command.nodes.iter().map(name).collect();
    let (reason, launched, moved) = (command.reason, command.replacements.len(), command.placements.len());
    let saved = command.savings;
    format!("{reason}: {}, launched: {launched}, moved pods: {moved}, saves ${saved} an hour", names.join(", "))
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
