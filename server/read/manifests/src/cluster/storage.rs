//! PersistentVolumeClaims, PersistentVolumes and StorageClasses.

use model::labels::{REGION, ZONE, canonical_key};
use model::{LabelSelector, Labels, NodeSelectorTerm, Operator, Requirement, Requirements, Text, Timestamp};

use super::metadata::{Metadata, annotation};
use crate::inventory::Object;
use crate::pod::node_affinity;
use crate::{Cursor, selector, syntax};

/// The CSI driver of EBS. It also serves volumes of the in-tree plugin.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";
/// The provisioner of classes whose PersistentVolumes somebody else makes.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The access mode of a claim that one pod of the cluster may use at a time.
pub const ONE_POD: &str = "ReadWriteOncePod";

/// Spec of a claim or of a claim template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimSpec {
    /// `storageClassName`: `None` means the default class, the empty text means none.
    pub class: Option<Text>,
    /// `volumeName`.
    pub volume: Option<Text>,
    pub access_modes: Vec<Text>,
    /// `resources.requests.storage` in bytes; 0 without one.
    pub size: i64,
    /// `volumeMode` is `Block`.
    pub block: bool,
    /// `selector`: labels of PersistentVolumes; `None` matches all.
    pub selector: Option<LabelSelector>,
}

impl ClaimSpec {
    /// Reads the specification at `at`.
    #[must_use]
    pub fn read(at: &Cursor<'_>) -> Self {
        Self {
            class: at.at("storageClassName").text(),
            volume: at.at("volumeName").text().filter(|name| !name.is_empty()),
            access_modes: texts(&at.at("accessModes")),
            size: at.at("resources").at("requests").resources().get("storage"),
            block: at.at("volumeMode").str() == Some("Block"),
            selector: selector::read(&at.at("selector")),
        }
    }

    /// Whether only one pod may use the claim at a time.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.access_modes.iter().any(|mode| mode.as_ref() == ONE_POD)
    }
}

fn texts(at: &Cursor<'_>) -> Vec<Text> {
    at.strings().into_iter().map(Text::from).collect()
}

/// A PersistentVolumeClaim of the input.
#[derive(Debug)]
pub struct Claim {
    pub namespace: Text,
    pub name: Text,
    pub spec: ClaimSpec,
    /// Whether binding is complete: `pv.kubernetes.io/bind-completed`, or `status.phase` is Bound, which is written after it.
    pub bound: bool,
    /// `status.phase` is Lost: the volume no longer exists.
    pub lost: bool,
    /// Whether a `deletionTimestamp` is set.
    pub deleting: bool,
}

impl Claim {
    /// Reads the claim at `at`.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        let meta = Metadata::read(object, at);
        let mut spec = ClaimSpec::read(&at.at("spec").required());
        let annotated = annotation(at, "volume.beta.kubernetes.io/storage-class").map(Text::from);
        let is_in_phase = |phase: &str| at.at("status").at("phase").str() == Some(phase);
        spec.class = annotated.or(spec.class);
        Self {
            namespace: meta.namespace,
            name: meta.name,
            spec,
            bound: annotation(at, "pv.kubernetes.io/bind-completed").is_some() || is_in_phase("Bound"),
            lost: is_in_phase("Lost"),
            deleting: meta.deleting,
        }
    }
}

/// A PersistentVolume of the input.
#[derive(Debug)]
pub struct Volume {
    pub name: Text,
    /// (CSI driver, volume handle); `None` for a volume that is not attached to nodes.
    pub attachment: Option<(Text, Text)>,
    /// Terms of its node affinity; empty means no constraint.
    pub terms: Vec<NodeSelectorTerm>,
    /// Requirements of its zone and region labels on the node (kube-scheduler: VolumeZone).
    pub zones: Requirements,
    /// Whether it is a `local` or `hostPath` volume.
    pub on_host: bool,
    /// Whether a `deletionTimestamp` is set.
    pub deleting: bool,
    pub labels: Labels,
    /// `storageClassName`; empty without one.
    pub class: Text,
    pub access_modes: Vec<Text>,
    /// `capacity.storage` in bytes; `None` when unknown, which is enough for every claim.
    pub size: Option<i64>,
    /// `volumeMode` is `Block`.
    pub block: bool,
    /// `claimRef`, the claim that it is bound to or kept for: namespace and name.
    pub claim: Option<(Text, Text)>,
    /// `status.phase`; empty before the API server has one.
    pub phase: Text,
}

