//! Plans of one cluster, which change nothing, from the replica that decides for it.

use std::sync::Arc;

use controller::planning_facts::NoFacts;
use fleetwright_proto::v1;
use model::ClusterName;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Status};

use super::errors::{self, Reason};
use super::pod_sets;
use super::quotes::late;
use super::service::CapacityApi;
use super::what_if::{self, WhatIfError, WhatIfPlan};
use crate::fleet::directory::Source;
use crate::fleet::encode::timestamp;
use crate::fleet::lists::unanswered;
use crate::fleet::resource_names as names;

impl CapacityApi {
    /// The plan, or that of the replica that decides for the cluster.
    pub(super) async fn plan_now(
        &self,
        request: v1::PlanRequest,
        part: bool,
        deadline: Instant,
    ) -> Result<v1::PlanResponse, Status> {
        let cluster = names::parse_cluster(&request.cluster)
            .map_err(|error| errors::invalid_field("cluster", error.message().to_owned()))?;
        match self.fleet.source(&cluster).await? {
            Source::Own => self.plan_own(&cluster, request, deadline).await,
            Source::Replica(instance) if !part => {
                let client = self.fleet.replicas.get_capacity(&instance);
                let mut client = client.ok_or_else(|| unanswered(&cluster))?;
                let mut request = Request::new(request);
                request.set_timeout(deadline.saturating_duration_since(Instant::now()));
                Ok(client.plan(request).await?.into_inner())
            }
            Source::Replica(_) | Source::Stored => Err(unanswered(&cluster)),
        }
    }

    async fn plan_own(
        &self,
        cluster: &ClusterName,
        request: v1::PlanRequest,
        deadline: Instant,
    ) -> Result<v1::PlanResponse, Status> {
        let sets = if request.pod_sets.is_empty() { Vec::new() } else { pod_sets::read(&request.pod_sets)? };
        let changes = what_if::changes(request.policy.as_ref(), request.catalogue.as_ref());
        let _place = self.threads.admit()?;
        let asked = timeout_at(deadline, self.fleet.questions.planning_facts(cluster.clone(), None)).await;
        let facts = match asked.map_err(|_| late())? {
            Ok(Ok(facts)) => facts,
            Ok(Err(NoFacts::NotSynced | NoFacts::Unchanged)) => return Err(not_synced(cluster)),
            Err(_) => return Err(unanswered(cluster)),
        };
        let sets = Arc::from(sets);
        let plan = WhatIfPlan { facts, sets, without_pending_pods: request.without_pending_pods, changes };
        let made = timeout_at(deadline, self.threads.plan(cluster, plan)).await.map_err(|_| late())?;
        let made = made.map_err(|_| errors::status(Reason::Internal, "a plan failed; see the server's log"))?;
        let shown = made.map_err(|why| refused(&why))?;
        Ok(v1::PlanResponse { plan: Some(shown.document), observe_time: Some(timestamp(shown.at)) })
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
        WhatIfError::TooLong(bytes) => {
            let message =
                format!("the plan has {bytes} bytes, more than a message may have: leave out the pods that wait");
            errors::status(Reason::OutOfRange, message)
        }
        WhatIfError::Refused(message) => errors::status(Reason::Internal, message),
    }
}
