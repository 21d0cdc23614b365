//! The nodes that have joined, and the scheduling cycle of one pod: filter, score, bind.

pub(crate) mod filter;
mod score;

use model::input::PlanningInput;

use crate::classes::Classes;
use crate::hosts::{Hosts, ResourceIndex};
use crate::random::SplitMix64;
use crate::rules::{ClassRules, Compiler};
use crate::steps::Steps;
use crate::tallies::{Domains, Tallies};
use score::ScoreCache;

/// A cluster as kube-scheduler sees it.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    classes: Classes<'a>,
    rules: Vec<Option<ClassRules<'a>>>,
    cache: Vec<ScoreCache>,
    domains: Domains<'a>,
    tallies: Tallies,
    hosts: Hosts<'a>,
    /// The classes of the pods that are bound from the beginning, by node.
    bound: Vec<Vec<u32>>,
    /// Nodes that have joined, in this order.
    joined: Vec<u32>,
    /// For each class, the nodes that may run more of its pods.
    open: Vec<OpenNodes>,
    /// Where the next search for feasible nodes begins in `joined`.
    next_start: usize,
    feasible: Vec<u32>,
    scratch: score::Scratch,
}

/// Nodes that may run more pods of a class. A node without room for one pod never has room again,
/// because no pod leaves.
#[derive(Debug, Default)]
struct OpenNodes {
    /// In the order of joining.
    nodes: Vec<u32>,
    /// How many of the joined nodes were added.
    added: usize,
}

impl OpenNodes {
    /// The open nodes of all that have `joined`.
    fn of(&mut self, joined: &[u32]) -> &[u32] {
        self.nodes.extend(&joined[self.added..]);
        self.added = joined.len();
        &self.nodes
    }

    /// Removes full nodes if half of those examined were full, so that the removal takes no longer than
    /// the examination.
    fn examined(&mut self, examined: usize, full: usize, has_room: impl Fn(usize) -> bool) {
        if 2 * full >= examined.max(1) && 4 * examined >= self.nodes.len() {
            self.nodes.retain(|node| has_room(*node as usize));
        }
    }

    /// Removes all nodes that have joined so far.
    fn close(&mut self) {
        self.nodes.clear();
    }
}

impl<'a> Cluster<'a> {
    /// The cluster of `input` with no node joined, and the class of each of the `pending` pods.
    pub(crate) fn new(input: &'a PlanningInput, pending: &[u32], steps: &mut Steps) -> Option<(Self, Vec<u32>)> {
        let mut classes = Classes::new(input, true);
        let of_pending: Vec<u32> = pending.iter().map(|pod| classes.of_pending(&input.pods[*pod as usize])).collect();
        let pending_classes = u32::try_from(classes.list.len()).unwrap_or(u32::MAX);
        let counted = input.nodes.iter().map(|node| node.pods.iter().filter(|pod| !pod.leaving && !pod.terminating));
        let bound = counted.map(|pods| pods.map(|pod| classes.of_bound(pod)).collect()).collect();
        let index = ResourceIndex::of(classes.list.iter().take(pending_classes as usize).map(|class| class.shape));
        let hosts = Hosts::of(input, &index);
        let (mut domains, mut tallies) = (Domains::default(), Tallies::default());
        let mut compiler = Compiler::new(input, &classes, &mut domains, &mut tallies, true);
        let compiled = (0..pending_classes).map(|number| compiler.compile(number, &index, steps));
        let rules: Vec<_> = compiled.map(|rules| rules.map(Some)).collect::<Option<_>>()?;
        let cache = (0..rules.len()).map(|_| ScoreCache::new(input.nodes.len())).collect();
        let scratch = score::Scratch::default();
        let open = (0..rules.len()).map(|_| OpenNodes::default()).collect();
        let (joined, feasible) = (Vec::new(), Vec::new());
        let cluster = Self {
            classes,
            rules,
            cache,
            domains,
            tallies,
            hosts,
            bound,
            joined,
            open,
            next_start: 0,
            feasible,
            scratch,
        };
        Some((cluster, of_pending))
    }

    /// Adds a node, with the pods that are bound there.
    pub(crate) fn join(&mut self, node: u32, steps: &mut Steps) -> Option<()> {
        steps.take(self.tallies.len() + 1)?;
        self.joined.push(node);
        self.tallies.add_node(&self.domains, node as usize);
        for class in &self.bound[node as usize] {
            self.tallies.add_pod(&self.domains, *class, node as usize);
        }
        Some(())
    }

    /// Binds a pod of `class` to the best node; `Some(None)` if no node can run it, `None` when the
    /// steps are used up.
    pub(crate) fn bind(&mut self, class: u32, random: &mut SplitMix64, steps: &mut Steps) -> Option<Option<u32>> {
        let at = class as usize;
        let Some(Some(rules)) = self.rules.get(at) else { return Some(None) };
        let view = filter::View { rules, hosts: &self.hosts, domains: &self.domains, tallies: &self.tallies };
        let open = self.open[at].of(&self.joined);
        let start = self.next_start % open.len().max(1);
        let (examined, full) = filter::find_feasible(&view, open, start, self.joined.len(), &mut self.feasible);
        self.open[at].examined(examined, full, |node| view.has_room(node));
        self.next_start = (self.next_start + examined) % self.joined.len().max(1);
        steps.take(1 + examined + self.feasible.len())?;
        let Some(best) = score::best(&view, &self.feasible, &mut self.cache[at], &mut self.scratch, random) else {
            if !rules.may_gain_from_bindings() {
                self.open[at].close();
            }
            return Some(None);
        };
        self.hosts.bind(best as usize, &rules.demand);
        self.tallies.add_pod(&self.domains, class, best as usize);
        Some(Some(best))
    }

    /// Whether a binding can make room for a pod of `class`.
    pub(crate) fn may_gain_from_bindings(&self, class: u32) -> bool {
        let rules = self.rules.get(class as usize).and_then(Option::as_ref);
        rules.is_some_and(ClassRules::may_gain_from_bindings)
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes.list.len()
    }
}
