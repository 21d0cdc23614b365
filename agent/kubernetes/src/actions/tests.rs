//! Instructions of a server on an API server with a few objects.

mod empty;
mod events;
mod karpenter;
mod names;
mod taints;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use agent::Record;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::api::Api;
use crate::records::ParsedObject;
use crate::resource::{NODE, NODE_CLAIM, POD};
use crate::watch;

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;
type Log = Arc<Mutex<Vec<String>>>;

/// An API server with some objects, by path, and its requests: method, path, and the UID
/// precondition.
#[derive(Clone, Default)]
struct FakeApiServer {
    objects: Objects,
    log: Log,
    events: Arc<Mutex<Vec<Value>>>,
    /// Evictions are refused because of a PodDisruptionBudget.
    refuses_evictions: bool,
    /// Replaces the object at this path after it was read once more.
    successor: Arc<Mutex<Option<(String, Value)>>>,
}

/// The UID that a deletion or an eviction is for.
fn target(body: &Value) -> Option<&str> {
    let uid = body.pointer("/preconditions/uid").or_else(|| body.pointer("/deleteOptions/preconditions/uid"));
    uid.and_then(Value::as_str)
}

/// The answer to an eviction that a PodDisruptionBudget does not allow.
fn refused_by_budget() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
        "message": "the disruption budget web needs 2 healthy pods and has 2 currently",
        "details": { "causes": [{ "reason": "DisruptionBudget" }] },
    })
}

impl FakeApiServer {
    fn api(&self) -> Api {
        let api_server = self.clone();
        let server = service_fn(move |request: Request<Body>| {
            let api_server = api_server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
                let (code, answer) = api_server.answer(&parts.method, parts.uri.path(), &body);
                let answer = Body::from(answer.to_string().into_bytes());
                Response::builder().status(code).body(answer).map_err(std::io::Error::other)
            }
        });
        Api::new(Client::new(server, "default"))
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let of = target(&body).map(|uid| format!(" of {uid}")).unwrap_or_default();
        self.log.lock().unwrap().push(format!("{method} {path}{of}"));
        let mut objects = self.objects.lock().unwrap();
        let key = path.trim_end_matches("/status");
        let is_another = |object: &Value| target(&body).is_some_and(|uid| object["metadata"]["uid"] != uid);
        match *method {
            Method::GET if path == POD.all() => {
                let pods: Vec<&Value> =
                    objects.iter().filter(|(path, _)| path.contains("/pods/")).map(|(_, pod)| pod).collect();
                (200, json!({ "metadata": {}, "items": pods }))
            }
            Method::POST if self.refuses_evictions && path.ends_with("/eviction") => (429, refused_by_budget()),
            Method::POST => {
                self.events.lock().unwrap().extend((body["kind"] == "Event").then(|| body.clone()));
                (201, body)
            }
            Method::DELETE if objects.get(key).is_some_and(is_another) => (409, json!({})),
            Method::DELETE => objects.remove(key).map_or((404, json!({})), |object| (200, object)),
            Method::PATCH => {
                let Some(object) = objects.get_mut(key) else { return (404, json!({})) };
                merge(object, body);
                (200, object.clone())
            }
            _ => {
                let answer = objects.get(key).map_or((404, json!({})), |object| (200, object.clone()));
                if let Some((at, object)) = self.successor.lock().unwrap().take_if(|(at, _)| *at == key) {
                    objects.insert(at, object);
                }
                answer
            }
        }
    }

    fn put(&self, path: String, object: Value) {
        self.objects.lock().unwrap().insert(path, object);
    }

    /// A managed instance: NodeClaim `c<number>` and its Node `n<number>` on instance `i-<number>`.
    fn machine(&self, number: usize, labels: Value) {
        let provider_id = format!("aws:///z/i-{number}");
        self.put(
            NODE_CLAIM.one("", &format!("c{number}")),
            json!({
                "metadata": { "name": format!("c{number}"), "uid": format!("uc{number}"),
                    "annotations": { "fleetwright.dev/managed": "true" } },
                "status": { "providerID": provider_id },
            }),
        );
        let owner = json!({ "kind": "NodeClaim", "name": format!("c{number}"), "uid": format!("uc{number}") });
        self.node(number, &provider_id, labels, json!([owner]));
    }

    fn node(&self, number: usize, provider_id: &str, labels: Value, owners: Value) {
        self.put(
            NODE.one("", &format!("n{number}")),
            json!({
                "metadata": { "name": format!("n{number}"), "uid": format!("un{number}"), "labels": labels, "ownerReferences": owners },
                "spec": { "providerID": provider_id },
                "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
            }),
        );
    }

    fn object(&self, path: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(path).cloned()
    }

    fn tainted(&self, of: usize) -> Vec<usize> {
        let tainted = |number: &usize| {
            let node = self.object(&NODE.one("", &format!("n{number}")));
            node.is_some_and(|node| node.pointer("/spec/taints").is_some())
        };
        (0..of).filter(tainted).collect()
    }

    fn requests(&self, what: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.starts_with(what)).count()
    }
}

