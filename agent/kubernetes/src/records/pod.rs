//! Pods and DaemonSets.

use agent::Record;
use fleetwright_proto::v1;
use serde::Deserialize;

use super::object::{Meta, ObjectJson, ParsedObject};
use super::shape::{ContainerStatusJson, ResizeJson, ShapeInterner, SpecJson, resize, volumes};
use super::values::{ConditionJson, json_structs};
use crate::timestamps::parse_millis;

/// The annotation of a pod that the kubelet made of a file.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Field manager of nominations in `metadata.managedFields`: distinguishes them from the
/// scheduler's own, also after a restart of the agent.
pub(crate) const NOMINATION_MANAGER: &str = "fleetwright-agent-nominations";

/// Annotations of pods that are sent: by prefix, the pod deletion cost, and the mirror annotation
/// of static pods.
const ANNOTATIONS: [&str; 4] =
    ["karpenter.sh/", "fleetwright.dev/", "controller.kubernetes.io/pod-deletion-cost", MIRROR];

pub(crate) type PodJson = ObjectJson<SpecJson, StatusJson>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatusJson {
    pub(crate) phase: String,
    pub(crate) start_time: Option<String>,
    pub(crate) nominated_node_name: String,
    conditions: Vec<ConditionJson>,
    resize: String,
    container_statuses: Vec<ContainerStatusJson>,
    init_container_statuses: Vec<ContainerStatusJson>,
}

impl StatusJson {
    fn condition(&self, kind: &str) -> Option<&ConditionJson> {
        self.conditions.iter().find(|condition| condition.r#type == kind)
    }

    /// Whether the node cannot grant a resize: a status field until Kubernetes 1.33, a condition
    /// since.
    fn resize_is_infeasible(&self) -> bool {
        let pending = self.condition("PodResizePending");
        self.resize == "Infeasible" || pending.is_some_and(|condition| condition.reason == "Infeasible")
    }
}

pub fn parse(json: &str, shared: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let PodJson { metadata, mut spec, status } = serde_json::from_str(json)?;
    if metadata.owner_references.iter().any(|owner| owner.controller && owner.kind == "DaemonSet") {
        // The DaemonSet controller pins each pod to its node: without that they share one shape.
        spec.unpin();
    }
    let infeasible = status.resize_is_infeasible();
    let resize = resize(&spec, &status.container_statuses, &status.init_container_statuses, infeasible);
    let record_change = Record::Pod {
        shape: shared.shape(&spec, resize)?,
        labels: shared.labels(&metadata.labels),
        volume_claims: volumes(&spec.volumes),
        record: Box::new(v1::PodRecord {
            termination_grace_seconds: spec.termination_grace_period_seconds,
            ..record(&metadata, spec.node_name, &status)
        }),
    };
    Ok(metadata.into_parsed(record_change))
}

fn record(metadata: &Meta, node_name: String, status: &StatusJson) -> v1::PodRecord {
    let nominated = status.nominated_node_name.clone();
    let hinted = metadata.managed_fields.iter().any(|manager| manager.manager == NOMINATION_MANAGER);
    v1::PodRecord {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        node_name,
        phase: phase(&status.phase).into(),
        created_at_ms: metadata.created_ms(),
        deleted_at_ms: metadata.deleted_ms(),
        scheduled_reason: status.condition("PodScheduled").map(|one| one.reason.clone()).unwrap_or_default(),
        nominated_by_agent: !nominated.is_empty() && hinted,
        nominated_node_name: nominated,
        owner: metadata.owner_references.iter().find(|owner| owner.controller).map(v1::Owner::from),
        annotations: metadata.annotations_below(&ANNOTATIONS),
        started_at_ms: parse_millis(status.start_time.as_deref()),
        ready: status.condition("Ready").is_some_and(|condition| condition.status == "True"),
        ..v1::PodRecord::default()
    }
}

fn phase(phase: &str) -> v1::PodPhase {
    match phase {
        "Pending" => v1::PodPhase::Pending,
        "Running" => v1::PodPhase::Running,
        "Succeeded" => v1::PodPhase::Succeeded,
        "Failed" => v1::PodPhase::Failed,
        _ => v1::PodPhase::Unspecified,
    }
}

json_structs! {
    struct DaemonSetSpecJson {
        template: TemplateJson,
    }

    struct TemplateJson {
        metadata: Meta,
        spec: SpecJson,
    }
}

pub fn parse_daemon_set(json: &str, shared: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<DaemonSetSpecJson> { metadata, spec: DaemonSetSpecJson { template }, .. } =
        serde_json::from_str(json)?;
    let record = v1::DaemonSetRecord {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        ..v1::DaemonSetRecord::default()
    };
    let record_change = Record::DaemonSet {
        record,
        shape: shared.shape(&template.spec, ResizeJson::default())?,
        labels: shared.labels(&template.metadata.labels),
    };
    Ok(metadata.into_parsed(record_change))
}
