use controller::cluster::{Object, Observation};
use model::labels::ZONE;
use prost::Message;

use super::super::pools::PoolReader;
use super::super::{Decoder, Limits};
use super::*;
use crate::memory::SessionMemory;
use fleetwright_proto::v1::change::Change;

fn decoder() -> Decoder {
    Decoder::new(Arc::default(), PoolReader::new(|_| Vec::new()), Limits::default(), &SessionMemory::default())
}

fn change(change: Change) -> v1::Change {
    v1::Change { change: Some(change) }
}

fn define(tag: u8, message: &impl Message) -> v1::Definition {
    v1::Definition { hash: vec![tag; 16], content: message.encode_to_vec() }
}

/// Pod `shop/db` that mounts the claim `data`, with its definitions.
fn pod_with_a_claim() -> Vec<v1::Change> {
    let source = Some(v1::volume_claim::Source::ClaimName("data".into()));
    let set = v1::VolumeClaimSet { volumes: vec![v1::VolumeClaim { volume_name: "v".into(), source }] };
    let pod = v1::PodRecord {
        namespace: "shop".into(),
        name: "db".into(),
        shape: vec![1; 16].into(),
        labels: vec![2; 16].into(),
        volume_claims: vec![3; 16].into(),
        ..v1::PodRecord::default()
    };
    vec![
        change(Change::DefinePodShape(v1::Definition { hash: vec![1; 16], content: br#"{"spec":{}}"#.to_vec() })),
        change(Change::DefineLabelSet(define(2, &v1::LabelSet::default()))),
        change(Change::DefineVolumeClaimSet(define(3, &set))),
        change(Change::Pod(Box::new(pod))),
    ]
}

fn claim(volume: &str) -> v1::Change {
    change(Change::PersistentVolumeClaim(v1::PersistentVolumeClaimRecord {
        namespace: "shop".into(),
        name: "data".into(),
        storage_class: Some("gp3".into()),
        volume_name: volume.into(),
        bind_completed: !volume.is_empty(),
        ..v1::PersistentVolumeClaimRecord::default()
    }))
}

fn class(mode: &str) -> v1::Change {
    change(Change::StorageClass(v1::StorageClassRecord {
        name: "gp3".into(),
        provisioner: "ebs.csi.aws.com".into(),
        volume_binding_mode: mode.into(),
        ..v1::StorageClassRecord::default()
    }))
}

fn volume(zone: &str) -> v1::Change {
    let expression = v1::Expression {
        key: "topology.ebs.csi.aws.com/zone".into(),
        operator: "In".into(),
        values: vec![zone.into()],
    };
    let term = v1::NodeSelectorTerm { match_expressions: vec![expression], match_fields: Vec::new() };
    change(Change::PersistentVolume(v1::PersistentVolumeRecord {
        name: "pv-1".into(),
        csi_driver: "ebs.csi.aws.com".into(),
        volume_handle: "vol-1".into(),
        node_affinity: Some(v1::NodeSelector { terms: vec![term] }),
        ..v1::PersistentVolumeRecord::default()
    }))
}

/// Volume requirements of `shop/db` after the last of these observations.
fn requirements_of(observations: Vec<Observation>) -> Option<VolumeAlternatives> {
    let pods = observations.into_iter().filter_map(|observation| match observation {
        Observation::Upsert(object) => match *object {
            Object::Pod(pod) => pod.volumes,
            _ => None,
        },
        _ => None,
    });
    pods.last().map(|volumes| VolumeAlternatives::clone(&volumes))
}

#[test]
fn a_pod_is_emitted_again_when_its_claim_class_or_volume_arrives() {
    let mut decoder = decoder();
    let mut delta = |changes: Vec<v1::Change>| requirements_of(decoder.decode_delta(changes).unwrap());
    let missing = delta(pod_with_a_claim()).and_then(|volumes| volumes.blocked);
    assert_eq!(missing.as_deref(), Some("PersistentVolumeClaim/shop/data is not in the cluster"));
    let classless = delta(vec![claim("")]).and_then(|volumes| volumes.blocked);
    let names = "PersistentVolumeClaim/shop/data names StorageClass/gp3, which is not in the cluster";
    assert_eq!(classless.as_deref(), Some(names));
    let waiting = delta(vec![class("WaitForFirstConsumer")]).unwrap();
    assert_eq!((waiting.blocked, waiting.any_of.len()), (None, 0));
    assert_eq!(waiting.attachments, [("ebs.csi.aws.com".into(), "shop/data".into())]);
    let bound = delta(vec![claim("pv-1"), volume("us-east-1a")]).unwrap();
    let zones: Vec<_> = bound.any_of.iter().filter_map(|place| place.get(ZONE)?.finite_values()).collect();
    assert_eq!((bound.blocked, zones.len()), (None, 1));
    assert!(zones[0].iter().map(Text::as_ref).eq(["us-east-1a"]));
    assert_eq!(bound.attachments, [("ebs.csi.aws.com".into(), "vol-1".into())]);
    assert_eq!(delta(vec![claim("pv-1")]), None, "nothing is different");
}

#[test]
fn an_immediately_binding_claim_keeps_its_pod_pending_until_bound() {
    let mut decoder = decoder();
    let mut changes = pod_with_a_claim();
    changes.extend([claim(""), class("Immediate")]);
    let blocked = requirements_of(decoder.decode_delta(changes).unwrap()).and_then(|volumes| volumes.blocked).unwrap();
    assert!(blocked.contains("volumeBindingMode Immediate"), "{blocked}");
}

#[test]
fn in_a_snapshot_the_order_of_pods_and_storage_does_not_matter() {
    let mut decoder = decoder();
    let mut snapshot = controller::cluster::ClusterSnapshot::default();
    for change in pod_with_a_claim().into_iter().chain([claim(""), class("WaitForFirstConsumer")]) {
        if let super::super::Decoded::Object(object) = decoder.decode_change(change).unwrap()
            && let Object::Pod(pod) = object
        {
            snapshot.pods.push(pod);
        }
    }
    decoder.complete_snapshot(&mut snapshot);
    let volumes = snapshot.pods[0].volumes.clone().unwrap();
    assert_eq!((volumes.blocked.clone(), volumes.attachments.len()), (None, 1));
}

#[test]
fn a_deleted_pod_is_not_emitted() {
    let mut decoder = decoder();
    decoder.decode_delta(pod_with_a_claim()).unwrap();
    let removal = v1::Removal { kind: v1::ObjectKind::Pod.into(), namespace: "shop".into(), name: "db".into() };
    decoder.decode_delta(vec![change(Change::Removal(removal))]).unwrap();
    assert_eq!(requirements_of(decoder.decode_delta(vec![claim("")]).unwrap()), None);
}
