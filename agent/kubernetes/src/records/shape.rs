//! Contents that pods may share: the part of their spec that scheduling uses, and their labels.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use agent::intern::{HASH_BYTES, content_hash};
use fleetwright_proto::v1;
use prost::Message;
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::{Amounts, pairs, quantities};

/// Entries beyond twice the living ones after which the dead are swept out.
const SWEEP_SLACK: usize = 1_000;

/// Equal shapes and equal label sets are held once.
#[derive(Debug, Default)]
pub struct ShapeInterner {
    shapes: WeakInterner<v1::PodShape>,
    labels: WeakInterner<v1::LabelSet>,
}

#[derive(Debug)]
struct WeakInterner<T> {
    known: FxHashMap<[u8; HASH_BYTES], Weak<T>>,
    sweep_at: usize,
}

impl<T> Default for WeakInterner<T> {
    fn default() -> Self {
        Self { known: FxHashMap::default(), sweep_at: SWEEP_SLACK }
    }
}

impl<T: Message> WeakInterner<T> {
    fn intern(&mut self, value: T) -> Arc<T> {
        let hash = content_hash(&value.encode_to_vec());
        if let Some(known) = self.known.get(&hash).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, held| held.strong_count() > 0);
            self.sweep_at = 2 * self.known.len() + SWEEP_SLACK;
        }
        let value = Arc::new(value);
        self.known.insert(hash, Arc::downgrade(&value));
        value
    }
}

impl ShapeInterner {
    pub(super) fn shape(&mut self, shape: v1::PodShape) -> Arc<v1::PodShape> {
        self.shapes.intern(shape)
    }

