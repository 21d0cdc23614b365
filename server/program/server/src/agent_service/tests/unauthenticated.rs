//! Limits for unauthenticated peers: the real auth middleware on real connections, without TLS.

use agent_session::{PoolReader, SessionEvent};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::{Channel, Endpoint};

use super::*;
use auth::connections::ConnectionLimits;
use auth::middleware::AuthLayer;
use auth::tls;

#[path = "../../../../../api/auth/src/tests/issuer.rs"]
mod issuer;

use issuer::{Folder, Issuer, agent_entry, now};

/// Server that trusts the agent of cluster `one`.
struct AuthTestBed {
    folder: Folder,
    issuer: Issuer,
    address: SocketAddr,
    events: mpsc::Receiver<Delivery>,
    stop: CancellationToken,
}

const HOUR: Duration = Duration::from_secs(3_600);

const LIMITS: ConnectionLimits = ConnectionLimits {
    unauthenticated: 8,
    unauthenticated_per_address: 8,
    admitted: 8,
    admitted_per_client: usize::MAX,
    reserved: 0,
    handshake: HOUR,
    silence: HOUR,
};

impl AuthTestBed {
    async fn new(name: &str, limits: ConnectionLimits) -> Self {
        Self::start(name, limits, true).await
    }

    /// Starts a server that reloads its trust file only when `follows` is set.
    async fn start(name: &str, limits: ConnectionLimits, follows: bool) -> Self {
        let (folder, issuer) = (Folder::new(name), Issuer::new("k"));
        folder.write("keys.json", &serde_json::to_string(&issuer.keys()).unwrap());
        let authorizer = Authorizer::read(folder.write("auth.toml", &agent_entry("one", "keys.json"))).unwrap();
        let (authorizer, stop) = (Arc::new(authorizer), CancellationToken::new());
        let (sender, events) = mpsc::channel(64);
        let route = LoopRoute { events: sender, pool_reader: PoolReader::new(|_| Vec::new()), catalogue: None };
        let routes = Routes::new(ClusterRules::all_in_one(), vec![route]);
        let sessions = Sessions::new(Settings::default(), routes, Arc::clone(&authorizer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = tls::Incoming::new(listener, None, limits);
        if follows {
            tokio::spawn(Arc::clone(&authorizer).watch_files(stop.clone()));
        }
        let router = transport().layer(AuthLayer(authorizer)).add_service(sessions.service());
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned()));
        Self { folder, issuer, address, events, stop }
    }

    async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    fn good_token(&self) -> String {
        self.issuer.token(now(), json!({}))
    }
}

impl Drop for AuthTestBed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(super) type Responses = Streaming<v1::ConnectResponse>;

/// Opens a stream with this token; returns the sender of its requests.
pub(super) async fn stream(
    channel: Channel,
    token: Option<&str>,
) -> (mpsc::Sender<v1::ConnectRequest>, Result<Responses, Status>) {
    let (requests, outgoing) = mpsc::channel(4);
    let mut request = Request::new(ReceiverStream::new(outgoing));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let mut client = AgentServiceClient::new(channel);
    let answer = tokio::time::timeout(DEADLINE, client.connect(request)).await.expect("the server waits for something");
    (requests, answer.map(Response::into_inner))
}

