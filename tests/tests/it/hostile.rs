//! Somebody speaks the agent protocol badly; the sessions of others go on. What is said follows from a seed.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use e2e::{Program, Running};
use fleetwright_proto::v1;
use fleetwright_proto::v1::agent_service_client::AgentServiceClient;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::snapshot::Part;
use tokio_stream::iter;
use tonic::transport::Endpoint;

use crate::{PATIENCE, PROGRAM};

/// Conversations of a short run; `HOSTILE_CONVERSATIONS` asks for more.
const CONVERSATIONS: u64 = 60;

/// Numbers that follow from a seed (SplitMix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
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
fn nonsense(dice: &mut Dice, cluster: &str) -> v1::ConnectRequest {
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
        7 => Message::Heartbeat(v1::Heartbeat { last_sequence: u64::MAX }),
        _ => return v1::ConnectRequest { message: None },
    };
    v1::ConnectRequest { message: Some(message) }
}

fn hello(cluster: &str) -> v1::Hello {
    v1::Hello { cluster_name: cluster.to_owned(), cluster_uid: "stranger".to_owned(), ..v1::Hello::default() }
}

/// Objects that refer to nothing, definitions that are none, and much of it.
fn changes(dice: &mut Dice) -> Vec<v1::Change> {
    let count = [1, 3, 2_000][usize::try_from(dice.roll(3)).unwrap_or(0)];
    let change = |dice: &mut Dice| match dice.roll(4) {
        0 => Change::DefineShape(v1::Definition { hash: dice.bytes(40), content: dice.bytes(200) }),
        1 => Change::DefineLabelSet(v1::Definition { hash: vec![1; 16], content: dice.bytes(50) }),
        2 => Change::Pod(v1::PodRecord { name: "p".repeat(5_000), shape: dice.bytes(20), ..v1::PodRecord::default() }),
        _ => Change::Removal(v1::Removal { kind: 99, namespace: String::new(), name: "none".to_owned() }),
    };
    (0..count).map(|_| v1::Change { change: Some(change(dice)) }).collect()
}

/// Says what follows from the seed and listens until the server has had enough.
async fn converse(address: &str, seed: u64) {
    let mut dice = Dice(seed);
    let cluster = if dice.roll(4) == 0 { "x".repeat(300) } else { format!("stranger-{}", seed % 5) };
    let mut said = Vec::new();
    if dice.roll(5) > 0 {
        said.push(v1::ConnectRequest { message: Some(Message::Hello(hello(&cluster))) });
    }
    said.extend((0..dice.roll(30)).map(|_| nonsense(&mut dice, &cluster)));
    let Ok(channel) = Endpoint::from_shared(address.to_owned()).expect("an address").connect().await else { return };
    let Ok(answer) = AgentServiceClient::new(channel).connect(iter(said)).await else { return };
    let mut heard = answer.into_inner();
    let listen = async { while let Ok(Some(_)) = heard.message().await {} };
    // A server that keeps the stream open has heard everything by then; the next conversation may begin.
    drop(tokio::time::timeout(Duration::from_secs(5), listen).await);
}

/// No gRPC at all: bytes that break the transport.
fn shout(address: &str, seed: u64) {
    let mut dice = Dice(seed);
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
    runtime.block_on(async {
        let mut talks = tokio::task::JoinSet::new();
        for seed in 0..asked.unwrap_or(CONVERSATIONS) {
            let address = address.clone();
            shout(&address, seed);
            talks.spawn(async move { converse(&address, seed).await });
            if talks.len() >= 8 {
                talks.join_next().await;
            }
        }
        talks.join_all().await;
    });
    // The good agent has had one conversation all along: it ends only when the server does.
    let code = server.stop(PATIENCE);
    assert_eq!(code, 0, "the server ends in good order");
    let ended = agent.line_with(&["no conversation with the server"], PATIENCE);
    assert!(ended.contains("server stops"), "the first parting is the server's end: {ended}");
}
