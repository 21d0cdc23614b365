use super::*;
use connect_request::Message;
use v1::Outcome;

fn link(highest_epoch: u64) -> Link {
    Link::new(AgentIdentity { cluster_name: "blue".into(), ..AgentIdentity::default() }, highest_epoch, 1)
}

fn welcome(epoch: u64) -> v1::ConnectResponse {
    let welcome = v1::Welcome { epoch, heartbeat_interval_ms: 1_000, ..v1::Welcome::default() };
    v1::ConnectResponse { message: Some(connect_response::Message::Welcome(welcome)) }
}

fn instruction(id: &str, epoch: u64) -> v1::ConnectResponse {
    let instruction = v1::Instruction {
        id: id.into(),
        epoch,
        generation: 1,
        deadline_ms: 1_000_000,
        remaining_ms: None,
        subject: format!("nodeclaim/{id}"),
        action: Some(v1::instruction::Action::DrainNode(v1::DrainNode::default())),
        ..v1::Instruction::default()
    };
    v1::ConnectResponse { message: Some(connect_response::Message::Instruction(instruction)) }
}

fn resync() -> v1::ConnectResponse {
    v1::ConnectResponse { message: Some(connect_response::Message::Resync(v1::Resync::default())) }
}

fn namespace(name: &str) -> Record {
    Record::plain(v1::change::Change::Namespace(v1::NamespaceRecord { name: name.into(), labels: Vec::new() }))
}

fn words(outputs: &[Output]) -> Vec<String> {
    outputs.iter().map(word).collect()
}

fn word(output: &Output) -> String {
    match output {
        Output::TakeSnapshot => "take".into(),
        Output::SendSpans(request) => match &request.message {
            Some(Message::Spans(message)) => format!("spans {}", message.spans.len()),
            other => panic!("{other:?}"),
        },
        Output::RaiseEpoch(epoch) => format!("raise {epoch}"),
        Output::Execute(instruction) => format!("do {}", instruction.id),
        Output::ClockSkew(ahead) => format!("{ahead} ms ahead"),
        Output::CloseStream(_) => "hang up".into(),
        Output::Send(request) => match &request.message {
            Some(Message::Snapshot(snapshot)) => match &snapshot.part {
                Some(snapshot::Part::Begin(_)) => format!("begin {}", snapshot.id),
                Some(snapshot::Part::Chunk(chunk)) => format!("chunk of {}", chunk.changes.len()),
                Some(snapshot::Part::End(end)) => format!("end of {}", end.change_count),
                None => "nothing".into(),
            },
            Some(Message::Delta(delta)) => format!("delta {}", delta.sequence),
            Some(Message::Ack(ack)) => format!("ack {} {}", ack.instruction_id, ack.outcome().as_str_name()),
            Some(Message::Heartbeat(heartbeat)) => format!("heartbeat {}", heartbeat.last_sequence),
            Some(Message::Hello(_) | Message::Spans(_) | Message::ApiServerStatus(_)) | None => "other".into(),
        },
    }
}

/// A link that is following, under epoch 3.
fn following() -> Link {
    let mut link = link(0);
    link.open_stream(0);
    assert_eq!(words(&link.handle_response(welcome(3), 0)), ["raise 3", "take"]);
    assert_eq!(words(&link.send_snapshot(vec![namespace("a")], 0)), ["begin 1", "chunk of 1", "end of 1"]);
    link
}

#[test]
fn deltas_are_numbered_from_one_after_each_snapshot() {
    let mut link = following();
    assert_eq!(words(&link.send_changes(vec![namespace("b")], 0)), ["delta 1"]);
    assert_eq!(words(&link.send_changes(vec![namespace("c")], 0)), ["delta 2"]);
    assert_eq!(words(&link.handle_response(resync(), 0)), ["take"]);
    assert!(link.send_changes(vec![namespace("d")], 0).is_empty(), "the coming snapshot has it");
    assert_eq!(words(&link.send_snapshot(Vec::new(), 0)), ["begin 2", "end of 0"]);
    assert_eq!(words(&link.send_changes(vec![namespace("e")], 0)), ["delta 1"]);
}

#[test]
fn nothing_is_sent_between_hello_and_welcome() {
    let mut link = link(0);
    link.open_stream(0);
    assert!(link.send_changes(vec![namespace("a")], 0).is_empty());
    assert!(link.send_snapshot(vec![namespace("a")], 0).is_empty());
    assert!(link.handle_response(resync(), 0).is_empty());
    assert_eq!(words(&link.handle_response(instruction("1", 3), 0)), ["hang up"]);
}

#[test]
fn a_server_that_lost_the_cluster_is_left() {
    let mut link = link(5);
    let hello = link.open_stream(0);
    assert!(matches!(hello.message, Some(Message::Hello(hello)) if hello.highest_epoch == 5));
    assert_eq!(words(&link.handle_response(welcome(4), 0)), ["hang up"]);
    link.open_stream(0);
    assert_eq!(words(&link.handle_response(welcome(5), 0)), ["take"]);
}

