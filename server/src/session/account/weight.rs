//! What a change takes once it is decoded, by what it says on the wire. Worked out from the types of a 64-bit process and on
//! the high side: an allocation costs 16 bytes beside what it holds, a shared text 16 more, an entry of a map that grows two
//! places.

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use prost::Message;

/// A definition's hash and pointer in a map, and the allocation behind it.
const DEFINITION: u64 = 160;
/// A node of a B-tree of texts has room for eleven pairs of 16-byte pointers; a set with one label has one, too.
const TREE: u64 = 420;
/// A label beyond the first: two texts with their counters and allocations, and half a place in a tree.
const LABEL: u64 = 160;
/// A pod shape as it is read: requirements, tolerations and resources of one container take so much for each byte of the wire.
const SHAPE: (u64, u64) = (2_048, 12);
/// A pod: its record in the picture and once more where volumes are looked at, its names, its entry in maps.
const POD: (u64, u64) = (1_024, 2);
/// Any other object: labels and resources are kept as trees of texts.
const OBJECT: (u64, u64) = (1_024, 8);
/// A manifest is kept as bytes and as what was read from it.
const MANIFEST: (u64, u64) = (4_096, 4);

/// What a change takes, and under which name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Weight<'c> {
    Nothing,
    /// Something that records refer to.
    Definition(u64),
    Object {
        kind: v1::ObjectKind,
        namespace: &'c str,
        name: &'c str,
        bytes: u64,
    },
    Gone {
        kind: v1::ObjectKind,
        namespace: &'c str,
        name: &'c str,
    },
}

/// What `change` takes.
pub(super) fn of(change: &Change) -> Weight<'_> {
    use v1::ObjectKind as Kind;
    match change {
        Change::DefineShape(definition) => {
            Weight::Definition(DEFINITION + SHAPE.0 + SHAPE.1 * definition.content.len() as u64)
        }
        Change::DefineLabelSet(definition) | Change::DefineVolumeClaimSet(definition) => {
            Weight::Definition(DEFINITION + set(&definition.content))
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
        // What is kept of kinds that cannot be seen is bounded by their number.
        Change::PriorityClass(_) | Change::Unseen(_) => Weight::Nothing,
        Change::Removal(gone) => Weight::Gone { kind: gone.kind(), namespace: &gone.namespace, name: &gone.name },
    }
}

fn object<'c>(
    kind: v1::ObjectKind,
    namespace: &'c str,
    name: &'c str,
    (fixed, each): (u64, u64),
    encoded: usize,
) -> Weight<'c> {
    Weight::Object { kind, namespace, name, bytes: fixed + each * encoded as u64 }
}

/// A set of labels or of volumes. Entries are found without decoding them: each begins with a tag and its length.
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
