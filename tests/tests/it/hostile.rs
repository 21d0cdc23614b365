//! Peers violate the agent protocol, derived from a seed; other sessions continue.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use e2e::{Program, RunningProcess};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::connect_response::Message as Response;
use fleetwright_proto::v1::snapshot::Part;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Endpoint;

use crate::{SIMULATOR, TIMEOUT};

/// Streams of a short run; `HOSTILE_STREAMS` overrides it.
const STREAMS: u64 = 60;

/// Random numbers from a seed (SplitMix64).
pub(super) struct SeededRng(pub(super) u64);

impl SeededRng {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.roll(most);
        (0..length).map(|_| self.roll(256).to_le_bytes()[0]).collect()
    }
}

/// A message that no agent would send at this point.
fn invalid_message(rng: &mut SeededRng, cluster: &str) -> v1::ConnectRequest {
    let message = match rng.roll(9) {
        0 => Message::Hello(hello(cluster)),
        1 => Message::Snapshot(v1::Snapshot { id: rng.roll(3), part: Some(Part::Begin(v1::SnapshotBegin::default())) }),
        2 => Message::Snapshot(v1::Snapshot {
            id: rng.roll(3),
            part: Some(Part::Chunk(v1::SnapshotChunk { changes: changes(rng), index: u32::MAX })),
        }),
        3 => Message::Snapshot(v1::Snapshot {
            id: rng.roll(3),
            part: Some(Part::End(v1::SnapshotEnd { chunk_count: 7, change_count: u64::MAX })),
        }),
        4 | 5 => Message::Delta(v1::Delta { sequence: rng.roll(5), changes: changes(rng) }),
        6 => Message::Ack(v1::Ack {
            instruction_id: format!("{}-{}", rng.roll(9), rng.roll(9)),
            epoch: u64::MAX,
            outcome: v1::Outcome::Done.into(),
            detail: "x".repeat(100_000),
        }),
        7 => Message::Heartbeat(v1::Heartbeat { last_sequence: u64::MAX, sent_at_ms: i64::MAX }),
        _ => return v1::ConnectRequest { message: None },
    };
    v1::ConnectRequest { message: Some(message) }
}

fn hello(cluster: &str) -> v1::Hello {
    v1::Hello { cluster_name: cluster.to_owned(), cluster_uid: format!("uid of {cluster}"), ..v1::Hello::default() }
}

/// Objects with dangling references and invalid definitions, in large numbers.
fn changes(rng: &mut SeededRng) -> Vec<v1::Change> {
    let count = [1, 3, 2_000][usize::try_from(rng.roll(3)).unwrap_or(0)];
    let change = |rng: &mut SeededRng| match rng.roll(4) {
        0 => Change::DefinePodShape(v1::Definition { hash: rng.bytes(40), content: rng.bytes(200) }),
        1 => Change::DefineLabelSet(v1::Definition { hash: vec![1; 16], content: rng.bytes(50) }),
        2 => Change::Pod(Box::new(v1::PodRecord {
            name: "p".repeat(5_000),
            shape: rng.bytes(20).into(),
            ..v1::PodRecord::default()
        })),
        _ => Change::Removal(v1::Removal { kind: 99, namespace: String::new(), name: "none".to_owned() }),
    };
    (0..count).map(|_| v1::Change { change: Some(change(rng)) }).collect()
}

