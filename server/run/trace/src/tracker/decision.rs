//! A decision that is followed until its machines are ready and its removals are done.

use controller::Decision;
use model::{Text, Timestamp};

use super::pending_pods::{PendingPod, pod_attributes};
use crate::context::SpanContext;
use crate::span::{Attribute, Kind, Span, Value, attribute, count};

#[derive(Debug)]
pub(super) struct TracedDecision {
    root: SpanContext,
    /// When it began; `None` for one that an earlier owner of the cluster follows from its beginning.
    start: Option<Timestamp>,
    /// End of its last span.
    end: Timestamp,
    attributes: Vec<Attribute>,
    machines: usize,
    records: u32,
    /// UID of its first pod, and the span of its observation.
    first_pod: Option<(Text, SpanContext)>,
}

impl TracedDecision {
    /// The decision, and its spans until it was made.
    pub(super) fn new(
        root: SpanContext,
        decision: &Decision,
        mut attributes: Vec<Attribute>,
        first_pod: Option<PendingPod>,
        machines: usize,
    ) -> (Self, Vec<Span>) {
        let spans = spans_until_made(&root, decision, &attributes, first_pod.as_ref());
        let observe = root.child("observe", "");
        attributes.extend(attributes_of(decision));
        let start = spans.iter().map(|span| span.start).min().unwrap_or(decision.at);
        let traced = Self {
            root,
            start: Some(start),
            end: decision.at,
            attributes,
            machines,
            records: 0,
            first_pod: first_pod.map(|pod| (pod.uid, observe)),
        };
        (traced, spans)
    }

    /// A decision whose beginning an earlier owner of the cluster has traced.
    pub(super) fn of_an_earlier_owner(root: SpanContext) -> Self {
        let attributes = Vec::new();
        Self { root, start: None, end: Timestamp::default(), attributes, machines: 0, records: 0, first_pod: None }
    }

    pub(super) fn root(&self) -> SpanContext {
        self.root
    }

    /// Counts a try of its record, from 1.
    pub(super) fn count_record(&mut self) -> u32 {
        self.records += 1;
        self.records
    }

    pub(super) fn take_first_pod(&mut self) -> Option<(Text, SpanContext)> {
        self.first_pod.take()
    }

    pub(super) fn add_machine(&mut self) {
        self.machines += 1;
    }

    /// A machine is not followed any more; returns how many still are.
    pub(super) fn remove_machine(&mut self) -> usize {
        self.machines = self.machines.saturating_sub(1);
        self.machines
    }

    /// A span of it has ended.
    pub(super) fn extend_to(&mut self, end: Timestamp) {
        self.end = self.end.max(end);
    }

    /// Its own span, which spans all others.
    pub(super) fn finish(self) -> Option<Span> {
        let start = self.start?;
        let span = Span::part_of(&self.root, self.root, "decision", (start, self.end));
        Some(Span { parent: None, ..span.with_attributes(self.attributes) })
    }
}

fn attributes_of(decision: &Decision) -> Vec<Attribute> {
    let usd_per_hour = Value::Float(decision.new_cost.0 as f64 / 1e6);
    vec![
        attribute("fleetwright.decision.kind", decision.reason.as_str()),
        count("fleetwright.launches", decision.launches.len()),
        count("fleetwright.removals", decision.removals.len()),
        Attribute { key: "fleetwright.price.usd_per_hour".into(), value: usd_per_hour },
    ]
}

fn spans_until_made(
    root: &SpanContext,
    decision: &Decision,
    names: &[Attribute],
    first_pod: Option<&PendingPod>,
) -> Vec<Span> {
    let span = |name: &'static str, times| {
        Span::part_of(root, root.child(name, ""), name, times)
            .with_kind(Kind::Internal)
            .with_attributes(names.iter().cloned())
    };
    let observe = first_pod
        .map(|pod| span("observe", (pod.created, pod.arrived)).with_attributes(pod_attributes(&pod.key, &pod.uid)));
    let due = decision.due.min(decision.at);
    let opened = decision.basis.as_ref().and_then(|basis| basis.opened);
    let gather = opened.map(|opened| span("gather", (opened, due)));
    observe.into_iter().chain(gather).chain([span("plan", (due, decision.at))]).collect()
}
