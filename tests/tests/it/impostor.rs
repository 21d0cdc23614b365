//! Somebody who is trusted to speak for one cluster repeats what the agent of another has said, and says more: in its own
//! cluster's name, and in the other's. The other cluster's conversation goes on, and its machines stay.

mod recorder;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::link::cut;
use e2e::{Folder, Program, Running};
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

use crate::{PATIENCE, PROGRAM};
use recorder::{Recorder, speak};

/// How long a server may take over one conversation; it ends most of them at once.
const CONVERSATION: Duration = Duration::from_secs(3);

/// An issuer with one key, and the token of its cluster's agent.
fn issue(folder: &Folder, cluster: &str) -> (String, String) {
    let key = EncodingKey::from_ec_der(&KeyPair::generate().expect("a key").serialize_der());
    let public = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("its public half");
    let _path =
        folder.file(&format!("{cluster}.json"), serde_json::to_vec(&JwkSet { keys: vec![public] }).expect("JSON"));
    let issuer = format!("https://{cluster}.example");
    let ends = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs() + 3600;
    let claims = json!({ "iss": issuer, "sub": "agent", "aud": "fleetwright", "exp": ends });
    let trusted = format!(
        "[[agents]]\ncluster = '{cluster}'\n\
         token = {{ issuer = '{issuer}', subject = 'agent', jwks-file = '{cluster}.json' }}\n"
    );
    (encode(&Header::new(Algorithm::ES256), &claims, &key).expect("a token"), trusted)
}

/// A server that trusts `good` and `evil`, each for itself.
struct Stage {
    _folder: Folder,
    server: Running,
    address: String,
    good: String,
    evil: String,
}

