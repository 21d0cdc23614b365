//! HorizontalPodAutoscalers: the number of replicas of workloads that state none.

use model::Text;

use super::workload::MAX_REPLICAS;
use crate::Cursor;
use crate::inventory::Object;

#[derive(Debug)]
pub struct PodAutoscaler {
    /// Its namespace, which is also that of its target.
    pub namespace: Text,
    pub name: Text,
    /// `spec.scaleTargetRef.kind`.
    pub target_kind: Text,
    /// `spec.scaleTargetRef.name`.
    pub target_name: Text,
    /// `spec.minReplicas`; 1 when it is absent (Kubernetes: HorizontalPodAutoscaler).
    pub min_replicas: i64,
    /// `spec.maxReplicas`.
    pub max_replicas: i64,
}

impl PodAutoscaler {
    /// Reads the autoscaler at `at`; `None` when a required field is missing.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Option<Self> {
        let spec = at.at("spec").required();
        let target = spec.at("scaleTargetRef").required();
        let (kind, name) = (target.at("kind").required_str(), target.at("name").required_str());
        let max_replicas = spec.at("maxReplicas").required().int_within(1, MAX_REPLICAS);
        let min_replicas = spec.at("minReplicas").int_within(0, max_replicas.unwrap_or(MAX_REPLICAS));
        Some(Self {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            target_kind: kind?.into(),
            target_name: name?.into(),
            min_replicas: min_replicas.unwrap_or(1),
            max_replicas: max_replicas?,
        })
    }
}
