use engine::control::{Instruction, InstructionId, LaunchFailure};
use engine::model::CapacityType;

use super::*;

fn text(value: &str) -> Text {
    Text::from(value)
}

fn terminate(claim: &str) -> Effect {
    let (cluster, cluster_uid) = (text("c1"), text("uid-1"));
    Effect::Terminate { cluster, cluster_uid, claim: text(claim), provider_id: text("aws:///z/i-1") }
}

fn delete(claim: &str, id: u64) -> Effect {
    let instruction =
        Instruction::DeleteClaim { claim: text(claim), node: None, provider_id: text(""), reason: text("test") };
    Effect::Instruct { cluster: text("c1"), id: InstructionId(id), instruction: Box::new(instruction) }
}

fn launch(claim: &str) -> Effect {
    Effect::Launch(Box::new(engine::control::LaunchOrder {
        cluster: text("c1"),
        cluster_uid: text("uid-1"),
        claim: text(claim),
        attempt: 1,
        token: text("token"),
        pool: text("pool"),
        node_class: text("default"),
        capacity_type: CapacityType::Spot,
        options: Vec::new(),
        reservation: None,
        terms: text(""),
        repeats: false,
    }))
}

fn run(steps: &[Step]) -> (CommandId, &Command) {
    match steps {
        [Step::Run { id, command, .. }] => (*id, command),
        other => panic!("expected one command, got {other:?}"),
    }
}

fn again() -> Outcome {
    Outcome::TryAgain { after_ms: None, why: String::from("test") }
}

#[test]
fn commands_about_one_claim_are_serialized_and_others_do_not_wait() {
    let mut executor = Executor::new(1);
    let (first, _) = run(&executor.start(delete("a", 1), Timestamp(0)));
    assert_eq!(executor.start(delete("a", 2), Timestamp(0)), []);
    run(&executor.start(delete("b", 3), Timestamp(0)));
    let steps = executor.outcome(first, Outcome::Done, Timestamp(1));
    let acked = Event::InstructionAcked { cluster: text("c1"), instruction: InstructionId(1) };
    let [Step::Handle(event), Step::Run { command, .. }] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(**event, acked);
    assert!(matches!(command, Command::Instruct { id: InstructionId(2), .. }), "{command:?}");
}

#[test]
fn a_launch_without_an_answer_is_repeated_and_marked_as_repeated() {
    let mut executor = Executor::new(1);
    let steps = executor.start(launch("a"), Timestamp(0));
    let (id, command) = run(&steps);
    // The answer may take 60 s; after that the first back-off is at most 0.5 s.
    assert_eq!(executor.next_wakeup(), Some(Timestamp(60_000)));
    assert_eq!(executor.tick(Timestamp(60_000)), []);
    let due = executor.next_wakeup().unwrap();
    assert!(due > Timestamp(60_000) && due <= Timestamp(60_500), "{due:?}");
    let Command::Launch(mut expected) = command.clone() else { panic!("{command:?}") };
    expected.repeats = true;
    let repeated = executor.tick(due);
    assert_eq!(run(&repeated), (id, &Command::Launch(expected)));
}

#[test]
fn a_late_answer_counts_and_a_second_one_does_not() {
    let mut executor = Executor::new(1);
    let (id, _) = run(&executor.start(launch("a"), Timestamp(0)));
    executor.tick(Timestamp(60_000));
    let failure = LaunchFailure::NoCapacity { unavailable: Vec::new() };
    let event = executor.outcome(id, Outcome::LaunchFailed(failure.clone()), Timestamp(60_100));
    let expected = Event::LaunchFailed { cluster: text("c1"), claim: text("a"), attempt: 1, failure: failure.clone() };
    assert_eq!(event, [Step::Handle(Box::new(expected))]);
    assert_eq!(executor.outcome(id, Outcome::LaunchFailed(failure), Timestamp(60_200)), []);
    assert_eq!(executor.pending_count(), 0);
}

#[test]
fn a_retry_respects_the_minimum_delay_of_the_cloud() {
    let mut executor = Executor::new(1);
    let (id, _) = run(&executor.start(launch("a"), Timestamp(0)));
    executor.outcome(id, Outcome::TryAgain { after_ms: Some(9_000), why: String::new() }, Timestamp(0));
    assert_eq!(executor.next_wakeup(), Some(Timestamp(9_000)));
}

#[test]
fn an_accepted_termination_frees_its_queue_and_is_queried_later() {
    let mut executor = Executor::new(1);
    let (id, _) = run(&executor.start(terminate("a"), Timestamp(0)));
    assert_eq!(executor.outcome(id, Outcome::Begun, Timestamp(0)), []);
    run(&executor.start(delete("b", 1), Timestamp(0)));
    let steps = executor.tick(Timestamp(30_000));
    let queried = steps.iter().any(|step| matches!(step, Step::Run { command: Command::Terminate { .. }, .. }));
    assert!(queried, "{steps:?}");
}

#[test]
fn an_instance_that_the_cloud_reported_gone_is_not_queried() {
    let mut executor = Executor::new(1);
    let (id, _) = run(&executor.start(terminate("a"), Timestamp(0)));
    executor.outcome(id, Outcome::Begun, Timestamp(0));
    executor.observe(&Event::InstanceGone { cluster: text("c1"), provider_id: text("aws:///z/i-1") });
    assert_eq!(executor.next_wakeup(), None);
}

#[test]
fn failures_wait_longer_each_time() {
    let mut executor = Executor::new(1);
    let (id, _) = run(&executor.start(launch("a"), Timestamp(0)));
    let mut now = Timestamp(0);
    let mut waits = Vec::new();
    for _ in 0..4 {
        executor.outcome(id, again(), now);
        let due = executor.next_wakeup().unwrap();
        waits.push(due.millis_since(now));
        now = due;
        run(&executor.tick(now));
    }
    // Steps of 500, 1000, 2000 and 4000 ms, each wait from half of its step to all of it.
    for (wait, step) in waits.iter().zip([500, 1000, 2000, 4000]) {
        assert!((step / 2..=step).contains(wait), "{wait} of {step}");
    }
}

#[test]
fn a_launch_event_contains_the_unavailable_options() {
    let mut executor = Executor::new(1);
    let (id, _) = run(&executor.start(launch("a"), Timestamp(0)));
    let unavailable = vec![(text("t.2"), text("z"))];
    let outcome = Outcome::Launched {
        provider_id: text("aws:///z/i-1"),
        instance_type: text("t.4"),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        unavailable: unavailable.clone(),
    };
    let steps = executor.outcome(id, outcome, Timestamp(1));
    let [Step::Handle(event)] = steps.as_slice() else { panic!("{steps:?}") };
    let Event::Launched(launched) = event.as_ref() else { panic!("{event:?}") };
    assert_eq!(launched.unavailable, unavailable);
}

#[test]
fn recording_a_launch_is_retried_until_done_and_causes_no_event() {
    let mut executor = Executor::new(1);
    let (cluster, claim, provider_id) = (text("c1"), text("a"), text("aws:///z/i-1"));
    let steps = executor.start(Effect::RecordLaunched { cluster, claim, attempt: 1, provider_id }, Timestamp(0));
    let (id, command) = run(&steps);
    assert!(matches!(command, Command::RecordLaunched { attempt: 1, .. }), "{command:?}");
    assert_eq!(executor.outcome(id, again(), Timestamp(1)), []);
    let due = executor.next_wakeup().unwrap();
    assert_eq!(run(&executor.tick(due)).0, id);
    assert_eq!(executor.outcome(id, Outcome::Done, due), []);
    assert_eq!(executor.pending_count(), 0);
}