impl Volume {
    /// Reads the volume at `at`.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        let meta = Metadata::read(object, at);
        let spec = at.at("spec").required();
        Self {
            name: meta.name.clone(),
            attachment: attachment(&spec, &meta.name),
            terms: node_affinity::selector(&spec.at("nodeAffinity").at("required")),
            zones: zones(&meta.labels),
            on_host: spec.at("local").exists() || spec.at("hostPath").exists(),
            deleting: meta.deleting,
            labels: meta.labels,
            class: spec.at("storageClassName").text().unwrap_or_default(),
            access_modes: texts(&spec.at("accessModes")),
            size: spec.at("capacity").exists().then(|| spec.at("capacity").resources().get("storage")),
            block: spec.at("volumeMode").str() == Some("Block"),
            claim: claim_reference(&spec.at("claimRef")),
            phase: at.at("status").at("phase").text().unwrap_or_default(),
        }
    }
}

fn claim_reference(at: &Cursor<'_>) -> Option<(Text, Text)> {
    Some((at.at("namespace").text().unwrap_or_else(|| "default".into()), at.at("name").text()?))
}

fn attachment(spec: &Cursor<'_>, name: &Text) -> Option<(Text, Text)> {
    let csi = spec.at("csi");
    if csi.exists() {
        let handle = csi.at("volumeHandle").text().unwrap_or_else(|| name.clone());
        return Some((csi.at("driver").required_str()?.into(), handle));
    }
    let ebs = spec.at("awsElasticBlockStore");
    ebs.exists().then(|| (EBS_DRIVER.into(), ebs.at("volumeID").text().unwrap_or_else(|| name.clone())))
}

/// Node requirements of the zone and region labels of a volume. A label lists several zones
/// separated by two underscores.
#[must_use]
pub fn zones(labels: &Labels) -> Requirements {
    let topology = labels.iter().filter(|(key, _)| [ZONE, REGION].contains(&canonical_key(key)));
    topology.map(|(key, value)| Requirement::new(key, Operator::In, value.split("__").map(Text::from))).collect()
}

#[derive(Debug)]
pub struct StorageClass {
    pub name: Text,
    /// The CSI driver that provisions; names of in-tree plugins are translated.
    pub driver: Text,
    /// `volumeBindingMode` is WaitForFirstConsumer: the volume is provisioned where the pod is
    /// placed.
    pub waits_for_consumer: bool,
    /// `allowedTopologies`, as alternatives; empty allows every node.
    pub topologies: Vec<Requirements>,
    /// Whether it is the default class of claims that name none.
    pub is_default: bool,
    /// `creationTimestamp`. Of several default classes the latest applies.
    pub created: Option<Timestamp>,
}

impl StorageClass {
    /// Reads the class at `at`.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        const MODES: [(&str, bool); 2] = [("WaitForFirstConsumer", true), ("Immediate", false)];
        let meta = Metadata::read(object, at);
        let default = |key| annotation(at, key) == Some("true");
        let provisioner = at.at("provisioner").required_str().unwrap_or_default();
        Self {
            name: meta.name,
            driver: if provisioner == "kubernetes.io/aws-ebs" { EBS_DRIVER } else { provisioner }.into(),
            waits_for_consumer: at.at("volumeBindingMode").one_of(&MODES).unwrap_or(false),
            topologies: at.at("allowedTopologies").list().iter().map(topology).collect(),
            is_default: default("storageclass.kubernetes.io/is-default-class")
                || default("storageclass.beta.kubernetes.io/is-default-class"),
            created: meta.created,
        }
    }
}

fn topology(at: &Cursor<'_>) -> Requirements {
    let read = |expression: &Cursor<'_>| {
        let key = syntax::label_key(&expression.at("key"))?;
        let values = expression.at("values").required().strings();
        if values.is_empty() {
            expression.at("values").error("empty, allowed: at least one value");
        }
        Some(Requirement::new(key, Operator::In, values.into_iter().map(Text::from)))
    };
    at.at("matchLabelExpressions").list().iter().filter_map(read).collect()
}
