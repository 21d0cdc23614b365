//! A cluster whose nodes and pods leave and come back: where the pods of a node fit without it.
//!
//! A node that leaves is drained for a while, and kube-scheduler counts it as a member of its domains until it is gone:
//! the pods that leave it must be bound in that time, so it stays in its domains here.
//!
//! The filters are those of a scheduling cycle (`cluster::filter`). Scores play no part: a pod goes to
//! the first node of a given order that can run it.

mod open_nodes;

use model::Pod;
use model::input::PlanningInput;

use crate::classes::Classes;
use crate::cluster::filter::View;
use crate::hosts::{Hosts, ResourceIndex};
use crate::rules::{ClassRules, Compiler};
use crate::snapshot::open_nodes::OpenNodes;
use crate::steps::Steps;
use crate::tallies::{Domains, Tallies};

/// The nodes of a cluster, and where their pods fit.
///
/// A trial begins with [`ClusterSnapshot::begin_trial`]; a caller that gives it up takes back, in any
/// order, everything that it did since.
#[derive(Debug)]
pub struct ClusterSnapshot<'a> {
    rules: Vec<ClassRules<'a>>,
    domains: Domains<'a>,
    tallies: Tallies,
    hosts: Hosts<'a>,
    /// The classes of the pods of each node, in the order of the input; `None` for those that do not
    /// count.
    classes: Vec<Vec<Option<u32>>>,
    /// The number of the requests of each class.
    size_of_class: Vec<usize>,
    /// The nodes that may have free what pods of a size request.
    open: OpenNodes,
    /// Whether each node takes no pods.
    closed: Vec<bool>,
    /// The trial in which a pod was last placed on each node, or in which it was last closed.
    touched: Vec<u32>,
    trial: u32,
    /// The most that a node to which pods go had free at first, by resource: what leaves a node later was placed there.
    most_free: Vec<i64>,
    /// The minima of a placement, whose memory is used again.
    minima: Vec<i64>,
}

