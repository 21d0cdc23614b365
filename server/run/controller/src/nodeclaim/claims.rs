//! The NodeClaims of one cluster and their instructions in flight.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::ManagedClaim;
use crate::context::Context;
use crate::{Effect, Instruction, InstructionId, Removal};
use cluster::ClusterState;
use model::{ClaimName, MicroUsd, Millis, PoolName, ProviderId, Timestamp};

/// NodeClaims of this server in one cluster, by name, and their instructions in flight.
#[derive(Debug, Default)]
pub(crate) struct NodeClaims {
    by_name: BTreeMap<ClaimName, ManagedClaim>,
    /// Unanswered instructions with their NodeClaim. One that the NodeClaim does not await any more
    /// is kept until it is answered.
    instructions: BTreeMap<InstructionId, ClaimName>,
    /// Number of accesses that may have changed a NodeClaim. What follows from all of them is kept
    /// with it, so that events that change none need no pass over all.
    version: u64,
    wakeup: Option<Wakeup>,
    stages: Option<(u64, u64)>,
    /// Version and fingerprint of the provider ids.
    instances: Option<(u64, u64)>,
}

/// The earliest time at which one of the NodeClaims is due.
#[derive(Debug)]
struct Wakeup {
    /// Version of the NodeClaims, and the timeouts that it was computed with.
    inputs: (u64, Millis, Millis),
    at: Option<Timestamp>,
}

impl NodeClaims {
    pub fn get(&self, name: &ClaimName) -> Option<&ManagedClaim> {
        self.by_name.get(name)
    }

    /// The NodeClaim of that name, whose methods check what its stage permits.
    pub fn get_mut(&mut self, name: &ClaimName) -> Option<&mut ManagedClaim> {
        self.version += 1;
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
        self.version += 1;
        self.by_name.insert(claim.name().clone(), claim);
    }

    /// Removes a NodeClaim; an answer to its instruction is ignored.
    pub fn remove(&mut self, name: &ClaimName) {
        self.version += 1;
        self.by_name.remove(name);
    }

    /// Records an instruction in flight, which blocks further instructions for its NodeClaim.
    pub fn record_instruction(&mut self, id: InstructionId, name: &ClaimName) {
        if let Some(claim) = self.get_mut(name) {
            claim.record_instruction(id);
        }
        self.instructions.insert(id, name.clone());
    }

    /// Records the answer to an instruction; returns its NodeClaim, if that awaits the answer.
    pub fn complete_instruction(&mut self, id: InstructionId) -> Option<ClaimName> {
        let name = self.instructions.remove(&id)?;
        let awaited = self.get_mut(&name).is_some_and(|claim| claim.complete_instruction(id));
        awaited.then_some(name)
    }

    /// Fingerprint of names and stages; changes whenever a NodeClaim is added, removed or advances.
    pub fn stage_fingerprint(&mut self) -> u64 {
        if let Some((_, known)) = self.stages.filter(|(version, _)| *version == self.version) {
            return known;
        }
        let mut hasher = FxHasher::default();
        self.iter().for_each(|claim| (claim.name(), claim.stage() as usize).hash(&mut hasher));
        let fingerprint = hasher.finish();
        self.stages = Some((self.version, fingerprint));
        fingerprint
    }

    /// Provider ids of the NodeClaims that have one.
    pub fn provider_ids(&self) -> impl Iterator<Item = &ProviderId> {
        self.iter().map(ManagedClaim::provider_id).filter(|provider_id| !provider_id.is_empty())
    }

    /// Fingerprint of the provider ids; changes whenever one is added or removed.
    pub fn instances_fingerprint(&mut self) -> u64 {
        if let Some((_, known)) = self.instances.filter(|(version, _)| *version == self.version) {
            return known;
        }
        let mut hasher = FxHasher::default();
        self.provider_ids().for_each(|provider_id| provider_id.hash(&mut hasher));
        let fingerprint = hasher.finish();
        self.instances = Some((self.version, fingerprint));
        fingerprint
    }

    /// When one of them is due ([`ManagedClaim::next_wakeup`]).
    pub fn next_wakeup(
        &mut self,
        launch_timeout: Millis,
        registration_timeout: Millis,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let inputs = (self.version, launch_timeout, registration_timeout);
        // The time of a NodeClaim ends when it is reached; until then, none changes without an
        // access.
        let known = self.wakeup.as_ref().filter(|known| known.inputs == inputs);
        if let Some(known) = known.filter(|known| known.at.is_none_or(|at| now < at)) {
            return known.at;
        }
        let times = self.iter().filter_map(|claim| claim.next_wakeup(launch_timeout, registration_timeout, now));
        let at = times.min();
        self.wakeup = Some(Wakeup { inputs, at });
        at
    }

