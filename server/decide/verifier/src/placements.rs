//! Host of each pod: every pod exactly once, every index in range, every node name once.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::violation::{Findings, Rule};
use model::NodeName;
use model::input::PlanningInput;
use model::plan::Plan;

/// Host number of an unplaced pod.
pub(super) const UNPLACED: u32 = u32::MAX;

/// Pods that the plan places on one host.
pub(super) struct NodePods {
    /// Host number: nodes of the input first, then the planned nodes for pods.
    pub(super) host: u32,
    /// Pod indices, ascending.
    pub(super) pods: Vec<u32>,
}

pub(super) struct Placements<'a> {
    /// Host of each pod, or [`UNPLACED`].
    pub(super) host_of: Vec<u32>,
    /// Hosts with planned pods, by host number.
    pub(super) by_host: Vec<NodePods>,
    /// Placed pods in the order of the plan; pods missing from that order come last.
    pub(super) order: Vec<u32>,
    names: Vec<&'a NodeName>,
}

impl<'a> Placements<'a> {
    pub(super) fn host_name(&self, host: u32) -> &'a NodeName {
        self.names[host as usize]
    }
}

/// Collects the placements of a plan. Reports pods that are missing, duplicated or unknown.
pub(super) fn collect<'a>(input: &'a PlanningInput, plan: &'a Plan, findings: &mut Findings<'_>) -> Placements<'a> {
    let existing = input.nodes.len();
    let mut host_of = vec![UNPLACED; input.pods.len()];
    let mut times_placed = vec![0_u32; input.pods.len()];
    let mut place = |pod: u32, host: u32, findings: &mut Findings<'_>| match host_of.get_mut(pod as usize) {
        Some(slot) => {
            times_placed[pod as usize] += 1;
            if *slot == UNPLACED {
                *slot = host;
            }
        }
        None => findings.report_plan(
            Rule::Placement,
            format!("the plan refers to pod {pod}, but the input has only {} pods", input.pods.len()),
        ),
    };
    for (pod, node) in &plan.placements {
        if *node as usize >= existing {
            findings.report_plan(
                Rule::Placement,
                format!("pod {pod} is placed on node {node}, but the input has only {existing} nodes"),
            );
        } else {
            place(*pod, *node, findings);
        }
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        node.pods.iter().for_each(|pod| place(*pod, host_number(existing + at), findings));
        if node.pods.is_empty() {
            findings.report_node(Rule::Placement, &node.name, "no pod is placed on it".to_owned());
        }
    }
    // Every list has been counted once this ends, so a count other than 1 is a missing or duplicate
    // pod.
    plan.unschedulable.iter().for_each(|pod| place(*pod, UNPLACED, findings));
    for (pod, times) in times_placed.iter().enumerate().filter(|(_, times)| **times != 1) {
        findings.report_pod(Rule::Placement, host_number(pod), None, &format!("is in {times} places instead of one"));
    }
    for (pod, _) in input.pods.iter().enumerate().filter(|(at, p)| p.invalid.is_some() && host_of[*at] != UNPLACED) {
        findings.report_pod(Rule::InvalidPod, host_number(pod), None, "is placed, but it is invalid");
    }
    names_are_unique(input, plan, findings);
    let order = order(input, plan, &host_of, findings);
    let names = input.nodes.iter().map(|n| &n.name).chain(plan.nodes.iter().map(|n| &n.name)).collect();
    Placements { by_host: group_by_host(&host_of), host_of, order, names }
}

/// Converts an index to 32 bits; indices of pods and hosts fit in every plan.
fn host_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(UNPLACED)
}

fn group_by_host(host_of: &[u32]) -> Vec<NodePods> {
    let mut by_host: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pod, host) in host_of.iter().enumerate().filter(|(_, host)| **host != UNPLACED) {
        by_host.entry(*host).or_default().push(host_number(pod));
    }
    by_host.into_iter().map(|(host, pods)| NodePods { host, pods }).collect()
}

fn order(input: &PlanningInput, plan: &Plan, host_of: &[u32], findings: &mut Findings<'_>) -> Vec<u32> {
    let mut seen = vec![false; input.pods.len()];
    let mut order = Vec::with_capacity(plan.order.len());
    for pod in &plan.order {
        match host_of.get(*pod as usize) {
            None => findings.report_plan(Rule::Order, format!("the order contains pod {pod}, which does not exist")),
            Some(&UNPLACED) => findings.report_pod(Rule::Order, *pod, None, "is in the order but not placed"),
            Some(_) if seen[*pod as usize] => findings.report_pod(Rule::Order, *pod, None, "is in the order twice"),
            Some(_) => {
                seen[*pod as usize] = true;
                order.push(*pod);
            }
        }
    }
    for (pod, host) in host_of.iter().enumerate() {
        if *host != UNPLACED && !seen[pod] {
            findings.report_pod(Rule::Order, host_number(pod), None, "is placed but missing from the order");
            order.push(host_number(pod));
        }
    }
    order
}

fn names_are_unique(input: &PlanningInput, plan: &Plan, findings: &mut Findings<'_>) {
    let mut taken: FxHashSet<&NodeName> = input.nodes.iter().map(|node| &node.name).collect();
    for node in plan.nodes.iter().chain(&plan.static_nodes) {
        if !taken.insert(&node.name) {
            findings.report_node(Rule::Names, &node.name, "another node has this name".to_owned());
        }
    }
}
