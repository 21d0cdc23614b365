//! Volumes that are still attached to a node that is drained.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::order::Guest;
use crate::cluster::Kubernetes;
use crate::error::ApiError;
use crate::resource::VOLUME_ATTACHMENT;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AttachmentList {
    items: Vec<AttachmentJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AttachmentJson {
    spec: SpecJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    node_name: String,
    source: SourceJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceJson {
    persistent_volume_name: String,
}

/// PersistentVolumes that are attached to the node and that none of the pods that stay on it uses. Volumes without a
/// PersistentVolume do not count (Karpenter: volume detachment).
pub(super) async fn awaited(cluster: &Kubernetes, node: &str, guests: &[Guest]) -> Result<Vec<String>, ApiError> {
    let list: AttachmentList = cluster.api().get(&VOLUME_ATTACHMENT.all()).await?;
    let used = guests
        .iter()
        .filter(|guest| guest.stays)
        .flat_map(|guest| guest.claims.iter().filter_map(|claim| cluster.picture().volume_of(&guest.namespace, claim)));
    Ok(remaining(list, node, &used.collect()))
}

fn remaining(list: AttachmentList, node: &str, used: &BTreeSet<String>) -> Vec<String> {
    let here = list.items.into_iter().filter(|attachment| attachment.spec.node_name == node);
    let volumes = here.map(|attachment| attachment.spec.source.persistent_volume_name);
    volumes.filter(|volume| !volume.is_empty() && !used.contains(volume)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_of_other_nodes_of_pods_that_stay_and_without_a_name_are_not_awaited() {
        let attachment = |node: &str, volume: &str| AttachmentJson {
            spec: SpecJson { node_name: node.into(), source: SourceJson { persistent_volume_name: volume.into() } },
        };
        let items =
            vec![attachment("n", "pv-1"), attachment("n", "pv-2"), attachment("m", "pv-3"), attachment("n", "")];
        let used = BTreeSet::from(["pv-2".to_owned()]);
        assert_eq!(remaining(AttachmentList { items }, "n", &used), ["pv-1"]);
    }
}
