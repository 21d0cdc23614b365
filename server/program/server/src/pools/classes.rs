//! EC2NodeClasses of a connected cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_session::{Manifest, ManifestKind, Manifests};
use cluster::ClassRecord;
use drift::{NODE_CLASS_HASH_VERSION, node_class_hash};
use manifests::karpenter::NodeClassManifest;
use manifests::{Cursor, InputError, ObjectLocation, Problems};
use model::Text;
use model::node_class::{NodeClassSpec, NodeClassStatus};

use super::object::{metadata, rejection};

/// Finalizer of an EC2NodeClass (Karpenter's AWS provider: termination).
const CLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";

/// What an EC2NodeClass says. Clusters share what is equal.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassContents {
    /// `spec`; `None` when it is invalid.
    spec: Option<Arc<NodeClassSpec>>,
    /// `status` without conditions.
    status: Arc<NodeClassStatus>,
    /// The annotations with Karpenter's hash and its version.
    pub(super) hash: Option<(Text, Text)>,
    /// This server's hash of a valid `spec`, and its version.
    pub(super) own_hash: Option<(Text, Text)>,
}

impl ClassContents {
    /// Reads the object of a manifest. An unreadable one has no contents.
    fn read(name: &Text, manifest: &Manifest) -> Self {
        let Ok(value) = serde_json::from_slice(&manifest.json) else { return Self::default() };
        let problems = Problems::default();
        let site = ObjectLocation { source: name.clone(), document: 0, object: None, problems: &problems };
        let Some(class) = NodeClassManifest::read(&Cursor::root(&value, &site)) else { return Self::default() };
        let is_valid = problems.is_empty();
        Self {
            own_hash: is_valid.then(|| (node_class_hash(&class.spec), Text::from(NODE_CLASS_HASH_VERSION))),
            spec: is_valid.then(|| Arc::new(class.spec)),
            status: Arc::new(class.status),
            hash: class.hash,
        }
    }

    /// Reads every EC2NodeClass among `manifests`, by name.
    pub(super) fn read_all(manifests: &Manifests) -> BTreeMap<Text, Self> {
        let classes = manifests.iter().filter(|((kind, _), _)| *kind == ManifestKind::Ec2NodeClass);
        classes.map(|((_, name), manifest)| (name.clone(), Self::read(name, manifest))).collect()
    }

    /// Uses the parts of `known` that are equal.
    pub(super) fn share(&mut self, known: Option<&Self>) {
        let Some(known) = known else { return };
        if self.spec == known.spec {
            self.spec.clone_from(&known.spec);
        }
        if self.status == known.status {
            self.status = Arc::clone(&known.status);
        }
    }

    /// Whether its status says what instances are launched with.
    pub(super) fn is_resolved(&self) -> bool {
        let NodeClassStatus { subnets, security_groups, images, instance_profile, reservations: _ } = &*self.status;
        subnets.is_some() && security_groups.is_some() && images.is_some() && instance_profile.is_some()
    }
}

/// The record of one EC2NodeClass.
pub(super) fn record(name: &Text, manifest: &Manifest, contents: ClassContents, refused: &[InputError]) -> ClassRecord {
    let metadata = metadata(manifest);
    let finalizers = metadata["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    let invalid = rejection(ManifestKind::Ec2NodeClass, name, refused);
    ClassRecord {
        name: name.clone(),
        uid: metadata["uid"].as_str().unwrap_or_default().into(),
        generation: metadata["generation"].as_i64().unwrap_or(0),
        deleting: !metadata["deletionTimestamp"].is_null(),
        has_finalizer: finalizers.iter().any(|finalizer| finalizer == CLASS_FINALIZER),
        spec: contents.spec.filter(|_| invalid.is_none()),
        invalid,
        status: contents.status,
        hash: contents.hash,
    }
}

#[cfg(test)]
mod tests {
    use model::node_class::{AmiFamily, InstanceIdentity, SubnetEntry};
    use serde_json::{Value, json};

    use super::*;

    fn manifests(change: impl FnOnce(&mut Value)) -> Manifests {
        let mut object = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "u-1", "generation": 3, "finalizers": [CLASS_FINALIZER]},
            "spec": {
                "role": "nodes", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-0a"}], "securityGroupSelectorTerms": [{"id": "sg-0a"}],
            },
            "status": {"subnets": [{"id": "subnet-0a", "zone": "us-east-1a"}]},
        });
        change(&mut object);
        let manifest = Manifest { json: object.to_string().into_bytes(), revision: "7".into() };
        Manifests::from([((ManifestKind::Ec2NodeClass, "default".into()), manifest)])
    }

    fn read(change: impl FnOnce(&mut Value)) -> ClassRecord {
        super::super::reader(
            "us-east-1".to_owned(),
            super::super::CatalogueSources::default(),
            controller::ClassFacts::Simulated,
        )
        .read(&manifests(change))
        .classes
        .remove(0)
    }

    #[test]
    fn a_class_has_its_specification_status_and_hash() {
        let class = read(|class| {
            class["metadata"]["annotations"] = json!({
                "karpenter.k8s.aws/ec2nodeclass-hash": "2", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
            });
        });
        assert_eq!((class.uid.as_ref(), class.generation, class.has_finalizer), ("u-1", 3, true));
        let spec = class.spec.unwrap();
        assert_eq!(spec.ami_family, AmiFamily::Bottlerocket);
        assert_eq!(spec.identity, InstanceIdentity::Role("nodes".into()));
        let subnet = SubnetEntry { id: "subnet-0a".into(), zone: "us-east-1a".into(), zone_id: None };
        assert_eq!(class.status.subnets, Some(vec![subnet]));
        assert_eq!(class.status.security_groups, None);
        assert_eq!(class.hash, Some(("2".into(), "v5".into())));
        assert_eq!(class.invalid, None);
        assert_eq!(read(|_| {}).hash, None);
    }

    #[test]
    fn an_invalid_class_has_a_reason_and_no_specification() {
        let class = read(|class| class["spec"]["subnetSelectorTerms"] = json!([{"id": "net-1"}]));
        assert!(class.invalid.as_ref().is_some_and(|why| why.contains("net-1")), "{:?}", class.invalid);
        assert_eq!(class.spec, None);
        assert!(class.status.subnets.is_some(), "what was found before stays known");
    }
}