#[test]
fn results_outlive_the_stream() {
    let mut link = following();
    assert_eq!(words(&link.handle_response(instruction("1", 3), 0)), ["do 1"]);
    assert_eq!(words(&link.handle_response(instruction("2", 3), 0)), ["do 2"]);
    assert_eq!(words(&link.finish_instruction("1", Done::ok(), 0)), ["ack 1 OUTCOME_DONE"]);
    link.close_stream();
    let failed = Done::failed(Outcome::Failed, "refused");
    assert!(link.finish_instruction("2", failed, 0).is_empty(), "there is no stream");
    link.open_stream(0);
    assert_eq!(words(&link.handle_response(welcome(4), 0)), ["raise 4", "take"]);
    let outputs = words(&link.send_snapshot(Vec::new(), 0));
    assert_eq!(outputs, ["begin 1", "end of 0", "ack 1 OUTCOME_DONE", "ack 2 OUTCOME_FAILED"]);
    // A repeated instruction is acknowledged and not executed.
    assert_eq!(words(&link.handle_response(instruction("2", 4), 0)), ["ack 2 OUTCOME_FAILED"]);
}

#[test]
fn heartbeats_come_only_after_silence() {
    let mut link = following();
    assert!(link.tick(999).is_empty());
    link.send_changes(vec![namespace("b")], 999);
    assert!(link.tick(1_998).is_empty());
    assert_eq!(words(&link.tick(1_999)), ["heartbeat 1"]);
    link.close_stream();
    assert!(link.tick(9_999).is_empty());
}

#[test]
fn spans_are_sent_to_a_server_that_asks_for_them_and_are_no_sign_of_life() {
    for (traces, expected) in [(true, vec!["spans 1"]), (false, vec![])] {
        let mut link = link(0);
        link.open_stream(0);
        let welcome = v1::Welcome { epoch: 3, heartbeat_interval_ms: 1_000, traces, ..v1::Welcome::default() };
        let message = Some(connect_response::Message::Welcome(welcome));
        link.handle_response(v1::ConnectResponse { message }, 0);
        link.send_snapshot(Vec::new(), 0);
        let Some(connect_response::Message::Instruction(traced)) = instruction("1", 3).message else { panic!() };
        let traceparent = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01".to_owned();
        let message = Some(connect_response::Message::Instruction(v1::Instruction { traceparent, ..traced }));
        assert_eq!(words(&link.handle_response(v1::ConnectResponse { message }, 0)), ["do 1"]);
        assert_eq!(words(&link.finish_instruction("1", Done::ok(), 100)), ["ack 1 OUTCOME_DONE"]);
        assert_eq!(words(&link.tick(500)), expected);
        assert_eq!(words(&link.tick(1_100)), ["heartbeat 0"], "a second after the acknowledgement");
    }
}

#[test]
fn each_hello_has_the_facts_that_were_set_last() {
    let facts_of = |request: v1::ConnectRequest| match request.message {
        Some(Message::Hello(hello)) => hello.facts.map(|facts| facts.api_endpoint),
        other => panic!("{other:?}"),
    };
    let facts =
        |endpoint: &str| Some(v1::ClusterFacts { api_endpoint: endpoint.into(), ..v1::ClusterFacts::default() });
    let mut link = link(0);
    assert_eq!(facts_of(link.open_stream(0)), None);
    link.set_facts(facts("https://a"));
    assert_eq!(facts_of(link.open_stream(1)).as_deref(), Some("https://a"));
    link.close_stream();
    link.set_facts(facts("https://b"));
    assert_eq!(facts_of(link.open_stream(2)).as_deref(), Some("https://b"));
}

#[test]
fn an_unanswered_hello_is_sent_again_on_another_stream() {
    let mut link = link(0);
    link.open_stream(1_000);
    assert!(link.tick(300_999).is_empty(), "a server that takes many clusters in has a queue");
    assert_eq!(words(&link.tick(301_000)), ["hang up"]);
    link.close_stream();
    assert!(link.tick(900_000).is_empty(), "there is no stream");
}

#[test]
fn an_ended_watch_is_begun_again() {
    let mut link = following();
    assert_eq!(words(&link.request_snapshot()), ["take"]);
    assert!(link.request_snapshot().is_empty());
}

/// The wait after a stream that opens at `now` and lasts `lasts_ms`.
fn wait_after(link: &mut Link, now: i64, lasts_ms: i64) -> u64 {
    link.open_stream(now);
    link.handle_response(welcome(3), now);
    link.send_snapshot(Vec::new(), now);
    link.tick(now + lasts_ms);
    link.close_stream()
}

