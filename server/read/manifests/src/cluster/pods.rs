//! Pods of the input.

use model::eviction_cost::stated_cost;
use model::removal::DoNotDisrupt;
use model::{NodeName, Timestamp};

use super::admission::Admission;
use super::metadata::{Metadata, annotation, do_not_disrupt};
use crate::Cursor;
use crate::inventory::Object;
use crate::pod::PodSpec;

#[derive(Debug)]
pub struct PodObject {
    /// Name, labels, owner and times.
    pub meta: Metadata,
    /// The fields of `spec` that scheduling uses.
    pub spec: PodSpec,
    /// `status.phase` is Succeeded or Failed: the pod occupies no capacity.
    pub finished: bool,
    /// `status.phase` is Succeeded.
    pub succeeded: bool,
    /// `status.nominatedNodeName`.
    pub nominated: Option<NodeName>,
    /// The condition Ready is True. As for the API server, a pod without the condition is not ready.
    pub ready: bool,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict` is `"false"`.
    pub unsafe_to_evict: bool,
    /// `karpenter.sh/disruption-cost`, else `controller.kubernetes.io/pod-deletion-cost`; 0 if neither can be read.
    pub stated_cost: i32,
    /// The pod is the mirror of a static pod.
    pub mirror: bool,
    /// An API server has created the pod, and with it applied what admission adds.
    pub is_created: bool,
}

impl PodObject {
    /// Reads the pod at `at`. Containers of a pod that was never created have the default requests of its namespace.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>, admission: &Admission) -> Self {
        let meta = Metadata::read(object, at);
        let status = at.at("status");
        let is_created = meta.created.is_some() || at.at("metadata").at("uid").exists() || status.exists();
        let spec = match is_created {
            true => PodSpec::read_beside(&at.at("spec"), Some(&status)),
            false => PodSpec::read_template(&at.at("spec"), admission.default_requests(&meta.namespace)),
        };
        let phase = status.at("phase").str().unwrap_or("Pending");
        let mirror = meta.owned_by("Node").is_some() || annotation(at, "kubernetes.io/config.mirror").is_some();
        Self {
            spec,
            is_created,
            finished: matches!(phase, "Succeeded" | "Failed"),
            succeeded: phase == "Succeeded",
            nominated: status.at("nominatedNodeName").text().filter(|name| !name.is_empty()).map(NodeName::from),
            ready: is_ready(&status),
            started: status.at("startTime").timestamp(),
            do_not_disrupt: do_not_disrupt(at),
            unsafe_to_evict: annotation(at, "cluster-autoscaler.kubernetes.io/safe-to-evict") == Some("false"),
            stated_cost: stated_cost(|key| annotation(at, key)),
            mirror,
            meta,
        }
    }

    /// Whether the pod runs or will run: it is neither finished nor terminating.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.finished && !self.meta.deleting
    }

    /// Whether another node must accept the pod when its own is removed (Karpenter: reschedulable
    /// pods).
    #[must_use]
    pub fn is_movable(&self) -> bool {
        let returns = self.is_active() || (!self.finished && self.meta.owned_by("StatefulSet").is_some());
        returns && self.meta.owned_by("DaemonSet").is_none() && !self.mirror
    }
}

fn is_ready(status: &Cursor<'_>) -> bool {
    let conditions = status.at("conditions").list();
    let ready = conditions.iter().find(|condition| condition.at("type").str() == Some("Ready"));
    ready.is_some_and(|condition| condition.at("status").str() == Some("True"))
}