pub(super) async fn end(responses: &mut Responses) -> Status {
    let ended = async {
        loop {
            match responses.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("it ended"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(DEADLINE, ended).await.expect("the stream stays open")
}

pub(super) fn hello_message(cluster: &str, padding: usize) -> v1::ConnectRequest {
    let hello = v1::Hello {
        cluster_name: cluster.into(),
        cluster_uid: "uid".into(),
        region: "x".repeat(padding),
        ..v1::Hello::default()
    };
    v1::ConnectRequest { message: Some(Message::Hello(hello)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_without_valid_credentials_is_rejected_before_its_first_message() {
    let bed = AuthTestBed::new("silent", LIMITS).await;
    let other = bed.issuer.token(now(), json!({ "iss": "https://elsewhere.example" }));
    for token in [None, Some("no token"), Some(other.as_str())] {
        let (_requests, answer) = stream(bed.channel().await, token).await;
        let refused = answer.expect_err("nothing is read of it");
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_hello_is_read_before_admission() {
    let bed = AuthTestBed::new("large", LIMITS).await;
    let forged = Issuer::new("k").token(now(), json!({}));
    let (requests, answer) = stream(bed.channel().await, Some(&forged)).await;
    requests.send(hello_message("one", 100_000)).await.unwrap();
    let refused = end(&mut answer.unwrap()).await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("16384 bytes"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rejection_does_not_reveal_which_clusters_exist() {
    let bed = AuthTestBed::new("texts", LIMITS).await;
    let forged = Issuer::new("k").token(now(), json!({}));
    let mut texts = BTreeSet::new();
    for cluster in ["one", "two"] {
        let (requests, answer) = stream(bed.channel().await, Some(&forged)).await;
        requests.send(hello_message(cluster, 0)).await.unwrap();
        texts.insert(end(&mut answer.unwrap()).await.to_string());
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    let text = texts.first().unwrap();
    assert!(!text.contains("oidc.example") && !text.contains("signature"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admitted_agent_may_send_more_and_its_connection_carries_one_stream() {
    let mut bed = AuthTestBed::new("admitted", LIMITS).await;
    let (channel, token) = (bed.channel().await, bed.good_token());
    let (requests, answer) = stream(channel.clone(), Some(&token)).await;
    requests.send(hello_message("one", 0)).await.unwrap();
    let greeted = tokio::time::timeout(DEADLINE, bed.events.recv()).await.unwrap().map(|delivery| delivery.event);
    assert!(matches!(greeted, Some(SessionEvent::HelloReceived(_))), "{greeted:?}");
    let (_requests, second) = stream(channel, Some(&token)).await;
    assert_eq!(second.expect_err("one at a time").code(), Code::ResourceExhausted);
    requests.send(hello_message("one", 1_000_000)).await.unwrap();
    let ended = end(&mut answer.unwrap()).await;
    assert!(ended.message().contains("received before Welcome"), "all of it was read: {ended}");
}

/// Stream of an admitted agent that is then removed from the trust file.
async fn revoked(bed: &mut AuthTestBed) -> (mpsc::Sender<v1::ConnectRequest>, Responses) {
    let (requests, answer) = stream(bed.channel().await, Some(&bed.good_token())).await;
    requests.send(hello_message("one", 0)).await.unwrap();
    assert!(tokio::time::timeout(DEADLINE, bed.events.recv()).await.unwrap().is_some());
    bed.folder.change("auth.toml", &agent_entry("two", "keys.json"));
    (requests, answer.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_removed_from_the_trust_file_is_disconnected() {
    let mut bed = AuthTestBed::new("revoked", LIMITS).await;
    let (_requests, mut responses) = revoked(&mut bed).await;
    let ended = end(&mut responses).await;
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended}");
    assert!(ended.message().contains("the trust file has changed"), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sabotage_without_reloading_an_agent_removed_from_the_trust_file_stays_connected() {
    let mut blind = AuthTestBed::start("blind", LIMITS, false).await;
    let (requests, mut responses) = revoked(&mut blind).await;
    // In the meantime another server has disconnected an agent that was revoked later.
    let mut seeing = AuthTestBed::new("seeing", LIMITS).await;
    let (_requests, mut other) = revoked(&mut seeing).await;
    assert_eq!(end(&mut other).await.code(), Code::Unauthenticated);
    requests.send(hello_message("one", 0)).await.unwrap();
    let ended = end(&mut responses).await;
    assert!(ended.message().contains("received before Welcome"), "the message was not read: {ended}");
}

/// Whether the server has closed an idle connection.
async fn is_closed(wire: &mut TcpStream) -> bool {
    let mut byte = [0; 64];
    loop {
        match tokio::time::timeout(DEADLINE, wire.read(&mut byte)).await.expect("it stays open") {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_peers_never_evict_an_admitted_agent() {
    let mut bed = AuthTestBed::new("many", LIMITS).await;
    let (requests, answer) = stream(bed.channel().await, Some(&bed.good_token())).await;
    requests.send(hello_message("one", 0)).await.unwrap();
    assert!(tokio::time::timeout(DEADLINE, bed.events.recv()).await.unwrap().is_some());
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(bed.address).await.unwrap());
    }
    // 32 of 40 were evicted, the oldest first.
    for wire in &mut silent[..32] {
        assert!(is_closed(wire).await);
    }
    let (_requests, refused) = stream(bed.channel().await, None).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "a new connection is served");
    requests.send(hello_message("one", 0)).await.unwrap();
    let ended = end(&mut answer.unwrap()).await;
    assert!(ended.message().contains("received before Welcome"), "the agent was there all along: {ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_without_a_request_is_disconnected() {
    let bed = AuthTestBed::new("nothing", ConnectionLimits { silence: Duration::from_millis(100), ..LIMITS }).await;
    let mut silent = TcpStream::connect(bed.address).await.unwrap();
    let mut slow = TcpStream::connect(bed.address).await.unwrap();
    slow.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    assert!(is_closed(&mut silent).await && is_closed(&mut slow).await);
}
