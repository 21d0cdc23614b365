//! Drains a node: taints it, evicts its pods in the order of [`eviction_order`], waits for its
//! volumes.
//!
//! A drain needs no server: its deadlines are absolute, and its progress is in the cluster (the
//! taint, the conditions of the claim, the pods' deletion timestamps). The parameters are stored in
//! an annotation of the Node ([`DRAIN_ANNOTATION`]), so that the next leader resumes the drain
//! without a server ([`resume_drain`]).

pub(crate) mod eviction_order;
pub(crate) mod node_pods;
pub(crate) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent::Done;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::admission::{Admission, Rank, admit_claim, stale_instruction};
use super::attempt::Attempt;
use super::claim::write_status;
use super::event::{EventRecorder, EventSpec};
use super::event_reason::EventReason;
use super::guard::{RemovalGuard, RemovalTarget, check_forced_deletion, check_removal, owns};
use crate::api::Api;
use crate::conditions::Conditions;
use crate::error::{ApiError, ErrorKind, ok_if_not_found};
use crate::fields::{list_at, text_at};
use crate::object_cache::ObjectCache;
use crate::resource::{NODE, NODE_CLAIM, POD};
use crate::timestamps::now_ms;
use eviction_order::{DISRUPTED, DrainStep, NodePod};
use node_pods::NodePods;
use volumes::Attachments;

/// Interval at which the pods are examined (Karpenter: drain retry).
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum duration of a drain, also without pods: the scheduler may be binding a pod that it
/// placed before it observed the taint (Karpenter: minimum drain time).
const MIN_DRAIN_MS: i64 = 5_000;
/// First and longest delay after a rejected eviction (Karpenter: eviction queue).
const EVICTION_BACKOFF_MS: (i64, i64) = (100, 10_000);
/// Minimum delay between evictions when the API server is busy.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Evictions that a trace names (protocol: at most 128 events of a span).
const MAX_EVICTION_EVENTS: usize = 128;

/// Annotation of a Node that is drained: the parameters of the drain, as JSON.
pub(crate) const DRAIN_ANNOTATION: &str = "fleetwright.dev/drain";

/// The parameters of a drain, as annotated on the Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DrainAnnotation {
    claim: String,
    rank: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    force_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    provider_id: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    interruption: bool,
}

/// Nodes whose drain a server requested since this process started. A resumed drain of one of them
/// ends in favour of the requested one.
#[derive(Debug, Default)]
struct ServerDrains(Mutex<BTreeSet<String>>);

impl ServerDrains {
    fn insert_node(&self, node: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned());
    }

    fn contains_node(&self, node: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }
}

/// What the drains of a cluster share.
#[derive(Debug, Default)]
pub(crate) struct DrainState {
    server_drains: ServerDrains,
    node_pods: NodePods,
    attachments: Attachments,
}

/// The parts of the agent that a drain uses.
#[derive(Clone, Copy)]
pub(super) struct DrainContext<'c> {
    pub(super) api: &'c Api,
    pub(super) cache: &'c ObjectCache,
    pub(super) guard: &'c RemovalGuard,
    pub(super) events: &'c EventRecorder,
    pub(super) drains: &'c DrainState,
}

