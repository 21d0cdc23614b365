//! A second attempt at unschedulable pods on top of the finished plan, by the rules of the check.
//!
//! The packing decides before the launch options of a machine are final, so it is stricter than the
//! check in places: it reserves capacity for a DaemonSet that only some options of a machine run,
//! and charges a volume once for each pod that mounts it. A pod left out for such a reason fits the
//! finished plan and is placed here: on a node, on a machine of the plan with the launch options
//! that carry the pod too, or on a new machine. Each trial is a whole plan that the check accepts
//! or rejects. Trials that taints, labels, limits, size, `minValues`, or the pods of a host or a zone
//! exclude are skipped. At last, pods that must stand together are tried together (`groups`). Plans
//! without such pods cost nothing, and [`MAX_WORK`] bounds the others.

mod groups;
mod hosts;
pub(crate) mod machines;
mod needless;
mod place;
mod zones;

pub(super) use needless::{WORK as NEEDLESS_WORK, WORK_AFTER_SEARCH, without_needless_machines};

use std::collections::{BTreeMap, BTreeSet};

use self::hosts::{ClosedHosts, is_cordoned};
use self::machines::{MachineTrials, matches_known_labels};
use self::place::Place;
use self::zones::{OpenZones, ZonePodCounts, has_zone_rules, spread_keys};
use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE};
use model::plan::{Plan, PlannedNode};
use model::taints::first_untolerated;
use model::{CapacityType, Node, NodeStage, PodShape, Resources, Text, Zone, requirements::label_satisfies};
use verifier::{Rule, Violation, check};

/// Work bound for all trials of one decision. A unit is a pod evaluated by a check, or a node or
/// instance type compared with a pod: about 100 nanoseconds.
pub(super) const MAX_WORK: usize = 150_000;
/// The same for pods that must stand together.
const GROUP_WORK: usize = 150_000;
/// Units per machine of the plan, which has many launch options.
const MACHINE_WORK: usize = 8;
/// Rules between pods that double the cost of a check. Each pod is evaluated against the few rules
/// that select it.
const RULES_PER_UNIT: usize = 32;
/// Pods whose labels are looked at in the time of a unit.
const LOOKS_PER_UNIT: usize = 4;

/// `plan` with those of its unschedulable pods that the check accepts on top of it, within
/// `most_work`.
pub(super) fn place_unscheduled(input: &PlanningInput, plan: Plan, most_work: usize) -> Plan {
    if plan.unschedulable.is_empty() {
        return plan;
    }
    let mut retry = Retry::new(input, plan, most_work);
    let mut kinds = kinds(input, &retry.plan);
    // Every kind is tried with wide choices first, so that pods that fit nowhere leave work for the
    // others.
    while retry.try_kinds(&mut kinds, false) || retry.try_kinds(&mut kinds, true) {}
    retry.work = GROUP_WORK;
    if retry.place_groups(&mut kinds) {
        // A group may have left a place that is large enough for others.
        retry.work = most_work;
        while retry.try_kinds(&mut kinds, false) || retry.try_kinds(&mut kinds, true) {}
    }
    retry.plan
}

/// Unschedulable pods grouped by what the check sees of them, higher priority first, then by their
/// first pod.
fn kinds(input: &PlanningInput, plan: &Plan) -> Vec<Vec<u32>> {
    let waits = input.pools.iter().any(|pool| pool.rules.spot_fallback_after.is_some());
    let mut kinds: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for at in &plan.unschedulable {
        let Some(pod) = input.pods.get(*at as usize) else { continue };
        let volumes = pod.volumes.and_then(|set| input.volume_sets.get(set as usize));
        if pod.invalid.is_none() && volumes.is_none_or(|volumes| volumes.blocked.is_none()) {
            let since = pod.created.filter(|_| waits);
            kinds.entry((pod.shape, pod.labels, pod.volumes, &pod.namespace, since)).or_default().push(*at);
        }
    }
    let mut kinds: Vec<Vec<u32>> = kinds.into_values().collect();
    let priority = |pod: u32| input.shapes[input.pods[pod as usize].shape as usize].priority;
    kinds.sort_by_key(|pods| (std::cmp::Reverse(priority(pods[0])), pods[0]));
    kinds
}

/// Properties that machines share if a rejection on one applies to all.
type MachineSignature = (u32, CapacityType, Option<Text>, Vec<u32>, Vec<Zone>, Vec<(u32, u32, Option<u32>)>);

