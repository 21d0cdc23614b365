//! A machine that is followed from the decision to remove it until its NodeClaim is deleted.

use controller::{DecisionId, Removal};
use model::{ClaimName, ProviderId, Timestamp};

use super::launch::instance_id;
use crate::context::SpanContext;
use crate::span::{Attribute, Kind, Span, attribute, int};

#[derive(Debug)]
pub(super) struct TracedRemoval {
    decision: DecisionId,
    root: SpanContext,
    claim: ClaimName,
    attributes: Vec<Attribute>,
    since: Timestamp,
    /// The instance that is terminated, since when, and in how many calls.
    termination: Option<(ProviderId, Timestamp, u32)>,
}

impl TracedRemoval {
    pub(super) fn new(
        decision: DecisionId,
        root: SpanContext,
        names: &[Attribute],
        removal: &Removal,
        since: Timestamp,
    ) -> Self {
        let mut attributes = names.to_vec();
        attributes
            .extend([attribute("fleetwright.nodeclaim", &removal.claim), attribute("k8s.node.name", &removal.node)]);
        Self { decision, root, claim: removal.claim.clone(), attributes, since, termination: None }
    }

    pub(super) fn decision(&self) -> DecisionId {
        self.decision
    }

    pub(super) fn root(&self) -> SpanContext {
        self.root
    }

    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    pub(super) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Its instance is known, unless the id is empty.
    pub(super) fn set_instance(&mut self, provider_id: &ProviderId) {
        if !provider_id.is_empty() && !self.attributes.iter().any(|known| known.key == "host.id") {
            self.attributes.push(attribute("host.id", instance_id(provider_id)));
        }
    }

    /// A call that terminates the instance begins; returns its span, which all such calls share.
    pub(super) fn begin_termination(&mut self, provider_id: &ProviderId, now: Timestamp) -> SpanContext {
        let (_, _, calls) = self.termination.get_or_insert_with(|| (provider_id.clone(), now, 0));
        *calls += 1;
        self.set_instance(provider_id);
        self.root.child("terminate", &self.claim)
    }

    pub(super) fn terminates(&self, provider_id: &ProviderId) -> bool {
        self.termination.as_ref().is_some_and(|(terminated, ..)| terminated == provider_id)
    }

    pub(super) fn end_termination(&mut self, now: Timestamp) -> Option<Span> {
        let (_, begun, calls) = self.termination.take()?;
        let context = self.root.child("terminate", &self.claim);
        let span = Span::part_of(&self.root, context, "terminate", (begun, now))
            .with_kind(Kind::Client)
            .with_attributes(self.attributes.iter().cloned())
            .with_attributes([int("fleetwright.calls", u64::from(calls))]);
        Some(span)
    }
}
