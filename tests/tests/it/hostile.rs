//! Somebody speaks the agent protocol badly; the sessions of others go on. What is said follows from a seed.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use e2e::{Program, Running};
use fleetwright_proto::v1;
use fleetwright_proto::v1::agent_service_client::AgentServiceClient;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::connect_response::Message as Said;
use fleetwright_proto::v1::snapshot::Part;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Endpoint;

use crate::{PATIENCE, PROGRAM};

/// Conversations of a short run; `HOSTILE_CONVERSATIONS` asks for more.
const CONVERSATIONS: u64 = 60;

/// Numbers that follow from a seed (SplitMix64).
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

/// One message that no agent would send at that place.
fn nonsense(dice: &mut SeededRng, cluster: &str) -> v1::ConnectRequest {
    let message = match dice.roll(9) {
        0 => Message::Hello(hello(cluster)),
        1 => {
            Message::Snapshot(v1::Snapshot { id: dice.roll(3), part: Some(Part::Begin(v1::SnapshotBegin::default())) })
        }
        2 => Message::Snapshot(v1::Snapshot {
            id: dice.roll(3),
            part: Some(Part::Chunk(v1::SnapshotChunk { changes: changes(dice), index: u32::MAX })),
        }),
        3 => Message::Snapshot(v1::Snapshot {
            id: dice.roll(3),
            part: Some(Part::End(v1::SnapshotEnd { chunk_count: 7, change_count: u64::MAX })),
        }),
        4 | 5 => Message::Delta(v1::Delta { sequence: dice.roll(5), changes: changes(dice) }),
        6 => Message::Ack(v1::Ack {
            instruction_id: format!("{}-{}", dice.roll(9), dice.roll(9)),
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
    v1::Hello { cluster_name: cluster.to_owned(), cluster_uid: "stranger".to_owned(), ..v1::Hello::default() }
}

/// Objects that refer to nothing, definitions that are none, and much of it.
fn changes(dice: &mut SeededRng) -> Vec<v1::Change> {
    let count = [1, 3, 2_000][usize::try_from(dice.roll(3)).unwrap_or(0)];
    let change = |dice: &mut SeededRng| match dice.roll(4) {
        0 => Change::DefineShape(v1::Definition { hash: dice.bytes(40), content: dice.bytes(200) }),
        1 => Change::DefineLabelSet(v1::Definition { hash: vec![1; 16], content: dice.bytes(50) }),
        2 => Change::Pod(v1::PodRecord { name: "p".repeat(5_000), shape: dice.bytes(20), ..v1::PodRecord::default() }),
        _ => Change::Removal(v1::Removal { kind: 99, namespace: String::new(), name: "none".to_owned() }),
    };
    (0..count).map(|_| v1::Change { change: Some(change(dice)) }).collect()
}

/// Says what follows from the seed and listens until the server has had enough. What the stream ended with, once it was
/// welcome.
async fn converse(address: &str, seed: u64) -> Option<Status> {
    let mut dice = SeededRng(seed);
    // Clusters of their own: the next to connect under one name would end the conversation before it.
    let cluster = if dice.roll(8) == 0 { "x".repeat(300) } else { format!("stranger-{seed}") };
    let (say, said) = tokio::sync::mpsc::channel(64);
    let greets = dice.roll(8) > 0;
    let first = if greets { request(Message::Hello(hello(&cluster))) } else { nonsense(&mut dice, &cluster) };
    say.try_send(first).expect("room for the first word");
    let channel = Endpoint::from_shared(address.to_owned()).expect("an address").connect().await.ok()?;
    let answer = AgentServiceClient::new(channel).connect(ReceiverStream::new(said)).await.ok()?;
    let mut heard = answer.into_inner();
    let welcome = tokio::time::timeout(PATIENCE, heard.message()).await.expect("the server answers").ok()??;
    assert!(matches!(welcome.message, Some(Said::Welcome(_))), "{welcome:?}");
    let mut words = worst(seed);
    words.extend((0..dice.roll(30)).map(|_| nonsense(&mut dice, &cluster)));
    tokio::spawn(async move {
        for word in words {
            if say.send(word).await.is_err() {
                return;
            }
        }
    });
    let listen = async {
        loop {
            match heard.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    };
    // A server that keeps the stream open has heard everything by then; the next conversation may begin.
    tokio::time::timeout(Duration::from_secs(5), listen).await.ok().flatten()
}

/// What each third of the agents begins with once it is welcome: more changes in one message than there may be, a definition
/// that is too large, a record that refers to nothing. The server names the first two as what they are.
fn worst(seed: u64) -> Vec<v1::ConnectRequest> {
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
        _ => Change::Pod(v1::PodRecord { name: "p".to_owned(), shape: vec![2; 16], ..v1::PodRecord::default() }),
    };
    let chunk = v1::SnapshotChunk { changes: vec![v1::Change { change: Some(change) }], index: 0 };
    vec![snapshot(begin), snapshot(Part::Chunk(chunk))]
}

fn request(message: Message) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

/// No gRPC at all: bytes that break the transport.
fn shout(address: &str, seed: u64) {
    let mut dice = SeededRng(seed);
    if let Ok(mut stream) = TcpStream::connect(address.trim_start_matches("http://")) {
        let mut bytes = if dice.roll(2) == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec() } else { Vec::new() };
        bytes.extend(dice.bytes(5_000));
        // The server may hang up in the middle of it.
        drop(stream.write_all(&bytes));
    }
}

pub(super) fn start() -> (Running, String) {
    let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(PROGRAM, &arguments).start();
    let line = server.line_with(&["grpc://"], PATIENCE);
    let address = line.split("grpc://").nth(1).and_then(|rest| rest.split(';').next()).expect("the address").to_owned();
    (server, format!("http://{address}"))
}

#[test]
fn a_stranger_that_speaks_badly_disturbs_nobody() {
    let (server, address) = start();
    let agent = ["simulated-agent", "--server", &address, "--cluster-name", "good", "--seed", "1", "--log", "info"];
    let agent = Program::new(PROGRAM, &agent).start();
    let _connected = server.line_with(&["deciding for this cluster", "good"], PATIENCE);
    let asked = std::env::var("HOSTILE_CONVERSATIONS").ok().and_then(|count| count.parse().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ends = runtime.block_on(async {
        let (mut talks, mut ends) = (tokio::task::JoinSet::new(), Vec::new());
        for seed in 0..asked.unwrap_or(CONVERSATIONS) {
            let address = address.clone();
            shout(&address, seed);
            talks.spawn(async move { converse(&address, seed).await });
            if talks.len() >= 8 {
                ends.extend(talks.join_next().await.and_then(Result::ok).flatten());
            }
        }
        ends.extend(talks.join_all().await.into_iter().flatten());
        ends
    });
    // The nonsense was looked at, and refused for what it is: nobody was sent away at the door.
    for limit in ["changes in a message: 1001 exceed the limit of 1000", "bytes in a definition: 300000 exceed"] {
        assert!(ends.iter().any(|end| end.message().contains(limit)), "{limit}: {ends:?}");
    }
    assert!(!ends.iter().any(|end| end.message().contains("before it was welcome")), "{ends:?}");
    // The good agent has had one conversation all along: it ends only when the server does.
    let code = server.stop(PATIENCE);
    assert_eq!(code, 0, "the server ends in good order");
    let ended = agent.line_with(&["no conversation with the server"], PATIENCE);
    assert!(ended.contains("server stops"), "the first parting is the server's end: {ended}");
}
