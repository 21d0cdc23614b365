//! The pods that a quote is about.

use std::collections::BTreeSet;
use std::fmt;

use model::input::PlanningInput;
use model::{Labels, Pod, PodShape, Text, VolumeAlternatives};

/// Equal pods, by their template and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSet {
    /// Name, unique in the quote; the pods are `<name>-<number>`.
    pub name: Text,
    pub namespace: Text,
    /// What scheduling evaluates of the pod template.
    pub shape: PodShape,
    pub labels: Labels,
    /// Node requirements of their volumes, if they have volumes.
    pub volumes: Option<VolumeAlternatives>,
    pub count: u32,
}

impl PodSet {
    /// Whether it matters to one of the pods where other pods are.
    pub(crate) fn has_rules_between_pods(&self) -> bool {
        let PodShape { pod_affinity, preferred_pod_affinity, .. } = &self.shape;
        let PodShape { pod_anti_affinity, preferred_pod_anti_affinity, spread, .. } = &self.shape;
        !(pod_affinity.is_empty()
            && preferred_pod_affinity.is_empty()
            && pod_anti_affinity.is_empty()
            && preferred_pod_anti_affinity.is_empty()
            && spread.is_empty())
    }
}

/// Largest number of pods of a quote.
pub const MAX_PODS: u32 = 10_000;

/// Why pod sets cannot be quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidPodSets {
    NoPods,
    /// A name of a pod set occurs twice.
    DuplicateName(Text),
    /// There are more pods than [`MAX_PODS`].
    TooManyPods(u64),
}

impl fmt::Display for InvalidPodSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPods => write!(f, "the quote has no pods: each quote needs a pod set with a count of at least 1"),
            Self::DuplicateName(name) => write!(f, "two pod sets are named {name}: give each a name of its own"),
            Self::TooManyPods(pods) => write!(f, "the quote has {pods} pods, more than {MAX_PODS}: ask for fewer"),
        }
    }
}

impl std::error::Error for InvalidPodSets {}

/// Checks what [`PreparedCluster::quote`](crate::PreparedCluster::quote) relies on.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate(sets: &[PodSet]) -> Result<(), InvalidPodSets> {
    let mut names = BTreeSet::new();
    if let Some(twice) = sets.iter().find(|set| !names.insert(&set.name)) {
        return Err(InvalidPodSets::DuplicateName(twice.name.clone()));
    }
    match sets.iter().map(|set| u64::from(set.count)).sum() {
        0 => Err(InvalidPodSets::NoPods),
        pods if pods > u64::from(MAX_PODS) => Err(InvalidPodSets::TooManyPods(pods)),
        _ => Ok(()),
    }
}

/// Lengths of the tables of a planning input, to remove what a quote adds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableLengths {
    shapes: usize,
    label_sets: usize,
    volume_sets: usize,
}

impl TableLengths {
    /// Position of the pod set of an added pod: each has a shape of its own.
    pub fn pod_set_of(self, pod: &Pod) -> usize {
        pod.shape as usize - self.shapes
    }

    /// Index of the shape of the pod set at this position.
    pub fn shape_of(self, set: usize) -> u32 {
        u32::try_from(self.shapes + set).unwrap_or(u32::MAX)
    }
}

/// Adds the pods of `sets` to the pods of `input` that wait.
pub fn add_to(input: &mut PlanningInput, sets: &[PodSet]) {
    add_pods(input, sets);
}

/// Adds the pods of `sets` to an input without pending pods.
pub(crate) fn add_pods(input: &mut PlanningInput, sets: &[PodSet]) -> TableLengths {
    let before = TableLengths {
        shapes: input.shapes.len(),
        label_sets: input.label_sets.len(),
        volume_sets: input.volume_sets.len(),
    };
    for set in sets {
        let (shape, labels) = (index(&mut input.shapes, &set.shape), index(&mut input.label_sets, &set.labels));
        let volumes = set.volumes.as_ref().map(|volumes| index(&mut input.volume_sets, volumes));
        let workload = Text::from(format!("PodSet/{}", set.name));
        input.pods.extend((0..set.count).map(|number| Pod {
            namespace: set.namespace.clone(),
            // Numbers of equal width, so that names sort as numbers do.
            name: format!("{}-{number:06}", set.name).into(),
            shape,
            labels,
            volumes,
            created: None,
            workload: workload.clone(),
            moved_from: None,
            invalid: None,
        }));
    }
    input.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    before
}

/// Removes the pods that [`add_pods`] added.
pub(crate) fn remove_pods(input: &mut PlanningInput, before: TableLengths) {
    input.pods.clear();
    input.shapes.truncate(before.shapes);
    input.label_sets.truncate(before.label_sets);
    input.volume_sets.truncate(before.volume_sets);
}

/// Position of a copy of `value` at the end of `table`.
fn index<T: Clone>(table: &mut Vec<T>, value: &T) -> u32 {
    table.push(value.clone());
    u32::try_from(table.len() - 1).unwrap_or(u32::MAX)
}
