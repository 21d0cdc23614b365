//! The collections of a cluster that replicas list and watch together: NodePools, nodes, pods that wait.

use std::sync::Arc;

use fleetwright_proto::v1;
use listing::{ListRequest, Schema};
use model::ClusterName;
use tonic::{Request, Status, Streaming};

use super::change_log::ChangeLog;
use super::replica_clients::ReplicaClient;
use super::rows::ClusterRows;
use super::schemas;
use crate::views::ResourceChanges;
use api_messages::resource::Resource;
use api_messages::resource_names as names;

/// A part of a list, as one replica answers it.
pub(crate) struct ListPart<M> {
    pub rows: Vec<M>,
    pub(crate) resume_token: String,
}

/// A page of a list, as clients get it.
pub(crate) struct ListAnswer<M> {
    pub rows: Vec<M>,
    pub(crate) next_page_token: String,
    pub(crate) resume_token: String,
    pub unreachable: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct WatchArguments {
    pub parent: String,
    pub(crate) resume_token: String,
    pub filter: String,
    pub(crate) min_interval: Option<prost_types::Duration>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct WatchMessage<M> {
    pub rows: Vec<M>,
    pub deleted: Vec<String>,
    pub(crate) resume_token: String,
    pub(crate) reset: Vec<String>,
}

/// Whether the resource of this name is below the parent of a list or a watch, if its cluster is.
pub(crate) type IsBelow = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The parent of collections of clusters: all that a cluster has is below it.
fn of_cluster(parent: &str) -> Result<(Option<ClusterName>, IsBelow), Status> {
    let is_below: IsBelow = Arc::new(|_: &str| true);
    Ok((names::parse_parent(parent)?, is_below))
}

/// The parent of collections of namespaces.
fn of_namespace(parent: &str) -> Result<(Option<ClusterName>, IsBelow), Status> {
    let (cluster, namespace) = names::parse_namespace_parent(parent)?;
    let is_below: IsBelow = Arc::new(move |name: &str| {
        namespace.as_deref().is_none_or(|namespace| name.split('/').nth(3).is_some_and(|found| found == namespace))
    });
    Ok((cluster, is_below))
}

#[tonic::async_trait]
pub(crate) trait Collection: Send + Sync + 'static {
    type Row: Resource + Clone + Send + Sync + 'static;
    type ListRequest: Clone + Send + Sync + 'static;
    type ListResponse: From<ListAnswer<Self::Row>>;
    type WatchRequest: Send + 'static;
    type WatchResponse: Send + 'static;
    /// Last word of the names.
    const NAME: &'static str;
    /// Whether the rows of a cluster are in the order of their names.
    const SORTED: bool;

    /// The cluster that `parent` names, if it names one, and whether a row is below it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the parent has another form.
    fn parent(parent: &str) -> Result<(Option<ClusterName>, IsBelow), Status>;

    fn schema() -> &'static Schema<Self::Row>;
    fn arguments(request: &Self::ListRequest) -> ListRequest<'_>;
    fn rows(rows: &ClusterRows) -> &[Arc<Self::Row>];
    fn log(changes: &ResourceChanges) -> &ChangeLog<Self::Row>;
    fn watch_arguments(request: Self::WatchRequest) -> WatchArguments;
    fn watch_request(arguments: WatchArguments) -> Self::WatchRequest;
    fn watch_message(response: Self::WatchResponse) -> WatchMessage<Self::Row>;
    fn watch_response(message: WatchMessage<Self::Row>, at: prost_types::Timestamp) -> Self::WatchResponse;
    async fn ask(client: ReplicaClient, request: Self::ListRequest) -> Result<ListPart<Self::Row>, Status>;
    async fn watch(
        client: ReplicaClient,
        request: Self::WatchRequest,
    ) -> Result<Streaming<Self::WatchResponse>, Status>;
}

macro_rules! collection {
    (
        $collection:ident, $row:ident, $field:ident, $sorted:literal, $parent:ident, $schema:ident,
        $list:ident, $list_request:ident, $list_response:ident, $watch:ident, $watch_request:ident, $watch_response:ident
    ) => {
        pub struct $collection;

        impl From<ListAnswer<v1::$row>> for v1::$list_response {
            fn from(answer: ListAnswer<v1::$row>) -> Self {
                let ListAnswer { rows, next_page_token, resume_token, unreachable } = answer;
                Self { $field: rows, next_page_token, resume_token, unreachable }
            }
        }

        #[tonic::async_trait]
        impl Collection for $collection {
            type Row = v1::$row;
            type ListRequest = v1::$list_request;
            type ListResponse = v1::$list_response;
            type WatchRequest = v1::$watch_request;
            type WatchResponse = v1::$watch_response;
            const NAME: &'static str = stringify!($field);
            const SORTED: bool = $sorted;

            fn parent(parent: &str) -> Result<(Option<ClusterName>, IsBelow), Status> {
                $parent(parent)
            }

            fn schema() -> &'static Schema<Self::Row> {
                &schemas::$schema
            }

            fn arguments(request: &Self::ListRequest) -> ListRequest<'_> {
                ListRequest {
                    parent: &request.parent,
                    filter: &request.filter,
                    order_by: &request.order_by,
                    page_size: request.page_size,
                    page_token: &request.page_token,
                }
            }

            fn rows(rows: &ClusterRows) -> &[Arc<Self::Row>] {
                &rows.$field
            }

            fn log(changes: &ResourceChanges) -> &ChangeLog<Self::Row> {
                &changes.$field
            }

            fn watch_arguments(request: Self::WatchRequest) -> WatchArguments {
                let v1::$watch_request { parent, resume_token, filter, min_interval } = request;
                WatchArguments { parent, resume_token, filter, min_interval }
            }

            fn watch_request(arguments: WatchArguments) -> Self::WatchRequest {
                let WatchArguments { parent, resume_token, filter, min_interval } = arguments;
                v1::$watch_request { parent, resume_token, filter, min_interval }
            }

            fn watch_message(response: Self::WatchResponse) -> WatchMessage<Self::Row> {
                let v1::$watch_response { $field: rows, deleted, resume_token, reset, .. } = response;
                WatchMessage { rows, deleted, resume_token, reset }
            }

            fn watch_response(message: WatchMessage<Self::Row>, at: prost_types::Timestamp) -> Self::WatchResponse {
                let WatchMessage { rows, deleted, resume_token, reset } = message;
                v1::$watch_response { $field: rows, deleted, resume_token, observe_time: Some(at), reset }
            }

            async fn ask(mut client: ReplicaClient, request: Self::ListRequest) -> Result<ListPart<Self::Row>, Status> {
                let answer = client.$list(Request::new(request)).await?.into_inner();
                Ok(ListPart { rows: answer.$field, resume_token: answer.resume_token })
            }

            async fn watch(
                mut client: ReplicaClient,
                request: Self::WatchRequest,
            ) -> Result<Streaming<Self::WatchResponse>, Status> {
                Ok(client.$watch(Request::new(request)).await?.into_inner())
            }
        }
    };
}

collection!(
    Pools,
    Pool,
    pools,
    true,
    of_cluster,
    POOLS,
    list_pools,
    ListPoolsRequest,
    ListPoolsResponse,
    watch_pools,
    WatchPoolsRequest,
    WatchPoolsResponse
);
collection!(
    Nodes,
    Node,
    nodes,
    true,
    of_cluster,
    NODES,
    list_nodes,
    ListNodesRequest,
    ListNodesResponse,
    watch_nodes,
    WatchNodesRequest,
    WatchNodesResponse
);
// Namespaces are compared before the slash after them.
collection!(
    Pods,
    Pod,
    pods,
    false,
    of_namespace,
    PODS,
    list_pods,
    ListPodsRequest,
    ListPodsResponse,
    watch_pods,
    WatchPodsRequest,
    WatchPodsResponse
);
