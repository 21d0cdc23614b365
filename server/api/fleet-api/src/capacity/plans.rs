//! Plans of one cluster, which change nothing, from the replica that decides for it.

use std::sync::Arc;

use controller::planning_facts::NoFacts;
use fleetwright_proto::v1;
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use model::{ClusterName, Stop};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::quotes::of_replica;
use super::service::CapacityApi;
use super::what_if::{self, WhatIfError, WhatIfPlan};
use super::{deadline, pod_sets};
use crate::fleet::Access;
use crate::fleet::directory::Source;
use crate::fleet::lists::unanswered;
use api_messages::errors::{self, Reason};
use api_messages::{resource_names as names, timestamp};

impl CapacityApi {
    /// The plan, or that of the replica that decides for the cluster.
    pub(super) async fn plan_now(
        &self,
        request: v1::PlanClusterRequest,
        access: &Access,
        deadline: Instant,
    ) -> Result<v1::PlanClusterResponse, Status> {
        let cluster = names::parse_cluster(&request.name)?;
        match self.fleet.source(&cluster, access).await? {
            Source::Own => self.plan_own(&cluster, request, deadline).await,
            Source::Replica(instance) if !access.part => {
                let client = self.fleet.replicas.get_capacity(&instance, &access.clusters);
                let mut client = client.ok_or_else(|| unanswered(&cluster))?;
                let mut request = Request::new(request);
                request.set_timeout(deadline.saturating_duration_since(Instant::now()));
                Ok(client.plan_cluster(request).await.map_err(of_replica)?.into_inner())
            }
            Source::Replica(_) | Source::Stored => Err(unanswered(&cluster)),
        }
    }

    async fn plan_own(
        &self,
        cluster: &ClusterName,
        request: v1::PlanClusterRequest,
        deadline: Instant,
    ) -> Result<v1::PlanClusterResponse, Status> {
        what_if::check_policy(request.policy.as_ref()).map_err(|violation| errors::invalid(&[violation]))?;
        let sets = if request.pod_sets.is_empty() { Vec::new() } else { pod_sets::read(&request.pod_sets)? };
        let changes = what_if::changes(request.policy.as_ref(), request.catalogue.as_ref());
        let _place = self.threads.admit()?;
        let asked = timeout_at(deadline, self.fleet.questions.planning_facts(cluster.clone(), None)).await;
        let facts = match asked.map_err(|_| deadline::late())? {
            Ok(Ok(facts)) => facts,
            Ok(Err(NoFacts::NotSynced | NoFacts::Unchanged)) => return Err(not_synced(cluster)),
            Err(_) => return Err(unanswered(cluster)),
        };
        let sets = Arc::from(sets);
        let plan = WhatIfPlan { facts, sets, without_pending_pods: request.without_pending_pods, changes };
        // The thread is told when the client does not wait any more: this future is dropped then, and at the deadline it returns.
        let (given_up, clock) = (CancellationToken::new(), deadline.into_std());
        let _gives_up = given_up.clone().drop_guard();
        let stop = Stop::when(move || given_up.is_cancelled() || std::time::Instant::now() >= clock);
        let made = timeout_at(deadline, self.threads.plan(cluster, plan, stop)).await.map_err(|_| deadline::late())?;
        let made = made.map_err(|_| errors::status(Reason::Internal, "a plan failed; see the server's log"))?;
        let shown = made.map_err(|why| refused(&why))?;
        Ok(v1::PlanClusterResponse { plan: Some(shown.plan), observe_time: Some(timestamp(shown.at)) })
    }
}

fn not_synced(cluster: &ClusterName) -> Status {
    let message = format!(
        "the agent of cluster {cluster:?} is not connected, or has not sent the state of the cluster yet: ask again, or see \
         `fleetwright fleet clusters`"
    );
    errors::about(Reason::ClusterNotSynced, &names::cluster(cluster), message)
}

fn refused(why: &WhatIfError) -> Status {
    match why {
        WhatIfError::Invalid(violations) => errors::invalid(violations),
        WhatIfError::TooLong => {
            let most = MAX_MESSAGE_BYTES >> 20;
            let message = format!(
                "the plan has more than {most} MiB, which no message may have: ask for fewer pods or NodePools, or leave out the \
                 pods that wait"
            );
            errors::status(Reason::OutOfRange, message)
        }
        WhatIfError::Stopped => deadline::late(),
        WhatIfError::Refused(message) => errors::status(Reason::Internal, message),
    }
}
