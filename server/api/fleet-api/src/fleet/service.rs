//! The methods of the API: each reads its request, and has it answered.

use std::sync::Arc;

use fleetwright_proto::v1;
use fleetwright_rpc::v1::fleet_service_server::FleetService;
use tonic::{Request, Response, Status};

use super::access::Access;
use super::api::FleetApi;
use super::collections::{Nodes, Pods, Pools};
use super::lists::unanswered;
use super::watches::Watch;
use super::{decision_log, operations};
use crate::capacity::holds;
use api_messages::{errors, resource_names as names};
use store::clock;

fn by_name(name: &str) -> String {
    format!("name = {name:?}")
}

#[tonic::async_trait]
impl FleetService for FleetApi {
    type WatchClustersStream = Watch<v1::WatchClustersResponse>;
    type WatchPoolsStream = Watch<v1::WatchPoolsResponse>;
    type WatchNodesStream = Watch<v1::WatchNodesResponse>;
    type WatchPodsStream = Watch<v1::WatchPodsResponse>;
    type WatchDecisionsStream = Watch<v1::WatchDecisionsResponse>;
    type WatchHoldStream = Watch<v1::Hold>;
    type ReadDecisionsStream = decision_log::Parts<v1::ReadDecisionsResponse>;
    type ReadLogStream = decision_log::Parts<v1::ReadLogResponse>;
    type ReadContentStream = decision_log::Parts<v1::ReadContentResponse>;

    async fn get_cluster(&self, request: Request<v1::GetClusterRequest>) -> Result<Response<v1::Cluster>, Status> {
        let cluster = names::parse_cluster(&request.get_ref().name)?;
        self.source(&cluster, &Access::of(&request)?).await?;
        let found = self.directory.get(&cluster, clock::now());
        found.map(Response::new).ok_or_else(|| unanswered(&cluster))
    }

    async fn list_clusters(
        &self,
        request: Request<v1::ListClustersRequest>,
    ) -> Result<Response<v1::ListClustersResponse>, Status> {
        let access = Access::of(&request)?;
        self.list_clusters_now(request.get_ref(), &access).map(Response::new)
    }

    async fn watch_clusters(
        &self,
        request: Request<v1::WatchClustersRequest>,
    ) -> Result<Response<Self::WatchClustersStream>, Status> {
        let access = Access::of(&request)?;
        self.watch_clusters_now(request.into_inner(), &access).map(Response::new)
    }

    async fn get_pool(&self, request: Request<v1::GetPoolRequest>) -> Result<Response<v1::Pool>, Status> {
        let (access, name) = (Access::of(&request)?, &request.get_ref().name);
        let (cluster, _) = names::parse_child(name, "pools")?;
        let parent = names::cluster(&cluster);
        let ask = || v1::ListPoolsRequest { parent, page_size: 1, filter: by_name(name), ..Default::default() };
        self.get::<Pools>((&cluster, name), ask, &access).await.map(Response::new)
    }

    async fn list_pools(
        &self,
        request: Request<v1::ListPoolsRequest>,
    ) -> Result<Response<v1::ListPoolsResponse>, Status> {
        let access = Access::of(&request)?;
        Ok(Response::new(self.list::<Pools>(request.into_inner(), &access).await?.into()))
    }

    async fn watch_pools(
        &self,
        request: Request<v1::WatchPoolsRequest>,
    ) -> Result<Response<Self::WatchPoolsStream>, Status> {
        let access = Access::of(&request)?;
        self.watch_collection::<Pools>(request.into_inner(), &access).await.map(Response::new)
    }

    async fn get_node(&self, request: Request<v1::GetNodeRequest>) -> Result<Response<v1::Node>, Status> {
        let (access, name) = (Access::of(&request)?, &request.get_ref().name);
        let (cluster, node) = names::parse_child(name, "nodes")?;
        let parent = names::cluster(&cluster);
        // A Node and a NodeClaim may share a name; the NodeClaim has it as its own.
        let filter = format!("{} OR node = {node:?}", by_name(name));
        let ask = || v1::ListNodesRequest { parent, filter, ..Default::default() };
        self.get::<Nodes>((&cluster, name), ask, &access).await.map(Response::new)
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let access = Access::of(&request)?;
        Ok(Response::new(self.list::<Nodes>(request.into_inner(), &access).await?.into()))
    }

    async fn watch_nodes(
        &self,
        request: Request<v1::WatchNodesRequest>,
    ) -> Result<Response<Self::WatchNodesStream>, Status> {
        let access = Access::of(&request)?;
        self.watch_collection::<Nodes>(request.into_inner(), &access).await.map(Response::new)
    }

