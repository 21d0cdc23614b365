//! `FleetService`: gRPC API for operators and tools. It reads from views; operator commands are
//! written to the store with an audit entry and reach every replica through the [`change_feed`].

pub mod change_feed;
pub(crate) mod decisions;
mod encode;
mod node_report;
mod operations;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fleetwright_proto::v1;
use fleetwright_rpc::v1::fleet_service_server::FleetService;
use futures::{Stream, StreamExt};
use model::ClusterName;
use tonic::{Request, Response, Status};

use crate::node_questions::NodeQuestions;
use crate::throttle;
use crate::views::Views;
use store::Store;

/// Minimum interval between views, whatever the watcher requests.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Implementation of the gRPC service.
#[derive(Clone)]
pub(crate) struct FleetApi {
    views: Views,
    store: Arc<dyn Store>,
    questions: NodeQuestions,
}

impl FleetApi {
    pub(crate) fn new(views: Views, store: Arc<dyn Store>, questions: NodeQuestions) -> Self {
        Self { views, store, questions }
    }
}

#[tonic::async_trait]
impl FleetService for FleetApi {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    type ListDecisionsStream = decisions::Parts<v1::ListDecisionsResponse>;
    type ReadLogStream = decisions::Parts<v1::ReadLogResponse>;
    type ReadContentStream = decisions::Parts<v1::ReadContentResponse>;

    async fn list_decisions(
        &self,
        request: Request<v1::ListDecisionsRequest>,
    ) -> Result<Response<Self::ListDecisionsStream>, Status> {
        Ok(Response::new(decisions::list(&*self.store, request.into_inner()).await?))
    }

    async fn read_log(&self, request: Request<v1::ReadLogRequest>) -> Result<Response<Self::ReadLogStream>, Status> {
        Ok(Response::new(decisions::segment(&*self.store, request.into_inner()).await?))
    }

    async fn read_content(
        &self,
        request: Request<v1::ReadContentRequest>,
    ) -> Result<Response<Self::ReadContentStream>, Status> {
        Ok(Response::new(decisions::content(&*self.store, request.into_inner()).await?))
    }

    async fn list_clusters(
        &self,
        _request: Request<v1::ListClustersRequest>,
    ) -> Result<Response<v1::ListClustersResponse>, Status> {
        let view = self.views.borrow().clone();
        let clusters = view.clusters.values().map(|cluster| encode::summary(cluster)).collect();
        Ok(Response::new(v1::ListClustersResponse { clusters }))
    }

    async fn explain_node(
        &self,
        request: Request<v1::ExplainNodeRequest>,
    ) -> Result<Response<v1::ExplainNodeResponse>, Status> {
        let report = node_report::explain(&*self.store, &self.questions, request.into_inner()).await?;
        Ok(Response::new(report))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let v1::WatchRequest { cluster_name, min_interval_ms } = request.into_inner();
        let interval = Duration::from_millis(min_interval_ms.into()).max(MIN_INTERVAL);
        let views = throttle::throttle_views(self.views.clone(), interval);
        Ok(Response::new(views.map(move |view| Ok(encode::watch_response(&view, &cluster_name))).boxed()))
    }

    async fn freeze(&self, request: Request<v1::FreezeRequest>) -> Result<Response<v1::FreezeResponse>, Status> {
        let by = operations::caller(&request);
        let view = self.views.borrow().clone();
        let freeze = operations::freeze(&*self.store, &view, request.into_inner(), by).await?;
        Ok(Response::new(v1::FreezeResponse { freeze: Some(freeze) }))
    }

    async fn thaw(&self, request: Request<v1::ThawRequest>) -> Result<Response<v1::ThawResponse>, Status> {
        let by = operations::caller(&request);
        operations::thaw(&*self.store, request.into_inner().id, &by).await?;
        Ok(Response::new(v1::ThawResponse {}))
    }

    async fn list_freezes(
        &self,
        _request: Request<v1::ListFreezesRequest>,
    ) -> Result<Response<v1::ListFreezesResponse>, Status> {
        let freezes = operations::freezes(&*self.store).await?;
        Ok(Response::new(v1::ListFreezesResponse { freezes }))
    }

    async fn list_audit(
        &self,
        request: Request<v1::ListAuditRequest>,
    ) -> Result<Response<v1::ListAuditResponse>, Status> {
        let entries = operations::audit(&*self.store, request.into_inner()).await?;
        Ok(Response::new(v1::ListAuditResponse { entries }))
    }

    async fn accept_cluster_uid(
        &self,
        request: Request<v1::AcceptClusterUidRequest>,
    ) -> Result<Response<v1::AcceptClusterUidResponse>, Status> {
        let by = operations::caller(&request);
        operations::accept_uid(&*self.store, &request.into_inner(), &by).await?;
        Ok(Response::new(v1::AcceptClusterUidResponse {}))
    }

    async fn forget_cluster(
        &self,
        request: Request<v1::ForgetClusterRequest>,
    ) -> Result<Response<v1::ForgetClusterResponse>, Status> {
        let by = operations::caller(&request);
        let view = self.views.borrow().clone();
        operations::forget_cluster(&*self.store, &view, &request.into_inner(), &by).await?;
        Ok(Response::new(v1::ForgetClusterResponse {}))
    }

    async fn release_quarantine(
        &self,
        request: Request<v1::ReleaseQuarantineRequest>,
    ) -> Result<Response<v1::ReleaseQuarantineResponse>, Status> {
        let by = operations::caller(&request);
        let cluster = ClusterName::from(request.into_inner().cluster_name);
        operations::release(&*self.store, &cluster, &by).await?;
        Ok(Response::new(v1::ReleaseQuarantineResponse {}))
    }

    async fn confirm_removals(
        &self,
        request: Request<v1::ConfirmRemovalsRequest>,
    ) -> Result<Response<v1::ConfirmRemovalsResponse>, Status> {
        let by = operations::caller(&request);
        let cluster = ClusterName::from(request.into_inner().cluster_name);
        operations::confirm(&*self.store, &cluster, &by).await?;
        Ok(Response::new(v1::ConfirmRemovalsResponse {}))
    }
}
