use engine::cluster::{ClusterSnapshot, Key, Object};
use v1::change::Change;

use super::*;

fn session() -> Session {
    let settings = Settings { heartbeat_ms: 1_000, silence_ms: 3_000, ..Settings::default() };
    Session::new("blue".into(), settings, Arc::default(), ReadPools::new(|_| Vec::new()))
}

fn hello(uid: &str, highest_epoch: u64) -> v1::Hello {
    v1::Hello { cluster_name: "blue".into(), cluster_uid: uid.into(), highest_epoch, ..v1::Hello::default() }
}

fn open(session: &mut Session, epoch: u64) -> Vec<String> {
    session.opened(hello("u", 0));
    words(&session.accept(epoch, Timestamp(0)))
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

fn hear(session: &mut Session, message: connect_request::Message) -> Vec<String> {
    words(&session.heard(v1::ConnectRequest { message: Some(message) }, Timestamp(0)))
}

/// A session that follows an empty cluster under epoch 3.
fn following() -> Session {
    let mut session = session();
    assert_eq!(open(&mut session, 3), ["welcome 3", "connected"]);
    assert!(hear(&mut session, begin(1)).is_empty());
    assert_eq!(hear(&mut session, end(1, 0, 0)), ["snapshot of 0"]);
    session
}

fn initialize(claim: &str) -> Instruction {
    Instruction::InitializeNode { claim: claim.into(), node: "n".into() }
}

/// What outputs say, one word each.
fn words(outputs: &[Output]) -> Vec<String> {
    outputs.iter().map(word).collect()
}

fn word(output: &Output) -> String {
    match output {
        Output::Say(response) => match &response.message {
            Some(connect_response::Message::Welcome(welcome)) => format!("welcome {}", welcome.epoch),
            Some(connect_response::Message::Instruction(i)) => format!("instruct {} epoch {}", i.id, i.epoch),
            Some(connect_response::Message::Resync(_)) => "resync".into(),
            None => "nothing".into(),
        },
        Output::Tell(SessionEvent::Greeted(greeting)) => format!("greeted {}", greeting.highest_epoch),
        Output::Tell(SessionEvent::Left { .. }) => "left".into(),
        Output::Tell(SessionEvent::Happened(event)) => happening(event),
        Output::HangUp(_) => "hang up".into(),
    }
}

fn happening(event: &Event) -> String {
    match event {
        Event::AgentConnected { .. } => "connected".into(),
        Event::AgentDisconnected { .. } => "disconnected".into(),
        Event::InstructionAcked { instruction, .. } => format!("acked {}", instruction.0),
        Event::InstructionFailed { instruction, .. } => format!("failed {}", instruction.0),
        Event::Observed { observation: Observation::Snapshot(picture), .. } => format!("snapshot of {}", size(picture)),
        Event::Observed { observation: Observation::Upsert(object), .. } => match &**object {
            Object::Namespace(namespace) => format!("namespace {}", namespace.name),
            _ => "object".into(),
        },
        Event::Observed { observation: Observation::Delete(Key::Namespace(name)), .. } => {
            format!("no namespace {name}")
        }
        other => format!("{other:?}"),
    }
}

fn size(picture: &ClusterSnapshot) -> usize {
    picture.pods.len() + picture.nodes.len() + picture.namespaces.len()
}

#[test]
fn a_conversation_begins_when_the_control_loop_has_the_lease() {
    let mut session = session();
    assert_eq!(words(&session.opened(hello("u", 2))), ["greeted 2"]);
    assert!(!session.is_open());
    assert_eq!(words(&session.accept(3, Timestamp(0))), ["welcome 3", "connected"]);
    assert!(session.accept(3, Timestamp(0)).is_empty(), "the conversation has its epoch");
    assert_eq!(words(&session.closed()), ["disconnected"]);
    assert!(session.closed().is_empty());
}

#[test]
fn a_lease_that_is_taken_again_under_an_open_stream_raises_the_epoch_and_asks_for_a_new_picture() {
    let mut session = following();
    let _sent = session.instruct(InstructionId(7), initialize("m0"), Timestamp(60_000), Timestamp(0));
    let raised = words(&session.accept(4, Timestamp(0)));
    assert_eq!(raised, ["connected", "instruct 3-7 epoch 4", "resync"]);
    assert!(hear(&mut session, delta(1, vec![namespace("a")])).is_empty(), "from before the picture");
    assert!(hear(&mut session, begin(2)).is_empty());
    assert_eq!(hear(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
    let later = words(&session.instruct(InstructionId(8), initialize("m1"), Timestamp(60_000), Timestamp(0)));
    assert_eq!(later, ["instruct 4-8 epoch 4"]);
    assert!(session.accept(3, Timestamp(0)).is_empty(), "an answer that was overtaken changes nothing");
    // While the first picture is still to come, it is asked for once.
    let mut young = self::session();
    open(&mut young, 3);
    assert_eq!(words(&young.accept(4, Timestamp(0))), ["connected"]);
}

#[test]
fn who_is_not_wanted_is_turned_away() {
    let mut session = session();
    session.opened(hello("u", 5));
    assert_eq!(words(&session.accept(4, Timestamp(0))), ["left", "hang up"], "the agent would refuse to obey");
    session.opened(hello("u", 0));
    assert_eq!(words(&session.refuse("another replica decides")), ["left", "hang up"]);
    assert!(session.admits(&hello("another", 0)).is_ok(), "who was turned away has no name");
    open(&mut session, 3);
    assert!(session.admits(&hello("u", 0)).is_ok());
    assert!(session.admits(&hello("another", 0)).unwrap_err().contains("UID another"), "two clusters share a name");
}

#[test]
fn an_agent_speaks_in_turn() {
    let mut session = session();
    session.opened(hello("u", 0));
    assert_eq!(hear(&mut session, heartbeat(0)), ["left", "hang up"], "before welcome");
    open(&mut session, 3);
    assert_eq!(hear(&mut session, connect_request::Message::Hello(hello("u", 0))), ["disconnected", "hang up"]);
}

#[test]
fn a_snapshot_is_believed_when_it_is_whole() {
    let mut session = session();
    open(&mut session, 3);
    assert!(hear(&mut session, begin(1)).is_empty());
    assert!(hear(&mut session, chunk(1, 0, vec![namespace("a"), namespace("b")])).is_empty());
    assert!(hear(&mut session, chunk(1, 1, vec![namespace("c")])).is_empty());
    assert_eq!(hear(&mut session, end(1, 2, 3)), ["snapshot of 3"]);
}

#[test]
fn a_torn_snapshot_is_asked_for_again() {
    for torn in [
        vec![begin(1), chunk(1, 1, vec![namespace("a")])],
        vec![begin(1), chunk(1, 0, vec![namespace("a")]), chunk(1, 0, vec![namespace("a")])],
        vec![begin(1), chunk(2, 0, vec![namespace("a")])],
        vec![begin(1), chunk(1, 0, vec![namespace("a")]), end(1, 2, 2)],
        vec![begin(1), chunk(1, 0, vec![namespace("a")]), end(1, 1, 2)],
    ] {
        let mut session = session();
        open(&mut session, 3);
        let heard: Vec<String> = torn.into_iter().flat_map(|message| hear(&mut session, message)).collect();
        assert_eq!(heard, ["resync"]);
        assert!(hear(&mut session, chunk(1, 1, vec![])).is_empty(), "the rest is passed over");
        hear(&mut session, begin(2));
        assert_eq!(hear(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
    }
}

#[test]
fn a_gap_between_deltas_is_noticed() {
    let mut session = following();
    assert_eq!(hear(&mut session, delta(1, vec![namespace("a")])), ["namespace a"]);
    assert_eq!(hear(&mut session, delta(3, vec![namespace("c")])), ["resync"]);
    assert!(hear(&mut session, delta(4, vec![namespace("d")])).is_empty(), "it is from before the snapshot to come");
    hear(&mut session, begin(2));
    hear(&mut session, end(2, 0, 0));
    assert_eq!(hear(&mut session, delta(1, vec![namespace("e")])), ["namespace e"]);
}

#[test]
fn the_controller_may_ask_for_a_snapshot_and_asks_in_vain_while_one_is_coming() {
    let mut session = following();
    assert_eq!(words(&session.ask_again("why".into())), ["resync"]);
    assert!(session.ask_again("why".into()).is_empty(), "once is enough");
    hear(&mut session, begin(2));
    assert!(session.ask_again("why".into()).is_empty(), "it is coming in");
    assert_eq!(hear(&mut session, end(2, 0, 0)), ["snapshot of 0"]);
}

#[test]
fn a_lost_last_delta_is_noticed_by_the_heartbeat() {
    let mut session = following();
    hear(&mut session, delta(1, vec![namespace("a")]));
    assert!(hear(&mut session, heartbeat(1)).is_empty());
    assert_eq!(hear(&mut session, heartbeat(2)), ["resync"]);
    assert!(hear(&mut session, heartbeat(2)).is_empty(), "once is enough");
}

#[test]
fn a_reference_to_what_was_not_defined_asks_for_a_snapshot() {
    let mut session = following();
    let pod = v1::PodRecord { shape: vec![1; 16], labels: vec![2; 16], ..v1::PodRecord::default() };
    let changes = vec![v1::Change { change: Some(Change::Pod(pod)) }];
    assert_eq!(hear(&mut session, delta(1, changes)), ["resync"]);
}

#[test]
fn an_agent_that_cannot_put_things_right_is_left() {
    let mut session = following();
    for id in 2..7 {
        assert_eq!(hear(&mut session, delta(9, vec![])), ["resync"]);
        hear(&mut session, begin(id));
        hear(&mut session, end(id, 0, 0));
    }
    assert_eq!(hear(&mut session, delta(9, vec![])), ["disconnected", "hang up"]);
}

#[test]
fn what_breaks_the_contract_ends_the_stream() {
    let mut session = following();
    let definition = v1::Definition { hash: vec![1; 3], content: Vec::new() };
    let short_hash = vec![v1::Change { change: Some(Change::DefineShape(definition)) }];
    assert_eq!(hear(&mut session, delta(1, short_hash)), ["disconnected", "hang up"]);
    let mut session = following();
    let many = (0..1_001).map(|_| namespace("a")).collect();
    assert_eq!(hear(&mut session, delta(1, many)), ["disconnected", "hang up"]);
}

#[test]
fn what_this_server_does_not_know_is_passed_over() {
    let mut session = following();
    assert!(hear(&mut session, delta(1, vec![v1::Change { change: None }])).is_empty());
    assert!(session.heard(v1::ConnectRequest { message: None }, Timestamp(0)).is_empty());
    assert_eq!(hear(&mut session, delta(2, vec![namespace("a")])), ["namespace a"]);
}

#[test]
fn instructions_are_sent_again_until_they_are_answered() {
    let mut session = session();
    let late = Timestamp(1_000_000);
    assert!(session.instruct(InstructionId(7), initialize("a"), late, Timestamp(0)).is_empty(), "nobody is there");
    assert_eq!(open(&mut session, 3), ["welcome 3", "connected", "instruct 3-7 epoch 3"]);
    assert_eq!(
        words(&session.instruct(InstructionId(8), initialize("b"), late, Timestamp(0))),
        ["instruct 3-8 epoch 3"]
    );
    session.closed();
    // Another process had the lease in between: the epoch grew, the ids stay.
    let again = ["welcome 5", "connected", "instruct 3-7 epoch 5", "instruct 3-8 epoch 5"];
    assert_eq!(open(&mut session, 5), again);
    assert_eq!(hear(&mut session, ack("3-7")), ["acked 7"]);
    assert!(hear(&mut session, ack("3-7")).is_empty());
    session.closed();
    assert_eq!(open(&mut session, 5), ["welcome 5", "connected", "instruct 3-8 epoch 5"]);
}

#[test]
fn an_instruction_without_an_answer_fails_at_its_deadline() {
    let mut session = session();
    session.instruct(InstructionId(7), initialize("a"), Timestamp(100), Timestamp(0));
    assert!(session.tick(Timestamp(99)).is_empty());
    assert_eq!(words(&session.tick(Timestamp(100))), ["failed 7"]);
    assert!(session.tick(Timestamp(101)).is_empty());
}

/// The moments, from 1 to `until` seconds, at which the stream of a cluster that said something at 0 is ended when the session
/// is asked once a second; `unread` says at which seconds what the agent says is not read.
fn ends(until: i64, unread: impl Fn(i64) -> bool) -> Vec<i64> {
    let mut session = following();
    let at = |second: i64| Timestamp(second * 1_000);
    let mut ended = |second: &i64| {
        if unread(*second) {
            session.deaf(at(*second));
        }
        words(&session.tick(at(*second))) == ["disconnected", "hang up"]
    };
    (1..=until).filter(|second| ended(second)).collect()
}

#[test]
fn a_silent_agent_is_gone() {
    // 3 s after its last word, and once.
    assert_eq!(ends(20, |_| false), [3]);
}

#[test]
fn an_agent_is_not_silent_while_it_is_we_who_do_not_read() {
    assert!(ends(1_000, |_| true).is_empty());
    // Read again after second 100, it has 3 s from there.
    assert_eq!(ends(1_000, |second| second <= 100), [103]);
    assert_eq!(ends(1_000, |_| false), [3], "without that, everybody who is held up is hung up on");
}

#[test]
fn a_process_that_stood_still_reads_what_has_come_before_it_judges_silence() {
    let woken = || {
        let mut session = following();
        for second in 1..=2 {
            assert!(session.tick(Timestamp(second * 1_000)).is_empty());
        }
        // It stands still for 40 s, and looks at the clock first when it wakes: 2 s of silence were seen.
        assert!(session.tick(Timestamp(42_000)).is_empty());
        session
    };
    assert_eq!(words(&woken().tick(Timestamp(43_000))), ["disconnected", "hang up"], "3 s, and nothing has come");
    let mut heard = woken();
    let said = v1::ConnectRequest { message: Some(heartbeat(0)) };
    assert!(heard.heard(said, Timestamp(42_500)).is_empty());
    assert!(heard.tick(Timestamp(43_000)).is_empty(), "what lay unread was a sign of life");
    // A clock that is set back makes nobody silent, and nobody's silence unseen for long.
    let mut back = following();
    for second in -60..=-58 {
        assert!(back.tick(Timestamp(second * 1_000)).is_empty());
    }
    assert_eq!(words(&back.tick(Timestamp(-57_000))), ["disconnected", "hang up"]);
}

#[test]
fn who_greeted_and_is_not_answered_waits_and_may_leave() {
    let mut session = session();
    session.opened(hello("u", 0));
    for second in 1..1_000 {
        assert!(session.tick(Timestamp(second * 1_000)).is_empty());
    }
    assert_eq!(words(&session.opened(hello("u", 0))), ["left", "greeted 0"], "its place is taken by its next stream");
    assert_eq!(words(&session.closed()), ["left"]);
    assert!(session.closed().is_empty());
}

#[test]
fn another_agent_of_the_same_cluster_takes_over() {
    let mut session = following();
    assert_eq!(words(&session.opened(hello("u", 3))), ["disconnected", "greeted 3"]);
}

#[test]
fn names_of_clusters_are_checked() {
    assert!(check_cluster_name("prod-eu_1.a").is_ok());
    for bad in ["", "a b", "a/b", "ü", &"x".repeat(101)] {
        assert!(check_cluster_name(bad).is_err(), "{bad:?}");
    }
}

/// A namespace of one letter takes 1,024 bytes and 8 for each of its 3 on the wire: three of them fit into 3,200.
fn bounded() -> (Session, Ledger) {
    let ledger = Ledger::new(3_200, u64::MAX);
    let settings = Settings { ledger: ledger.clone(), ..Settings::default() };
    (Session::new("blue".into(), settings, Arc::default(), ReadPools::new(|_| Vec::new())), ledger)
}

#[test]
fn a_session_that_has_the_server_remember_too_much_ends_by_snapshot_and_by_delta_alike() {
    let four = || ["a", "b", "c", "d"].map(namespace).to_vec();
    let (mut session, ledger) = bounded();
    open(&mut session, 3);
    hear(&mut session, begin(1));
    assert_eq!(hear(&mut session, chunk(1, 0, four())), ["disconnected", "hang up"]);
    assert_eq!(ledger.held(), 0, "what was refused is forgotten");

    let (mut session, ledger) = bounded();
    open(&mut session, 3);
    hear(&mut session, begin(1));
    hear(&mut session, end(1, 0, 0));
    hear(&mut session, delta(1, vec![namespace("a"), namespace("b"), namespace("c")]));
    assert_eq!(ledger.held(), 3 * 1_048);
    assert_eq!(hear(&mut session, delta(2, vec![namespace("d")])), ["disconnected", "hang up"]);
    assert_eq!(ledger.held(), 3 * 1_048, "what is believed stays");
    // The next snapshot takes its place.
    open(&mut session, 4);
    hear(&mut session, begin(1));
    hear(&mut session, chunk(1, 0, vec![namespace("a")]));
    hear(&mut session, end(1, 1, 1));
    assert_eq!(ledger.held(), 1_048);
}

#[test]
fn an_agent_that_does_not_say_which_cluster_it_is_is_turned_away() {
    let refused = session().admits(&hello("", 0)).unwrap_err();
    assert!(refused.contains("no cluster UID"), "{refused}");
}

#[test]
fn an_object_that_cannot_be_read_does_not_end_the_stream() {
    let mut session = following();
    // 10E is 10^19, more than 64 bits hold.
    let quantity = v1::Quantity { resource: "example.com/x".into(), amount: "10E".into() };
    let node = v1::NodeRecord { name: "n".into(), allocatable: vec![quantity], ..v1::NodeRecord::default() };
    let changes = vec![v1::Change { change: Some(Change::Node(node)) }, namespace("a")];
    assert_eq!(hear(&mut session, delta(1, changes.clone())), ["object", "namespace a", "object"]);
    assert!(hear(&mut session, begin(2)).is_empty());
    assert!(hear(&mut session, chunk(2, 0, changes)).is_empty());
    assert_eq!(hear(&mut session, end(2, 1, 2)), ["snapshot of 2"]);
}

/// What is told of the agent's clock, which shows `taken_at` when a snapshot begins and `later` at a heartbeat, while ours shows
/// 1,000,000.
fn told_of_clock(taken_at: i64, later: i64) -> Vec<String> {
    let mut session = session();
    open(&mut session, 3);
    let hear = |session: &mut Session, message| {
        session.heard(v1::ConnectRequest { message: Some(message) }, Timestamp(1_000_000))
    };
    hear(&mut session, part(1, snapshot::Part::Begin(v1::SnapshotBegin { taken_at_ms: taken_at })));
    let mut outputs = hear(&mut session, end(1, 0, 0));
    let beat = v1::Heartbeat { last_sequence: 0, sent_at_ms: later };
    outputs.extend(hear(&mut session, connect_request::Message::Heartbeat(beat)));
    let word = |output| match output {
        Output::Tell(SessionEvent::Happened(Event::Observed { observation, .. })) => match observation {
            Observation::Snapshot(picture) => picture.problems.first().map(|problem| problem.reason.to_string()),
            Observation::Upsert(object) => match *object {
                Object::Problem(problem) => Some(problem.reason.to_string()),
                other => panic!("{other:?}"),
            },
            Observation::Delete(key) => Some(format!("{key:?}")),
        },
        other => panic!("{other:?}"),
    };
    outputs.into_iter().filter_map(word).collect()
}

#[test]
fn an_agent_whose_clock_differs_by_more_than_half_a_minute_is_told_of() {
    assert!(told_of_clock(970_000, 1_030_000).is_empty(), "half a minute is what messages may take");
    let told = told_of_clock(1_600_000, 1_600_000);
    assert!(told.len() == 1 && told[0].contains("600 s ahead of"), "{told:?}");
    let told = told_of_clock(1_000_000, 969_999);
    assert!(told.len() == 1 && told[0].contains("30 s behind"), "{told:?}");
    let told = told_of_clock(1_600_000, 1_000_000);
    assert_eq!(told[1], "Problem(\"the agent's clock\")", "it was set right");
    assert!(told_of_clock(0, 0).is_empty(), "an older agent does not tell");
}
