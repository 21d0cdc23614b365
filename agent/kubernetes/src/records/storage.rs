//! PersistentVolumeClaims, PersistentVolumes and StorageClasses.

use std::collections::BTreeMap;

use agent::Record;
use fleetwright_proto::v1;
use serde::de::IgnoredAny;

use super::object::{Meta, ObjectJson, ParsedObject};
use super::shape::{NodeSelectorJson, SelectorJson, ShapeInterner, node_selector, selector};
use super::values::{Amounts, amount, json_structs, pairs};

json_structs! {
    struct VolumeClaimSpecJson {
        storage_class_name: Option<String>,
        volume_name: String,
        access_modes: Vec<String>,
        resources: RequestsJson,
        volume_mode: String,
        selector: Option<SelectorJson>,
    }

    struct RequestsJson {
        requests: Amounts,
    }

    struct PhaseJson {
        phase: String,
    }
}

pub fn parse_volume_claim(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<VolumeClaimSpecJson, PhaseJson> { metadata, spec, status } = serde_json::from_str(json)?;
    let record = v1::PersistentVolumeClaimRecord {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        storage_class: spec.storage_class_name,
        volume_name: spec.volume_name,
        phase: status.phase,
        bind_completed: metadata.annotations.contains_key("pv.kubernetes.io/bind-completed"),
        deleted_at_ms: metadata.deleted_ms(),
        access_modes: spec.access_modes,
        storage_request: amount(&spec.resources.requests, "storage"),
        volume_mode: spec.volume_mode,
        selector: spec.selector.as_ref().map(selector),
    };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::PersistentVolumeClaim(record))))
}

json_structs! {
    struct VolumeSpecJson {
        node_affinity: Option<AffinityJson>,
        csi: Option<CsiJson>,
        storage_class_name: String,
        capacity: Amounts,
        access_modes: Vec<String>,
        volume_mode: String,
        claim_ref: ClaimReferenceJson,
        aws_elastic_block_store: Option<IgnoredAny>,
        gce_persistent_disk: Option<IgnoredAny>,
        azure_disk: Option<IgnoredAny>,
        azure_file: Option<IgnoredAny>,
        local: Option<IgnoredAny>,
        host_path: Option<IgnoredAny>,
        nfs: Option<IgnoredAny>,
        iscsi: Option<IgnoredAny>,
        fc: Option<IgnoredAny>,
    }

    struct AffinityJson {
        required: NodeSelectorJson,
    }

    struct ClaimReferenceJson {
        namespace: String,
        name: String,
    }

    struct CsiJson {
        driver: String,
        volume_handle: String,
    }
}

pub fn parse_volume(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let ObjectJson::<VolumeSpecJson, PhaseJson> { metadata, spec, status } = serde_json::from_str(json)?;
    let plugin = plugin(&spec).to_owned();
    let csi = spec.csi.unwrap_or_default();
    let record = v1::PersistentVolumeRecord {
        name: metadata.name.clone(),
        node_affinity: spec.node_affinity.as_ref().map(|affinity| node_selector(&affinity.required)),
        csi_driver: csi.driver,
        volume_handle: csi.volume_handle,
        plugin,
        deleted_at_ms: metadata.deleted_ms(),
        storage_class: spec.storage_class_name,
        labels: pairs(&metadata.labels),
        capacity: amount(&spec.capacity, "storage"),
        access_modes: spec.access_modes,
        volume_mode: spec.volume_mode,
        claim_namespace: spec.claim_ref.namespace,
        claim_name: spec.claim_ref.name,
        phase: status.phase,
    };
    Ok(metadata.into_parsed(Record::plain(v1::change::Change::PersistentVolume(record))))
}

fn plugin(spec: &VolumeSpecJson) -> &'static str {
    let plugins = [
        ("awsElasticBlockStore", &spec.aws_elastic_block_store),
        ("gcePersistentDisk", &spec.gce_persistent_disk),
        ("azureDisk", &spec.azure_disk),
        ("azureFile", &spec.azure_file),
        ("local", &spec.local),
        ("hostPath", &spec.host_path),
        ("nfs", &spec.nfs),
        ("iscsi", &spec.iscsi),
        ("fc", &spec.fc),
    ];
    plugins.into_iter().find(|(_, there)| there.is_some()).map_or("", |(name, _)| name)
}

json_structs! {
    struct StorageClassJson {
        metadata: Meta,
        provisioner: String,
        volume_binding_mode: String,
        allowed_topologies: Vec<TopologyJson>,
    }

    struct TopologyJson {
        match_label_expressions: Vec<LabelExpressionJson>,
    }

    struct LabelExpressionJson {
        key: String,
        values: Vec<String>,
    }
}

pub fn parse_class(json: &str, _: &mut ShapeInterner) -> serde_json::Result<ParsedObject> {
    let class: StorageClassJson = serde_json::from_str(json)?;
    let terms: Vec<_> = class.allowed_topologies.into_iter().map(term).collect();
    let record = v1::StorageClassRecord {
        name: class.metadata.name.clone(),
        provisioner: class.provisioner,
        volume_binding_mode: class.volume_binding_mode,
        allowed_topologies: (!terms.is_empty()).then_some(v1::NodeSelector { terms }),
        is_default: is_default(&class.metadata.annotations),
        created_at_ms: class.metadata.created_ms(),
    };
    Ok(class.metadata.into_parsed(Record::plain(v1::change::Change::StorageClass(record))))
}

fn is_default(annotations: &BTreeMap<String, String>) -> bool {
    let keys = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    keys.iter().any(|key| annotations.get(*key).is_some_and(|value| value == "true"))
}

/// A topology of a StorageClass: every label has one of its listed values.
fn term(topology: TopologyJson) -> v1::NodeSelectorTerm {
    let expression =
        |one: LabelExpressionJson| v1::Expression { key: one.key, operator: "In".to_owned(), values: one.values };
    let match_expressions = topology.match_label_expressions.into_iter().map(expression).collect();
    v1::NodeSelectorTerm { match_expressions, match_fields: Vec::new() }
}
