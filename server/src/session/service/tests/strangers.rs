//! What a server does for peers that have not shown who they are: the real gate on real connections, without encryption.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::trust::connections::ConnectionLimits;
use crate::trust::gate::GateLayer;
use crate::trust::tests::doors::{Folder, Issuer, agent_entry, now};
use crate::trust::tls;

/// A server that trusts the agent of cluster `one`.
struct Guarded {
    folder: Folder,
    issuer: Issuer,
    address: SocketAddr,
    events: mpsc::Receiver<SessionEvent>,
    stop: CancellationToken,
}

const HOUR: Duration = Duration::from_secs(3_600);

const LIMITS: ConnectionLimits =
    ConnectionLimits { strangers: 8, strangers_per_address: 8, admitted: 8, handshake: HOUR, silence: HOUR };

impl Guarded {
    async fn new(name: &str, limits: ConnectionLimits) -> Self {
        Self::start(name, limits, true).await
    }

    /// One that looks for changes of its trust file only when it `follows` it.
    async fn start(name: &str, limits: ConnectionLimits, follows: bool) -> Self {
        let (folder, issuer) = (Folder::new(name), Issuer::new("k"));
        folder.write("keys.json", &serde_json::to_string(&issuer.keys()).unwrap());
        let book = Book::read(folder.write("trust.toml", &agent_entry("one", "keys.json"))).unwrap();
        let (book, stop) = (Arc::new(book), CancellationToken::new());
        let (tell, events) = mpsc::channel(64);
        let pools = ReadPools::new(|_| Vec::new());
        let sessions = Sessions::new(Settings::default(), pools, tell, Arc::clone(&book));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = tls::Incoming::new(listener, None, limits);
        if follows {
            tokio::spawn(Arc::clone(&book).follow(stop.clone()));
        }
        let router = transport().layer(GateLayer(book)).add_service(sessions.service());
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

impl Drop for Guarded {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

type Heard = Streaming<v1::ConnectResponse>;

/// A stream of somebody who shows this token; what is sent on the other end is said on it.
async fn stream(channel: Channel, token: Option<&str>) -> (mpsc::Sender<v1::ConnectRequest>, Result<Heard, Status>) {
    let (say, said) = mpsc::channel(4);
    let mut request = Request::new(ReceiverStream::new(said));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let mut client = v1::agent_service_client::AgentServiceClient::new(channel);
    let answer = tokio::time::timeout(DEADLINE, client.connect(request)).await.expect("the server waits for something");
    (say, answer.map(Response::into_inner))
}

async fn end(heard: &mut Heard) -> Status {
    let ended = async {
        loop {
            match heard.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("it ended"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(DEADLINE, ended).await.expect("the stream goes on")
}

fn says_hello(cluster: &str, padding: usize) -> v1::ConnectRequest {
    let hello = v1::Hello {
        cluster_name: cluster.into(),
        cluster_uid: "uid".into(),
        region: "x".repeat(padding),
        ..v1::Hello::default()
    };
    v1::ConnectRequest { message: Some(Message::Hello(hello)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_shows_nothing_good_is_refused_before_it_says_anything() {
    let guarded = Guarded::new("silent", LIMITS).await;
    let other = guarded.issuer.token(now(), json!({ "iss": "https://elsewhere.example" }));
    for token in [None, Some("no token"), Some(other.as_str())] {
        let (_say, answer) = stream(guarded.channel().await, token).await;
        let refused = answer.expect_err("nothing is read of it");
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn until_it_is_admitted_no_more_than_a_hello_is_read_of_a_peer() {
    let guarded = Guarded::new("large", LIMITS).await;
    let forged = Issuer::new("k").token(now(), json!({}));
    let (say, answer) = stream(guarded.channel().await, Some(&forged)).await;
    say.send(says_hello("one", 100_000)).await.unwrap();
    let refused = end(&mut answer.unwrap()).await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("16384 bytes"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_text_answers_for_clusters_that_exist_and_for_others() {
    let guarded = Guarded::new("texts", LIMITS).await;
    let forged = Issuer::new("k").token(now(), json!({}));
    let mut texts = BTreeSet::new();
    for cluster in ["one", "two"] {
        let (say, answer) = stream(guarded.channel().await, Some(&forged)).await;
        say.send(says_hello(cluster, 0)).await.unwrap();
        texts.insert(end(&mut answer.unwrap()).await.to_string());
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    let text = texts.first().unwrap();
    assert!(!text.contains("oidc.example") && !text.contains("signature"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admitted_agent_may_say_more_and_its_connection_carries_one_stream() {
    let mut guarded = Guarded::new("admitted", LIMITS).await;
    let (channel, token) = (guarded.channel().await, guarded.good_token());
    let (say, answer) = stream(channel.clone(), Some(&token)).await;
    say.send(says_hello("one", 0)).await.unwrap();
    let greeted = tokio::time::timeout(DEADLINE, guarded.events.recv()).await.unwrap();
    assert!(matches!(greeted, Some(SessionEvent::Greeted(_))), "{greeted:?}");
    let (_say, second) = stream(channel, Some(&token)).await;
    assert_eq!(second.expect_err("one at a time").code(), Code::ResourceExhausted);
    say.send(says_hello("one", 1_000_000)).await.unwrap();
    let ended = end(&mut answer.unwrap()).await;
    assert!(ended.message().contains("before it was welcome"), "all of it was read: {ended}");
}

/// The stream of an agent that is admitted, which the trust file names no longer then.
async fn revoked(guarded: &mut Guarded) -> (mpsc::Sender<v1::ConnectRequest>, Heard) {
    let (say, answer) = stream(guarded.channel().await, Some(&guarded.good_token())).await;
    say.send(says_hello("one", 0)).await.unwrap();
    assert!(tokio::time::timeout(DEADLINE, guarded.events.recv()).await.unwrap().is_some());
    guarded.folder.change("trust.toml", &agent_entry("two", "keys.json"));
    (say, answer.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_the_trust_file_names_no_longer_is_cut_off() {
    let mut guarded = Guarded::new("revoked", LIMITS).await;
    let (_say, mut heard) = revoked(&mut guarded).await;
    let ended = end(&mut heard).await;
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended}");
    assert!(ended.message().contains("the trust file has changed"), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sabotage_without_looking_for_changes_an_agent_goes_on_that_the_trust_file_names_no_longer() {
    let mut blind = Guarded::start("blind", LIMITS, false).await;
    let (say, mut heard) = revoked(&mut blind).await;
    // In the time that this takes another server has cut off an agent that was revoked later.
    let mut seeing = Guarded::new("seeing", LIMITS).await;
    let (_say, mut other) = revoked(&mut seeing).await;
    assert_eq!(end(&mut other).await.code(), Code::Unauthenticated);
    say.send(says_hello("one", 0)).await.unwrap();
    let ended = end(&mut heard).await;
    assert!(ended.message().contains("before it was welcome"), "it was still heard: {ended}");
}

/// Whether the server has closed a connection that says nothing.
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
async fn silent_peers_keep_nobody_out_and_never_take_an_admitted_agents_place() {
    let mut guarded = Guarded::new("many", LIMITS).await;
    let (say, answer) = stream(guarded.channel().await, Some(&guarded.good_token())).await;
    say.send(says_hello("one", 0)).await.unwrap();
    assert!(tokio::time::timeout(DEADLINE, guarded.events.recv()).await.unwrap().is_some());
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(guarded.address).await.unwrap());
    }
    // 32 of 40 have given way, the oldest first.
    for wire in &mut silent[..32] {
        assert!(is_closed(wire).await);
    }
    let (_say, refused) = stream(guarded.channel().await, None).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "a newcomer is heard");
    say.send(says_hello("one", 0)).await.unwrap();
    let ended = end(&mut answer.unwrap()).await;
    assert!(ended.message().contains("before it was welcome"), "the agent was there all along: {ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_asks_for_nothing_is_closed() {
    let guarded = Guarded::new("nothing", ConnectionLimits { silence: Duration::from_millis(100), ..LIMITS }).await;
    let mut silent = TcpStream::connect(guarded.address).await.unwrap();
    let mut slow = TcpStream::connect(guarded.address).await.unwrap();
    slow.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    assert!(is_closed(&mut silent).await && is_closed(&mut slow).await);
}
