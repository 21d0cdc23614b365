//! Pod shapes: manifests of pods, pruned by the agent and parsed by the manifest parser, so that a
//! plan of the server and a plan from captured files agree on what a pod requires.

use std::sync::Arc;

use manifests::pod::{PodSpec, tolerations};
use manifests::{Cursor, ObjectLocation, Problems};
use model::{Labels, PodShape, Text};
use serde_json::{Value, json};

use super::error::DecodeError;

#[derive(Debug)]
pub struct DecodedShape {
    spec: PodSpec,
    priority: i32,
    host_network: bool,
    /// `None` when the shape depends on the pod's labels.
    plain: Option<Arc<PodShape>>,
    problem: Option<Text>,
}

impl DecodedShape {
    /// The shape, when it is the same for all pods.
    #[must_use]
    pub fn plain(&self) -> Option<&Arc<PodShape>> {
        self.plain.as_ref()
    }

    /// Shape of a pod with these labels, which `matchLabelKeys` refer to.
    #[must_use]
    pub(crate) fn for_labels(&self, labels: &Labels) -> PodShape {
        self.spec.shape(labels, self.priority)
    }

    /// Shape of a DaemonSet's pod, with the tolerations that the DaemonSet controller adds.
    #[must_use]
    pub(crate) fn for_daemon(&self, labels: &Labels) -> PodShape {
        let mut spec = self.spec.clone();
        spec.tolerate(tolerations::of_daemons(self.host_network));
        spec.shape(labels, self.priority)
    }

    /// The scheduler of such pods.
    #[must_use]
    pub(crate) fn scheduler(&self) -> &Text {
        &self.spec.scheduler
    }

    /// Reason why such a pod is unschedulable.
    #[must_use]
    pub fn problem(&self) -> Option<&Text> {
        self.problem.as_ref()
    }
}

/// Decodes a pod shape.
///
/// # Errors
/// [`DecodeError::Unreadable`] when the bytes are no JSON. A shape that violates a Kubernetes rule
/// is decoded as far as possible and has a [`problem`](DecodedShape::problem).
pub fn read(content: &[u8]) -> Result<DecodedShape, DecodeError> {
    let mut pod: Value = serde_json::from_slice(content)
        .map_err(|error| DecodeError::Unreadable { object: "pod shape".to_owned(), reason: error.to_string() })?;
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        // A pod has at least one container. Only the partial record of a pod that the agent cannot
        // parse has none; one without requests takes their place.
        spec.entry("containers").or_insert_with(|| json!([{ "name": "c0" }]));
    }
    let problems = Problems::default();
    let site = ObjectLocation { source: "agent".into(), document: 0, object: None, problems: &problems };
    let root = Cursor::root(&pod, &site);
    let spec = PodSpec::read_beside(&root.at("spec"), Some(&root.at("status")));
    let priority = spec.priority.unwrap_or(0);
    let plain = (!spec.depends_on_labels()).then(|| Arc::new(spec.shape(&Labels::new(), priority)));
    let host_network = root.at("spec").at("hostNetwork").bool().unwrap_or(false);
    let broken = problems.into_errors().into_iter().next().map(|error| Text::from(error.message));
    Ok(DecodedShape { problem: spec.invalid.clone().or(broken), spec, priority, host_network, plain })
}

#[cfg(test)]
mod tests;
