//! Spans of instructions, for a server that exports traces.
//!
//! The server names in an instruction the span that executing it is part of. Spans are bounded in
//! number, and none is kept for a server that does not ask for them.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use fleetwright_proto::v1;
use fleetwright_proto::v1::instruction::Action;

use crate::port::{Done, Record};

/// Spans that wait for the server, about 300 bytes each; the oldest are dropped first.
const MAX_WAITING: usize = 512;

/// Instructions in progress that have a span.
const MAX_OPEN: usize = 4_096;

/// Spans of one message (protocol: at most 64).
const MAX_IN_MESSAGE: usize = 64;

/// Pods without a node whose arrival is remembered, about 100 bytes each.
const MAX_PODS: usize = 1_000;

/// The arrival of a pod is remembered for this long, in milliseconds: a decision follows within seconds, and one for a pod that
/// waited for longer is no news of the pod.
const POD_RETENTION_MS: i64 = 15 * 60_000;

/// Longest explanation of a failure, in bytes (protocol: at most 256).
const MAX_ERROR_BYTES: usize = 256;

/// The span that something is part of: id of the trace, id of the span.
type Parent = ([u8; 16], [u8; 8]);

#[derive(Debug)]
struct OpenSpan {
    parent: Parent,
    name: &'static str,
    attributes: Vec<v1::StringPair>,
    start: i64,
}

/// Creation and arrival of a pod.
#[derive(Debug, Clone, Copy)]
struct SeenPod {
    created: i64,
    arrived: i64,
}

#[derive(Debug, Default)]
pub struct Spans {
    enabled: bool,
    open: HashMap<String, OpenSpan>,
    waiting: VecDeque<v1::AgentSpan>,
    pods: HashMap<String, SeenPod>,
}

impl Spans {
    /// Whether the server asks for spans. Those of an earlier server are kept: it may have handed the cluster over.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        if !enabled {
            *self = Self::default();
        }
    }

    /// Remembers which pods wait for a node, and since when.
    pub fn observe(&mut self, records: &[Record], now: i64) {
        if !self.enabled {
            return;
        }
        for record in records {
            if let Record::Pod { record, .. } = record {
                self.observe_pod(record, now);
            }
        }
    }

    fn observe_pod(&mut self, pod: &v1::PodRecord, now: i64) {
        if !pod.node_name.is_empty() || pod.deleted_at_ms != 0 {
            self.pods.remove(&pod.uid);
            return;
        }
        if self.pods.len() >= MAX_PODS {
            self.pods.retain(|_, seen| now.saturating_sub(seen.arrived) < POD_RETENTION_MS);
        }
        if self.pods.len() < MAX_PODS && !self.pods.contains_key(&pod.uid) {
            let created = pod.created_at_ms.min(now);
            self.pods.insert(pod.uid.clone(), SeenPod { created, arrived: now });
        }
    }

    /// The execution of an instruction begins.
    pub fn begin(&mut self, instruction: &v1::Instruction, now: i64) {
        if !self.enabled {
            return;
        }
        if let Some(pod) = &instruction.first_pod {
            self.add_pod(pod);
        }
        let (Some(parent), Some((name, mut attributes))) =
            (parse_traceparent(&instruction.traceparent), instruction.action.as_ref().and_then(describe))
        else {
            return;
        };
        if self.open.len() < MAX_OPEN {
            attributes.push(pair("fleetwright.instruction", &instruction.id));
            self.open.insert(instruction.id.clone(), OpenSpan { parent, name, attributes, start: now });
        }
    }

    /// The execution of an instruction has ended.
    pub fn finish(&mut self, instruction_id: &str, done: &Done, now: i64) {
        let Some(OpenSpan { parent, name, attributes, start }) = self.open.remove(instruction_id) else { return };
        let error = match done.outcome {
            v1::Outcome::Done => String::new(),
            outcome => shortened(format!("{}: {}", outcome.as_str_name(), done.detail)),
        };
        self.add(v1::AgentSpan { error, attributes, events: done.events.clone(), ..span(parent, name, (start, now)) });
    }

    /// The spans that wait, as many as a message holds; `None` without any.
    pub fn take_message(&mut self) -> Option<v1::Spans> {
        let number = self.waiting.len().min(MAX_IN_MESSAGE);
        let spans: Vec<v1::AgentSpan> = self.waiting.drain(..number).collect();
        (!spans.is_empty()).then_some(v1::Spans { spans })
    }

    fn add_pod(&mut self, pod: &v1::PodTrace) {
        let (Some(seen), Some(parent)) = (self.pods.remove(&pod.uid), parse_traceparent(&pod.traceparent)) else {
            return;
        };
        let attributes = vec![pair("k8s.pod.uid", &pod.uid)];
        self.add(v1::AgentSpan { attributes, ..span(parent, "observe_pod", (seen.created, seen.arrived)) });
    }

    fn add(&mut self, span: v1::AgentSpan) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(span);
    }
}

