//! What is listed: the columns of each kind of resource, and how it is asked for.

use fleetwright_proto::v1;
use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message;
use tonic::Status;

use super::cells::{
    age, disruptions, end, id, lower, now_ms, of_limit, of_mebibytes, of_millis, other_limits, time, usd,
};
use crate::remote::FleetClient;
use api_messages::enum_values;
use api_messages::resource::Resource;

/// What is listed.
pub(crate) struct Selection {
    pub(crate) parent: String,
    pub filter: String,
    pub(crate) order_by: String,
    /// Least time between two messages of a watch; the server's if there is none.
    pub(crate) min_interval: Option<prost_types::Duration>,
}

/// A page of a list.
pub(crate) struct Page<R> {
    pub rows: Vec<R>,
    pub(crate) next_page_token: String,
    pub(crate) resume_token: String,
    pub unreachable: Vec<String>,
}

/// A message of a watch.
pub(crate) struct Changes<R> {
    pub rows: Vec<R>,
    pub(crate) deleted: Vec<String>,
    pub(crate) resume_token: String,
    /// Names of clusters whose rows before this message are void.
    pub(crate) reset: Vec<String>,
}

/// A kind of resource.
pub(crate) trait Kind {
    type Row: Message + Resource + Default;
    /// Name of the message.
    const MESSAGE: &'static str;
    /// Headings, the most important first.
    const COLUMNS: &'static [&'static str];
    /// Number of columns of a table that is not wide.
    const NARROW: usize;
    const IS_ORDERED: bool = true;
    const IS_WATCHED: bool = true;
    /// Whether warnings say what the server depends on and does not work: what is listed may be old then.
    const TELLS_OUTAGES: bool = true;

    fn cells(row: &Self::Row) -> Vec<String>;

    /// A page of this size that this token continues.
    async fn page(
        client: &mut FleetClient,
        selection: &Selection,
        page: (i32, String),
    ) -> Result<Page<Self::Row>, Status>;

    /// The changes since a list; only of kinds that are watched.
    async fn watch(
        _client: &mut FleetClient,
        _selection: &Selection,
        _resume_token: String,
    ) -> Result<BoxStream<'static, Result<Changes<Self::Row>, Status>>, Status> {
        Err(Status::unimplemented("this list has no watch"))
    }
}

macro_rules! kind {
    (
        $kind:ident, $row:ident, $field:ident, $narrow:literal, $columns:expr, $cells:expr,
        $list:ident, |$selection:ident, $size:ident, $token:ident| $request:expr,
        |$answer:ident| $unreachable:expr,
        $watch:ident, |$selection2:ident, $resume:ident| $watch_request:expr, |$response:ident| $reset:expr,
        ordered: $ordered:literal
    ) => {
        pub struct $kind;

        impl Kind for $kind {
            type Row = v1::$row;
            const MESSAGE: &'static str = concat!("fleetwright.v1.", stringify!($row));
            const COLUMNS: &'static [&'static str] = &$columns;
            const NARROW: usize = $narrow;
            const IS_ORDERED: bool = $ordered;

            fn cells(row: &Self::Row) -> Vec<String> {
                let cells: fn(&v1::$row) -> Vec<String> = $cells;
                cells(row)
            }

            async fn page(
                client: &mut FleetClient,
                $selection: &Selection,
                ($size, $token): (i32, String),
            ) -> Result<Page<Self::Row>, Status> {
                let $answer = client.$list($request).await?.into_inner();
                let unreachable = $unreachable;
                Ok(Page {
                    rows: $answer.$field,
                    next_page_token: $answer.next_page_token,
                    resume_token: $answer.resume_token,
                    unreachable,
                })
            }

            async fn watch(
                client: &mut FleetClient,
                $selection2: &Selection,
                $resume: String,
            ) -> Result<BoxStream<'static, Result<Changes<Self::Row>, Status>>, Status> {
                let changes = client.$watch($watch_request).await?.into_inner();
                let read = |message: Result<_, Status>| {
                    let message: Message<Self::Row> = message.map(Message::from)?;
                    Ok(message.0)
                };
                return Ok(changes.map(read).boxed());

                struct Message<R>(Changes<R>);

                impl From<watch_response::$kind> for Message<v1::$row> {
                    fn from($response: watch_response::$kind) -> Self {
                        let reset = $reset;
                        let (rows, deleted) = ($response.$field, $response.deleted);
                        Self(Changes { rows, deleted, resume_token: $response.resume_token, reset })
                    }
                }
            }
        }
    };
}

