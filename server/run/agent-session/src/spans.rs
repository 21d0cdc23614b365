//! Spans that an agent sends: those of instructions of its own cluster, and no others.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use controller::InstructionId;
use fleetwright_proto::v1;
use model::{ClusterName, Millis, Timestamp};
use trace::{Attribute, InstructionContext, Kind, Span, SpanContext, SpanEvent, SpanId, TraceId, Value};

/// Instructions whose contexts are kept for each cluster, about 200 bytes each. Spans of older ones are refused.
const MAX_CONTEXTS: usize = 4_096;

/// Limits of one message and of one span, as the protocol states them.
const MAX_SPANS: usize = 64;
const MAX_ATTRIBUTES: usize = 16;
const MAX_EVENTS: usize = 128;
const MAX_TEXT_BYTES: usize = 256;

/// Largest difference of a span's times from the server's clock. A drain may last for hours, and the clocks differ.
const MAX_AGE: Millis = Millis::from_mins(24 * 60);
const MAX_AHEAD: Millis = Millis::from_mins(15);

const NAMES: [&str; 8] = [
    "observe_pod",
    "create_node_claim",
    "mark_launched",
    "register_node",
    "initialize_node",
    "drain_node",
    "delete_node_claim",
    "pod evicted",
];

const KEYS: [&str; 8] = [
    "fleetwright.nodeclaim",
    "fleetwright.instruction",
    "host.id",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.node.uid",
    "k8s.pod.name",
    "k8s.pod.uid",
];

/// The contexts of the instructions that were sent to one cluster.
#[derive(Debug, Default)]
pub(crate) struct SentContexts {
    by_instruction: BTreeMap<InstructionId, InstructionContext>,
    /// The spans that spans of the agent may be part of.
    parents: BTreeSet<SpanContext>,
}

impl SentContexts {
    /// An instruction carries this context, also when it is sent again.
    pub(crate) fn add(&mut self, id: InstructionId, context: InstructionContext) {
        self.parents.extend(spans_of(&context));
        self.by_instruction.entry(id).or_insert(context);
        if self.by_instruction.len() > MAX_CONTEXTS
            && let Some((_, oldest)) = self.by_instruction.pop_first()
        {
            spans_of(&oldest).for_each(|span| {
                self.parents.remove(&span);
            });
        }
    }

    /// The message of an instruction with its context, if it has one.
    pub(crate) fn stamp(&self, mut message: v1::Instruction) -> v1::Instruction {
        if let Some(context) = self.by_instruction.get(&InstructionId(message.generation)) {
            message.traceparent = context.span.traceparent();
            message.first_pod = context
                .first_pod
                .as_ref()
                .map(|(uid, span)| v1::PodTrace { uid: uid.to_string(), traceparent: span.traceparent() });
        }
        message
    }

    /// The spans of a message that are part of these contexts. What else it has, and what exceeds a limit, is left out.
    pub(crate) fn decode(&self, cluster: &ClusterName, message: v1::Spans, now: Timestamp) -> Vec<Span> {
        message.spans.into_iter().take(MAX_SPANS).filter_map(|span| self.span(cluster, span, now)).collect()
    }

    fn span(&self, cluster: &ClusterName, span: v1::AgentSpan, now: Timestamp) -> Option<Span> {
        let trace = TraceId::from_slice(&span.trace_id)?;
        let parent = SpanId::from_slice(&span.parent_span_id)?;
        let context = SpanContext::new(trace, SpanId::from_slice(&span.span_id)?);
        let (start, end) = (Timestamp::from_millis(span.start_ms), Timestamp::from_millis(span.end_ms));
        let in_time = start <= end && now - start <= MAX_AGE && end - now <= MAX_AHEAD;
        // A span with the id of another one would replace it.
        if !in_time || !self.parents.contains(&SpanContext::new(trace, parent)) || self.parents.contains(&context) {
            return None;
        }
        let mut attributes = attributes(span.attributes);
        attributes.push(trace::attribute("k8s.cluster.name", cluster));
        Some(Span {
            context,
            parent: Some(parent),
            name: known(&NAMES, &span.name)?,
            kind: Kind::Server,
            start,
            end,
            attributes,
            events: span.events.into_iter().take(MAX_EVENTS).filter_map(event).collect(),
            error: Some(shortened(span.error)).filter(|error| !error.is_empty()),
        })
    }
}

fn spans_of(context: &InstructionContext) -> impl Iterator<Item = SpanContext> + use<> {
    [Some(context.span), context.first_pod.as_ref().map(|(_, span)| *span)].into_iter().flatten()
}

fn event(event: v1::AgentSpanEvent) -> Option<SpanEvent> {
    let (name, at) = (known(&NAMES, &event.name)?, Timestamp::from_millis(event.at_ms));
    Some(SpanEvent { name, at, attributes: attributes(event.attributes) })
}

fn attributes(pairs: Vec<v1::StringPair>) -> Vec<Attribute> {
    let attribute = |pair: v1::StringPair| {
        Some(Attribute { key: known(&KEYS, &pair.key)?, value: Value::Text(shortened(pair.value)) })
    };
    let mut seen = BTreeSet::new();
    let known = pairs.into_iter().take(MAX_ATTRIBUTES).filter_map(attribute);
    known.filter(|attribute| seen.insert(attribute.key.clone())).collect()
}

