//! Pods without a place, tried once more on top of the finished plan, by the rules of the check.
//!
//! The packing decides before it knows what a machine ends up as, so it is stricter than the check in places: it keeps room
//! for a DaemonSet that only some offerings of a machine run, and charges a volume once for each pod that mounts it. A pod
//! that is given up for such a reason fits on the finished plan, and here it gets its place: on a node, on a machine of the
//! plan with as many of its launch options as carry the pod too, or on one machine more. Each trial is a whole plan, and the
//! check says yes or no; what cannot be right by taints, labels, limits, size, `minValues` or the pods of a zone is not asked
//! about. Plans without such pods cost nothing, and [`MOST_WORK`] bounds the others.

mod machines;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use self::machines::{Machines, suits_labels};
use self::zones::{Census, Open, has_zone_rules};
use crate::check::{Rule, Violation, check};
use crate::input::PlanningInput;
use crate::model::labels::{HOSTNAME, ZONE};
use crate::model::taints::first_barring;
use crate::model::{CapacityType, Node, NodeStage, PodShape, Resources, Text, requirements::label_satisfies};
use crate::plan::{Plan, PlannedNode};

/// What the trials of one decision may cost together. A unit is a pod that a check looks at, or a node or machine type that a
/// pod is compared with: about 100 nanoseconds.
pub(super) const MOST_WORK: usize = 150_000;
/// What a machine of the plan costs, in units: it has many launch options.
const MACHINE_WORK: usize = 8;
/// Rules between pods that make a check twice as dear. Each pod is asked about those that mean it, which are few of them.
const RULES_A_UNIT: usize = 32;

/// `plan` with those of its pods without a place that the check accepts on top of it, within `most_work`.
pub(super) fn place_left(input: &PlanningInput, plan: Plan, most_work: usize) -> Plan {
    if plan.unschedulable.is_empty() {
        return plan;
    }
    let mut retry = Retry::new(input, plan, most_work);
    let mut kinds = kinds(input, &retry.plan);
    // Every kind is tried with wide choices first, so that hopeless ones leave something of the work to the others.
    while retry.round(&mut kinds, false) || retry.round(&mut kinds, true) {}
    retry.plan
}

