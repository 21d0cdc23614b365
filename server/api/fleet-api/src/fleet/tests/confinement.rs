//! A client that the trust file confines to clusters: every method, asked about one of its clusters, about another one, and
//! about all.

use std::collections::BTreeSet;

use auth::cluster_access::ClusterAccess;
use auth::{Client, ClientQuota, Scope as ClientScope};
use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_rpc::v1::capacity_service_server::CapacityService;
use prost::Message;
use prost_types::FileDescriptorSet;
use store::guardrails::{FreezeOrder, FreezeScope};
use store::holds::NewHold;

use super::*;
use crate::capacity::CapacityApi;
use crate::capacity::threads::CapacityThreads;

/// A cluster of the client, and one that it must not learn of.
const OWN: &str = "team-a";
const OTHER: &str = "hidden";

/// What a method answers, as text.
type Answer = Result<String, Status>;

/// A replica that decides for both clusters, each with a node, a pod, a hold and a freeze; the fleet has a freeze too.
async fn both_clusters() -> (Replica, CapacityApi) {
    let mut replica = Replica::new();
    for cluster in [OWN, OTHER] {
        replica.publish(cluster, &[("n1", 1_000)], &[("shop", "web")]);
        let store = &replica.api.store;
        store.acquire_lease(&Scope::cluster(cluster), "me", 0, Duration::from_secs(60)).await.unwrap();
        let hold = NewHold {
            id: format!("h-{cluster}"),
            cluster: cluster.to_owned(),
            client: "team".to_owned(),
            request_id: cluster.to_owned(),
            ttl_ms: 60_000,
            ..NewHold::default()
        };
        store.create_hold(&hold).await.unwrap();
    }
    let scopes = [FreezeScope::Cluster(OWN.to_owned()), FreezeScope::Cluster(OTHER.to_owned()), FreezeScope::Fleet];
    for scope in scopes {
        let (by, reason) = ("on-call".to_owned(), "test".to_owned());
        let order = FreezeOrder { scope, only_disruption: false, by, reason, until_ms: None };
        replica.api.store.freeze(&order).await.unwrap();
    }
    let threads = CapacityThreads::start(&Arc::default()).unwrap();
    let capacity = CapacityApi::new(replica.api.clone(), threads);
    (replica, capacity)
}

/// The request of an admin of the clusters `team-*`.
fn confined<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let (scope, quota) = (ClientScope::Admin, ClientQuota::default());
    let clusters = ClusterAccess::of_patterns(&["team-*".to_owned()]).unwrap();
    request.extensions_mut().insert(Client { name: "team".to_owned(), scope, quota, clusters, is_replica: false });
    request.set_timeout(Duration::from_secs(5));
    request
}

/// The calls of a method: about a cluster (with its names), and about all clusters if it can be asked so.
struct Calls {
    method: &'static str,
    own: Answer,
    other: Option<Answer>,
    all: Option<Answer>,
}

macro_rules! unary {
    ($api:expr, $method:ident, $request:expr) => {{
        let answer = $api.$method(confined($request)).await;
        answer.map(|response| format!("{:?}", response.into_inner()))
    }};
}

/// The first message of a stream.
macro_rules! stream {
    ($api:expr, $method:ident, $request:expr) => {{
        match $api.$method(confined($request)).await {
            Ok(response) => {
                let first = tokio::time::timeout(DEADLINE, response.into_inner().next()).await.expect("a message");
                first.transpose().map(|message| format!("{message:?}"))
            }
            Err(status) => Err(status),
        }
    }};
}

/// A method whose requests name a cluster.
macro_rules! of_cluster {
    ($call:ident, $api:expr, $method:ident, $request:expr) => {{
        let request = $request;
        Calls {
            method: stringify!($method),
            own: $call!($api, $method, request(OWN)),
            other: Some($call!($api, $method, request(OTHER))),
            all: None,
        }
    }};
}

/// A method whose requests name a cluster, or all.
macro_rules! of_clusters {
    ($call:ident, $api:expr, $method:ident, $request:expr) => {{
        let request = $request;
        Calls { all: Some($call!($api, $method, request("-"))), ..of_cluster!($call, $api, $method, request) }
    }};
}

/// A method that is not about a cluster.
macro_rules! of_fleet {
    ($call:ident, $api:expr, $method:ident, $request:expr) => {{
        let all = $call!($api, $method, $request);
        Calls { method: stringify!($method), own: Ok(String::new()), other: None, all: Some(all) }
    }};
}

