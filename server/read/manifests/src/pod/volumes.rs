//! Volumes that constrain where a pod can run: claims, ephemeral claims, and EBS volumes in the pod
//! spec.

use model::Text;

use crate::cluster::storage::ClaimSpec;
use crate::{Cursor, syntax};

#[derive(Debug, Clone, PartialEq)]
pub enum PodVolume {
    /// A PersistentVolumeClaim by name.
    Claim(Text),
    /// A claim that is created for the pod, with the name `<pod>-<volume>`.
    Ephemeral { volume: Text, template: ClaimSpec },
    /// An EBS volume by id.
    Ebs(Text),
}

/// The volumes in the list at `at` that constrain the node; all others can be mounted on any node.
pub fn read(at: &Cursor<'_>) -> Vec<PodVolume> {
    at.list().iter().filter_map(read_one).collect()
}

fn read_one(at: &Cursor<'_>) -> Option<PodVolume> {
    let name: Text = syntax::dns_label(&at.at("name"))?.into();
    let claim = at.at("persistentVolumeClaim");
    if claim.exists() {
        return Some(PodVolume::Claim(claim.at("claimName").required_str()?.into()));
    }
    let ephemeral = at.at("ephemeral");
    if ephemeral.exists() {
        let template = ephemeral.at("volumeClaimTemplate").required();
        return Some(PodVolume::Ephemeral { volume: name, template: ClaimSpec::read(&template.at("spec")) });
    }
    let ebs = at.at("awsElasticBlockStore");
    ebs.exists().then(|| ebs.at("volumeID").required_str().map(|id| PodVolume::Ebs(id.into()))).flatten()
}