/// A JSON merge patch (RFC 7386).
fn merge(object: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !object.is_object() {
                *object = json!({});
            }
            for (key, value) in fields {
                match value {
                    Value::Null => drop(object.as_object_mut().unwrap().remove(&key)),
                    value => merge(&mut object[&key], value),
                }
            }
        }
        other => *object = other,
    }
}

fn drain(number: usize) -> v1::DrainNode {
    v1::DrainNode {
        node_claim: format!("c{number}"),
        node: format!("n{number}"),
        provider_id: format!("aws:///z/i-{number}"),
        ..v1::DrainNode::default()
    }
}

fn instruction(action: Action) -> v1::Instruction {
    v1::Instruction { id: "3-9".into(), epoch: 3, generation: 9, action: Some(action), ..v1::Instruction::default() }
}

/// An agent on this API server whose cache the test fills.
fn executor(api_server: &FakeApiServer, guard: RemovalGuard) -> InstructionExecutor {
    let events = EventRecorder::new(api_server.api(), "test".to_owned());
    InstructionExecutor::new(api_server.api(), Arc::new(watch::empty_cache()), guard, events, false)
}

async fn executed(executor: &InstructionExecutor, action: Action) -> Done {
    executor.execute_instruction(&instruction(action)).await
}

/// A server requests the drain of six managed nodes, of a managed one that belongs to the control
/// plane, and of an unmanaged one: the nodes that are tainted five minutes later.
async fn tainted_by_a_rogue_server(guard: RemovalGuard) -> Vec<usize> {
    let api_server = FakeApiServer::default();
    (0..6).for_each(|number| api_server.machine(number, json!({})));
    api_server.machine(6, json!({ "node-role.kubernetes.io/control-plane": "" }));
    api_server.node(7, "aws:///z/i-7", json!({}), json!([]));
    tainted_by_drains_of_eight(api_server, guard).await
}

