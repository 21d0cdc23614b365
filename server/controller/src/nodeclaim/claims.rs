//! The NodeClaims of one cluster and their instructions in flight.

use std::collections::BTreeMap;

use super::ManagedClaim;
use crate::InstructionId;
use model::{ClaimName, ProviderId};

/// NodeClaims of this server in one cluster, by name, and their instructions in flight.
#[derive(Debug, Default)]
pub(crate) struct NodeClaims {
    by_name: BTreeMap<ClaimName, ManagedClaim>,
    /// Unanswered instructions with their NodeClaim. One that the NodeClaim does not await any more
    /// is kept until it is answered.
    instructions: BTreeMap<InstructionId, ClaimName>,
}

impl NodeClaims {
    pub fn get(&self, name: &ClaimName) -> Option<&ManagedClaim> {
        self.by_name.get(name)
    }

    /// The NodeClaim of that name, whose methods check what its stage permits.
    pub fn get_mut(&mut self, name: &ClaimName) -> Option<&mut ManagedClaim> {
        self.by_name.get_mut(name)
    }

    pub fn contains(&self, name: &ClaimName) -> bool {
        self.by_name.contains_key(name)
    }

    /// The NodeClaims, by name.
    pub fn iter(&self) -> impl Iterator<Item = &ManagedClaim> {
        self.by_name.values()
    }

    /// The first NodeClaim with this provider id.
    pub fn by_provider_id(&self, provider_id: &ProviderId) -> Option<&ManagedClaim> {
        self.iter().find(|claim| claim.provider_id() == provider_id)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Adds a NodeClaim, which replaces one of that name.
    pub fn insert(&mut self, claim: ManagedClaim) {
        self.by_name.insert(claim.name().clone(), claim);
    }

    /// Removes a NodeClaim; an answer to its instruction is ignored.
    pub fn remove(&mut self, name: &ClaimName) {
        self.by_name.remove(name);
    }

    /// Records an instruction in flight, which blocks further instructions for its NodeClaim.
    pub fn record_instruction(&mut self, id: InstructionId, name: &ClaimName) {
        if let Some(claim) = self.by_name.get_mut(name) {
            claim.record_instruction(id);
        }
        self.instructions.insert(id, name.clone());
    }

    /// Records the answer to an instruction; returns its NodeClaim, if that awaits the answer.
    pub fn complete_instruction(&mut self, id: InstructionId) -> Option<ClaimName> {
        let name = self.instructions.remove(&id)?;
        let awaited = self.by_name.get_mut(&name).is_some_and(|claim| claim.complete_instruction(id));
        awaited.then_some(name)
    }

    /// Fingerprint of the stages; changes whenever one NodeClaim advances.
    pub fn stage_fingerprint(&self) -> usize {
        self.iter().map(|claim| claim.stage() as usize + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClaimRecord;
    use crate::nodeclaim::TerminationReason;
    use model::Timestamp;

    fn claims(names: &[&str]) -> NodeClaims {
        let mut claims = NodeClaims::default();
        for name in names {
            let provider_id = format!("aws:///z/i-{name}").as_str().into();
            let record = ClaimRecord { name: (*name).into(), provider_id, ..ClaimRecord::default() };
            claims.insert(ManagedClaim::from_claim(&record, None, Timestamp::default()));
        }
        claims
    }

    #[test]
    fn an_instruction_is_in_flight_until_its_answer_and_only_the_last_one_is_awaited() {
        let mut claims = claims(&["a", "b"]);
        let a = ClaimName::from("a");
        claims.record_instruction(InstructionId(1), &a);
        claims.record_instruction(InstructionId(2), &a);
        let in_flight =
            |claims: &NodeClaims| claims.iter().map(ManagedClaim::has_instruction_in_flight).collect::<Vec<bool>>();
        assert_eq!(in_flight(&claims), [true, false]);
        assert_eq!(claims.complete_instruction(InstructionId(1)), None, "superseded");
        assert_eq!(in_flight(&claims), [true, false]);
        assert_eq!(claims.complete_instruction(InstructionId(2)), Some(a.clone()));
        assert_eq!(in_flight(&claims), [false, false]);
        assert_eq!(claims.complete_instruction(InstructionId(2)), None, "answered twice");
        assert_eq!(claims.complete_instruction(InstructionId(3)), None, "never sent");
    }

    #[test]
    fn the_answer_of_an_earlier_stage_or_of_a_removed_nodeclaim_is_not_awaited() {
        let mut claims = claims(&["a", "b"]);
        let (a, b) = (ClaimName::from("a"), ClaimName::from("b"));
        claims.record_instruction(InstructionId(1), &a);
        claims.record_instruction(InstructionId(2), &b);
        let advanced = claims
            .get_mut(&a)
            .map(|claim| claim.begin_instance_termination(Some(TerminationReason::InstanceGone), Timestamp::default()));
        claims.remove(&b);
        assert_eq!(advanced, Some(true));
        assert_eq!(claims.complete_instruction(InstructionId(1)), None);
        assert_eq!(claims.complete_instruction(InstructionId(2)), None);
    }

    #[test]
    fn a_nodeclaim_is_found_by_the_provider_id_of_its_instance() {
        let claims = claims(&["a", "b"]);
        let found = |id: &str| claims.by_provider_id(&id.into()).map(|claim| claim.name().to_string());
        assert_eq!(found("aws:///z/i-b"), Some("b".to_owned()));
        assert_eq!(found("aws:///z/i-c"), None);
    }

    #[test]
    fn the_fingerprint_changes_with_a_stage() {
        let mut claims = claims(&["a", "b"]);
        let before = claims.stage_fingerprint();
        claims.get_mut(&"a".into()).map(|claim| claim.complete_registration(Timestamp::default()));
        assert_eq!(claims.stage_fingerprint(), before + 1);
    }
}
