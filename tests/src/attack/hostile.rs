//! The attackers, each kind in a separate process. Every loop ends with the attack.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::snapshot::Part;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message as _;
use prost::bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status, Streaming};
use tower::{Service, ServiceExt};

use super::arguments::{number, word};
use super::metrics;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttackKind {
    /// TLS without credentials: many streams on each connection, with messages that are announced
    /// and never completed.
    Streams,
    /// Valid credentials: an endless series of definitions.
    Flood,
    /// HTTP request heads that are never completed.
    SlowHead,
    /// Connections that send nothing.
    Silent,
    /// Unsigned tokens of an issuer that does not respond.
    Tokens,
}

impl AttackKind {
    pub(super) const ALL: [Self; 5] = [Self::Streams, Self::Flood, Self::SlowHead, Self::Silent, Self::Tokens];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Flood => "flood",
            Self::SlowHead => "slow-head",
            Self::Silent => "silent",
            Self::Tokens => "tokens",
        }
    }
}

/// The server under attack, and the credentials.
#[derive(Debug)]
struct Target {
    grpc: String,
    http: String,
    ca: String,
    hostile_token: String,
    forged_token: String,
    end: Instant,
    done: AttackProgress,
}

/// Progress of the attackers. Without progress the attack did not take place, and the run proves
/// nothing.
#[derive(Debug, Default)]
struct AttackProgress {
    connections: AtomicU64,
    messages: AtomicU64,
}

impl AttackProgress {
    fn connected(&self) {
        let _before = self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn sent(&self) {
        let _before = self.messages.fetch_add(1, Ordering::Relaxed);
    }
}

/// Streams of one connection without credentials.
const STREAMS: usize = 64;
/// Announced length of the message on each of them, in bytes.
const ANNOUNCED: u32 = 4 << 20;
const DEFINITIONS: u64 = 1_000;
/// Delay before an attacker whose connection was closed opens another.
const AGAIN: Duration = Duration::from_millis(500);

pub(super) fn main(words: &[&str]) -> ExitCode {
    let Some(kind) = AttackKind::ALL.into_iter().find(|kind| words.first() == Some(&kind.name())) else {
        return ExitCode::from(2);
    };
    let text = |flag| word(words, flag).unwrap_or_default().to_owned();
    let read = |flag| std::fs::read_to_string(text(flag)).unwrap_or_default();
    let target = Target {
        grpc: text("--grpc"),
        http: text("--http"),
        ca: text("--ca"),
        hostile_token: read("--evil"),
        forged_token: read("--made-up"),
        end: Instant::now() + Duration::from_secs(number(words, "--seconds", 5)),
        done: AttackProgress::default(),
    };
    let connections = number(words, "--connections", 10);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::from(3) };
    runtime.block_on(all(kind, Arc::new(target), connections));
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

async fn all(kind: AttackKind, target: Arc<Target>, connections: u64) {
    let mut peers = JoinSet::new();
    let left = target.end.saturating_duration_since(Instant::now());
    for number in 0..connections {
        peers.spawn(again(kind, Arc::clone(&target), number));
    }
    let progress = tokio::spawn(print_progress(Arc::clone(&target)));
    let _over = tokio::time::timeout(left, async { while peers.join_next().await.is_some() {} }).await;
    progress.abort();
}

/// Prints a line of progress every quarter of a second; the parent process reads the last one.
async fn print_progress(target: Arc<Target>) {
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let [connections, messages] =
            [&target.done.connections, &target.done.messages].map(|number| number.load(Ordering::Relaxed));
        if writeln!(std::io::stdout(), "{connections} {messages}").is_err() {
            return;
        }
    }
}

/// One hostile peer, which reconnects when it is disconnected.
async fn again(kind: AttackKind, target: Arc<Target>, number: u64) {
    while Instant::now() < target.end {
        let _sent_away = match kind {
            AttackKind::Streams => streams(&target).await,
            AttackKind::Flood => flood(&target, number).await,
            AttackKind::SlowHead | AttackKind::Silent => held(kind, Arc::clone(&target), number).await,
            AttackKind::Tokens => forged_token(&target).await,
        };
        tokio::time::sleep(AGAIN).await;
    }
}

async fn channel(target: &Target) -> anyhow::Result<Channel> {
    let port = target.grpc.rsplit(':').next().unwrap_or_default();
    let ca = Certificate::from_pem(std::fs::read_to_string(&target.ca)?);
    let endpoint = Endpoint::from_shared(format!("https://localhost:{port}"))?;
    let endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(ca))?;
    let channel = endpoint.connect_timeout(Duration::from_secs(10)).connect().await?;
    target.done.connected();
    Ok(channel)
}

