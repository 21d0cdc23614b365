//! Do pods and daemons fit, whichever option launches?
//!
//! Every outcome of a launch must hold every resource, so the least room over all outcomes, resource by resource, says it
//! exactly; it is worked out once per launch.

use rustc_hash::FxHashMap;

use super::launch::{Launch, Launches, Outcome, Sure};
use super::roster::{Party, Roster};
use super::seat::Demand;
use super::{Findings, Rule};
use crate::input::PlanningInput;
use crate::model::labels::{INITIALIZED, REGISTERED};
use crate::model::requirements::label_satisfies;
use crate::model::taints::first_barring;
use crate::model::{DaemonSet, HostPort, Node, NodeSelectorTerm, Requirement, Resources, quantity};
use crate::plan::Plan;

/// DaemonSets, and which of them each launch will run.
pub(super) struct Daemons<'a> {
    input: &'a PlanningInput,
    demands: Vec<Demand<'a>>,
    per_launch: Vec<Running>,
}

/// The daemons of one launch: some run on every outcome, others on some outcomes only.
struct Running {
    everywhere: Vec<u32>,
    somewhere: Vec<(u32, Vec<bool>)>,
}

impl<'a> Daemons<'a> {
    pub(super) fn new(input: &'a PlanningInput, launches: &Launches<'a>) -> Self {
        let demands: Vec<Demand<'a>> =
            input.daemons.iter().map(|daemon| Demand::of(&input.shapes[daemon.shape as usize])).collect();
        let per_launch = launches.list.iter().map(|launch| running(input, &demands, launch)).collect();
        Self { input, demands, per_launch }
    }

    /// What the daemons of a launch ask for on one of its outcomes.
    fn requests(&self, launch: usize, outcome: usize) -> Resources {
        let running = &self.per_launch[launch];
        let here = running.somewhere.iter().filter(|(_, on)| on[outcome]).map(|(daemon, _)| daemon);
        let mut sum = Resources::new();
        for daemon in running.everywhere.iter().chain(here) {
            sum.add(&self.input.shapes[self.input.daemons[*daemon as usize].shape as usize].requests);
        }
        sum
    }

    /// What the daemons of the first option in the first zone ask for.
    pub(super) fn requests_of_first(&self, number: usize, launch: &Launch<'_>) -> Resources {
        let first = |outcome: &Outcome<'_>| {
            Some(&outcome.option) == launch.options.first() && Some(&outcome.offering.zone) == launch.node.zones.first()
        };
        launch.outcomes.iter().position(first).map_or_else(Resources::new, |outcome| self.requests(number, outcome))
    }

    /// Host ports that a daemon of the launch may take.
    pub(super) fn ports(&self, launch: usize) -> impl Iterator<Item = &HostPort> {
        let running = &self.per_launch[launch];
        let all = running.everywhere.iter().chain(running.somewhere.iter().map(|(daemon, _)| daemon));
        all.flat_map(|daemon| &self.input.shapes[self.input.daemons[*daemon as usize].shape as usize].host_ports)
    }

    /// Host ports of DaemonSet pods that a node still expects.
    pub(super) fn expected_ports(&self, node: &Node) -> impl Iterator<Item = &HostPort> {
        let expected =
            |(at, daemon): &(usize, &DaemonSet)| !self.is_there(node, daemon) && self.runs_on(node, *at, daemon);
        let shape = |daemon: &DaemonSet| &self.input.shapes[daemon.shape as usize];
        let with_ports = |(_, daemon): &(usize, &DaemonSet)| !shape(daemon).host_ports.is_empty();
        let daemons = self.input.daemons.iter().enumerate().filter(with_ports).filter(expected);
        let daemons: Vec<&DaemonSet> = daemons.map(|(_, daemon)| daemon).collect();
        daemons.into_iter().flat_map(|daemon| &self.input.shapes[daemon.shape as usize].host_ports)
    }

    fn is_there(&self, node: &Node, daemon: &DaemonSet) -> bool {
        let named = |owner: &str| owner.split_once('/') == Some((&daemon.namespace, &daemon.name));
        node.pods.iter().any(|pod| !pod.leaving && pod.daemon.as_deref().is_some_and(named))
    }

    /// What DaemonSet pods that a node still expects will take there. The lesser of two counts, resource by resource: the
    /// DaemonSets without a pod there, and everything expected less everything bound.
    fn still_expected(&self, node: &Node) -> Resources {
        let (mut missing, mut expected) = (Resources::new(), Resources::new());
        for (_, daemon) in self.input.daemons.iter().enumerate().filter(|(at, d)| self.runs_on(node, *at, d)) {
            let requests = &self.input.shapes[daemon.shape as usize].requests;
            expected.add(requests);
            if !self.is_there(node, daemon) {
                missing.add(requests);
            }
        }
        for pod in node.pods.iter().filter(|pod| pod.daemon.is_some() && !pod.leaving) {
            expected.subtract(&self.input.shapes[pod.shape as usize].requests);
        }
        missing.iter().map(|(name, amount)| (name.clone(), amount.min(expected.get(name)).max(0))).collect()
    }

    fn runs_on(&self, node: &Node, at: usize, daemon: &DaemonSet) -> bool {
        let shape = &self.input.shapes[daemon.shape as usize];
        let holds = |requirement: &Requirement| {
            label_satisfies(&node.labels, requirement)
                || (matches!(requirement.key().as_ref(), REGISTERED | INITIALIZED) && requirement.has("true"))
        };
        let term_holds = |term: &NodeSelectorTerm| {
            !(term.expressions.is_empty() && term.names.is_empty())
                && term.expressions.iter().all(holds)
                && term.names.iter().all(|requirement| requirement.has(&node.name))
        };
        first_barring(&node.taints, &shape.tolerations).is_none()
            && self.demands[at].selector().iter().all(holds)
            && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(term_holds))
    }
}

