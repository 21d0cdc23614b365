//! Workloads that own pods. A pod of a ReplicaSet belongs to the Deployment that owns the
//! ReplicaSet.

use std::collections::{BTreeMap, BTreeSet};

use cluster::deployment_of;
use manifests::cluster::pods::PodObject;
use manifests::cluster::workload::Workload;
use manifests::kinds::Kind;
use model::Text;

/// (namespace, name).
type Key = (Text, Text);

/// Finds the workload of a pod.
#[derive(Debug, Default)]
pub struct Owners {
    deployments: BTreeSet<Key>,
    /// ReplicaSets of the input and the Deployment that owns each.
    replica_sets: BTreeMap<Key, Option<Text>>,
}

impl Owners {
    /// Indexes the Deployments and ReplicaSets among `workloads`.
    #[must_use]
    pub fn new(workloads: &[Workload]) -> Self {
        let mut owners = Self::default();
        for workload in workloads {
            let key = (workload.meta.namespace.clone(), workload.meta.name.clone());
            if workload.kind == Kind::Deployment {
                owners.deployments.insert(key);
            } else if workload.kind == Kind::ReplicaSet {
                owners.replica_sets.insert(key, workload.meta.owned_by("Deployment").cloned());
            }
        }
        owners
    }

    /// The workload of `pod` as `Kind/name`.
    #[must_use]
    pub fn workload(&self, pod: &PodObject) -> Text {
        let Some(owner) = &pod.meta.owner else { return format!("Pod/{}", pod.meta.name).into() };
        if owner.kind.as_ref() == "ReplicaSet"
            && let Some(deployment) = self.deployment(pod, &owner.name)
        {
            return format!("Deployment/{deployment}").into();
        }
        format!("{}/{}", owner.kind, owner.name).into()
    }

    /// The Deployment of the input that owns the ReplicaSet `name`; for a ReplicaSet outside the
    /// input, the Deployment whose name precedes the template hash. A ReplicaSet without a
    /// Deployment in the input is its own owner.
    fn deployment(&self, pod: &PodObject, name: &Text) -> Option<Text> {
        let namespace = &pod.meta.namespace;
        if let Some(deployment) = self.replica_sets.get(&(namespace.clone(), name.clone())) {
            let known = |name: &&Text| self.deployments.contains(&(namespace.clone(), (*name).clone()));
            return deployment.as_ref().filter(known).cloned();
        }
        let deployment = Text::from(deployment_of(name, &pod.meta.labels)?);
        self.deployments.contains(&(namespace.clone(), deployment.clone())).then_some(deployment)
    }

    /// Whether `workload` is a ReplicaSet of a Deployment of the input, which expands it.
    #[must_use]
    pub fn expands_elsewhere(&self, workload: &Workload) -> bool {
        let deployment = workload.meta.owned_by("Deployment").filter(|_| workload.kind == Kind::ReplicaSet);
        deployment.is_some_and(|name| self.deployments.contains(&(workload.meta.namespace.clone(), name.clone())))
    }
}
