//! A NodeClaim that is followed from its decision until its Node is ready and its pods are bound.

use std::collections::BTreeSet;

use cluster::PodRecord;
use controller::{ClaimOrder, DecisionId, Launched};
use model::{NodeName, PodKey, Text, Timestamp};

use super::pending_pods::pod_attributes;
use crate::context::SpanContext;
use crate::span::{Attribute, Span, SpanEvent, attribute, count};

/// Bound pods that are named in a span: OpenTelemetry's default limit of events.
const MAX_POD_EVENTS: usize = 128;

#[derive(Debug)]
pub(super) struct TracedLaunch {
    decision: DecisionId,
    root: SpanContext,
    attributes: Vec<Attribute>,
    since: Timestamp,
    calls: u32,
    launched: Option<Timestamp>,
    registered: Option<Timestamp>,
    /// When its Node was first seen to be Ready.
    node_ready: Option<Timestamp>,
    initialized: bool,
    waiting: BTreeSet<PodKey>,
    bound: Vec<BoundPod>,
}

/// A pod that was planned on the machine and is bound.
#[derive(Debug)]
struct BoundPod {
    key: PodKey,
    uid: Text,
    node: NodeName,
    at: Timestamp,
}

impl TracedLaunch {
    pub(super) fn new(
        decision: DecisionId,
        root: SpanContext,
        names: &[Attribute],
        order: &ClaimOrder,
        pods: &[PodKey],
        since: Timestamp,
    ) -> Self {
        let mut attributes = names.to_vec();
        attributes
            .extend([attribute("fleetwright.nodeclaim", &order.name), attribute("fleetwright.nodepool", &order.pool)]);
        let waiting = pods.iter().cloned().collect();
        Self {
            decision,
            root,
            attributes,
            since,
            calls: 0,
            launched: None,
            registered: None,
            node_ready: None,
            initialized: false,
            waiting,
            bound: Vec::new(),
        }
    }

    pub(super) fn decision(&self) -> DecisionId {
        self.decision
    }

    pub(super) fn root(&self) -> SpanContext {
        self.root
    }

    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// What names the machine, as far as it is known.
    pub(super) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    pub(super) fn launched_at(&self) -> Option<Timestamp> {
        self.launched
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    pub(super) fn waiting_pods(&self) -> impl Iterator<Item = &PodKey> {
        self.waiting.iter()
    }

    /// Counts a call that launches it, from 1.
    pub(super) fn count_call(&mut self) -> u32 {
        self.calls += 1;
        self.calls
    }

    /// Its instance was launched. A call whose answer came late may say so twice.
    pub(super) fn set_instance(&mut self, launched: &Launched, now: Timestamp) {
        if self.launched.is_none() {
            self.launched = Some(now);
            self.attributes.extend(instance_attributes(launched));
        }
    }

    pub(super) fn set_node(&mut self, node: &NodeName) {
        if !self.attributes.iter().any(|known| known.key == "k8s.node.name") {
            self.attributes.push(attribute("k8s.node.name", node));
        }
    }

    /// Its Node is registered; returns the span until it was Ready, if it is.
    pub(super) fn set_registered(&mut self, now: Timestamp) -> Option<Span> {
        if self.registered.is_some() {
            return None;
        }
        self.registered = Some(now);
        self.ready_span()
    }

    /// Its Node is Ready; returns the span from the registration until then, if it is registered.
    pub(super) fn set_node_ready(&mut self, now: Timestamp) -> Option<Span> {
        if self.node_ready.is_some() {
            return None;
        }
        self.node_ready = Some(now);
        self.ready_span()
    }

    pub(super) fn set_initialized(&mut self) {
        self.initialized = true;
    }

    /// When its Node was registered and Ready.
    fn ready_at(&self) -> Option<Timestamp> {
        Some(self.registered?.max(self.node_ready?))
    }

    fn ready_span(&self) -> Option<Span> {
        let context = self.root.child("ready", self.claim());
        let span = Span::part_of(&self.root, context, "ready", (self.registered?, self.ready_at()?));
        Some(span.with_attributes(self.attributes.iter().cloned()))
    }

    /// A pod that was planned on it is bound, or will never be.
    pub(super) fn settle_pod(&mut self, key: &PodKey, pod: Option<&PodRecord>, now: Timestamp) {
        self.waiting.remove(key);
        if let Some(PodRecord { key, uid, node: Some(node), .. }) = pod {
            self.bound.push(BoundPod { key: key.clone(), uid: uid.clone(), node: node.clone(), at: now });
        }
    }

    /// Whether nothing more of it is awaited.
    pub(super) fn is_complete(&self) -> bool {
        self.initialized && self.ready_at().is_some() && self.waiting.is_empty()
    }

    /// From when its Node was Ready until the last of its pods was bound; `None` when none was. Pods and Nodes arrive
    /// in messages of their own: a pod that was seen first was bound no earlier.
    pub(super) fn bound_span(&self) -> Option<Span> {
        let (first, last) = (self.bound.first()?, self.bound.last()?);
        let start = self.ready_at().unwrap_or(first.at);
        let context = self.root.child("bound", self.claim());
        let events = self.bound.iter().take(MAX_POD_EVENTS).map(bound_event).collect();
        let span = Span::part_of(&self.root, context, "bound", (start, last.at))
            .with_attributes(self.attributes.iter().cloned())
            .with_attributes(pod_attributes(&last.key, &last.uid))
            .with_attributes([
                count("fleetwright.pods.bound", self.bound.len()),
                count("fleetwright.pods.not_bound", self.waiting.len()),
            ]);
        Some(Span { events, ..span })
    }

    fn claim(&self) -> &str {
        self.attributes.iter().find_map(|known| known.as_text("fleetwright.nodeclaim")).unwrap_or_default()
    }
}

fn bound_event(pod: &BoundPod) -> SpanEvent {
    let attributes = pod_attributes(&pod.key, &pod.uid).into_iter().chain([attribute("k8s.node.name", &pod.node)]);
    SpanEvent { name: "pod bound".into(), at: pod.at, attributes: attributes.collect() }
}

/// The attributes that name an instance.
pub(super) fn instance_attributes(launched: &Launched) -> [Attribute; 4] {
    [
        attribute("host.id", instance_id(&launched.provider_id)),
        attribute("host.type", &launched.instance_type),
        attribute("cloud.availability_zone", &launched.zone),
        attribute("fleetwright.capacity_type", launched.capacity_type.as_str()),
    ]
}

/// Id of the instance: the last part of a provider id such as `aws:///<zone>/<instance id>`.
pub(super) fn instance_id(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or(provider_id)
}