    /// Sends an instruction to the agent; one for a NodeClaim blocks further instructions for it
    /// until answered.
    pub fn instruct(&mut self, instruction: Instruction, ctx: &mut Context<'_>) {
        let id = InstructionId(ctx.next_id());
        if let Some(claim) = instruction.claim() {
            self.record_instruction(id, claim);
        }
        ctx.effects.push(Effect::Instruct { id, instruction: Box::new(instruction) });
    }

    /// Price per hour of the machine of `name`; 0 while it is unknown.
    pub fn price_of(&self, name: &ClaimName) -> MicroUsd {
        self.get(name).and_then(ManagedClaim::instance).map_or(MicroUsd(0), |instance| instance.price)
    }

    /// Price per hour of the machines that are to be removed.
    pub fn price_of_removals(&self, removals: &[Removal]) -> MicroUsd {
        MicroUsd(removals.iter().map(|removal| self.price_of(&removal.claim).0).sum())
    }

    /// The NodePool of `claim`, which may be one that `state` shows and this server does not manage.
    pub fn pool_of<'c>(&'c self, claim: &ClaimName, state: &'c ClusterState) -> Option<&'c PoolName> {
        let pool = self.get(claim).map(ManagedClaim::pool);
        pool.or_else(|| state.claim(claim).map(|claim| &claim.pool))
    }

    /// The NodeClaim of the machine with this provider id.
    pub fn name_of_instance(&self, provider_id: &ProviderId) -> Option<ClaimName> {
        self.by_provider_id(provider_id).map(|claim| claim.name().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeclaim::TerminationReason;
    use cluster::ClaimRecord;
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
    fn the_fingerprint_changes_with_a_stage_and_with_changes_that_cancel_each_other() {
        let mut claims = claims(&["a", "b"]);
        let (a, b) = (ClaimName::from("a"), ClaimName::from("b"));
        let before = claims.stage_fingerprint();
        claims.get_mut(&a).expect("a NodeClaim").postpone(Timestamp::from_millis(1));
        assert_eq!(claims.stage_fingerprint(), before, "no stage has changed");
        claims.get_mut(&a).map(|claim| claim.complete_registration(Timestamp::default()));
        let registered = claims.stage_fingerprint();
        // The machine of b registers, and that of a is replaced by one that has not.
        let a_again = ManagedClaim::from_claim(
            &ClaimRecord { name: a.clone(), provider_id: "aws:///z/i-a".into(), ..ClaimRecord::default() },
            None,
            Timestamp::default(),
        );
        claims.insert(a_again);
        assert_eq!(claims.stage_fingerprint(), before);
        claims.get_mut(&b).map(|claim| claim.complete_registration(Timestamp::default()));
        let other = claims.stage_fingerprint();
        assert!(before != registered && registered != other && other != before);
        claims.remove(&b);
        assert_ne!(claims.stage_fingerprint(), other);
    }

    #[test]
    fn the_wakeup_is_that_of_the_earliest_nodeclaim_whenever_it_is_asked_for() {
        let mut claims = claims(&["a", "b"]);
        let (a, at) = (ClaimName::from("a"), Timestamp::from_millis);
        let (launch, registration) = (Millis::from_secs(60), Millis::from_secs(900));
        let ask = |claims: &mut NodeClaims, now: i64| {
            let asked = claims.next_wakeup(launch, registration, at(now));
            let scanned = claims.iter().filter_map(|claim| claim.next_wakeup(launch, registration, at(now))).min();
            assert_eq!(asked, scanned, "at {now}");
            asked
        };
        // Both were launched at 0 and have to register within the timeout.
        assert_eq!(ask(&mut claims, 1), Some(at(900_000)));
        claims.get_mut(&a).expect("a NodeClaim").postpone(at(5_000));
        assert_eq!(ask(&mut claims, 2), Some(at(5_000)));
        assert_eq!(ask(&mut claims, 4_999), Some(at(5_000)));
        assert_eq!(ask(&mut claims, 5_000), Some(at(900_000)));
        // A time that has passed counts no more, and another timeout is no earlier answer.
        assert_eq!(ask(&mut claims, 900_000), None);
        let shorter = claims.next_wakeup(launch, Millis::from_secs(1_000), at(900_000));
        assert_eq!(shorter, Some(at(1_000_000)));
    }
}
