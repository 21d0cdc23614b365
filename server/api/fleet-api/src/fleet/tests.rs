//! One replica without others: what it publishes is listed and watched.

mod confinement;

use std::time::Duration;

use controller::StageKind;
use controller::guardrails::GuardrailsView;
use controller::view::{
    ClusterView, CpuAndMemory, InstanceAnomalies, MachineView, NodeView, PendingPodView, PodOutlook,
};
use futures::StreamExt;
use model::disruption_policy::DisruptionReason;
use model::{ClusterName, MicroUsd, PodKey, Timestamp};
use tonic::Code;

use super::encode::Owner;
use std::sync::Arc;

use fleetwright_proto::v1;
use fleetwright_rpc::v1::fleet_service_server::FleetService;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt;

use super::FleetApi;
use super::directory::Directory;
use super::positions::Positions;
use super::watches::Watch;
use crate::views::ResourceChanges;
use crate::views::publisher::{ViewPublisher, ViewUpdate};
use crate::views::{self, FleetView};
use api_messages::resource;
use store::lease::Scope;
use store::memory::MemoryStore;

/// Longest wait of a test; none waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(60);

/// A replica, whose clusters are what was published.
struct Replica {
    api: FleetApi,
    publisher: ViewPublisher,
    fleet: FleetView,
}

impl Replica {
    fn new() -> Self {
        let (sender, views) = views::channel();
        let (directory, changes) = (Arc::<Directory>::default(), Arc::<ResourceChanges>::default());
        let api = FleetApi::alone(views, (Arc::clone(&directory), Arc::clone(&changes)), Arc::new(MemoryStore::new()));
        Self { api, publisher: ViewPublisher { views: sender, directory, changes }, fleet: FleetView::default() }
    }

    fn publish(&mut self, cluster: &str, nodes: &[(&str, i64)], pods: &[(&str, &str)]) {
        let owner = owner();
        self.apply(cluster, Some(Box::new((view(cluster, nodes, pods), owner))));
    }

    fn release(&mut self, cluster: &str) {
        self.apply(cluster, None);
    }

    fn apply(&mut self, cluster: &str, view: Option<Box<(ClusterView, Owner)>>) {
        let update = ViewUpdate::new(cluster.into(), view, Timestamp::from_millis(1_000));
        self.publisher.publish(&mut self.fleet, vec![update]);
    }

    async fn nodes(&self, request: v1::ListNodesRequest) -> Result<v1::ListNodesResponse, Status> {
        self.api.list_nodes(Request::new(request)).await.map(Response::into_inner)
    }
}

/// This process, whose agents have said nothing of their API servers.
fn owner() -> Owner {
    Owner {
        replica: "me".to_owned(),
        epoch: 1,
        uid: "uid".into(),
        agent_version: "1".into(),
        api_server_unreachable: false,
    }
}

fn view(cluster: &str, nodes: &[(&str, i64)], pods: &[(&str, &str)]) -> ClusterView {
    ClusterView {
        cluster: cluster.into(),
        connected: true,
        synced: true,
        synced_since: None,
        unsynced_since: None,
        version: 1,
        pods: 0,
        pending: pods.len(),
        pending_pods: pods.iter().map(|(namespace, name)| pod(namespace, name)).collect(),
        node_count: nodes.len(),
        nodes: nodes.iter().map(|(name, cpu)| node(name, *cpu)).collect(),
        pools: Vec::new(),
        cost: MicroUsd(0),
        unavailable_offerings: 0,
        decisions: Vec::new(),
        last_error: None,
        planning: None,
        guardrails: GuardrailsView::default(),
        anomalies: InstanceAnomalies::default(),
        autoscalers: Vec::new(),
        problems: Vec::new(),
        unmanaged_pools: Vec::new(),
        unusable_nodes: Vec::new(),
        measured: Default::default(),
        holds: Default::default(),
        eligible_nodes: [DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized]
            .map(|reason| (reason, 0)),
    }
}

