//! The list of problems, from what this replica knows and what the others answer.

use std::cmp::Ordering;
use std::sync::Arc;

use fleetwright_proto::v1;
use jiff::Timestamp as Rfc3339;
use listing::{ListRequest, Query};
use model::ClusterName;
use store::clock;
use tonic::Status;

use super::api::FleetApi;
use super::collections::{Pods, Pools};
use super::lists::invalid;
use super::problem_groups::grouped;
use super::problems::{Facts, PATIENCE_MS, problems};
use super::shared_answers::FoundProblems;
use super::{resource_names as names, schemas};

/// The order of a request without one.
const WORST_FIRST: &str = "severity desc, start_time";

/// Rows that a problem is read from, of each kind at most.
const ROWS: i32 = 1_000;

impl FleetApi {
    pub(super) async fn list_problems_now(
        &self,
        request: &v1::ListProblemsRequest,
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
            let (facts, unreachable) = self.facts(only.as_ref(), now_ms).await?;
            let problems = problems(&facts, now_ms);
            Ok(FoundProblems { grouped: grouped(&problems), problems, unreachable })
        };
        let found = match only {
            Some(_) => Arc::new(find.await?),
            None => self.shared_answers.problems.get_or_find(find).await?,
        };
        let is_whole = only.is_none() && request.filter.is_empty();
        let rows = if is_whole { &found.grouped } else { &found.problems };
        let selected = query.select(rows).into_iter().cloned().collect();
        let page = query.merge(vec![selected], |_, _| Ordering::Equal);
        let unreachable = found.unreachable.clone();
        Ok(v1::ListProblemsResponse { problems: page.rows, next_page_token: page.next_page_token, unreachable })
    }

    /// What problems are read from, and names of the clusters whose pods and NodePools are missing.
    async fn facts(&self, only: Option<&ClusterName>, now_ms: i64) -> Result<(Facts, Vec<String>), Status> {
        let parent = names::cluster(only.map_or("-", |cluster| cluster));
        let clusters = match only {
            Some(cluster) => {
                self.source(cluster).await?;
                self.directory.get(cluster, clock::now()).into_iter().collect()
            }
            None => self.directory.all(false, clock::now()),
        };
        let before = Rfc3339::from_millisecond(now_ms - PATIENCE_MS).unwrap_or(Rfc3339::UNIX_EPOCH);
        let pods = v1::ListPodsRequest {
            parent: parent.clone(),
            page_size: ROWS,
            filter: format!("create_time < \"{before}\""),
            order_by: "create_time".to_owned(),
            ..Default::default()
        };
        let filter = "deleted = false AND not_ready_reason:*".to_owned();
        let pools = v1::ListPoolsRequest { parent, page_size: ROWS, filter, ..Default::default() };
        let (pods, pools) = futures::try_join!(self.list::<Pods>(pods, false), self.list::<Pools>(pools, false))?;
        let freezes = self.store.freezes().await;
        // Offerings and replicas are no cluster's own.
        let (offerings, replicas) = match only {
            Some(_) => (Ok(v1::ListOfferingsResponse::default()), Vec::new()),
            None => {
                let request = v1::ListOfferingsRequest { page_size: ROWS, ..Default::default() };
                (self.list_offerings_now(request).await, self.replicas.list())
            }
        };
        let is_store_up = freezes.is_ok() && offerings.is_ok();
        let mut freezes: Vec<v1::Freeze> = freezes.unwrap_or_default().iter().map(super::operations::message).collect();
        if let Some(cluster) = only {
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
            offerings: offerings.map(|answer| answer.offerings).unwrap_or_default(),
            freezes,
            replicas,
            is_store_up,
        };
        Ok((facts, unreachable))
    }
}
