//! Machines whose pods would all fit on the other nodes of the finished plan.
//!
//! The packing places a class when its turn comes, and what is placed later may leave capacity for its
//! pods. Here the pods of one machine after another are tried on the other nodes, those of small
//! machines first. A machine is given up if all of its pods find a place, no other machine becomes dearer, and
//! spread pods stay in their zone: a spread counts a domain that is gone as one without a pod.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::machines::cheapest;
use super::zones::spread_keys;
use super::{MachineSignature, Retry, place_unscheduled};
use model::input::PlanningInput;
use model::labels::ZONE;
use model::plan::{Plan, PlannedNode};
use model::{NodeName, Resources};

/// Work bound for the first packing and for each plan of a search, in the unit of [`super::MAX_WORK`].
pub(crate) const WORK: usize = 50_000;
/// The same for the plan that a search chooses.
pub(crate) const WORK_AFTER_SEARCH: usize = 400_000;

/// How often what given up machines leave goes to pods without a place.
const ROUNDS: usize = 3;
/// Work of one launch option in a check.
const OPTION_WORK: usize = 5;

/// `plan` without the machines whose pods the check accepts on its other nodes, within `most_work`. What
/// they leave of limits and reservations goes to the pods that `plan` leaves out.
pub(crate) fn without_needless_machines(input: &PlanningInput, plan: Plan, most_work: usize) -> Plan {
    if plan.nodes.is_empty() || plan.nodes.len() + input.nodes.len() < 2 {
        return plan;
    }
    let (mut plan, mut work) = (plan, most_work);
    for _ in 0..ROUNDS {
        let mut retry = Retry::new(input, plan, work);
        let mut any = false;
        while retry.give_up_machines() {
            any = true;
        }
        (plan, work) = (retry.plan, retry.work);
        if !any || plan.unschedulable.is_empty() {
            return plan;
        }
        let left_out = plan.unschedulable.len();
        plan = place_unscheduled(input, plan, super::MAX_WORK);
        // A machine that is bought for such a pod may have room for the pods of another.
        if plan.unschedulable.len() == left_out {
            return plan;
        }
    }
    plan
}

impl Retry<'_> {
    /// Tries each machine once; returns whether any was given up.
    fn give_up_machines(&mut self) -> bool {
        let order = self.order_of_trials();
        let mut free = FreeCapacity::of(self);
        let mut kept: BTreeSet<MachineSignature> = BTreeSet::new();
        let mut any = false;
        for name in order {
            let Some(at) = self.plan.nodes.iter().position(|node| node.name == name) else { continue };
            if self.work == 0 {
                break;
            }
            let signature = self.signature(&self.plan.nodes[at]);
            if kept.contains(&signature) || !self.may_give_up(at) || !free.may_take(self, at) {
                continue;
            }
            if self.give_up(at) || self.give_up_with_group(at) {
                (free, any) = (FreeCapacity::of(self), true);
            } else {
                // Machines that are alike find the same places, except each other.
                kept.insert(signature);
            }
        }
        any
    }

    /// Machines with few pods first, then dear ones. Of those that are alike, the one whose pods were placed
    /// last: without the pods of another, a spread would not hold for those that were placed after them.
    fn order_of_trials(&self) -> Vec<NodeName> {
        let places: FxHashMap<u32, usize> = self.plan.order.iter().enumerate().map(|(at, pod)| (*pod, at)).collect();
        let first = |node: &PlannedNode| node.pods.iter().filter_map(|pod| places.get(pod)).min().copied();
        let key = |node: &PlannedNode| (node.pods.len(), Reverse(node.cost()), Reverse(first(node)), node.name.clone());
        let mut machines: Vec<_> = self.plan.nodes.iter().map(key).collect();
        machines.sort_unstable();
        machines.into_iter().map(|(_, _, _, name)| name).collect()
    }

    /// Whether the pods of machine `at` can stay in their domains without it.
    fn may_give_up(&self, at: usize) -> bool {
        let machine = &self.plan.nodes[at];
        let keys = |pod: &u32| spread_keys(self.shape(*pod), self.input.policy.preferences);
        machine.pods.iter().flat_map(keys).all(|key| key.as_ref() == ZONE && machine.zones.len() == 1)
    }

    /// Whether the pods of machine `at` fit elsewhere; the plan is changed to that.
    fn give_up(&mut self, at: usize) -> bool {
        // The launch options take most of the time of a check. A copy of the plan shares them.
        let options: usize = self.plan.nodes.iter().map(|node| node.types.len()).sum();
        self.each_trial = OPTION_WORK * options;
        if !self.consume_work(self.each_check + self.plan.nodes.len()) {
            return false;
        }
        let (before, free) = (self.plan.clone(), self.free.clone());
        let PlannedNode { pods, zones, .. } = self.plan.nodes.remove(at);
        self.stay_in = zones.first().cloned();
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
        (self.may_launch, self.may_cost_more, self.gives_up) = (false, false, true);
        let placed = [false, true].into_iter().any(|narrow| {
            self.narrow = narrow;
            self.place_pod(pod)
        });
        (self.may_launch, self.may_cost_more, self.gives_up) = (true, true, false);
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

    /// Whether the free capacity of some other node is enough for each pod of machine `at` by itself.
    fn may_take(&self, retry: &mut Retry<'_>, at: usize) -> bool {
        let input = retry.input;
        let others = || {
            let machines = self.machines.iter().enumerate().filter(|(other, _)| *other != at);
            self.nodes.iter().chain(machines.map(|(_, free)| free))
        };
        let mut last = None;
        for pod in retry.plan.nodes[at].pods.clone() {
            let shape = input.pods[pod as usize].shape;
            if last == Some(shape) {
                continue;
            }
            last = Some(shape);
            let requests = &input.shapes[shape as usize].requests;
            if !retry.consume_work(1 + (self.nodes.len() + self.machines.len()) / 2)
                || !others().any(|free| requests.fits(free))
            {
                return false;
            }
        }
        true
    }
}