#[test]
fn a_server_that_ends_the_stream_after_welcome_is_reconnected_with_backoff() {
    let mut link = link(3);
    let waits: Vec<u64> = (0..7).map(|number| wait_after(&mut link, number * 10_000, 2_999)).collect();
    // 250 × 2^6 = 16,000, and the longest is 10,000; each is cut by half at most.
    assert!((5_000..=10_000).contains(&waits[6]), "{waits:?}");
    wait_after(&mut link, 80_000, 3_000);
    assert!(wait_after(&mut link, 90_000, 2_999) <= 500, "one that lived counts as one that came about");
}

#[test]
fn an_agent_that_another_one_replaces_waits_twice_as_long_each_time_up_to_a_minute() {
    let mut link = link(3);
    let mut replaced_after = |now: i64, lasts_ms: i64| {
        wait_after(&mut link, now, lasts_ms);
        link.close_replaced_stream()
    };
    // 1 s × 2^6 = 64 s is the first above a minute; each wait is cut by half at most. Streams of 60 s,
    // the other agent's longest wait, change nothing.
    for (number, full) in (0..).zip([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
        let wait = replaced_after(number * 1_000_000, 60_000);
        assert!((full / 2..=full).contains(&wait), "{wait} for {full}");
    }
    assert!(replaced_after(9_000_000, 119_999) >= 30_000);
    assert!(replaced_after(10_000_000, 120_000) <= 1_000, "nobody replaced a stream of two minutes");
}

/// One Welcome of a wrong server must not make the agent reject the right server permanently.
#[test]
fn an_epoch_beyond_the_largest_jump_is_not_stored() {
    // Epoch 3 was accepted: 3 + 2^32 is allowed, one more is not.
    let farthest = 3 + (1 << 32);
    for epoch in [farthest + 1, u64::MAX] {
        let mut link = link(3);
        link.open_stream(0);
        assert_eq!(words(&link.handle_response(welcome(epoch), 0)), ["hang up"], "{epoch}");
        let mut link = following();
        assert_eq!(words(&link.handle_response(instruction("1", epoch), 0)), ["hang up"], "{epoch}");
        assert_eq!(
            words(&link.handle_response(instruction("2", 3), 0)),
            ["do 2"],
            "what the right server says is obeyed"
        );
    }
    let mut link = link(3);
    link.open_stream(0);
    assert_eq!(words(&link.handle_response(welcome(farthest), 0)), [format!("raise {farthest}"), "take".to_owned()]);
}

/// A drain whose server's clock shows `server` when it has 60 s left to begin and 90 s until pods
/// are deleted.
fn drain_sent_at(server: i64, tells_what_is_left: bool) -> v1::ConnectResponse {
    let drain = v1::DrainNode {
        force_at_ms: Some(server + 90_000),
        force_in_ms: tells_what_is_left.then_some(90_000),
        ..v1::DrainNode::default()
    };
    let instruction = v1::Instruction {
        id: "1".into(),
        epoch: 3,
        deadline_ms: server + 60_000,
        remaining_ms: tells_what_is_left.then_some(60_000),
        action: Some(v1::instruction::Action::DrainNode(drain)),
        ..v1::Instruction::default()
    };
    v1::ConnectResponse { message: Some(connect_response::Message::Instruction(instruction)) }
}

#[test]
fn deadlines_follow_the_remaining_time_whatever_the_clock_skew() {
    // Ten minutes ahead and ten behind.
    for now in [1_600_000, 400_000] {
        let outputs = following().handle_response(drain_sent_at(1_000_000, true), now);
        let [Output::Execute(instruction)] = outputs.as_slice() else { panic!("{outputs:?}") };
        assert_eq!(instruction.deadline_ms, now + 60_000);
        let Some(v1::instruction::Action::DrainNode(drain)) = &instruction.action else { panic!("no drain") };
        assert_eq!(drain.force_at_ms, Some(now + 90_000), "never early");
    }
    let older = following().handle_response(drain_sent_at(1_000_000, false), 1_600_000);
    assert_eq!(words(&older), ["ack 1 OUTCOME_FAILED"], "a server that does not say what is left");
}

#[test]
fn a_clock_skew_beyond_half_a_minute_is_reported() {
    let reported =
        |now: i64, sent_at_ms: i64| {
            let welcome = v1::Welcome { epoch: 3, sent_at_ms, ..v1::Welcome::default() };
            let mut link = link(3);
            link.open_stream(now);
            words(&link.handle_response(
                v1::ConnectResponse { message: Some(connect_response::Message::Welcome(welcome)) },
                now,
            ))
        };
    assert_eq!(reported(1_030_000, 1_000_000), ["take"]);
    assert_eq!(reported(1_030_001, 1_000_000), ["30001 ms ahead", "take"]);
    assert_eq!(reported(400_000, 1_000_000), ["-600000 ms ahead", "take"]);
    assert_eq!(reported(1_600_000, 0), ["take"], "an older server does not tell its time");
}
