//! Classes of pods that kube-scheduler cannot distinguish.

use std::collections::BTreeMap;

use model::input::PlanningInput;
use model::labels::POD_TEMPLATE_HASH;
use model::{BoundPod, Labels, Pod, PodShape, Text, VolumeAlternatives};
use rustc_hash::FxHashMap;

/// Labels that differ between the pods of one workload.
const LABELS_OF_ONE_POD: [&str; 4] = [
    POD_TEMPLATE_HASH,
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// Controllers whose pods get the default spread constraints of kube-scheduler
/// (`helper.DefaultSelector`).
const SPREAD_CONTROLLERS: [&str; 4] = ["Deployment/", "ReplicaSet/", "ReplicationController/", "StatefulSet/"];

/// What the pods of one class share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodClass<'a> {
    pub(crate) namespace: &'a Text,
    pub(crate) shape: &'a PodShape,
    pub(crate) labels: &'a Labels,
    pub(crate) volumes: Option<&'a VolumeAlternatives>,
    /// Whether a controller owns the pods by which kube-scheduler spreads them.
    pub(crate) has_spread_controller: bool,
}

/// Namespace and shared labels of a workload.
type Workload<'a> = (&'a Text, Vec<(&'a Text, &'a Text)>);

/// Number of the namespace, shape, labels, volumes, and whether a controller owns the pods by which
/// kube-scheduler spreads them.
type Key = (u32, u32, u32, Option<u32>, bool);

/// All classes, numbered by first appearance.
#[derive(Debug)]
pub(crate) struct Classes<'a> {
    input: &'a PlanningInput,
    pub(crate) list: Vec<PodClass<'a>>,
    ids: FxHashMap<Key, u32>,
    namespaces: FxHashMap<&'a Text, u32>,
    /// Whether it matters which controllers own pods.
    spreads_by_default: bool,
    /// The namespace of the last pod: pods are sorted by namespace.
    last_namespace: Option<(&'a Text, u32)>,
}

impl<'a> Classes<'a> {
    /// No classes yet. Where kube-scheduler's default spread plays no part, pods with and without a controller are
    /// alike.
    pub(crate) fn new(input: &'a PlanningInput, spreads_by_default: bool) -> Self {
        let (ids, namespaces) = (FxHashMap::default(), FxHashMap::default());
        Self { input, list: Vec::new(), ids, namespaces, spreads_by_default, last_namespace: None }
    }

    /// The class of a pod to bind.
    pub(crate) fn of_pending(&mut self, pod: &'a Pod) -> u32 {
        let spread =
            self.spreads_by_default && SPREAD_CONTROLLERS.iter().any(|controller| pod.workload.starts_with(controller));
        let namespace = self.namespace(&pod.namespace);
        self.number(&pod.namespace, (namespace, pod.shape, pod.labels, pod.volumes, spread))
    }

    /// The class of a bound pod. Its own volumes and spread constraints are of no more effect.
    pub(crate) fn of_bound(&mut self, pod: &'a BoundPod) -> u32 {
        let namespace = self.namespace(&pod.namespace);
        self.number(&pod.namespace, (namespace, pod.shape, pod.labels, None, false))
    }

    fn namespace(&mut self, name: &'a Text) -> u32 {
        if let Some((last, number)) = self.last_namespace
            && last == name
        {
            return number;
        }
        let next = u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX);
        let number = *self.namespaces.entry(name).or_insert(next);
        self.last_namespace = Some((name, number));
        number
    }

    fn number(&mut self, namespace: &'a Text, key: Key) -> u32 {
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let number = *self.ids.entry(key).or_insert(next);
        if number == next {
            let (_, shape, labels, volumes, has_spread_controller) = key;
            self.list.push(PodClass {
                namespace,
                shape: &self.input.shapes[shape as usize],
                labels: &self.input.label_sets[labels as usize],
                volumes: volumes.map(|set| &self.input.volume_sets[set as usize]),
                has_spread_controller,
            });
        }
        number
    }

    /// The classes of each workload: the same namespace and labels, apart from those of single
    /// pods. The selectors of controllers are not part of the planning input.
    pub(crate) fn by_workload(&self) -> Vec<Vec<u32>> {
        let mut groups: BTreeMap<Workload<'_>, Vec<u32>> = BTreeMap::new();
        let key = |class: &PodClass<'a>| {
            let shared = class.labels.iter().filter(|(key, _)| !LABELS_OF_ONE_POD.contains(&key.as_ref()));
            (class.namespace, shared.collect())
        };
        let keys: Vec<Workload<'_>> = self.list.iter().map(key).collect();
        for (number, key) in (0..).zip(&keys) {
            groups.entry(key.clone()).or_default().push(number);
        }
        keys.iter().map(|key| groups.get(key).cloned().unwrap_or_default()).collect()
    }
}
