//! Existing and in-flight nodes in planning: which pods they admit, the pods bound to them, and
//! their free capacity.

use smallvec::SmallVec;

use super::classes::node_alternatives;
use super::fits::{FitTable, NAME_FIELD, RequirementsId};
use super::machines::{ExistingNode, HostTallies};
use super::resource_vector::{self, Amounts, ResourceOrder};
use super::selector_index::SelectorIndex;
use super::topology::{GroupSpec, NodeFilter, Topology};
use model::input::PlanningInput;
use model::labels::{INITIALIZED, REGISTERED};
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{Effect, HostPort, Node, NodeStage, PodAffinityTerm, PodShape, Requirement, Taint, Text, Toleration};

/// The taint that `spec.unschedulable` implies; it counts before the node controller sets it (L50).
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Whether `node` counts for a group with this filter.
pub(super) fn passes(filter: &NodeFilter, node: &Node, fits: &FitTable, topology: &Topology) -> bool {
    let labelled = filter.keys.iter().all(|key| node.labels.contains_key(topology.key_name(*key)));
    let tolerated = filter.tolerations.as_ref().is_none_or(|own| {
        first_untolerated(&node.taints, own).is_none() && (!node.unschedulable || tolerates_cordon(own))
    });
    labelled
        && tolerated
        && filter.any_of.as_ref().is_none_or(|any| any.iter().any(|id| node_satisfies(node, *id, fits)))
}

/// Whether `node` satisfies requirements `id` as kube-scheduler evaluates them.
pub(super) fn node_satisfies(node: &Node, id: RequirementsId, fits: &FitTable) -> bool {
    fits.requirements(id).iter().all(|requirement| {
        if requirement.key().as_ref() == NAME_FIELD {
            return requirement.has(&node.name);
        }
        label_satisfies(&node.labels, requirement)
    })
}

/// Whether `tolerations` cover the taint of a cordoned node.
pub(super) fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    let cordon = Taint { key: Text::from(UNSCHEDULABLE), value: Text::from(""), effect: Effect::NoSchedule };
    tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
}

/// Registers the groups of bound pods' required anti-affinity: such pods exclude the pods that it
/// selects.
pub(super) fn register_bound_anti_affinity(
    input: &PlanningInput,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
) {
    for pod in input.nodes.iter().flat_map(|node| &node.pods).filter(|pod| !pod.terminating && !pod.leaving) {
        for spec in anti_groups(&input.shapes[pod.shape as usize], &pod.namespace, selector_index, topology) {
            let group = topology.group_id(spec, selector_index);
            topology.mark_hard(group);
        }
    }
}

fn anti_groups(
    shape: &PodShape,
    namespace: &Text,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
) -> Vec<GroupSpec> {
    let spec = |term: &PodAffinityTerm| GroupSpec {
        key: topology.key_id(&term.topology_key),
        predicate: vec![(selector_index.namespaces_of(term, namespace), term.selector.clone())],
        filter: NodeFilter::default(),
        anti: true,
    };
    shape.pod_anti_affinity.iter().map(spec).collect()
}

/// Counts bound pods in every domain except hostnames, which each node counts itself.
pub(super) fn count_bound_pods(
    input: &PlanningInput,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
    fits: &FitTable,
) {
    for node in &input.nodes {
        for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
            let pod_labels = selector_index.id(&pod.namespace, pod.labels);
            for group in topology.selected_by(pod_labels).to_vec() {
                let key = topology.groups[group as usize].key;
                topology.add_total(group, u32::from(node.labels.contains_key(topology.key_name(key))));
                count(topology, group, node, fits, 1, 0);
            }
            for spec in anti_groups(&input.shapes[pod.shape as usize], &pod.namespace, selector_index, topology) {
                let group = topology.group_id(spec, selector_index);
                count(topology, group, node, fits, 0, 1);
            }
        }
    }
}

fn count(topology: &mut Topology, group: u32, node: &Node, fits: &FitTable, matched: u32, carriers: u32) {
    let spec = &topology.groups[group as usize];
    let key = spec.key;
    if key == Topology::HOST || !passes(&spec.filter, node, fits, topology) {
        return;
    }
    if let Some(value) = node.labels.get(topology.key_name(key)).cloned() {
        let domain = topology.domain_id(key, &value);
        topology.add_pods(group, domain, matched, carriers);
    }
}

