//! An authenticated agent of one cluster replays and extends the messages of another cluster's
//! agent, in its own name and in the other's. The other cluster's stream continues, and its
//! instances stay.

mod recorder;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::link::chunk;
use e2e::{Program, RunningProcess, TempDir};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::snapshot::Part;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::json;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::{SIMULATOR, TIMEOUT};
use recorder::{Recorder, open_stream};

/// Timeout of one stream; the server ends most of them at once.
const STREAM_TIMEOUT: Duration = Duration::from_secs(3);

/// An issuer with one key, and the token of its cluster's agent.
fn issue(folder: &TempDir, cluster: &str) -> (String, String) {
    let key = EncodingKey::from_ec_der(&KeyPair::generate().expect("a key").serialize_der());
    let public = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("its public half");
    let _path = folder
        .write_file(&format!("{cluster}.json"), serde_json::to_vec(&JwkSet { keys: vec![public] }).expect("JSON"));
    let issuer = format!("https://{cluster}.example");
    let ends = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs() + 3600;
    let claims = json!({ "iss": issuer, "sub": "agent", "aud": "fleetwright", "exp": ends });
    let trusted = format!(
        "[[agents]]\ncluster = '{cluster}'\n\
         token = {{ issuer = '{issuer}', subject = 'agent', jwks-file = '{cluster}.json' }}\n"
    );
    (encode(&Header::new(Algorithm::ES256), &claims, &key).expect("a token"), trusted)
}

/// A server that authenticates the agents of `good` and `evil`, each for its own cluster.
struct TestServer {
    _folder: TempDir,
    server: RunningProcess,
    address: String,
    good: String,
    evil: String,
}

fn start() -> TestServer {
    let folder = TempDir::new();
    let ((good, trusts_good), (evil, trusts_evil)) = (issue(&folder, "good"), issue(&folder, "evil"));
    let trust = folder.write_file("auth.toml", trusts_good + &trusts_evil);
    let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--auth-file", &trust];
    let server = Program::new(SIMULATOR, &arguments).start();
    let [address, _dashboard] = server.wait_for_urls(TIMEOUT);
    TestServer { address, _folder: folder, server, good, evil }
}

fn request(message: Message) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

fn hello(cluster: &str) -> v1::ConnectRequest {
    request(Message::Hello(v1::Hello {
        cluster_name: cluster.to_owned(),
        cluster_uid: format!("uid of {cluster}"),
        ..v1::Hello::default()
    }))
}

/// Sends the first message, waits for a response, sends the rest, and reads until the server ends
/// the stream or is silent for a while. Returns the responses and the final status.
async fn run_stream(
    server: &TestServer,
    messages: Vec<v1::ConnectRequest>,
) -> (Vec<v1::ConnectResponse>, Option<Status>) {
    let (requests, outgoing) = tokio::sync::mpsc::channel(messages.len().max(1));
    let mut messages = messages.into_iter();
    for first in messages.by_ref().take(1) {
        requests.send(first).await.expect("the channel has capacity");
    }
    let mut responses = match open_stream(&server.address, &server.evil, ReceiverStream::new(outgoing)).await {
        Ok(responses) => responses,
        Err(status) => return (Vec::new(), Some(status)),
    };
    let mut answers = Vec::new();
    loop {
        match tokio::time::timeout(STREAM_TIMEOUT, responses.message()).await {
            Ok(Ok(Some(answer))) => answers.push(answer),
            Ok(Ok(None)) | Err(_) => return (answers, None),
            Ok(Err(status)) => return (answers, Some(status)),
        }
        for one in messages.by_ref() {
            // A stream that the server has ended accepts no more messages.
            drop(requests.send(one).await);
        }
    }
}

