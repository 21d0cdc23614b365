//! The decision log of a running server.

use api_messages::recorded_decisions::{read_content, read_decision, read_segment};
use api_messages::signed;
use command::exit::Failure;
use fleetwright_proto::v1;
use futures::TryStreamExt;
use tonic::{Code, Status as RpcStatus};

use super::remote::{FleetClient, rpc_failure};
use store::lease::Scope;
use store::log::{Blob, BlobHash, DecisionFilter, LogSegment, StoredDecision};
use store::{Archive, StoreError, StoreResult};

/// Failure of the archive as the result of a command.
pub fn failed(error: StoreError) -> Failure {
    match error {
        StoreError::Denied { .. } => Failure::refused(error),
        error => Failure::internal(error),
    }
}

/// Archive of a running server.
pub struct ServerArchive(pub FleetClient);

/// Result of a request; `None` for "not found".
fn found<T>(what: &'static str, answer: Result<T, RpcStatus>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(refusal) if refusal.code() == Code::NotFound => Ok(None),
        Err(refusal) if matches!(refusal.code(), Code::PermissionDenied | Code::Unauthenticated) => {
            Err(StoreError::Denied { what, why: rpc_failure(refusal).messages.join("; ") })
        }
        Err(refusal) => Err(StoreError::Server { what, why: rpc_failure(refusal).messages.join("; ") }),
    }
}

impl ServerArchive {
    async fn list(&self, request: v1::ReadDecisionsRequest) -> Result<Vec<StoredDecision>, StoreError> {
        const WHAT: &str = "list decisions";
        let mut client = self.0.clone();
        let listed = async { client.read_decisions(request).await?.into_inner().try_collect::<Vec<_>>().await };
        let listed = found(WHAT, listed.await)?.unwrap_or_default();
        let read = listed.into_iter().map(|message| message.decision.and_then(read_decision));
        read.collect::<Option<Vec<_>>>().ok_or_else(|| StoreError::Server {
            what: WHAT,
            why: "it sent a malformed decision; it may run another version".to_owned(),
        })
    }
}

#[tonic::async_trait]
impl Archive for ServerArchive {
    async fn decisions(&self, filter: &DecisionFilter) -> StoreResult<Vec<StoredDecision>> {
        let cluster = filter.scope.as_ref().and_then(Scope::cluster_name).unwrap_or_default();
        let request = v1::ReadDecisionsRequest {
            cluster_name: cluster.to_owned(),
            number: 0,
            limit: filter.limit.try_into().unwrap_or(i32::MAX),
            before_number: signed(filter.before.unwrap_or(0)),
        };
        self.list(request).await
    }

    async fn decision(&self, number: u64) -> StoreResult<Vec<StoredDecision>> {
        self.list(v1::ReadDecisionsRequest { number: signed(number), ..v1::ReadDecisionsRequest::default() }).await
    }

    async fn log_segment(&self, scope: &Scope, segment: u64) -> StoreResult<Option<LogSegment>> {
        let (mut client, request) =
            (self.0.clone(), v1::ReadLogRequest { scope: scope.key(), segment: signed(segment) });
        let read = async { read_segment(segment, client.read_log(request).await?.into_inner()).await };
        found("read the log", read.await)
    }

    async fn blob(&self, hash: &BlobHash) -> StoreResult<Option<Blob>> {
        let (mut client, request) = (self.0.clone(), v1::ReadContentRequest { hash: hash.0.to_vec() });
        let read = async { read_content(*hash, client.read_content(request).await?.into_inner()).await };
        found("read a content", read.await)
    }
}