/// Pods without a place by what the check sees of them, those of higher priority first, then by their first pod.
fn kinds(input: &PlanningInput, plan: &Plan) -> Vec<Vec<u32>> {
    let waits = input.pools.iter().any(|pool| pool.rules.spot_fallback_after_ms.is_some());
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

/// What machines have in common of which one refused a pod.
type Alike = (u32, CapacityType, Option<Text>, Vec<u32>, Vec<Text>, Vec<(u32, u32, Option<u32>)>);

struct Retry<'i> {
    input: &'i PlanningInput,
    plan: Plan,
    machines: Machines<'i>,
    /// What pods leave of each node of the input, DaemonSets apart.
    free: Vec<Resources>,
    /// Units that are left.
    work: usize,
    /// What a check costs, machines of the plan apart.
    each_check: usize,
    /// Whether all rules between pods look at zones and hostnames only.
    zones_only: bool,
    /// Whether machines are narrowed to some of their options in one zone, and no longer to a zone at most.
    narrow: bool,
    /// Who is in which zone of the plan as it stands, if that was asked.
    census: Option<Census>,
    /// Zones that are open to the pod on trial.
    open: Open,
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
        let machines = Machines::new(input);
        let zones_only = input.shapes.iter().all(looks_at_zones_only);
        let each_check = pods * (1 + rules / RULES_A_UNIT) + input.nodes.len();
        Self {
            input,
            plan,
            machines,
            free,
            work,
            each_check,
            zones_only,
            narrow: false,
            census: None,
            open: Open::default(),
        }
    }

    /// Tries the pods of each kind until one finds no place; whether any found one.
    fn round(&mut self, kinds: &mut [Vec<u32>], narrow: bool) -> bool {
        self.narrow = narrow;
        let mut any = false;
        for pods in kinds {
            let placed = pods.iter().take_while(|pod| self.place(**pod)).count();
            pods.drain(..placed);
            any |= placed > 0;
        }
        any
    }

    fn place(&mut self, pod: u32) -> bool {
        if !self.take(self.input.nodes.len() + MACHINE_WORK * self.plan.nodes.len()) {
            return false;
        }
        let Ok(at) = self.plan.unschedulable.binary_search(&pod) else { return false };
        if !self.find_open(pod) {
            return false;
        }
        self.plan.unschedulable.remove(at);
        self.plan.order.push(pod);
        let placed = (!self.narrow && self.on_a_node(pod)) || self.on_a_machine(pod) || self.on_one_more(pod);
        if placed {
            self.census = None;
        } else {
            self.plan.order.pop();
            self.plan.unschedulable.insert(at, pod);
        }
        placed
    }

    /// Looks up which zones are open to `pod`; false when it can be nowhere, or when there is no work left for that.
    fn find_open(&mut self, pod: u32) -> bool {
        self.open = Open::default();
        let shape = self.shape(pod);
        if !has_zone_rules(shape) && shape.pod_affinity.is_empty() {
            return true;
        }
        if self.census.is_none() {
            self.census = Some(Census::of(self.input, &self.plan));
        }
        let Some(census) = &self.census else { return false };
        self.open = census.open_to(self.input, pod);
        let work = census.len();
        self.take(work) && self.open.allows_any()
    }

    /// Takes `work` off what is left; when there is less, there is nothing more.
    fn take(&mut self, work: usize) -> bool {
        let left = self.work.checked_sub(work);
        self.work = left.unwrap_or(0);
        left.is_some()
    }

    /// What the check says of the plan as it stands, whose latest machine has so many options.
    fn verdict(&mut self, options: usize) -> Verdict {
        if !self.take(self.each_check + options + MACHINE_WORK * self.plan.nodes.len()) {
            return Verdict::Refused;
        }
        let violations = check(self.input, &self.plan);
        let settled = |found: &Violation| match found.rule {
            Rule::ZoneBalance | Rule::Taints => true,
            Rule::TopologySpread | Rule::PodAffinity | Rule::PodAntiAffinity => self.zones_only,
            _ => false,
        };
        match violations.is_empty() {
            true => Verdict::Accepted,
            false if violations.iter().any(settled) => Verdict::RefusedThere,
            false => Verdict::Refused,
        }
    }

    fn shape(&self, pod: u32) -> &'i PodShape {
        &self.input.shapes[self.input.pods[pod as usize].shape as usize]
    }

    fn on_a_node(&mut self, pod: u32) -> bool {
        let (input, shape) = (self.input, self.shape(pod));
        for (at, node) in input.nodes.iter().enumerate() {
            let Ok(number) = u32::try_from(at) else { return false };
            if !shape.requests.fits(&self.free[at]) || !self.open.allows_node(node) || !may_stand_on(shape, node) {
                continue;
            }
            self.plan.placements.push((pod, number));
            if self.verdict(0) == Verdict::Accepted {
                self.plan.placements.sort_unstable();
                self.free[at].subtract(&shape.requests);
                return true;
            }
            self.plan.placements.pop();
        }
        false
    }

    fn on_a_machine(&mut self, pod: u32) -> bool {
        let shape = self.shape(pod);
        let mut refused: BTreeSet<Alike> = BTreeSet::new();
        for at in 0..self.plan.nodes.len() {
            let before = &self.plan.nodes[at];
            let pool = &self.input.pools[before.pool as usize];
            if !self.open.allows_some_of(before.zones.iter())
                || first_barring(&pool.taints, &shape.tolerations).is_some()
                || !suits_labels(shape, &before.labels)
                || !self.machines.defines_what_is_asked(pool, shape)
                || !refused.insert(self.alike(before))
            {
                continue;
            }
            let mut like = before.clone();
            like.pods.push(pod);
            like.pods.sort_unstable();
            let before = before.clone();
            if self.any_way(at, &like) {
                return true;
            }
            self.plan.nodes[at] = before;
        }
        false
    }

    /// Whether the check accepts machine `at` of the plan as `like`, or as one with fewer options; it is changed to that then.
    fn any_way(&mut self, at: usize, like: &PlannedNode) -> bool {
        let mut barred: Vec<Vec<Text>> = Vec::new();
        for (types, zones) in self.machines.ways(like, self.narrow) {
            if self.work == 0 {
                return false;
            }
            if barred.contains(&zones) || !self.open.allows(&zones) {
                continue;
            }
            let Some(launch) = self.machines.launch(like, &types, &zones) else { continue };
            self.plan.nodes[at] = launch;
            match self.verdict(types.len()) {
                Verdict::Accepted => return true,
                Verdict::RefusedThere => barred.push(zones),
                Verdict::Refused => {}
            }
        }
        false
    }

    fn alike(&self, node: &PlannedNode) -> Alike {
        let kind = |pod: &u32| {
            let pod = &self.input.pods[*pod as usize];
            (pod.shape, pod.labels, pod.volumes)
        };
        let mut pods: Vec<_> = node.pods.iter().map(kind).collect();
        pods.sort_unstable();
        (node.pool, node.capacity_type, node.reservation.clone(), node.types.to_vec(), node.zones.to_vec(), pods)
    }

    fn on_one_more(&mut self, pod: u32) -> bool {
        for (pool, work) in self.machines.pools_for(self.shape(pod)) {
            if self.open.is_restricted() && !self.open.allows_some_of(self.machines.zones_of(pool)) {
                continue;
            }
            if !self.take(work) {
                return false;
            }
            for fresh in self.machines.for_sale(&self.plan, pool, pod) {
                let at = self.plan.nodes.partition_point(|node| node.pool <= pool);
                self.plan.nodes.insert(at, fresh.clone());
                if self.any_way(at, &fresh) {
                    return true;
                }
                self.plan.nodes.remove(at);
            }
        }
        false
    }
}

