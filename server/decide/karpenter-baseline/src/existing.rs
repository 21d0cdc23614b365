//! Nodes of the input, and which pods they take (Karpenter core §3.10).

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::{HostPort, Node, NodeStage, PodShape, Requirements, Text};

use crate::amounts::{Amounts, ResourceColumns};
use crate::claim::{conflict, volume_alternatives};
use crate::pods::{PodKind, Variant, add_expressions};
use crate::topology::{Topology, VariantId};

pub(crate) struct ExistingNode<'i> {
    /// Index into `PlanningInput::nodes`.
    pub(crate) index: u32,
    pub(crate) node: &'i Node,
    pub(crate) requirements: Requirements,
    host: Text,
    free: Amounts,
    ports: Vec<HostPort>,
    /// Attached volumes: (CSI driver, id).
    volumes: BTreeSet<(Text, Text)>,
    /// Variants that can never be placed here.
    refused: BTreeSet<VariantId>,
}

/// The nodes of `input` that take pods, in the order in which they are tried: initialized ones first,
/// then by name. `spec.unschedulable` alone does not exclude a node (L50).
pub(crate) fn existing_nodes<'i>(input: &'i PlanningInput, columns: &ResourceColumns) -> Vec<ExistingNode<'i>> {
    let present = (0..).zip(&input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting);
    let mut nodes: Vec<ExistingNode<'i>> =
        present.map(|(index, node)| ExistingNode::of(index, node, input, columns)).collect();
    nodes.sort_by_key(|existing| (existing.node.stage != NodeStage::Initialized, &existing.node.name));
    nodes
}

impl<'i> ExistingNode<'i> {
    fn of(index: u32, node: &'i Node, input: &'i PlanningInput, columns: &ResourceColumns) -> Self {
        let requirements = Requirements::from_labels(&node.labels);
        let shape = |at: u32| &input.shapes[at as usize];
        let expected = input.daemons.iter().map(|daemon| shape(daemon.shape));
        let expected = expected.filter(|shape| expects(shape, node, &requirements));
        let running = || node.pods.iter().filter(|pod| !pod.leaving);
        let nothing = columns.row(&model::Resources::new());
        let sum = |shapes: &mut dyn Iterator<Item = &'i PodShape>| {
            shapes.fold(nothing.clone(), |sum, shape| sum.plus(&columns.row(&shape.requests)))
        };
        let to_come = sum(&mut expected.into_iter())
            .minus(&sum(&mut running().filter(|pod| pod.daemon.is_some()).map(|pod| shape(pod.shape))));
        let used = sum(&mut running().map(|pod| shape(pod.shape)));
        let volumes = running().filter_map(|pod| pod.volumes).map(|at| &input.volume_sets[at as usize]);
        Self {
            index,
            node,
            host: node.labels.get(HOSTNAME).cloned().unwrap_or_else(|| node.name.as_text().clone()),
            requirements,
            free: columns.row(&node.allocatable).minus(&used).minus(&to_come.at_least_zero()),
            ports: running().flat_map(|pod| shape(pod.shape).host_ports.iter().cloned()).collect(),
            volumes: volumes.flat_map(|set| set.attachments.iter().cloned()).collect(),
            refused: BTreeSet::new(),
        }
    }

    /// The requirements of the node once a pod of the variant is on it; `None` if it does not fit.
    pub(crate) fn try_pod(
        &mut self,
        pod: &PodKind,
        id: VariantId,
        topology: &Topology<'_>,
        input: &PlanningInput,
    ) -> Option<Requirements> {
        if self.refused.contains(&id) || !topology.allows_host(id, &self.host) {
            return None;
        }
        let variant = &pod.variants[id.1];
        if !self.may_ever_hold(pod, variant, input) {
            self.refused.insert(id);
            return None;
        }
        volume_alternatives(pod, input).into_iter().find_map(|volumes| {
            let mut wanted = self.requirements.clone();
            for needed in std::iter::once(&variant.requirements).chain(volumes) {
                if wanted.first_incompatible(needed, |_| false).is_some() {
                    return None;
                }
                wanted.add_all(needed);
            }
            let wanted = topology.restrict(id, &variant.strict, &wanted)?;
            self.requirements.first_incompatible(&wanted, |_| false).is_none().then_some(wanted)
        })
    }

    /// Whether taints, volumes, ports and resources allow the variant.
    fn may_ever_hold(&self, pod: &PodKind, variant: &Variant, input: &PlanningInput) -> bool {
        variant.tolerates(&self.node.taints)
            && self.may_attach(pod, input)
            && !conflict(&variant.shape.host_ports, &self.ports)
            && pod.requests.fits_into(&self.free)
            && self.requirements.first_incompatible(&variant.requirements, |_| false).is_none()
    }

    fn may_attach(&self, pod: &PodKind, input: &PlanningInput) -> bool {
        let Some(wanted) = pod.volumes.map(|at| &input.volume_sets[at as usize].attachments) else { return true };
        let mut count: BTreeMap<&Text, i64> = BTreeMap::new();
        for (driver, _) in self.volumes.iter().chain(wanted.iter().filter(|volume| !self.volumes.contains(volume))) {
            *count.entry(driver).or_insert(0) += 1;
        }
        self.node.attach_limits.iter().all(|(driver, most)| count.get(driver).is_none_or(|count| count <= most))
    }

    pub(crate) fn accept(
        &mut self,
        pod: &PodKind,
        variant: &Variant,
        requirements: Requirements,
        input: &PlanningInput,
    ) {
        self.requirements = requirements;
        self.free = self.free.minus(&pod.requests);
        self.ports.extend(variant.shape.host_ports.iter().cloned());
        let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize].attachments);
        self.volumes.extend(volumes.into_iter().flatten().cloned());
    }
}

/// Whether a DaemonSet's pod is expected on the node, by its first required term only (L30).
fn expects(shape: &PodShape, node: &Node, labels: &Requirements) -> bool {
    let mut wanted = Requirements::from_labels(&shape.node_selector);
    if let Some(term) = shape.node_affinity.first() {
        add_expressions(&mut wanted, &term.expressions);
    }
    let tolerated = |taint| shape.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    node.taints.iter().all(tolerated) && labels.first_incompatible(&wanted, |_| false).is_none()
}
