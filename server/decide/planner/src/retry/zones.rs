//! Zones that a pod's own rules exclude on any machine: such trials need no check.
//!
//! A zone is closed only when counts prove that the check would reject it. Where the result may
//! depend on a machine's labels or on its final launch option, the zone stays open and the check
//! decides.

use std::collections::{BTreeMap, BTreeSet};

use model::input::{PlanningInput, PreferencePolicy};
use model::labels::{HOSTNAME, ZONE};
use model::plan::{Plan, PlannedNode};
use model::{LabelSelector, Node, NodeStage, PodAffinityTerm, PodShape, SpreadConstraint, Text, Zone};

/// Pods in one zone.
#[derive(Debug, Clone, Copy, Default)]
struct ZoneCount {
    /// In the zone for certain.
    certain: i64,
    /// On a machine that may run in this zone or in another.
    possible: i64,
}

/// Pods per zone after the plan is carried out, by namespace and labels.
pub(super) struct ZonePodCounts {
    zones: Vec<Zone>,
    /// For each zone, whether it has a node or machine for certain.
    certain_zones: Vec<bool>,
    /// For each namespace and label set, the pods per zone.
    pods: BTreeMap<(Text, u32), Vec<ZoneCount>>,
}

/// Zones in which a pod may be tried.
#[derive(Debug, Default)]
pub(super) struct OpenZones {
    closed: BTreeSet<Zone>,
    /// The only zone that is open, if it is restricted to one.
    only: Option<Zone>,
    /// Whether the pod may run only on machines with a known zone.
    known_zone_only: bool,
    /// Whether it requires affinity to a pod that does not exist.
    unsatisfiable: bool,
}

impl OpenZones {
    /// Every zone; or `only` this one.
    pub(super) fn of_zone(only: Option<Zone>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Whether a machine in one of `zones` may take the pod, as far as known.
    pub(super) fn allows(&self, zones: &[Zone]) -> bool {
        match zones {
            [single] => self.is_open(single),
            _ => !self.known_zone_only && self.only.is_none(),
        }
    }

    /// Whether the pod may be tried at all.
    pub(super) fn allows_any(&self) -> bool {
        !self.unsatisfiable
    }

    /// Whether some zone is closed to the pod.
    pub(super) fn is_restricted(&self) -> bool {
        !self.closed.is_empty() || self.only.is_some()
    }

    /// Whether some of `zones` is open to the pod.
    pub(super) fn allows_some_of<'z>(&self, mut zones: impl Iterator<Item = &'z Zone>) -> bool {
        !self.is_restricted() || zones.any(|zone| self.is_open(zone))
    }

    /// Whether the node's zone is open to the pod, or the node has none that it must be in.
    pub(super) fn allows_node(&self, node: &Node) -> bool {
        match node.labels.get(ZONE) {
            Some(zone) => self.is_open(&Zone::from(zone)),
            None => self.only.is_none(),
        }
    }

    fn is_open(&self, zone: &Zone) -> bool {
        !self.closed.contains(zone) && self.only.as_ref().is_none_or(|only| only == zone)
    }
}

