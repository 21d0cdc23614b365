//! Contents that pods may share: the part of their spec that scheduling uses, and their labels.
//!
//! A shape leaves the cluster as JSON, which is written from the parsed structures: a field that
//! has no place here is in no shape.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use agent::intern::{HASH_BYTES, content_hash};
use fleetwright_proto::v1;
use prost::Message;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize};

use super::values::{Amounts, pairs};

/// Entries beyond twice the living ones after which the dead are swept out.
const SWEEP_SLACK: usize = 1_000;

/// Equal shapes and equal label sets are held once.
#[derive(Debug, Default)]
pub struct ShapeInterner {
    shapes: WeakInterner<str>,
    labels: WeakInterner<v1::LabelSet>,
}

#[derive(Debug)]
struct WeakInterner<T: ?Sized> {
    known: FxHashMap<[u8; HASH_BYTES], Weak<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for WeakInterner<T> {
    fn default() -> Self {
        Self { known: FxHashMap::default(), sweep_at: SWEEP_SLACK }
    }
}

impl<T: ?Sized> WeakInterner<T> {
    /// The value with this content; `new` makes it when it is not held.
    fn intern(&mut self, content: &[u8], new: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let hash = content_hash(content);
        if let Some(known) = self.known.get(&hash).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, held| held.strong_count() > 0);
            self.sweep_at = 2 * self.known.len() + SWEEP_SLACK;
        }
        let value = new();
        self.known.insert(hash, Arc::downgrade(&value));
        value
    }
}

impl ShapeInterner {
    /// The shape of pods with this spec, as [`v1::Definition`] defines it.
    pub(super) fn shape(&mut self, spec: &SpecJson, status: ResizeJson) -> serde_json::Result<Arc<str>> {
        let json = serde_json::to_string(&ShapeJson { spec, status })?;
        Ok(self.shapes.intern(json.as_bytes(), || Arc::from(json.as_str())))
    }

    pub(super) fn labels(&mut self, labels: &BTreeMap<String, String>) -> Arc<v1::LabelSet> {
        let set = v1::LabelSet { labels: pairs(labels) };
        self.labels.intern(&set.encode_to_vec(), || Arc::new(set))
    }
}

impl SpecJson {
    pub(super) fn unpin(&mut self) {
        if let Some(affinity) = &mut self.affinity {
            affinity.node_affinity.required = None;
        }
        self.affinity.take_if(|affinity| *affinity == AffinityJson::default());
    }
}

/// The spec in a shape of [`ShapeInterner::shape`].
pub(crate) fn parse_spec(shape: &str) -> serde_json::Result<SpecJson> {
    #[derive(Deserialize)]
    struct Shape {
        spec: SpecJson,
    }
    serde_json::from_str::<Shape>(shape).map(|shape| shape.spec)
}

#[derive(Serialize)]
struct ShapeJson<'s> {
    spec: &'s SpecJson,
    #[serde(skip_serializing_if = "is_default")]
    status: ResizeJson,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares structures whose fields leave the cluster, except those marked with `skip_serializing`.
/// A field with its default value is omitted and the others have a fixed order: equal specs are
/// equal texts.
macro_rules! sent {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $kind:ty,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
        #[serde(default, rename_all = "camelCase")]
        $visibility struct $name {
            $(
                $(#[$field_attribute])*
                #[serde(skip_serializing_if = "is_default")]
                $field_visibility $field: $kind,
            )*
        }
    )*};
}

