//! Pods that must share a host or a zone with others, where the place of the others has no room for them.
//!
//! The packing places the first pods of such a group where it finds room for them, and the others must follow.
//! Here the pending pods of the group leave the plan and are tried together: on one existing node after another, on
//! one machine of the plan, in one zone, and at last with further machines. Where no place has room for all of them,
//! the one that takes the most is chosen, by priority, if that is more than the plan places. A group that has a
//! running pod stays where that is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::place::Place;
use super::zones::spread_keys;
use super::{Retry, TrialResult};
use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE};
use model::{Pod, PodAffinityTerm, Resources, Text, Zone};
use verifier::kernel::PodSelector;

/// Pods that are tried as the one that another pod must stand beside.
const MAX_TARGETS: usize = 64;

/// Nodes that are tried for a part of a group.
const MAX_PARTIAL_NODES: usize = 8;

/// What became of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupTrial {
    Placed,
    NoPlace,
    /// The rules of other pods do not hold without it.
    Held,
}

impl Retry<'_> {
    /// Places one pod that the plan leaves out after another with its group; returns whether any was placed.
    pub(super) fn place_groups(&mut self, kinds: &mut [Vec<u32>]) -> bool {
        let mut any = false;
        for at in 0..kinds.len() {
            while let Some(first) = kinds[at].first().copied()
                && self.place_with_group(first)
            {
                kinds.iter_mut().for_each(|pods| pods.retain(|pod| self.is_left_out(*pod)));
                any = true;
            }
        }
        any
    }

    /// Whether one of the groups of `pod` finds a place, at least for more of its pods. Pods of one kind that it may stand beside find the same
    /// places.
    fn place_with_group(&mut self, pod: u32) -> bool {
        let mut tried = BTreeSet::new();
        for group in self.groups_of(pod) {
            let first = &self.input.pods[group[0] as usize];
            let kind = (group.len(), first.shape, first.labels, &first.namespace);
            if tried.contains(&kind) {
                continue;
            }
            match self.place_group(&group, &[false, true], true) {
                GroupTrial::Placed => return true,
                GroupTrial::NoPlace => tried.insert(kind),
                GroupTrial::Held => false,
            };
        }
        false
    }

    fn is_left_out(&self, pod: u32) -> bool {
        self.plan.unschedulable.binary_search(&pod).is_ok()
    }

    /// The groups that `pod` may be placed with, in the order of their pods in the plan: a pod that it must stand
    /// beside, if one is enough, or all pods that must stand together.
    fn groups_of(&mut self, pod: u32) -> Vec<Vec<u32>> {
        let terms = |of: u32| together(self.input, of);
        if terms(pod).is_empty() || !self.consume_work(self.each_check) || follows_running_pod(self.input, pod) {
            return Vec::new();
        }
        let mut groups = Vec::new();
        if !selects(self.input, pod, &self.input.pods[pod as usize]) {
            let targets = self.plan.order.iter().rev().copied();
            let targets = targets.filter(|other| selects(self.input, pod, &self.input.pods[*other as usize]));
            let alone = targets.filter(|other| terms(*other).is_empty()).take(MAX_TARGETS);
            groups.extend(alone.map(|target| vec![target, pod]));
        }
        groups.extend(self.all_together(pod));
        groups
    }

    /// All pending pods that must stand together with `pod`, placed ones first; `None` if one must stand beside a
    /// running pod, or the work is exhausted.
    fn all_together(&mut self, pod: u32) -> Option<Vec<u32>> {
        let input = self.input;
        let (mut known, mut left) = (BTreeSet::from([pod]), vec![pod]);
        let mut evaluated = BTreeSet::new();
        while let Some(member) = left.pop() {
            let own = &input.pods[member as usize];
            if !evaluated.insert((own.shape, own.labels, &own.namespace)) {
                continue;
            }
            if follows_running_pod(input, member) || !self.consume_work(self.each_check) {
                return None;
            }
            let is_tied = |other: u32| {
                let kind = &input.pods[other as usize];
                selects(input, member, kind)
                    || selects(input, other, own)
                    || (kind.shape, kind.labels, &kind.namespace) == (own.shape, own.labels, &own.namespace)
            };
            let pending = self.plan.order.iter().chain(&self.plan.unschedulable).copied();
            let tied = pending.filter(|other| !known.contains(other) && is_tied(*other));
            left.extend(tied.collect::<Vec<_>>());
            known.extend(&left);
        }
        let placed = self.plan.order.iter().filter(|pod| known.contains(*pod));
        let out = self.plan.unschedulable.iter().filter(|pod| known.contains(*pod));
        Some(placed.chain(out).copied().collect())
    }

    /// Whether the pods of machine `at`, with those that they must share a zone or host with, find a place on the
    /// other nodes, and none of those becomes dearer; the plan is changed to that.
    pub(super) fn give_up_with_group(&mut self, at: usize) -> bool {
        let (input, own) = (self.input, self.plan.nodes[at].pods.clone());
        let mut group: Vec<u32> = Vec::new();
        for pod in &own {
            if !together(input, *pod).is_empty() && !group.contains(pod) {
                let Some(all) = self.all_together(*pod) else { return false };
                group.extend(all);
            }
        }
        if group.is_empty() {
            return false;
        }
        group.extend(own);
        let group: BTreeSet<u32> = group.into_iter().collect();
        let is_spread = |pod: &u32| {
            let shape = &input.shapes[input.pods[*pod as usize].shape as usize];
            !shape.spread.is_empty() || spread_keys(shape, input.policy.preferences).next().is_some()
        };
        if group.iter().any(is_spread) || group.iter().any(|pod| self.is_left_out(*pod)) {
            return false;
        }
        let pods: Vec<u32> = self.plan.order.iter().copied().filter(|pod| group.contains(pod)).collect();
        self.may_cost_more = false;
        let trial = self.place_group(&pods, &[false], false);
        self.may_cost_more = true;
        trial == GroupTrial::Placed
    }

    /// Tries all of `pods` together; the plan is changed if they find a place. With `partly`, it is also changed to
    /// the place that takes the most of them, if that is more than it has placed.
    fn place_group(&mut self, pods: &[u32], may_launch: &[bool], partly: bool) -> GroupTrial {
        let before = (self.plan.clone(), self.free.clone());
        let (mut most, mut best) = (self.placed_by_priority(pods), None);
        self.take_out(pods);
        if self.check_trial(0) != TrialResult::Accepted {
            (self.plan, self.free) = before;
            self.zone_counts = None;
            return GroupTrial::Held;
        }
        let without = (self.plan.clone(), self.free.clone());
        let over_hosts = pods.iter().any(|pod| together(self.input, *pod).contains(&HOSTNAME));
        for may_launch in may_launch {
            let mut places = self.places(pods, over_hosts, *may_launch);
            if places.is_empty() && partly {
                places = self.roomiest_nodes(pods);
            }
            for place in places {
                if !self.consume_work(self.each_check) {
                    break;
                }
                (self.place, self.may_launch) = (Some(place), *may_launch);
                let placed = self.place_all(pods.to_vec());
                (self.place, self.may_launch) = (None, true);
                if placed {
                    return GroupTrial::Placed;
                }
                let count = self.placed_by_priority(pods);
                if partly && count > most {
                    (most, best) = (count, Some((self.plan.clone(), self.free.clone())));
                }
                (self.plan, self.free) = without.clone();
                self.zone_counts = None;
            }
        }
        let trial = if best.is_some() { GroupTrial::Placed } else { GroupTrial::NoPlace };
        (self.plan, self.free) = best.unwrap_or(before);
        self.zone_counts = None;
        trial
    }

    /// How many of `pods` the plan places, by priority, highest first. Lists of the same pods compare as plans do.
    fn placed_by_priority(&self, pods: &[u32]) -> Vec<usize> {
        let mut placed: BTreeMap<Reverse<i32>, usize> = BTreeMap::new();
        for pod in pods {
            *placed.entry(Reverse(self.shape(*pod).priority)).or_default() += usize::from(!self.is_left_out(*pod));
        }
        placed.into_values().collect()
    }

    /// Takes `pods` out of the plan, with the machines that are empty then.
    fn take_out(&mut self, pods: &[u32]) {
        let taken: BTreeSet<u32> = pods.iter().copied().collect();
        let (input, plan) = (self.input, &mut self.plan);
        for (pod, node) in plan.placements.extract_if(.., |(pod, _)| taken.contains(pod)) {
            self.free[node as usize].add(&input.shapes[input.pods[pod as usize].shape as usize].requests);
        }
        for node in &mut plan.nodes {
            let count = node.pods.len();
            node.pods.retain(|pod| !taken.contains(pod));
            if node.pods.len() < count
                && let Some(smaller) = self.machines.narrow(node, &node.types, &node.zones)
            {
                *node = smaller;
            }
        }
        plan.nodes.retain(|node| !node.pods.is_empty());
        plan.order.retain(|pod| !taken.contains(pod));
        let all = plan.unschedulable.iter().chain(&taken).copied().collect::<BTreeSet<u32>>();
        plan.unschedulable = all.into_iter().collect();
        self.zone_counts = None;
    }

    /// Places with room for `pods` by size: hosts, or every zone.
    fn places(&self, pods: &[u32], over_hosts: bool, may_launch: bool) -> Vec<Place> {
        if !over_hosts {
            let running = self.input.nodes.iter().filter_map(|node| node.labels.get(ZONE)).map(Zone::from);
            let planned = self.plan.nodes.iter().flat_map(|node| node.zones.iter().cloned());
            let pools = (0..).zip(&self.input.pools).map(|(at, _)| at).filter(|_| may_launch);
            let offered = pools.flat_map(|at| self.machines.zones_of(at).cloned());
            let zones: BTreeSet<Zone> = running.chain(planned).chain(offered).collect();
            return zones.into_iter().map(Place::Zone).collect();
        }
        if may_launch {
            return vec![Place::NewMachine];
        }
        let requests = requests_of(self.input, pods);
        let nodes = self.free.iter().enumerate().filter(|(_, free)| requests.fits(free));
        let nodes = nodes.map(|(at, _)| Place::Node(at));
        let machines = self.plan.nodes.iter().filter(|node| {
            let mut all = requests.clone();
            all.add(&node.requests);
            let types = &self.input.pools[node.pool as usize].catalogue.types;
            node.types.iter().any(|kind| all.fits(&types[*kind as usize].allocatable))
        });
        nodes.chain(machines.map(|node| Place::Machine(node.name.clone()))).collect()
    }

    /// The existing nodes with room for the most of `pods`, where none has room for all.
    fn roomiest_nodes(&self, pods: &[u32]) -> Vec<Place> {
        let fitting = |free: &Resources| {
            let mut free = free.clone();
            let fits = |pod: &&u32| {
                let requests = &self.shape(**pod).requests;
                let fits = requests.fits(&free);
                if fits {
                    free.subtract(requests);
                }
                fits
            };
            pods.iter().filter(fits).count()
        };
        let nodes = self.free.iter().enumerate().map(|(at, free)| (Reverse(fitting(free)), at));
        let mut nodes: Vec<(Reverse<usize>, usize)> = nodes.filter(|(Reverse(count), _)| *count > 0).collect();
        nodes.sort_unstable();
        nodes.into_iter().take(MAX_PARTIAL_NODES).map(|(_, at)| Place::Node(at)).collect()
    }

    /// Whether all of `pods` can be placed, in rounds: a pod may wait for one that it must stand beside.
    fn place_all(&mut self, mut pods: Vec<u32>) -> bool {
        self.least = requests_of(self.input, &pods);
        while !pods.is_empty() {
            let count = pods.len();
            pods.retain(|pod| !self.place_in_any_way(*pod));
            if pods.len() == count {
                return false;
            }
        }
        true
    }

    fn place_in_any_way(&mut self, pod: u32) -> bool {
        let placed = [false, true].into_iter().any(|narrow| {
            self.narrow = narrow;
            self.place_pod(pod)
        });
        if placed && self.place == Some(Place::NewMachine) {
            let opened = self.plan.nodes.iter().find(|node| node.pods.contains(&pod));
            self.place = opened.map(|node| Place::Machine(node.name.clone()));
        }
        placed
    }
}

