//! Executes instructions: attempts repeat until the API server accepts or permanently rejects them.
//!
//! Every action reads the present state and writes only what is missing. An interrupted attempt is
//! therefore completed by the next one, and a repeated instruction changes nothing.
//!
//! An instruction about a NodeClaim writes its epoch and generation into an annotation of the claim
//! ([`INSTRUCTION_ANNOTATION`]), on the version of the object that was read. A restarted agent
//! recognizes stale instructions by it and needs no other state; the annotation is deleted with the
//! claim. Status, finalizers and events of other objects have no rank: the server computes them
//! again, and the last write applies.

pub mod claim;
pub mod drain;
pub mod event;
pub mod guard;
pub mod node;
pub mod write;

use std::time::{Duration, Instant};

use agent::Done;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;
use fleetwright_proto::v1::instruction::Action;
use serde_json::{Value, json};
use tracing::warn;

use crate::cluster::Kubernetes;
use crate::error::{ApiError, ErrorKind};
use crate::fields::text_at;
use crate::resource::NODE_CLAIM;

/// Annotation of a NodeClaim: epoch and generation of the newest instruction that was begun on it,
/// as `epoch/generation`.
pub const INSTRUCTION_ANNOTATION: &str = "fleetwright.dev/obeyed";

/// The finalizer that blocks the deletion of a NodeClaim and its Node until the instance is
/// terminated.
pub const FINALIZER: &str = "karpenter.sh/termination";

/// Duration for which transient errors are retried. Then the instruction fails, and the server
/// decides again. A drain is retried without limit: an unreachable API server must not leave a Node
/// tainted and not drained.
const RETRY_LIMIT: Duration = Duration::from_secs(300);

/// Wait before an object is read again after a conflict.
const CONFLICT_DELAY: Duration = Duration::from_millis(20);

/// Consecutive conflicts that are retried at once. An object that changes under every attempt is
/// written by a competing controller, and every round costs the API server.
const MAX_QUICK_CONFLICTS: u32 = 5;

/// Result of one attempt: done, or an error that may be retried.
pub(crate) type Attempt = Result<Done, ApiError>;

/// Carries out `instruction`.
pub(crate) async fn execute_instruction(cluster: &Kubernetes, instruction: &v1::Instruction) -> Done {
    let begun = Instant::now();
    let endless = matches!(instruction.action, Some(Action::DrainNode(_)));
    let mut backoff = Backoff::new(instruction.generation);
    let mut conflicts = 0;
    loop {
        let error = match attempt_action(cluster, instruction).await {
            Ok(done) => return done,
            Err(error) => error,
        };
        if !error.is_transient() || (!endless && begun.elapsed() >= RETRY_LIMIT) {
            return failed_instruction(&error);
        }
        conflicts = if error.kind == ErrorKind::Conflict { conflicts + 1 } else { 0 };
        let wait = retry_delay(&error, conflicts, &mut backoff);
        if error.kind != ErrorKind::Conflict {
            warn!(id = instruction.id, subject = instruction.subject, %error, retry_in_ms = wait.as_millis(), "instruction failed; retrying");
        }
        tokio::time::sleep(wait).await;
    }
}

/// Delay after `error`, the last of `conflicts` consecutive conflicts.
fn retry_delay(error: &ApiError, conflicts: u32, backoff: &mut Backoff) -> Duration {
    if (1..=MAX_QUICK_CONFLICTS).contains(&conflicts) {
        return CONFLICT_DELAY;
    }
    let least = Duration::from_millis(backoff.next_wait_ms());
    error.retry_after.map_or(least, |asked| asked.max(least))
}

async fn attempt_action(cluster: &Kubernetes, instruction: &v1::Instruction) -> Attempt {
    let Some(action) = &instruction.action else {
        return Ok(Done::failed(v1::Outcome::Unsupported, "the instruction has no action that this agent supports"));
    };
    match action {
        Action::CreateNodeClaim(action) => claim::create_claim(cluster, rank(instruction), action).await,
        Action::MarkLaunched(action) => claim::mark_launched(cluster, rank(instruction), action).await,
        Action::RegisterNode(action) => node::register_node(cluster, rank(instruction), action).await,
        Action::NominatePods(action) => node::nominate_pods(cluster, action).await,
        Action::InitializeNode(action) => node::initialize_node(cluster, rank(instruction), action).await,
        Action::DrainNode(action) => drain::drain_node(cluster, rank(instruction), action).await,
        Action::DeleteNodeClaim(action) => claim::delete_claim(cluster, rank(instruction), action).await,
        Action::WriteObject(action) => write::write_object(cluster, action).await,
        Action::RecordEvent(action) => event::record_event(cluster, action).await,
    }
}

/// The result of an instruction that the API server permanently rejects.
fn failed_instruction(error: &ApiError) -> Done {
    let outcome = if error.kind == ErrorKind::NotFound { v1::Outcome::NotFound } else { v1::Outcome::Failed };
    Done::failed(outcome, error)
}