fn name(cluster: &str) -> String {
    format!("clusters/{cluster}")
}

async fn reads_of_objects(api: &FleetApi) -> Vec<Calls> {
    let token = Positions::of(&"me/1".into(), 0).token();
    let child = |cluster: &str, rest: &str| format!("clusters/{cluster}/{rest}");
    vec![
        of_cluster!(unary, api, get_cluster, |of| v1::GetClusterRequest { name: name(of) }),
        of_fleet!(unary, api, list_clusters, Default::default()),
        of_fleet!(
            stream,
            api,
            watch_clusters,
            v1::WatchClustersRequest { resume_token: token.clone(), ..Default::default() }
        ),
        of_cluster!(unary, api, get_pool, |of| v1::GetPoolRequest { name: child(of, "pools/p") }),
        of_clusters!(unary, api, list_pools, |of| v1::ListPoolsRequest { parent: name(of), ..Default::default() }),
        of_clusters!(stream, api, watch_pools, |of| v1::WatchPoolsRequest {
            parent: name(of),
            resume_token: token.clone(),
            ..Default::default()
        }),
        of_cluster!(unary, api, get_node, |of| v1::GetNodeRequest { name: child(of, "nodes/n1") }),
        of_clusters!(unary, api, list_nodes, |of| v1::ListNodesRequest { parent: name(of), ..Default::default() }),
        of_clusters!(stream, api, watch_nodes, |of| v1::WatchNodesRequest {
            parent: name(of),
            resume_token: token.clone(),
            ..Default::default()
        }),
        of_cluster!(unary, api, get_pod, |of| v1::GetPodRequest { name: child(of, "namespaces/shop/pods/web") }),
        of_clusters!(unary, api, list_pods, |of| v1::ListPodsRequest {
            parent: child(of, "namespaces/-"),
            ..Default::default()
        }),
        of_clusters!(stream, api, watch_pods, |of| v1::WatchPodsRequest {
            parent: child(of, "namespaces/-"),
            resume_token: token.clone(),
            ..Default::default()
        }),
        of_cluster!(unary, api, get_decision, |of| v1::GetDecisionRequest { name: child(of, "decisions/1") }),
        of_clusters!(unary, api, list_decisions, |of| v1::ListDecisionsRequest {
            parent: name(of),
            ..Default::default()
        }),
        of_clusters!(stream, api, watch_decisions, |of| v1::WatchDecisionsRequest {
            parent: name(of),
            resume_token: token.clone(),
            ..Default::default()
        }),
        of_clusters!(unary, api, list_problems, |of| v1::ListProblemsRequest {
            parent: name(of),
            ..Default::default()
        }),
        of_fleet!(unary, api, list_offerings, Default::default()),
    ]
}

async fn reads_of_reports(api: &FleetApi) -> Vec<Calls> {
    let child = |cluster: &str, rest: &str| format!("clusters/{cluster}/{rest}");
    vec![
        of_clusters!(unary, api, compute_cost, |of| v1::ComputeCostRequest { parent: name(of), ..Default::default() }),
        of_clusters!(unary, api, compute_spend, |of| v1::ComputeSpendRequest {
            parent: name(of),
            ..Default::default()
        }),
        of_cluster!(unary, api, list_cost_intervals, |of| v1::ListCostIntervalsRequest {
            parent: name(of),
            ..Default::default()
        }),
        of_clusters!(unary, api, compute_savings, |of| v1::ComputeSavingsRequest {
            parent: name(of),
            ..Default::default()
        }),
        of_fleet!(
            unary,
            api,
            get_server_info,
            v1::GetServerInfoRequest { name: api_messages::resource_names::SERVER_INFO.to_owned() }
        ),
        of_cluster!(unary, api, explain_node, |of| v1::ExplainNodeRequest { name: child(of, "nodes/n1") }),
        of_cluster!(unary, api, explain_pod, |of| v1::ExplainPodRequest {
            name: child(of, "namespaces/shop/pods/web")
        }),
        of_fleet!(unary, api, list_freezes, Default::default()),
        Calls {
            method: "get_freeze",
            own: unary!(api, get_freeze, v1::GetFreezeRequest { name: "freezes/1".to_owned() }),
            other: Some(unary!(api, get_freeze, v1::GetFreezeRequest { name: "freezes/2".to_owned() })),
            all: Some(unary!(api, get_freeze, v1::GetFreezeRequest { name: "freezes/3".to_owned() })),
        },
        of_cluster!(unary, api, get_hold, |of| v1::GetHoldRequest { name: child(of, &format!("holds/h-{of}")) }),
        of_clusters!(unary, api, list_holds, |of| v1::ListHoldsRequest { parent: name(of), ..Default::default() }),
        of_cluster!(stream, api, watch_hold, |of| v1::WatchHoldRequest { name: child(of, &format!("holds/h-{of}")) }),
        of_fleet!(unary, api, list_audit_entries, Default::default()),
        of_cluster!(stream, api, read_decisions, |of: &str| v1::ReadDecisionsRequest {
            cluster_name: of.to_owned(),
            ..Default::default()
        }),
        of_cluster!(stream, api, read_log, |of| v1::ReadLogRequest {
            scope: format!("cluster/{of}"),
            ..Default::default()
        }),
        // Found by a hash, which only the decisions of a cluster tell.
        of_fleet!(stream, api, read_content, v1::ReadContentRequest { hash: vec![7; 32] }),
    ]
}