/// Terms of required affinity over hostnames or zones of `pod`.
fn terms_of(input: &PlanningInput, pod: u32) -> impl Iterator<Item = &PodAffinityTerm> {
    let shape = &input.shapes[input.pods[pod as usize].shape as usize];
    shape.pod_affinity.iter().filter(|term| matches!(term.topology_key.as_ref(), HOSTNAME | ZONE))
}

/// The keys of [`terms_of`].
fn together(input: &PlanningInput, pod: u32) -> Vec<&str> {
    terms_of(input, pod).map(|term| term.topology_key.as_ref()).collect()
}

/// Whether `pod` must stand beside pods like `other`.
fn selects(input: &PlanningInput, pod: u32, other: &Pod) -> bool {
    selects_labels(input, pod, &other.namespace, other.labels)
}

/// Whether all terms of `pod` select pods with these labels: the same pod must match them all.
fn selects_labels(input: &PlanningInput, pod: u32, namespace: &Text, labels: u32) -> bool {
    let own = &input.pods[pod as usize].namespace;
    let meant = |term| PodSelector::of_term(own, term).selects(input, namespace, &input.label_sets[labels as usize]);
    let mut terms = terms_of(input, pod).peekable();
    terms.peek().is_some() && terms.all(meant)
}

/// Whether `pod` must stand beside a running pod.
fn follows_running_pod(input: &PlanningInput, pod: u32) -> bool {
    let mut running = input.nodes.iter().flat_map(|node| &node.pods).filter(|pod| !pod.leaving);
    running.any(|other| selects_labels(input, pod, &other.namespace, other.labels))
}

fn requests_of(input: &PlanningInput, pods: &[u32]) -> Resources {
    let mut requests = Resources::new();
    pods.iter().for_each(|pod| requests.add(&input.shapes[input.pods[*pod as usize].shape as usize].requests));
    requests
}
