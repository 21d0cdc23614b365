//! Nodes, and the attach limits of their CSI drivers.

use model::drain::{DRAIN, RecordedDrain};
use model::labels::HOSTNAME;
use model::removal::DoNotDisrupt;
use model::{ClaimName, ProviderId, Resources, Taint, Text, Timestamp};

use super::metadata::{Metadata, annotation, do_not_disrupt, with_canonical_keys};
use crate::Cursor;
use crate::inventory::Object;
use crate::karpenter::conditions::Conditions;
use crate::pod::tolerations;

/// What is read of the reason of a drain; those of this program are a sentence or two.
const MAX_DRAIN_REASON_CHARS: usize = 500;

#[derive(Debug)]
pub struct NodeObject {
    /// Name, labels (with canonical keys and the host name) and times.
    pub meta: Metadata,
    pub provider_id: Option<ProviderId>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    /// `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// `karpenter.sh/do-not-repair` is `"true"`.
    pub do_not_repair: bool,
    pub drain: Option<RecordedDrain>,
    pub conditions: Conditions,
    pub allocatable: Resources,
    pub capacity: Resources,
}

impl NodeObject {
    /// Reads the node at `at`.
    #[must_use]
    pub fn read(object: &Object, at: &Cursor<'_>) -> Self {
        let mut meta = Metadata::read(object, at);
        meta.labels = with_canonical_keys(meta.labels);
        meta.labels.entry(HOSTNAME.into()).or_insert_with(|| object.name.clone());
        let (spec, status) = (at.at("spec"), at.at("status"));
        Self {
            meta,
            provider_id: spec.at("providerID").text().filter(|id| !id.is_empty()).map(ProviderId::from),
            taints: tolerations::taints(&spec.at("taints")),
            unschedulable: spec.at("unschedulable").bool().unwrap_or(false),
            do_not_disrupt: do_not_disrupt(at),
            do_not_repair: annotation(at, "karpenter.sh/do-not-repair") == Some("true"),
            drain: annotation(at, DRAIN).and_then(recorded_drain),
            conditions: Conditions::read(&status.at("conditions")),
            allocatable: status.at("allocatable").resources(),
            capacity: status.at("capacity").resources(),
        }
    }
}

/// The drain that the annotation [`DRAIN`] of a Node with this value records; `None` when it names no NodeClaim. A deadline
/// that cannot be read is none: the pods get more time, not less.
#[must_use]
pub fn recorded_drain(value: &str) -> Option<RecordedDrain> {
    let terms: serde_json::Value = serde_json::from_str(value).ok()?;
    let claim = terms.get("claim")?.as_str().filter(|claim| !claim.is_empty())?;
    let deadline = terms.get("forceAtMs").and_then(serde_json::Value::as_i64).filter(|at| *at != 0);
    let reason = terms.get("reason").and_then(serde_json::Value::as_str).unwrap_or_default();
    Some(RecordedDrain {
        claim: ClaimName::from(claim),
        deadline: deadline.map(Timestamp::from_millis),
        reason: reason.chars().take(MAX_DRAIN_REASON_CHARS).collect::<String>().into(),
    })
}

/// (driver, volumes) of the CSINode at `at`, sorted. A driver without a count has no limit.
#[must_use]
pub fn attach_limits(at: &Cursor<'_>) -> Vec<(Text, i64)> {
    let read = |driver: &Cursor<'_>| {
        let name: Text = driver.at("name").required_str()?.into();
        Some((name, driver.at("allocatable").at("count").int_within(0, i64::from(i32::MAX))?))
    };
    let mut limits: Vec<(Text, i64)> = at.at("spec").at("drivers").list().iter().filter_map(read).collect();
    limits.sort();
    limits
}
