//! Hosts that a pod's host ports, its own rules over hostnames, or a cordon exclude: such trials need no check.

use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::{Plan, PlannedNode};
use model::{
    Effect, HostPort, LabelSelector, Labels, Node, PodAffinityTerm, SpreadConstraint, Taint, Text, Toleration,
};
use verifier::kernel::conflicting_port;

/// The taint that `spec.unschedulable` implies.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Pods that may share a host with the pod on trial.
struct HostRule<'i> {
    selector: &'i LabelSelector,
    /// How many pods that the selector matches a host may have before.
    most: i64,
}

/// A pod on a host, as rules over hostnames see it.
struct HostPod<'i> {
    namespace: &'i Text,
    labels: u32,
    shape: u32,
}

/// Hosts that a pod's host ports and its rules over hostnames exclude. Terms that name namespaces exclude none
/// here; the check decides about those.
#[derive(Default)]
pub(super) struct ClosedHosts<'i> {
    namespace: Text,
    rules: Vec<HostRule<'i>>,
    ports: &'i [HostPort],
    /// For each existing node, whether it is closed; empty without rules.
    nodes: Vec<bool>,
}

impl<'i> ClosedHosts<'i> {
    /// The hosts that are closed to `pod` by its ports and its anti-affinity; with `empty_hosts`, also by its
    /// spread, as if a host without a pod counted.
    pub(super) fn of(input: &'i PlanningInput, plan: &Plan, pod: u32, empty_hosts: bool) -> Self {
        let own = &input.pods[pod as usize];
        let shape = &input.shapes[own.shape as usize];
        let mut rules: Vec<HostRule<'i>> =
            shape.pod_anti_affinity.iter().filter_map(HostRule::of_anti_affinity).collect();
        if empty_hosts {
            let labels = &input.label_sets[own.labels as usize];
            rules.extend(shape.spread.iter().filter_map(|spread| HostRule::of_spread(spread, labels)));
        }
        let mut closed = Self { namespace: own.namespace.clone(), rules, ports: &shape.host_ports, nodes: Vec::new() };
        if !closed.is_empty() {
            closed.nodes = closed.closed_nodes(input, plan);
        }
        closed
    }

    fn closed_nodes(&self, input: &PlanningInput, plan: &Plan) -> Vec<bool> {
        let mut pods: Vec<Vec<HostPod<'_>>> = input.nodes.iter().map(|_| Vec::new()).collect();
        for (node, pods) in input.nodes.iter().zip(&mut pods) {
            let running = node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving);
            pods.extend(running.map(|pod| HostPod { namespace: &pod.namespace, labels: pod.labels, shape: pod.shape }));
        }
        for (pod, node) in &plan.placements {
            pods[*node as usize].push(HostPod::pending(input, *pod));
        }
        pods.iter().map(|pods| self.excludes(input, pods)).collect()
    }

    /// Whether the pod has no such rule.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.ports.is_empty()
    }

    /// Whether existing node `at` is closed.
    pub(super) fn contains_node(&self, at: usize) -> bool {
        self.nodes.get(at).is_some_and(|closed| *closed)
    }

    /// Whether the machine is closed.
    pub(super) fn contains_machine(&self, input: &PlanningInput, machine: &PlannedNode) -> bool {
        let pods = || machine.pods.iter().map(|pod| HostPod::pending(input, *pod)).collect::<Vec<_>>();
        !self.is_empty() && self.excludes(input, &pods())
    }

    /// Whether a host with these pods is closed.
    fn excludes(&self, input: &PlanningInput, pods: &[HostPod<'_>]) -> bool {
        let taken = pods.iter().flat_map(|pod| &input.shapes[pod.shape as usize].host_ports);
        let is_full = |rule: &HostRule<'_>| {
            let matches = |pod: &&HostPod<'_>| {
                *pod.namespace == self.namespace && rule.selector.matches(&input.label_sets[pod.labels as usize])
            };
            i64::try_from(pods.iter().filter(matches).count()).is_ok_and(|count| count > rule.most)
        };
        conflicting_port(self.ports, taken).is_some() || self.rules.iter().any(is_full)
    }
}

impl<'i> HostPod<'i> {
    fn pending(input: &'i PlanningInput, pod: u32) -> Self {
        let pod = &input.pods[pod as usize];
        Self { namespace: &pod.namespace, labels: pod.labels, shape: pod.shape }
    }
}

impl<'i> HostRule<'i> {
    fn of_anti_affinity(term: &'i PodAffinityTerm) -> Option<Self> {
        let of_namespace = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let selector = term.selector.as_ref().filter(|_| of_namespace && term.topology_key.as_ref() == HOSTNAME)?;
        Some(Self { selector, most: 0 })
    }