impl ZonePodCounts {
    /// Counts the pods of `plan` and those bound to the nodes of `input`. Pods on deleting nodes
    /// are possible, not certain.
    pub(super) fn of(input: &PlanningInput, plan: &Plan) -> Self {
        let of_nodes = input.nodes.iter().filter_map(|node| node.labels.get(ZONE));
        let planned = plan.nodes.iter().flat_map(|node| &*node.zones);
        let zones: BTreeSet<&Text> = of_nodes.chain(planned.map(Zone::as_text)).collect();
        let zones: Vec<Zone> = zones.into_iter().map(Zone::from).collect();
        let mut zone_counts = Self { certain_zones: vec![false; zones.len()], zones, pods: BTreeMap::new() };
        for node in &input.nodes {
            let (zone, certain) = (node.labels.get(ZONE).map(Zone::from), node.stage != NodeStage::Deleting);
            zone_counts.mark_certain(zone.as_slice(), certain);
            for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
                zone_counts.count((&pod.namespace, pod.labels), zone.as_slice(), certain);
            }
        }
        let own = |pod: u32| (&input.pods[pod as usize].namespace, input.pods[pod as usize].labels);
        for (pod, node) in &plan.placements {
            let zone = input.nodes[*node as usize].labels.get(ZONE).map(Zone::from);
            zone_counts.count(own(*pod), zone.as_slice(), true);
        }
        for PlannedNode { zones, pods, .. } in &plan.nodes {
            zone_counts.mark_certain(zones, zones.len() == 1);
            pods.iter().for_each(|pod| zone_counts.count(own(*pod), zones, zones.len() == 1));
        }
        zone_counts
    }

    /// Number of distinct namespaces and label sets.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    fn mark_certain(&mut self, zones: &[Zone], certain: bool) {
        for zone in zones.iter().filter(|_| certain) {
            if let Ok(at) = self.zones.binary_search(zone) {
                self.certain_zones[at] = true;
            }
        }
    }

    fn count(&mut self, (namespace, labels): (&Text, u32), zones: &[Zone], certain: bool) {
        let number = self.zones.len();
        let counts = self.pods.entry((namespace.clone(), labels)).or_insert_with(|| vec![ZoneCount::default(); number]);
        for at in zones.iter().filter_map(|zone| self.zones.binary_search(zone).ok()) {
            counts[at].certain += i64::from(certain);
            counts[at].possible += i64::from(!certain);
        }
    }

    /// The zones that are open to `pod`, `only` this one among them.
    pub(super) fn open_zones_of(&self, input: &PlanningInput, pod: u32, only: Option<Zone>) -> OpenZones {
        let own = &input.pods[pod as usize];
        let shape = &input.shapes[own.shape as usize];
        let mut open = OpenZones { known_zone_only: has_zone_rules(shape), ..OpenZones::of_zone(only) };
        let of_namespace = |term: &&PodAffinityTerm| term.namespaces.is_empty() && term.namespace_selector.is_none();
        open.unsatisfiable = shape.pod_affinity.iter().filter(of_namespace).any(|term| {
            let meant =
                |labels: u32| term.selector.as_ref().is_some_and(|own| own.matches(&input.label_sets[labels as usize]));
            !meant(own.labels) && !self.pods.keys().any(|(of, labels)| *of == own.namespace && meant(*labels))
        });
        for term in shape.pod_anti_affinity.iter().filter(|term| is_zone(&term.topology_key)).filter(of_namespace) {
            let counts = self.selected(input, &own.namespace, term.selector.as_ref());
            let taken = self.zones.iter().zip(counts).filter(|(_, count)| count.certain > 0);
            open.closed.extend(taken.map(|(zone, _)| zone.clone()));
        }
        if counts_every_node(shape) {
            for spread in shape.spread.iter().filter(|spread| spread.hard) {
                let counts = self.selected(input, &own.namespace, spread.selector.as_ref());
                let labels = &input.label_sets[own.labels as usize];
                let itself = spread.selector.as_ref().is_some_and(|selector| selector.matches(labels));
                let full = (0..self.zones.len()).filter(|at| self.is_full(spread, &counts, *at, itself));
                open.closed.extend(full.map(|at| self.zones[at].clone()));
            }
        }
        open
    }

    /// Whether one more pod in zone `at` makes the skew larger than `spread` allows.
    fn is_full(&self, spread: &SpreadConstraint, counts: &[ZoneCount], at: usize, itself: bool) -> bool {
        let too_few =
            spread.min_domains.is_some_and(|least| usize::try_from(least).is_ok_and(|least| self.zones.len() < least));
        let certain = self.certain_zones.iter().zip(counts).filter(|(certain, _)| **certain);
        let least = certain.map(|(_, count)| count.certain + count.possible).min();
        let Some(least) = (if too_few { Some(0) } else { least }) else { return false };
        counts[at].certain + i64::from(itself) - least > i64::from(spread.max_skew)
    }

    /// The pods per zone that `selector` matches.
    fn selected(&self, input: &PlanningInput, namespace: &Text, selector: Option<&LabelSelector>) -> Vec<ZoneCount> {
        let mut sums = vec![ZoneCount::default(); self.zones.len()];
        let own = self.pods.iter().filter(|((of, _), _)| of == namespace);
        let meant = own.filter(|((_, labels), _)| {
            selector.is_some_and(|selector| selector.matches(&input.label_sets[*labels as usize]))
        });
        for (_, counts) in meant {
            for (sum, count) in sums.iter_mut().zip(counts) {
                sum.certain += count.certain;
                sum.possible += count.possible;
            }
        }
        sums
    }
}

