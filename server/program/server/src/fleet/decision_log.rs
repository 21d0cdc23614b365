//! Encodes the decision log as messages, and decodes it for replay. Bytes are sent as stored.

use fleetwright_proto::v1;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tonic::Status;

use super::access::Access;
use super::encode::{signed, unsigned};
use super::enum_values;
use crate::capacity::errors::{self, store_failed};
use store::Archive;
use store::lease::Scope;
use store::log::{Blob, BlobHash, DecisionFilter, DecisionRow, LogChunk, LogSegment, Replay, StoredDecision};

/// Default and maximum number of listed decisions.
const DECISIONS: (u32, u32) = (50, 500);

/// Maximum bytes per message, well below the message size limit.
const PART: usize = 256 * 1024;

pub(super) type Parts<T> = BoxStream<'static, Result<T, Status>>;

fn parts<T: Send + 'static>(messages: Vec<T>) -> Parts<T> {
    stream::iter(messages).map(Ok).boxed()
}

/// Lists decisions, newest first.
pub(super) async fn list(
    store: &dyn Archive,
    request: v1::ReadDecisionsRequest,
    access: &Access,
) -> Result<Parts<v1::ReadDecisionsResponse>, Status> {
    let scope = (!request.cluster_name.is_empty()).then(|| Scope::cluster(&request.cluster_name));
    match &scope {
        Some(_) => access.check(&request.cluster_name)?,
        None if request.number == 0 => access.check_fleet("the log of all clusters, without cluster_name,")?,
        None => {}
    }
    let found = if request.number > 0 {
        let found = store.decision(unsigned(request.number)).await.map_err(store_failed)?;
        let is_asked = |stored: &StoredDecision| {
            let cluster = stored.scope.cluster_name();
            scope.as_ref().is_none_or(|scope| *scope == stored.scope)
                && (access.clusters.is_of_all() || cluster.is_some_and(|cluster| access.clusters.allows(cluster)))
        };
        found.into_iter().filter(is_asked).collect()
    } else {
        let limit = u32::try_from(request.limit).unwrap_or_default();
        let limit = if limit == 0 { DECISIONS.0 } else { limit.min(DECISIONS.1) };
        let before = (request.before_number > 0).then(|| unsigned(request.before_number));
        store.decisions(&DecisionFilter { scope, limit, before }).await.map_err(store_failed)?
    };
    let message = |stored| v1::ReadDecisionsResponse { decision: Some(decision(stored)) };
    Ok(parts(found.into_iter().map(message).collect::<Vec<_>>()))
}

/// Reads a segment of the log.
pub(super) async fn segment(
    store: &dyn Archive,
    request: v1::ReadLogRequest,
    access: &Access,
) -> Result<Parts<v1::ReadLogResponse>, Status> {
    let v1::ReadLogRequest { scope, segment: number } = request;
    let scope = Scope::parse(&scope)
        .ok_or_else(|| errors::invalid_argument("scope", format!("{scope:?} is not a scope; use cluster/<name>")))?;
    match scope.cluster_name() {
        Some(cluster) => access.check(cluster)?,
        None => access.check_fleet("the log of an account and region")?,
    }
    let segment = store.log_segment(&scope, unsigned(number)).await.map_err(store_failed)?;
    let segment = segment.ok_or_else(|| Status::not_found(format!("segment {number} of {scope} not found")))?;
    let LogSegment { epoch, started_ms, chunks } = segment;
    let message = move |chunk: &LogChunk, bytes: &[u8]| v1::ReadLogResponse {
        epoch: signed(epoch),
        started_ms,
        first_sequence: signed(chunk.first_sequence),
        last_sequence: signed(chunk.last_sequence),
        packed_at_ms: chunk.at_ms,
        bytes: bytes.to_vec(),
    };
    let cut = chunks.iter().flat_map(|chunk| chunk.bytes.chunks(PART).map(move |bytes| message(chunk, bytes)));
    Ok(parts(cut.collect()))
}

