//! Agent and server over loopback: a real stream, cut and resumed.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ::cluster::{Object, Observation};
use agent::{Cluster, ClusterError, Done, Identity, ListWatch, Record, Target};
use agent_session::{PoolReader, SessionEvent};
use controller::Event;
use fleetwright_proto::v1::change::Change;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use fleet_api::questions::Delivery;
use server_settings::ClusterRules;

mod accounts;
mod unauthenticated;

/// Long enough for a busy machine; no test waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(60);

/// Cluster that is a set of namespaces and records executed instructions.
#[derive(Default)]
struct FakeCluster {
    namespaces: Mutex<BTreeSet<String>>,
    watcher: Mutex<Option<mpsc::Sender<Vec<Record>>>>,
    epoch: Mutex<u64>,
    facts: Mutex<Option<v1::ClusterFacts>>,
    api_server_unreachable: watch::Sender<bool>,
    carried_out: Mutex<Vec<String>>,
    /// Instructions wait for this before they complete.
    may_finish: Notify,
    begun: Notify,
}

impl FakeCluster {
    fn add(&self, name: &str) {
        self.namespaces.lock().unwrap().insert(name.to_owned());
        if let Some(watcher) = &*self.watcher.lock().unwrap() {
            drop(watcher.try_send(vec![namespace(name)]));
        }
    }
}

fn namespace(name: &str) -> Record {
    Record::plain(Change::Namespace(v1::NamespaceRecord { name: name.into(), labels: Vec::new() }))
}

impl Cluster for FakeCluster {
    fn identity(&self) -> Identity {
        Identity { uid: "uid".into(), kubernetes_version: String::new() }
    }

    async fn facts(&self) -> Option<v1::ClusterFacts> {
        self.facts.lock().unwrap().clone()
    }

    fn api_server_unreachable(&self) -> Option<watch::Receiver<bool>> {
        Some(self.api_server_unreachable.subscribe())
    }

    async fn list_and_watch(&self) -> Result<ListWatch, ClusterError> {
        let (watcher, changes) = mpsc::channel(16);
        let records = self.namespaces.lock().unwrap().iter().map(|name| namespace(name)).collect();
        *self.watcher.lock().unwrap() = Some(watcher);
        Ok(ListWatch { records, changes })
    }

    async fn execute_instruction(&self, instruction: v1::Instruction) -> Done {
        self.carried_out.lock().unwrap().push(instruction.id);
        self.begun.notify_one();
        self.may_finish.notified().await;
        Done::ok()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(*self.epoch.lock().unwrap())
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        *self.epoch.lock().unwrap() = epoch;
        Ok(())
    }
}

/// TCP proxy between agent and server that can cut its connections and refuse new ones.
struct TcpProxy {
    address: SocketAddr,
    connected: watch::Sender<bool>,
}

impl TcpProxy {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connected, watched) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut from_agent, _)) = listener.accept().await {
                let mut watched = watched.clone();
                tokio::spawn(async move {
                    if !*watched.borrow() {
                        return;
                    }
                    let mut to_server = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut from_agent, &mut to_server) => {}
                        _ = watched.wait_for(|connected| !connected) => {}
                    }
                });
            }
        });
        Self { address, connected }
    }
}

struct TestBed {
    toy: Arc<FakeCluster>,
    sessions: Sessions,
    events: mpsc::Receiver<Delivery>,
    proxy: TcpProxy,
    agent: JoinHandle<()>,
}