/// Whether a hard rule of `shape` is over zones, so that its pods may run only on machines with a
/// known zone.
pub(super) fn has_zone_rules(shape: &PodShape) -> bool {
    let terms = || shape.pod_affinity.iter().chain(&shape.pod_anti_affinity);
    shape.spread.iter().any(|spread| spread.hard && is_zone(&spread.topology_key))
        || terms().any(|term| is_zone(&term.topology_key))
}

/// The keys, other than the hostname, over which a spread, or a preference between pods, may have launched
/// the pod's machine. Without the machine its domain may be gone, and a check that counts the domains that
/// are there would allow to put all pods into one zone, so that the pod must stay in its domain. Preferences
/// over hostnames launch no machine (plan contract, Choice).
pub(super) fn spread_keys(shape: &PodShape, policy: PreferencePolicy) -> impl Iterator<Item = &Text> {
    let respects = policy == PreferencePolicy::Respect;
    let spread = shape.spread.iter().filter(move |spread| spread.hard || respects);
    let terms = shape.preferred_pod_affinity.iter().chain(&shape.preferred_pod_anti_affinity);
    let preferred = terms.filter(move |_| respects).map(|term| &term.term.topology_key);
    let keys = spread.map(|spread| &spread.topology_key).chain(preferred);
    keys.filter(|key| key.as_ref() != HOSTNAME)
}

fn is_zone(key: &Text) -> bool {
    key.as_ref() == ZONE
}

/// Whether the hard spread constraints of `shape` are over zones alone and count every node, so
/// that their counts do not depend on the final launch option.
fn counts_every_node(shape: &PodShape) -> bool {
    let plain = |spread: &SpreadConstraint| is_zone(&spread.topology_key) && !spread.honor_node_taints;
    let anywhere = shape.node_selector.is_empty() && shape.node_affinity.is_empty();
    let mut hard = shape.spread.iter().filter(|spread| spread.hard);
    hard.all(|spread| plain(spread) && (anywhere || !spread.honor_node_affinity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BoundPod, Labels, NodeName, Pod, Resources, SelectorOperator, SelectorTerm};

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

    /// A pod `web` of this shape, and a node in each of these zones with this many others of its
    /// kind.
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
        // Resources are empty: only counts per zone matter to these tests.
        let node = |(zone, pods): &(&str, usize)| Node {
            name: NodeName::from(*zone),
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
            moved_from: None,
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

    /// Those of zones a, b and c that are open to the pod, and whether a machine without a known
    /// zone is.
    fn open(shape: PodShape, zones: &[(&str, usize)]) -> (Vec<&'static str>, bool) {
        let input = input(shape, zones);
        let open = ZonePodCounts::of(&input, &Plan::default()).open_zones_of(&input, 0, None);
        let single = ["a", "b", "c"].into_iter().filter(|zone| open.allows(&[Zone::from(*zone)])).collect();
        (single, open.allows(&[Zone::from("a"), Zone::from("b")]))
    }

    #[test]
    fn a_zone_at_the_maximum_skew_is_closed() {
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
    fn a_spread_that_depends_on_the_machine_closes_no_zone() {
        let honest = SpreadConstraint { honor_node_taints: true, ..spread() };
        let shape = PodShape { spread: vec![honest], ..PodShape::default() };
        assert_eq!(open(shape, &[("a", 1), ("b", 0)]), (vec!["a", "b", "c"], false));
    }

    #[test]
    fn zones_with_pods_that_its_anti_affinity_selects_are_closed() {
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
