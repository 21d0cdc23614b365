//! Machines whose pods would all fit on the other nodes of the finished plan.
//!
//! The packing places a class when its turn comes, and what is placed later may leave capacity for its
//! pods. Here the pods of one machine after another are tried on the other nodes, those of small
//! machines first. A machine is given up if all of its pods find a place and no other machine becomes dearer.

use std::cmp::Reverse;

use super::machines::cheapest;
use super::{Retry, place_unscheduled};
use model::input::{PlanningInput, PreferencePolicy};
use model::labels::HOSTNAME;
use model::plan::{Plan, PlannedNode};
use model::{PodShape, Resources, Text};

/// Work bound for the first packing and for each plan of a search, in the unit of [`super::MAX_WORK`].
pub(crate) const WORK: usize = 50_000;
/// The same for the plan that a search chooses.
pub(crate) const WORK_AFTER_SEARCH: usize = 400_000;

/// Work of one launch option in a check.
const OPTION_WORK: usize = 5;

/// `plan` without the machines whose pods the check accepts on its other nodes, within `most_work`. What
/// they leave of limits and reservations goes to the pods that `plan` leaves out.
pub(crate) fn without_needless_machines(input: &PlanningInput, plan: Plan, most_work: usize) -> Plan {
    if plan.nodes.is_empty() || plan.nodes.len() + input.nodes.len() < 2 {
        return plan;
    }
    let mut retry = Retry::new(input, plan, most_work);
    let mut any = false;
    while retry.give_up_machines() {
        any = true;
    }
    if any { place_unscheduled(input, retry.plan, super::MAX_WORK) } else { retry.plan }
}

impl Retry<'_> {
    /// Tries each machine once; returns whether any was given up.
    fn give_up_machines(&mut self) -> bool {
        let nodes = self.plan.nodes.iter();
        let mut order: Vec<_> = nodes.map(|node| (node.pods.len(), Reverse(node.cost()), node.name.clone())).collect();
        order.sort_unstable();
        let mut free = FreeCapacity::of(self);
        let mut any = false;
        for (_, _, name) in order {
            let Some(at) = self.plan.nodes.iter().position(|node| node.name == name) else { continue };
            if self.work == 0 {
                break;
            }
            let mut pods = self.plan.nodes[at].pods.iter();
            let is_free = !pods.any(|pod| is_spread(self.shape(*pod), self.input.policy.preferences));
            if is_free && free.may_take(self, at) && self.give_up(at) {
                (free, any) = (FreeCapacity::of(self), true);
            }
        }
        any
    }

    /// Whether the pods of machine `at` fit elsewhere; the plan is changed to that.
    fn give_up(&mut self, at: usize) -> bool {
        // The launch options take most of the time of the copy of the plan, and of each check.
        let options: usize = self.plan.nodes.iter().map(|node| node.types.len()).sum();
        self.each_trial = OPTION_WORK * options;
        if !self.consume_work(self.each_check + self.each_trial) {
            return false;
        }
        let (before, free) = (self.plan.clone(), self.free.clone());
        let pods = self.plan.nodes.remove(at).pods;
        self.plan.order.retain(|pod| pods.binary_search(pod).is_err());
        self.plan.unschedulable.extend(&pods);
        self.plan.unschedulable.sort_unstable();
        self.zone_counts = None;
        let order = before.order.iter().filter(|pod| pods.binary_search(pod).is_ok());
        if order.into_iter().all(|pod| self.place_on_known(*pod)) {
            return true;
        }
        (self.plan, self.free, self.zone_counts) = (before, free, None);
        false
    }

    /// Places a pod without a further machine, and without making one dearer.
    fn place_on_known(&mut self, pod: u32) -> bool {
        (self.may_launch, self.may_cost_more) = (false, false);
        let placed = [false, true].into_iter().any(|narrow| {
            self.narrow = narrow;
            self.place_pod(pod)
        });
        (self.may_launch, self.may_cost_more) = (true, true);
        placed
    }
}

/// Free capacity of every node, and of every machine with launch options that make it no dearer.
struct FreeCapacity {
    nodes: Vec<Resources>,
    /// By index in the plan.
    machines: Vec<Resources>,
}

impl FreeCapacity {
    fn of(retry: &Retry<'_>) -> Self {
        let free = |node: &PlannedNode| {
            let pool = &retry.input.pools[node.pool as usize];
            let is_as_cheap =
                |kind: &&u32| cheapest(pool, **kind, node, &node.zones).is_some_and(|(price, _)| price <= node.cost());
            let mut free = Resources::new();
            for kind in node.types.iter().take_while(is_as_cheap) {
                free.raise_to(&pool.catalogue.types[*kind as usize].allocatable);
            }
            free.subtract(&node.requests);
            free
        };
        Self { nodes: retry.free.clone(), machines: retry.plan.nodes.iter().map(free).collect() }
    }

    /// Whether the pods of machine `at` fit into the room of the others by size, each into the first that
    /// has room for it.
    fn may_take(&self, retry: &mut Retry<'_>, at: usize) -> bool {
        let input = retry.input;
        let mut taken: Vec<(usize, Resources)> = Vec::new();
        for pod in retry.plan.nodes[at].pods.clone() {
            let requests = &input.shapes[input.pods[pod as usize].shape as usize].requests;
            if !retry.consume_work(1 + (self.nodes.len() + self.machines.len()) / 2) {
                return false;
            }
            let all = self.nodes.iter().chain(&self.machines).enumerate();
            let mut others = all.filter(|(other, _)| *other != at + self.nodes.len());
            let has_room = |(other, free): &(usize, &Resources)| match taken.iter().find(|(known, _)| known == other) {
                Some((_, left)) => requests.fits(left),
                None => requests.fits(free),
            };
            let Some((other, free)) = others.find(has_room) else { return false };
            match taken.iter_mut().find(|(known, _)| *known == other) {
                Some((_, left)) => left.subtract(requests),
                None => {
                    let mut left = free.clone();
                    left.subtract(requests);
                    taken.push((other, left));
                }
            }
        }
        true
    }
}

/// Whether a spread, or a preference between pods over zones, may have launched the pod's machine. Without
/// the machine its domain may be gone, and a check that counts the domains that are there would allow to
/// put all pods into one zone. Preferences over hostnames launch no machine (plan contract, Choice).
fn is_spread(shape: &PodShape, policy: PreferencePolicy) -> bool {
    let respects = policy == PreferencePolicy::Respect;
    let is_wide = |key: &Text| respects && key.as_ref() != HOSTNAME;
    let mut terms = shape.preferred_pod_affinity.iter().chain(&shape.preferred_pod_anti_affinity);
    shape.spread.iter().any(|spread| spread.hard || is_wide(&spread.topology_key))
        || terms.any(|term| is_wide(&term.term.topology_key))
}
