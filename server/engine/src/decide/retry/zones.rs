//! Zones that a pod's own rules close to it, whichever machine it is tried on there: such trials need no check.
//!
//! Only what the check is bound to say is said here, from counts: where it may depend on a machine's labels or on what a
//! machine turns out to be, a zone stays open and the check is asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::input::PlanningInput;
use crate::model::labels::ZONE;
use crate::model::{LabelSelector, Node, NodeStage, PodAffinityTerm, PodShape, SpreadConstraint, Text};
use crate::plan::{Plan, PlannedNode};

/// Pods of one zone.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// There for sure.
    sure: i64,
    /// There, or in another zone of a machine whose zone is open.
    perhaps: i64,
}

/// Who is in which zone once a plan is carried out, by namespace and labels.
pub(super) struct Census {
    zones: Vec<Text>,
    /// For each zone, whether a node or machine is there for sure.
    settled: Vec<bool>,
    /// For each namespace and label set, the pods of each zone.
    pods: BTreeMap<(Text, u32), Vec<Count>>,
}

/// Where a pod may be tried.
#[derive(Debug, Default)]
pub(super) struct Open {
    closed: BTreeSet<Text>,
    /// Whether the pod stands only where the zone is settled.
    settled_only: bool,
    /// Whether it wants to stand beside a pod that is nowhere.
    nowhere: bool,
}

impl Open {
    /// Whether a machine in one of `zones` may take the pod; which of them is open still.
    pub(super) fn allows(&self, zones: &[Text]) -> bool {
        match zones {
            [only] => !self.closed.contains(only),
            _ => !self.settled_only,
        }
    }

    /// Whether the pod may be tried at all.
    pub(super) fn allows_any(&self) -> bool {
        !self.nowhere
    }

    /// Whether some zone is closed to the pod.
    pub(super) fn is_restricted(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Whether some of `zones` is open to the pod.
    pub(super) fn allows_some_of<'z>(&self, mut zones: impl Iterator<Item = &'z Text>) -> bool {
        !self.is_restricted() || zones.any(|zone| !self.closed.contains(zone))
    }

    /// Whether a node with this zone, if it has one, may take the pod.
    pub(super) fn allows_node(&self, node: &Node) -> bool {
        node.labels.get(ZONE).is_none_or(|zone| !self.closed.contains(zone))
    }
}

