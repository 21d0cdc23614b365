//! Whether pods and DaemonSet pods fit, whichever option launches.
//!
//! Every outcome of a launch must provide every resource, so the minimum over all outcomes, per
//! resource, is exact. It is computed once per launch.

use rustc_hash::FxHashMap;

use super::launch::{Certainty, Launch, Launches, Outcome};
use super::node_fit::RequiredNodeAffinity;
use super::placements::{NodePods, Placements};
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::labels::{INITIALIZED, REGISTERED};
use model::plan::Plan;
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{DaemonSet, HostPort, Node, NodeSelectorTerm, PodShape, Requirement, Resources, quantity};

/// The DaemonSets of the input, each with its node affinity.
#[derive(Debug)]
pub struct DaemonSets<'a> {
    input: &'a PlanningInput,
    node_affinities: Vec<RequiredNodeAffinity<'a>>,
}

/// The DaemonSets, and those that run on each launch.
#[derive(Debug)]
pub struct Daemons<'a> {
    sets: DaemonSets<'a>,
    per_launch: Vec<LaunchDaemons>,
}

/// The DaemonSets of one launch: those that run on every outcome, and those that run on some.
#[derive(Debug)]
struct LaunchDaemons {
    always: Vec<u32>,
    sometimes: Vec<(u32, Vec<bool>)>,
}

impl<'a> Daemons<'a> {
    /// The DaemonSets that run on each of `launches`.
    #[must_use]
    pub fn new(input: &'a PlanningInput, launches: &Launches<'a>) -> Self {
        let sets = DaemonSets::of(input);
        let per_launch = launches.list.iter().map(|launch| running(input, &sets.node_affinities, launch)).collect();
        Self { sets, per_launch }
    }

    pub(super) fn sets(&self) -> &DaemonSets<'a> {
        &self.sets
    }

    /// The DaemonSets that run on one outcome of a launch.
    pub fn on_outcome(&self, launch: usize, outcome: usize) -> impl Iterator<Item = &'a PodShape> {
        let running = &self.per_launch[launch];
        let here = running.sometimes.iter().filter(move |(_, on)| on[outcome]).map(|(daemon, _)| daemon);
        running.always.iter().chain(here).map(|daemon| self.sets.shape(*daemon))
    }

    /// Requests of the DaemonSet pods of a launch on one of its outcomes.
    #[must_use]
    pub fn requests(&self, launch: usize, outcome: usize) -> Resources {
        let mut sum = Resources::new();
        self.on_outcome(launch, outcome).for_each(|shape| sum.add(&shape.requests));
        sum
    }

    /// Requests of the DaemonSet pods on the first option in the first zone.
    pub(super) fn requests_of_first(&self, number: usize, launch: &Launch<'_>) -> Resources {
        let first = |outcome: &Outcome<'_>| {
            Some(&outcome.option) == launch.options.first() && Some(&outcome.offering.zone) == launch.node.zones.first()
        };
        launch.outcomes.iter().position(first).map_or_else(Resources::new, |outcome| self.requests(number, outcome))
    }

    /// Host ports that a DaemonSet pod of the launch may use.
    pub(super) fn ports(&self, launch: usize) -> impl Iterator<Item = &HostPort> {
        let running = &self.per_launch[launch];
        let all = running.always.iter().chain(running.sometimes.iter().map(|(daemon, _)| daemon));
        all.flat_map(|daemon| &self.sets.shape(*daemon).host_ports)
    }
}

impl<'a> DaemonSets<'a> {
    /// The DaemonSets of `input`.
    #[must_use]
    pub fn of(input: &'a PlanningInput) -> Self {
        let shapes = input.daemons.iter().map(|daemon| &input.shapes[daemon.shape as usize]);
        Self { input, node_affinities: shapes.map(RequiredNodeAffinity::of).collect() }
    }

