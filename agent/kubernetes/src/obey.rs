//! Instructions, carried out: one attempt after the other until the API server agrees or refuses for good.
//!
//! Every action begins by reading what is there and does only what is missing, so an attempt that was cut short anywhere is made
//! good by the next one, and an instruction that comes twice changes nothing.
//!
//! Instructions about a NodeClaim leave their epoch and generation on it ([`OBEYED`]), in an annotation that is written on the
//! version of the object that was read. A restarted agent knows by it which instructions on this claim are stale; it needs no
//! memory of its own, and the note goes when the claim goes. Status, finalizers and events of other objects carry none: what the
//! server computes for them it computes again, and the last writer is right.

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
use crate::error::{ApiError, Kind};
use crate::fields::text_at;
use crate::resource::NODE_CLAIM;

/// Annotation of a NodeClaim: epoch and generation of the newest instruction on it that was begun, as `epoch/generation`.
pub const OBEYED: &str = "fleetwright.dev/obeyed";

/// The finalizer that keeps a NodeClaim and its Node until the machine is gone.
pub const FINALIZER: &str = "karpenter.sh/termination";

/// Refusals that may pass are waited out for this long. Then the server is told, and decides whether to go on: it may have
/// changed its mind in the meantime. A drain that has begun goes on for ever: a node that is barred must not be left so because the
/// API server was away.
const PATIENCE: Duration = Duration::from_secs(300);

/// An object that changed under our hands is read again after this long.
const AFTER_CONFLICT: Duration = Duration::from_millis(20);

/// Conflicts in a row that are made good at once. An object that changes under every attempt is written by a controller that
/// fights with ours, and the API server pays for each round.
const QUICK_CONFLICTS: u32 = 5;

/// What an attempt amounts to.
pub(crate) type Attempt = Result<Done, ApiError>;

/// Carries out `instruction`.
pub(crate) async fn obey(cluster: &Kubernetes, instruction: &v1::Instruction) -> Done {
    let begun = Instant::now();
    let endless = matches!(instruction.action, Some(Action::DrainNode(_)));
    let mut backoff = Backoff::new(instruction.generation);
    let mut conflicts = 0;
    loop {
        let error = match attempt(cluster, instruction).await {
            Ok(done) => return done,
            Err(error) => error,
        };
        if !error.is_transient() || (!endless && begun.elapsed() >= PATIENCE) {
            return refused(&error);
        }
        conflicts = if error.kind == Kind::Conflict { conflicts + 1 } else { 0 };
        let wait = pause(&error, conflicts, &mut backoff);
        if error.kind != Kind::Conflict {
            warn!(id = instruction.id, subject = instruction.subject, %error, retry_in_ms = wait.as_millis(), "cannot obey");
        }
        tokio::time::sleep(wait).await;
    }
}

/// How long to wait after `error`, the last of `conflicts` in a row.
fn pause(error: &ApiError, conflicts: u32, backoff: &mut Backoff) -> Duration {
    if (1..=QUICK_CONFLICTS).contains(&conflicts) {
        return AFTER_CONFLICT;
    }
    let least = Duration::from_millis(backoff.next_wait_ms());
    error.retry_after.map_or(least, |asked| asked.max(least))
}

async fn attempt(cluster: &Kubernetes, instruction: &v1::Instruction) -> Attempt {
    let Some(action) = &instruction.action else {
        return Ok(Done::not(v1::Outcome::Unsupported, "the instruction says nothing that this agent knows"));
    };
    match action {
        Action::CreateNodeClaim(order) => claim::create(cluster, rank(instruction), order).await,
        Action::MarkLaunched(order) => claim::mark_launched(cluster, rank(instruction), order).await,
        Action::RegisterNode(order) => node::register(cluster, rank(instruction), order).await,
        Action::HintPods(order) => node::hint(cluster, order).await,
        Action::InitializeNode(order) => node::initialize(cluster, rank(instruction), order).await,
        Action::DrainNode(order) => drain::drain(cluster, rank(instruction), order).await,
        Action::DeleteNodeClaim(order) => claim::delete(cluster, rank(instruction), order).await,
        Action::WriteObject(order) => write::write(cluster, order).await,
        Action::RecordEvent(order) => event::record(cluster, order).await,
    }
}

/// The API server refused for good.
fn refused(error: &ApiError) -> Done {
    let outcome = if error.kind == Kind::NotFound { v1::Outcome::NotFound } else { v1::Outcome::Failed };
    Done::not(outcome, error)
}