/// The parent of the pods of a cluster, or of all of them.
fn of_all_namespaces(cluster: &str) -> String {
    format!("{cluster}/namespaces/-")
}

/// Responses of watches by kind.
mod watch_response {
    pub(super) use fleetwright_proto::v1::WatchClustersResponse as Clusters;
    pub(super) use fleetwright_proto::v1::WatchDecisionsResponse as Decisions;
    pub(super) use fleetwright_proto::v1::WatchNodesResponse as Nodes;
    pub(super) use fleetwright_proto::v1::WatchPodsResponse as Pods;
    pub(super) use fleetwright_proto::v1::WatchPoolsResponse as Pools;
}

kind!(
    Clusters, Cluster, clusters, 8,
    ["CLUSTER", "STATE", "NODES", "PODS", "PENDING", "$/HOUR", "SEEN", "BLOCKED BY", "REPLICA", "AGENT", "MACHINES"],
    |row| {
        let state = match row {
            row if row.stale => "stale",
            row if !row.connected => "disconnected",
            row if !row.synced => "syncing",
            _ => "connected",
        };
        vec![
            id(&row.name, 0),
            state.to_owned(),
            row.node_count.to_string(),
            row.pod_count.to_string(),
            row.pending_pod_count.to_string(),
            usd(row.price_micro_usd_per_hour),
            age(row.observe_time.as_ref(), now_ms()),
            row.blocked_reason.clone(),
            row.replica.clone(),
            row.agent_version.clone(),
            row.machine_count.to_string(),
        ]
    },
    list_clusters, |selection, page_size, page_token| v1::ListClustersRequest {
        page_size,
        page_token,
        filter: selection.filter.clone(),
        order_by: selection.order_by.clone(),
    },
    |answer| Vec::new(),
    watch_clusters, |selection, resume_token| v1::WatchClustersRequest {
        resume_token,
        filter: selection.filter.clone(),
        min_interval: selection.min_interval,
    }, |response| Vec::new(), ordered: true
);

kind!(
    Pools, Pool, pools, 11,
    [
        "CLUSTER", "NODEPOOL", "WEIGHT", "MACHINES", "CPU", "MEMORY", "$/HOUR", "DISRUPTED", "DRIFTED", "NOT READY FOR", "NOT READY",
        "NODES", "OTHER LIMITS", "PODS AT LIMITS"
    ],
    |row| {
        let not_ready = if row.deleted { "deleted" } else { &row.not_ready_reason };
        vec![
            id(&row.name, 0),
            id(&row.name, 1),
            row.weight.to_string(),
            row.machine_count.to_string(),
            of_limit(row, "cpu"),
            of_limit(row, "memory"),
            usd(row.price_micro_usd_per_hour),
            disruptions(row),
            row.drifted_node_count.to_string(),
            age(row.not_ready_time.as_ref(), now_ms()),
            not_ready.to_owned(),
            of_limit(row, "nodes"),
            other_limits(row),
            row.limited_pod_count.to_string(),
        ]
    },
    list_pools, |selection, page_size, page_token| v1::ListPoolsRequest {
        parent: selection.parent.clone(),
        page_size,
        page_token,
        filter: selection.filter.clone(),
        order_by: selection.order_by.clone(),
    },
    |answer| answer.unreachable.clone(),
    watch_pools, |selection, resume_token| v1::WatchPoolsRequest {
        parent: selection.parent.clone(),
        resume_token,
        filter: selection.filter.clone(),
        min_interval: selection.min_interval,
    }, |response| response.reset.clone(), ordered: true
);

