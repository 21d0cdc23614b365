//! The moves of removals as a sequence, while the nodes that leave are there.

use std::collections::{BTreeMap, BTreeSet};

use super::super::launch::Launches;
use super::super::placements::{Placements, UNPLACED};
use super::super::violation::Findings;
use super::filter::LeavingNodes;
use super::judge;
use crate::eviction_step::EvictionStep;
use model::input::PlanningInput;
use model::plan::Plan;
use model::taints::{Taint, first_untolerated};
use model::{BoundPod, NodeName, PodShape};

/// Pods of later steps are on their nodes until their step, whose pods are evicted together and bound one after
/// another. Pods that leave a node of a step and are not placed again are counted there until the step.
pub(crate) fn check_steps<'a>(
    (input, plan): (&'a PlanningInput, &'a Plan),
    steps: &[EvictionStep],
    placements: &Placements<'a>,
    launches: &Launches<'a>,
    findings: &mut Findings<'a>,
) {
    let moves = Moves { input, plan, steps, placements, launches, others: unplaced_pods(input, steps) };
    let honours: Vec<bool> = input.shapes.iter().map(honours_drains).collect();
    let honours = |pod: u32| input.pods.get(pod as usize).is_some_and(|pod| honours[pod.shape as usize]);
    moves.judge(&BTreeSet::new(), |_, pod| !honours(pod), findings);
    // A node has the taint of the drain from its step on, which the rules of these pods see.
    for number in (0..steps.len()).filter(|number| steps[*number].pods.iter().any(|pod| honours(*pod))) {
        let later = steps[number + 1..].iter().flat_map(|step| &step.nodes).copied().collect();
        moves.judge(&later, |of_step, pod| of_step == number && honours(pod), findings);
    }
}

/// Whether a rule of the pods does not count nodes that are drained, because of their taint.
fn honours_drains(shape: &PodShape) -> bool {
    shape.spread.iter().any(|constraint| constraint.hard && constraint.honor_node_taints)
        && first_untolerated(&[Taint::of_drain()], &shape.tolerations).is_some()
}

struct Moves<'a, 's> {
    input: &'a PlanningInput,
    plan: &'a Plan,
    steps: &'s [EvictionStep],
    placements: &'s Placements<'a>,
    launches: &'s Launches<'a>,
    /// The pods that leave nodes and are not placed again, with the nodes.
    others: Vec<(u32, &'a BoundPod)>,
}

impl<'a> Moves<'a, '_> {
    /// Carries all steps out and judges the pods that `is_judged` is true for, by the number of the step and the pod. The
    /// nodes `later` have no taint yet.
    fn judge(&self, later: &BTreeSet<u32>, is_judged: impl Fn(usize, u32) -> bool, findings: &mut Findings<'a>) {
        let Self { input, plan, steps, placements, launches, others } = self;
        let number_of: BTreeMap<&NodeName, u32> = (0..).zip(&input.nodes).map(|(at, node)| (&node.name, at)).collect();
        let home_of = |pod: u32| number_of.get(input.pods.get(pod as usize)?.moved_from.as_ref()?).copied();
        let is_placed = |pod: &&u32| placements.host_of.get(**pod as usize).is_some_and(|host| *host != UNPLACED);
        judge((input, plan), placements, launches, (LeavingNodes::There { later }, others), |checker| {
            let mut others: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (class, host) in std::mem::take(&mut checker.others) {
                checker.count_pod(class, host);
                others.entry(host).or_default().push(class);
            }
            let all = || steps.iter().flat_map(|step| &step.pods).filter(is_placed);
            for (pod, home) in all().filter_map(|pod| Some((*pod, home_of(*pod)?))) {
                checker.count_pod(checker.class_of[pod as usize], home);
            }
            for (number, step) in steps.iter().enumerate() {
                for (host, classes) in step.nodes.iter().filter_map(|node| others.get_key_value(node)) {
                    classes.iter().for_each(|class| checker.uncount_pod(*class, *host));
                }
                let pods = || step.pods.iter().filter(is_placed);
                for (pod, home) in pods().filter_map(|pod| Some((*pod, home_of(*pod)?))) {
                    checker.uncount_pod(checker.class_of[pod as usize], home);
                }
                let mut ignored = Findings::new(input);
                for pod in pods() {
                    let is_judged = !step.is_forced && is_judged(number, *pod);
                    checker.place(*pod, if is_judged { &mut *findings } else { &mut ignored });
                }
            }
        });
    }
}

/// The pods on nodes of `steps` that leave them and are not placed again, with these nodes.
fn unplaced_pods<'a>(input: &'a PlanningInput, steps: &[EvictionStep]) -> Vec<(u32, &'a BoundPod)> {
    let placed = steps.iter().flat_map(|step| &step.pods).filter_map(|pod| input.pods.get(*pod as usize));
    let placed: BTreeSet<_> = placed.map(|pod| (&pod.namespace, &pod.name)).collect();
    let is_other = |pod: &&BoundPod| pod.leaving && !pod.terminating && !placed.contains(&(&pod.namespace, &pod.name));
    let nodes = steps.iter().flat_map(|step| &step.nodes);
    let of_node = |node: &u32| {
        let pods = input.nodes.get(*node as usize).into_iter().flat_map(|node| &node.pods);
        let host = *node;
        pods.filter(is_other).map(move |pod| (host, pod)).collect::<Vec<_>>()
    };
    nodes.flat_map(of_node).collect()
}