/// What the check says of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Refused,
    /// Refused, and by a rule that fewer launch options in the same zones break too.
    RefusedThere,
}

/// Whether rules between pods look at zones and hostnames only, which the choice of launch options in a zone leaves alone.
fn looks_at_zones_only(shape: &PodShape) -> bool {
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

/// Whether nothing about `node` alone bars the pod: a filter, since the check has the last word.
fn may_stand_on(shape: &PodShape, node: &Node) -> bool {
    let holds = |expressions: &[crate::model::Requirement]| {
        expressions.iter().all(|requirement| label_satisfies(&node.labels, requirement))
    };
    node.stage != NodeStage::Deleting
        && first_barring(&node.taints, &shape.tolerations).is_none()
        && shape.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(|term| holds(&term.expressions)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, Pod};

    /// A pod of one CPU that a plan gives up, and a node of two.
    fn input() -> PlanningInput {
        let cpu = |milli| Resources::from_iter([("cpu", milli)]);
        let text = |value: &str| Text::from(value);
        let node = Node {
            name: text("node"),
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
        let pod = Pod {
            namespace: text("default"),
            name: text("web"),
            shape: 0,
            labels: 0,
            volumes: None,
            created: None,
            workload: text("Pod/web"),
            leaves: None,
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
    fn trials_end_where_their_work_does() {
        let (input, plan) = (input(), Plan { unschedulable: vec![0], ..Plan::default() });
        assert_eq!(place_left(&input, plan.clone(), MOST_WORK).placements, [(0, 0)]);
        // The pod is compared with one node, and the check looks at both.
        assert_eq!(place_left(&input, plan.clone(), 2), plan);
        assert_eq!(place_left(&input, plan, 3).placements, [(0, 0)]);
    }
}
