use crate::{Instruction, InstructionId};
use model::{CapacityType, LaunchFailure};

use super::*;
use cluster::testing::text;

fn terminate(claim: &str) -> Operation {
    let (cluster_uid, provider_id) = (text("uid-1"), text("aws:///z/i-1"));
    Operation::Call(ClusterCall::Terminate { cluster_uid, claim: text(claim), provider_id })
}

fn delete(claim: &str, id: u64) -> Operation {
    let instruction =
        Instruction::DeleteClaim { claim: text(claim), node: None, provider_id: text(""), reason: text("test") };
    Operation::Instruct { id: InstructionId(id), instruction: Box::new(instruction) }
}

fn launch(claim: &str) -> Operation {
    Operation::Call(ClusterCall::Launch(Box::new(model::LaunchOrder {
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
        template: None,
        lane: model::PriorityLane::Pending,
        repeats: false,
    })))
}

fn run(commands: impl IntoIterator<Item = Command>) -> (CommandId, Operation) {
    let commands: Vec<Command> = commands.into_iter().collect();
    match <[Command; 1]>::try_from(commands) {
        Ok([Command { id, operation, .. }]) => (id, operation),
        Err(other) => panic!("expected one command, got {other:?}"),
    }
}

fn again() -> Outcome {
    Err(Retry { after: None, why: String::from("test") })
}

fn acked(id: u64) -> Event {
    Event::InstructionAcked(InstructionId(id))
}

#[test]
fn commands_about_one_claim_are_serialized_and_others_do_not_wait() {
    let mut executor = Executor::new(1);
    let (first, _) = run(executor.start(delete("a", 1), Timestamp::from_millis(0)));
    assert_eq!(executor.start(delete("a", 2), Timestamp::from_millis(0)), None);
    run(executor.start(delete("b", 3), Timestamp::from_millis(0)));
    let (event, next) = executor.handle_outcome(first, Ok(Some(acked(1))), Timestamp::from_millis(1));
    assert_eq!(event, Some(acked(1)));
    let (_, operation) = run(next);
    assert!(matches!(operation, Operation::Instruct { id: InstructionId(2), .. }), "{operation:?}");
}

#[test]
fn the_answer_of_an_agent_ends_its_instruction_once_and_sends_the_one_that_waited() {
    let mut executor = Executor::new(1);
    run(executor.start(delete("a", 1), Timestamp::from_millis(0)));
    assert_eq!(executor.start(delete("a", 2), Timestamp::from_millis(0)), None);
    let (_, operation) = run(executor.observe(&acked(1), Timestamp::from_millis(1)));
    assert!(matches!(operation, Operation::Instruct { id: InstructionId(2), .. }), "{operation:?}");
    assert_eq!(executor.observe(&acked(1), Timestamp::from_millis(2)), None);
    assert_eq!(executor.pending_count(), 1);
    let failed = Event::InstructionFailed { instruction: InstructionId(2), reason: String::new(), unmet: false };
    assert_eq!(executor.observe(&failed, Timestamp::from_millis(3)), None);
    assert_eq!((executor.pending_count(), executor.next_wakeup()), (0, None));
}

#[test]
fn a_launch_without_an_answer_is_repeated_and_marked_as_repeated() {
    let mut executor = Executor::new(1);
    let (id, operation) = run(executor.start(launch("a"), Timestamp::from_millis(0)));
    // The answer may take 60 s; after that the first back-off is at most 0.5 s.
    assert_eq!(executor.next_wakeup(), Some(Timestamp::from_millis(60_000)));
    assert_eq!(executor.tick(Timestamp::from_millis(60_000)), []);
    let due = executor.next_wakeup().unwrap();
    assert!(due > Timestamp::from_millis(60_000) && due <= Timestamp::from_millis(60_500), "{due:?}");
    let Operation::Call(ClusterCall::Launch(mut expected)) = operation else { panic!("{operation:?}") };
    expected.repeats = true;
    assert_eq!(run(executor.tick(due)), (id, Operation::Call(ClusterCall::Launch(expected))));
}

#[test]
fn a_late_answer_counts_and_a_second_one_does_not() {
    let mut executor = Executor::new(1);
    let (id, _) = run(executor.start(launch("a"), Timestamp::from_millis(0)));
    executor.tick(Timestamp::from_millis(60_000));
    let failure = LaunchFailure::InsufficientCapacity { unavailable: Vec::new() };
    let failed = Event::LaunchFailed { claim: text("a"), attempt: 1, failure };
    let outcome = || Ok(Some(failed.clone()));
    assert_eq!(executor.handle_outcome(id, outcome(), Timestamp::from_millis(60_100)), (Some(failed.clone()), None));
    assert_eq!(executor.handle_outcome(id, outcome(), Timestamp::from_millis(60_200)), (None, None));
    assert_eq!(executor.pending_count(), 0);
}