fn running(input: &PlanningInput, demands: &[Demand<'_>], launch: &Launch<'_>) -> Running {
    let mut running = Running { everywhere: Vec::new(), somewhere: Vec::new() };
    for (at, daemon) in (0_u32..).zip(&input.daemons) {
        let demand = &demands[at as usize];
        if first_barring(&launch.pool.taints, &input.shapes[daemon.shape as usize].tolerations).is_some() {
            continue;
        }
        if demand.is_empty() {
            running.everywhere.push(at);
            continue;
        }
        let on: Vec<bool> =
            launch.outcomes.iter().map(|outcome| demand.met_by_outcome(launch, outcome, Sure::Possibly)).collect();
        if on.iter().all(|runs| *runs) {
            running.everywhere.push(at);
        } else if on.contains(&true) {
            running.somewhere.push((at, on));
        }
    }
    running
}

pub(super) fn check(
    input: &PlanningInput,
    plan: &Plan,
    roster: &Roster<'_>,
    launches: &Launches<'_>,
    daemons: &Daemons<'_>,
    found: &mut Findings<'_>,
) {
    let scale = Scale::of(input);
    let rooms: Vec<Vec<i64>> = (0..launches.list.len()).map(|at| scale.least_room(launches, daemons, at)).collect();
    let daemons_first: Vec<Resources> =
        launches.list.iter().enumerate().map(|(at, launch)| daemons.requests_of_first(at, launch)).collect();
    let mut asked = vec![0; scale.names.len()];
    for party in &roster.parties {
        scale.sum(input, party, &mut asked);
        let name = roster.name(party.host);
        if let Some(node) = input.nodes.get(party.host as usize) {
            let room = scale.amounts(&free(input, daemons, node));
            scale.compare(name, &asked, &room, found);
            continue;
        }
        let at = party.host as usize - input.nodes.len();
        let Some(number) = launches.of_node[at] else { continue };
        scale.compare(name, &asked, &rooms[number as usize], found);
        scale.compare_requests(&plan.nodes[at], &asked, &daemons_first[number as usize], found);
    }
}

/// What is free on a node of the input: allocatable less pods there, less daemons still to come.
fn free(input: &PlanningInput, daemons: &Daemons<'_>, node: &Node) -> Resources {
    let mut free = node.allocatable.clone();
    for pod in node.pods.iter().filter(|pod| !pod.leaving) {
        free.subtract(&input.shapes[pod.shape as usize].requests);
    }
    free.subtract(&daemons.still_expected(node));
    free
}

/// The resources that pods to place ask for, numbered, so that sums are arrays.
struct Scale<'a> {
    names: Vec<&'a str>,
    numbers: FxHashMap<&'a str, usize>,
    per_shape: Vec<Vec<(usize, i64)>>,
}

