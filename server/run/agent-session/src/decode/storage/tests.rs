use cluster::{Object, Observation};
use model::VolumeAlternatives;
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
    let mut snapshot = cluster::ClusterSnapshot::default();
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

/// `shop/data` of class `local`, in which nothing makes volumes, for one pod at a time.
fn local_claim(size: &str) -> v1::Change {
    change(Change::PersistentVolumeClaim(v1::PersistentVolumeClaimRecord {
        namespace: "shop".into(),
        name: "data".into(),
        storage_class: Some("local".into()),
        access_modes: vec!["ReadWriteOncePod".into()],
        storage_request: size.into(),
        ..v1::PersistentVolumeClaimRecord::default()
    }))
}

fn local_class() -> v1::Change {
    change(Change::StorageClass(v1::StorageClassRecord {
        name: "local".into(),
        provisioner: "kubernetes.io/no-provisioner".into(),
        volume_binding_mode: "WaitForFirstConsumer".into(),
        ..v1::StorageClassRecord::default()
    }))
}

/// A volume of 2Gi on the disk of node `n`.
fn local_volume(phase: &str) -> v1::Change {
    let expression =
        v1::Expression { key: "kubernetes.io/hostname".into(), operator: "In".into(), values: vec!["n".into()] };
    let term = v1::NodeSelectorTerm { match_expressions: vec![expression], match_fields: Vec::new() };
    change(Change::PersistentVolume(v1::PersistentVolumeRecord {
        name: "disk".into(),
        plugin: "local".into(),
        storage_class: "local".into(),
        capacity: "2Gi".into(),
        access_modes: vec!["ReadWriteOncePod".into()],
        node_affinity: Some(v1::NodeSelector { terms: vec![term] }),
        phase: phase.into(),
        ..v1::PersistentVolumeRecord::default()
    }))
}

fn node(name: &str) -> v1::Change {
    change(Change::Node(Box::new(v1::NodeRecord { name: name.into(), ..v1::NodeRecord::default() })))
}

fn csi_node(driver: &str) -> v1::Change {
    let drivers = vec![v1::CsiNodeDriver { name: driver.into(), attach_limit: Some(25), topology_keys: Vec::new() }];
    change(Change::CsiNode(v1::CsiNodeRecord { name: "n".into(), drivers }))
}

/// The attach limits of node `n` after the last of these observations; `None` if none is about them.
fn limits_of(observations: &[Observation]) -> Option<Vec<(String, i64)>> {
    let mut limits = observations.iter().filter_map(|observation| match observation {
        Observation::Upsert(object) => match &**object {
            Object::Attach(attach) if attach.node.as_ref() == "n" => Some(attach.limits.clone()),
            _ => None,
        },
        Observation::Delete(cluster::Key::Attach(node)) if node.as_ref() == "n" => Some(Vec::new()),
        _ => None,
    });
    let last = limits.next_back()?;
    Some(last.into_iter().map(|(driver, limit)| (driver.to_string(), limit)).collect())
}

#[test]
fn a_claim_without_a_provisioner_needs_a_free_volume() {
    let mut decoder = decoder();
    let mut changes = pod_with_a_claim();
    changes.extend([local_claim("1Gi"), local_class(), node("n")]);
    let none = requirements_of(decoder.decode_delta(changes).unwrap()).unwrap();
    assert!(none.blocked.unwrap().contains("needs a free PersistentVolume of 1Gi or more"));
    assert_eq!(none.exclusive_claims, [Text::from("shop/data")]);
    let free = requirements_of(decoder.decode_delta(vec![local_volume("Available")]).unwrap()).unwrap();
    assert_eq!((free.blocked, free.any_of.len()), (None, 1));
    assert!(free.any_of[0].get(HOSTNAME).is_some_and(|hosts| hosts.has("n") && !hosts.has("m")));
    // Bound to another claim, or too small for this one.
    let bound = requirements_of(decoder.decode_delta(vec![local_volume("Bound")]).unwrap()).unwrap();
    assert!(bound.blocked.is_some());
    decoder.decode_delta(vec![local_volume("Available")]).unwrap();
    let large = requirements_of(decoder.decode_delta(vec![local_claim("4Gi")]).unwrap()).unwrap();
    assert!(large.blocked.is_some());
}