/// Waits until `enough` accepts the recorded messages.
async fn wait_until(what: &str, recorder: &Recorder, enough: impl Fn(&[v1::ConnectRequest]) -> bool) {
    let end = tokio::time::Instant::now() + TIMEOUT;
    while !enough(&recorder.messages()) {
        assert!(tokio::time::Instant::now() < end, "{what}: not among {} messages", recorder.messages().len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn acks(messages: &[v1::ConnectRequest]) -> usize {
    messages.iter().filter(|one| matches!(one.message, Some(Message::Ack(_)))).count()
}

/// All changes of a stream, in order.
fn changes(messages: &[v1::ConnectRequest]) -> Vec<v1::Change> {
    let of = |one: &v1::ConnectRequest| match &one.message {
        Some(Message::Snapshot(v1::Snapshot { part: Some(Part::Chunk(chunk)), .. })) => chunk.changes.clone(),
        Some(Message::Delta(delta)) => delta.changes.clone(),
        _ => Vec::new(),
    };
    messages.iter().flat_map(of).collect()
}

fn has_machine(change: &v1::Change) -> bool {
    matches!(&change.change, Some(Change::NodeClaim(claim)) if !claim.provider_id.is_empty())
}

/// Every NodeClaim with an instance, marked as deleted, with its definitions.
fn deleted(messages: &[v1::ConnectRequest]) -> Vec<v1::Change> {
    let mut kept = changes(messages);
    kept.retain(|change| {
        matches!(&change.change, Some(Change::NodeClaim(_) | Change::DefinePodShape(_) | Change::DefineLabelSet(_)))
    });
    for change in &mut kept {
        if let Some(Change::NodeClaim(claim)) = &mut change.change {
            claim.deleted_at_ms = 1;
        }
    }
    kept
}

/// The recorded messages, with `evil` as the cluster.
fn renamed(messages: &[v1::ConnectRequest]) -> Vec<v1::ConnectRequest> {
    let mut messages = messages.to_vec();
    for one in &mut messages {
        if let Some(Message::Hello(hello)) = &mut one.message {
            hello.cluster_name = "evil".to_owned();
            hello.cluster_uid = "uid of evil".to_owned();
        }
    }
    messages
}

/// Hostile streams one after the other, with assertions on the server's responses.
async fn attack(server: &TestServer, recorded: &[v1::ConnectRequest]) {
    // A verbatim replay, in the other cluster's name.
    let (responses, status) = run_stream(server, recorded.to_vec()).await;
    assert!(responses.is_empty(), "{responses:?}");
    let status = status.expect("a refusal");
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    assert!(status.message().contains("not authorized for this cluster"), "{status}");
    // Names similar to the other cluster's.
    for name in ["good ", "GOOD", "good\0", "evil/../good", "evil,good", ""] {
        let (responses, status) = run_stream(server, vec![hello(name)]).await;
        assert!(responses.is_empty() && status.is_some(), "{name:?}: {responses:?}");
    }
    // Another name in the middle of a valid stream.
    let (_, status) = run_stream(server, vec![hello("evil"), hello("good")]).await;
    let output = status.map(|status| status.message().to_owned()).unwrap_or_default();
    assert!(output.contains("second Hello on one stream"), "{output}");
    // Its own name with the other cluster's UID: a name belongs to its first UID.
    let mut other = hello("evil");
    if let Some(Message::Hello(hello)) = &mut other.message {
        hello.cluster_uid = "uid of good".to_owned();
    }
    let (_, status) = run_stream(server, vec![other]).await;
    assert_eq!(status.map(|status| status.code()), Some(Code::AlreadyExists));
    // In its own name, with every delta sent twice under the same sequence number.
    let again = recorded.iter().filter(|one| matches!(one.message, Some(Message::Delta(_)))).cloned();
    let twice = renamed(recorded).into_iter().chain(again).collect();
    let (responses, status) = run_stream(server, twice).await;
    let resync = |answer: &v1::ConnectResponse| match &answer.message {
        Some(v1::connect_response::Message::Resync(resync)) => resync.reason.starts_with("received delta 1, expected"),
        _ => false,
    };
    assert!(responses.iter().any(resync), "{status:?} {responses:?}");
}

/// Acknowledgements, in the name of `evil`, of every instruction that the other cluster may have.
fn answers_of_others() -> Vec<v1::ConnectRequest> {
    let ids = (0..4).flat_map(|epoch| (0..200).map(move |number| format!("{epoch}-{number}")));
    let ack = |instruction_id| v1::Ack {
        instruction_id,
        epoch: 1,
        outcome: v1::Outcome::Failed.into(),
        detail: "mischief".to_owned(),
    };
    ids.map(|id| request(Message::Ack(ack(id)))).collect()
}

/// Presents the other cluster's instances as its own, all deleted by a user, and acknowledges the
/// other's instructions.
async fn present_instances_of_another_cluster(server: &TestServer, recorded: &[v1::ConnectRequest]) {
    let parts = chunk::snapshot_parts(deleted(recorded), 1).into_iter();
    let snapshot = parts.map(|part| request(Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) })));
    let messages = [hello("evil")].into_iter().chain(snapshot).chain(answers_of_others()).collect();
    let (responses, status) = run_stream(server, messages).await;
    assert!(!responses.is_empty(), "it may speak for its own cluster: {status:?}");
    let output = server.server.wait_for_line(&["refusing to terminate instance tagged for another owner"], TIMEOUT);
    assert!(output.contains("evil") && output.contains("\"good\""), "{output}");
}

#[test]
fn replayed_messages_of_another_cluster_change_nothing_of_it() {
    let server = start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (recorder, address) = Recorder::listen(&server.address, &server.good).await;
        let agent = ["simulated-agent", "--server", &address, "--cluster-name", "good", "--seed", "1", "--repeat"];
        let _agent = Program::new(SIMULATOR, &[&agent[..], &["--log", "warn"]].concat()).start();
        let lives = |messages: &[v1::ConnectRequest]| acks(messages) > 0 && changes(messages).iter().any(has_machine);
        wait_until("a machine", &recorder, lives).await;
        let recorded = recorder.messages();
        present_instances_of_another_cluster(&server, &recorded).await;
        attack(&server, &recorded).await;
        let before = acks(&recorder.messages());
        wait_until("more answers of the good agent", &recorder, |messages| acks(messages) > before).await;
        assert_eq!(recorder.ended_streams(), 0, "the good agent's stream has ended");
    });
    assert_eq!(server.server.stop(TIMEOUT), 0, "the server ends in good order");
}
