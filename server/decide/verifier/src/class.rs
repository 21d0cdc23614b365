//! Equivalence classes of pods for the topology rules: same namespace, same shape, same labels.

use rustc_hash::FxHashMap;

use model::Text;
use model::input::PlanningInput;

/// The attributes that the pods of one class share.
pub(super) struct Class<'a> {
    pub(super) namespace: &'a Text,
    pub(super) shape: u32,
    pub(super) labels: u32,
}

/// All classes, numbered in order of first appearance.
#[derive(Default)]
pub(super) struct Classes<'a> {
    pub(super) list: Vec<Class<'a>>,
    ids: FxHashMap<(u32, u32, u32), u32>,
    namespaces: FxHashMap<&'a str, u32>,
    latest: Option<(&'a Text, u32)>,
}

impl<'a> Classes<'a> {
    /// The classes of the pods to place, and the class of each pod.
    pub(super) fn of_pods(input: &'a PlanningInput) -> (Self, Vec<u32>) {
        let mut classes = Self::default();
        let of = input.pods.iter().map(|pod| classes.id(&pod.namespace, pod.shape, pod.labels)).collect();
        (classes, of)
    }

    /// Class number for these attributes; new if not seen before.
    pub(super) fn id(&mut self, namespace: &'a Text, shape: u32, labels: u32) -> u32 {
        let space = self.namespace(namespace);
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry((space, shape, labels)).or_insert(next);
        if id == next {
            self.list.push(Class { namespace, shape, labels });
        }
        id
    }

    /// Pods are sorted by namespace, so the latest namespace is nearly always a hit.
    fn namespace(&mut self, namespace: &'a Text) -> u32 {
        if let Some((text, id)) = self.latest
            && text == namespace
        {
            return id;
        }
        let next = u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX);
        let id = *self.namespaces.entry(namespace.as_ref()).or_insert(next);
        self.latest = Some((namespace, id));
        id
    }
}
