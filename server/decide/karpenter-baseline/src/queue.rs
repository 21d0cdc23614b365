//! The order in which pods are tried (Karpenter core §3.5).

use std::cmp::Reverse;
use std::collections::VecDeque;

use model::input::PlanningInput;
use model::resources::{CPU, MEMORY};

/// Pods that wait. A pod that fits nowhere goes to the end, until a whole lap places none.
pub(crate) struct Queue {
    pods: VecDeque<u32>,
    /// Length of the queue when the pod was last added to it; 0 before that.
    length_when_added: Vec<usize>,
}

impl Queue {
    /// `pods` by CPU, then memory, largest first; then by age, pods that do not exist yet last; then
    /// by name. Karpenter compares UIDs last, which manifests rarely have.
    pub(crate) fn new(input: &PlanningInput, mut pods: Vec<u32>) -> Self {
        pods.sort_by_key(|index| {
            let pod = &input.pods[*index as usize];
            let requests = &input.shapes[pod.shape as usize].requests;
            (Reverse(requests.get(CPU)), Reverse(requests.get(MEMORY)), pod.created.is_none(), pod.created, *index)
        });
        Self { pods: pods.into(), length_when_added: vec![0; input.pods.len()] }
    }

    /// The next pod; `None` when every pod was tried since the last success.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let first = *self.pods.front()?;
        if self.length_when_added[first as usize] == self.pods.len() {
            return None;
        }
        self.pods.pop_front()
    }

    /// Adds a pod that fits nowhere yet.
    pub(crate) fn push(&mut self, pod: u32) {
        self.pods.push_back(pod);
        self.length_when_added[pod as usize] = self.pods.len();
    }

    /// The pods that were not placed.
    pub(crate) fn into_left(self) -> Vec<u32> {
        let mut left: Vec<u32> = self.pods.into();
        left.sort_unstable();
        left
    }
}
