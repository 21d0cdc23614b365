//! The list of problems, from what this replica knows and what the others answer.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use auth::cluster_access::ClusterAccess;
use fleetwright_proto::v1;
use futures::future::join_all;
use jiff::Timestamp as Rfc3339;
use listing::{ListRequest, Query};
use model::ClusterName;
use replica::offerings::region_and_account;
use store::clock;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::collections::{Pods, Pools};
use super::lists::invalid;
use super::problem_groups::grouped;
use super::problems::{Facts, PATIENCE_MS, problems};
use super::shared_answers::FoundProblems;
use super::{outages, schemas};
use crate::conditions::Dependency;
use api_messages::resource_names as names;

/// The order of a request without one: of equally bad ones, those of the fleet are first.
const WORST_FIRST: &str = "severity desc, resource, start_time";

/// How long a list waits for the store, and for each other replica.
const STORE_PATIENCE: Duration = Duration::from_secs(2);
const REPLICA_PATIENCE: Duration = Duration::from_secs(1);

/// Rows that a problem is read from, of each kind at most.
const ROWS: i32 = 1_000;

impl FleetApi {
    pub(super) async fn list_problems_now(
        &self,
        request: v1::ListProblemsRequest,
        access: &Access,
    ) -> Result<v1::ListProblemsResponse, Status> {
        let arguments = ListRequest {
            parent: &request.parent,
            filter: &request.filter,
            order_by: if request.order_by.is_empty() { WORST_FIRST } else { &request.order_by },
            page_size: request.page_size,
            page_token: &request.page_token,
        };
        let query = Query::new(&schemas::PROBLEMS, &arguments).map_err(invalid)?;
        let only = if request.parent.is_empty() { None } else { names::parse_parent(&request.parent)? };
        let now_ms = clock::now().as_millis();
        let find = async {
            let (facts, unreachable) = self.facts(only.as_ref(), now_ms, access).await?;
            let problems = problems(&facts, now_ms);
            let grouped = grouped(&problems, |cluster| self.region_of(cluster));
            Ok(FoundProblems { grouped, problems, unreachable })
        };
        let found = match only {
            Some(_) => Arc::new(find.await?),
            // Those that confined clients see are found for each of them.
            None if !access.clusters.is_of_all() => Arc::new(find.await?),
            None => self.shared_answers.problems.get_or_find(find).await?,
        };
        // A filter selects single problems, also those that follow from others.
        let rows = if request.filter.is_empty() { &found.grouped } else { &found.problems };
        let selected = query.select(rows).into_iter().cloned().collect();
        let page = query.merge(vec![selected], |_, _| Ordering::Equal);
        let unreachable = found.unreachable.clone();
        Ok(v1::ListProblemsResponse { problems: page.rows, next_page_token: page.next_page_token, unreachable })
    }

    /// What problems are read from, and names of the clusters whose pods and NodePools are missing. A cluster is looked up before
    /// anything is read of it: one that does not exist is an error. Neither the store nor a replica is waited for longer than
    /// their patience.
    async fn facts(
        &self,
        only: Option<&ClusterName>,
        now_ms: i64,
        access: &Access,
    ) -> Result<(Facts, Vec<String>), Status> {
        let cluster_id = only.map_or("-", |cluster| &**cluster);
        let mut clusters: Vec<v1::Cluster> = match only {
            Some(cluster) => {
                self.source(cluster, access).await?;
                self.directory.get(cluster, clock::now()).into_iter().collect()
            }
            None => self.directory.all(false, clock::now()),
        };
        clusters.retain(|row| access.shows(&row.name));
        let before = Rfc3339::from_millisecond(now_ms - PATIENCE_MS).unwrap_or(Rfc3339::UNIX_EPOCH);
        let pods = v1::ListPodsRequest {
            parent: names::namespace(cluster_id, "-"),
            page_size: ROWS,
            filter: format!("create_time < \"{before}\""),
            order_by: "create_time".to_owned(),
            ..Default::default()
        };
        let filter = "deleted = false AND not_ready_reason:*".to_owned();
        let parent = names::cluster(cluster_id);
        let pools = v1::ListPoolsRequest { parent, page_size: ROWS, filter, ..Default::default() };
        let (pods, pools) = futures::try_join!(self.list::<Pods>(pods, access), self.list::<Pools>(pools, access))?;
        let (stored, others) = tokio::join!(self.stored_facts(only.is_none()), self.outages_of_others());
        // What the store has is not known while it does not answer, which is a problem by itself.
        let (mut freezes, offerings) = stored.unwrap_or_default();
        let mut outages = outages::merged(self.outages(), others);
        freezes.retain(|freeze| freeze.target.is_empty() || access.shows(&freeze.target));
        if let Some(cluster) = only {
            let region = self.region_of(cluster);
            outages.retain(|outage| outages::concerns(outage, &region));
            // A freeze of the fleet concerns each of its clusters.
            let own = names::cluster(cluster);
            let concerns = |target: &str| target.is_empty() || target == own || target.starts_with(&format!("{own}/"));
            freezes.retain(|freeze| concerns(&freeze.target));
        }
        let mut unreachable = [pods.unreachable, pools.unreachable].concat();
        unreachable.sort_unstable();
        unreachable.dedup();
        let facts = Facts {
            clusters,
            pools: pools.rows,
            pods: pods.rows,
            offerings,
            freezes,
            outages,
            is_fleet: only.is_none(),
        };
        Ok((facts, unreachable))
    }

    /// Freezes and, for the fleet, refused offerings; `None` if the store does not answer soon. It is not asked while it is known
    /// not to.
    async fn stored_facts(&self, is_fleet: bool) -> Option<(Vec<v1::Freeze>, Vec<v1::Offering>)> {
        if !self.conditions.works(&Dependency::Store, clock::now()) {
            return None;
        }
        let read = async {
            let freezes = self.store.freezes().await.ok()?;
            let freezes = freezes.iter().map(super::operations::message).collect();
            let request = v1::ListOfferingsRequest { page_size: ROWS, ..Default::default() };
            let offerings = if is_fleet {
                self.list_offerings_now(request, &Access::default()).await.ok()?.offerings
            } else {
                Vec::new()
            };
            Some((freezes, offerings))
        };
        tokio::time::timeout(STORE_PATIENCE, read).await.ok().flatten()
    }

    /// What this replica depends on and does not work.
    pub(super) fn outages(&self) -> Vec<v1::Problem> {
        outages::problems(&self.conditions, clock::now())
    }

    /// The same of the other replicas that answer. One that does not is a problem by itself.
    async fn outages_of_others(&self) -> Vec<(Arc<str>, Vec<v1::Problem>)> {
        let asked = self.replicas.reachable(&ClusterAccess::all()).into_iter().map(async |(instance, mut client)| {
            let asked = client.get_server_info(v1::GetServerInfoRequest { name: names::SERVER_INFO.to_owned() });
            let info = tokio::time::timeout(REPLICA_PATIENCE, asked).await.ok()?.ok()?;
            Some((instance, info.into_inner().problems))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Account and region of a cluster, as problems name them.
    fn region_of(&self, cluster: &str) -> String {
        let scope = self.questions.entry_of(cluster).and_then(|entry| self.scopes.get(entry));
        let (region, account) = scope.map(region_and_account).unwrap_or_default();
        format!("{account}.{region}")
    }
}
