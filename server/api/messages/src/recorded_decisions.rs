//! Decisions of the log and what they were made from, as messages and back.

use fleetwright_proto::v1;
use futures::TryStreamExt;
use tonic::Status;

use crate::{enum_values, signed, unsigned};
use store::lease::Scope;
use store::log::{Blob, BlobHash, DecisionRow, LogChunk, LogSegment, Replay, StoredDecision};

/// The message of a decision, without what only servers read.
pub fn decision(stored: StoredDecision) -> v1::RecordedDecision {
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
pub fn read_decision(message: v1::RecordedDecision) -> Option<StoredDecision> {
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
pub async fn read_segment(
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
pub async fn read_content(
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
    use futures::stream;

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