kind!(
    Nodes, Node, nodes, 11,
    [
        "CLUSTER", "NODE", "STAGE", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "PODS", "CPU", "MEMORY", "$/HOUR", "AGE", "NODECLAIM",
        "PROVIDER ID", "WHY IT LEAVES"
    ],
    |row| {
        let price = if row.node_claim.is_empty() { String::new() } else { usd(row.price_micro_usd_per_hour) };
        vec![
            id(&row.name, 0),
            if row.node.is_empty() { id(&row.name, 1) } else { row.node.clone() },
            lower(row.stage().as_str_name(), "NODE_STAGE_"),
            row.pool.clone(),
            row.instance_type.clone(),
            row.zone.clone(),
            enum_values::capacity_type_label(row.capacity_type()),
            row.pod_count.to_string(),
            of_millis(row.cpu_requested_millis, row.cpu_allocatable_millis),
            of_mebibytes(row.memory_requested_bytes, row.memory_allocatable_bytes),
            price,
            age(row.create_time.as_ref(), now_ms()),
            row.node_claim.clone(),
            row.provider_id.clone(),
            [&*row.removal_reason, &*row.drain_blocked_reason].join(" ").trim().to_owned(),
        ]
    },
    list_nodes, |selection, page_size, page_token| v1::ListNodesRequest {
        parent: selection.parent.clone(),
        page_size,
        page_token,
        filter: selection.filter.clone(),
        order_by: selection.order_by.clone(),
    },
    |answer| answer.unreachable.clone(),
    watch_nodes, |selection, resume_token| v1::WatchNodesRequest {
        parent: selection.parent.clone(),
        resume_token,
        filter: selection.filter.clone(),
        min_interval: selection.min_interval,
    }, |response| response.reset.clone(), ordered: true
);

kind!(
    Pods, Pod, pods, 7,
    ["CLUSTER", "NAMESPACE", "POD", "STATE", "AGE", "PLANNED ON", "WHY", "CPU", "MEMORY"],
    |row| {
        let why: Vec<String> = row.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect();
        vec![
            id(&row.name, 0),
            id(&row.name, 1),
            id(&row.name, 2),
            lower(row.state().as_str_name(), "POD_STATE_"),
            age(row.create_time.as_ref(), now_ms()),
            row.planned_node.clone(),
            why.join("; "),
            format!("{}m", row.cpu_millis),
            format!("{}Mi", row.memory_bytes >> 20),
        ]
    },
    list_pods, |selection, page_size, page_token| v1::ListPodsRequest {
        parent: of_all_namespaces(&selection.parent),
        page_size,
        page_token,
        filter: selection.filter.clone(),
        order_by: selection.order_by.clone(),
    },
    |answer| answer.unreachable.clone(),
    watch_pods, |selection, resume_token| v1::WatchPodsRequest {
        parent: of_all_namespaces(&selection.parent),
        resume_token,
        filter: selection.filter.clone(),
        min_interval: selection.min_interval,
    }, |response| response.reset.clone(), ordered: true
);

kind!(
    Decisions, Decision, decisions, 5,
    ["CLUSTER", "DECISION", "AT (UTC)", "KIND", "SUMMARY", "WHY", "TRACE"],
    |row| {
        vec![
            id(&row.name, 0),
            row.number.to_string(),
            time(row.decide_time.as_ref()),
            enum_values::decision_kind_word(row.kind()),
            row.summary.clone(),
            row.reasons.join("; "),
            row.trace_id.clone(),
        ]
    },
    list_decisions, |selection, page_size, page_token| v1::ListDecisionsRequest {
        parent: selection.parent.clone(),
        page_size,
        page_token,
        filter: selection.filter.clone(),
        view: v1::DecisionView::Full.into(),
    },
    |answer| Vec::new(),
    watch_decisions, |selection, resume_token| v1::WatchDecisionsRequest {
        parent: selection.parent.clone(),
        resume_token,
        filter: selection.filter.clone(),
        min_interval: selection.min_interval,
    }, |response| Vec::new(), ordered: false
);

pub(crate) struct Offerings;

impl Kind for Offerings {
    type Row = v1::Offering;
    const MESSAGE: &'static str = "fleetwright.v1.Offering";
    const COLUMNS: &'static [&'static str] =
        &["TYPE", "ZONE", "CAPACITY", "FROM", "EXCLUDED UNTIL (UTC)", "REFUSALS", "REASON", "ACCOUNT", "REFUSED (UTC)"];
    const NARROW: usize = 7;
    const IS_WATCHED: bool = false;

    fn cells(row: &Self::Row) -> Vec<String> {
        vec![
            row.instance_type.clone(),
            row.zone_id.clone(),
            enum_values::capacity_type_label(row.capacity_type()),
            row.min_count.to_string(),
            time(row.exclude_until_time.as_ref()),
            row.failure_count.to_string(),
            row.reason.clone(),
            row.account.clone(),
            time(row.refuse_time.as_ref()),
        ]
    }

    async fn page(
        client: &mut FleetClient,
        selection: &Selection,
        (page_size, page_token): (i32, String),
    ) -> Result<Page<Self::Row>, Status> {
        let (filter, order_by) = (selection.filter.clone(), selection.order_by.clone());
        let request = v1::ListOfferingsRequest { page_size, page_token, filter, order_by };
        let answer = client.list_offerings(request).await?.into_inner();
        let (rows, next_page_token) = (answer.offerings, answer.next_page_token);
        Ok(Page { rows, next_page_token, resume_token: String::new(), unreachable: Vec::new() })
    }
}

