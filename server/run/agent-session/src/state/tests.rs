use cluster::{ClusterSnapshot, Key, Object};
use v1::change::Change;

use super::*;

fn session() -> Session {
    let settings = Settings { heartbeat_ms: 1_000, max_silence: Millis::from_secs(3), ..Settings::default() };
    Session::new("blue".into(), settings, Arc::default(), PoolReader::new(|_| Vec::new()))
}

fn hello(uid: &str, highest_epoch: u64) -> v1::Hello {
    v1::Hello { cluster_name: "blue".into(), cluster_uid: uid.into(), highest_epoch, ..v1::Hello::default() }
}

fn open(session: &mut Session, epoch: u64) -> Vec<String> {
    session.handle_hello(hello("u", 0));
    words(&session.accept(epoch, Timestamp::from_millis(0)))
}

fn namespace(name: &str) -> v1::Change {
    v1::Change { change: Some(Change::Namespace(v1::NamespaceRecord { name: name.into(), labels: Vec::new() })) }
}

fn part(id: u64, part: snapshot::Part) -> connect_request::Message {
    connect_request::Message::Snapshot(v1::Snapshot { id, part: Some(part) })
}

fn begin(id: u64) -> connect_request::Message {
    part(id, snapshot::Part::Begin(v1::SnapshotBegin::default()))
}

fn chunk(id: u64, index: u32, changes: Vec<v1::Change>) -> connect_request::Message {
    part(id, snapshot::Part::Chunk(v1::SnapshotChunk { changes, index }))
}

fn end(id: u64, chunk_count: u32, change_count: u64) -> connect_request::Message {
    part(id, snapshot::Part::End(v1::SnapshotEnd { chunk_count, change_count }))
}

fn delta(sequence: u64, changes: Vec<v1::Change>) -> connect_request::Message {
    connect_request::Message::Delta(v1::Delta { sequence, changes })
}

fn heartbeat(last_sequence: u64) -> connect_request::Message {
    connect_request::Message::Heartbeat(v1::Heartbeat { last_sequence, sent_at_ms: 0 })
}

fn ack(id: &str) -> connect_request::Message {
    connect_request::Message::Ack(v1::Ack {
        instruction_id: id.into(),
        outcome: v1::Outcome::Done.into(),
        ..v1::Ack::default()
    })
}

fn handle(session: &mut Session, message: connect_request::Message) -> Vec<String> {
    words(&session.handle_request(v1::ConnectRequest { message: Some(message) }, Timestamp::from_millis(0)))
}

#[test]
fn facts_of_a_hello_precede_the_connection_and_what_cannot_be_used_is_counted() {
    let with_facts = |endpoint: &str, cidr: &str| {
        let (api_endpoint, service_cidr) = (endpoint.to_owned(), cidr.to_owned());
        let facts = v1::ClusterFacts { api_endpoint, service_cidr, ..v1::ClusterFacts::default() };
        v1::Hello { facts: Some(Box::new(facts)), ..hello("u", 0) }
    };
    let mut session = session();
    session.handle_hello(with_facts("https://a", "nowhere"));
    let accepted = words(&session.accept(3, Timestamp::from_millis(0)));
    assert_eq!(accepted, ["welcome 3", "facts https://a 1", "connected"]);
    // Another owner of the lease on the same stream gets them too.
    assert_eq!(words(&session.accept(4, Timestamp::from_millis(0)))[..2], ["facts https://a 1", "connected"]);
    session.handle_close();
    session.handle_hello(with_facts("https://b", ""));
    let accepted = words(&session.accept(5, Timestamp::from_millis(0)));
    assert_eq!(accepted, ["welcome 5", "facts https://b 0", "connected"]);
    session.handle_close();
    assert_eq!(open(&mut session, 6), ["welcome 6", "connected"], "an agent that reports none");
}

/// A synced session of an empty cluster under epoch 3.
fn following() -> Session {
    let mut session = session();
    assert_eq!(open(&mut session, 3), ["welcome 3", "connected"]);
    assert!(handle(&mut session, begin(1)).is_empty());
    assert_eq!(handle(&mut session, end(1, 0, 0)), ["snapshot of 0"]);
    session
}

