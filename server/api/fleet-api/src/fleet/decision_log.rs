//! Encodes the decision log as messages, and decodes it for replay. Bytes are sent as stored.

use fleetwright_proto::v1;
use futures::StreamExt;
use futures::stream;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::watches::Watch;
use api_messages::errors::{self, store_failed};
use api_messages::recorded_decisions::decision;
use api_messages::{signed, unsigned};
use store::lease::Scope;
use store::log::{BlobHash, DecisionFilter, LogChunk, LogSegment, StoredDecision};

/// Default and maximum number of listed decisions.
const DECISIONS: (u32, u32) = (50, 500);

/// Maximum bytes per message, well below the message size limit.
const PART: usize = 256 * 1024;

fn parts<T: Send + 'static>(messages: Vec<T>) -> Watch<T> {
    stream::iter(messages).map(Ok).boxed()
}

impl FleetApi {
    /// Lists decisions, newest first.
    pub(super) async fn read_decisions_now(
        &self,
        request: v1::ReadDecisionsRequest,
        access: &Access,
    ) -> Result<Watch<v1::ReadDecisionsResponse>, Status> {
        let scope = (!request.cluster_name.is_empty()).then(|| Scope::cluster(&request.cluster_name));
        match &scope {
            Some(_) => access.check(&request.cluster_name)?,
            None if request.number == 0 => access.check_fleet("the log of all clusters, without cluster_name,")?,
            None => {}
        }
        let found = if request.number > 0 {
            let found = self.store.decision(unsigned(request.number)).await.map_err(store_failed)?;
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
            self.store.decisions(&DecisionFilter { scope, limit, before }).await.map_err(store_failed)?
        };
        let message = |stored| v1::ReadDecisionsResponse { decision: Some(decision(stored)) };
        Ok(parts(found.into_iter().map(message).collect::<Vec<_>>()))
    }

    /// Reads a segment of the log.
    pub(super) async fn read_log_now(
        &self,
        request: v1::ReadLogRequest,
        access: &Access,
    ) -> Result<Watch<v1::ReadLogResponse>, Status> {
        let v1::ReadLogRequest { scope, segment: number } = request;
        let scope = Scope::parse(&scope).ok_or_else(|| {
            errors::invalid_argument("scope", format!("{scope:?} is not a scope; use cluster/<name>"))
        })?;
        match scope.cluster_name() {
            Some(cluster) => access.check(cluster)?,
            None => access.check_fleet("the log of an account and region")?,
        }
        let segment = self.store.log_segment(&scope, unsigned(number)).await.map_err(store_failed)?;
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
    pub(super) async fn read_content_now(
        &self,
        request: v1::ReadContentRequest,
        _: &Access,
    ) -> Result<Watch<v1::ReadContentResponse>, Status> {
        let hash = <[u8; 32]>::try_from(request.hash);
        let hash = BlobHash(hash.map_err(|_| errors::invalid_argument("hash", "a hash must have 32 bytes"))?);
        let blob = self.store.blob(&hash).await.map_err(store_failed)?;
        let blob = blob.ok_or_else(|| Status::not_found(format!("content {hash} not found")))?;
        let part = |bytes: &[u8]| v1::ReadContentResponse { kind: blob.kind.clone(), bytes: bytes.to_vec() };
        Ok(parts(blob.bytes.chunks(PART).map(part).collect()))
    }
}
