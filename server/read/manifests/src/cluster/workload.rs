//! Controllers that create pods: Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets.

use model::{LabelSelector, Labels, Resources, Text};

use super::metadata::Metadata;
use super::storage::ClaimSpec;
use crate::inventory::Object;
use crate::kinds::Kind;
use crate::pod::{PodSpec, tolerations};
use crate::{Cursor, selector, syntax};

/// Maximum number of replicas of one workload.
const MAX_REPLICAS: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub struct Template {
    pub labels: Labels,
    pub spec: PodSpec,
}

impl Template {
    /// Reads the template at `at`, which is required. Containers that state nothing for a resource request what
    /// `defaults` have of it.
    #[must_use]
    pub fn read(at: &Cursor<'_>, defaults: &Resources) -> Self {
        let at = at.clone().required();
        let spec = PodSpec::read_template(&at.at("spec"), defaults);
        Self { labels: syntax::labels(&at.at("metadata").at("labels")), spec }
    }
}

/// A workload whose missing replicas are planned.
#[derive(Debug)]
pub struct Workload {
    /// Deployment, ReplicaSet, StatefulSet or Job.
    pub kind: Kind,
    /// The kind as text.
    pub kind_name: &'static str,
    /// Name, owner and times.
    pub meta: Metadata,
    pub template: Template,
    /// `spec.selector`; `None` for a Job, whose selector is generated.
    pub selector: Option<LabelSelector>,
    /// Number of pods that should run at a time: `spec.replicas`, or `spec.parallelism` of a Job.
    pub replicas: i64,
    /// Whether the manifest states `replicas`; else a HorizontalPodAutoscaler may.
    pub states_replicas: bool,
    /// Progress of a Job; `None` for other kinds.
    pub job: Option<JobProgress>,
    /// `spec.volumeClaimTemplates` of a StatefulSet, by name.
    pub claims: Vec<(Text, ClaimSpec)>,
    /// The first ordinal of a StatefulSet.
    pub first_ordinal: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    pub completions: Option<i64>,
    pub succeeded: i64,
    /// Whether the Job is suspended, complete or failed, and creates no pods.
    pub inactive: bool,
}

impl Workload {
    /// Reads the workload at `at`, whose namespace has these default requests.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>, defaults: &Resources) -> Self {
        let spec = at.at("spec").required();
        let template = Template::read(&spec.at("template"), defaults);
        let job = (object.row.kind == Kind::Job).then(|| progress(at));
        let selector = if job.is_none() { checked_selector(&spec, &template.labels) } else { None };
        let replicas = spec.at(if job.is_some() { "parallelism" } else { "replicas" });
        Self {
            kind: object.row.kind,
            kind_name: object.row.name,
            meta: Metadata::read(object, at),
            template,
            selector,
            replicas: if replicas.exists() { replicas_within(&replicas) } else { 1 },
            states_replicas: replicas.exists(),
            job,
            claims: spec.at("volumeClaimTemplates").list().iter().filter_map(claim_template).collect(),
            first_ordinal: spec.at("ordinals").at("start").int_within(0, i64::from(i32::MAX)).unwrap_or(0),
        }
    }
}

fn replicas_within(at: &Cursor<'_>) -> i64 {
    at.int_within(0, MAX_REPLICAS).unwrap_or(0)
}

fn progress(at: &Cursor<'_>) -> JobProgress {
    let (spec, status) = (at.at("spec"), at.at("status"));
    let ended = |condition: &Cursor<'_>| {
        matches!(condition.at("type").str(), Some("Complete" | "Failed"))
            && condition.at("status").str() == Some("True")
    };
    JobProgress {
        completions: spec.at("completions").int_within(0, i64::from(i32::MAX)),
        succeeded: status.at("succeeded").int_within(0, i64::from(i32::MAX)).unwrap_or(0),
        inactive: spec.at("suspend").bool().unwrap_or(false) || status.at("conditions").list().iter().any(ended),
    }
}

fn claim_template(at: &Cursor<'_>) -> Option<(Text, ClaimSpec)> {
    let name = syntax::dns_subdomain(&at.at("metadata").required().at("name"))?;
    Some((name.into(), ClaimSpec::read(&at.at("spec").required())))
}

/// The selector of a workload. An error is reported unless it selects the pods of the template.
fn checked_selector(spec: &Cursor<'_>, labels: &Labels) -> Option<LabelSelector> {
    let at = spec.at("selector").required();
    let selector = selector::read(&at)?;
    if selector.terms.is_empty() {
        at.error("empty, allowed: labels that select the pods of the template");
    } else if !selector.matches(labels) {
        at.error("does not select the labels of spec.template.metadata.labels; write the same labels in both");
    }
    Some(selector)
}

#[derive(Debug)]
pub struct DaemonObject {
    pub meta: Metadata,
    /// `spec.template`, with the tolerations that the DaemonSet controller adds.
    pub template: Template,
}

impl DaemonObject {
    /// Reads the DaemonSet at `at`, whose namespace has these default requests.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>, defaults: &Resources) -> Self {
        let spec = at.at("spec").required();
        let mut template = Template::read(&spec.at("template"), defaults);
        checked_selector(&spec, &template.labels);
        let host_network = spec.at("template").at("spec").at("hostNetwork").bool().unwrap_or(false);
        template.spec.tolerate(tolerations::of_daemons(host_network));
        Self { meta: Metadata::read(object, at), template }
    }
}

/// A HorizontalPodAutoscaler: the number of replicas of a workload that states none.
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
