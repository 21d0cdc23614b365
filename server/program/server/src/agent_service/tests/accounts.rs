//! Sessions of clusters in two accounts, each with a control loop of its own.

use agent_session::{PoolReader, SessionEvent};
use tonic::transport::Endpoint;

use super::unauthenticated::{end, hello_message, stream};
use super::*;
use server_settings::{Accounts, ClusterRules};

/// Entry 0 has cluster `a`, entry 1 the clusters that begin with `b-`.
fn two_entries(test: &str) -> ClusterRules {
    let path = std::env::temp_dir().join(format!("fleetwright-routes-{}-{test}.toml", std::process::id()));
    let entry = |region: &str, cluster: &str| {
        format!("[[account]]\nname = \"1\"\nregion = \"{region}\"\nclusters = [\"{cluster}\"]\n")
    };
    std::fs::write(&path, entry("eu-west-1", "a") + &entry("us-east-1", "b-*")).unwrap();
    let accounts = Accounts::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    accounts.rules().clone()
}

/// Sessions in front of two control loops, and what these receive.
struct TwoLoops {
    address: SocketAddr,
    sessions: Sessions,
    loops: [mpsc::Receiver<Delivery>; 2],
}

impl TwoLoops {
    async fn start(rules: ClusterRules) -> Self {
        let (routes, loops): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (events, received) = mpsc::channel(4);
                (LoopRoute { events, pool_reader: PoolReader::new(|_| Vec::new()), catalogue: None }, received)
            })
            .unzip();
        let authorizer = Arc::new(Authorizer::allow_all());
        let sessions = Sessions::new(Settings::default(), Routes::new(rules, routes), authorizer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = transport().add_service(sessions.service());
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, sessions, loops: loops.try_into().unwrap_or_else(|_| panic!("two loops")) }
    }

    /// Opens a stream of `cluster`, and keeps it open for as long as the result lives.
    async fn connect(&self, cluster: &str) -> (mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>) {
        let channel = Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap();
        let (requests, answer) = stream(channel, None).await;
        requests.send(hello_message(cluster, 0)).await.unwrap();
        (requests, answer.unwrap())
    }

    /// The cluster whose Hello the loop receives next.
    async fn greeted(&mut self, entry: usize) -> String {
        let received = tokio::time::timeout(DEADLINE, self.loops[entry].recv()).await.expect("nothing arrives");
        match received.map(|delivery| delivery.event) {
            Some(SessionEvent::HelloReceived(hello)) => hello.cluster.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn are_idle(&mut self) -> bool {
        self.loops.iter_mut().all(|received| received.try_recv().is_err())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_session_reaches_the_control_loop_of_its_entry_and_no_other_one() {
    let mut server = TwoLoops::start(two_entries("each")).await;
    let _streams = (server.connect("b-1").await, server.connect("a").await);
    assert_eq!(server.greeted(1).await, "b-1");
    assert_eq!(server.greeted(0).await, "a");
    assert!(server.are_idle());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_control_loop_delays_no_session_of_another_one() {
    let mut server = TwoLoops::start(two_entries("full")).await;
    // The inbox of the second loop has four places, and nobody takes from it.
    let mut streams = Vec::new();
    for number in 0..6 {
        streams.push(server.connect(&format!("b-{number}")).await);
    }
    streams.push(server.connect("a").await);
    assert_eq!(server.greeted(0).await, "a");
}

/// How the stream of a cluster ends that no entry of the file names.
async fn refusal_of_c(server: &TwoLoops) -> Status {
    let (_requests, mut responses) = server.connect("c").await;
    end(&mut responses).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_an_entry_is_refused_and_no_control_loop_learns_of_it() {
    let mut server = TwoLoops::start(two_entries("refused")).await;
    let refused = refusal_of_c(&server).await;
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let text = refused.message();
    assert!(text.starts_with("no [[account]] in ") && text.contains(".toml names cluster c, so no account"), "{text}");
    assert!(text.ends_with("to the clusters of its [[account]] and restart the server"), "{text}");
    assert!(server.are_idle());
    let known = server.sessions.shared.clusters.lock().unwrap().len();
    assert_eq!(known, 0, "it has no task");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sabotage_without_the_refusal_a_control_loop_would_decide_for_any_cluster() {
    // Every cluster belongs to entry 0, as without a file.
    let mut server = TwoLoops::start(ClusterRules::all_in_one()).await;
    let _stream = server.connect("c").await;
    assert_eq!(server.greeted(0).await, "c");
}