/// The tallies of the hostname groups on `node`, sorted by group.
fn host_tallies(
    input: &PlanningInput,
    node: &Node,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
) -> HostTallies {
    let mut tallies = HostTallies::default();
    for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
        for group in topology.selected_by(selector_index.id(&pod.namespace, pod.labels)).to_vec() {
            if topology.groups[group as usize].key == Topology::HOST {
                tallies.add(group, 1, 0);
            }
        }
        for spec in anti_groups(&input.shapes[pod.shape as usize], &pod.namespace, selector_index, topology) {
            if spec.key == Topology::HOST {
                let group = topology.group_id(spec, selector_index);
                tallies.add(group, 0, 1);
            }
        }
    }
    tallies
}

/// The nodes that may take pods: initialized nodes first, then by name.
pub(super) fn existing_nodes(
    input: &PlanningInput,
    resources: &ResourceOrder,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
) -> Vec<ExistingNode> {
    let mut order: Vec<u32> =
        (0_u32..).zip(&input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting).map(|(at, _)| at).collect();
    order.sort_by_key(|at| {
        let node = &input.nodes[*at as usize];
        (node.stage != NodeStage::Initialized, node.name.clone())
    });
    let mut daemons = fits_of_daemons(input);
    order.into_iter().map(|at| existing_node(input, at, resources, selector_index, topology, &mut daemons)).collect()
}

type DaemonRequirements = (FitTable, Vec<SmallVec<[u32; 1]>>);

fn fits_of_daemons(input: &PlanningInput) -> DaemonRequirements {
    let mut table = FitTable::default();
    let needs = input
        .daemons
        .iter()
        .map(|daemon| node_alternatives(&input.shapes[daemon.shape as usize], None, &mut table))
        .collect();
    (table, needs)
}

fn existing_node(
    input: &PlanningInput,
    at: u32,
    resources: &ResourceOrder,
    selector_index: &SelectorIndex<'_>,
    topology: &mut Topology,
    daemons: &mut DaemonRequirements,
) -> ExistingNode {
    let node = &input.nodes[at as usize];
    let mut free = resources.capacity(&node.allocatable);
    for (driver, limit) in &node.attach_limits {
        if let Some(place) = resources.position(&resource_vector::attach_resource(driver)) {
            free[place] = *limit;
        }
    }
    let mut ports = Vec::new();
    for pod in node.pods.iter().filter(|pod| !pod.leaving) {
        let shape = &input.shapes[pod.shape as usize];
        let mut demand = resources.demand(&shape.requests);
        if let Some(volumes) = pod.volumes {
            resources.add_attachments(&mut demand, &input.volume_sets[volumes as usize].attachments);
        }
        resource_vector::subtract(&mut free, &demand, 1);
        ports.extend(shape.host_ports.iter().cloned());
    }
    // After the bound pods: a DaemonSet pod that is bound already needs no reservation.
    reserve_for_daemons(input, node, resources, daemons, &mut free, &mut ports);
    let host = host_tallies(input, node, selector_index, topology);
    let domains = topology.wide_keys().map(|key| {
        let value = node.labels.get(topology.key_name(key)).cloned();
        (key, value)
    });
    let domains: Vec<_> = domains.collect();
    let domains = domains.into_iter().map(|(key, value)| value.map(|value| topology.domain_id(key, &value))).collect();
    ExistingNode { node: at, free, ports, host, domains }
}

/// Reserves capacity for matching DaemonSet pods that are not on the node yet.
fn reserve_for_daemons(
    input: &PlanningInput,
    node: &Node,
    resources: &ResourceOrder,
    (table, needs): &mut DaemonRequirements,
    free: &mut Amounts,
    ports: &mut Vec<HostPort>,
) {
    for (daemon, alternatives) in input.daemons.iter().zip(needs) {
        let shape = &input.shapes[daemon.shape as usize];
        // An in-flight node has these two labels when its DaemonSet pods start.
        let awaited = |requirement: &Requirement| {
            matches!(requirement.key().as_ref(), REGISTERED | INITIALIZED) && requirement.has("true")
        };
        let holds = |requirement: &Requirement| match requirement.key().as_ref() {
            NAME_FIELD => requirement.has(&node.name),
            _ => label_satisfies(&node.labels, requirement) || awaited(requirement),
        };
        let is_suitable = first_untolerated(&node.taints, &shape.tolerations).is_none()
            && alternatives.iter().any(|id| table.requirements(*id).iter().all(holds));
        let runs = |name: &str| name.split_once('/') == Some((daemon.namespace.as_ref(), daemon.name.as_ref()));
        if is_suitable && !node.pods.iter().any(|pod| pod.daemon.as_deref().is_some_and(runs)) {
            resource_vector::subtract(free, &resources.demand(&shape.requests), 1);
            ports.extend(shape.host_ports.iter().cloned());
        }
    }
}
