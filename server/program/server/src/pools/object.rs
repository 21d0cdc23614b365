//! Objects of a cluster's manifests, before they are read.

use agent_session::{Manifest, ManifestKind};
use manifests::InputError;
use model::Text;
use serde_json::Value;

/// `metadata`; null when the manifest cannot be parsed.
pub(super) fn metadata(manifest: &Manifest) -> Value {
    let object: Value = serde_json::from_slice(&manifest.json).unwrap_or_default();
    object["metadata"].clone()
}

pub(super) fn rejection(kind: ManifestKind, name: &str, refused: &[InputError]) -> Option<Text> {
    let own = source_name(kind, name);
    refused.iter().find(|error| error.source == own).map(|error| Text::from(error.to_string()))
}

/// The name of the source of an object, which its errors carry.
pub(super) fn source_name(kind: ManifestKind, name: &str) -> String {
    let kind = match kind {
        ManifestKind::Ec2NodeClass => "EC2NodeClass",
        ManifestKind::NodeOverlay => "NodeOverlay",
        ManifestKind::NodePool => "NodePool",
    };
    format!("{kind}/{name}")
}