/// A node that Fleetwright does not manage, with these millicores.
fn node(name: &str, cpu_millis: i64) -> NodeView {
    NodeView {
        name: name.into(),
        uid: format!("uid of {name}").into(),
        machine: None,
        provider_id: Default::default(),
        instance_type: "m6i.large".into(),
        zone: "a".into(),
        capacity_type: Default::default(),
        ready: true,
        created: None,
        pods: 0,
        requested: CpuAndMemory::default(),
        allocatable: CpuAndMemory { cpu_millis, memory_bytes: 0 },
    }
}

fn pod(namespace: &str, name: &str) -> PendingPodView {
    PendingPodView {
        pod: PodKey { namespace: namespace.into(), name: name.into() },
        uid: Default::default(),
        created: None,
        requests: CpuAndMemory::default(),
        outlook: PodOutlook::Waiting,
    }
}

fn list(parent: &str) -> v1::ListNodesRequest {
    v1::ListNodesRequest { parent: parent.to_owned(), ..Default::default() }
}

fn names(rows: &[impl resource::Resource]) -> Vec<&str> {
    rows.iter().map(resource::Resource::name).collect()
}

/// The fields that the `BadRequest` of an error names.
fn wrong_fields(refused: &Status) -> Vec<String> {
    let violations = refused.get_details_bad_request().map(|request| request.field_violations).unwrap_or_default();
    violations.into_iter().map(|violation| violation.field).collect()
}