async fn tainted_by_drains_of_eight(api_server: FakeApiServer, guard: RemovalGuard) -> Vec<usize> {
    let executor = Arc::new(executor(&api_server, guard));
    let mut drains = tokio::task::JoinSet::new();
    for number in 0..8 {
        let executor = Arc::clone(&executor);
        drains.spawn(async move { executed(&executor, Action::DrainNode(drain(number))).await });
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    api_server.tainted(8)
}

#[tokio::test(start_paused = true)]
async fn a_rogue_server_cannot_drain_a_cluster_at_once_nor_unmanaged_nodes() {
    let tainted = tainted_by_a_rogue_server(RemovalGuard::new(2, Duration::from_secs(600))).await;
    assert!(tainted.len() == 2 && tainted.iter().all(|number| *number < 6), "{tainted:?}");
    let unbounded = tainted_by_a_rogue_server(RemovalGuard::new(0, Duration::from_secs(600))).await;
    assert_eq!(unbounded, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn sabotage_when_every_node_looks_like_a_machine_a_rogue_server_drains_everything() {
    let api_server = FakeApiServer::default();
    (0..8).for_each(|number| api_server.machine(number, json!({})));
    let unbounded = RemovalGuard::new(0, Duration::from_secs(600));
    assert_eq!(tainted_by_drains_of_eight(api_server, unbounded).await, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_rogue_server_deletes_no_unmanaged_node() {
    let api_server = FakeApiServer::default();
    api_server.node(7, "aws:///z/i-7", json!({}), json!([]));
    api_server.machine(6, json!({ "node-role.kubernetes.io/control-plane": "" }));
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    for (claim, node) in [("c7", "n7"), ("c6", "n6")] {
        let action = v1::DeleteNodeClaim { node_claim: claim.into(), node: node.into(), ..Default::default() };
        assert_eq!(executed(&executor, Action::DeleteNodeClaim(action)).await, Done::ok());
        assert!(api_server.object(&NODE.one("", node)).is_some(), "{node} stays");
    }
    assert!(api_server.object(&NODE_CLAIM.one("", "c6")).is_none(), "the NodeClaim is ours");
}

#[tokio::test(start_paused = true)]
async fn pods_are_not_deleted_at_once_on_the_request_of_a_server_alone() {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let action = v1::DrainNode { force_at_ms: Some(1), ..drain(1) };
    let done = executed(&executor, Action::DrainNode(action)).await;
    assert!(done.outcome == v1::Outcome::Failed && done.detail.contains("terminationGracePeriod"), "{done:?}");
    assert!(api_server.tainted(2).is_empty());
}

/// A restarted agent resumes the drain in the annotation `note` of Node n1, which belongs to c1:
/// whether the node is tainted, and the ranks on c1 and c2.
async fn resumed_drain(note: Value) -> (bool, Rank, Rank) {
    let api_server = FakeApiServer::default();
    api_server.machine(1, json!({}));
    api_server.machine(2, json!({}));
    let executor = executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600)));
    let note = note.to_string();
    let going = executor.resume_drain("n1", &note);
    let _ends_or_not = tokio::time::timeout(Duration::from_secs(60), going).await;
    let noted = |claim: &str| Rank::of_claim(&api_server.object(&NODE_CLAIM.one("", claim)).unwrap());
    (api_server.tainted(3) == [1], noted("c1"), noted("c2"))
}

#[tokio::test(start_paused = true)]
async fn a_note_on_a_node_moves_only_the_claim_that_owns_it_and_outdates_no_instruction() {
    const HIGHEST: &str = "18446744073709551615/0";
    let none = Rank::default();
    let note = |claim: &str, rank: &str| json!({ "claim": claim, "rank": rank, "reason": "why" });
    assert_eq!(resumed_drain(note("c1", "3/9")).await, (true, none, none), "a drain that was begun goes on");
    assert_eq!(resumed_drain(note("c2", HIGHEST)).await, (false, none, none), "another's claim");
    assert_eq!(resumed_drain(note("c1", HIGHEST)).await, (true, none, none), "nothing is stale for ever");
}

fn protected_pod(node: &str) -> ParsedObject {
    let annotation = v1::StringPair { key: "karpenter.sh/do-not-disrupt".into(), value: "true".into() };
    let record = v1::PodRecord {
        name: format!("on-{node}"),
        node_name: node.to_owned(),
        annotations: vec![annotation],
        ..v1::PodRecord::default()
    };
    let (namespace, name) = ("n".to_owned(), record.name.clone());
    let seen =
        Record::Pod { record: Box::new(record), shape: Arc::default(), labels: Arc::default(), volume_claims: None };
    ParsedObject { uid: name.clone(), namespace, name, record: seen }
}

#[tokio::test(start_paused = true)]
async fn drains_that_wait_ask_the_api_server_for_nothing() {
    const DRAINS: usize = 20;
    let api_server = FakeApiServer::default();
    (0..DRAINS).for_each(|number| api_server.machine(number, json!({})));
    let executor = Arc::new(executor(&api_server, RemovalGuard::new(100, Duration::from_secs(600))));
    let names = || (0..DRAINS).map(|number| format!("n{number}"));
    let node = |name: String| {
        let record = v1::NodeRecord { name: name.clone(), ..v1::NodeRecord::default() };
        let seen = Record::plain(v1::change::Change::Node(Box::new(record)));
        ParsedObject { namespace: String::new(), uid: name.clone(), name, record: seen }
    };
    executor.cache.replace_objects(v1::ObjectKind::Node, names().map(node).collect(), &[]);
    executor.cache.replace_objects(v1::ObjectKind::Pod, names().map(|name| protected_pod(&name)).collect(), &[]);
    let mut drains = tokio::task::JoinSet::new();
    for number in 0..DRAINS {
        let executor = Arc::clone(&executor);
        drains.spawn(async move { executed(&executor, Action::DrainNode(drain(number))).await });
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(api_server.tainted(DRAINS).len(), DRAINS);
    let begun = api_server.requests("");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(api_server.requests(""), begun, "requests within ten minutes");
    drains.abort_all();
}