fn known(all: &[&'static str], name: &str) -> Option<Cow<'static, str>> {
    all.iter().find(|known| **known == name).map(|known| Cow::Borrowed(*known))
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn root(cluster: &str) -> SpanContext {
        SpanContext::of_decision(&cluster.into(), 7, Timestamp::from_millis(1))
    }

    fn context(cluster: &str) -> InstructionContext {
        let root = root(cluster);
        InstructionContext {
            span: root.child("create", "c1"),
            first_pod: Some(("u".into(), root.child("observe", ""))),
        }
    }

    /// A span of an instruction of the cluster "blue".
    fn span() -> v1::AgentSpan {
        let parent = context("blue").span;
        v1::AgentSpan {
            trace_id: parent.trace().to_bytes().to_vec(),
            span_id: vec![9; 8],
            parent_span_id: parent.span().to_bytes().to_vec(),
            name: "create_node_claim".into(),
            start_ms: NOW.as_millis() - 20,
            end_ms: NOW.as_millis() - 10,
            ..v1::AgentSpan::default()
        }
    }

    fn sent() -> SentContexts {
        let mut sent = SentContexts::default();
        sent.add(InstructionId(3), context("blue"));
        sent
    }

    fn decoded(span: v1::AgentSpan) -> Option<Span> {
        sent().decode(&"blue".into(), v1::Spans { spans: vec![span] }, NOW).pop()
    }

    #[test]
    fn a_span_of_a_sent_instruction_is_taken_with_the_name_of_the_cluster() {
        let span = decoded(span()).unwrap();
        assert_eq!((span.context.trace(), span.parent), (root("blue").trace(), Some(context("blue").span.span())));
        assert_eq!((span.kind, span.text("k8s.cluster.name")), (Kind::Server, Some("blue")));
        assert_eq!((span.end - span.start, span.error), (Millis::new(10), None));
    }

    #[test]
    fn spans_of_other_clusters_or_with_invalid_ids_names_and_times_are_refused() {
        let other = context("green").span;
        let refused: [(&str, v1::AgentSpan); 10] = [
            ("trace of another cluster", v1::AgentSpan { trace_id: other.trace().to_bytes().to_vec(), ..span() }),
            ("another parent", v1::AgentSpan { parent_span_id: other.span().to_bytes().to_vec(), ..span() }),
            ("short trace id", v1::AgentSpan { trace_id: vec![1; 15], ..span() }),
            ("no span id", v1::AgentSpan { span_id: vec![0; 8], ..span() }),
            ("no parent", v1::AgentSpan { parent_span_id: Vec::new(), ..span() }),
            (
                "id of a span of the server",
                v1::AgentSpan { span_id: context("blue").span.span().to_bytes().to_vec(), ..span() },
            ),
            ("another name", v1::AgentSpan { name: "decision".into(), ..span() }),
            ("ends before it begins", v1::AgentSpan { end_ms: NOW.as_millis() - 21, ..span() }),
            ("of yesterday", v1::AgentSpan { start_ms: NOW.as_millis() - 24 * 3_600_000 - 1, ..span() }),
            ("of the future", v1::AgentSpan { end_ms: NOW.as_millis() + 15 * 60_000 + 1, ..span() }),
        ];
        for (why, span) in refused {
            assert_eq!(decoded(span), None, "{why}");
        }
    }

    #[test]
    fn what_exceeds_a_limit_is_left_out() {
        let pair = |key: &str, value: &str| v1::StringPair { key: key.into(), value: value.into() };
        let evicted = v1::AgentSpanEvent { name: "pod evicted".into(), at_ms: 5, attributes: Vec::new() };
        let long = "é".repeat(200);
        let full = v1::AgentSpan {
            attributes: vec![
                pair("k8s.node.name", &long),
                pair("k8s.node.name", "b"),
                pair("service.name", "x"),
                pair("k8s.cluster.name", "green"),
            ],
            events: vec![evicted; 200],
            error: format!("a{long}"),
            ..span()
        };
        let one = decoded(full.clone()).unwrap();
        let texts: Vec<_> = one.attributes.iter().map(|attribute| &*attribute.key).collect();
        assert_eq!(texts, ["k8s.node.name", "k8s.cluster.name"]);
        assert_eq!(one.text("k8s.node.name").map(str::len), Some(256));
        assert_eq!(one.text("k8s.cluster.name"), Some("blue"));
        // The 128th two-byte character would end at byte 257.
        assert_eq!((one.events.len(), one.error.map(|error| error.len())), (128, Some(255)));
        let many = v1::Spans { spans: vec![full; 100] };
        assert_eq!(sent().decode(&"blue".into(), many, NOW).len(), 64);
    }

    #[test]
    fn an_instruction_carries_its_context_each_time_it_is_sent() {
        let message = |generation| v1::Instruction { generation, ..v1::Instruction::default() };
        let stamped = sent().stamp(message(3));
        assert_eq!(stamped.traceparent, context("blue").span.traceparent());
        assert_eq!(stamped.first_pod.map(|pod| pod.uid).as_deref(), Some("u"));
        assert_eq!(sent().stamp(message(4)), message(4));
    }

    #[test]
    fn contexts_of_the_oldest_instructions_are_forgotten_beyond_the_bound() {
        let mut sent = sent();
        for number in 0..MAX_CONTEXTS {
            let span = root("blue").child("create", &number.to_string());
            let id = InstructionId(4 + u64::try_from(number).unwrap());
            sent.add(id, InstructionContext { span, first_pod: None });
        }
        assert_eq!((sent.by_instruction.len(), sent.parents.len()), (MAX_CONTEXTS, MAX_CONTEXTS));
        assert!(sent.decode(&"blue".into(), v1::Spans { spans: vec![span()] }, NOW).is_empty());
    }
}
