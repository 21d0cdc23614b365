//! Memory estimate of a decoded change, from its wire size. Derived from the type layouts of a
//! 64-bit process, on the high side: 16 bytes per allocation, 16 more per shared string, two slots
//! per entry of a growing map.

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use prost::Message;

/// Hash and pointer of a definition in a map, and the allocation behind it.
const DEFINITION: u64 = 160;
/// A B-tree node holds eleven pairs of 16-byte pointers; a set with a single label has one node
/// too.
const TREE: u64 = 420;
/// Each label beyond the first: two strings with counters and allocations, and half a tree slot.
const LABEL: u64 = 160;
/// Decoded pod shape, fixed and per wire byte: requirements, tolerations and resources of one
/// container.
const SHAPE: (u64, u64) = (2_048, 12);
/// Pod, fixed and per wire byte: its record in the snapshot and in the volume index, its names, its
/// map entries.
const POD: (u64, u64) = (1_024, 2);
/// Any other object, fixed and per wire byte: labels and resources are trees of strings.
const OBJECT: (u64, u64) = (1_024, 8);
/// Manifest, fixed and per wire byte: stored as bytes and as parsed.
const MANIFEST: (u64, u64) = (4_096, 4);

/// Memory cost of a change, and the object that it is accounted under.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemoryCost<'c> {
    Nothing,
    /// Definition that records refer to by hash.
    Definition(u64),
    Object {
        kind: v1::ObjectKind,
        namespace: &'c str,
        name: &'c str,
        bytes: u64,
    },
    Removed {
        kind: v1::ObjectKind,
        namespace: &'c str,
        name: &'c str,
    },
}

/// Cost of `change`.
pub(super) fn of(change: &Change) -> MemoryCost<'_> {
    use v1::ObjectKind as Kind;
    match change {
        Change::DefinePodShape(definition) => {
            MemoryCost::Definition(DEFINITION + SHAPE.0 + SHAPE.1 * definition.content.len() as u64)
        }
        Change::DefineLabelSet(definition) | Change::DefineVolumeClaimSet(definition) => {
            MemoryCost::Definition(DEFINITION + set(&definition.content))
        }
        Change::Pod(pod) => object(Kind::Pod, &pod.namespace, &pod.name, POD, pod.encoded_len()),
        Change::Node(node) => object(Kind::Node, "", &node.name, OBJECT, node.encoded_len()),
        Change::NodeClaim(claim) => object(Kind::NodeClaim, "", &claim.name, OBJECT, claim.encoded_len()),
        Change::Manifest(manifest) => object(manifest.kind(), "", &manifest.name, MANIFEST, manifest.encoded_len()),
        Change::DaemonSet(daemon) => {
            object(Kind::DaemonSet, &daemon.namespace, &daemon.name, OBJECT, daemon.encoded_len())
        }
        Change::Namespace(namespace) => object(Kind::Namespace, "", &namespace.name, OBJECT, namespace.encoded_len()),
        Change::PersistentVolumeClaim(claim) => {
            object(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name, OBJECT, claim.encoded_len())
        }
        Change::PersistentVolume(volume) => {
            object(Kind::PersistentVolume, "", &volume.name, OBJECT, volume.encoded_len())
        }
        Change::StorageClass(class) => object(Kind::StorageClass, "", &class.name, OBJECT, class.encoded_len()),
        Change::CsiNode(node) => object(Kind::CsiNode, "", &node.name, OBJECT, node.encoded_len()),
        Change::PodDisruptionBudget(budget) => {
            object(Kind::PodDisruptionBudget, &budget.namespace, &budget.name, OBJECT, budget.encoded_len())
        }
        Change::Autoscaler(other) => object(Kind::Unspecified, "", &other.name, OBJECT, other.encoded_len()),
        // The number of unreadable kinds is bounded, so they are not accounted.
        Change::PriorityClass(_) | Change::Unseen(_) => MemoryCost::Nothing,
        Change::Removal(gone) => {
            MemoryCost::Removed { kind: gone.kind(), namespace: &gone.namespace, name: &gone.name }
        }
    }
}

fn object<'c>(
    kind: v1::ObjectKind,
    namespace: &'c str,
    name: &'c str,
    (fixed, each): (u64, u64),
    encoded: usize,
) -> MemoryCost<'c> {
    MemoryCost::Object { kind, namespace, name, bytes: fixed + each * encoded as u64 }
}

/// Cost of a label set or volume claim set. Entries are counted without decoding: each begins with
/// a tag and its length.
fn set(content: &[u8]) -> u64 {
    let (mut entries, mut rest) = (0, content);
    while let [_tag, after @ ..] = rest {
        let mut after = after;
        let Ok(length) = prost::decode_length_delimiter(&mut after) else { break };
        entries += 1;
        rest = after.get(length..).unwrap_or_default();
    }
    TREE + LABEL * entries + content.len() as u64
}