impl<'a> Scale<'a> {
    fn of(input: &'a PlanningInput) -> Self {
        let mut scale = Self { names: Vec::new(), numbers: FxHashMap::default(), per_shape: Vec::new() };
        for shape in &input.shapes {
            let mut amounts = Vec::new();
            for (name, amount) in shape.requests.iter().filter(|(_, amount)| *amount != 0) {
                let number = *scale.numbers.entry(name).or_insert(scale.names.len());
                if number == scale.names.len() {
                    scale.names.push(name);
                }
                amounts.push((number, amount));
            }
            scale.per_shape.push(amounts);
        }
        scale
    }

    fn amounts(&self, resources: &Resources) -> Vec<i64> {
        self.names.iter().map(|name| resources.get(name)).collect()
    }

    fn sum(&self, input: &PlanningInput, party: &Party, sum: &mut [i64]) {
        sum.fill(0);
        for pod in &party.pods {
            for (number, amount) in &self.per_shape[input.pods[*pod as usize].shape as usize] {
                sum[*number] = sum[*number].saturating_add(*amount);
            }
        }
    }

    fn least_room(&self, launches: &Launches<'_>, daemons: &Daemons<'_>, at: usize) -> Vec<i64> {
        let launch = &launches.list[at];
        let varies = !daemons.per_launch[at].somewhere.is_empty();
        let base = if varies || launch.outcomes.is_empty() { Resources::new() } else { daemons.requests(at, 0) };
        let mut least = vec![i64::MAX; self.names.len()];
        let mut latest = None;
        for (number, outcome) in launch.outcomes.iter().enumerate() {
            if !varies && latest == Some(outcome.option) {
                continue;
            }
            latest = Some(outcome.option);
            let taken = if varies { daemons.requests(at, number) } else { Resources::new() };
            for (least, name) in least.iter_mut().zip(&self.names) {
                *least = (*least).min(outcome.machine.allocatable.get(name).saturating_sub(taken.get(name)));
            }
        }
        for (least, name) in least.iter_mut().zip(&self.names) {
            *least = least.saturating_sub(base.get(name));
        }
        least
    }

    fn compare(&self, node: &crate::model::Text, asked: &[i64], room: &[i64], found: &mut Findings<'_>) {
        for (number, name) in self.names.iter().enumerate() {
            if asked[number] > 0 && asked[number] > room[number] {
                let (asked, room) = (quantity::render(name, asked[number]), quantity::render(name, room[number]));
                found.node(
                    Rule::Resources,
                    node,
                    format!("its pods ask for {asked} of {name}, there is room for {room}"),
                );
            }
        }
    }

    fn compare_requests(
        &self,
        node: &crate::plan::PlannedNode,
        asked: &[i64],
        daemons: &Resources,
        found: &mut Findings<'_>,
    ) {
        let wrong = |name: &str, number: Option<usize>| {
            let pods = number.map_or(0, |number| asked[number]);
            node.requests.get(name) != pods.saturating_add(daemons.get(name))
        };
        let known = self.names.iter().enumerate().map(|(number, name)| (*name, Some(number)));
        let others =
            node.requests.iter().map(|(name, _)| name.as_ref()).filter(|name| !self.numbers.contains_key(name));
        if let Some((name, _)) =
            known.chain(others.map(|name| (name, None))).find(|(name, number)| wrong(name, *number))
        {
            let stated = quantity::render(name, node.requests.get(name));
            let message =
                format!("its requests state {stated} of {name}, which is not what its pods and daemons ask for");
            found.node(Rule::Requests, &node.name, message);
        }
    }
}