#[tokio::test]
async fn pages_of_all_clusters_follow_the_order_of_the_names() {
    let mut replica = Replica::new();
    // A slash is above a dash: the nodes of `a-b` come before those of `a`.
    replica.publish("a", &[("n1", 1), ("n2", 2)], &[]);
    replica.publish("a-b", &[("n1", 3)], &[]);
    replica.publish("z", &[("n1", 4)], &[]);
    let all = ["clusters/a-b/nodes/n1", "clusters/a/nodes/n1", "clusters/a/nodes/n2", "clusters/z/nodes/n1"];
    let whole = replica.nodes(list("clusters/-")).await.unwrap();
    assert_eq!((names(&whole.nodes), whole.next_page_token.as_str()), (all.to_vec(), ""));
    for size in 1..=4 {
        let (mut rows, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = v1::ListNodesRequest { page_size: size, page_token, ..list("clusters/-") };
            let page = replica.nodes(request).await.unwrap();
            rows.extend(page.nodes);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(names(&rows), all, "pages of {size}");
    }
    let one = replica.nodes(list("clusters/a")).await.unwrap();
    assert_eq!(names(&one.nodes), all[1..3]);
}

#[tokio::test]
async fn a_filter_and_an_order_select_by_fields_and_errors_name_the_argument() {
    let mut replica = Replica::new();
    replica.publish("a", &[("n1", 1_000), ("n2", 4_000), ("n3", 2_000)], &[("shop", "web"), ("shop-2", "web")]);
    let request = v1::ListNodesRequest {
        filter: "cpu_allocatable_millis >= 2000 AND stage = NODE_STAGE_READY".to_owned(),
        order_by: "cpu_allocatable_millis desc".to_owned(),
        ..list("clusters/-")
    };
    let page = replica.nodes(request).await.unwrap();
    assert_eq!(names(&page.nodes), ["clusters/a/nodes/n2", "clusters/a/nodes/n3"]);
    let wrong = [
        (v1::ListNodesRequest { filter: "zoen = a".to_owned(), ..list("clusters/-") }, "filter", "zone"),
        (v1::ListNodesRequest { order_by: "price".to_owned(), ..list("clusters/-") }, "order_by", "order_by"),
        (v1::ListNodesRequest { page_size: -1, ..list("clusters/-") }, "page_size", "page_size"),
        (v1::ListNodesRequest { page_token: "x".to_owned(), ..list("clusters/-") }, "page_token", "page_token"),
        (v1::ListNodesRequest { filter: "a".repeat(1 << 20), ..list("clusters/-") }, "filter", "filter"),
        (list("clusters"), "parent", "parent"),
    ];
    for (request, field, word) in wrong {
        let refused = replica.nodes(request).await.unwrap_err();
        assert_eq!(
            (refused.code(), wrong_fields(&refused)),
            (Code::InvalidArgument, vec![field.to_owned()]),
            "{refused}"
        );
        assert!(refused.message().contains(word) && refused.message().len() < 1_000, "{word}: {refused}");
    }
    let missing = replica.nodes(list("clusters/b")).await.unwrap_err();
    assert_eq!((missing.code(), missing.message()), (Code::NotFound, "there is no cluster \"b\""));
    let huge = v1::ListNodesRequest { page_size: 1_000_000_000, ..list("clusters/-") };
    assert_eq!(replica.nodes(huge).await.unwrap().nodes.len(), 3);
    let request = v1::ListPodsRequest { parent: "clusters/a/namespaces/-".to_owned(), ..Default::default() };
    let pods = replica.api.list_pods(Request::new(request)).await.unwrap().into_inner();
    let expected = ["clusters/a/namespaces/shop-2/pods/web", "clusters/a/namespaces/shop/pods/web"];
    assert_eq!(names(&pods.pods), expected);
}

#[tokio::test]
async fn errors_of_lists_from_the_store_and_of_watches_name_the_field() {
    let replica = Replica::new();
    let of_all = || v1::ListDecisionsRequest { parent: "clusters/-".to_owned(), ..Default::default() };
    let wrong = [
        (v1::ListDecisionsRequest { filter: "kidn = a".to_owned(), ..of_all() }, "filter"),
        (v1::ListDecisionsRequest { page_size: -1, ..of_all() }, "page_size"),
        (v1::ListDecisionsRequest { page_token: "x".to_owned(), ..of_all() }, "page_token"),
    ];
    for (request, field) in wrong {
        let refused = replica.api.list_decisions(Request::new(request)).await.unwrap_err();
        assert_eq!(
            (refused.code(), wrong_fields(&refused)),
            (Code::InvalidArgument, vec![field.to_owned()]),
            "{refused}"
        );
    }
    let ordered = v1::ListOfferingsRequest { order_by: "price".to_owned(), ..Default::default() };
    let refused = replica.api.list_offerings(Request::new(ordered)).await.unwrap_err();
    assert_eq!(wrong_fields(&refused), ["order_by"], "{refused}");
    let token = replica.nodes(list("clusters/-")).await.unwrap().resume_token;
    for (resume_token, filter, field) in [("x", "", "resume_token"), (token.as_str(), "zoen = a", "filter")] {
        let refused = watch(&replica, resume_token, filter).await.err().unwrap();
        assert_eq!(wrong_fields(&refused), [field], "{refused}");
    }
}

async fn watch(replica: &Replica, resume_token: &str, filter: &str) -> Result<Watch<v1::WatchNodesResponse>, Status> {
    let (parent, resume_token, filter) = ("clusters/-".to_owned(), resume_token.to_owned(), filter.to_owned());
    let request = v1::WatchNodesRequest { parent, resume_token, filter, ..Default::default() };
    replica.api.watch_nodes(Request::new(request)).await.map(Response::into_inner)
}

/// The next message that says something.
async fn next(watch: &mut Watch<v1::WatchNodesResponse>) -> Result<v1::WatchNodesResponse, Status> {
    loop {
        let message = tokio::time::timeout(DEADLINE, watch.next()).await.unwrap().unwrap()?;
        if !(message.nodes.is_empty() && message.deleted.is_empty() && message.reset.is_empty()) {
            return Ok(message);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_says_what_changed_since_the_list_and_resumes_after_each_message() {
    let mut replica = Replica::new();
    replica.publish("a", &[("n1", 1), ("n2", 2)], &[]);
    let token = replica.nodes(list("clusters/-")).await.unwrap().resume_token;
    let mut large = watch(&replica, &token, "cpu_allocatable_millis > 1").await.unwrap();
    replica.publish("a", &[("n1", 5), ("n2", 1), ("n3", 1)], &[]);
    let message = next(&mut large).await.unwrap();
    assert_eq!(names(&message.nodes), ["clusters/a/nodes/n1"]);
    assert_eq!(message.deleted, ["clusters/a/nodes/n2"], "it is not selected any more");
    drop(large);
    replica.publish("a", &[("n3", 7)], &[]);
    let mut resumed = watch(&replica, &message.resume_token, "cpu_allocatable_millis > 1").await.unwrap();
    let message = next(&mut resumed).await.unwrap();
    assert_eq!(
        (names(&message.nodes), message.deleted.as_slice()),
        (vec!["clusters/a/nodes/n3"], &["clusters/a/nodes/n1".to_owned()][..])
    );
    // Another replica had the cluster in between: what it said is void.
    replica.release("a");
    replica.publish("a", &[("n4", 9)], &[]);
    let message = next(&mut resumed).await.unwrap();
    assert_eq!(
        (message.reset.as_slice(), names(&message.nodes)),
        (&["clusters/a".to_owned()][..], vec!["clusters/a/nodes/n4"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_changes_sends_a_message_now_and_then() {
    let replica = Replica::new();
    let token = replica.nodes(list("clusters/-")).await.unwrap().resume_token;
    let mut silent = watch(&replica, &token, "").await.unwrap();
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let message = tokio::time::timeout(DEADLINE, silent.next()).await.unwrap().unwrap().unwrap();
        assert_eq!((message.nodes.len(), message.resume_token.as_str()), (0, token.as_str()));
        assert!(before.elapsed() <= Duration::from_secs(15));
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_too_old_ends_a_watch_and_garbage_begins_none() {
    let mut replica = Replica::new();
    replica.publish("a", &[("n1", 1)], &[]);
    let ahead = Positions::of(&"me/1".into(), 1_000).token();
    let mut lost = watch(&replica, &ahead, "").await.unwrap();
    assert_eq!(next(&mut lost).await.unwrap_err().code(), Code::OutOfRange);
    assert!(tokio::time::timeout(DEADLINE, lost.next()).await.unwrap().is_none(), "nothing follows an error");
    for token in ["", "x", "AAAA"] {
        let refused = watch(&replica, token, "").await.err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("resume_token"), "{refused}");
    }
}

#[tokio::test]
async fn the_price_of_foreign_nodes_is_in_no_sum_and_an_unknown_group_is_refused() {
    let mut replica = Replica::new();
    replica.publish("a", &[("n1", 1)], &[]);
    let cost = async |parent: &str, group_by| {
        let request = v1::ComputeCostRequest { parent: parent.to_owned(), group_by };
        replica.api.compute_cost(Request::new(request)).await.map(Response::into_inner)
    };
    assert_eq!(cost("", 0).await.unwrap(), v1::ComputeCostResponse::default());
    assert_eq!(cost("", 99).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(cost("clusters/b", 0).await.unwrap_err().code(), Code::NotFound);
    let cluster = ClusterName::from("a");
    let own = replica.api.directory.get(&cluster, Timestamp::from_millis(5_000)).unwrap();
    assert_eq!((own.node_count, own.machine_count, own.agent_version.as_str()), (1, 0, "1"));
}

#[test]
fn a_cluster_says_why_its_agent_ended_its_stream_once_it_is_disconnected() {
    let mut replica = Replica::new();
    let mut reason = |connected, api_server_unreachable| {
        let (view, owner) =
            (ClusterView { connected, ..view("a", &[], &[]) }, Owner { api_server_unreachable, ..owner() });
        replica.apply("a", Some(Box::new((view, owner))));
        replica.api.directory.get(&"a".into(), Timestamp::from_millis(1_000)).unwrap().disconnect_reason
    };
    // It may answer before the agent loses its Lease.
    assert_eq!(reason(true, true), "");
    assert_eq!(reason(false, true), "the agent ended its stream because the API server of the cluster does not answer");
    assert_eq!(reason(false, false), "");
}

#[tokio::test]
async fn a_cluster_that_another_replica_has_just_got_exists() {
    let replica = Replica::new();
    let b = || Request::new(v1::GetClusterRequest { name: "clusters/b".to_owned() });
    assert_eq!(replica.api.get_cluster(b()).await.unwrap_err().code(), Code::NotFound);
    // Neither has that replica told of it, nor has this one read the clusters of the store since.
    replica.api.store.acquire_lease(&Scope::cluster("b"), "two", 0, Duration::from_secs(15)).await.unwrap();
    assert!(replica.api.get_cluster(b()).await.unwrap().into_inner().stale);
    let of_b = v1::ListNodesRequest { parent: "clusters/b".to_owned(), ..Default::default() };
    assert_eq!(replica.nodes(of_b).await.unwrap().unreachable, ["clusters/b"]);
}

#[test]
fn summaries_and_views_change_at_the_same_time_for_all_readers() {
    let mut replica = Replica::new();
    let (directory, views) = (Arc::clone(&replica.publisher.directory), replica.publisher.views.subscribe());
    let begin = Timestamp::default();
    let in_summary =
        move || directory.get(&"a".into(), begin).map_or(0, |cluster| u64::from(cluster.pod_count.unsigned_abs()));
    let in_view = move || views.borrow().view("a").map_or(0, |view| view.pods as u64);
    let last = 3_000;
    let reader = std::thread::spawn(move || {
        loop {
            let (summary, view) = (in_summary(), in_view());
            assert!(view >= summary, "summary {summary}, the view read after it {view}");
            let (view, summary) = (in_view(), in_summary());
            assert!(summary >= view, "view {view}, the summary read after it {summary}");
            if view == last {
                break;
            }
        }
    });
    for pods in 1..=last {
        let owner = owner();
        let view = ClusterView { pods: pods as usize, ..view("a", &[], &[]) };
        replica.apply("a", Some(Box::new((view, owner))));
    }
    reader.join().unwrap();
}

/// A NodeClaim of this server, whose Node has joined under a name of its own or not yet.
fn managed(claim: &str, node: Option<&str>) -> NodeView {
    let machine = MachineView {
        claim: claim.into(),
        node: node.map(Into::into),
        pool: "default".into(),
        stage: if node.is_some() { StageKind::Initialized } else { StageKind::Launched },
        since: Timestamp::from_millis(1_000),
        instance: None,
        termination_reason: None,
        blocked: None,
        cost: Default::default(),
    };
    NodeView { uid: "u-7".into(), machine: Some(machine), ..self::node(node.unwrap_or(claim), 1) }
}

impl Replica {
    fn publish_nodes(&mut self, cluster: &str, mut nodes: Vec<NodeView>) {
        nodes.sort_by(|one, other| one.id().cmp(other.id()));
        let owner = owner();
        let view = ClusterView { node_count: nodes.len(), nodes, ..view(cluster, &[], &[]) };
        self.apply(cluster, Some(Box::new((view, owner))));
    }

    async fn get_node(&self, name: &str) -> Result<v1::Node, Status> {
        let request = v1::GetNodeRequest { name: name.to_owned() };
        self.api.get_node(Request::new(request)).await.map(Response::into_inner)
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_name_when_its_node_joins() {
    let mut replica = Replica::new();
    replica.publish_nodes("a", vec![managed("default-x7", None), node("old", 1)]);
    let listed = replica.nodes(list("clusters/a")).await.unwrap();
    assert_eq!(names(&listed.nodes), ["clusters/a/nodes/default-x7", "clusters/a/nodes/old"]);
    let (booting, foreign) = (&listed.nodes[0], &listed.nodes[1]);
    assert_eq!((booting.node.as_str(), booting.uid.as_str()), ("", "u-7"));
    assert_eq!((foreign.node.as_str(), foreign.uid.as_str()), ("old", "uid of old"));
    let mut changes = watch(&replica, &listed.resume_token, "").await.unwrap();
    replica.publish_nodes("a", vec![managed("default-x7", Some("ip-10-0-0-1")), node("old", 1)]);
    let message = next(&mut changes).await.unwrap();
    assert_eq!((names(&message.nodes), message.deleted.len()), (vec!["clusters/a/nodes/default-x7"], 0));
    assert_eq!((message.nodes[0].node.as_str(), message.nodes[0].uid.as_str()), ("ip-10-0-0-1", "u-7"));
}

#[tokio::test]
async fn a_node_is_found_by_the_name_of_its_node_as_well() {
    let mut replica = Replica::new();
    replica.publish_nodes(
        "a",
        vec![managed("default-x7", Some("ip-10-0-0-1")), managed("web", None), node("ip-10-0-0-2", 1)],
    );
    let canonical = replica.get_node("clusters/a/nodes/default-x7").await.unwrap();
    assert_eq!(replica.get_node("clusters/a/nodes/ip-10-0-0-1").await.unwrap(), canonical);
    assert_eq!(replica.get_node("clusters/a/nodes/ip-10-0-0-2").await.unwrap().name, "clusters/a/nodes/ip-10-0-0-2");
    // A machine without a Node has an empty one, which is no name.
    for missing in ["clusters/a/nodes/ip-10-0-0-3", "clusters/a/nodes/default"] {
        assert_eq!(replica.get_node(missing).await.unwrap_err().code(), Code::NotFound, "{missing}");
    }
}

#[tokio::test]
async fn pods_are_listed_by_cluster_and_namespace() {
    let mut replica = Replica::new();
    replica.publish("a", &[], &[("shop", "web"), ("shop-2", "web")]);
    replica.publish("b", &[], &[("shop", "cart")]);
    for (parent, expected) in [
        ("clusters/-/namespaces/-", 3),
        ("clusters/a/namespaces/-", 2),
        ("clusters/-/namespaces/shop", 2),
        ("clusters/a/namespaces/shop", 1),
        ("clusters/a/namespaces/sho", 0),
    ] {
        let request = v1::ListPodsRequest { parent: parent.to_owned(), ..Default::default() };
        let pods = replica.api.list_pods(Request::new(request)).await.unwrap().into_inner().pods;
        assert_eq!(pods.len(), expected, "{parent}: {:?}", names(&pods));
    }
    let of_cluster = v1::ListPodsRequest { parent: "clusters/a".to_owned(), ..Default::default() };
    let refused = replica.api.list_pods(Request::new(of_cluster)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().ends_with("it has the form clusters/*/namespaces/*"), "{refused}");
}

#[tokio::test]
async fn a_freeze_is_created_read_and_deleted() {
    let mut replica = Replica::new();
    replica.publish("a", &[], &[]);
    let create = |freeze: Option<v1::Freeze>| {
        let api = replica.api.clone();
        async move { api.create_freeze(Request::new(v1::CreateFreezeRequest { freeze })).await.map(Response::into_inner) }
    };
    assert_eq!(create(None).await.unwrap_err().code(), Code::InvalidArgument);
    let ttl = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    // What the server sets is ignored where a client sends it.
    let asked = v1::Freeze { reason: "a test".to_owned(), ttl, creator: "nobody".to_owned(), ..Default::default() };
    let created = create(Some(asked)).await.unwrap();
    assert_ne!(created.creator, "nobody");
    assert_eq!(created.ttl, None, "it is input only: expire_time has it");
    assert!(created.expire_time.is_some());
    let get = || async {
        let request = v1::GetFreezeRequest { name: created.name.clone() };
        replica.api.get_freeze(Request::new(request)).await.map(Response::into_inner)
    };
    assert_eq!(get().await.unwrap().reason, "a test");
    for _ in 0..2 {
        let request = v1::DeleteFreezeRequest { name: created.name.clone() };
        replica.api.delete_freeze(Request::new(request)).await.unwrap();
    }
    assert_eq!(get().await.unwrap_err().code(), Code::NotFound);
}
