//! A plan as people and programs read it. Nothing here looks at the clock or the machine: same plan, same bytes.
//!
//! [`document`] is the contract (JSON, and the same as YAML); [`table`] is for a person at three in the morning.

pub(crate) mod document;
pub(crate) mod table;
pub(crate) mod workload;

use engine::input::PlanningInput;
use engine::model::Pod;
use engine::plan::{Plan, PlanReport};

/// What is rendered: the plan, the input that its indices point into, the reasons, and all notes.
pub(crate) struct Rendering<'r> {
    /// What the plan was made from.
    pub(crate) input: &'r PlanningInput,
    /// The plan.
    pub(crate) plan: &'r Plan,
    /// Its reasons and costs.
    pub(crate) report: &'r PlanReport,
    /// Notes of reading and of planning, sorted.
    pub(crate) notes: &'r [String],
}

impl<'r> Rendering<'r> {
    /// The pod with this index.
    fn pod(&self, index: u32) -> &'r Pod {
        &self.input.pods[index as usize]
    }

    /// `namespace/name` of the pod with this index.
    fn pod_name(&self, index: u32) -> String {
        let pod = self.pod(index);
        format!("{}/{}", pod.namespace, pod.name)
    }
}