#[test]
fn a_retry_respects_the_minimum_delay_of_the_cloud() {
    let mut executor = Executor::new(1);
    let (id, _) = run(executor.start(launch("a"), Timestamp::from_millis(0)));
    let throttled = Err(Retry { after: Some(Millis::from_secs(9)), why: String::new() });
    executor.handle_outcome(id, throttled, Timestamp::from_millis(0));
    assert_eq!(executor.next_wakeup(), Some(Timestamp::from_millis(9_000)));
}

#[test]
fn an_accepted_termination_frees_its_queue_and_is_queried_later() {
    let mut executor = Executor::new(1);
    let (id, _) = run(executor.start(terminate("a"), Timestamp::from_millis(0)));
    assert_eq!(executor.handle_outcome(id, Ok(None), Timestamp::from_millis(0)), (None, None));
    run(executor.start(delete("b", 1), Timestamp::from_millis(0)));
    let commands = executor.tick(Timestamp::from_millis(30_000));
    let queried =
        commands.iter().any(|command| matches!(command.operation, Operation::Call(ClusterCall::Terminate { .. })));
    assert!(queried, "{commands:?}");
}

#[test]
fn an_instance_that_the_cloud_reported_gone_is_not_queried() {
    let mut executor = Executor::new(1);
    let (id, _) = run(executor.start(terminate("a"), Timestamp::from_millis(0)));
    executor.handle_outcome(id, Ok(None), Timestamp::from_millis(0));
    let gone = Event::InstanceGone(text("aws:///z/i-1"));
    assert_eq!(executor.observe(&gone, Timestamp::from_millis(1)), None);
    assert_eq!(executor.next_wakeup(), None);
}

#[test]
fn failures_wait_longer_each_time() {
    let mut executor = Executor::new(1);
    let (id, _) = run(executor.start(launch("a"), Timestamp::from_millis(0)));
    let mut now = Timestamp::from_millis(0);
    let mut waits = Vec::new();
    for _ in 0..4 {
        executor.handle_outcome(id, again(), now);
        let due = executor.next_wakeup().unwrap();
        waits.push(due.duration_since(now).get());
        now = due;
        run(executor.tick(now));
    }
    // Steps of 500, 1000, 2000 and 4000 ms, each wait from half of its step to all of it.
    for (wait, step) in waits.iter().zip([500, 1000, 2000, 4000]) {
        assert!((step / 2..=step).contains(wait), "{wait} of {step}");
    }
}

#[test]
fn recording_a_launch_is_retried_until_done_and_causes_no_event() {
    let mut executor = Executor::new(1);
    let (claim, provider_id) = (text("a"), text("aws:///z/i-1"));
    let record = Operation::Call(ClusterCall::RecordLaunched { claim, attempt: 1, provider_id });
    let (id, operation) = run(executor.start(record.clone(), Timestamp::from_millis(0)));
    assert_eq!(operation, record);
    assert_eq!(executor.handle_outcome(id, again(), Timestamp::from_millis(1)), (None, None));
    let due = executor.next_wakeup().unwrap();
    assert_eq!(run(executor.tick(due)).0, id);
    assert_eq!(executor.handle_outcome(id, Ok(None), due), (None, None));
    assert_eq!(executor.pending_count(), 0);
}

fn drain(claim: &str, id: u64) -> Operation {
    let instruction = Instruction::Drain {
        claim: text(claim),
        node: text("n"),
        provider_id: text(""),
        deadline: None,
        interruption: false,
        only_if_empty: false,
        reason: text("test"),
    };
    Operation::Instruct { id: InstructionId(id), instruction: Box::new(instruction) }
}

#[test]
fn a_drain_does_not_wait_for_an_earlier_one_of_the_same_claim() {
    let now = Timestamp::from_millis(0);
    let mut executor = Executor::new(1);
    let (first, _) = run(executor.start(drain("a", 1), now));
    let (second, operation) = run(executor.start(drain("a", 2), now));
    assert!(matches!(operation, Operation::Instruct { id: InstructionId(2), .. }), "{operation:?}");
    assert_eq!(executor.start(delete("a", 3), now), None, "other commands still wait");
    assert_eq!(executor.handle_outcome(first, Ok(Some(acked(1))), now), (None, None), "nobody waits for it");
    let (event, next) = executor.handle_outcome(second, Ok(Some(acked(2))), now);
    assert_eq!(event, Some(acked(2)));
    let (_, operation) = run(next);
    assert!(matches!(operation, Operation::Instruct { id: InstructionId(3), .. }), "{operation:?}");
}

#[test]
fn a_drain_waits_for_an_earlier_command_of_another_kind() {
    let now = Timestamp::from_millis(0);
    let mut executor = Executor::new(1);
    let (first, _) = run(executor.start(terminate("a"), now));
    assert_eq!(executor.start(drain("a", 2), now), None);
    assert_eq!(executor.start(drain("a", 3), now), None);
    let (_, next) = executor.handle_outcome(first, Ok(None), now);
    let (_, operation) = run(next);
    assert!(matches!(operation, Operation::Instruct { id: InstructionId(3), .. }), "{operation:?}");
}
