//! The methods of the API: each reads its request, and has it answered.

use fleetwright_proto::v1;
use fleetwright_rpc::v1::capacity_service_server::{CapacityService, CapacityServiceServer};
use model::ClusterName;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::client_shares::{ClientShares, ShareOf};
use super::deadline;
use super::holds::{self, Caller};
use super::pod_sets;
use super::quote_metrics::QUOTES;
use super::request_limits::RequestLimits;
use super::request_threads::OnRequestThreads;
use super::threads::CapacityThreads;
use crate::fleet::{Access, FleetApi};
use api_messages::errors::{Reason, status};
use api_messages::resource_names as names;
use auth::Client;
use store::clock;

#[derive(Clone)]
pub struct CapacityApi {
    pub fleet: FleetApi,
    pub(super) threads: CapacityThreads,
    limits: RequestLimits,
    shares: ClientShares,
}

impl CapacityApi {
    /// The API beside that of the fleet. Its quotes and plans are made on `threads`.
    pub fn new(fleet: FleetApi, threads: CapacityThreads) -> Self {
        Self { fleet, threads, limits: RequestLimits::default(), shares: ClientShares::default() }
    }

    pub fn service(self) -> OnRequestThreads<CapacityServiceServer<Self>> {
        let threads = self.threads.clone();
        OnRequestThreads::new(CapacityServiceServer::new(self), threads)
    }
}

#[tonic::async_trait]
impl CapacityService for CapacityApi {
    async fn plan_cluster(
        &self,
        request: Request<v1::PlanClusterRequest>,
    ) -> Result<Response<v1::PlanClusterResponse>, Status> {
        let (access, deadline) = (Access::of(&request)?, deadline::of(&request));
        self.limits.take(client(&request), clock::now())?;
        let _share = self.shares.enter(ShareOf::Plans, client(&request))?;
        self.plan_now(request.into_inner(), &access, deadline).await.map(Response::new)
    }

    async fn quote_clusters(
        &self,
        request: Request<v1::QuoteClustersRequest>,
    ) -> Result<Response<v1::QuoteClustersResponse>, Status> {
        let (access, deadline, begun) = (Access::of(&request)?, deadline::of(&request), Instant::now());
        let admitted = self.limits.take(client(&request), clock::now());
        let answer = match admitted.and_then(|()| self.shares.enter(ShareOf::Quotes, client(&request))) {
            Ok(_share) => self.quote_now(request.into_inner(), &access, deadline).await,
            Err(refused) => Err(refused),
        };
        if !access.part {
            QUOTES.observe(begun.elapsed(), answer.is_ok());
        }
        answer.map(Response::new)
    }

    async fn create_hold(&self, request: Request<v1::CreateHoldRequest>) -> Result<Response<v1::Hold>, Status> {
        self.limits.take(client(&request), clock::now())?;
        let (access, deadline) = (Access::of(&request)?, deadline::of(&request));
        let caller = caller(&request, &access);
        let request = request.into_inner();
        let asked = holds::asked(&request)?;
        let cluster = self.cluster_of_hold(&request, asked, &caller, (&access, deadline)).await?;
        holds::create(&*self.fleet.store, &request, &cluster, &caller).await.map(Response::new)
    }

    async fn commit_hold(&self, request: Request<v1::CommitHoldRequest>) -> Result<Response<v1::Hold>, Status> {
        let access = Access::of(&request)?;
        let caller = caller(&request, &access);
        holds::commit(&*self.fleet.store, request.get_ref(), (&caller, &access)).await.map(Response::new)
    }

    async fn release_hold(&self, request: Request<v1::ReleaseHoldRequest>) -> Result<Response<v1::Hold>, Status> {
        let access = Access::of(&request)?;
        let caller = caller(&request, &access);
        holds::release(&*self.fleet.store, request.get_ref(), (&caller, &access)).await.map(Response::new)
    }
}

fn client<T>(request: &Request<T>) -> Option<&Client> {
    request.extensions().get::<Client>()
}

fn caller<T>(request: &Request<T>, access: &Access) -> Caller {
    Caller { name: access.by.clone(), client: client(request).cloned() }
}

impl CapacityApi {
    /// The cluster of a hold: the one that the request names, or the one with the best quote. Only the latter takes a share of
    /// the quotes.
    async fn cluster_of_hold(
        &self,
        request: &v1::CreateHoldRequest,
        hold: &v1::Hold,
        caller: &Caller,
        (access, deadline): (&Access, Instant),
    ) -> Result<ClusterName, Status> {
        if let Some(cluster) = names::parse_parent(&request.parent)? {
            access.check(&cluster)?;
            return Ok(cluster);
        }
        let _share = self.shares.enter(ShareOf::Quotes, caller.client.as_ref())?;
        // Named by their path in this request, and not by that in the quote.
        pod_sets::read_below("hold", &hold.pod_sets)?;
        let asked = v1::QuoteClustersRequest {
            pod_sets: hold.pod_sets.clone(),
            clusters: request.clusters.clone(),
            max_clusters: 1,
        };
        let quoted = self.quote_now(asked, access, deadline).await?;
        let Some(best) = quoted.quotes.first() else {
            return Err(status(Reason::NoCapacity, "there is no cluster to hold capacity in"));
        };
        if !best.fits {
            let why =
                best.blockers.iter().flat_map(|blocker| &blocker.reasons).map(|reason| reason.message.as_str()).next();
            let why = format!(
                "the pods fit in none of {} clusters; in {}: {}",
                quoted.cluster_count,
                best.cluster,
                why.unwrap_or("no reason is known")
            );
            return Err(status(Reason::NoCapacity, why));
        }
        names::parse_cluster(&best.cluster)
    }
}