fn initialize(claim: &str) -> Instruction {
    Instruction::InitializeNode { claim: claim.into(), node: "n".into() }
}

/// Outputs in a compact form, one word each.
fn words(outputs: &[Output]) -> Vec<String> {
    outputs.iter().map(word).collect()
}

fn word(output: &Output) -> String {
    match output {
        Output::Send(response) => match &response.message {
            Some(connect_response::Message::Welcome(welcome)) => format!("welcome {}", welcome.epoch),
            Some(connect_response::Message::Instruction(i)) => format!("instruct {} epoch {}", i.id, i.epoch),
            Some(connect_response::Message::Resync(_)) => "resync".into(),
            None => "nothing".into(),
        },
        Output::Notify(SessionEvent::HelloReceived(greeting)) => format!("greeted {}", greeting.highest_epoch),
        Output::Notify(SessionEvent::HandshakeAbandoned { .. }) => "left".into(),
        Output::Notify(SessionEvent::ClusterEvent(event)) => happening(&event.event),
        Output::Notify(SessionEvent::RegionEvent(event)) => format!("{event:?}"),
        Output::Export(spans) => format!("export {}", spans.len()),
        Output::Close(_) => "close".into(),
    }
}

fn happening(event: &Event) -> String {
    match event {
        Event::AgentConnected => "connected".into(),
        Event::ClusterFactsReported { facts, refused } => format!("facts {} {}", facts.endpoint, refused.len()),
        Event::AgentDisconnected => "disconnected".into(),
        Event::InstructionAcked(instruction) => format!("acked {}", instruction.0),
        Event::InstructionFailed { instruction, .. } => format!("failed {}", instruction.0),
        Event::Observed(Observation::Snapshot(snapshot)) => {
            format!("snapshot of {}", size(snapshot))
        }
        Event::Observed(Observation::Upsert(object)) => match &**object {
            Object::Namespace(namespace) => format!("namespace {}", namespace.name),
            _ => "object".into(),
        },
        Event::Observed(Observation::Delete(Key::Namespace(name))) => {
            format!("no namespace {name}")
        }
        other => format!("{other:?}"),
    }
}

fn size(snapshot: &ClusterSnapshot) -> usize {
    snapshot.pods.len() + snapshot.nodes.len() + snapshot.namespaces.len()
}

#[test]
fn a_stream_opens_when_the_control_loop_has_the_lease() {
    let mut session = session();
    assert_eq!(words(&session.handle_hello(hello("u", 2))), ["greeted 2"]);
    assert!(!session.is_open());
    assert_eq!(words(&session.accept(3, Timestamp::from_millis(0))), ["welcome 3", "connected"]);
    assert!(session.accept(3, Timestamp::from_millis(0)).is_empty(), "the stream has its epoch");
    assert_eq!(words(&session.handle_close()), ["disconnected"]);
    assert!(session.handle_close().is_empty());
}

#[test]
fn an_agent_is_asked_for_spans_and_only_those_of_its_own_instructions_are_exported() {
    let settings = Settings { traces: true, ..Settings::default() };
    let mut session = Session::new("blue".into(), settings, Arc::default(), PoolReader::new(|_| Vec::new()));
    session.handle_hello(hello("u", 0));
    let accepted = session.accept(3, Timestamp::from_millis(0));
    let asked = |output: &Output| match output {
        Output::Send(response) => matches!(&response.message, Some(connect_response::Message::Welcome(w)) if w.traces),
        _ => false,
    };
    assert!(accepted.iter().any(asked), "{accepted:?}");
    let span = trace::SpanContext::of_decision(&"blue".into(), 7, Timestamp::from_millis(0)).child("ready", "m0");
    session.trace_instruction(InstructionId(7), InstructionContext { span, first_pod: None });
    let sent = session.instruct(InstructionId(7), initialize("m0"), Timestamp::MAX, Timestamp::from_millis(0));
    let carries = |output: &Output| match output {
        Output::Send(response) => match &response.message {
            Some(connect_response::Message::Instruction(sent)) => sent.traceparent == span.traceparent(),
            _ => false,
        },
        _ => false,
    };
    assert!(sent.iter().any(carries), "{sent:?}");
    let spans = |trace_id: Vec<u8>| {
        let (span_id, parent_span_id) = (vec![1; 8], span.span().to_bytes().to_vec());
        let name = "initialize_node".to_owned();
        let span = v1::AgentSpan { trace_id, span_id, parent_span_id, name, ..v1::AgentSpan::default() };
        connect_request::Message::Spans(v1::Spans { spans: vec![span] })
    };
    assert_eq!(handle(&mut session, spans(span.trace().to_bytes().to_vec())), ["export 1"]);
    assert!(handle(&mut session, spans(vec![5; 16])).is_empty(), "a trace of no instruction");
    session.refuse("another server has the lease");
    open(&mut session, 9);
    assert!(handle(&mut session, spans(span.trace().to_bytes().to_vec())).is_empty(), "of an earlier lease");
}