/// Epoch and generation: what tells which of two instructions on one subject is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Rank {
    epoch: u64,
    generation: u64,
}

fn rank(instruction: &v1::Instruction) -> Rank {
    Rank { epoch: instruction.epoch, generation: instruction.generation }
}

impl Rank {
    /// The value of [`OBEYED`].
    pub(crate) fn note(self) -> String {
        format!("{}/{}", self.epoch, self.generation)
    }

    fn read(note: &str) -> Option<Self> {
        let (epoch, generation) = note.split_once('/')?;
        Some(Self { epoch: epoch.parse().ok()?, generation: generation.parse().ok()? })
    }

    /// The newest instruction that `claim` has seen; one without a note has seen none.
    fn noted(claim: &Value) -> Self {
        let note = claim.pointer("/metadata/annotations").and_then(|annotations| annotations.get(OBEYED));
        note.and_then(Value::as_str).and_then(Self::read).unwrap_or_default()
    }
}

/// Whether an instruction on a claim may go on.
pub(crate) enum Admission {
    /// It may; this is the claim, with the note.
    Admitted(Value),
    /// It may not.
    Refused(Done),
}

/// Notes on the NodeClaim that the instruction of this rank is begun, unless a newer one was.
pub(crate) async fn admit(cluster: &Kubernetes, rank: Rank, name: &str) -> Result<Admission, ApiError> {
    let claim: Value = cluster.api().get(&NODE_CLAIM.one("", name)).await?;
    admit_claim(cluster, rank, claim).await
}

/// The same for a NodeClaim that was just read.
pub(crate) async fn admit_claim(cluster: &Kubernetes, rank: Rank, claim: Value) -> Result<Admission, ApiError> {
    let name = text_at(&claim, "/metadata/name");
    let path = NODE_CLAIM.one("", name);
    let noted = Rank::noted(&claim);
    if noted > rank {
        return Ok(Admission::Refused(stale(noted, name)));
    }
    if noted == rank {
        return Ok(Admission::Admitted(claim));
    }
    let patch = json!({ "metadata": {
        "resourceVersion": claim.pointer("/metadata/resourceVersion"),
        "annotations": { OBEYED: rank.note() },
    } });
    Ok(Admission::Admitted(cluster.api().patch(&path, &patch).await?))
}

pub(crate) fn stale(noted: Rank, name: &str) -> Done {
    let why = format!("NodeClaim {name} has seen generation {} of epoch {}", noted.generation, noted.epoch);
    Done::not(v1::Outcome::Stale, why)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod ranks {
    use super::*;

    #[test]
    fn an_object_that_changes_under_every_attempt_is_not_written_fifty_times_a_second() {
        let conflict = ApiError { kind: Kind::Conflict, ..ApiError::unreachable("PATCH /x".into(), "changed") };
        let mut backoff = Backoff::new(1);
        let waits: Vec<Duration> = (1..=12).map(|number| pause(&conflict, number, &mut backoff)).collect();
        assert!(waits[..5].iter().all(|wait| *wait == AFTER_CONFLICT), "{waits:?}");
        // The seventh of those that grow is of 16 s, and 10 s is the longest; each is cut by half at most.
        assert!(waits[5] >= Duration::from_millis(125) && waits[11] >= Duration::from_secs(5), "{waits:?}");
    }

    #[test]
    fn an_api_server_that_asks_for_no_time_is_given_some() {
        let busy =
            ApiError { kind: Kind::TooMany, retry_after: Some(Duration::ZERO), ..ApiError::unreachable("".into(), "") };
        assert!(pause(&busy, 0, &mut Backoff::new(1)) >= Duration::from_millis(125));
        let asks = ApiError { retry_after: Some(Duration::from_secs(7)), ..busy };
        assert_eq!(pause(&asks, 0, &mut Backoff::new(1)), Duration::from_secs(7));
    }

    #[test]
    fn a_later_epoch_outweighs_any_generation() {
        let noted = |note: &str| Rank::noted(&json!({ "metadata": { "annotations": { OBEYED: note } } }));
        let rank = Rank { epoch: 3, generation: 7 };
        assert_eq!(noted(&rank.note()), rank);
        assert!(noted("2/99") < rank && noted("3/8") > rank && noted("4/1") > rank);
        // A note that nobody of ours wrote counts for nothing.
        assert_eq!(noted("seven"), Rank::default());
        assert_eq!(Rank::noted(&json!({})), Rank::default());
    }
}
