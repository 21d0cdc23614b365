//! Lists of the resources of clusters. The replica that is asked selects from its own rows, asks the others for what they
//! select, and merges the parts.

use std::cmp::Ordering;
use std::sync::Arc;

use fleetwright_proto::v1;
use futures::future::join_all;
use listing::{ListError, ListRequest, Query};
use model::ClusterName;
use store::clock;
use tonic::Status;

use super::access::Access;
use super::api::FleetApi;
use super::collections::{Collection, IsBelow, ListAnswer, ListPart, Nodes, Pods, Pools};
use super::directory::Source;
use super::positions::Positions;
use super::{encode, schemas};
use crate::views::PublishedCluster;
use api_messages::errors::{self, Reason};
use api_messages::resource::Resource;
use api_messages::resource_names as names;

/// A wrong argument of a list.
pub(super) fn invalid(error: ListError) -> Status {
    errors::invalid_argument(error.argument().name(), error.to_string())
}

impl FleetApi {
    /// A page of a collection; of the rows of this replica alone if `part` is set.
    pub(super) async fn list<C: Collection>(
        &self,
        request: C::ListRequest,
        access: &Access,
    ) -> Result<ListAnswer<C::Row>, Status> {
        let arguments = C::arguments(&request);
        let (cluster, is_below) = C::parent(arguments.parent)?;
        let query = Query::new(C::schema(), &arguments).map_err(invalid)?;
        let is_first = arguments.page_token.is_empty();
        // The position precedes the rows: a change between them is sent again and not lost.
        let own_position = Positions::of(&self.instance, C::log(&self.changes).end());
        let own = self.select::<C>(&query, cluster.as_ref(), &is_below, access);
        if access.part {
            let resume_token = own_position.token();
            return Ok(ListAnswer { rows: own, next_page_token: String::new(), resume_token, unreachable: Vec::new() });
        }
        let (others, mut unreachable) = self.parts_of_others::<C>(&request, cluster.as_ref(), access).await?;
        let mut positions = own_position;
        let mut parts = vec![own];
        for (instance, part) in others {
            positions.extend(Positions::parse(&part.resume_token)?);
            parts.push(self.owned_by(&instance, part.rows));
        }
        unreachable.sort_unstable();
        let page = query.merge(parts, |_, _| Ordering::Equal);
        let resume_token = if is_first { positions.token() } else { String::new() };
        Ok(ListAnswer { rows: page.rows, next_page_token: page.next_page_token, resume_token, unreachable })
    }

    /// The rows of this replica that belong to the page.
    fn select<C: Collection>(
        &self,
        query: &Query<C::Row>,
        only: Option<&ClusterName>,
        is_below: &IsBelow,
        access: &Access,
    ) -> Vec<C::Row> {
        let (view, own) = (self.views.borrow().clone(), self.directory.own());
        let mut clusters: Vec<(&ClusterName, &Arc<PublishedCluster>)> = match only {
            Some(cluster) => view.clusters.get_key_value(cluster).into_iter().collect(),
            None => view.clusters.iter().collect(),
        };
        // The view of a cluster whose lease was lost is published until the loss is noticed.
        clusters.retain(|(cluster, _)| own.contains(*cluster) && access.clusters.allows(cluster));
        let selected = if C::SORTED {
            // In the order of the names of their resources, where a slash follows the cluster's.
            clusters.sort_unstable_by(|(one, _), (other, _)| with_slash(one).cmp(with_slash(other)));
            let after = query.after_name().unwrap_or_default();
            let is_behind = |cluster: &str| {
                let prefix = names::child(cluster, C::NAME, "");
                *prefix < *after && !after.starts_with(&prefix)
            };
            let clusters = clusters.into_iter().filter(|(cluster, _)| !is_behind(cluster));
            query.select_from_named(clusters.flat_map(|(_, cluster)| rows_below::<C>(cluster, is_below)))
        } else {
            let clusters = clusters.into_iter();
            query.select(clusters.flat_map(|(_, cluster)| rows_below::<C>(cluster, is_below)))
        };
        selected.into_iter().cloned().collect()
    }