    async fn get_pod(&self, request: Request<v1::GetPodRequest>) -> Result<Response<v1::Pod>, Status> {
        let (access, name) = (Access::of(&request)?, &request.get_ref().name);
        let (cluster, pod) = names::parse_pod(name)?;
        let parent = names::namespace(&cluster, &pod.namespace);
        let ask = || v1::ListPodsRequest { parent, page_size: 1, filter: by_name(name), ..Default::default() };
        self.get::<Pods>((&cluster, name), ask, &access).await.map(Response::new)
    }

    async fn list_pods(&self, request: Request<v1::ListPodsRequest>) -> Result<Response<v1::ListPodsResponse>, Status> {
        let access = Access::of(&request)?;
        Ok(Response::new(self.list::<Pods>(request.into_inner(), &access).await?.into()))
    }

    async fn watch_pods(
        &self,
        request: Request<v1::WatchPodsRequest>,
    ) -> Result<Response<Self::WatchPodsStream>, Status> {
        let access = Access::of(&request)?;
        self.watch_collection::<Pods>(request.into_inner(), &access).await.map(Response::new)
    }

    async fn get_decision(&self, request: Request<v1::GetDecisionRequest>) -> Result<Response<v1::Decision>, Status> {
        self.get_decision_now(&request.get_ref().name, &Access::of(&request)?).await.map(Response::new)
    }

    async fn list_decisions(
        &self,
        request: Request<v1::ListDecisionsRequest>,
    ) -> Result<Response<v1::ListDecisionsResponse>, Status> {
        let access = Access::of(&request)?;
        let request = request.into_inner();
        let positions = self.decision_positions(&request.parent, &access).await?;
        if access.part {
            return Ok(Response::new(v1::ListDecisionsResponse { resume_token: positions, ..Default::default() }));
        }
        self.list_decisions_now(request, positions, &access).await.map(Response::new)
    }