    fn of_spread(spread: &'i SpreadConstraint, labels: &Labels) -> Option<Self> {
        let selector = spread.selector.as_ref().filter(|_| spread.hard && spread.topology_key.as_ref() == HOSTNAME)?;
        Some(Self { selector, most: i64::from(spread.max_skew) - i64::from(selector.matches(labels)) })
    }
}

/// Whether `node` is cordoned, and `tolerations` do not cover that.
pub(super) fn is_cordoned(node: &Node, tolerations: &[Toleration]) -> bool {
    let cordon = || Taint { key: Text::from(UNSCHEDULABLE), value: Text::from(""), effect: Effect::NoSchedule };
    node.unschedulable && !tolerations.iter().any(|toleration| toleration.tolerates(&cordon()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{
        Labels, NodeName, NodeStage, Pod, PodShape, Resources, SelectorOperator, SelectorTerm, TolerationOperator,
    };

    fn web() -> Option<LabelSelector> {
        let term =
            SelectorTerm { key: Text::from("app"), operator: SelectorOperator::In, values: vec![Text::from("web")] };
        Some(LabelSelector::new(vec![term]))
    }

    fn anti_affinity() -> PodAffinityTerm {
        PodAffinityTerm {
            topology_key: HOSTNAME.into(),
            selector: web(),
            namespaces: Vec::new(),
            namespace_selector: None,
        }
    }

    fn spread(max_skew: i32) -> SpreadConstraint {
        SpreadConstraint {
            topology_key: HOSTNAME.into(),
            max_skew,
            min_domains: None,
            hard: true,
            selector: web(),
            honor_node_affinity: true,
            honor_node_taints: false,
        }
    }

    fn port() -> HostPort {
        HostPort { ip: Text::from(""), protocol: Text::from("TCP"), port: 80 }
    }

    /// Five pods `web` of this shape, and two nodes without pods.
    fn input(shape: PodShape) -> PlanningInput {
        let node = |name: &str| Node {
            name: NodeName::from(name),
            pool: None,
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::new(),
            capacity: Resources::new(),
            stage: NodeStage::Initialized,
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: None,
        };
        let pod = |name: &str| Pod {
            namespace: Text::from("default"),
            name: Text::from(name),
            workload: Text::from("Pod/web"),
            ..Pod::default()
        };
        PlanningInput {
            shapes: vec![shape],
            label_sets: vec![Labels::from([(Text::from("app"), Text::from("web"))])],
            pods: ["a", "b", "c", "d", "e"].map(pod).to_vec(),
            nodes: vec![node("one"), node("two")],
            ..PlanningInput::default()
        }
    }

    /// Whether each node is closed to the last pod, when the plan has put the others on these.
    fn closed(shape: PodShape, placed: &[u32], empty_hosts: bool) -> [bool; 2] {
        let input = input(shape);
        let plan = Plan { placements: (0..).zip(placed.iter().copied()).collect(), ..Plan::default() };
        let closed = ClosedHosts::of(&input, &plan, 4, empty_hosts);
        [0, 1].map(|at| closed.contains_node(at))
    }

    #[test]
    fn the_host_of_a_pod_that_its_anti_affinity_selects_is_closed() {
        let shape = PodShape { pod_anti_affinity: vec![anti_affinity()], ..PodShape::default() };
        assert_eq!(closed(shape, &[1], false), [false, true]);
        assert_eq!(closed(PodShape::default(), &[1], false), [false, false]);
    }

    #[test]
    fn the_host_of_a_pod_with_the_same_host_port_is_closed() {
        let shape = PodShape { host_ports: vec![port()], ..PodShape::default() };
        assert_eq!(closed(shape, &[0], false), [true, false]);
    }

    #[test]
    fn a_host_at_the_maximum_skew_is_closed_where_empty_hosts_count() {
        // Two pods each: a third makes the skew over an empty host 3, over the other node 1.
        let shape = || PodShape { spread: vec![spread(2)], ..PodShape::default() };
        assert_eq!(closed(shape(), &[0, 1, 0, 1], true), [true, true]);
        assert_eq!(closed(shape(), &[0, 1, 0], true), [true, false]);
        assert_eq!(closed(shape(), &[0, 1, 0, 1], false), [false, false]);
    }

    #[test]
    fn a_cordoned_node_is_closed_to_pods_that_do_not_tolerate_it() {
        let mut node = input(PodShape::default()).nodes.remove(0);
        assert!(!is_cordoned(&node, &[]));
        node.unschedulable = true;
        assert!(is_cordoned(&node, &[]));
        let all = Toleration {
            key: Text::from(""),
            operator: TolerationOperator::Exists,
            value: Text::from(""),
            effect: None,
        };
        assert!(!is_cordoned(&node, &[all]));
    }
}