/// Reads a content blob by its hash.
pub(super) async fn content(
    store: &dyn Archive,
    request: v1::ReadContentRequest,
) -> Result<Parts<v1::ReadContentResponse>, Status> {
    let hash = <[u8; 32]>::try_from(request.hash);
    let hash = BlobHash(hash.map_err(|_| errors::invalid_argument("hash", "a hash must have 32 bytes"))?);
    let blob = store.blob(&hash).await.map_err(store_failed)?;
    let blob = blob.ok_or_else(|| Status::not_found(format!("content {hash} not found")))?;
    let part = |bytes: &[u8]| v1::ReadContentResponse { kind: blob.kind.clone(), bytes: bytes.to_vec() };
    Ok(parts(blob.bytes.chunks(PART).map(part).collect()))
}

fn decision(stored: StoredDecision) -> v1::RecordedDecision {
    // The moves are read by the next owner of the cluster alone, and the effects by those who read decisions.
    let DecisionRow { number, decided_at_ms, kind, summary, report, replay, moves: _, effects: _ } = stored.decision;
    v1::RecordedDecision {
        scope: stored.scope.key(),
        epoch: signed(stored.epoch),
        number: signed(number),
        decided_at_ms,
        kind: enum_values::decision_kind(&kind).into(),
        summary,
        report,
        source: replay.map(|replay| v1::DecisionSource {
            segment: signed(replay.segment),
            sequence: signed(replay.sequence),
            stance: replay.stance,
            plan: replay.plan,
            policy: replay.policy.map(|hash| hash.0.to_vec()).unwrap_or_default(),
            catalogues: replay.catalogues.iter().map(|hash| hash.0.to_vec()).collect(),
            engine_version: replay.engine_version,
            input_digest: replay.input_digest,
            plan_digest: replay.plan_digest,
        }),
    }
}

/// Decodes a decision; `None` when it is malformed.
pub(crate) fn read_decision(message: v1::RecordedDecision) -> Option<StoredDecision> {
    let hash = |bytes: Vec<u8>| Some(BlobHash(bytes.try_into().ok()?));
    let replay = |source: v1::DecisionSource| {
        let policy = if source.policy.is_empty() { None } else { Some(hash(source.policy)?) };
        Some(Replay {
            segment: unsigned(source.segment),
            sequence: unsigned(source.sequence),
            stance: source.stance,
            plan: source.plan,
            policy,
            catalogues: source.catalogues.into_iter().map(hash).collect::<Option<_>>()?,
            engine_version: source.engine_version,
            input_digest: source.input_digest,
            plan_digest: source.plan_digest,
        })
    };
    let kind = enum_values::decision_kind_word(message.kind());
    let replay = match message.source {
        Some(source) => Some(replay(source)?),
        None => None,
    };
    let v1::RecordedDecision { number, decided_at_ms, summary, report, .. } = message;
    let number = unsigned(number);
    let decision = DecisionRow { number, decided_at_ms, kind, summary, report, replay, ..DecisionRow::default() };
    Some(StoredDecision { scope: Scope::parse(&message.scope)?, epoch: unsigned(message.epoch), decision })
}

/// Assembles a segment from its parts.
pub(crate) async fn read_segment(
    number: u64,
    parts: impl TryStreamExt<Ok = v1::ReadLogResponse, Error = Status> + Unpin,
) -> Result<LogSegment, Status> {
    let empty = LogSegment { epoch: 0, started_ms: 0, chunks: Vec::new() };
    let joined = |mut segment: LogSegment, part: v1::ReadLogResponse| async move {
        (segment.epoch, segment.started_ms) = (unsigned(part.epoch), part.started_ms);
        let first_sequence = unsigned(part.first_sequence);
        match segment.chunks.last_mut().filter(|chunk| chunk.first_sequence == first_sequence) {
            Some(chunk) => chunk.bytes.extend(part.bytes),
            None => segment.chunks.push(LogChunk {
                segment: number,
                first_sequence,
                last_sequence: unsigned(part.last_sequence),
                at_ms: part.packed_at_ms,
                bytes: part.bytes,
            }),
        }
        Ok(segment)
    };
    parts.try_fold(empty, joined).await
}

