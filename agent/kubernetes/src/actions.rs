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

mod admission;
mod attempt;
pub mod claim;
pub mod drain;
pub mod event;
mod event_reason;
pub mod guard;
pub mod node;
pub mod taint;
pub mod write;

use std::sync::Arc;
use std::time::Instant;

use agent::Done;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;
use fleetwright_proto::v1::instruction::Action;
use tracing::warn;

use crate::api::Api;
use crate::error::ErrorKind;
use crate::nomination::PendingRegistrations;
use crate::object_cache::ObjectCache;
pub use admission::INSTRUCTION_ANNOTATION;
use admission::Rank;
use attempt::{Attempt, RETRY_LIMIT, failed_instruction, retry_delay};
use drain::{DrainContext, DrainState};
use event::EventRecorder;
use guard::RemovalGuard;

/// Executes instructions on one cluster. Each action receives the parts that it uses.
pub(crate) struct InstructionExecutor {
    api: Api,
    cache: Arc<ObjectCache>,
    guard: RemovalGuard,
    events: EventRecorder,
    /// Whether the cluster's scheduler honours nominations.
    supports_nomination: bool,
    registrations: PendingRegistrations,
    drains: DrainState,
}

impl InstructionExecutor {
    pub(crate) fn new(
        api: Api,
        cache: Arc<ObjectCache>,
        guard: RemovalGuard,
        events: EventRecorder,
        supports_nomination: bool,
    ) -> Self {
        let (registrations, drains) = (PendingRegistrations::default(), DrainState::default());
        Self { api, cache, guard, events, supports_nomination, registrations, drains }
    }

    /// Carries out `instruction`.
    pub(crate) async fn execute_instruction(&self, instruction: &v1::Instruction) -> Done {
        let begun = Instant::now();
        let endless = matches!(instruction.action, Some(Action::DrainNode(_)));
        let mut backoff = Backoff::new(instruction.generation);
        let mut conflicts = 0;
        loop {
            let error = match self.attempt_action(instruction).await {
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

    async fn attempt_action(&self, instruction: &v1::Instruction) -> Attempt {
        let Some(action) = &instruction.action else {
            return Ok(Done::failed(
                v1::Outcome::Unsupported,
                "the instruction has no action that this agent supports",
            ));
        };
        let (api, rank) = (&self.api, Rank::of_instruction(instruction));
        match action {
            Action::CreateNodeClaim(action) => claim::create_claim(api, &self.cache, rank, action).await,
            Action::MarkLaunched(action) => claim::mark_launched(api, rank, action).await,
            Action::RegisterNode(action) => {
                let (cache, registrations) = (&self.cache, &self.registrations);
                node::register_node(api, cache, registrations, self.supports_nomination, rank, action).await
            }
            Action::NominatePods(action) => {
                node::nominate_pods(api, &self.cache, self.supports_nomination, action).await
            }
            Action::InitializeNode(action) => node::initialize_node(api, rank, action).await,
            Action::DrainNode(action) => drain::drain_node(self.drain_context(), rank, action).await,
            Action::RemoveDisruptedTaint(action) => taint::remove_disrupted_taint(api, rank, action).await,
            Action::DeleteNodeClaim(action) => claim::delete_claim(api, &self.guard, rank, action).await,
            Action::WriteObject(action) => write::write_object(api, action).await,
            Action::RecordEvent(action) => event::record_event(api, &self.events, action).await,
        }
    }

    /// Resumes a drain from the annotation `note` of `node`, unless a server requests one.
    pub(crate) async fn resume_drain(&self, node: &str, note: &str) {
        drain::resume_drain(self.drain_context(), node, note).await;
    }

    fn drain_context(&self) -> DrainContext<'_> {
        DrainContext {
            api: &self.api,
            cache: &self.cache,
            guard: &self.guard,
            events: &self.events,
            drains: &self.drains,
        }
    }
}

#[cfg(test)]
mod tests;
