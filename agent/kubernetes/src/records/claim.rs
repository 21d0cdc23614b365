//! NodeClaims.

use agent::Record;
use fleetwright_proto::v1;

use super::object::{ObjectJson, ParsedObject};
use super::shape::ShapeInterner;
use super::values::{Amounts, ConditionJson, TaintJson, conditions, json_structs, pairs, quantities, taints};
use crate::timestamps::parse_millis;

/// Annotations of NodeClaims that leave the cluster, by prefix.
const ANNOTATIONS: [&str; 3] = ["karpenter.sh/", "karpenter.k8s.aws/", "fleetwright.dev/"];

json_structs! {
    struct SpecJson {
        node_class_ref: NodeClassJson,
        requirements: Vec<RequirementJson>,
        taints: Vec<TaintJson>,
        startup_taints: Vec<TaintJson>,
        resources: ResourcesJson,
        termination_grace_period: String,
        expire_after: String,
    }

    struct NodeClassJson {
        group: String,
        kind: String,
        name: String,
    }

    struct RequirementJson {
        key: String,
        operator: String,
        values: Vec<String>,
        min_values: Option<u32>,
    }

    struct ResourcesJson {
        requests: Amounts,
    }

    struct StatusJson {
        #[serde(rename = "providerID")]
        provider_id: String,
        node_name: String,
        #[serde(rename = "imageID")]
        image_id: String,
        capacity: Amounts,
        allocatable: Amounts,
        conditions: Vec<ConditionJson>,
        last_pod_event_time: Option<String>,
    }
}

pub fn parse(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<SpecJson, StatusJson> { metadata, spec, status } = serde_json::from_str(json)?;
    let owner = metadata.owner_references.iter().find(|owner| owner.kind == "NodePool");
    let record = v1::NodeClaimRecord {
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        labels: pairs(&metadata.labels),
        annotations: metadata.annotations_below(&ANNOTATIONS),
        node_class: Some(v1::NodeClassReference {
            group: spec.node_class_ref.group,
            kind: spec.node_class_ref.kind,
            name: spec.node_class_ref.name,
        }),
        requirements: spec.requirements.into_iter().map(requirement).collect(),
        taints: taints(spec.taints),
        startup_taints: taints(spec.startup_taints),
        requests: quantities(&spec.resources.requests),
        termination_grace_period: spec.termination_grace_period,
        expire_after: spec.expire_after,
        provider_id: status.provider_id,
        node_name: status.node_name,
        image_id: status.image_id,
        capacity: quantities(&status.capacity),
        allocatable: quantities(&status.allocatable),
        conditions: conditions(status.conditions),
        last_pod_event_ms: parse_millis(status.last_pod_event_time.as_deref()),
        created_at_ms: metadata.created_ms(),
        deleted_at_ms: metadata.deleted_ms(),
        finalizers: metadata.finalizers.clone(),
        owner: owner.map(v1::Owner::from),
        problem: String::new(),
    };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::NodeClaim(Box::new(record)))))
}

fn requirement(requirement: RequirementJson) -> v1::ClaimRequirement {
    v1::ClaimRequirement {
        key: requirement.key,
        operator: requirement.operator,
        values: requirement.values,
        min_values: requirement.min_values,
    }
}
