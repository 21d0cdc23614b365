//! The methods of the API: each reads its request, and has it answered.

use fleetwright_proto::v1;
use fleetwright_rpc::v1::capacity_service_server::CapacityService;
use model::ClusterName;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::deadline;
use super::errors::{Reason, status};
use super::holds::{self, Caller};
use super::quote_metrics::QUOTES;
use super::request_limits::RequestLimits;
use super::threads::CapacityThreads;
use crate::fleet::replica_clients::is_part;
use crate::fleet::{FleetApi, resource_names as names};
use auth::Client;
use store::clock;

/// What the API answers from.
#[derive(Clone)]
pub(crate) struct CapacityApi {
    pub(crate) fleet: FleetApi,
    pub(super) threads: CapacityThreads,
    limits: RequestLimits,
}

impl CapacityApi {
    /// The API beside that of the fleet. Its quotes and plans are made on `threads`.
    pub(crate) fn new(fleet: FleetApi, threads: CapacityThreads) -> Self {
        Self { fleet, threads, limits: RequestLimits::default() }
    }
}

#[tonic::async_trait]
impl CapacityService for CapacityApi {
    async fn plan(&self, request: Request<v1::PlanRequest>) -> Result<Response<v1::PlanResponse>, Status> {
        let (part, deadline) = (is_part(&request), deadline::of(&request));
        self.limits.take(client(&request), clock::now())?;
        self.plan_now(request.into_inner(), part, deadline).await.map(Response::new)
    }

    async fn quote(&self, request: Request<v1::QuoteRequest>) -> Result<Response<v1::QuoteResponse>, Status> {
        let (part, deadline, begun) = (is_part(&request), deadline::of(&request), Instant::now());
        let answer = match self.limits.take(client(&request), clock::now()) {
            Ok(()) => self.quote_now(request.into_inner(), part, deadline).await,
            Err(refused) => Err(refused),
        };
        if !part {
            QUOTES.observe(begun.elapsed(), answer.is_ok());
        }
        answer.map(Response::new)
    }

    async fn hold(&self, request: Request<v1::HoldRequest>) -> Result<Response<v1::Hold>, Status> {
        self.limits.take(client(&request), clock::now())?;
        let (caller, deadline) = (caller(&request), deadline::of(&request));
        let request = request.into_inner();
        let cluster = self.cluster_of_hold(&request, deadline).await?;
        holds::create(&*self.fleet.store, &request, &cluster, &caller).await.map(Response::new)
    }

    async fn commit(&self, request: Request<v1::CommitRequest>) -> Result<Response<v1::Hold>, Status> {
        holds::commit(&*self.fleet.store, request.get_ref()).await.map(Response::new)
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::Hold>, Status> {
        holds::release(&*self.fleet.store, request.get_ref()).await.map(Response::new)
    }
}

fn client<T>(request: &Request<T>) -> Option<&Client> {
    request.extensions().get::<Client>()
}

fn caller<T>(request: &Request<T>) -> Caller {
    Caller { name: crate::fleet::caller(request), client: client(request).cloned() }
}

impl CapacityApi {
    /// The cluster of a hold: the one that the request names, or the one with the best quote.
    async fn cluster_of_hold(&self, request: &v1::HoldRequest, deadline: Instant) -> Result<ClusterName, Status> {
        if let Some(cluster) = names::parse_parent(&request.parent)? {
            return Ok(cluster);
        }
        let asked = v1::QuoteRequest {
            pod_sets: request.pod_sets.clone(),
            clusters: request.clusters.clone(),
            max_clusters: 1,
        };
        let quoted = self.quote_now(asked, false, deadline).await?;
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