async fn commands(api: &FleetApi, capacity: &CapacityApi) -> Vec<Calls> {
    let hold = |of: &str| format!("clusters/{of}/holds/h-{of}");
    let freeze = |target: &str| v1::CreateFreezeRequest {
        freeze: Some(v1::Freeze { target: target.to_owned(), reason: "test".to_owned(), ..Default::default() }),
    };
    // The freezes of the own cluster, of the other one and of the fleet were created in this order.
    let thaw = |id: u32| v1::DeleteFreezeRequest { name: format!("freezes/{id}") };
    vec![
        Calls {
            all: Some(unary!(api, create_freeze, freeze(""))),
            ..of_cluster!(unary, api, create_freeze, |of: &str| freeze(&name(of)))
        },
        Calls {
            method: "delete_freeze",
            own: unary!(api, delete_freeze, thaw(1)),
            // As if there were none: its cluster is not known from its name.
            other: Some(unary!(api, delete_freeze, thaw(2))),
            all: Some(unary!(api, delete_freeze, thaw(3))),
        },
        of_cluster!(unary, api, release_quarantine, |of| v1::ReleaseQuarantineRequest { name: name(of) }),
        of_cluster!(unary, api, accept_cluster_uid, |of| v1::AcceptClusterUidRequest {
            name: name(of),
            ..Default::default()
        }),
        of_cluster!(unary, api, forget_cluster, |of| v1::ForgetClusterRequest { name: name(of), ..Default::default() }),
        of_cluster!(unary, api, confirm_removals, |of| v1::ConfirmRemovalsRequest { name: name(of) }),
        of_cluster!(unary, capacity, plan_cluster, |of| v1::PlanClusterRequest {
            name: name(of),
            ..Default::default()
        }),
        Calls {
            method: "quote_clusters",
            own: unary!(capacity, quote_clusters, quote(&[OWN])),
            other: Some(unary!(capacity, quote_clusters, quote(&[OTHER]))),
            all: Some(unary!(capacity, quote_clusters, quote(&[]))),
        },
        of_cluster!(unary, capacity, create_hold, |of| v1::CreateHoldRequest {
            parent: name(of),
            hold: Some(v1::Hold::default()),
            ..Default::default()
        }),
        of_cluster!(unary, capacity, commit_hold, |of: &str| v1::CommitHoldRequest {
            name: hold(of),
            ..Default::default()
        }),
        of_cluster!(unary, capacity, release_hold, |of: &str| v1::ReleaseHoldRequest {
            name: hold(of),
            ..Default::default()
        }),
    ]
}

fn quote(clusters: &[&str]) -> v1::QuoteClustersRequest {
    let container = serde_json::json!({"spec": {"containers": [{"name": "main", "image": "x"}]}});
    let serde_json::Value::Object(template) = container else { unreachable!("an object") };
    let template = Some(api_messages::json_struct::from_json(template));
    v1::QuoteClustersRequest {
        pod_sets: vec![v1::PodSet { name: "a".to_owned(), count: 1, template, ..Default::default() }],
        clusters: clusters.iter().map(|cluster| name(cluster)).collect(),
        ..Default::default()
    }
}

/// The methods of both services, in the words of Rust.
fn methods() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap();
    let services = set.file.into_iter().flat_map(|file| file.service);
    let asked = services.filter(|service| ["FleetService", "CapacityService"].contains(&service.name()));
    let snake = |name: &str| {
        let words = name.chars().map(|letter| if letter.is_uppercase() { format!("_{letter}") } else { letter.into() });
        words.collect::<String>().to_lowercase().trim_start_matches('_').to_owned()
    };
    asked.flat_map(|service| service.method).map(|method| snake(method.name())).collect()
}