struct Retry<'i> {
    input: &'i PlanningInput,
    plan: Plan,
    machines: MachineTrials<'i>,
    /// Capacity left on each existing node, DaemonSets not subtracted.
    free: Vec<Resources>,
    /// Remaining work; [`MAX_WORK`] defines the unit.
    work: usize,
    /// Cost of a check, without the machines of the plan.
    each_check: usize,
    /// Cost of the launch options in a check, for trials that are many.
    each_trial: usize,
    /// Whether all rules between pods are over zones and hostnames only.
    zones_only: bool,
    /// Whether machines are narrowed to some options in one zone, instead of to a zone at most.
    narrow: bool,
    /// Whether further machines are tried.
    may_launch: bool,
    /// Whether a machine of the plan may become dearer.
    may_cost_more: bool,
    /// Whether pods that a machine was launched for are on trial. Domains that are gone with it count as
    /// domains without a pod.
    gives_up: bool,
    /// The zone in which those of them stay that are spread over zones.
    stay_in: Option<Zone>,
    /// The place of a group on trial, for all pods that are tried.
    place: Option<Place>,
    /// What a new machine for the first pod of a group must hold.
    least: Resources,
    /// Pods per zone of the current plan; `None` until computed.
    zone_counts: Option<ZonePodCounts>,
    /// Zones open to the pod on trial.
    open: OpenZones,
    /// Hosts closed to the pod on trial.
    closed_hosts: ClosedHosts<'i>,
}

impl<'i> Retry<'i> {
    fn new(input: &'i PlanningInput, plan: Plan, work: usize) -> Self {
        let mut free: Vec<Resources> = input.nodes.iter().map(|node| free_of(input, node)).collect();
        for (pod, node) in &plan.placements {
            free[*node as usize].subtract(&input.shapes[input.pods[*pod as usize].shape as usize].requests);
        }
        let pods = input.pods.len() + input.nodes.iter().map(|node| node.pods.len()).sum::<usize>();
        let rules = |shape: &PodShape| shape.spread.len() + shape.pod_affinity.len() + shape.pod_anti_affinity.len();
        let rules: usize = input.shapes.iter().map(rules).sum();
        let machines = MachineTrials::new(input);
        let zones_only = input.shapes.iter().all(uses_zones_only);
        let each_check = pods * (1 + rules / RULES_PER_UNIT) + input.nodes.len();
        Self {
            input,
            plan,
            machines,
            free,
            work,
            each_check,
            each_trial: 0,
            zones_only,
            narrow: false,
            may_launch: true,
            may_cost_more: true,
            gives_up: false,
            stay_in: None,
            place: None,
            least: Resources::new(),
            zone_counts: None,
            open: OpenZones::default(),
            closed_hosts: ClosedHosts::default(),
        }
    }

    /// Tries the pods of each kind until one is not placed; returns whether any was placed.
    fn try_kinds(&mut self, kinds: &mut [Vec<u32>], narrow: bool) -> bool {
        self.narrow = narrow;
        let mut any = false;
        for pods in kinds {
            let placed = pods.iter().take_while(|pod| self.place_pod(**pod)).count();
            pods.drain(..placed);
            any |= placed > 0;
        }
        any
    }

    fn place_pod(&mut self, pod: u32) -> bool {
        if !self.consume_work(self.input.nodes.len() + MACHINE_WORK * self.plan.nodes.len()) {
            return false;
        }
        let Ok(at) = self.plan.unschedulable.binary_search(&pod) else { return false };
        if !self.find_open_zones(pod) {
            return false;
        }
        self.closed_hosts = ClosedHosts::of(self.input, &self.plan, pod, self.gives_up);
        if !self.closed_hosts.is_empty() && !self.consume_work(self.each_check / LOOKS_PER_UNIT) {
            return false;
        }
        self.plan.unschedulable.remove(at);
        self.plan.order.push(pod);
        let placed = (!self.narrow && self.try_existing_nodes(pod))
            || self.try_planned_machines(pod)
            || (self.may_launch && self.try_new_machine(pod));
        if placed {
            self.zone_counts = None;
        } else {
            self.plan.order.pop();
            self.plan.unschedulable.insert(at, pod);
        }
        placed
    }