sent! {
    pub(crate) struct SpecJson {
        #[serde(skip_serializing)]
        pub(crate) node_name: String,
        #[serde(skip_serializing)]
        pub(crate) volumes: Vec<VolumeJson>,
        pub(crate) priority_class_name: String,
        pub(crate) termination_grace_period_seconds: Option<i64>,
        pub(crate) tolerations: Vec<TolerationJson>,
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

    struct NamedJson {
        name: String,
    }

    struct ContainerJson {
        name: String,
        resources: ResourcesJson,
        #[serde(deserialize_with = "host_ports")]
        ports: Vec<PortJson>,
        restart_policy: String,
    }

    pub(super) struct ResourcesJson {
        requests: Amounts,
        limits: Amounts,
    }

    struct PortJson {
        container_port: u32,
        host_port: u32,
        #[serde(rename = "hostIP")]
        host_ip: String,
        protocol: String,
    }

    pub(crate) struct TolerationJson {
        pub(crate) key: String,
        pub(crate) operator: String,
        pub(crate) value: String,
        pub(crate) effect: String,
        pub(crate) toleration_seconds: Option<i64>,
    }

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

    struct AffinityJson {
        node_affinity: NodeAffinityJson,
        pod_affinity: PodAffinityJson,
        pod_anti_affinity: PodAffinityJson,
    }

    struct NodeAffinityJson {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Option<NodeSelectorJson>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<PreferredNodeJson>,
    }

    struct PodAffinityJson {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Vec<PodTermJson>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<PreferredPodJson>,
    }

    /// `nodeSelectorTerms`, as pods and PersistentVolumes have them.
    pub(super) struct NodeSelectorJson {
        node_selector_terms: Vec<NodeTermJson>,
    }

    struct NodeTermJson {
        match_expressions: Vec<ExpressionJson>,
        match_fields: Vec<ExpressionJson>,
    }

    struct PreferredNodeJson {
        weight: i32,
        // An empty term is allowed and an absent one is not.
        preference: Option<NodeTermJson>,
    }

    struct PreferredPodJson {
        weight: i32,
        pod_affinity_term: PodTermJson,
    }

    struct PodTermJson {
        topology_key: String,
        label_selector: Option<SelectorJson>,
        namespaces: Vec<String>,
        namespace_selector: Option<SelectorJson>,
        match_label_keys: Vec<String>,
        mismatch_label_keys: Vec<String>,
    }

    /// A selector on labels. An absent one selects nothing, an empty one everything.
    pub(super) struct SelectorJson {
        match_labels: BTreeMap<String, String>,
        match_expressions: Vec<ExpressionJson>,
    }

    struct ExpressionJson {
        key: String,
        operator: String,
        values: Vec<String>,
    }

    /// What an in-place resize adds to a shape: `status.resize`, and resources that differ from the
    /// requests.
    pub(super) struct ResizeJson {
        container_statuses: Vec<ContainerStatusJson>,
        init_container_statuses: Vec<ContainerStatusJson>,
        resize: String,
    }

    /// Resources allocated to a container and in use by it, beside its requests.
    pub(super) struct ContainerStatusJson {
        name: String,
        allocated_resources: Amounts,
        resources: ResourcesJson,
    }
}

/// Ports that name a host port. The container's own port does not leave the cluster: a manifest
/// requires one, and the host port takes its place.
fn host_ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PortJson>, D::Error> {
    let mut ports = Vec::<PortJson>::deserialize(deserializer)?;
    ports.retain(|port| port.host_port != 0);
    ports.iter_mut().for_each(|port| port.container_port = port.host_port);
    Ok(ports)
}

/// The resize of a pod, from the statuses of its containers and whether its node refuses it.
pub(super) fn resize(
    spec: &SpecJson,
    statuses: &[ContainerStatusJson],
    init_statuses: &[ContainerStatusJson],
    infeasible: bool,
) -> ResizeJson {
    ResizeJson {
        container_statuses: differing(&spec.containers, statuses),
        init_container_statuses: differing(&spec.init_containers, init_statuses),
        resize: if infeasible { "Infeasible".to_owned() } else { String::new() },
    }
}

/// The resources of the statuses that differ from the requests, in the order of the containers.
fn differing(containers: &[ContainerJson], statuses: &[ContainerStatusJson]) -> Vec<ContainerStatusJson> {
    let of_one = |container: &ContainerJson| {
        let status = statuses.iter().find(|status| status.name == container.name)?;
        let other = |amounts: &Amounts| {
            if *amounts == container.resources.requests { Amounts::new() } else { amounts.clone() }
        };
        let allocated_resources = other(&status.allocated_resources);
        let resources = ResourcesJson { requests: other(&status.resources.requests), ..ResourcesJson::default() };
        let differs = !allocated_resources.is_empty() || !resources.requests.is_empty();
        differs.then(|| ContainerStatusJson { name: container.name.clone(), allocated_resources, resources })
    };
    containers.iter().filter_map(of_one).collect()
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VolumeJson {
    pub(crate) name: String,
    pub(crate) persistent_volume_claim: Option<ClaimNameJson>,
    pub(crate) ephemeral: Option<EphemeralJson>,
    pub(crate) csi: Option<DriverJson>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimNameJson {
    pub(crate) claim_name: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EphemeralJson {
    volume_claim_template: TemplateJson,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct TemplateJson {
    spec: TemplateSpecJson,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TemplateSpecJson {
    storage_class_name: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DriverJson {
    driver: String,
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