impl<'a> ClusterSnapshot<'a> {
    /// The nodes of `input`; those that are being deleted are drained. `movable` has for each node, in the order of its
    /// pods, the pod as it is planned when it leaves; `None` for a pod that never does. Pods go to the
    /// nodes of `order`, which are preferred in this order.
    #[must_use]
    pub fn new(input: &'a PlanningInput, movable: &[Vec<Option<&'a Pod>>], order: Vec<u32>) -> Self {
        let mut classes = Classes::new(input, false);
        // Movable pods first: only their classes have rules.
        let pending = |pods: &Vec<Option<&'a Pod>>, classes: &mut Classes<'a>| {
            pods.iter().map(|pod| pod.map(|pod| classes.of_pending(pod))).collect::<Vec<Option<u32>>>()
        };
        let of_movable: Vec<Vec<Option<u32>>> = movable.iter().map(|pods| pending(pods, &mut classes)).collect();
        let movable_classes = u32::try_from(classes.list.len()).unwrap_or(u32::MAX);
        let no_pods = Vec::new();
        let of_nodes = input.nodes.iter().enumerate().map(|(at, node)| {
            let movable = of_movable.get(at).unwrap_or(&no_pods);
            // A movable pod that is terminating is made anew, and counts as it does then.
            let class = |(at, pod): (usize, &'a model::BoundPod)| match movable.get(at).copied().flatten() {
                _ if pod.leaving => None,
                Some(class) => Some(class),
                None if pod.terminating => None,
                None => Some(classes.of_bound(pod)),
            };
            node.pods.iter().enumerate().map(class).collect()
        });
        let of_nodes: Vec<Vec<Option<u32>>> = of_nodes.collect();
        let shapes = || classes.list.iter().take(movable_classes as usize).map(|class| class.shape);
        let index = ResourceIndex::of(shapes());
        let hosts = Hosts::of(input, &index);
        let (mut domains, mut tallies) = (Domains::default(), Tallies::default());
        let mut compiler = Compiler::new(input, &classes, &mut domains, &mut tallies, false);
        let mut unlimited = Steps::new(u64::MAX);
        let rules = (0..movable_classes).filter_map(|class| compiler.compile(class, &index, &mut unlimited));
        let rules: Vec<ClassRules<'a>> = rules.collect();
        let (sizes, size_of_class) = sizes(&rules);
        let nodes = input.nodes.len();
        let mut snapshot = Self {
            rules,
            domains,
            tallies,
            classes: of_nodes,
            size_of_class,
            most_free: hosts.most_free(&order),
            open: OpenNodes::new(order, sizes),
            hosts,
            closed: vec![false; nodes],
            touched: vec![0; nodes],
            trial: 0,
            minima: Vec::new(),
        };
        for (at, node) in input.nodes.iter().enumerate() {
            if node.stage == model::NodeStage::Deleting {
                snapshot.closed[at] = true;
                snapshot.tallies.add_drained_node(&snapshot.domains, at);
            } else {
                snapshot.count_node(at);
            }
        }
        snapshot
    }

    /// The class of the pod at this position of the node's pods; `None` if it does not count.
    #[must_use]
    pub fn class(&self, node: u32, pod: usize) -> Option<u32> {
        self.classes[node as usize][pod]
    }

    pub fn begin_trial(&mut self) {
        self.trial += 1;
    }

    /// Drains `node`: all the pods that it has in the input leave it, and it takes no more.
    pub fn remove_node(&mut self, node: u32) {
        let at = node as usize;
        for class in self.classes[at].iter().copied().flatten() {
            self.tallies.remove_pod(&self.domains, class, at);
        }
        self.tallies.drain_node(&self.domains, at);
        self.closed[at] = true;
        self.touched[at] = self.trial;
    }

    /// Brings back a node that was drained, with the pods that it has in the input.
    pub fn restore_node(&mut self, node: u32) {
        self.tallies.undrain_node(&self.domains, node as usize);
        self.count_pods(node as usize);
        self.closed[node as usize] = false;
    }

    /// Lets `node` take no more pods; it stays in its domains, with its pods.
    pub fn close(&mut self, node: u32) {
        self.closed[node as usize] = true;
        self.touched[node as usize] = self.trial;
    }

    fn count_node(&mut self, at: usize) {
        self.tallies.add_node(&self.domains, at);
        self.count_pods(at);
    }

    fn count_pods(&mut self, at: usize) {
        for class in self.classes[at].iter().copied().flatten() {
            self.tallies.add_pod(&self.domains, class, at);
        }
    }

    /// Whether a node may have free what a pod of `class` requests; none has if not.
    #[must_use]
    pub fn may_have_room(&self, class: u32) -> bool {
        self.rules[class as usize].demand.requests.iter().all(|(number, amount)| *amount <= self.most_free[*number])
    }

    /// Places a pod of `class`, which was on the node `from`, on the first node that can run it and that
    /// `accepts` accepts.
    pub fn place(&mut self, class: u32, from: u32, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        if !self.may_have_room(class) {
            return None;
        }
        let rules = &self.rules[class as usize];
        let view = View { rules, hosts: &self.hosts, domains: &self.domains, tallies: &self.tallies };
        view.read_spread_minima(&mut self.minima);
        let minima = self.minima.as_slice();
        let requests = &rules.demand.requests;
        let has_free = |node: u32| !self.closed[node as usize] && self.hosts.has_free(node as usize, requests);
        // What is full before the trial stays full: pods leave a node only with the node itself.
        let stays = |node: u32| self.touched[node as usize] == self.trial || has_free(node);
        let runs = |node: u32| {
            let at = node as usize;
            has_free(node) && accepts(node) && view.is_feasible(at, minima) && view.keeps_zones(at, from as usize)
        };
        let among = view.domains_within_skew(minima);
        let size = self.size_of_class[class as usize];
        let node = self.open.first((size, among), &self.domains, stays, runs)?;
        self.hosts.bind(node as usize, &rules.demand);
        self.tallies.add_pod(&self.domains, class, node as usize);
        self.touched[node as usize] = self.trial;
        Some(node)
    }

    /// Whether the rules of a pod of `class`, which is on `node`, hold there now: they need not after pods have left
    /// other nodes. `node` stands for a machine that replaces it, and the node itself is there without pods.
    pub fn keeps_rules(&mut self, class: u32, node: u32) -> bool {
        self.tallies.remove_pod(&self.domains, class, node as usize);
        let rules = &self.rules[class as usize];
        let view = View { rules, hosts: &self.hosts, domains: &self.domains, tallies: &self.tallies };
        let keeps = view.keeps_rules_beside(node as usize);
        self.tallies.add_pod(&self.domains, class, node as usize);
        keeps
    }

    /// Puts a pod of `class` on `node`, from which it was taken back.
    pub fn put_back(&mut self, class: u32, node: u32) {
        let rules = &self.rules[class as usize];
        self.hosts.bind(node as usize, &rules.demand);
        self.tallies.add_pod(&self.domains, class, node as usize);
    }

    /// Takes back the placement of a pod of `class` on `node`.
    pub fn take_back(&mut self, class: u32, node: u32) {
        let rules = &self.rules[class as usize];
        self.hosts.unbind(node as usize, &rules.demand);
        self.tallies.remove_pod(&self.domains, class, node as usize);
    }
}

/// The number of distinct requests, and for each class the number of its own.
fn sizes(rules: &[ClassRules<'_>]) -> (usize, Vec<usize>) {
    let mut known = std::collections::BTreeMap::new();
    let of_class = rules.iter().map(|rules| {
        let next = known.len();
        *known.entry(&rules.demand.requests).or_insert(next)
    });
    let of_class = of_class.collect();
    (known.len(), of_class)
}
