//! EC2NodeClass (`karpenter.k8s.aws/v1`): images, network, disks and kubelet settings of instances.
//!
//! Planning needs the [`NodeClassSettings`] and whether the class is ready; launches need the [`NodeClassSpec`] and the
//! [`NodeClassStatus`].

mod devices;
mod kubelet;
mod selectors;
mod spec;
mod status;

use model::Text;
use model::node_class::{NodeClassSettings, NodeClassSpec, NodeClassStatus};

use super::conditions::Conditions;
use crate::Cursor;
use crate::schema::definition::{Column, Definition, READY};
use crate::schema::part::{Part, fields};

pub(crate) fn definition() -> Definition {
    Definition {
        kind: "EC2NodeClass",
        meaning: "How an EC2 machine is made: images, subnets, security groups, disks, kubelet, identity.",
        group: "karpenter.k8s.aws",
        version: "v1",
        short_names: &["ec2nc", "ec2ncs"],
        aliases: &["ec2nc", "ec2ncs", "ec2nodeclasses"],
        columns: vec![READY, Column::AGE, Column::text("Role", ".spec.role").wide()],
        scale: None,
        fields: fields! {
            /// Name, labels and annotations. A class belongs to the whole cluster and has no namespace.
            "metadata": Part::of("object"),
            /// What machines of this class are made of.
            "spec": spec::schema(),
            /// What was found; never written by hand. Without status a class counts as ready, with subnets in all
            /// zones of the region.
            "status": status::schema(),
        },
        spec_required: false,
    }
}

/// An EC2NodeClass of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClassManifest {
    pub name: Text,
    /// `metadata.uid`; empty when it has none.
    pub uid: Text,
    /// `metadata.generation`; 0 when it has none.
    pub generation: i64,
    /// The reason why its pools are excluded from planning; `None` when the class is ready.
    pub not_ready: Option<Text>,
    /// The settings that determine the catalogue of its pools.
    pub settings: NodeClassSettings,
    pub spec: NodeClassSpec,
    /// `status` without conditions. An incomplete entry of a list is left out.
    pub status: NodeClassStatus,
    /// Sum of the `volumeSize` of `blockDeviceMappings`, in bytes; `None` when none is given.
    pub volumes: Option<i64>,
    /// The annotations `karpenter.k8s.aws/ec2nodeclass-hash` and its version, when both are set.
    pub hash: Option<(Text, Text)>,
}

impl NodeClassManifest {
    /// Reads the EC2NodeClass at `at`; a violation of the schema is reported. `None` when it has no
    /// name.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        let (metadata, spec, status) = (at.at("metadata"), at.at("spec").required(), at.at("status"));
        let name: Text = metadata.at("name").required_str()?.into();
        let family = spec::read_family(&spec);
        let storage = devices::storage(&spec, family);
        let settings = NodeClassSettings {
            ami_family: family,
            kubelet: kubelet::read_settings(&spec.at("kubelet")),
            ephemeral_storage: storage.ephemeral,
            instance_store_raid0: spec.at("instanceStorePolicy").one_of(&spec::STORE_POLICIES).unwrap_or(false),
            zones: status::zones(&status.at("subnets")),
            reservations: status::reservations(&status.at("capacityReservations")),
            network_interfaces: devices::network_interfaces(&spec.at("networkInterfaces")),
            connection_tracking: spec.at("connectionTracking").exists(),
            nested_virtualization: spec
                .at("cpuOptions")
                .at("nestedVirtualization")
                .one_of(&spec::SWITCH)
                .unwrap_or(false),
            ami_requirements: status::image_requirements(&status.at("amis")),
        };
        let annotations = metadata.at("annotations");
        let hash = annotations.at("karpenter.k8s.aws/ec2nodeclass-hash").text();
        Some(Self {
            name,
            uid: metadata.at("uid").text().unwrap_or_default(),
            generation: metadata.at("generation").int().unwrap_or_default(),
            not_ready: not_ready(
                metadata.at("deletionTimestamp").exists(),
                &Conditions::read(&status.at("conditions")),
            ),
            spec: spec::read(&spec, &settings, storage.devices),
            status: status::read(&status),
            settings,
            volumes: storage.volumes,
            hash: hash.zip(annotations.at("karpenter.k8s.aws/ec2nodeclass-hash-version").text()),
        })
    }
}

/// The reason why the class is not ready, by the condition that says the most. An absent status counts as ready.
fn not_ready(deleting: bool, conditions: &Conditions) -> Option<Text> {
    const VALIDATION: &str = "ValidationSucceeded";
    if deleting {
        return Some("its EC2NodeClass is being deleted".into());
    }
    let root = conditions.failure("Ready");
    let validation = conditions.failure(VALIDATION);
    let is_unready = root.is_some() || (validation.is_some() && conditions.get("Ready").is_none());
    // Validation fails on what any other condition says, and names it only.
    let others = conditions.iter().filter(|one| ![VALIDATION, "Ready"].contains(&one.name.as_ref()));
    let first = others.filter_map(|one| conditions.failure(&one.name)).next();
    let text = first.or(validation).or(root).filter(|_| is_unready)?;
    Some(format!("its EC2NodeClass is not ready: {text}").into())
}