impl Census {
    /// Counts the pods of `plan` and those that stand on the nodes of `input`. What is on its way out is there perhaps.
    pub(super) fn of(input: &PlanningInput, plan: &Plan) -> Self {
        let of_nodes = input.nodes.iter().filter_map(|node| node.labels.get(ZONE));
        let zones: BTreeSet<&Text> = of_nodes.chain(plan.nodes.iter().flat_map(|node| &*node.zones)).collect();
        let zones: Vec<Text> = zones.into_iter().cloned().collect();
        let mut census = Self { settled: vec![false; zones.len()], zones, pods: BTreeMap::new() };
        for node in &input.nodes {
            let (zone, sure) = (node.labels.get(ZONE), node.stage != NodeStage::Deleting);
            let zone = zone.map_or(&[][..], std::slice::from_ref);
            census.settle(zone, sure);
            for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
                census.count((&pod.namespace, pod.labels), zone, sure);
            }
        }
        let own = |pod: u32| (&input.pods[pod as usize].namespace, input.pods[pod as usize].labels);
        for (pod, node) in &plan.placements {
            let zone = input.nodes[*node as usize].labels.get(ZONE);
            census.count(own(*pod), zone.map_or(&[][..], std::slice::from_ref), true);
        }
        for PlannedNode { zones, pods, .. } in &plan.nodes {
            census.settle(zones, zones.len() == 1);
            pods.iter().for_each(|pod| census.count(own(*pod), zones, zones.len() == 1));
        }
        census
    }

    /// How many different pods are counted apart.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    fn settle(&mut self, zones: &[Text], sure: bool) {
        for zone in zones.iter().filter(|_| sure) {
            if let Ok(at) = self.zones.binary_search(zone) {
                self.settled[at] = true;
            }
        }
    }

    fn count(&mut self, (namespace, labels): (&Text, u32), zones: &[Text], sure: bool) {
        let number = self.zones.len();
        let counts = self.pods.entry((namespace.clone(), labels)).or_insert_with(|| vec![Count::default(); number]);
        for at in zones.iter().filter_map(|zone| self.zones.binary_search(zone).ok()) {
            counts[at].sure += i64::from(sure);
            counts[at].perhaps += i64::from(!sure);
        }
    }

    /// The zones that are open to `pod`.
    pub(super) fn open_to(&self, input: &PlanningInput, pod: u32) -> Open {
        let own = &input.pods[pod as usize];
        let shape = &input.shapes[own.shape as usize];
        let mut open = Open { settled_only: has_zone_rules(shape), ..Open::default() };
        let of_namespace = |term: &&PodAffinityTerm| term.namespaces.is_empty() && term.namespace_selector.is_none();
        open.nowhere = shape.pod_affinity.iter().filter(of_namespace).any(|term| {
            let meant =
                |labels: u32| term.selector.as_ref().is_some_and(|own| own.matches(&input.label_sets[labels as usize]));
            !meant(own.labels) && !self.pods.keys().any(|(of, labels)| *of == own.namespace && meant(*labels))
        });
        for term in shape.pod_anti_affinity.iter().filter(|term| is_zone(&term.topology_key)).filter(of_namespace) {
            let there = self.selected(input, &own.namespace, term.selector.as_ref());
            let taken = self.zones.iter().zip(there).filter(|(_, count)| count.sure > 0);
            open.closed.extend(taken.map(|(zone, _)| zone.clone()));
        }
        if counts_every_node(shape) {
            for spread in shape.spread.iter().filter(|spread| spread.hard) {
                let there = self.selected(input, &own.namespace, spread.selector.as_ref());
                let labels = &input.label_sets[own.labels as usize];
                let itself = spread.selector.as_ref().is_some_and(|selector| selector.matches(labels));
                let full = (0..self.zones.len()).filter(|at| self.is_full(spread, &there, *at, itself));
                open.closed.extend(full.map(|at| self.zones[at].clone()));
            }
        }
        open
    }

    /// Whether one pod more in zone `at` makes the skew larger than `spread` allows.
    fn is_full(&self, spread: &SpreadConstraint, there: &[Count], at: usize, itself: bool) -> bool {
        let too_few =
            spread.min_domains.is_some_and(|least| usize::try_from(least).is_ok_and(|least| self.zones.len() < least));
        let settled = self.settled.iter().zip(there).filter(|(settled, _)| **settled);
        let least = settled.map(|(_, count)| count.sure + count.perhaps).min();
        let Some(least) = (if too_few { Some(0) } else { least }) else { return false };
        there[at].sure + i64::from(itself) - least > i64::from(spread.max_skew)
    }

    /// The pods of each zone that `selector` means.
    fn selected(&self, input: &PlanningInput, namespace: &Text, selector: Option<&LabelSelector>) -> Vec<Count> {
        let mut sums = vec![Count::default(); self.zones.len()];
        let own = self.pods.iter().filter(|((of, _), _)| of == namespace);
        let meant = own.filter(|((_, labels), _)| {
            selector.is_some_and(|selector| selector.matches(&input.label_sets[*labels as usize]))
        });
        for (_, counts) in meant {
            for (sum, count) in sums.iter_mut().zip(counts) {
                sum.sure += count.sure;
                sum.perhaps += count.perhaps;
            }
        }
        sums
    }
}

/// Whether a hard rule of `shape` looks at zones, so that its pods stand only where the zone is settled.
pub(super) fn has_zone_rules(shape: &PodShape) -> bool {
    let terms = || shape.pod_affinity.iter().chain(&shape.pod_anti_affinity);
    shape.spread.iter().any(|spread| spread.hard && is_zone(&spread.topology_key))
        || terms().any(|term| is_zone(&term.topology_key))
}

fn is_zone(key: &Text) -> bool {
    key.as_ref() == ZONE
}