    /// Computes the zones open to `pod`; false when there are none, or when the work is exhausted.
    fn find_open_zones(&mut self, pod: u32) -> bool {
        let shape = self.shape(pod);
        let stays = self.gives_up && spread_keys(shape, self.input.policy.preferences).next().is_some();
        let of_group = self.place.as_ref().and_then(Place::zone);
        let only = of_group.cloned().or_else(|| self.stay_in.clone().filter(|_| stays));
        self.open = OpenZones::of_zone(only.clone());
        if !has_zone_rules(shape) && shape.pod_affinity.is_empty() {
            return true;
        }
        if self.zone_counts.is_none() {
            self.zone_counts = Some(ZonePodCounts::of(self.input, &self.plan));
        }
        let Some(zone_counts) = &self.zone_counts else { return false };
        self.open = zone_counts.open_zones_of(self.input, pod, only);
        let work = zone_counts.len();
        self.consume_work(work) && self.open.allows_any()
    }

    /// Consumes `work`; false, with nothing left, when there is less.
    fn consume_work(&mut self, work: usize) -> bool {
        let left = self.work.checked_sub(work);
        self.work = left.unwrap_or(0);
        left.is_some()
    }

    /// Checks the current plan, whose changed machine has `options` launch options.
    fn check_trial(&mut self, options: usize) -> TrialResult {
        if !self.consume_work(self.each_check + self.each_trial + options + MACHINE_WORK * self.plan.nodes.len()) {
            return TrialResult::Refused;
        }
        let violations = check(self.input, &self.plan);
        let zone_wide = |found: &Violation| match found.rule {
            Rule::ZoneBalance | Rule::Taints => true,
            Rule::TopologySpread | Rule::PodAffinity | Rule::PodAntiAffinity => self.zones_only,
            _ => false,
        };
        match violations.is_empty() {
            true => TrialResult::Accepted,
            false if violations.iter().any(zone_wide) => TrialResult::RefusedInZones,
            false => TrialResult::Refused,
        }
    }

    fn shape(&self, pod: u32) -> &'i PodShape {
        &self.input.shapes[self.input.pods[pod as usize].shape as usize]
    }

    fn try_existing_nodes(&mut self, pod: u32) -> bool {
        let (input, shape) = (self.input, self.shape(pod));
        for (at, node) in input.nodes.iter().enumerate() {
            let Ok(number) = u32::try_from(at) else { return false };
            if !shape.requests.fits(&self.free[at])
                || !self.open.allows_node(node)
                || self.closed_hosts.contains_node(at)
                || self.place.as_ref().is_some_and(|place| !place.allows_node(at))
                || !may_run_on(shape, node)
            {
                continue;
            }
            self.plan.placements.push((pod, number));
            if self.check_trial(0) == TrialResult::Accepted {
                self.plan.placements.sort_unstable();
                self.free[at].subtract(&shape.requests);
                return true;
            }
            self.plan.placements.pop();
        }
        false
    }

    fn try_planned_machines(&mut self, pod: u32) -> bool {
        let shape = self.shape(pod);
        let mut refused: BTreeSet<MachineSignature> = BTreeSet::new();
        for at in 0..self.plan.nodes.len() {
            let before = &self.plan.nodes[at];
            let pool = &self.input.pools[before.pool as usize];
            if self.place.as_ref().is_some_and(|place| !place.allows_machine(&before.name))
                || !self.open.allows_some_of(before.zones.iter())
                || first_untolerated(&pool.taints, &shape.tolerations).is_some()
                || !matches_known_labels(shape, &before.labels)
                || !self.machines.defines_requested_labels(pool, shape)
                || self.closed_hosts.contains_machine(self.input, before)
                || !refused.insert(self.signature(before))
            {
                continue;
            }
            let mut like = before.clone();
            like.pods.push(pod);
            like.pods.sort_unstable();
            let before = before.clone();
            if self.try_narrowings(at, &like) {
                return true;
            }
            self.plan.nodes[at] = before;
        }
        false
    }

    /// Whether the check accepts machine `at` of the plan as `like`, or with fewer options; the
    /// machine is changed to that.
    fn try_narrowings(&mut self, at: usize, like: &PlannedNode) -> bool {
        let (mut excluded_zones, cost) = (Vec::<Vec<Zone>>::new(), like.cost());
        for (types, zones) in self.machines.narrowings(like, self.narrow) {
            if self.work == 0 {
                return false;
            }
            if excluded_zones.contains(&zones) || !self.open.allows(&zones) {
                continue;
            }
            if !self.may_cost_more && !self.consume_work(types.len() * zones.len()) {
                return false;
            }
            let Some(launch) = self.machines.narrow(like, &types, &zones) else { continue };
            if (!self.may_cost_more && launch.cost() > cost) || !self.machines.may_launch(&launch) {
                continue;
            }
            self.plan.nodes[at] = launch;
            match self.check_trial(types.len()) {
                TrialResult::Accepted => return true,
                TrialResult::RefusedInZones => excluded_zones.push(zones),
                TrialResult::Refused => {}
            }
        }
        false
    }

    fn signature(&self, node: &PlannedNode) -> MachineSignature {
        let kind = |pod: &u32| {
            let pod = &self.input.pods[*pod as usize];
            (pod.shape, pod.labels, pod.volumes)
        };
        let mut pods: Vec<_> = node.pods.iter().map(kind).collect();
        pods.sort_unstable();
        (node.pool, node.capacity_type, node.reservation.clone(), node.types.to_vec(), node.zones.to_vec(), pods)
    }

    fn try_new_machine(&mut self, pod: u32) -> bool {
        if self.place.as_ref().is_some_and(|place| !place.allows_launch()) {
            return false;
        }
        let mut requests = self.shape(pod).requests.clone();
        if self.place == Some(Place::NewMachine) {
            requests.raise_to(&self.least);
        }
        for (pool, work) in self.machines.pools_for(self.shape(pod)) {
            if self.open.is_restricted() && !self.open.allows_some_of(self.machines.zones_of(pool)) {
                continue;
            }
            if !self.consume_work(work) {
                return false;
            }
            for new_machine in self.machines.new_machines(&self.plan, pool, pod, &requests) {
                let at = self.plan.nodes.partition_point(|node| node.pool <= pool);
                self.plan.nodes.insert(at, new_machine.clone());
                if self.try_narrowings(at, &new_machine) {
                    return true;
                }
                self.plan.nodes.remove(at);
            }
        }
        false
    }
}

