//! Nodes and CSINodes.

use agent::Record;
use fleetwright_proto::v1;

use super::object::{ObjectJson, ParsedObject};
use super::shape::ShapeInterner;
use super::values::{Amounts, ConditionJson, TaintJson, conditions, json_structs, pairs, quantities, taints};

/// Annotations of nodes that leave the cluster, by prefix.
const ANNOTATIONS: [&str; 2] = ["karpenter.sh/", "fleetwright.dev/"];

json_structs! {
    struct SpecJson {
        #[serde(rename = "providerID")]
        provider_id: String,
        taints: Vec<TaintJson>,
        unschedulable: bool,
    }

    struct StatusJson {
        capacity: Amounts,
        allocatable: Amounts,
        conditions: Vec<ConditionJson>,
        volumes_attached: Vec<AttachedJson>,
    }

    struct AttachedJson {
        name: String,
    }
}

pub fn parse(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<SpecJson, StatusJson> { metadata, spec, status } = serde_json::from_str(json)?;
    let record = v1::NodeRecord {
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        provider_id: spec.provider_id,
        labels: pairs(&metadata.labels),
        annotations: metadata.annotations_below(&ANNOTATIONS),
        taints: taints(spec.taints),
        unschedulable: spec.unschedulable,
        capacity: quantities(&status.capacity),
        allocatable: quantities(&status.allocatable),
        conditions: conditions(status.conditions),
        created_at_ms: metadata.created_ms(),
        deleted_at_ms: metadata.deleted_ms(),
        finalizers: metadata.finalizers.clone(),
        volumes_attached: status.volumes_attached.into_iter().map(|volume| volume.name).collect(),
        problem: String::new(),
    };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::Node(Box::new(record)))))
}

json_structs! {
    struct CsiNodeSpecJson {
        drivers: Vec<CsiDriverJson>,
    }

    struct CsiDriverJson {
        name: String,
        allocatable: CsiAllocatableJson,
        topology_keys: Vec<String>,
    }

    struct CsiAllocatableJson {
        count: Option<i64>,
    }
}

pub fn parse_csi(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<CsiNodeSpecJson> { metadata, spec, .. } = serde_json::from_str(json)?;
    let driver = |driver: CsiDriverJson| v1::CsiNodeDriver {
        name: driver.name,
        attach_limit: driver.allocatable.count,
        topology_keys: driver.topology_keys,
    };
    let record =
        v1::CsiNodeRecord { name: metadata.name.clone(), drivers: spec.drivers.into_iter().map(driver).collect() };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::CsiNode(record))))
}