/// Whether the hard spread constraints of `shape` look at zones alone and leave no node out, so that what they count does
/// not depend on what a machine turns out to be.
fn counts_every_node(shape: &PodShape) -> bool {
    let plain = |spread: &SpreadConstraint| is_zone(&spread.topology_key) && !spread.honor_node_taints;
    let anywhere = shape.node_selector.is_empty() && shape.node_affinity.is_empty();
    let mut hard = shape.spread.iter().filter(|spread| spread.hard);
    hard.all(|spread| plain(spread) && (anywhere || !spread.honor_node_affinity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BoundPod, Labels, Pod, Resources, SelectorOperator, SelectorTerm};

    fn text(value: &str) -> Text {
        Text::from(value)
    }

    fn web() -> Option<LabelSelector> {
        let term = SelectorTerm { key: text("app"), operator: SelectorOperator::In, values: vec![text("web")] };
        Some(LabelSelector::new(vec![term]))
    }

    fn spread() -> SpreadConstraint {
        SpreadConstraint {
            topology_key: text(ZONE),
            max_skew: 1,
            min_domains: None,
            hard: true,
            selector: web(),
            honor_node_affinity: true,
            honor_node_taints: false,
        }
    }

    /// A pod `web` of this shape, and a node in each of these zones with so many others of its kind.
    fn input(shape: PodShape, zones: &[(&str, usize)]) -> PlanningInput {
        let bound = BoundPod {
            namespace: text("default"),
            name: text("web"),
            shape: 0,
            labels: 0,
            volumes: None,
            daemon: None,
            terminating: false,
            leaving: false,
        };
        let node = |(zone, pods): &(&str, usize)| Node {
            name: text(zone),
            pool: None,
            labels: Labels::from([(text(ZONE), text(zone))]),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::new(),
            capacity: Resources::new(),
            stage: NodeStage::Initialized,
            pods: vec![bound.clone(); *pods],
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
            shapes: vec![shape],
            label_sets: vec![Labels::from([(text("app"), text("web"))])],
            pods: vec![pod],
            nodes: zones.iter().map(node).collect(),
            ..PlanningInput::default()
        }
    }

    /// Those of zones a, b and c that are open to the pod, and whether a machine whose zone is open is.
    fn open(shape: PodShape, zones: &[(&str, usize)]) -> (Vec<&'static str>, bool) {
        let input = input(shape, zones);
        let open = Census::of(&input, &Plan::default()).open_to(&input, 0);
        let single = ["a", "b", "c"].into_iter().filter(|zone| open.allows(&[text(zone)])).collect();
        (single, open.allows(&[text("a"), text("b")]))
    }

    #[test]
    fn a_zone_that_is_ahead_by_the_skew_is_closed() {
        let shape = || PodShape { spread: vec![spread()], ..PodShape::default() };
        assert_eq!(open(shape(), &[("a", 1), ("b", 0)]), (vec!["b", "c"], false));
        assert_eq!(open(shape(), &[("a", 1), ("b", 1)]), (vec!["a", "b", "c"], false));
        assert_eq!(open(PodShape::default(), &[("a", 1), ("b", 0)]), (vec!["a", "b", "c"], true));
    }

    #[test]
    fn with_fewer_zones_than_wanted_the_least_is_zero() {
        let wanting = |least| SpreadConstraint { min_domains: Some(least), ..spread() };
        let shape = |least| PodShape { spread: vec![wanting(least)], ..PodShape::default() };
        assert_eq!(open(shape(2), &[("a", 1), ("b", 1)]).0, ["a", "b", "c"]);
        assert_eq!(open(shape(3), &[("a", 1), ("b", 1)]).0, ["c"], "c would be the third zone");
    }

    #[test]
    fn what_may_depend_on_the_machine_closes_nothing() {
        let honest = SpreadConstraint { honor_node_taints: true, ..spread() };
        let shape = PodShape { spread: vec![honest], ..PodShape::default() };
        assert_eq!(open(shape, &[("a", 1), ("b", 0)]), (vec!["a", "b", "c"], false));
    }

    #[test]
    fn zones_with_pods_that_it_keeps_away_from_are_closed() {
        let term = PodAffinityTerm {
            topology_key: text(ZONE),
            selector: web(),
            namespaces: Vec::new(),
            namespace_selector: None,
        };
        let shape = PodShape { pod_anti_affinity: vec![term], ..PodShape::default() };
        assert_eq!(open(shape, &[("a", 1), ("b", 0)]), (vec!["b", "c"], false));
    }
}