/// Epoch and generation: the order of two instructions on one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Rank {
    epoch: u64,
    generation: u64,
}

fn rank(instruction: &v1::Instruction) -> Rank {
    Rank { epoch: instruction.epoch, generation: instruction.generation }
}

impl Rank {
    /// The value of [`INSTRUCTION_ANNOTATION`].
    pub(crate) fn to_annotation(self) -> String {
        format!("{}/{}", self.epoch, self.generation)
    }

    fn parse(note: &str) -> Option<Self> {
        let (epoch, generation) = note.split_once('/')?;
        Some(Self { epoch: epoch.parse().ok()?, generation: generation.parse().ok()? })
    }

    /// The rank of the newest instruction on `claim`; the default without an annotation.
    fn of_claim(claim: &Value) -> Self {
        let note =
            claim.pointer("/metadata/annotations").and_then(|annotations| annotations.get(INSTRUCTION_ANNOTATION));
        note.and_then(Value::as_str).and_then(Self::parse).unwrap_or_default()
    }
}

/// Whether an instruction on a claim may be executed.
pub(crate) enum Admission {
    /// The instruction may be executed; this is the annotated claim.
    Admitted(Value),
    /// The instruction must not be executed; this is its result.
    Refused(Done),
}

/// Annotates the NodeClaim with the rank of this instruction, unless a newer one is recorded.
pub(crate) async fn admit_instruction(cluster: &Kubernetes, rank: Rank, name: &str) -> Result<Admission, ApiError> {
    let claim: Value = cluster.api().get(&NODE_CLAIM.one("", name)).await?;
    admit_claim(cluster, rank, claim).await
}

/// The same for a NodeClaim that was just read.
pub(crate) async fn admit_claim(cluster: &Kubernetes, rank: Rank, claim: Value) -> Result<Admission, ApiError> {
    let name = text_at(&claim, "/metadata/name");
    let path = NODE_CLAIM.one("", name);
    let noted = Rank::of_claim(&claim);
    if noted > rank {
        return Ok(Admission::Refused(stale_instruction(noted, name)));
    }
    if noted == rank {
        return Ok(Admission::Admitted(claim));
    }
    let patch = json!({ "metadata": {
        "resourceVersion": claim.pointer("/metadata/resourceVersion"),
        "annotations": { INSTRUCTION_ANNOTATION: rank.to_annotation() },
    } });
    Ok(Admission::Admitted(cluster.api().patch(&path, &patch).await?))
}

pub(crate) fn stale_instruction(noted: Rank, name: &str) -> Done {
    let why = format!("NodeClaim {name} was last changed by generation {} of epoch {}", noted.generation, noted.epoch);
    Done::failed(v1::Outcome::Stale, why)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod ranks {
    use super::*;

    #[test]
    fn an_object_that_changes_under_every_attempt_is_not_written_fifty_times_a_second() {
        let conflict = ApiError { kind: ErrorKind::Conflict, ..ApiError::unreachable("PATCH /x".into(), "changed") };
        let mut backoff = Backoff::new(1);
        let waits: Vec<Duration> = (1..=12).map(|number| retry_delay(&conflict, number, &mut backoff)).collect();
        assert!(waits[..5].iter().all(|wait| *wait == CONFLICT_DELAY), "{waits:?}");
        // The seventh growing wait is 16 s, the longest 10 s; each is reduced by at most a half.
        assert!(waits[5] >= Duration::from_millis(125) && waits[11] >= Duration::from_secs(5), "{waits:?}");
    }

    #[test]
    fn an_api_server_that_asks_for_no_time_is_given_some() {
        let busy = ApiError {
            kind: ErrorKind::TooMany,
            retry_after: Some(Duration::ZERO),
            ..ApiError::unreachable("".into(), "")
        };
        assert!(retry_delay(&busy, 0, &mut Backoff::new(1)) >= Duration::from_millis(125));
        let asks = ApiError { retry_after: Some(Duration::from_secs(7)), ..busy };
        assert_eq!(retry_delay(&asks, 0, &mut Backoff::new(1)), Duration::from_secs(7));
    }

    #[test]
    fn a_later_epoch_outweighs_any_generation() {
        let noted =
            |note: &str| Rank::of_claim(&json!({ "metadata": { "annotations": { INSTRUCTION_ANNOTATION: note } } }));
        let rank = Rank { epoch: 3, generation: 7 };
        assert_eq!(noted(&rank.to_annotation()), rank);
        assert!(noted("2/99") < rank && noted("3/8") > rank && noted("4/1") > rank);
        // An annotation that cannot be parsed counts as absent.
        assert_eq!(noted("seven"), Rank::default());
        assert_eq!(Rank::of_claim(&json!({})), Rank::default());
    }
}