    async fn watch_decisions(
        &self,
        request: Request<v1::WatchDecisionsRequest>,
    ) -> Result<Response<Self::WatchDecisionsStream>, Status> {
        let access = Access::of(&request)?;
        self.watch_decisions_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn list_problems(
        &self,
        request: Request<v1::ListProblemsRequest>,
    ) -> Result<Response<v1::ListProblemsResponse>, Status> {
        self.list_problems_now(request.get_ref(), &Access::of(&request)?).await.map(Response::new)
    }

    async fn list_offerings(
        &self,
        request: Request<v1::ListOfferingsRequest>,
    ) -> Result<Response<v1::ListOfferingsResponse>, Status> {
        self.list_offerings_now(request.into_inner()).await.map(Response::new)
    }

    async fn compute_cost(
        &self,
        request: Request<v1::ComputeCostRequest>,
    ) -> Result<Response<v1::ComputeCostResponse>, Status> {
        let access = Access::of(&request)?;
        self.cost_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn compute_spend(
        &self,
        request: Request<v1::ComputeSpendRequest>,
    ) -> Result<Response<v1::ComputeSpendResponse>, Status> {
        let (access, request) = (Access::of(&request)?, request.into_inner());
        let read = self.spend_now(request.clone(), &access);
        self.shared_answers.spend.get_or_read(&request, &access.clusters, read).await.map(Response::new)
    }

    async fn list_cost_intervals(
        &self,
        request: Request<v1::ListCostIntervalsRequest>,
    ) -> Result<Response<v1::ListCostIntervalsResponse>, Status> {
        let access = Access::of(&request)?;
        self.list_cost_intervals_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn compute_savings(
        &self,
        request: Request<v1::ComputeSavingsRequest>,
    ) -> Result<Response<v1::ComputeSavingsResponse>, Status> {
        let (access, request) = (Access::of(&request)?, request.into_inner());
        let read = self.savings_now(request.clone(), &access);
        self.shared_answers.savings.get_or_read(&request, &access.clusters, read).await.map(Response::new)
    }

    async fn get_server_info(
        &self,
        request: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::ServerInfo>, Status> {
        names::check_server_info(&request.get_ref().name)?;
        Ok(Response::new(v1::ServerInfo {
            name: names::SERVER_INFO.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            replica: self.instance.to_string(),
            notices: self.notices(),
            replicas: self.replicas.list(),
            problems: self.outages(),
        }))
    }

    async fn explain_node(
        &self,
        request: Request<v1::ExplainNodeRequest>,
    ) -> Result<Response<v1::ExplainNodeResponse>, Status> {
        let access = Access::of(&request)?;
        self.explain_node_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn explain_pod(
        &self,
        request: Request<v1::ExplainPodRequest>,
    ) -> Result<Response<v1::ExplainPodResponse>, Status> {
        let access = Access::of(&request)?;
        self.explain_pod_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn create_freeze(&self, request: Request<v1::CreateFreezeRequest>) -> Result<Response<v1::Freeze>, Status> {
        let (by, access) = (operations::caller(&request), Access::of(&request)?);
        let view = self.views.borrow().clone();
        let asked =
            request.into_inner().freeze.ok_or_else(|| errors::invalid_field("freeze", "missing, but required"))?;
        operations::freeze(&*self.store, &view, asked, by, &access).await.map(Response::new)
    }

    async fn get_freeze(&self, request: Request<v1::GetFreezeRequest>) -> Result<Response<v1::Freeze>, Status> {
        let id = names::parse_number(&request.get_ref().name, "freezes")?;
        operations::get_freeze(&*self.store, id, &Access::of(&request)?).await.map(Response::new)
    }

    async fn delete_freeze(&self, request: Request<v1::DeleteFreezeRequest>) -> Result<Response<()>, Status> {
        let by = operations::caller(&request);
        let id = names::parse_number(&request.get_ref().name, "freezes")?;
        operations::thaw(&*self.store, id, &by, &Access::of(&request)?).await.map(Response::new)
    }

    async fn list_freezes(
        &self,
        request: Request<v1::ListFreezesRequest>,
    ) -> Result<Response<v1::ListFreezesResponse>, Status> {
        let access = Access::of(&request)?;
        self.list_freezes_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn get_hold(&self, request: Request<v1::GetHoldRequest>) -> Result<Response<v1::Hold>, Status> {
        let row = holds::get(&*self.store, &request.get_ref().name, &Access::of(&request)?).await?;
        Ok(Response::new(holds::hold(&row)))
    }

    async fn list_holds(
        &self,
        request: Request<v1::ListHoldsRequest>,
    ) -> Result<Response<v1::ListHoldsResponse>, Status> {
        let access = Access::of(&request)?;
        self.list_holds_now(request.into_inner(), &access).await.map(Response::new)
    }

    async fn watch_hold(
        &self,
        request: Request<v1::WatchHoldRequest>,
    ) -> Result<Response<Self::WatchHoldStream>, Status> {
        let access = Access::of(&request)?;
        holds::watch(Arc::clone(&self.store), request.into_inner().name, access).await.map(Response::new)
    }

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Result<Response<v1::ListAuditEntriesResponse>, Status> {
        Access::of(&request)?.check_fleet("the audit log")?;
        self.list_audit_now(request.into_inner()).await.map(Response::new)
    }

    async fn accept_cluster_uid(
        &self,
        request: Request<v1::AcceptClusterUidRequest>,
    ) -> Result<Response<v1::AcceptClusterUidResponse>, Status> {
        let by = operations::caller(&request);
        operations::accept_uid(&*self.store, request.get_ref(), &by, &Access::of(&request)?).await?;
        Ok(Response::new(v1::AcceptClusterUidResponse {}))
    }

    async fn forget_cluster(
        &self,
        request: Request<v1::ForgetClusterRequest>,
    ) -> Result<Response<v1::ForgetClusterResponse>, Status> {
        let by = operations::caller(&request);
        let is_connected = |cluster: &str| {
            let seen = self.directory.get(&cluster.into(), clock::now());
            seen.is_some_and(|seen| seen.connected && !seen.stale)
        };
        operations::forget_cluster(&*self.store, is_connected, request.get_ref(), &by, &Access::of(&request)?).await?;
        Ok(Response::new(v1::ForgetClusterResponse {}))
    }

    async fn release_quarantine(
        &self,
        request: Request<v1::ReleaseQuarantineRequest>,
    ) -> Result<Response<v1::ReleaseQuarantineResponse>, Status> {
        let by = operations::caller(&request);
        let cluster = names::parse_cluster(&request.get_ref().name)?;
        Access::of(&request)?.check(&cluster)?;
        operations::release(&*self.store, &cluster, &by).await?;
        Ok(Response::new(v1::ReleaseQuarantineResponse {}))
    }

    async fn confirm_removals(
        &self,
        request: Request<v1::ConfirmRemovalsRequest>,
    ) -> Result<Response<v1::ConfirmRemovalsResponse>, Status> {
        let by = operations::caller(&request);
        let cluster = names::parse_cluster(&request.get_ref().name)?;
        Access::of(&request)?.check(&cluster)?;
        operations::confirm(&*self.store, &cluster, &by).await?;
        Ok(Response::new(v1::ConfirmRemovalsResponse {}))
    }

    async fn read_decisions(
        &self,
        request: Request<v1::ReadDecisionsRequest>,
    ) -> Result<Response<Self::ReadDecisionsStream>, Status> {
        let access = Access::of(&request)?;
        Ok(Response::new(decision_log::list(&*self.store, request.into_inner(), &access).await?))
    }

    async fn read_log(&self, request: Request<v1::ReadLogRequest>) -> Result<Response<Self::ReadLogStream>, Status> {
        let access = Access::of(&request)?;
        Ok(Response::new(decision_log::segment(&*self.store, request.into_inner(), &access).await?))
    }

    async fn read_content(
        &self,
        request: Request<v1::ReadContentRequest>,
    ) -> Result<Response<Self::ReadContentStream>, Status> {
        Ok(Response::new(decision_log::content(&*self.store, request.into_inner()).await?))
    }
}