fn span((trace, parent): Parent, name: &str, (start_ms, end_ms): (i64, i64)) -> v1::AgentSpan {
    v1::AgentSpan {
        trace_id: trace.to_vec(),
        span_id: span_id(trace, parent, name, start_ms),
        parent_span_id: parent.to_vec(),
        name: name.to_owned(),
        start_ms,
        end_ms: end_ms.max(start_ms),
        ..v1::AgentSpan::default()
    }
}

/// An instruction has one span on each agent that executes it, and these do not begin at one moment.
fn span_id(trace: [u8; 16], parent: [u8; 8], name: &str, start_ms: i64) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    (trace, parent, name, start_ms).hash(&mut hasher);
    hasher.finish().max(1).to_be_bytes().to_vec()
}

/// Name and attributes of the span of an action; `None` for one that has no span.
fn describe(action: &Action) -> Option<(&'static str, Vec<v1::StringPair>)> {
    let (name, claim, node, provider_id) = match action {
        Action::CreateNodeClaim(create) => {
            let claim = create.node_claim.as_ref().map_or("", |claim| &claim.name);
            ("create_node_claim", claim, "", "")
        }
        Action::MarkLaunched(launched) => ("mark_launched", &*launched.node_claim, "", &*launched.provider_id),
        Action::RegisterNode(node) => ("register_node", &*node.node_claim, &*node.node, ""),
        Action::InitializeNode(node) => ("initialize_node", &*node.node_claim, &*node.node, ""),
        Action::DrainNode(drain) => ("drain_node", &*drain.node_claim, &*drain.node, &*drain.provider_id),
        Action::DeleteNodeClaim(delete) => {
            ("delete_node_claim", &*delete.node_claim, &*delete.node, &*delete.provider_id)
        }
        Action::RemoveDisruptedTaint(_) | Action::WriteObject(_) | Action::RecordEvent(_) | Action::NominatePods(_) => {
            return None;
        }
    };
    let instance = provider_id.rsplit('/').next().unwrap_or_default();
    let attributes = [("fleetwright.nodeclaim", claim), ("k8s.node.name", node), ("host.id", instance)];
    let known = attributes.into_iter().filter(|(_, value)| !value.is_empty());
    Some((name, known.map(|(key, value)| pair(key, value)).collect()))
}

fn pair(key: &str, value: &str) -> v1::StringPair {
    v1::StringPair { key: key.to_owned(), value: value.to_owned() }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
    text
}

/// The ids of a `traceparent` of version 00 that is sampled (W3C Trace Context).
fn parse_traceparent(value: &str) -> Option<Parent> {
    let mut parts = value.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if version != "00" || flags != "01" || parts.next().is_some() {
        return None;
    }
    Some((parse_hex(trace)?, parse_hex(span)?))
}

