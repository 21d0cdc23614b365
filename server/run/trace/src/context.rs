//! Ids of traces and spans (W3C Trace Context).
//!
//! The ids of a decision's trace and of its first span follow from the decision alone. Each replica
//! therefore computes the same ones, also after a crash of the one that decided, and nothing stores
//! them.

use std::fmt;

use model::{ClusterName, Timestamp};
use sha2::{Digest, Sha256};

/// Id of a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// Id of a span: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

/// Names a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanContext {
    trace: TraceId,
    span: SpanId,
}

impl TraceId {
    /// The id with these bytes; `None` unless they are 16, and not all zero.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().filter(|bytes| *bytes != [0; 16]).map(Self)
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// The id with these bytes; `None` unless they are 8, and not all zero.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().filter(|bytes| *bytes != [0; 8]).map(Self)
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0
    }
}

impl SpanContext {
    /// The first span of a decision's trace. `cluster` is unique in the fleet; `number` is unique within one
    /// process of it, and `at`, when the decision was made, tells the processes apart.
    #[must_use]
    pub fn of_decision(cluster: &ClusterName, number: u64, at: Timestamp) -> Self {
        let hash = Sha256::new()
            .chain_update("fleetwright decision")
            .chain_update(number.to_be_bytes())
            .chain_update(at.as_millis().to_be_bytes())
            .chain_update(cluster.as_bytes())
            .finalize();
        let (trace, rest) = hash.split_at(16);
        Self { trace: TraceId(never_zero(trace)), span: SpanId(never_zero(&rest[..8])) }
    }

    /// A further span of the trace, named by what it is of: the same names yield the same id.
    #[must_use]
    pub fn child(&self, name: &str, subject: &str) -> Self {
        let hash = Sha256::new()
            .chain_update(self.trace.0)
            .chain_update(self.span.0)
            .chain_update(name)
            .chain_update([0])
            .chain_update(subject)
            .finalize();
        Self { trace: self.trace, span: SpanId(never_zero(&hash[..8])) }
    }

    /// The trace that it belongs to.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    #[must_use]
    pub fn span(&self) -> SpanId {
        self.span
    }

    #[must_use]
    pub fn new(trace: TraceId, span: SpanId) -> Self {
        Self { trace, span }
    }

    /// The value of the header `traceparent`, version 00, sampled.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.span)
    }
}

/// The first `N` of these bytes, of which there are as many. An id of zeros is invalid.
fn never_zero<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut id = [0; N];
    id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    if id.iter().all(|byte| *byte == 0) {
        id[N - 1] = 1;
    }
    id
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cluster: &str, number: u64, at: i64) -> SpanContext {
        SpanContext::of_decision(&cluster.into(), number, Timestamp::from_millis(at))
    }

    /// The expectation is the output of `printf 'fleetwright decision\0\0\0\0\0\0\0\7\0\0\0\0\0\0\3\350blue' | sha256sum`.
    #[test]
    fn every_replica_computes_the_same_ids_of_a_decision() {
        let context = of("blue", 7, 1_000);
        assert_eq!(context.traceparent(), "00-c53d2c3a41024af47b9765f4d286c89a-59669d6dfe5b90d7-01");
        assert_eq!(context, of("blue", 7, 1_000));
    }

    #[test]
    fn other_decisions_have_other_traces() {
        let traces = [of("blue", 7, 1_000), of("blue", 8, 1_000), of("blue", 7, 1_001), of("green", 7, 1_000)];
        for (index, one) in traces.iter().enumerate() {
            assert!(traces[..index].iter().all(|other| other.trace() != one.trace() && other.span() != one.span()));
        }
    }

    #[test]
    fn spans_of_one_trace_differ_by_name_and_subject() {
        let root = of("blue", 7, 1_000);
        let ids = [root, root.child("create", "a"), root.child("create", "b"), root.child("launch", "a")];
        for (index, one) in ids.iter().enumerate() {
            assert_eq!(one.trace(), root.trace());
            assert!(ids[..index].iter().all(|other| other.span() != one.span()), "{one:?}");
        }
        assert_eq!(root.child("create", "a"), root.child("create", "a"));
        assert_ne!(root.child("ab", "c").span(), root.child("a", "bc").span());
    }

    #[test]
    fn ids_of_a_wrong_length_or_of_zeros_are_none() {
        assert!(TraceId::from_slice(&[1; 15]).is_none() && TraceId::from_slice(&[0; 16]).is_none());
        assert!(SpanId::from_slice(&[1; 9]).is_none() && SpanId::from_slice(&[0; 8]).is_none());
        assert_eq!(SpanId::from_slice(&[0xab; 8]).map(|id| id.to_string()).as_deref(), Some("abababababababab"));
    }
}
