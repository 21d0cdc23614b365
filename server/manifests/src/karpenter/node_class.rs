//! EC2NodeClass (`karpenter.k8s.aws/v1`): images, network, disks and kubelet settings of instances.
//!
//! Selectors, roles and user data are validated and dropped, because only launches need them.
//! Planning needs the [`NodeClassSettings`] and whether the class is ready.

mod devices;
mod kubelet;
mod selectors;
mod status;

use model::Text;
use model::node_class::{AmiFamily, NodeClassSettings};

use super::conditions::Conditions;
use crate::Cursor;

/// An EC2NodeClass of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClassManifest {
    /// `metadata.name`.
    pub name: Text,
    /// The reason why its pools are excluded from planning; `None` when the class is ready.
    pub not_ready: Option<Text>,
    /// The settings that determine the catalogue of its pools.
    pub settings: NodeClassSettings,
    /// Sum of the `volumeSize` of `blockDeviceMappings`, in bytes; `None` when none is given.
    pub volumes: Option<i64>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version, when both are set.
    pub hash: Option<(Text, Text)>,
    /// Ids of `status.amis`; a node of another image has drifted.
    pub images: Vec<Text>,
}

/// Tags that the system sets, and that users may not set.
const OWN_TAGS: [&str; 4] =
    ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];
const SWITCH: [(&str, bool); 2] = [("enabled", true), ("disabled", false)];

impl NodeClassManifest {
    /// Reads the EC2NodeClass at `at`; a violation of the schema is reported. `None` when it has no
    /// name.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let (metadata, spec, status) = (at.at("metadata"), at.at("spec").required(), at.at("status"));
        let name: Text = metadata.at("name").required_str()?.into();
        let family = read_family(&spec);
        // Without a spec only its absence is reported, and not each missing field.
        if spec.exists() {
            selectors::check(&spec);
            check_identity(&spec);
            check_rest(&spec);
        }
        let storage = devices::storage(&spec, family);
        let settings = NodeClassSettings {
            ami_family: family,
            kubelet: kubelet::read(&spec.at("kubelet")),
            ephemeral_storage: storage.ephemeral,
            instance_store_raid0: spec.at("instanceStorePolicy").one_of(&[("RAID0", true)]).unwrap_or(false),
            zones: status::zones(&status.at("subnets")),
            reservations: status::reservations(&status.at("capacityReservations")),
            network_interfaces: devices::network_interfaces(&spec.at("networkInterfaces")),
            connection_tracking: devices::connection_tracking(&spec.at("connectionTracking")),
            nested_virtualization: spec.at("cpuOptions").at("nestedVirtualization").one_of(&SWITCH).unwrap_or(false),
            ami_requirements: status::image_requirements(&status.at("amis")),
        };
        let annotations = metadata.at("annotations");
        let hash = annotations.at("karpenter.k8s.aws/ec2nodeclass-hash").text();
        Some(Self {
            name,
            not_ready: not_ready(
                metadata.at("deletionTimestamp").exists(),
                &Conditions::read(&status.at("conditions")),
            ),
            settings,
            volumes: storage.volumes,
            hash: hash.zip(annotations.at("karpenter.k8s.aws/ec2nodeclass-hash-version").text()),
            images: status.at("amis").list().iter().filter_map(|image| image.at("id").text()).collect(),
        })
    }
}

/// The family: `amiFamily`, else the family of the alias, else Custom. Without an alias `amiFamily`
/// is required; with one it must be the family of the alias or Custom.
fn read_family(spec: &Cursor<'_>) -> AmiFamily {
    let family_at = spec.at("amiFamily");
    let families = AmiFamily::ALL.map(|family| (family.as_str(), family));
    let written = family_at.one_of(&families);
    let terms = spec.at("amiSelectorTerms").list();
    let alias = terms.iter().find_map(|term| term.at("alias").raw()?.as_str()?.split_once('@'));
    let of_alias = alias.and_then(|(name, _)| AmiFamily::parse(name));
    match (written, of_alias) {
        (Some(written), Some(alias)) if written != alias && written != AmiFamily::Custom => {
            family_at.error(format!(
                "found {:?}, allowed beside the alias in amiSelectorTerms: {}, Custom",
                written.as_str(),
                alias.as_str()
            ));
        }
        (None, None) if spec.exists() && !family_at.exists() && alias.is_none() => {
            family_at.error("missing, but required when amiSelectorTerms has no alias");
        }
        _ => {}
    }
    written.or(of_alias).unwrap_or(AmiFamily::Custom)
}

fn check_identity(spec: &Cursor<'_>) {
    let (role, profile) = (spec.at("role"), spec.at("instanceProfile"));
    for at in [&role, &profile].into_iter().filter(|at| at.exists()) {
        let _ = at.required_str();
    }
    if role.exists() == profile.exists() {
        let found = if role.exists() { "both" } else { "neither" };
        spec.error(format!("found {found} of role and instanceProfile, allowed: exactly one"));
    }
}

/// Validates the fields that only launches need.
fn check_rest(spec: &Cursor<'_>) {
    for (key, value) in spec.at("tags").map() {
        if key.is_empty() || key.starts_with("kubernetes.io/cluster") || OWN_TAGS.contains(&key) {
            value.error("this tag is set by the system and may not be given; remove it");
        }
        let _ = value.str();
    }
    for key in ["associatePublicIPAddress", "detailedMonitoring"] {
        let _ = spec.at(key).bool();
    }
    for key in ["userData", "context"] {
        let _ = spec.at(key).str();
    }
    let _ = spec.at("ipPrefixCount").int_within(0, i64::from(i32::MAX));
    let options = spec.at("metadataOptions");
    let _ = options.at("httpEndpoint").one_of(&SWITCH);
    let _ = options.at("httpProtocolIPv6").one_of(&SWITCH);
    let _ = options.at("httpPutResponseHopLimit").int_within(1, 64);
    let _ = options.at("httpTokens").one_of(&[("required", true), ("optional", false)]);
}

/// The reason why the class is not ready. An absent status counts as ready.
fn not_ready(deleting: bool, conditions: &Conditions) -> Option<Text> {
    if deleting {
        return Some("its EC2NodeClass is being deleted".into());
    }
    let text = conditions.failure("Ready")?;
    Some(format!("its EC2NodeClass is not ready: {text}").into())
}
