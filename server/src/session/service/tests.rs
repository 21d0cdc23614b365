//! An agent and a server over loopback: the real stream, cut and resumed.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use agent::{Cluster, ClusterError, Done, Identity, Observed, Seen, Target};
use engine::cluster::{Object, Observation};
use engine::control::Event;
use fleetwright_proto::v1::change::Change;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;

use super::*;

mod strangers;

/// Long enough for a busy machine; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster that is a list of namespaces and remembers what it was told to do.
#[derive(Default)]
struct Toy {
    namespaces: Mutex<BTreeSet<String>>,
    watcher: Mutex<Option<mpsc::Sender<Vec<Seen>>>>,
    epoch: Mutex<u64>,
    carried_out: Mutex<Vec<String>>,
    /// Instructions wait for this before they are done.
    may_finish: Notify,
    begun: Notify,
}

impl Toy {
    fn add(&self, name: &str) {
        self.namespaces.lock().unwrap().insert(name.to_owned());
        if let Some(watcher) = &*self.watcher.lock().unwrap() {
            drop(watcher.try_send(vec![namespace(name)]));
        }
    }
}

fn namespace(name: &str) -> Seen {
    Seen::plain(Change::Namespace(v1::NamespaceRecord { name: name.into(), labels: Vec::new() }))
}

impl Cluster for Toy {
    fn identity(&self) -> Identity {
        Identity { uid: "uid".into(), kubernetes_version: String::new() }
    }

    async fn observe(&self) -> Result<Observed, ClusterError> {
        let (watcher, changes) = mpsc::channel(16);
        let records = self.namespaces.lock().unwrap().iter().map(|name| namespace(name)).collect();
        *self.watcher.lock().unwrap() = Some(watcher);
        Ok(Observed { records, changes })
    }

    async fn carry_out(&self, instruction: v1::Instruction) -> Done {
        self.carried_out.lock().unwrap().push(instruction.id);
        self.begun.notify_one();
        self.may_finish.notified().await;
        Done::well()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(*self.epoch.lock().unwrap())
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        *self.epoch.lock().unwrap() = epoch;
        Ok(())
    }
}

/// Passes bytes between an agent and a server, until it is told to cut what it passes and refuse more.
struct Cable {
    address: SocketAddr,
    connected: watch::Sender<bool>,
}

impl Cable {
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

struct World {
    toy: Arc<Toy>,
    sessions: Sessions,
    events: mpsc::Receiver<SessionEvent>,
    cable: Cable,
    agent: JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        let (tell, events) = mpsc::channel(4);
        let sessions = Sessions::new(Settings::default(), ReadPools::new(|_| Vec::new()), tell, Arc::new(Book::open()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = transport().add_service(sessions.service());
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        let cable = Cable::to(address).await;
        let toy = Arc::new(Toy::default());
        toy.add("first");
        let target = Target {
            server: format!("http://{}", cable.address),
            credentials: agent::config::Credentials::default(),
            cluster_name: "blue".into(),
            region: String::new(),
            karpenter_absent: false,
            seed: 1,
        };
        let cluster = Arc::clone(&toy);
        let agent = tokio::spawn(async move { agent::run(cluster, target, std::future::pending()).await.unwrap() });
        Self { toy, sessions, events, cable, agent }
    }

    /// The next event as a word. Greetings are answered with the lease at epoch 3.
    async fn next(&mut self) -> String {
        let event = tokio::time::timeout(DEADLINE, self.events.recv()).await.expect("nothing happens").unwrap();
        match event {
            SessionEvent::Greeted(greeting) => {
                self.sessions.accept(&greeting.cluster, 3).await;
                format!("greeted {}", greeting.highest_epoch)
            }
            SessionEvent::Left { .. } => "left".into(),
            SessionEvent::Happened(event) => word(event),
        }
    }

    async fn expect(&mut self, words: &[&str]) {
        for word in words {
            assert_eq!(self.next().await, *word);
        }
    }

    async fn instruct(&self, number: u64) {
        let instruction = Instruction::InitializeNode { claim: format!("claim-{number}").into(), node: "n".into() };
        self.sessions.instruct(&"blue".into(), InstructionId(number), instruction, Timestamp(i64::MAX)).await;
    }

    async fn begun(&self) {
        tokio::time::timeout(DEADLINE, self.toy.begun.notified()).await.expect("the agent does not begin");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

fn word(event: Event) -> String {
    match event {
        Event::AgentConnected { .. } => "connected".into(),
        Event::AgentDisconnected { .. } => "disconnected".into(),
        Event::InstructionAcked { instruction, .. } => format!("acked {}", instruction.0),
        Event::Observed { observation: Observation::Snapshot(picture), .. } => {
            let names: Vec<&str> = picture.namespaces.iter().map(|namespace| namespace.name.as_ref()).collect();
            format!("snapshot of {}", names.join(" "))
        }
        Event::Observed { observation: Observation::Upsert(object), .. } => match *object {
            Object::Namespace(namespace) => format!("namespace {}", namespace.name),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_tells_obeys_and_answers() {
    let mut world = World::new().await;
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
    let mut world = World::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    world.instruct(7).await;
    world.begun().await;
    world.cable.connected.send_replace(false);
    world.expect(&["disconnected"]).await;
    // While there is no stream: one instruction ends, another is decided, and the cluster changes.
    world.toy.may_finish.notify_one();
    world.instruct(8).await;
    world.toy.add("second");
    world.cable.connected.send_replace(true);
    world.expect(&["greeted 3", "connected", "snapshot of first second", "acked 7"]).await;
    world.begun().await;
    world.toy.may_finish.notify_one();
    world.expect(&["acked 8"]).await;
    assert_eq!(*world.toy.carried_out.lock().unwrap(), ["3-7", "3-8"], "each is carried out once");
}

/// What a stream of somebody else's ends with.
async fn end_of_stream(world: &World, cluster_name: &str) -> Status {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", world.cable.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let hello = v1::Hello { cluster_name: cluster_name.into(), cluster_uid: "another".into(), ..v1::Hello::default() };
    let request = v1::ConnectRequest { message: Some(Message::Hello(hello)) };
    let (say, said) = mpsc::channel(1);
    say.send(request).await.unwrap();
    let mut client = v1::agent_service_client::AgentServiceClient::new(channel);
    let mut heard = client.connect(ReceiverStream::new(said)).await.unwrap().into_inner();
    tokio::time::timeout(DEADLINE, heard.message()).await.expect("the stream goes on").unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_turned_away_and_disturb_nobody() {
    let mut world = World::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    let nameless = end_of_stream(&world, "no name").await;
    assert!(nameless.message().contains("\"no name\""), "{nameless}");
    let namesake = end_of_stream(&world, "blue").await;
    assert!(namesake.message().contains("UID another"), "{namesake}");
    world.toy.add("second");
    world.expect(&["namespace second"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_its_streams() {
    let mut world = World::new().await;
    world.expect(&["greeted 0", "connected", "snapshot of first"]).await;
    tokio::time::timeout(DEADLINE, world.sessions.stop()).await.expect("the server does not stop");
}