    /// What other replicas select, and the clusters for which none answers.
    async fn parts_of_others<C: Collection>(
        &self,
        request: &C::ListRequest,
        only: Option<&ClusterName>,
        access: &Access,
    ) -> Result<(Vec<(Arc<str>, ListPart<C::Row>)>, Vec<String>), Status> {
        // All are asked for their positions, also about a cluster of one.
        let asked = self.replicas.reachable(&access.clusters).into_iter().map(async |(instance, client)| {
            let part = C::ask(client, request.clone()).await;
            (instance, part)
        });
        let (mut parts, mut unreachable) = (Vec::new(), self.unreachable(only, access).await?);
        for (instance, part) in join_all(asked).await {
            match part {
                Ok(part) => parts.push((instance, part)),
                // Such an error is that of the request; this replica would have found it.
                Err(status) => {
                    tracing::warn!(replica = %instance, reason = status.message(), "replica did not answer a list");
                    unreachable.extend(self.unanswered_of(&instance, only, access));
                }
            }
        }
        Ok((parts, unreachable))
    }

    /// Those rows whose cluster that replica decides for: another one may have taken it over.
    fn owned_by<M: Resource>(&self, instance: &Arc<str>, rows: Vec<M>) -> Vec<M> {
        let own = self.directory.clusters_of(instance);
        let cluster = |row: &M| row.name().split('/').nth(1).map(ClusterName::from);
        rows.into_iter().filter(|row| cluster(row).is_some_and(|cluster| own.contains(&cluster))).collect()
    }

    pub(super) async fn get_cluster_now(
        &self,
        request: v1::GetClusterRequest,
        access: &Access,
    ) -> Result<v1::Cluster, Status> {
        let cluster = names::parse_cluster(&request.name)?;
        self.source(&cluster, access).await?;
        self.directory.get(&cluster, clock::now()).ok_or_else(|| unanswered(&cluster))
    }

    /// A page of the clusters; all those of this replica if `part` is set.
    pub(super) async fn list_clusters_now(
        &self,
        request: v1::ListClustersRequest,
        access: &Access,
    ) -> Result<v1::ListClustersResponse, Status> {
        let arguments = ListRequest {
            parent: "",
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
        };
        let query = Query::new(&schemas::CLUSTERS, &arguments).map_err(invalid)?;
        let resume_token = Positions::of(&self.instance, self.directory.changes().end()).token();
        let mut all = self.directory.all(access.part, clock::now());
        all.retain(|row| access.shows(&row.name));
        if access.part {
            return Ok(v1::ListClustersResponse { clusters: all, next_page_token: String::new(), resume_token });
        }
        let rows: Vec<v1::Cluster> = query.select(&all).into_iter().cloned().collect();
        let page = query.merge(vec![rows], |_, _| Ordering::Equal);
        let resume_token = if request.page_token.is_empty() { resume_token } else { String::new() };
        let clusters = page.rows.into_iter().map(encode::in_lists).collect();
        Ok(v1::ListClustersResponse { clusters, next_page_token: page.next_page_token, resume_token })
    }