/// Sends the seed's messages until the server ends the stream. Returns the final status of an
/// accepted stream.
async fn run_stream(address: &str, seed: u64) -> Option<Status> {
    let mut rng = SeededRng(seed);
    // Each stream has a different cluster: another stream of the same cluster would replace this
    // one.
    let cluster = if rng.roll(8) == 0 { "x".repeat(300) } else { format!("hostile-{seed}") };
    let (requests, outgoing) = tokio::sync::mpsc::channel(64);
    let begins_with_hello = rng.roll(8) > 0;
    let first =
        if begins_with_hello { request(Message::Hello(hello(&cluster))) } else { invalid_message(&mut rng, &cluster) };
    requests.try_send(first).expect("the channel has capacity for the first message");
    let channel = Endpoint::from_shared(address.to_owned()).expect("an address").connect().await.ok()?;
    let answer = AgentServiceClient::new(channel).connect(ReceiverStream::new(outgoing)).await.ok()?;
    let mut responses = answer.into_inner();
    let welcome = tokio::time::timeout(TIMEOUT, responses.message()).await.expect("the server answers").ok()??;
    assert!(matches!(welcome.message, Some(Response::Welcome(_))), "{welcome:?}");
    let mut messages = first_violation(seed);
    messages.extend((0..rng.roll(30)).map(|_| invalid_message(&mut rng, &cluster)));
    tokio::spawn(async move {
        for message in messages {
            if requests.send(message).await.is_err() {
                return;
            }
        }
    });
    let listen = async {
        loop {
            match responses.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    };
    // A server that keeps the stream open has read everything by then.
    tokio::time::timeout(Duration::from_secs(5), listen).await.ok().flatten()
}

/// The first violation of each third of the agents: too many changes in one message, an oversized
/// definition, a dangling reference. The server names the first two when it ends the stream.
fn first_violation(seed: u64) -> Vec<v1::ConnectRequest> {
    let begin = Part::Begin(v1::SnapshotBegin::default());
    let snapshot = |part| request(Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) }));
    let change = match seed % 3 {
        0 => {
            let removal = Change::Removal(v1::Removal { name: "none".to_owned(), ..v1::Removal::default() });
            let changes = vec![v1::Change { change: Some(removal) }; 1_001];
            let end = Part::End(v1::SnapshotEnd { chunk_count: 0, change_count: 0 });
            let delta = Message::Delta(v1::Delta { sequence: 1, changes });
            return vec![snapshot(begin), snapshot(end), request(delta)];
        }
        1 => Change::DefineLabelSet(v1::Definition { hash: vec![1; 16], content: vec![0; 300_000] }),
        _ => Change::Pod(Box::new(v1::PodRecord {
            name: "p".to_owned(),
            shape: vec![2; 16].into(),
            ..v1::PodRecord::default()
        })),
    };
    let chunk = v1::SnapshotChunk { changes: vec![v1::Change { change: Some(change) }], index: 0 };
    vec![snapshot(begin), snapshot(Part::Chunk(chunk))]
}

fn request(message: Message) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

/// Sends bytes that are neither gRPC nor valid HTTP/2.
fn send_garbage(address: &str, seed: u64) {
    let mut rng = SeededRng(seed);
    if let Ok(mut stream) = TcpStream::connect(address.trim_start_matches("http://")) {
        let mut bytes = if rng.roll(2) == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec() } else { Vec::new() };
        bytes.extend(rng.bytes(5_000));
        // The server may close the connection before all bytes are sent.
        drop(stream.write_all(&bytes));
    }
}

pub(super) fn start() -> (RunningProcess, String) {
    let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(SIMULATOR, &arguments).start();
    let [grpc, _dashboard] = server.wait_for_urls(TIMEOUT);
    (server, grpc)
}

#[test]
fn a_peer_that_violates_the_protocol_disturbs_no_other_session() {
    let (server, address) = start();
    let agent = ["simulated-agent", "--server", &address, "--cluster-name", "good", "--seed", "1", "--log", "info"];
    let agent = Program::new(SIMULATOR, &agent).start();
    let _connected = server.wait_for_line(&["acquired cluster lease", "good"], TIMEOUT);
    let asked = std::env::var("HOSTILE_STREAMS").ok().and_then(|count| count.parse().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ends = runtime.block_on(async {
        let (mut streams, mut ends) = (tokio::task::JoinSet::new(), Vec::new());
        for seed in 0..asked.unwrap_or(STREAMS) {
            let address = address.clone();
            send_garbage(&address, seed);
            streams.spawn(async move { run_stream(&address, seed).await });
            if streams.len() >= 8 {
                ends.extend(streams.join_next().await.and_then(Result::ok).flatten());
            }
        }
        ends.extend(streams.join_all().await.into_iter().flatten());
        ends
    });
    // Every violation was rejected by its own rule, not when the stream was opened.
    for limit in ["changes in a message: 1001 exceed the limit of 1000", "bytes in a definition: 300000 exceed"] {
        assert!(ends.iter().any(|end| end.message().contains(limit)), "{limit}: {ends:?}");
    }
    assert!(!ends.iter().any(|end| end.message().contains("received before Welcome")), "{ends:?}");
    // The honest agent's only disconnect is the server's shutdown.
    let code = server.stop(TIMEOUT);
    assert_eq!(code, 0, "the server shuts down in order");
    let ended = agent.wait_for_line(&["disconnected from the server"], TIMEOUT);
    assert!(ended.contains("server is shutting down"), "the first disconnect is the shutdown of the server: {ended}");
}