    pub(super) fn labels(&mut self, labels: &BTreeMap<String, String>) -> Arc<v1::LabelSet> {
        self.labels.intern(v1::LabelSet { labels: pairs(labels) })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SpecJson {
    pub(crate) node_name: String,
    pub(crate) priority_class_name: String,
    pub(crate) termination_grace_period_seconds: Option<i64>,
    pub(crate) tolerations: Vec<TolerationJson>,
    pub(crate) volumes: Vec<VolumeJson>,
    containers: Vec<ContainerJson>,
    init_containers: Vec<ContainerJson>,
    resources: Option<ResourcesJson>,
    overhead: Amounts,
    node_selector: BTreeMap<String, String>,
    affinity: Option<AffinityJson>,
    topology_spread_constraints: Vec<SpreadJson>,
    priority: i32,
    preemption_policy: String,
    scheduler_name: String,
    scheduling_gates: Vec<NamedJson>,
    host_network: bool,
    runtime_class_name: String,
    resource_claims: Vec<NamedJson>,
    os: NamedJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedJson {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerJson {
    name: String,
    resources: ResourcesJson,
    ports: Vec<PortJson>,
    restart_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourcesJson {
    requests: Amounts,
    limits: Amounts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortJson {
    host_port: u32,
    #[serde(rename = "hostIP")]
    host_ip: String,
    protocol: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TolerationJson {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) value: String,
    pub(crate) effect: String,
    pub(crate) toleration_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpreadJson {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<SelectorJson>,
    min_domains: Option<i32>,
    node_affinity_policy: String,
    node_taints_policy: String,
    match_label_keys: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityJson {
    node_affinity: NodeAffinityJson,
    pod_affinity: PodAffinityJson,
    pod_anti_affinity: PodAffinityJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinityJson {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelectorJson>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<PreferredNodeJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodAffinityJson {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<PodTermJson>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<PreferredPodJson>,
}

/// `nodeSelectorTerms`, as pods and PersistentVolumes have them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeSelectorJson {
    node_selector_terms: Vec<NodeTermJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeTermJson {
    match_expressions: Vec<ExpressionJson>,
    match_fields: Vec<ExpressionJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PreferredNodeJson {
    weight: i32,
    preference: NodeTermJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PreferredPodJson {
    weight: i32,
    pod_affinity_term: PodTermJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodTermJson {
    topology_key: String,
    label_selector: Option<SelectorJson>,
    namespaces: Vec<String>,
    namespace_selector: Option<SelectorJson>,
    match_label_keys: Vec<String>,
    mismatch_label_keys: Vec<String>,
}

/// A selector on labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SelectorJson {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<ExpressionJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionJson {
    key: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VolumeJson {
    pub(crate) name: String,
    pub(crate) persistent_volume_claim: Option<ClaimNameJson>,
    pub(crate) ephemeral: Option<EphemeralJson>,
    pub(crate) csi: Option<DriverJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimNameJson {
    pub(crate) claim_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EphemeralJson {
    volume_claim_template: TemplateJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateJson {
    spec: TemplateSpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TemplateSpecJson {
    storage_class_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DriverJson {
    driver: String,
}

/// Resources allocated to a container and in use by it, beside its requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerStatusJson {
    name: String,
    allocated_resources: Amounts,
    resources: ResourcesJson,
}

/// What a pod's status adds to its shape.
#[derive(Debug, Default)]
pub(super) struct Resizing<'s> {
    pub(super) containers: &'s [ContainerStatusJson],
    pub(super) init_containers: &'s [ContainerStatusJson],
    pub(super) infeasible: bool,
}

pub(super) fn shape(spec: &SpecJson, resizing: &Resizing<'_>) -> v1::PodShape {
    let list = |containers: &[ContainerJson], statuses: &[ContainerStatusJson]| {
        containers.iter().map(|one| container(one, statuses.iter().find(|status| status.name == one.name))).collect()
    };
    v1::PodShape {
        containers: list(&spec.containers, resizing.containers),
        init_containers: list(&spec.init_containers, resizing.init_containers),
        resources: spec.resources.as_ref().map(requirements),
        overhead: quantities(&spec.overhead),
        node_selector: pairs(&spec.node_selector),
        affinity: spec.affinity.as_ref().map(affinity),
        tolerations: spec.tolerations.iter().map(toleration).collect(),
        topology_spread_constraints: spec.topology_spread_constraints.iter().map(spread).collect(),
        priority: spec.priority,
        priority_class_name: spec.priority_class_name.clone(),
        preemption_policy: spec.preemption_policy.clone(),
        scheduler_name: spec.scheduler_name.clone(),
        scheduling_gates: names(&spec.scheduling_gates),
        host_network: spec.host_network,
        runtime_class_name: spec.runtime_class_name.clone(),
        resource_claims: names(&spec.resource_claims),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        resize_infeasible: resizing.infeasible,
        os: spec.os.name.clone(),
    }
}

/// The volumes that scheduling uses; `None` without any.
pub(super) fn volumes(volumes: &[VolumeJson]) -> Option<v1::VolumeClaimSet> {
    use v1::volume_claim::Source;
    let source = |volume: &VolumeJson| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(Source::ClaimName(claim.claim_name.clone()));
        }
        if let Some(ephemeral) = &volume.ephemeral {
            let class = &ephemeral.volume_claim_template.spec.storage_class_name;
            return Some(Source::EphemeralStorageClass(class.clone()));
        }
        volume.csi.as_ref().map(|csi| Source::CsiDriver(csi.driver.clone()))
    };
    let claim =
        |volume: &VolumeJson| Some(v1::VolumeClaim { volume_name: volume.name.clone(), source: Some(source(volume)?) });
    let volumes: Vec<_> = volumes.iter().filter_map(claim).collect();
    (!volumes.is_empty()).then_some(v1::VolumeClaimSet { volumes })
}

pub(super) fn selector(selector: &SelectorJson) -> v1::LabelSelector {
    v1::LabelSelector {
        match_labels: pairs(&selector.match_labels),
        match_expressions: expressions(&selector.match_expressions),
    }
}

pub(super) fn node_selector(selector: &NodeSelectorJson) -> v1::NodeSelector {
    v1::NodeSelector { terms: selector.node_selector_terms.iter().map(node_term).collect() }
}

fn container(container: &ContainerJson, status: Option<&ContainerStatusJson>) -> v1::Container {
    let requests = &container.resources.requests;
    let other = |amounts: &Amounts| if amounts == requests { Vec::new() } else { quantities(amounts) };
    let port = |port: &PortJson| v1::HostPort {
        host_ip: port.host_ip.clone(),
        protocol: port.protocol.clone(),
        host_port: port.host_port,
    };
    v1::Container {
        name: container.name.clone(),
        resources: Some(requirements(&container.resources)),
        host_ports: container.ports.iter().filter(|port| port.host_port != 0).map(port).collect(),
        restart_policy: container.restart_policy.clone(),
        allocated: status.map(|status| other(&status.allocated_resources)).unwrap_or_default(),
        actuated: status.map(|status| other(&status.resources.requests)).unwrap_or_default(),
    }
}

fn requirements(resources: &ResourcesJson) -> v1::ResourceRequirements {
    v1::ResourceRequirements { requests: quantities(&resources.requests), limits: quantities(&resources.limits) }
}

fn toleration(toleration: &TolerationJson) -> v1::Toleration {
    v1::Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.clone(),
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
        toleration_seconds: toleration.toleration_seconds,
    }
}

fn spread(spread: &SpreadJson) -> v1::TopologySpreadConstraint {
    v1::TopologySpreadConstraint {
        max_skew: spread.max_skew,
        topology_key: spread.topology_key.clone(),
        when_unsatisfiable: spread.when_unsatisfiable.clone(),
        selector: spread.label_selector.as_ref().map(selector),
        min_domains: spread.min_domains,
        node_affinity_policy: spread.node_affinity_policy.clone(),
        node_taints_policy: spread.node_taints_policy.clone(),
        match_label_keys: spread.match_label_keys.clone(),
    }
}

fn affinity(affinity: &AffinityJson) -> v1::Affinity {
    let node = &affinity.node_affinity;
    let preferred_node =
        |one: &PreferredNodeJson| v1::PreferredNodeTerm { weight: one.weight, term: Some(node_term(&one.preference)) };
    let preferred_pod = |one: &PreferredPodJson| v1::PreferredPodTerm {
        weight: one.weight,
        term: Some(pod_term(&one.pod_affinity_term)),
    };
    let (with, without) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
    v1::Affinity {
        required_node_affinity: node.required.as_ref().map(node_selector),
        preferred_node_affinity: node.preferred.iter().map(preferred_node).collect(),
        required_pod_affinity: with.required.iter().map(pod_term).collect(),
        preferred_pod_affinity: with.preferred.iter().map(preferred_pod).collect(),
        required_pod_anti_affinity: without.required.iter().map(pod_term).collect(),
        preferred_pod_anti_affinity: without.preferred.iter().map(preferred_pod).collect(),
    }
}

fn pod_term(term: &PodTermJson) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        topology_key: term.topology_key.clone(),
        selector: term.label_selector.as_ref().map(selector),
        namespaces: term.namespaces.clone(),
        namespace_selector: term.namespace_selector.as_ref().map(selector),
        match_label_keys: term.match_label_keys.clone(),
        mismatch_label_keys: term.mismatch_label_keys.clone(),
    }
}

fn node_term(term: &NodeTermJson) -> v1::NodeSelectorTerm {
    v1::NodeSelectorTerm {
        match_expressions: expressions(&term.match_expressions),
        match_fields: expressions(&term.match_fields),
    }
}

fn expressions(expressions: &[ExpressionJson]) -> Vec<v1::Expression> {
    let expression = |one: &ExpressionJson| v1::Expression {
        key: one.key.clone(),
        operator: one.operator.clone(),
        values: one.values.clone(),
    };
    expressions.iter().map(expression).collect()
}

fn names(named: &[NamedJson]) -> Vec<String> {
    named.iter().map(|one| one.name.clone()).collect()
}