/// Assembles a content blob from its parts.
pub(crate) async fn read_content(
    hash: BlobHash,
    parts: impl TryStreamExt<Ok = v1::ReadContentResponse, Error = Status> + Unpin,
) -> Result<Blob, Status> {
    let empty = Blob { hash, kind: String::new(), bytes: Vec::new() };
    let joined = |mut blob: Blob, part: v1::ReadContentResponse| async move {
        blob.kind = part.kind;
        blob.bytes.extend(part.bytes);
        Ok(blob)
    };
    parts.try_fold(empty, joined).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(replay: Option<Replay>) -> StoredDecision {
        let decision = DecisionRow {
            number: 7,
            decided_at_ms: 1_763_765_432_123,
            kind: "provision".to_owned(),
            summary: "buys".to_owned(),
            report: "why\nand why".to_owned(),
            replay,
            ..DecisionRow::default()
        };
        StoredDecision { scope: Scope::cluster("blue"), epoch: 3, decision }
    }

    fn replay(policy: Option<BlobHash>) -> Replay {
        Replay {
            segment: 5,
            sequence: 9,
            stance: vec![0, 159],
            plan: vec![1; 10],
            policy,
            catalogues: vec![BlobHash([2; 32]), BlobHash([3; 32])],
            engine_version: "1.2.3".to_owned(),
            input_digest: vec![4; 32],
            plan_digest: vec![5; 32],
        }
    }

    #[test]
    fn a_decision_survives_encoding_and_decoding() {
        for replay in [None, Some(replay(None)), Some(replay(Some(BlobHash([6; 32]))))] {
            let before = stored(replay);
            assert_eq!(read_decision(decision(before.clone())), Some(before));
        }
    }

    #[test]
    fn the_kind_is_the_enum_of_the_api_in_a_message_and_the_word_of_the_log_in_a_row() {
        for (word, kind) in [
            ("provision", v1::DecisionKind::Provision),
            ("static-scale-down", v1::DecisionKind::StaticScaleDown),
            ("hold-ended", v1::DecisionKind::HoldEnded),
        ] {
            let mut row = stored(None);
            word.clone_into(&mut row.decision.kind);
            let message = decision(row);
            assert_eq!(message.kind(), kind);
            assert_eq!(read_decision(message).map(|read| read.decision.kind), Some(word.to_owned()));
        }
        let newer = v1::RecordedDecision { kind: 1_000, ..decision(stored(None)) };
        assert_eq!(read_decision(newer).map(|read| read.decision.kind), Some(String::new()), "no word of this release");
    }

    #[test]
    fn a_malformed_decision_is_rejected() {
        let whole = decision(stored(Some(replay(None))));
        let elsewhere = v1::RecordedDecision { scope: "moon/blue".to_owned(), ..whole.clone() };
        assert_eq!(read_decision(elsewhere), None);
        let source = v1::DecisionSource { catalogues: vec![vec![1; 31]], ..whole.source.clone().unwrap() };
        assert_eq!(read_decision(v1::RecordedDecision { source: Some(source), ..whole }), None);
    }

    #[tokio::test]
    async fn a_chunk_longer_than_a_message_is_reassembled() {
        let part = |first_sequence, bytes: &[u8]| {
            Ok(v1::ReadLogResponse {
                epoch: 3,
                started_ms: 1,
                first_sequence,
                last_sequence: first_sequence + 1,
                packed_at_ms: 2,
                bytes: bytes.to_vec(),
            })
        };
        let segment = read_segment(5, stream::iter([part(1, b"ab"), part(1, b"c"), part(3, b"d")])).await.unwrap();
        let chunks: Vec<(u64, u64, &[u8])> =
            segment.chunks.iter().map(|chunk| (chunk.first_sequence, chunk.last_sequence, &chunk.bytes[..])).collect();
        assert_eq!(chunks, [(1, 2, &b"abc"[..]), (3, 4, b"d")]);
        assert_eq!((segment.epoch, segment.started_ms), (3, 1));
    }
}