/// Resumes a drain from the annotation of its Node, unless a server requests one.
pub(super) async fn resume_drain(context: DrainContext<'_>, node: &str, note: &str) {
    let Some((rank, action)) = decode_annotation(node, note) else {
        warn!(node, note, "cannot parse the drain annotation");
        return;
    };
    info!(node, reason = action.reason, "resuming drain");
    while !context.drains.server_drains.contains_node(node) {
        match run_drain(context, rank, &action, true).await {
            Err(error) if error.is_transient() => {
                warn!(node, %error, "drain attempt failed; retrying");
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Err(error) => return warn!(node, %error, "drain abandoned"),
            Ok(_) => return,
        }
    }
}

fn decode_annotation(node: &str, note: &str) -> Option<(Rank, v1::DrainNode)> {
    let note: DrainAnnotation = serde_json::from_str(note).ok()?;
    let action = v1::DrainNode {
        node_claim: note.claim,
        node: node.to_owned(),
        force_at_ms: note.force_at_ms,
        reason: note.reason,
        provider_id: note.provider_id,
        interruption: note.interruption,
        ..v1::DrainNode::default()
    };
    Some((Rank::parse(&note.rank)?, action))
}

fn encode_annotation(rank: Rank, action: &v1::DrainNode) -> String {
    let note = DrainAnnotation {
        claim: action.node_claim.clone(),
        rank: rank.to_annotation(),
        reason: action.reason.clone(),
        force_at_ms: action.force_at_ms,
        provider_id: action.provider_id.clone(),
        interruption: action.interruption,
    };
    json!(note).to_string()
}

/// State of a drain between two polls.
#[derive(Debug, Default)]
struct EvictionBackoff {
    /// Pods whose eviction was rejected: the time of the next attempt, and the present delay.
    refused: BTreeMap<String, (i64, i64)>,
    /// Evicted pods, for the trace.
    evicted: Vec<v1::AgentSpanEvent>,
}

/// Drains a node as requested by a server.
pub(super) async fn drain_node(context: DrainContext<'_>, rank: Rank, action: &v1::DrainNode) -> Attempt {
    context.drains.server_drains.insert_node(&action.node);
    run_drain(context, rank, action, false).await
}

/// Drains a node from its present state. A resumed drain follows the Node's annotation, and ends as
/// soon as a server requests a drain of the same Node.
async fn run_drain(context: DrainContext<'_>, rank: Rank, action: &v1::DrainNode, resumed: bool) -> Attempt {
    let claim: Option<Value> = ok_if_not_found(context.api.get(&NODE_CLAIM.one("", &action.node_claim)).await)?;
    let node: Option<Value> = match action.node.as_str() {
        "" => None,
        name => ok_if_not_found(context.api.get(&NODE.one("", name)).await)?,
    };
    if let Some(node) = &node
        && let Some(done) = guard_refusal(context.guard, action, node, claim.as_ref(), resumed)?
    {
        return Ok(done);
    }
    if let Some(node) = &node
        && let Some(why) = emptiness_violation(context.api, action, node).await?
    {
        return Ok(Done::failed(v1::Outcome::PreconditionFailed, why));
    }
    let claim = match claim {
        // A kubelet may write the annotation, so it does not affect later instructions on the
        // claim.
        Some(claim) if resumed => match Rank::of_claim(&claim) {
            newer if newer > rank => return Ok(stale_instruction(newer, &action.node_claim)),
            _ => Some(claim),
        },
        Some(claim) => match admit_claim(context.api, rank, claim).await? {
            Admission::Admitted(claim) => Some(claim),
            Admission::Refused(done) => return Ok(done),
        },
        // A node without a claim is drained too.
        None => None,
    };
    let Some(node) = node else { return Ok(Done::ok()) };
    let Some(node) = taint_node(context.api, node, &encode_annotation(rank, action)).await? else {
        return Ok(Done::ok());
    };
    let drain = Drain::new(context, claim, node, action, resumed);
    drain.write_condition("Drained", "Unknown", "Draining", "").await?;
    let begun = now_ms();
    let Some(events) = drain.evict_pods(begun).await? else { return Ok(Done::ok()) };
    drain.write_condition("Drained", "True", "Drained", "").await?;
    drain.await_volumes().await?;
    info!(node = action.node, reason = action.reason, "node drained");
    Ok(Done { events, ..Done::ok() })
}

/// The result of the agent's own limits for this drain; `None` when they allow it.
fn guard_refusal(
    guard: &RemovalGuard,
    action: &v1::DrainNode,
    node: &Value,
    claim: Option<&Value>,
    resumed: bool,
) -> Result<Option<Done>, ApiError> {
    let target = RemovalTarget { claim: &action.node_claim, provider_id: &action.provider_id };
    if let Some(why) = check_removal(node, claim, target) {
        return Ok(Some(Done::failed(v1::Outcome::NotFound, why)));
    }
    if resumed && claim.is_some_and(|claim| !owns(claim, node)) {
        let why = format!(
            "the drain annotation of Node {} names NodeClaim {}, which does not own the Node",
            action.node, action.node_claim
        );
        return Ok(Some(Done::failed(v1::Outcome::Failed, why)));
    }
    let recorded = recorded_drain(node);
    let deadline = recorded.as_ref().and_then(|(_, recorded)| recorded.force_at_ms);
    if let Some(why) = check_forced_deletion(action, deadline, claim, now_ms()).filter(|_| !resumed) {
        return Ok(Some(Done::failed(v1::Outcome::Failed, why)));
    }
    if !action.interruption && recorded.is_none() {
        guard.count_removal(node)?;
    }
    Ok(None)
}

/// Why a Node that is drained as empty is not empty; `None` when it is, or when emptiness is not
/// required. The server decided by the watch, which may lag behind the API server. A drain in
/// progress continues: its Node was tainted while it was empty.
async fn emptiness_violation(api: &Api, action: &v1::DrainNode, node: &Value) -> Result<Option<String>, ApiError> {
    if !action.only_if_empty || recorded_drain(node).is_some() {
        return Ok(None);
    }
    let listed = node_pods::list_node_pods(api, &action.node).await?;
    let would_move = |pod: &&NodePod| !pod.exempt && !pod.from_daemon_set && pod.deletion_ms.is_none();
    let movable: Vec<&NodePod> = listed.iter().filter(would_move).collect();
    Ok(movable.first().map(|pod| {
        let (count, node) = (movable.len(), &action.node);
        format!("the API server lists pods to move on Node {node}: {count}, such as {}/{}", pod.namespace, pod.name)
    }))
}

/// The drain recorded in a Node's annotation.
pub(super) fn recorded_drain(node: &Value) -> Option<(Rank, v1::DrainNode)> {
    let note = node.pointer("/metadata/annotations").and_then(|annotations| annotations.get(DRAIN_ANNOTATION))?;
    decode_annotation(text_at(node, "/metadata/name"), note.as_str()?)
}

/// Taints a node that was just read against new pods; `None` when the Node does not exist any more.
async fn taint_node(api: &Api, node: Value, note: &str) -> Result<Option<Value>, ApiError> {
    let path = NODE.one("", text_at(&node, "/metadata/name"));
    match taint_patch(&node, note) {
        Some(patch) => ok_if_not_found(api.patch(&path, &patch).await),
        None => Ok(Some(node)),
    }
}

/// The patch that excludes a node: the taint, the label that removes it from load balancers, and
/// the drain annotation.
fn taint_patch(node: &Value, note: &str) -> Option<Value> {
    const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    let wanted = json!({ "key": DISRUPTED, "effect": "NoSchedule" });
    let mut taints = list_at(node, "/spec/taints");
    let tainted = taints.iter().any(|taint| taint["key"] == wanted["key"] && taint["effect"] == wanted["effect"]);
    let excluded = node.pointer("/metadata/labels").and_then(|labels| labels.get(EXCLUDED)).is_some();
    let resumed = node.pointer("/metadata/annotations").and_then(|annotations| annotations.get(DRAIN_ANNOTATION));
    if tainted && excluded && resumed.is_some_and(|resumed| resumed == note) {
        return None;
    }
    // Other effects of the same key are removed (Karpenter: node termination).
    taints.retain(|taint| taint["key"] != wanted["key"]);
    taints.push(wanted);
    Some(json!({
        "metadata": {
            "resourceVersion": node.pointer("/metadata/resourceVersion"),
            "labels": { EXCLUDED: "karpenter" },
            "annotations": { DRAIN_ANNOTATION: note },
        },
        "spec": { "taints": taints },
    }))
}

fn eviction_event(pod: &NodePod) -> v1::AgentSpanEvent {
    let pair = |key: &str, value: &str| v1::StringPair { key: key.to_owned(), value: value.to_owned() };
    let attributes = vec![
        pair("k8s.namespace.name", &pod.namespace),
        pair("k8s.pod.name", &pod.name),
        pair("k8s.pod.uid", &pod.uid),
    ];
    v1::AgentSpanEvent { name: "pod evicted".to_owned(), at_ms: now_ms(), attributes }
}

/// A drain whose node is tainted.
pub(super) struct Drain<'d> {
    context: DrainContext<'d>,
    claim: Option<Value>,
    node: Value,
    action: &'d v1::DrainNode,
    /// Whether it was resumed from the annotation, and ends when a server requests a drain of the
    /// same node.
    resumed: bool,
}