fn start() -> Stage {
    let folder = Folder::new();
    let ((good, trusts_good), (evil, trusts_evil)) = (issue(&folder, "good"), issue(&folder, "evil"));
    let trust = folder.file("trust.toml", trusts_good + &trusts_evil);
    let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--trust-file", &trust];
    let server = Program::new(PROGRAM, &arguments).start();
    let line = server.line_with(&["grpc://"], PATIENCE);
    let address = line.split("grpc://").nth(1).and_then(|rest| rest.split(';').next()).expect("the address");
    Stage { address: format!("http://{address}"), _folder: folder, server, good, evil }
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

/// Says the first message, waits for an answer, says the rest, and listens until the server ends the stream or has said
/// nothing for a while. What it was told, and why the stream ended.
async fn converse(stage: &Stage, said: Vec<v1::ConnectRequest>) -> (Vec<v1::ConnectResponse>, Option<Status>) {
    let (say, saying) = tokio::sync::mpsc::channel(said.len().max(1));
    let mut said = said.into_iter();
    for first in said.by_ref().take(1) {
        say.send(first).await.expect("room for a message");
    }
    let mut heard = match speak(&stage.address, &stage.evil, ReceiverStream::new(saying)).await {
        Ok(heard) => heard,
        Err(status) => return (Vec::new(), Some(status)),
    };
    let mut answers = Vec::new();
    loop {
        match tokio::time::timeout(CONVERSATION, heard.message()).await {
            Ok(Ok(Some(answer))) => answers.push(answer),
            Ok(Ok(None)) | Err(_) => return (answers, None),
            Ok(Err(status)) => return (answers, Some(status)),
        }
        for one in said.by_ref() {
            // A stream that the server has ended takes no more.
            drop(say.send(one).await);
        }
    }
}

/// Waits until what was recorded is enough.
async fn until(what: &str, recorder: &Recorder, enough: impl Fn(&[v1::ConnectRequest]) -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !enough(&recorder.said()) {
        assert!(tokio::time::Instant::now() < end, "{what}: not among {} messages", recorder.said().len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn acks(said: &[v1::ConnectRequest]) -> usize {
    said.iter().filter(|one| matches!(one.message, Some(Message::Ack(_)))).count()
}

/// All changes of a conversation, in their order.
fn changes(said: &[v1::ConnectRequest]) -> Vec<v1::Change> {
    let of = |one: &v1::ConnectRequest| match &one.message {
        Some(Message::Snapshot(v1::Snapshot { part: Some(Part::Chunk(chunk)), .. })) => chunk.changes.clone(),
        Some(Message::Delta(delta)) => delta.changes.clone(),
        _ => Vec::new(),
    };
    said.iter().flat_map(of).collect()
}

fn has_machine(change: &v1::Change) -> bool {
    matches!(&change.change, Some(Change::NodeClaim(claim)) if !claim.provider_id.is_empty())
}

/// Every NodeClaim with a machine as if somebody had deleted it, and nothing else but what it refers to.
fn deleted(said: &[v1::ConnectRequest]) -> Vec<v1::Change> {
    let mut kept = changes(said);
    kept.retain(|change| {
        matches!(&change.change, Some(Change::NodeClaim(_) | Change::DefineShape(_) | Change::DefineLabelSet(_)))
    });
    for change in &mut kept {
        if let Some(Change::NodeClaim(claim)) = &mut change.change {
            claim.deleted_at_ms = 1;
        }
    }
    kept
}

/// What was recorded, in the name of `evil`.
fn renamed(said: &[v1::ConnectRequest]) -> Vec<v1::ConnectRequest> {
    let mut said = said.to_vec();
    for one in &mut said {
        if let Some(Message::Hello(hello)) = &mut one.message {
            hello.cluster_name = "evil".to_owned();
            hello.cluster_uid = "uid of evil".to_owned();
        }
    }
    said
}

/// Conversations one after the other, each as bad as it can be; what the server said to each is looked at.
async fn attack(stage: &Stage, recorded: &[v1::ConnectRequest]) {
    // Word for word, in the other's name.
    let (heard, status) = converse(stage, recorded.to_vec()).await;
    assert!(heard.is_empty(), "{heard:?}");
    let status = status.expect("a refusal");
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    assert!(status.message().contains("not trusted to speak for cluster"), "{status}");
    // Names that somebody might take for the other's.
    for name in ["good ", "GOOD", "good\0", "evil/../good", "evil,good", ""] {
        let (heard, status) = converse(stage, vec![hello(name)]).await;
        assert!(heard.is_empty() && status.is_some(), "{name:?}: {heard:?}");
    }
    // Another name in the middle of a good conversation.
    let (_, status) = converse(stage, vec![hello("evil"), hello("good")]).await;
    let told = status.map(|status| status.message().to_owned()).unwrap_or_default();
    assert!(told.contains("the agent said Hello twice"), "{told}");
    // In its own name, and as the other's cluster: whoever has a name keeps it.
    let mut other = hello("evil");
    if let Some(Message::Hello(hello)) = &mut other.message {
        hello.cluster_uid = "uid of good".to_owned();
    }
    let (_, status) = converse(stage, vec![other]).await;
    assert_eq!(status.map(|status| status.code()), Some(Code::AlreadyExists));
    // In its own name, and the deltas twice: their numbers are those of the first time.
    let again = recorded.iter().filter(|one| matches!(one.message, Some(Message::Delta(_)))).cloned();
    let twice = renamed(recorded).into_iter().chain(again).collect();
    let (heard, status) = converse(stage, twice).await;
    let resync = |answer: &v1::ConnectResponse| match &answer.message {
        Some(v1::connect_response::Message::Resync(resync)) => resync.reason.starts_with("delta 1 came where"),
        _ => false,
    };
    assert!(heard.iter().any(resync), "{status:?} {heard:?}");
}

/// Answers, in the name of `evil`, to every instruction that the other cluster may have had.
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

/// Shows the other's machines as its own, all of them deleted by hand, and answers what the other was asked.
async fn give_back_what_is_anothers(stage: &Stage, recorded: &[v1::ConnectRequest]) {
    let parts = cut::snapshot(deleted(recorded), 1).into_iter();
    let snapshot = parts.map(|part| request(Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) })));
    let said = [hello("evil")].into_iter().chain(snapshot).chain(answers_of_others()).collect();
    let (heard, status) = converse(stage, said).await;
    assert!(!heard.is_empty(), "it may speak for its own cluster: {status:?}");
    let told = stage.server.line_with(&["a NodeClaim names a machine of somebody else"], PATIENCE);
    assert!(told.contains("evil") && told.contains("\"good\""), "{told}");
}

#[test]
fn what_another_cluster_has_said_moves_nothing_of_it() {
    let stage = start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (recorder, address) = Recorder::listen(&stage.address, &stage.good).await;
        let agent = ["simulated-agent", "--server", &address, "--cluster-name", "good", "--seed", "1", "--repeat"];
        let _agent = Program::new(PROGRAM, &[&agent[..], &["--log", "warn"]].concat()).start();
        let lives = |said: &[v1::ConnectRequest]| acks(said) > 0 && changes(said).iter().any(has_machine);
        until("a machine", &recorder, lives).await;
        let recorded = recorder.said();
        give_back_what_is_anothers(&stage, &recorded).await;
        attack(&stage, &recorded).await;
        let before = acks(&recorder.said());
        until("more answers of the good agent", &recorder, |said| acks(said) > before).await;
        assert_eq!(recorder.ended(), 0, "the good agent's stream has ended");
    });
    assert_eq!(stage.server.stop(PATIENCE), 0, "the server ends in good order");
}
