//! The Kubernetes objects of the input, typed and validated. The crate `planning-input` derives
//! their meaning for planning.

pub mod admission;
pub mod metadata;
pub mod node;
pub mod pods;
pub mod policy;
pub mod storage;
pub mod workload;

use std::collections::BTreeMap;

use model::{Labels, NodeName, Text};

use self::admission::{Admission, default_requests_of};
use self::node::{NodeObject, attach_limits};
use self::pods::PodObject;
use self::policy::{DisruptionBudget, PriorityClass};
use self::storage::{Claim, StorageClass, Volume};
use self::workload::{DaemonObject, PodAutoscaler, Workload};
use crate::cursor::{Cursor, Problems};
use crate::inventory::{Inventory, Object};
use crate::kinds::Kind;
use crate::notes::Notes;
use crate::pod::runtime_class::RuntimeClass;

/// The Kubernetes objects of a cluster, without Karpenter's.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Pods, by namespace and name.
    pub pods: Vec<PodObject>,
    /// Workloads, by kind, namespace and name.
    pub workloads: Vec<Workload>,
    /// HorizontalPodAutoscalers, by namespace and name.
    pub autoscalers: Vec<PodAutoscaler>,
    /// DaemonSets, by namespace and name.
    pub daemons: Vec<DaemonObject>,
    /// Nodes, by name.
    pub nodes: Vec<NodeObject>,
    /// Attach limits of the CSINodes, by node name: (CSI driver, number of volumes).
    pub attach_limits: BTreeMap<NodeName, Vec<(Text, i64)>>,
    /// Labels of namespaces, by name.
    pub namespaces: BTreeMap<Text, Labels>,
    /// PersistentVolumeClaims, by namespace and name.
    pub claims: BTreeMap<(Text, Text), Claim>,
    /// PersistentVolumes, by name.
    pub volumes: BTreeMap<Text, Volume>,
    /// StorageClasses, by name.
    pub classes: BTreeMap<Text, StorageClass>,
    /// PodDisruptionBudgets, by namespace and name.
    pub budgets: Vec<DisruptionBudget>,
    /// PriorityClasses, by name.
    pub priorities: BTreeMap<Text, PriorityClass>,
}

impl Cluster {
    /// Parses the Kubernetes objects of `inventory`. Pods are taken out of it and each is dropped
    /// after parsing, because they are most of the memory of a captured cluster.
    #[must_use]
    pub fn read(inventory: &mut Inventory, problems: &Problems, notes: &mut Notes) -> Self {
        let ranges = each(inventory, Kind::LimitRange, problems, |object, at| {
            (object.namespace.clone(), default_requests_of(at))
        });
        let runtime_classes =
            each(inventory, Kind::RuntimeClass, problems, |object, at| RuntimeClass::read(object.name.clone(), at));
        let admission = Admission::new(ranges, runtime_classes);
        let read_pod = |object: &Object, at: &Cursor<'_>| PodObject::read(object, at, &admission);
        let pods = inventory.take(Kind::Pod).map(|pod| read_one(&pod, problems, read_pod)).collect();
        let inventory = &*inventory;
        let mut cluster = Self {
            pods,
            autoscalers: each(inventory, Kind::HorizontalPodAutoscaler, problems, PodAutoscaler::read)
                .into_iter()
                .flatten()
                .collect(),
            daemons: each(inventory, Kind::DaemonSet, problems, |object, at| {
                DaemonObject::read(object, at, admission.default_requests(&object.namespace))
            }),
            nodes: each(inventory, Kind::Node, problems, NodeObject::read),
            budgets: each(inventory, Kind::PodDisruptionBudget, problems, DisruptionBudget::read),
            ..Self::default()
        };
        for kind in [Kind::Deployment, Kind::Job, Kind::ReplicaSet, Kind::StatefulSet] {
            cluster.workloads.extend(each(inventory, kind, problems, |object, at| {
                Workload::read(object, at, admission.default_requests(&object.namespace))
            }));
        }
        cluster.apply_runtime_classes(&admission, notes);
        cluster.read_storage(inventory, problems);
        cluster.read_namespaces(inventory, problems);
        let priorities = each(inventory, Kind::PriorityClass, problems, PriorityClass::read);
        cluster.priorities = priorities.into_iter().map(|class| (class.name.clone(), class)).collect();
        for object in inventory.of(Kind::CronJob) {
            notes.add(
                "CronJobs make pods by the clock, none is planned",
                &format!("{}/{}", object.namespace, object.name),
            );
        }
        cluster
    }

    fn apply_runtime_classes(&mut self, admission: &Admission, notes: &mut Notes) {
        for pod in self.pods.iter_mut().filter(|pod| !pod.is_created) {
            admission.apply_runtime_class(&mut pod.spec, &format!("Pod/{}", pod.meta.title()), notes);
        }
        for workload in &mut self.workloads {
            let title = format!("{}/{}", workload.kind_name, workload.meta.title());
            admission.apply_runtime_class(&mut workload.template.spec, &title, notes);
        }
        for daemon in &mut self.daemons {
            let title = format!("DaemonSet/{}", daemon.meta.title());
            admission.apply_runtime_class(&mut daemon.template.spec, &title, notes);
        }
    }

    fn read_storage(&mut self, inventory: &Inventory, problems: &Problems) {
        let claims = each(inventory, Kind::PersistentVolumeClaim, problems, Claim::read);
        self.claims = claims.into_iter().map(|claim| ((claim.namespace.clone(), claim.name.clone()), claim)).collect();
        let volumes = each(inventory, Kind::PersistentVolume, problems, Volume::read);
        self.volumes = volumes.into_iter().map(|volume| (volume.name.clone(), volume)).collect();
        let classes = each(inventory, Kind::StorageClass, problems, StorageClass::read);
        self.classes = classes.into_iter().map(|class| (class.name.clone(), class)).collect();
        let limits =
            each(inventory, Kind::CsiNode, problems, |object, at| (NodeName::from(&object.name), attach_limits(at)));
        self.attach_limits = limits.into_iter().collect();
    }

    fn read_namespaces(&mut self, inventory: &Inventory, problems: &Problems) {
        const NAME: &str = "kubernetes.io/metadata.name";
        let named = each(inventory, Kind::Namespace, problems, |object, at| {
            let mut labels = crate::syntax::labels(&at.at("metadata").at("labels"));
            labels.insert(NAME.into(), object.name.clone());
            (object.name.clone(), labels)
        });
        self.namespaces = named.into_iter().collect();
    }
}

/// Parses every object of `kind`.
pub fn each<T>(
    inventory: &Inventory,
    kind: Kind,
    problems: &Problems,
    read: impl Fn(&Object, &Cursor<'_>) -> T,
) -> Vec<T> {
    inventory.of(kind).map(|object| read_one(object, problems, &read)).collect()
}

fn read_one<T>(object: &Object, problems: &Problems, read: impl Fn(&Object, &Cursor<'_>) -> T) -> T {
    let site = object.site(problems);
    read(object, &Cursor::root(&object.value, &site))
}