impl TestBed {
    async fn new() -> Self {
        let (sender, events) = mpsc::channel(4);
        let route = LoopRoute { events: sender, pool_reader: PoolReader::new(|_| Vec::new()), catalogue: None };
        let routes = Routes::new(ClusterRules::all_in_one(), vec![route]);
        let sessions = Sessions::new(Settings::default(), routes, Arc::new(Authorizer::allow_all()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = transport().add_service(sessions.service());
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        let proxy = TcpProxy::to(address).await;
        let toy = Arc::new(FakeCluster::default());
        toy.add("first");
        let target = Target {
            server: format!("http://{}", proxy.address),
            credentials: agent::config::Credentials::default(),
            cluster_name: "blue".into(),
            region: String::new(),
            karpenter_absent: false,
            seed: 1,
        };
        let cluster = Arc::clone(&toy);
        let agent = tokio::spawn(async move { agent::run(cluster, target, std::future::pending()).await.unwrap() });
        Self { toy, sessions, events, proxy, agent }
    }

    /// Next event in a compact form. A Hello is answered with the lease at epoch 3.
    async fn next(&mut self) -> String {
        let event = tokio::time::timeout(DEADLINE, self.events.recv()).await.expect("nothing happens").unwrap().event;
        match event {
            SessionEvent::HelloReceived(greeting) => {
                self.sessions.accept(&greeting.cluster, 3).await;
                format!("greeted {}", greeting.highest_epoch)
            }
            SessionEvent::HandshakeAbandoned { .. } => "left".into(),
            SessionEvent::ClusterEvent(event) => word(event.event),
            SessionEvent::RegionEvent(event) => format!("{event:?}"),
        }
    }

    async fn expect(&mut self, words: &[&str]) {
        for word in words {
            assert_eq!(self.next().await, *word);
        }
    }

    async fn instruct(&self, number: u64) {
        let instruction = Instruction::InitializeNode { claim: format!("claim-{number}").into(), node: "n".into() };
        self.sessions.instruct(&"blue".into(), InstructionId(number), instruction, Timestamp::MAX, None).await;
    }

    async fn begun(&self) {
        tokio::time::timeout(DEADLINE, self.toy.begun.notified()).await.expect("the agent does not begin");
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

fn word(event: Event) -> String {
    match event {
        Event::AgentConnected => "connected".into(),
        Event::ClusterFactsReported { facts, refused } => format!("facts {} {refused:?}", facts.endpoint),
        Event::AgentDisconnected => "disconnected".into(),
        Event::InstructionAcked(instruction) => format!("acked {}", instruction.0),
        Event::Observed(Observation::Snapshot(snapshot)) => {
            let names: Vec<&str> = snapshot.namespaces.iter().map(|namespace| namespace.name.as_ref()).collect();
            format!("snapshot of {}", names.join(" "))
        }
        Event::Observed(Observation::Upsert(object)) => match *object {
            Object::Namespace(namespace) => format!("namespace {}", namespace.name),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_syncs_executes_and_acknowledges() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    world.toy.add("second");
    world.expect(&["namespace second"]).await;
    world.instruct(7).await;
    world.begun().await;
    world.toy.may_finish.notify_one();
    world.expect(&["acked 7"]).await;
    assert_eq!(*world.toy.carried_out.lock().unwrap(), ["3-7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_loses_no_acknowledgement_and_no_change() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    world.instruct(7).await;
    world.begun().await;
    world.proxy.connected.send_replace(false);
    world.expect(&["disconnected"]).await;
    // While there is no stream: one instruction ends, another is decided, and the cluster changes.
    world.toy.may_finish.notify_one();
    world.instruct(8).await;
    world.toy.add("second");
    world.proxy.connected.send_replace(true);
    world.expect(&["greeted 3", "connected", "snapshot of first second", "acked 7"]).await;
    world.begun().await;
    world.toy.may_finish.notify_one();
    world.expect(&["acked 8"]).await;
    assert_eq!(*world.toy.carried_out.lock().unwrap(), ["3-7", "3-8"], "each is carried out once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_that_change_are_reported_with_the_next_connection() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    let facts =
        |endpoint: &str| Some(v1::ClusterFacts { api_endpoint: endpoint.into(), ..v1::ClusterFacts::default() });
    *world.toy.facts.lock().unwrap() = facts("https://a");
    world.proxy.connected.send_replace(false);
    world.expect(&["disconnected"]).await;
    world.proxy.connected.send_replace(true);
    world.expect(&["greeted 3", "facts https://a []", "connected", "snapshot of first"]).await;
    *world.toy.facts.lock().unwrap() = facts("a");
    world.proxy.connected.send_replace(false);
    world.expect(&["disconnected"]).await;
    world.proxy.connected.send_replace(true);
    let refused = "the URL of the API server \\\"a\\\" is no https:// URL of at most 512 bytes";
    world.expect(&["greeted 3", &format!("facts  [\"{refused}\"]"), "connected", "snapshot of first"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_does_not_answer_is_known_when_its_agent_has_gone() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    let blue = ClusterName::from("blue");
    assert!(!world.sessions.is_api_server_unreachable(&blue));
    world.toy.api_server_unreachable.send_replace(true);
    let known = async {
        while !world.sessions.is_api_server_unreachable(&blue) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, known).await.expect("the agent does not say so");
    world.proxy.connected.send_replace(false);
    world.expect(&["disconnected"]).await;
    assert!(world.sessions.is_api_server_unreachable(&blue));
    world.toy.api_server_unreachable.send_replace(false);
    world.proxy.connected.send_replace(true);
    world.expect(&["greeted 3", "connected", "snapshot of first"]).await;
    assert!(!world.sessions.is_api_server_unreachable(&blue));
}

/// Final status of the stream of another agent.
async fn end_of_stream(world: &TestBed, cluster_name: &str) -> Status {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", world.proxy.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let hello = v1::Hello { cluster_name: cluster_name.into(), cluster_uid: "another".into(), ..v1::Hello::default() };
    let request = v1::ConnectRequest { message: Some(Message::Hello(hello)) };
    let (requests, outgoing) = mpsc::channel(1);
    requests.send(request).await.unwrap();
    let mut client = AgentServiceClient::new(channel);
    let mut responses = client.connect(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    tokio::time::timeout(DEADLINE, responses.message()).await.expect("the stream stays open").unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_other_clusters_are_rejected_without_disturbance() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    let nameless = end_of_stream(&world, "no name").await;
    assert!(nameless.message().contains("\"no name\""), "{nameless}");
    let namesake = end_of_stream(&world, "blue").await;
    assert!(namesake.message().contains("UID another"), "{namesake}");
    world.toy.add("second");
    world.expect(&["namespace second"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_stream_ends_with_the_peer_of_the_newer_one() {
    let world = TestBed::new().await;
    let handle = world.sessions.handle_of(&"green".into()).unwrap();
    let open = async |stream, peer: &str| {
        let (responses, outgoing) = mpsc::channel(RESPONSE_BUFFER);
        let hello = v1::Hello { cluster_name: "green".into(), cluster_uid: "uid".into(), ..v1::Hello::default() };
        let (hello, cancel) = (Box::new(hello), CancellationToken::new());
        let opened = Incoming::Opened { stream, hello, peer: peer.to_owned(), responses, cancel };
        handle.incoming.send(opened).await.unwrap();
        outgoing
    };
    let mut replaced = open(1, "192.0.2.1:1000").await;
    let _newer = open(2, "192.0.2.2:2000").await;
    let ended = tokio::time::timeout(DEADLINE, replaced.recv()).await.expect("the stream stays open").unwrap();
    let status = ended.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(status.message(), "replaced by a newer stream of this cluster, from 192.0.2.2:2000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_of_a_cluster_that_is_behind_is_not_read() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected"]).await;
    // The snapshot and 99 changes; nothing is handled, so every event keeps its place.
    let mut waiting = vec![world.events.recv().await.unwrap()];
    let mut sent = 0;
    while waiting.len() < 60 {
        world.toy.add(&format!("namespace-{sent}"));
        sent += 1;
        let change = tokio::time::timeout(DEADLINE, world.events.recv()).await.expect("nothing happens").unwrap();
        waiting.push(change);
    }
    for more in 0..10 {
        world.toy.add(&format!("more-{more}"));
    }
    // 64 places, of which "connected" has given its back.
    while waiting.len() < 64 {
        waiting.push(tokio::time::timeout(DEADLINE, world.events.recv()).await.expect("nothing happens").unwrap());
    }
    assert!(world.events.try_recv().is_err(), "all places are taken");
    waiting.truncate(63);
    let next = tokio::time::timeout(DEADLINE, world.events.recv()).await.expect("a place was given back").unwrap();
    assert!(next.place.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_closes_its_streams() {
    let mut world = TestBed::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    tokio::time::timeout(DEADLINE, world.sessions.stop()).await.expect("the server does not stop");
}