impl<'d> Drain<'d> {
    pub(super) fn new(
        context: DrainContext<'d>,
        claim: Option<Value>,
        node: Value,
        action: &'d v1::DrainNode,
        resumed: bool,
    ) -> Self {
        Self { context, claim, node, action, resumed }
    }

    /// Evicts the pods. Returns the evictions if the node still exists and this drain must complete it. The
    /// cache is polled, because a request every second would cost the API server more than the
    /// drain; before completion the pods are listed once, since the cache may lag.
    async fn evict_pods(&self, begun: i64) -> Result<Option<Vec<v1::AgentSpanEvent>>, ApiError> {
        let mut backoff = EvictionBackoff::default();
        let handle = self.context.drains.node_pods.register_drain(&self.action.node);
        let mut relist_backoff = Backoff::new(begun.unsigned_abs());
        loop {
            if self.resumed && self.context.drains.server_drains.contains_node(&self.action.node) {
                return Ok(None);
            }
            let machine = text_at(&self.node, "/spec/providerID");
            if !self.context.cache.has_node(&self.action.node, machine) && self.is_gone().await? {
                return Ok(None);
            }
            let now = now_ms();
            let pods = handle.pods(self.context.cache, now);
            let step = eviction_order::plan_step(&pods, now, self.action.force_at_ms);
            if step.remaining.is_empty() && now - begun >= MIN_DRAIN_MS {
                let listed = node_pods::list_node_pods(self.context.api, &self.action.node).await?;
                if eviction_order::plan_step(&listed, now, self.action.force_at_ms).remaining.is_empty() {
                    return Ok(Some(backoff.evicted));
                }
                tokio::time::sleep(Duration::from_millis(relist_backoff.next_wait_ms())).await;
            }
            self.apply_step(&step, &mut backoff).await?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether the node, identified by the UID that was tainted, does not exist any more.
    async fn is_gone(&self) -> Result<bool, ApiError> {
        let listed: Option<Value> = ok_if_not_found(self.context.api.get(&NODE.one("", &self.action.node)).await)?;
        Ok(listed.is_none_or(|listed| text_at(&listed, "/metadata/uid") != text_at(&self.node, "/metadata/uid")))
    }

    async fn apply_step(&self, step: &DrainStep<'_>, backoff: &mut EvictionBackoff) -> Result<(), ApiError> {
        for (pod, seconds) in &step.delete {
            self.delete_pod(pod, *seconds).await?;
        }
        for pod in &step.evict {
            let waits = backoff.refused.get(&pod.uid).is_some_and(|(until, _)| now_ms() < *until);
            if !waits {
                self.evict_pod(pod, backoff).await?;
            }
        }
        Ok(())
    }

    async fn evict_pod(&self, pod: &NodePod, backoff: &mut EvictionBackoff) -> Result<(), ApiError> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod.name, "namespace": pod.namespace },
            "deleteOptions": { "preconditions": { "uid": pod.uid } },
        });
        let path = format!("{}/eviction", POD.one(&pod.namespace, &pod.name));
        let error = match self.context.api.post(&path, &eviction).await {
            Ok(_) => {
                backoff.refused.remove(&pod.uid);
                if backoff.evicted.len() < MAX_EVICTION_EVENTS {
                    backoff.evicted.push(eviction_event(pod));
                }
                return self.record_pod_event(pod, EventReason::Evicted, "Evicted pod").await;
            }
            Err(error) => error,
        };
        match error.kind {
            // The pod does not exist, or another pod has its name.
            ErrorKind::NotFound | ErrorKind::Conflict => Ok(()),
            ErrorKind::TooMany if !error.budget_refused && error.retry_after.is_some() => {
                tokio::time::sleep(error.retry_after.unwrap_or(BUSY_WAIT)).await;
                Ok(())
            }
            // Several budgets cover the pod: the API server answers 500 until the budgets are
            // changed.
            ErrorKind::TooMany | ErrorKind::Server | ErrorKind::Invalid => {
                let (first, longest) = EVICTION_BACKOFF_MS;
                let wait = backoff.refused.get(&pod.uid).map_or(first, |(_, last)| (2 * last).min(longest));
                backoff.refused.insert(pod.uid.clone(), (now_ms() + wait, wait));
                let note = format!("Cannot evict pod {}/{}: {}", pod.namespace, pod.name, error.message);
                self.record_node_event(EventReason::FailedDraining, &note).await
            }
            _ => Err(error),
        }
    }

    async fn delete_pod(&self, pod: &NodePod, seconds: i64) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": seconds, "preconditions": { "uid": pod.uid },
        });
        match self.context.api.delete(&POD.one(&pod.namespace, &pod.name), &options).await {
            Ok(_) => {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    node = self.action.node,
                    seconds,
                    "pod deleted at the drain deadline"
                );
                let what = "Deleted pod, because its node goes at its deadline";
                self.record_pod_event(pod, EventReason::Disrupted, what).await
            }
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits until the volumes of evicted pods are detached. After the deadline the drain completes
    /// without.
    pub(super) async fn await_volumes(&self) -> Result<(), ApiError> {
        let DrainState { node_pods, attachments, .. } = self.context.drains;
        let handle = node_pods.register_drain(&self.action.node);
        loop {
            let pods = handle.pods(self.context.cache, now_ms());
            let attached =
                attachments.attached_volumes(self.context.api, self.context.cache, &self.action.node, &pods).await?;
            if attached.is_empty() {
                return self.write_condition("VolumesDetached", "True", "VolumesDetached", "").await;
            }
            if self.action.force_at_ms.is_some_and(|deadline| now_ms() >= deadline) {
                return self.write_condition("VolumesDetached", "False", "TerminationGracePeriodElapsed", "").await;
            }
            let note = format!("Awaiting detachment of {}", attached.join(", "));
            self.write_condition("VolumesDetached", "Unknown", "AwaitingVolumeDetachment", &note).await?;
            self.record_node_event(EventReason::AwaitingVolumeDetachment, &self.with_reason(&note)).await?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Writes a condition of the claim, unless it has that status. Does nothing without a claim.
    async fn write_condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Result<(), ApiError> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let path = NODE_CLAIM.one("", text_at(claim, "/metadata/name"));
        let Some(current) = ok_if_not_found(self.context.api.get::<Value>(&path).await)? else { return Ok(()) };
        let listed = Conditions::from_object(&current, String::new());
        if listed.status(kind) == status || (kind == "Drained" && listed.status(kind) == "True") {
            return Ok(());
        }
        let written = write_status(self.context.api, &current, json!({}), |conditions| {
            conditions.set(kind, status, reason, message);
        });
        ok_if_not_found(written.await).map(drop)
    }

    /// The sentence and why the node is drained, with the decision and the price as the server states them.
    fn with_reason(&self, sentence: &str) -> String {
        let reason = &self.action.reason;
        if reason.is_empty() { sentence.to_owned() } else { format!("{sentence}: {reason}") }
    }

    async fn record_pod_event(&self, pod: &NodePod, reason: EventReason, what: &str) -> Result<(), ApiError> {
        let spec = EventSpec {
            resource: POD.kind,
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            kind: reason.kind().to_owned(),
            reason: reason.as_str().to_owned(),
            note: self.with_reason(what),
        };
        self.record_event(&spec, &pod.uid).await
    }

    async fn record_node_event(&self, reason: EventReason, note: &str) -> Result<(), ApiError> {
        let spec = EventSpec {
            resource: NODE.kind,
            namespace: String::new(),
            name: self.action.node.clone(),
            kind: reason.kind().to_owned(),
            reason: reason.as_str().to_owned(),
            note: note.to_owned(),
        };
        self.record_event(&spec, text_at(&self.node, "/metadata/uid")).await
    }

    /// A failed write of an event does not delay the drain.
    async fn record_event(&self, spec: &EventSpec, uid: &str) -> Result<(), ApiError> {
        if let Err(error) = self.context.events.record_event(spec, uid).await {
            warn!(%error, "cannot write event");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_barred_once_and_other_effects_of_the_taint_go() {
        let node = json!({
            "metadata": { "resourceVersion": "3", "labels": { "a": "b" } },
            "spec": { "taints": [{ "key": DISRUPTED, "effect": "NoExecute" }, { "key": "gpu", "effect": "NoSchedule" }] },
        });
        let patch = taint_patch(&node, "order").unwrap();
        assert_eq!(
            patch["spec"]["taints"],
            json!([{ "key": "gpu", "effect": "NoSchedule" }, { "key": DISRUPTED, "effect": "NoSchedule" }])
        );
        let mut tainted = node;
        tainted["spec"]["taints"] = patch["spec"]["taints"].clone();
        tainted["metadata"]["labels"] = patch["metadata"]["labels"].clone();
        tainted["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(taint_patch(&tainted, "order"), None);
        assert!(taint_patch(&tainted, "another order").is_some());
    }

    #[test]
    fn an_order_is_read_back_from_its_note() {
        let action = |force_at_ms| v1::DrainNode {
            node_claim: "general-7".into(),
            node: "n".into(),
            force_at_ms,
            reason: "empty".into(),
            provider_id: "aws:///z/i-1".into(),
            interruption: force_at_ms.is_some(),
            ..v1::DrainNode::default()
        };
        let rank = Rank::parse("3/9").unwrap();
        for action in [action(None), action(Some(5))] {
            assert_eq!(decode_annotation("n", &encode_annotation(rank, &action)), Some((rank, action)));
        }
        assert_eq!(decode_annotation("n", "true"), None);
    }
}
