//! Who is where: every pod exactly once, every index in range, every name once.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::{Findings, Rule};
use crate::input::PlanningInput;
use crate::model::Text;
use crate::plan::Plan;

/// The host of a pod that is on none.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The pods that the plan puts on one host.
pub(super) struct Party {
    /// Hosts are numbered through: nodes of the input first, then the plan's nodes for pods.
    pub(super) host: u32,
    /// Pods by index, ascending.
    pub(super) pods: Vec<u32>,
}

/// Where every pod is.
pub(super) struct Roster<'a> {
    /// Host of each pod, or [`NOWHERE`].
    pub(super) host_of: Vec<u32>,
    /// Hosts that the plan puts pods on, by host.
    pub(super) parties: Vec<Party>,
    /// Placed pods in the plan's order; pods that the order forgets come last.
    pub(super) order: Vec<u32>,
    names: Vec<&'a Text>,
}

impl<'a> Roster<'a> {
    /// Name of a host.
    pub(super) fn name(&self, host: u32) -> &'a Text {
        self.names[host as usize]
    }
}

/// Reads the plan's lists and reports pods that are missing, doubled or unknown.
pub(super) fn call<'a>(input: &'a PlanningInput, plan: &'a Plan, found: &mut Findings<'_>) -> Roster<'a> {
    let existing = input.nodes.len();
    let mut host_of = vec![NOWHERE; input.pods.len()];
    let mut named = vec![0_u32; input.pods.len()];
    let mut seat = |pod: u32, host: u32, found: &mut Findings<'_>| match host_of.get_mut(pod as usize) {
        Some(slot) => {
            named[pod as usize] += 1;
            if *slot == NOWHERE {
                *slot = host;
            }
        }
        None => found.plan(Rule::Roster, format!("the plan names pod {pod}, but there are only {}", input.pods.len())),
    };
    for (pod, node) in &plan.placements {
        if *node as usize >= existing {
            found.plan(Rule::Roster, format!("pod {pod} is placed on node {node}, but there are only {existing}"));
        } else {
            seat(*pod, *node, found);
        }
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        node.pods.iter().for_each(|pod| seat(*pod, host_number(existing + at), found));
        if node.pods.is_empty() {
            found.node(Rule::Roster, &node.name, "no pod is on it, so nothing needs it".to_owned());
        }
    }
    plan.unschedulable.iter().for_each(|pod| seat(*pod, NOWHERE, found));
    for (pod, times) in named.iter().enumerate().filter(|(_, times)| **times != 1) {
        found.pod(Rule::Roster, host_number(pod), None, &format!("is in {times} places instead of one"));
    }
    for (pod, _) in input.pods.iter().enumerate().filter(|(at, p)| p.invalid.is_some() && host_of[*at] != NOWHERE) {
        found.pod(Rule::InvalidPod, host_number(pod), None, "is placed, but nobody can schedule it");
    }
    names_are_unique(input, plan, found);
    let order = order(input, plan, &host_of, found);
    let names = input.nodes.iter().map(|n| &n.name).chain(plan.nodes.iter().map(|n| &n.name)).collect();
    Roster { parties: parties(&host_of), host_of, order, names }
}

/// Indices of pods and hosts fit into 32 bits everywhere in a plan.
fn host_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NOWHERE)
}

fn parties(host_of: &[u32]) -> Vec<Party> {
    let mut by_host: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pod, host) in host_of.iter().enumerate().filter(|(_, host)| **host != NOWHERE) {
        by_host.entry(*host).or_default().push(host_number(pod));
    }
    by_host.into_iter().map(|(host, pods)| Party { host, pods }).collect()
}

fn order(input: &PlanningInput, plan: &Plan, host_of: &[u32], found: &mut Findings<'_>) -> Vec<u32> {
    let mut seen = vec![false; input.pods.len()];
    let mut order = Vec::with_capacity(plan.order.len());
    for pod in &plan.order {
        match host_of.get(*pod as usize) {
            None => found.plan(Rule::Order, format!("the order names pod {pod}, which does not exist")),
            Some(&NOWHERE) => found.pod(Rule::Order, *pod, None, "is in the order without being placed"),
            Some(_) if seen[*pod as usize] => found.pod(Rule::Order, *pod, None, "is in the order twice"),
            Some(_) => {
                seen[*pod as usize] = true;
                order.push(*pod);
            }
        }
    }
    for (pod, host) in host_of.iter().enumerate() {
        if *host != NOWHERE && !seen[pod] {
            found.pod(Rule::Order, host_number(pod), None, "is placed, but the order does not name it");
            order.push(host_number(pod));
        }
    }
    order
}

fn names_are_unique(input: &PlanningInput, plan: &Plan, found: &mut Findings<'_>) {
    let mut taken: FxHashSet<&str> = input.nodes.iter().map(|node| node.name.as_ref()).collect();
    for node in plan.nodes.iter().chain(&plan.static_nodes) {
        if !taken.insert(&node.name) {
            found.node(Rule::Names, &node.name, "another machine has this name".to_owned());
        }
    }
}