/// Result of the check for a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialResult {
    Accepted,
    Refused,
    /// Rejected by a rule that fewer launch options in the same zones violate too.
    RefusedInZones,
}

/// Whether rules between pods are over zones and hostnames only, which do not depend on the launch
/// options in a zone.
fn uses_zones_only(shape: &PodShape) -> bool {
    let rules = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity).map(|term| &term.topology_key);
    let mut keys = rules.chain(shape.spread.iter().map(|spread| &spread.topology_key));
    keys.all(|key| matches!(key.as_ref(), ZONE | HOSTNAME))
}

fn free_of(input: &PlanningInput, node: &Node) -> Resources {
    let mut free = node.allocatable.clone();
    for pod in node.pods.iter().filter(|pod| !pod.leaving) {
        free.subtract(&input.shapes[pod.shape as usize].requests);
    }
    free
}

/// Whether nothing about `node` alone excludes the pod: a prefilter of the check.
fn may_run_on(shape: &PodShape, node: &Node) -> bool {
    let holds = |expressions: &[model::Requirement]| {
        expressions.iter().all(|requirement| label_satisfies(&node.labels, requirement))
    };
    node.stage != NodeStage::Deleting
        && !is_cordoned(node, &shape.tolerations)
        && first_untolerated(&node.taints, &shape.tolerations).is_none()
        && shape.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(|term| holds(&term.expressions)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Labels, NodeName, Pod};

    /// A pod of one CPU that a plan leaves out, and a node of two.
    fn input() -> PlanningInput {
        let cpu = |milli| Resources::from_iter([("cpu", milli)]);
        let text = |value: &str| Text::from(value);
        let node = Node {
            name: NodeName::from("node"),
            pool: None,
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: cpu(2000),
            capacity: cpu(2000),
            stage: NodeStage::Initialized,
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: None,
        };
        // The node has free capacity for the pod: 2,000 of 2,000 millicores, and the pod requests
        // 1,000.
        let pod = Pod {
            namespace: text("default"),
            name: text("web"),
            shape: 0,
            labels: 0,
            volumes: None,
            created: None,
            workload: text("Pod/web"),
            moved_from: None,
            invalid: None,
        };
        PlanningInput {
            shapes: vec![PodShape { requests: cpu(1000), ..PodShape::default() }],
            label_sets: vec![Labels::new()],
            pods: vec![pod],
            nodes: vec![node],
            ..PlanningInput::default()
        }
    }

    #[test]
    fn trials_end_when_their_work_is_exhausted() {
        let (input, plan) = (input(), Plan { unschedulable: vec![0], ..Plan::default() });
        assert_eq!(place_unscheduled(&input, plan.clone(), MAX_WORK).placements, [(0, 0)]);
        // The pod is compared with one node, and the check evaluates both.
        assert_eq!(place_unscheduled(&input, plan.clone(), 2), plan);
        assert_eq!(place_unscheduled(&input, plan, 3).placements, [(0, 0)]);
    }
}