/// As many bytes as there are pairs of hexadecimal digits, not all zero.
fn parse_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.len() != 2 * N || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    (bytes != [0; N]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const PARENT: &str = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01";

    fn instruction(id: &str, traceparent: &str) -> v1::Instruction {
        let node = v1::RegisterNode { node_claim: "c1".into(), node: "n1".into(), ..v1::RegisterNode::default() };
        let action = Some(Action::RegisterNode(node));
        v1::Instruction { id: id.into(), traceparent: traceparent.into(), action, ..v1::Instruction::default() }
    }

    fn enabled() -> Spans {
        Spans { enabled: true, ..Spans::default() }
    }

    fn pod(uid: &str, node: &str, created_at_ms: i64) -> Record {
        let record =
            v1::PodRecord { uid: uid.into(), node_name: node.into(), created_at_ms, ..v1::PodRecord::default() };
        Record::Pod { record: Box::new(record), shape: Arc::from(""), labels: Arc::default(), volume_claims: None }
    }

    #[test]
    fn an_instruction_with_a_context_has_a_span_in_its_trace() {
        let mut spans = enabled();
        spans.begin(&instruction("3-1", PARENT), 100);
        spans.finish("3-1", &Done::failed(v1::Outcome::Failed, "refused"), 150);
        let message = spans.take_message().unwrap();
        let [span] = &message.spans[..] else { panic!("{message:?}") };
        assert_eq!((span.trace_id.clone(), span.parent_span_id.clone()), ((1..=16).collect(), (0x11..=0x18).collect()));
        assert_eq!((&*span.name, span.start_ms, span.end_ms), ("register_node", 100, 150));
        assert_eq!((span.span_id.len(), &*span.error), (8, "OUTCOME_FAILED: refused"));
        let attributes: Vec<_> = span.attributes.iter().map(|pair| (&*pair.key, &*pair.value)).collect();
        let expected = [("fleetwright.nodeclaim", "c1"), ("k8s.node.name", "n1"), ("fleetwright.instruction", "3-1")];
        assert_eq!(attributes, expected);
        assert_eq!(spans.take_message(), None);
    }

    #[test]
    fn without_a_valid_context_or_a_server_that_asks_there_is_no_span() {
        let zeros = "00-00000000000000000000000000000000-1112131415161718-01";
        let contexts = ["", "x", zeros, &PARENT[..54], &PARENT.replace("-01", "-00"), &PARENT.replace("0a", "+a")];
        for context in contexts {
            let mut spans = enabled();
            spans.begin(&instruction("3-1", context), 100);
            spans.finish("3-1", &Done::ok(), 150);
            assert_eq!(spans.take_message(), None, "{context:?}");
        }
        let mut spans = Spans::default();
        spans.observe(&[pod("u", "", 1)], 2);
        spans.begin(&instruction("3-1", PARENT), 100);
        spans.finish("3-1", &Done::ok(), 150);
        assert!(spans.take_message().is_none() && spans.pods.is_empty() && spans.open.is_empty());
    }

    #[test]
    fn the_first_pod_of_a_decision_has_a_span_from_its_creation_until_its_arrival() {
        let mut spans = enabled();
        spans.observe(&[pod("u", "", 1_000), pod("v", "", 1_000)], 1_300);
        spans.observe(&[pod("u", "", 1_000), pod("v", "n1", 1_000)], 2_000);
        for uid in ["u", "v"] {
            let first_pod = Some(v1::PodTrace { uid: uid.into(), traceparent: PARENT.into() });
            spans.begin(&v1::Instruction { first_pod, ..instruction("3-1", "") }, 3_000);
        }
        let times: Vec<_> =
            spans.take_message().unwrap().spans.iter().map(|span| (span.start_ms, span.end_ms)).collect();
        assert_eq!(times, [(1_000, 1_300)], "the other one is bound");
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_spans_are_dropped_first() {
        let mut spans = enabled();
        for number in 0..MAX_WAITING + 1 {
            let start = i64::try_from(number).unwrap();
            spans.begin(&instruction("3-1", PARENT), start);
            spans.finish("3-1", &Done::ok(), start);
        }
        let first = spans.take_message().unwrap();
        assert_eq!((first.spans.len(), first.spans[0].start_ms), (MAX_IN_MESSAGE, 1));
        let pods: Vec<Record> = (0..MAX_PODS + 1).map(|number| pod(&number.to_string(), "", 0)).collect();
        spans.observe(&pods, 0);
        assert_eq!(spans.pods.len(), MAX_PODS);
        spans.observe(&[pod("late", "", 0)], POD_RETENTION_MS);
        assert_eq!(spans.pods.len(), 1, "the old ones are forgotten when there is no room");
        for number in 0..MAX_OPEN + 1 {
            spans.begin(&instruction(&number.to_string(), PARENT), 0);
        }
        assert_eq!(spans.open.len(), MAX_OPEN);
    }
}