    /// The resource of that name in a collection, from whichever replica decides for its cluster.
    pub(super) async fn get<C: Collection>(
        &self,
        (cluster, name): (&ClusterName, &str),
        request: impl FnOnce() -> C::ListRequest,
        access: &Access,
    ) -> Result<C::Row, Status> {
        let missing = || Status::not_found(format!("there is no {name:?}"));
        match self.source(cluster, access).await? {
            Source::Own => {
                let view = self.views.borrow().clone();
                let rows = view.clusters.get(cluster).map(|cluster| C::rows(&cluster.rows)).unwrap_or_default();
                let found = rows.iter().find(|row| row.name() == name);
                let found = found.or_else(|| rows.iter().find(|row| row.has_alias(name)));
                found.map(|row| C::Row::clone(row)).ok_or_else(missing)
            }
            Source::Replica(instance) if !access.part => {
                let client = self.replicas.get(&instance, &access.clusters).ok_or_else(|| unanswered(cluster))?;
                let part = C::ask(client, request()).await?;
                let mut rows = part.rows;
                rows.sort_by_key(|row| row.name() != name);
                rows.into_iter().find(|row| row.name() == name || row.has_alias(name)).ok_or_else(missing)
            }
            Source::Replica(_) | Source::Stored => Err(unanswered(cluster)),
        }
    }

    pub(super) async fn get_pool_now(&self, request: v1::GetPoolRequest, access: &Access) -> Result<v1::Pool, Status> {
        let name = &request.name;
        let (cluster, _) = names::parse_child(name, "pools")?;
        let parent = names::cluster(&cluster);
        let ask = || v1::ListPoolsRequest { parent, page_size: 1, filter: by_name(name), ..Default::default() };
        self.get::<Pools>((&cluster, name), ask, access).await
    }

    pub(super) async fn list_pools_now(
        &self,
        request: v1::ListPoolsRequest,
        access: &Access,
    ) -> Result<v1::ListPoolsResponse, Status> {
        self.list::<Pools>(request, access).await.map(Into::into)
    }

    pub(super) async fn get_node_now(&self, request: v1::GetNodeRequest, access: &Access) -> Result<v1::Node, Status> {
        let name = &request.name;
        let (cluster, node) = names::parse_child(name, "nodes")?;
        let parent = names::cluster(&cluster);
        // A Node and a NodeClaim may share a name; the NodeClaim has it as its own.
        let filter = format!("{} OR node = {node:?}", by_name(name));
        let ask = || v1::ListNodesRequest { parent, filter, ..Default::default() };
        self.get::<Nodes>((&cluster, name), ask, access).await
    }

    pub(super) async fn list_nodes_now(
        &self,
        request: v1::ListNodesRequest,
        access: &Access,
    ) -> Result<v1::ListNodesResponse, Status> {
        self.list::<Nodes>(request, access).await.map(Into::into)
    }

    pub(super) async fn get_pod_now(&self, request: v1::GetPodRequest, access: &Access) -> Result<v1::Pod, Status> {
        let name = &request.name;
        let (cluster, pod) = names::parse_pod(name)?;
        let parent = names::namespace(&cluster, &pod.namespace);
        let ask = || v1::ListPodsRequest { parent, page_size: 1, filter: by_name(name), ..Default::default() };
        self.get::<Pods>((&cluster, name), ask, access).await
    }

    pub(super) async fn list_pods_now(
        &self,
        request: v1::ListPodsRequest,
        access: &Access,
    ) -> Result<v1::ListPodsResponse, Status> {
        self.list::<Pods>(request, access).await.map(Into::into)
    }
}

fn by_name(name: &str) -> String {
    format!("name = {name:?}")
}

/// The rows of a cluster that are below the parent of a list.
fn rows_below<'c, C: Collection>(
    cluster: &'c PublishedCluster,
    is_below: &'c IsBelow,
) -> impl Iterator<Item = &'c C::Row> {
    C::rows(&cluster.rows).iter().map(|row| &**row).filter(move |row| is_below(row.name()))
}

/// The bytes of a name with the slash that follows it in the names of its resources.
fn with_slash(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().chain([b'/'])
}

/// No replica that answers decides for the cluster.
pub(crate) fn unanswered(cluster: &str) -> Status {
    let message = format!(
        "no replica that answers decides for cluster {cluster:?} now; its agent may be disconnected, or its replica may have \
         been stopped: ask again, or see `fleetwright fleet clusters`"
    );
    errors::about(Reason::ClusterUnreachable, &names::cluster(cluster), message)
}