/// Streams that each send most of a message and then stop.
async fn streams(target: &Arc<Target>) -> anyhow::Result<()> {
    let channel = channel(target).await?;
    let mut open = JoinSet::new();
    for _ in 0..STREAMS {
        let (mut channel, target) = (channel.clone(), Arc::clone(target));
        open.spawn(async move {
            let request = http::Request::post("https://localhost/fleetwright.v1.AgentService/Connect");
            let request = request.header("content-type", "application/grpc").header("te", "trailers");
            let call = channel.ready().await?.call(request.body(most_of_a_message())?);
            target.done.sent();
            let answer = call.await?;
            let mut heard = answer.into_body();
            while let Some(frame) = heard.frame().await {
                let _more = frame?;
            }
            anyhow::Ok(())
        });
    }
    while open.join_next().await.is_some() {}
    Ok(())
}

/// The header of a large message and all but its last bytes, in small chunks that need little
/// memory here.
fn most_of_a_message() -> Body {
    const PIECE: usize = 16 * 1024;
    let [a, b, c, d] = ANNOUNCED.to_be_bytes();
    let zeros = Bytes::from_static(&[0; PIECE]);
    let pieces = std::iter::repeat_n(zeros, ANNOUNCED as usize / PIECE - 1);
    let pieces = std::iter::once(Bytes::copy_from_slice(&[0, a, b, c, d])).chain(pieces);
    let frames = pieces.map(|piece| Ok::<_, Status>(Frame::data(piece)));
    Body::new(StreamBody::new(futures::stream::iter(frames).chain(futures::stream::pending())))
}

/// Opens a stream under `token`; returns its sender.
async fn stream(
    target: &Target,
    token: &str,
    cluster: &str,
) -> anyhow::Result<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>)> {
    let (requests, outgoing) = mpsc::channel(4);
    let hello =
        v1::Hello { cluster_name: cluster.into(), cluster_uid: format!("uid of {cluster}"), ..v1::Hello::default() };
    requests.send(request(Message::Hello(hello))).await?;
    let mut request = Request::new(ReceiverStream::new(outgoing));
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
    let mut client = AgentServiceClient::new(channel(target).await?);
    Ok((requests, client.connect(request).await?.into_inner()))
}

fn request(message: Message) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

/// Sends Hello and, after Welcome, a snapshot of definitions that never ends.
async fn flood(target: &Target, number: u64) -> anyhow::Result<()> {
    let (requests, mut heard) = stream(target, &target.hostile_token, "evil").await?;
    heard.message().await?.context("no Welcome")?;
    let part = |part| request(Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) }));
    requests.send(part(Part::Begin(v1::SnapshotBegin::default()))).await?;
    let listen = tokio::spawn(async move { while let Ok(Some(_)) = heard.message().await {} });
    for index in 0..u32::MAX {
        let first = (number << 40) | (u64::from(index) * DEFINITIONS);
        let changes = (first..first + DEFINITIONS).map(label_set).collect();
        let sent = requests.send(part(Part::Chunk(v1::SnapshotChunk { changes, index }))).await;
        if sent.is_err() || Instant::now() > target.end {
            break;
        }
        target.done.sent();
    }
    listen.abort();
    Ok(())
}

fn label_set(number: u64) -> v1::Change {
    let pair = |key: u64| v1::StringPair { key: format!("k{key}"), value: format!("{number:x}") };
    let content = v1::LabelSet { labels: (0..2).map(pair).collect() }.encode_to_vec();
    let mut hash = vec![0; 8];
    hash.extend(number.to_le_bytes());
    v1::Change { change: Some(Change::DefineLabelSet(v1::Definition { hash, content })) }
}

async fn forged_token(target: &Target) -> anyhow::Result<()> {
    let (token, _signature) = target.forged_token.rsplit_once('.').context("a token has three parts")?;
    let (_say, mut heard) = stream(target, &format!("{token}.bWFkZSB1cA"), "hangs").await?;
    target.done.sent();
    while heard.message().await?.is_some() {}
    Ok(())
}

/// Keeps a connection open as long as the server permits: idle connections to both listeners
/// alternately, incomplete request heads to the HTTP listener.
async fn held(kind: AttackKind, target: Arc<Target>, number: u64) -> anyhow::Result<()> {
    let address = if kind == AttackKind::Silent && number.is_multiple_of(2) { &target.grpc } else { &target.http };
    let mut wire = TcpStream::connect(address).await?;
    target.done.connected();
    let mut byte = [0; 1];
    if kind == AttackKind::Silent {
        let _closed = wire.read(&mut byte).await;
        return Ok(());
    }
    let mut encrypted = metrics::connector(&target.ca)?.connect(ServerName::try_from("localhost")?, wire).await?;
    encrypted.write_all(b"GET / HTTP/1.1\r\nHo").await?;
    target.done.sent();
    let _closed = encrypted.read(&mut byte).await;
    Ok(())
}