    fn shape(&self, daemon: u32) -> &'a PodShape {
        &self.input.shapes[self.input.daemons[daemon as usize].shape as usize]
    }

    /// Whether a node of the input lacks the pod of a DaemonSet that runs there.
    #[must_use]
    pub fn lacks_any(&self, node: &Node) -> bool {
        let missing = |(at, daemon): (usize, &DaemonSet)| !self.has_pod(node, daemon) && self.runs_on(node, at, daemon);
        self.input.daemons.iter().enumerate().any(missing)
    }

    /// Host ports in use on a node of the input: by its pods, and by the DaemonSet pods that it
    /// lacks.
    pub fn ports_on_node(&self, node: &Node) -> impl Iterator<Item = &'a HostPort> {
        let input = self.input;
        let there = node.pods.iter().filter(|pod| !pod.leaving);
        let bound = there.flat_map(move |pod| &input.shapes[pod.shape as usize].host_ports);
        bound.chain(self.missing_ports(node))
    }

    fn missing_ports(&self, node: &Node) -> impl Iterator<Item = &'a HostPort> {
        let expected =
            |(at, daemon): &(usize, &DaemonSet)| !self.has_pod(node, daemon) && self.runs_on(node, *at, daemon);
        let shape = |daemon: &DaemonSet| &self.input.shapes[daemon.shape as usize];
        let with_ports = |(_, daemon): &(usize, &DaemonSet)| !shape(daemon).host_ports.is_empty();
        let daemons = self.input.daemons.iter().enumerate().filter(with_ports).filter(expected);
        let daemons: Vec<&DaemonSet> = daemons.map(|(_, daemon)| daemon).collect();
        let input = self.input;
        daemons.into_iter().flat_map(move |daemon| &input.shapes[daemon.shape as usize].host_ports)
    }

    /// Free resources on a node of the input: allocatable less its pods, less its missing DaemonSet
    /// pods.
    #[must_use]
    pub fn free_on_node(&self, node: &Node) -> Resources {
        let mut free = node.allocatable.clone();
        for pod in node.pods.iter().filter(|pod| !pod.leaving) {
            free.subtract(&self.input.shapes[pod.shape as usize].requests);
        }
        free.subtract(&self.missing_requests(node));
        free
    }

    fn has_pod(&self, node: &Node, daemon: &DaemonSet) -> bool {
        let named = |owner: &str| owner.split_once('/') == Some((&daemon.namespace, &daemon.name));
        node.pods.iter().any(|pod| !pod.leaving && pod.daemon.as_deref().is_some_and(named))
    }

    /// Requests of the DaemonSet pods that a node lacks: per resource the smaller of the requests
    /// of the DaemonSets without a pod there, and the expected sum less the bound sum.
    #[must_use]
    pub fn missing_requests(&self, node: &Node) -> Resources {
        let (mut missing, mut expected) = (Resources::new(), Resources::new());
        for (_, daemon) in self.input.daemons.iter().enumerate().filter(|(at, d)| self.runs_on(node, *at, d)) {
            let requests = &self.input.shapes[daemon.shape as usize].requests;
            expected.add(requests);
            if !self.has_pod(node, daemon) {
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
        first_untolerated(&node.taints, &shape.tolerations).is_none()
            && self.node_affinities[at].selector().iter().all(holds)
            && (shape.node_affinity.is_empty() || shape.node_affinity.iter().any(term_holds))
    }
}

fn running(input: &PlanningInput, node_affinities: &[RequiredNodeAffinity<'_>], launch: &Launch<'_>) -> LaunchDaemons {
    let mut running = LaunchDaemons { always: Vec::new(), sometimes: Vec::new() };
    for (at, daemon) in (0_u32..).zip(&input.daemons) {
        let node_affinity = &node_affinities[at as usize];
        if first_untolerated(&launch.pool.taints, &input.shapes[daemon.shape as usize].tolerations).is_some() {
            continue;
        }
        if node_affinity.is_empty() {
            running.always.push(at);
            continue;
        }
        let on: Vec<bool> = launch
            .outcomes
            .iter()
            .map(|outcome| node_affinity.matches_outcome(launch, outcome, Certainty::Possible))
            .collect();
        if on.iter().all(|runs| *runs) {
            running.always.push(at);
        } else if on.contains(&true) {
            running.sometimes.push((at, on));
        }
    }
    running
}

pub(super) fn check(
    input: &PlanningInput,
    plan: &Plan,
    placements: &Placements<'_>,
    launches: &Launches<'_>,
    daemons: &Daemons<'_>,
    findings: &mut Findings<'_>,
) {
    let index = ResourceIndex::of(input);
    let free_by_launch: Vec<Vec<i64>> =
        (0..launches.list.len()).map(|at| index.least_free(launches, daemons, at)).collect();
    let daemons_first: Vec<Resources> =
        launches.list.iter().enumerate().map(|(at, launch)| daemons.requests_of_first(at, launch)).collect();
    let mut requested = vec![0; index.names.len()];
    for node_pods in &placements.by_host {
        index.sum(input, node_pods, &mut requested);
        let name = placements.host_name(node_pods.host);
        if let Some(node) = input.nodes.get(node_pods.host as usize) {
            let free = index.free_on_node(&daemons.sets, node);
            index.check_fit(name, &requested, &free, findings);
            continue;
        }
        let at = node_pods.host as usize - input.nodes.len();
        let Some(number) = launches.of_node[at] else { continue };
        index.check_fit(name, &requested, &free_by_launch[number as usize], findings);
        index.check_requests(&plan.nodes[at], &requested, &daemons_first[number as usize], findings);
    }
}

/// The requested resources, numbered, so that sums are arrays.
struct ResourceIndex<'a> {
    names: Vec<&'a str>,
    numbers: FxHashMap<&'a str, usize>,
    per_shape: Vec<Vec<(usize, i64)>>,
}

impl<'a> ResourceIndex<'a> {
    fn of(input: &'a PlanningInput) -> Self {
        let mut index = Self { names: Vec::new(), numbers: FxHashMap::default(), per_shape: Vec::new() };
        for shape in &input.shapes {
            let mut amounts = Vec::new();
            for (name, amount) in shape.requests.iter().filter(|(_, amount)| *amount != 0) {
                let number = *index.numbers.entry(name).or_insert(index.names.len());
                if number == index.names.len() {
                    index.names.push(name);
                }
                amounts.push((number, amount));
            }
            index.per_shape.push(amounts);
        }
        index
    }

    fn amounts(&self, resources: &Resources) -> Vec<i64> {
        self.names.iter().map(|name| resources.get(name)).collect()
    }

    /// As [`DaemonSets::free_on_node`].
    fn free_on_node(&self, daemons: &DaemonSets<'_>, node: &Node) -> Vec<i64> {
        let mut free = self.amounts(&node.allocatable);
        for pod in node.pods.iter().filter(|pod| !pod.leaving) {
            for (number, amount) in &self.per_shape[pod.shape as usize] {
                free[*number] = free[*number].saturating_sub(*amount);
            }
        }
        let missing = daemons.missing_requests(node);
        if !missing.is_empty() {
            let missing = self.amounts(&missing);
            free.iter_mut().zip(missing).for_each(|(free, amount)| *free = free.saturating_sub(amount));
        }
        free
    }

    fn sum(&self, input: &PlanningInput, node_pods: &NodePods, sum: &mut [i64]) {
        sum.fill(0);
        for pod in &node_pods.pods {
            for (number, amount) in &self.per_shape[input.pods[*pod as usize].shape as usize] {
                sum[*number] = sum[*number].saturating_add(*amount);
            }
        }
    }

    fn least_free(&self, launches: &Launches<'_>, daemons: &Daemons<'_>, at: usize) -> Vec<i64> {
        let launch = &launches.list[at];
        let varies = !daemons.per_launch[at].sometimes.is_empty();
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

    fn check_fit(&self, node: &model::NodeName, requested: &[i64], free: &[i64], findings: &mut Findings<'_>) {
        for (number, name) in self.names.iter().enumerate() {
            if requested[number] > 0 && requested[number] > free[number] {
                let (requested, free) =
                    (quantity::render(name, requested[number]), quantity::render(name, free[number]));
                findings.report_node(
                    Rule::Resources,
                    node,
                    format!("its pods request {requested} of {name}, but {free} is free"),
                );
            }
        }
    }

    fn check_requests(
        &self,
        node: &model::plan::PlannedNode,
        requested: &[i64],
        daemons: &Resources,
        findings: &mut Findings<'_>,
    ) {
        let wrong = |name: &str, number: Option<usize>| {
            let pods = number.map_or(0, |number| requested[number]);
            node.requests.get(name) != pods.saturating_add(daemons.get(name))
        };
        let known = self.names.iter().enumerate().map(|(number, name)| (*name, Some(number)));
        let others =
            node.requests.iter().map(|(name, _)| name.as_ref()).filter(|name| !self.numbers.contains_key(name));
        if let Some((name, _)) =
            known.chain(others.map(|name| (name, None))).find(|(name, number)| wrong(name, *number))
        {
            let stated = quantity::render(name, node.requests.get(name));
            let message = format!("its requests of {stated} {name} differ from the sum of its pods and DaemonSet pods");
            findings.report_node(Rule::Requests, &node.name, message);
        }
    }
}