#[test]
fn a_lease_acquired_again_under_an_open_stream_raises_the_epoch_and_requests_a_resync() {
    let mut session = following();
    let _sent =
        session.instruct(InstructionId(7), initialize("m0"), Timestamp::from_millis(60_000), Timestamp::from_millis(0));
    let raised = words(&session.accept(4, Timestamp::from_millis(0)));
    assert_eq!(raised, ["connected", "instruct 3-7 epoch 4", "resync"]);
    assert!(handle(&mut session, delta(1, vec![namespace("a")])).is_empty(), "older than the snapshot");
    assert!(handle(&mut session, begin(2)).is_empty());
    assert_eq!(handle(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
    let later = words(&session.instruct(
        InstructionId(8),
        initialize("m1"),
        Timestamp::from_millis(60_000),
        Timestamp::from_millis(0),
    ));
    assert_eq!(later, ["instruct 4-8 epoch 4"]);
    assert!(session.accept(3, Timestamp::from_millis(0)).is_empty(), "an outdated lease answer changes nothing");
    // While the first snapshot is awaited, it is requested once.
    let mut young = self::session();
    open(&mut young, 3);
    assert_eq!(words(&young.accept(4, Timestamp::from_millis(0))), ["connected"]);
}

#[test]
fn a_refused_agent_is_disconnected() {
    let mut session = session();
    session.handle_hello(hello("u", 5));
    assert_eq!(
        words(&session.accept(4, Timestamp::from_millis(0))),
        ["left", "close"],
        "the agent would reject its instructions"
    );
    session.handle_hello(hello("u", 0));
    assert_eq!(words(&session.refuse("another replica decides")), ["left", "close"]);
    assert!(session.check_identity(&hello("another", 0)).is_ok(), "a rejected agent does not own the name");
    open(&mut session, 3);
    assert!(session.check_identity(&hello("u", 0)).is_ok());
    assert!(
        session.check_identity(&hello("another", 0)).unwrap_err().to_string().contains("UID another"),
        "two clusters share a name"
    );
}

#[test]
fn messages_out_of_turn_close_the_stream() {
    let mut session = session();
    session.handle_hello(hello("u", 0));
    assert_eq!(handle(&mut session, heartbeat(0)), ["left", "close"], "before Welcome");
    open(&mut session, 3);
    assert_eq!(handle(&mut session, connect_request::Message::Hello(hello("u", 0))), ["disconnected", "close"]);
}

#[test]
fn a_snapshot_is_accepted_when_it_is_complete() {
    let mut session = session();
    open(&mut session, 3);
    assert!(handle(&mut session, begin(1)).is_empty());
    assert!(handle(&mut session, chunk(1, 0, vec![namespace("a"), namespace("b")])).is_empty());
    assert!(handle(&mut session, chunk(1, 1, vec![namespace("c")])).is_empty());
    assert_eq!(handle(&mut session, end(1, 2, 3)), ["snapshot of 3"]);
}

#[test]
fn a_torn_snapshot_is_requested_again() {
    for torn in [
        vec![begin(1), chunk(1, 1, vec![namespace("a")])],
        vec![begin(1), chunk(1, 0, vec![namespace("a")]), chunk(1, 0, vec![namespace("a")])],
        vec![begin(1), chunk(2, 0, vec![namespace("a")])],
        vec![begin(1), chunk(1, 0, vec![namespace("a")]), end(1, 2, 2)],
        vec![begin(1), chunk(1, 0, vec![namespace("a")]), end(1, 1, 2)],
    ] {
        let mut session = session();
        open(&mut session, 3);
        let outputs: Vec<String> = torn.into_iter().flat_map(|message| handle(&mut session, message)).collect();
        assert_eq!(outputs, ["resync"]);
        assert!(handle(&mut session, chunk(1, 1, vec![])).is_empty(), "the rest is ignored");
        handle(&mut session, begin(2));
        assert_eq!(handle(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
    }
}

#[test]
fn a_gap_between_deltas_requests_a_resync() {
    let mut session = following();
    assert_eq!(handle(&mut session, delta(1, vec![namespace("a")])), ["namespace a"]);
    assert_eq!(handle(&mut session, delta(3, vec![namespace("c")])), ["resync"]);
    assert!(handle(&mut session, delta(4, vec![namespace("d")])).is_empty(), "older than the next snapshot");
    handle(&mut session, begin(2));
    handle(&mut session, end(2, 0, 0));
    assert_eq!(handle(&mut session, delta(1, vec![namespace("e")])), ["namespace e"]);
}

#[test]
fn the_controller_can_request_a_snapshot_unless_one_is_arriving() {
    let mut session = following();
    assert_eq!(words(&session.request_resync("why".into())), ["resync"]);
    assert!(session.request_resync("why".into()).is_empty(), "it was already requested");
    handle(&mut session, begin(2));
    assert!(session.request_resync("why".into()).is_empty(), "it is arriving");
    assert_eq!(handle(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
}

#[test]
fn a_lost_last_delta_is_detected_by_the_heartbeat() {
    let mut session = following();
    handle(&mut session, delta(1, vec![namespace("a")]));
    assert!(handle(&mut session, heartbeat(1)).is_empty());
    assert_eq!(handle(&mut session, heartbeat(2)), ["resync"]);
    assert!(handle(&mut session, heartbeat(2)).is_empty(), "it was already requested");
}

#[test]
fn a_reference_to_an_undefined_hash_requests_a_resync() {
    let mut session = following();
    let pod = v1::PodRecord { shape: vec![1; 16].into(), labels: vec![2; 16].into(), ..v1::PodRecord::default() };
    let changes = vec![v1::Change { change: Some(Change::Pod(Box::new(pod))) }];
    assert_eq!(handle(&mut session, delta(1, changes)), ["resync"]);
}

#[test]
fn an_agent_that_stays_inconsistent_is_disconnected() {
    let mut session = following();
    for id in 2..7 {
        assert_eq!(handle(&mut session, delta(9, vec![])), ["resync"]);
        handle(&mut session, begin(id));
        handle(&mut session, end(id, 0, 0));
    }
    assert_eq!(handle(&mut session, delta(9, vec![])), ["disconnected", "close"]);
}

#[test]
fn a_contract_violation_closes_the_stream() {
    // A hash that is too short, and a shape that is no JSON.
    for (hash, content) in [(vec![1; 3], b"{}".to_vec()), (vec![1; 16], b"{".to_vec())] {
        let mut session = following();
        let definition = v1::Definition { hash, content };
        let changes = vec![v1::Change { change: Some(Change::DefinePodShape(definition)) }];
        assert_eq!(handle(&mut session, delta(1, changes)), ["disconnected", "close"]);
    }
    let mut session = following();
    let many = (0..1_001).map(|_| namespace("a")).collect();
    assert_eq!(handle(&mut session, delta(1, many)), ["disconnected", "close"]);
}

#[test]
fn unknown_messages_are_ignored() {
    let mut session = following();
    assert!(handle(&mut session, delta(1, vec![v1::Change { change: None }])).is_empty());
    assert!(session.handle_request(v1::ConnectRequest { message: None }, Timestamp::from_millis(0)).is_empty());
    assert_eq!(handle(&mut session, delta(2, vec![namespace("a")])), ["namespace a"]);
}

#[test]
fn an_api_server_that_does_not_answer_is_known_after_the_stream_until_the_agent_is_accepted_again() {
    let status = |unreachable| connect_request::Message::ApiServerStatus(v1::ApiServerStatus { unreachable });
    let mut session = following();
    assert!(handle(&mut session, status(true)).is_empty() && session.is_api_server_unreachable());
    assert!(handle(&mut session, status(false)).is_empty() && !session.is_api_server_unreachable());
    // It may come between the parts of a snapshot.
    assert!(handle(&mut session, begin(2)).is_empty());
    assert!(handle(&mut session, status(true)).is_empty());
    assert_eq!(handle(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
    assert_eq!(words(&session.handle_close()), ["disconnected"]);
    assert!(session.is_api_server_unreachable());
    session.handle_hello(hello("u", 3));
    assert!(session.is_api_server_unreachable(), "no agent is accepted");
    assert_eq!(words(&session.accept(4, Timestamp::from_millis(0))), ["welcome 4", "connected"]);
    assert!(!session.is_api_server_unreachable());
}

#[test]
fn instructions_are_sent_again_until_acknowledged() {
    let mut session = session();
    let late = Timestamp::from_millis(1_000_000);
    assert!(
        session.instruct(InstructionId(7), initialize("a"), late, Timestamp::from_millis(0)).is_empty(),
        "no agent is connected"
    );
    assert_eq!(open(&mut session, 3), ["welcome 3", "connected", "instruct 3-7 epoch 3"]);
    assert_eq!(
        words(&session.instruct(InstructionId(8), initialize("b"), late, Timestamp::from_millis(0))),
        ["instruct 3-8 epoch 3"]
    );
    session.handle_close();
    // Another process held the lease in between: the epoch grew, the ids stay.
    let again = ["welcome 5", "connected", "instruct 3-7 epoch 5", "instruct 3-8 epoch 5"];
    assert_eq!(open(&mut session, 5), again);
    assert_eq!(handle(&mut session, ack("3-7")), ["acked 7"]);
    assert!(handle(&mut session, ack("3-7")).is_empty());
    session.handle_close();
    assert_eq!(open(&mut session, 5), ["welcome 5", "connected", "instruct 3-8 epoch 5"]);
}

#[test]
fn an_unacknowledged_instruction_fails_at_its_deadline() {
    let mut session = session();
    session.instruct(InstructionId(7), initialize("a"), Timestamp::from_millis(100), Timestamp::from_millis(0));
    assert!(session.tick(Timestamp::from_millis(99)).is_empty());
    assert_eq!(words(&session.tick(Timestamp::from_millis(100))), ["failed 7"]);
    assert!(session.tick(Timestamp::from_millis(101)).is_empty());
}

/// Seconds, from 1 to `until`, at which a stream with its last message at 0 is closed when the
/// session ticks once a second; `unread` selects the seconds at which the server does not read.
fn ends(until: i64, unread: impl Fn(i64) -> bool) -> Vec<i64> {
    let mut session = following();
    let at = |second: i64| Timestamp::from_millis(second * 1_000);
    let mut ended = |second: &i64| {
        if unread(*second) {
            session.reset_silence(at(*second));
        }
        words(&session.tick(at(*second))) == ["disconnected", "close"]
    };
    (1..=until).filter(|second| ended(second)).collect()
}

#[test]
fn a_silent_agent_is_disconnected() {
    // 3 s after its last message, and once.
    assert_eq!(ends(20, |_| false), [3]);
}

#[test]
fn an_agent_is_not_silent_while_the_server_does_not_read() {
    assert!(ends(1_000, |_| true).is_empty());
    // Read again after second 100, it has 3 s from there.
    assert_eq!(ends(1_000, |second| second <= 100), [103]);
    assert_eq!(ends(1_000, |_| false), [3], "without it, agents under backpressure are disconnected");
}

#[test]
fn a_resumed_process_reads_queued_messages_before_it_detects_silence() {
    let woken = || {
        let mut session = following();
        for second in 1..=2 {
            assert!(session.tick(Timestamp::from_millis(second * 1_000)).is_empty());
        }
        // It is suspended for 40 s and ticks first when it resumes: 2 s of silence were observed.
        assert!(session.tick(Timestamp::from_millis(42_000)).is_empty());
        session
    };
    assert_eq!(
        words(&woken().tick(Timestamp::from_millis(43_000))),
        ["disconnected", "close"],
        "3 s without a message"
    );
    let mut resumed = woken();
    let request = v1::ConnectRequest { message: Some(heartbeat(0)) };
    assert!(resumed.handle_request(request, Timestamp::from_millis(42_500)).is_empty());
    assert!(resumed.tick(Timestamp::from_millis(43_000)).is_empty(), "the unread message ended the silence");
    // A clock that is set back neither makes an agent silent nor hides its silence for long.
    let mut back = following();
    for second in -60..=-58 {
        assert!(back.tick(Timestamp::from_millis(second * 1_000)).is_empty());
    }
    assert_eq!(words(&back.tick(Timestamp::from_millis(-57_000))), ["disconnected", "close"]);
}

#[test]
fn an_agent_without_an_answer_waits_and_may_disconnect() {
    let mut session = session();
    session.handle_hello(hello("u", 0));
    for second in 1..1_000 {
        assert!(session.tick(Timestamp::from_millis(second * 1_000)).is_empty());
    }
    assert_eq!(words(&session.handle_hello(hello("u", 0))), ["left", "greeted 0"], "the next stream replaces it");
    assert_eq!(words(&session.handle_close()), ["left"]);
    assert!(session.handle_close().is_empty());
}

#[test]
fn another_agent_of_the_same_cluster_takes_over() {
    let mut session = following();
    assert_eq!(words(&session.handle_hello(hello("u", 3))), ["disconnected", "greeted 3"]);
}

#[test]
fn names_of_clusters_are_checked() {
    assert!(check_cluster_name("prod-eu_1.a").is_ok());
    for bad in ["", "a b", "a/b", "ü", &"x".repeat(101)] {
        assert!(check_cluster_name(bad).is_err(), "{bad:?}");
    }
}

/// A namespace of one letter takes 1,024 bytes and 8 for each of its 3 on the wire: three of them
/// fit into 3,200.
fn bounded() -> (Session, SessionMemory) {
    let session_memory = SessionMemory::new(3_200, u64::MAX);
    let settings = Settings { session_memory: session_memory.clone(), ..Settings::default() };
    (Session::new("blue".into(), settings, Arc::default(), PoolReader::new(|_| Vec::new())), session_memory)
}

#[test]
fn a_session_above_its_memory_limit_is_closed_by_snapshot_and_by_delta() {
    let four = || ["a", "b", "c", "d"].map(namespace).to_vec();
    let (mut session, session_memory) = bounded();
    open(&mut session, 3);
    handle(&mut session, begin(1));
    assert_eq!(handle(&mut session, chunk(1, 0, four())), ["disconnected", "close"]);
    assert_eq!(session_memory.held(), 0, "a rejected snapshot is released");

    let (mut session, session_memory) = bounded();
    open(&mut session, 3);
    handle(&mut session, begin(1));
    handle(&mut session, end(1, 0, 0));
    handle(&mut session, delta(1, vec![namespace("a"), namespace("b"), namespace("c")]));
    assert_eq!(session_memory.held(), 3 * 1_048);
    assert_eq!(handle(&mut session, delta(2, vec![namespace("d")])), ["disconnected", "close"]);
    assert_eq!(session_memory.held(), 3 * 1_048, "accepted objects stay accounted");
    // The next snapshot replaces it.
    open(&mut session, 4);
    handle(&mut session, begin(1));
    handle(&mut session, chunk(1, 0, vec![namespace("a")]));
    handle(&mut session, end(1, 1, 1));
    assert_eq!(session_memory.held(), 1_048);
}

#[test]
fn an_agent_without_a_cluster_uid_is_rejected() {
    let refused = session().check_identity(&hello("", 0)).unwrap_err().to_string();
    assert!(refused.contains("no cluster UID"), "{refused}");
}

#[test]
fn an_object_that_cannot_be_read_does_not_end_the_stream() {
    let mut session = following();
    // 10E is 10^19, more than 64 bits hold.
    let quantity = v1::Quantity { resource: "example.com/x".into(), amount: "10E".into() };
    let node = v1::NodeRecord { name: "n".into(), allocatable: vec![quantity], ..v1::NodeRecord::default() };
    let changes = vec![v1::Change { change: Some(Change::Node(Box::new(node))) }, namespace("a")];
    assert_eq!(handle(&mut session, delta(1, changes.clone())), ["object", "namespace a", "object"]);
    assert!(handle(&mut session, begin(2)).is_empty());
    assert!(handle(&mut session, chunk(2, 0, changes)).is_empty());
    assert_eq!(handle(&mut session, end(2, 1, 2)), ["snapshot of 2"]);
}

/// Clock problems reported when the agent's clock shows `taken_at` at the start of a snapshot and
/// `later` at a heartbeat, while the server's shows 1,000,000.
fn clock_problems(taken_at: i64, later: i64) -> Vec<String> {
    let mut session = session();
    open(&mut session, 3);
    let handle = |session: &mut Session, message| {
        session.handle_request(v1::ConnectRequest { message: Some(message) }, Timestamp::from_millis(1_000_000))
    };
    handle(&mut session, part(1, snapshot::Part::Begin(v1::SnapshotBegin { taken_at_ms: taken_at })));
    let mut outputs = handle(&mut session, end(1, 0, 0));
    let beat = v1::Heartbeat { last_sequence: 0, sent_at_ms: later };
    outputs.extend(handle(&mut session, connect_request::Message::Heartbeat(beat)));
    let word = |output| match output {
        Output::Notify(SessionEvent::ClusterEvent(ClusterEvent { event: Event::Observed(observation), .. })) => {
            match observation {
                Observation::Snapshot(snapshot) => snapshot.problems.first().map(|problem| problem.reason.to_string()),
                Observation::Upsert(object) => match *object {
                    Object::Problem(problem) => Some(problem.reason.to_string()),
                    other => panic!("{other:?}"),
                },
                Observation::Delete(key) => Some(format!("{key:?}")),
            }
        }
        other => panic!("{other:?}"),
    };
    outputs.into_iter().filter_map(word).collect()
}

#[test]
fn clock_skew_above_half_a_minute_is_reported() {
    assert!(clock_problems(970_000, 1_030_000).is_empty(), "half a minute is tolerated");
    let problems = clock_problems(1_600_000, 1_600_000);
    assert!(problems.len() == 1 && problems[0].contains("600 s ahead of"), "{problems:?}");
    let problems = clock_problems(1_000_000, 969_999);
    assert!(problems.len() == 1 && problems[0].contains("30 s behind"), "{problems:?}");
    let problems = clock_problems(1_600_000, 1_000_000);
    assert_eq!(problems[1], "Problem(\"the agent's clock\")", "the clock was corrected");
    assert!(clock_problems(0, 0).is_empty(), "an older agent sends no time");
}

#[test]
fn pools_are_parsed_again_when_asked_and_only_those_that_differ_are_observed() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let version = Arc::new(AtomicUsize::new(1));
    let read = Arc::clone(&version);
    let reader = PoolReader::new(move |_| {
        vec![crate::decode::tests::pool(&"same".into(), 0, &"1".into()), {
            crate::decode::tests::pool(&"web".into(), read.load(Ordering::SeqCst), &"1".into())
        }]
    });
    let mut session = Session::new("blue".into(), Settings::default(), Arc::default(), reader);
    let classes = |outputs: &[Output]| -> Vec<String> {
        let observed = outputs.iter().map(|output| match output {
            Output::Notify(SessionEvent::ClusterEvent(ClusterEvent {
                event: Event::Observed(observation), ..
            })) => observation,
            other => panic!("{other:?}"),
        });
        let pools = observed.map(|observation| match observation {
            Observation::Upsert(object) => match &**object {
                Object::Pool(record) => record.pool.node_class.to_string(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
        pools.collect()
    };
    assert_eq!(session.reread_pools(), [], "no agent is connected");
    open(&mut session, 1);
    handle(&mut session, begin(1));
    version.store(2, Ordering::SeqCst);
    assert_eq!(session.reread_pools(), [], "a snapshot is arriving");
    handle(&mut session, end(1, 0, 0));
    assert_eq!(session.reread_pools(), [], "the snapshot had the pools as they are");
    version.store(3, Ordering::SeqCst);
    assert_eq!(classes(&session.reread_pools()), ["3"]);
    assert_eq!(session.reread_pools(), []);
    // Deltas go on.
    assert_eq!(handle(&mut session, delta(1, vec![namespace("a")])).len(), 1);
}