#[tokio::test]
async fn a_confined_client_sees_no_other_cluster_and_acts_on_none() {
    let (replica, capacity) = both_clusters().await;
    let mut calls = reads_of_objects(&replica.api).await;
    calls.extend(reads_of_reports(&replica.api).await);
    calls.extend(commands(&replica.api, &capacity).await);
    let asked: BTreeSet<String> = calls.iter().map(|call| call.method.to_owned()).collect();
    assert_eq!(asked, methods(), "a method is missing here");
    for Calls { method, own, other, all } in calls {
        let denied = |answer: &Answer| matches!(answer, Err(status) if status.code() == Code::PermissionDenied);
        assert!(!denied(&own), "{method}: {own:?}");
        if let Some(other) = other {
            // A freeze is named by a number alone: one of another cluster is not found.
            let is_unknown = matches!(&other, Err(status) if status.code() == Code::NotFound);
            let by_number = ["get_freeze", "delete_freeze"].contains(&method);
            assert!(if by_number { is_unknown } else { denied(&other) }, "{method}: {other:?}");
        }
        let is_for_all = ["create_freeze", "delete_freeze", "list_audit_entries"].contains(&method);
        let Some(all) = all else { continue };
        assert_eq!(denied(&all), is_for_all, "{method}: {all:?}");
        let text = all.unwrap_or_else(|status| status.message().to_owned());
        assert!(!text.contains(OTHER), "{method} tells of the other cluster: {text}");
    }
    // What was denied has changed nothing, and what an own cluster asked for was done.
    let freezes = replica.api.store.freezes().await.unwrap();
    let left: Vec<FreezeScope> = freezes.into_iter().map(|freeze| freeze.order.scope).collect();
    let cluster = |name: &str| FreezeScope::Cluster(name.to_owned());
    assert_eq!(left, [cluster(OTHER), FreezeScope::Fleet, cluster(OWN)]);
    assert!(!replica.api.store.hold(OTHER, "h-hidden").await.unwrap().unwrap().state.has_ended());
    assert!(replica.api.store.hold(OWN, "h-team-a").await.unwrap().unwrap().state.has_ended());
}

#[tokio::test]
async fn a_confined_client_gets_what_its_clusters_have() {
    let (replica, _capacity) = both_clusters().await;
    let nodes = replica.api.list_nodes(confined(list("clusters/-"))).await.unwrap().into_inner();
    assert_eq!(names(&nodes.nodes), ["clusters/team-a/nodes/n1"]);
    let clusters = replica.api.list_clusters(confined(Default::default())).await.unwrap().into_inner().clusters;
    assert_eq!(names(&clusters), ["clusters/team-a"]);
    let freezes = replica.api.list_freezes(confined(Default::default())).await.unwrap().into_inner().freezes;
    let targets: Vec<&str> = freezes.iter().map(|freeze| &*freeze.target).collect();
    assert_eq!(targets, ["clusters/team-a", ""], "a freeze of the fleet concerns its clusters too");
    let holds = v1::ListHoldsRequest { parent: "clusters/-".to_owned(), ..Default::default() };
    let holds = replica.api.list_holds(confined(holds)).await.unwrap().into_inner().holds;
    assert_eq!(holds.iter().map(|hold| &*hold.name).collect::<Vec<_>>(), ["clusters/team-a/holds/h-team-a"]);
    // An unknown cluster of its own is not found, and no other one is suggested.
    let missing = replica.api.get_cluster(confined(v1::GetClusterRequest { name: name("team-hidden") })).await;
    let missing = missing.unwrap_err();
    assert_eq!((missing.code(), missing.message()), (Code::NotFound, "there is no cluster \"team-hidden\""));
}

/// Without the confinement the same requests tell of the other cluster, so that the tests above would fail.
#[tokio::test]
async fn sabotage_a_client_of_all_clusters_sees_both() {
    let (replica, _capacity) = both_clusters().await;
    let nodes = replica.nodes(list("clusters/-")).await.unwrap();
    assert_eq!(names(&nodes.nodes), ["clusters/hidden/nodes/n1", "clusters/team-a/nodes/n1"]);
    let request = Request::new(v1::GetClusterRequest { name: name(OTHER) });
    assert!(replica.api.get_cluster(request).await.is_ok());
}