pub(super) struct Holds;

impl Kind for Holds {
    type Row = v1::Hold;
    const MESSAGE: &'static str = "fleetwright.v1.Hold";
    const COLUMNS: &'static [&'static str] = &[
        "CLUSTER",
        "HOLD",
        "STATE",
        "KIND",
        "PODS",
        "NODES",
        "$/HOUR",
        "EXPIRES (UTC)",
        "WHY",
        "HELD BY",
        "CREATED (UTC)",
    ];
    const NARROW: usize = 9;
    const IS_WATCHED: bool = false;

    fn cells(row: &Self::Row) -> Vec<String> {
        vec![
            id(&row.name, 0),
            id(&row.name, 1),
            lower(row.state().as_str_name(), "HOLD_STATE_"),
            lower(row.kind().as_str_name(), "HOLD_KIND_"),
            row.pod_sets.iter().map(|set| i64::from(set.count)).sum::<i64>().to_string(),
            row.nodes.len().to_string(),
            usd(row.price_micro_usd_per_hour),
            time(row.expire_time.as_ref()),
            row.message.clone(),
            row.creator.clone(),
            time(row.create_time.as_ref()),
        ]
    }

    async fn page(
        client: &mut FleetClient,
        selection: &Selection,
        (page_size, page_token): (i32, String),
    ) -> Result<Page<Self::Row>, Status> {
        let Selection { parent, filter, order_by, .. } = selection;
        let request = v1::ListHoldsRequest {
            parent: parent.clone(),
            page_size,
            page_token,
            filter: filter.clone(),
            order_by: order_by.clone(),
        };
        let answer = client.list_holds(request).await?.into_inner();
        let (rows, next_page_token) = (answer.holds, answer.next_page_token);
        Ok(Page { rows, next_page_token, resume_token: String::new(), unreachable: Vec::new() })
    }
}

/// Why a problem is there, what follows, what that costs, and which setting allows more.
fn why(problem: &v1::Problem) -> String {
    let cost = match problem.price_micro_usd_per_hour {
        0 => String::new(),
        price => format!("costs ${} an hour", usd(price)),
    };
    let setting = match &*problem.setting {
        "" => String::new(),
        setting => format!("{setting} allows more"),
    };
    let effects = match &problem.effects[..] {
        [] => String::new(),
        effects => format!("hence: {}", effects.join(", ")),
    };
    let parts = [&*problem.reason, &*problem.consequence, &*cost, &*setting, &*effects];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

pub(super) struct Problems;

impl Kind for Problems {
    type Row = v1::Problem;
    const MESSAGE: &'static str = "fleetwright.v1.Problem";
    const COLUMNS: &'static [&'static str] =
        &["SEVERITY", "FOR", "UNTIL (UTC)", "RESOURCE", "COUNT", "PROBLEM", "WHY", "COMMAND", "CODE"];
    const NARROW: usize = 8;
    const IS_WATCHED: bool = false;
    const TELLS_OUTAGES: bool = false;

    fn cells(row: &Self::Row) -> Vec<String> {
        vec![
            lower(row.severity().as_str_name(), "SEVERITY_"),
            age(row.start_time.as_ref(), now_ms()),
            end(row.end_time.as_ref(), now_ms()),
            row.resource.clone(),
            if row.count == 0 { String::new() } else { row.count.to_string() },
            row.summary.clone(),
            why(row),
            row.command.clone(),
            row.code.clone(),
        ]
    }

    async fn page(
        client: &mut FleetClient,
        selection: &Selection,
        (page_size, page_token): (i32, String),
    ) -> Result<Page<Self::Row>, Status> {
        let Selection { parent, filter, order_by, .. } = selection;
        let parent = if parent.ends_with("/-") { String::new() } else { parent.clone() };
        let (filter, order_by) = (filter.clone(), order_by.clone());
        let request = v1::ListProblemsRequest { parent, page_size, page_token, filter, order_by };
        let answer = client.list_problems(request).await?.into_inner();
        let (rows, next_page_token) = (answer.problems, answer.next_page_token);
        Ok(Page { rows, next_page_token, resume_token: String::new(), unreachable: answer.unreachable })
    }
}