#[test]
fn free_volumes_on_the_disk_of_a_node_are_limits_beside_those_of_its_drivers() {
    let mut decoder = decoder();
    let mut delta = |changes: Vec<v1::Change>| limits_of(&decoder.decode_delta(changes).unwrap());
    let (csi, local) =
        (("ebs.csi.aws.com".to_owned(), 25), ("StorageClass/local (free volumes, 2Gi or more)".to_owned(), 1));
    assert_eq!(delta(vec![node("n"), csi_node("ebs.csi.aws.com")]), Some(vec![csi.clone()]));
    let both = Some(vec![csi.clone(), local.clone()]);
    assert_eq!(delta(vec![local_class(), local_volume("Available")]), both);
    assert_eq!(delta(vec![csi_node("ebs.csi.aws.com")]), both);
    assert_eq!(delta(vec![local_volume("Bound")]), Some(vec![csi]));
    assert_eq!(delta(vec![claim("")]), None, "nothing is different");
    let gone = v1::Removal { kind: v1::ObjectKind::CsiNode.into(), namespace: String::new(), name: "n".into() };
    assert_eq!(delta(vec![change(Change::Removal(gone))]), Some(Vec::new()));
    assert_eq!(delta(vec![local_volume("Available")]), Some(vec![local]));
    let gone = v1::Removal { kind: v1::ObjectKind::Node.into(), namespace: String::new(), name: "n".into() };
    assert_eq!(delta(vec![change(Change::Removal(gone))]), Some(Vec::new()));
}

#[test]
fn a_pod_names_its_volumes_on_the_disk_of_its_node() {
    let mut decoder = decoder();
    // The names after the last of the observations; `None` if none is about the pod.
    let mut delta = |changes: Vec<v1::Change>| {
        let pods = decoder.decode_delta(changes).unwrap().into_iter().filter_map(|observation| match observation {
            Observation::Upsert(object) => match *object {
                Object::Pod(pod) => Some(pod.local_volumes.to_vec()),
                _ => None,
            },
            _ => None,
        });
        pods.last()
    };
    let mut changes = pod_with_a_claim();
    changes.extend([claim("disk"), node("n")]);
    assert_eq!(delta(changes), Some(Vec::new()), "the volume is not known yet");
    assert_eq!(delta(vec![local_volume("Bound")]), Some(vec![Text::from("disk")]));
    // A volume of a zone is on no disk.
    assert_eq!(delta(vec![claim("pv-1"), volume("us-east-1a")]), Some(Vec::new()));
}

#[test]
fn an_ephemeral_claim_does_not_bind_the_pod_that_is_made_in_place_of_a_running_one() {
    let source = Some(v1::volume_claim::Source::EphemeralStorageClass("gp3".into()));
    let set = v1::VolumeClaimSet { volumes: vec![v1::VolumeClaim { volume_name: "v".into(), source }] };
    let zones = |node: &str| {
        let mut decoder = decoder();
        let mut changes = pod_with_a_claim();
        changes[2] = change(Change::DefineVolumeClaimSet(define(3, &set)));
        if let Some(Change::Pod(pod)) = &mut changes[3].change {
            pod.node_name = node.into();
        }
        let bound = v1::PersistentVolumeClaimRecord {
            namespace: "shop".into(),
            name: "db-v".into(),
            storage_class: Some("gp3".into()),
            volume_name: "pv-1".into(),
            bind_completed: true,
            ..v1::PersistentVolumeClaimRecord::default()
        };
        changes.extend([
            change(Change::PersistentVolumeClaim(bound)),
            class("WaitForFirstConsumer"),
            volume("us-east-1a"),
        ]);
        let needs = requirements_of(decoder.decode_delta(changes).unwrap()).unwrap();
        (needs.any_of.len(), needs.blocked)
    };
    assert_eq!(zones(""), (1, None), "a pod that waits goes to the zone of its volume");
    assert_eq!(zones("n-1"), (0, None), "the claim of a running pod goes with it");
}
