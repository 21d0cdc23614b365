//! Actions of an agent against the API server. Every instruction is idempotent.

use cluster::{ClaimRecord, Key, LaunchedFacts, Object, PodRecord};
use controller::{ClaimOrder, Instruction, PodNomination};
use drift::VersionedHash;
use model::drain::{DISRUPTED, RecordedDrain, is_disrupted};
use model::labels::{INITIALIZED, REGISTERED};
use model::{ClaimName, Effect, Labels, NodeName, PodKey, ProviderId, Taint, Text, Timestamp};

use super::{Change, ClusterEvent, SimulatedCluster};
use cluster::planning::UNREGISTERED;

/// Interval between two steps of a drain, in milliseconds.
const DRAIN_POLL_MS: i64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The instruction is carried out.
    Done,
    /// The instruction takes time; [`Change::Drained`] reports its end.
    Later,
    /// The instruction was not begun: a precondition does not hold.
    Unmet(String),
}

impl SimulatedCluster {
    /// Carries out an agent's instruction.
    ///
    /// # Errors
    /// If the object of the instruction does not exist.
    pub fn instruct(&mut self, instruction: &Instruction, now: Timestamp) -> Result<Answer, String> {
        match instruction {
            Instruction::CreateClaim(order) => self.create_claim(order, now),
            Instruction::MarkLaunched { claim, facts } => return self.mark_launched(claim, facts, now),
            Instruction::RegisterNode { node, labels, taints, nominations, .. } => {
                if self.nodes.get(node).is_some_and(|node| !node.is_registered()) {
                    self.nominate(node, nominations);
                }
                return self.register(node, labels, taints, now);
            }
            Instruction::NominatePods { node, nominations } => self.nominate(node, nominations),
            Instruction::InitializeNode { node, .. } => return self.initialize(node, now),
            Instruction::Drain { claim, node, deadline, only_if_empty, .. } => {
                let begun = self.drains.contains_key(claim);
                let occupied = self.occupant(node).filter(|_| *only_if_empty && !begun);
                return Ok(match occupied {
                    Some(pod) => Answer::Unmet(format!("the API server lists pod {} on Node {node}", pod.key)),
                    None => self.drain(claim, node, *deadline, now),
                });
            }
            Instruction::RemoveDisruptedTaint { claim, node, .. } => {
                return Ok(self.remove_disrupted_taint(claim, node));
            }
            Instruction::DeleteClaim { claim, node, .. } => self.delete_claim(claim, node.as_ref(), now),
            // Nothing in the cluster reads conditions or Events.
            Instruction::WriteStatus(_) | Instruction::RecordEvent(_) => {}
        }
        Ok(Answer::Done)
    }

    fn create_claim(&mut self, order: &ClaimOrder, now: Timestamp) {
        if self.claims.contains_key(&order.name) {
            return;
        }
        let claim = ClaimRecord {
            name: order.name.clone(),
            pool: order.pool.clone(),
            node_class: order.node_class.clone(),
            labels: order.labels.clone(),
            taints: order.taints.clone(),
            startup_taints: order.startup_taints.clone(),
            requirements: order.requirements.clone(),
            requests: order.requests.clone(),
            ours: true,
            created: Some(now),
            termination_grace_period: order.termination_grace_period,
            expire_after: order.expire_after,
            drift: order.drift_facts(),
            ..ClaimRecord::default()
        };
        self.claims.insert(claim.name.clone(), claim.clone());
        self.emit(Object::Claim(claim));
    }

    fn mark_launched(&mut self, name: &ClaimName, facts: &LaunchedFacts, now: Timestamp) -> Result<Answer, String> {
        let claim = self.claims.get_mut(name).ok_or_else(|| format!("there is no NodeClaim {name}"))?;
        if claim.provider_id != facts.provider_id {
            claim.provider_id = facts.provider_id.clone();
            claim.labels.extend(facts.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
            claim.capacity = facts.capacity.clone();
            claim.allocatable = facts.allocatable.clone();
            claim.drift.image = facts.image.clone();
            let claim = claim.clone();
            self.emit(Object::Claim(claim));
            let wait = self.rng.child("join").child(name).between(self.settings.join_ms);
            self.schedule_event(now, wait, ClusterEvent::JoinNode(name.clone()));
        } else if claim.capacity.is_empty() && !facts.capacity.is_empty() {
            (claim.capacity, claim.allocatable) = (facts.capacity.clone(), facts.allocatable.clone());
            let claim = claim.clone();
            self.emit(Object::Claim(claim));
            self.report_resources(&NodeName::from(format!("ip-{name}")), facts);
        }
        Ok(Answer::Done)
    }

    /// The kubelet reports the resources of its machine. Only the catalogue of the server knows them.
    fn report_resources(&mut self, node: &NodeName, facts: &LaunchedFacts) {
        let Some(record) = self.nodes.get_mut(node) else { return };
        (record.capacity, record.allocatable) = (facts.capacity.clone(), facts.allocatable.clone());
        self.free.insert(node.clone(), facts.allocatable.clone());
        self.emit_node(node);
    }

    /// Nominates pods; a pod with a nomination, or with another UID, is skipped.
    fn nominate(&mut self, node: &NodeName, nominations: &[PodNomination]) {
        if !self.settings.heeds_nominations {
            return;
        }
        for nomination in nominations {
            let pod = self.pods.get_mut(&nomination.pod).filter(|pod| pod.uid == nomination.uid && pod.node.is_none());
            let Some(pod) = pod.filter(|pod| pod.own_nomination.is_none()) else { continue };
            pod.own_nomination = Some(node.clone());
            let pod = pod.clone();
            self.nominated.entry(node.clone()).or_default().insert(pod.key.clone());
            self.emit(Object::Pod(pod));
        }
    }

    fn register(
        &mut self,
        name: &NodeName,
        labels: &Labels,
        taints: &[Taint],
        now: Timestamp,
    ) -> Result<Answer, String> {
        let node = self.nodes.get_mut(name).ok_or_else(|| format!("there is no Node {name}"))?;
        if !node.is_registered() {
            node.labels.extend(labels.iter().map(|(key, value)| (key.clone(), value.clone())));
            node.labels.insert(Text::from(REGISTERED), Text::from("true"));
            for taint in taints {
                let same = |known: &Taint| known.key == taint.key && known.effect == taint.effect;
                if !node.taints.iter().any(same) {
                    node.taints.push(taint.clone());
                }
            }
            node.taints.retain(|taint| taint.key.as_ref() != UNREGISTERED);
            self.dirty = true;
            self.emit_node(name);
            self.start_daemons(name, now);
            let wait = self.rng.child("startup").child(name).between(self.settings.startup_ms);
            self.schedule_event(now, wait, ClusterEvent::RemoveStartupTaints(name.clone()));
        }
        Ok(Answer::Done)
    }

    fn initialize(&mut self, name: &NodeName, now: Timestamp) -> Result<Answer, String> {
        let node = self.nodes.get_mut(name).ok_or_else(|| format!("there is no Node {name}"))?;
        if !node.is_initialized() {
            node.labels.insert(Text::from(INITIALIZED), Text::from("true"));
            if let Some(claim) = self.claims.values_mut().find(|claim| claim.provider_id == node.provider_id) {
                claim.initialized_at = Some(now);
            }
            self.dirty = true;
            self.emit_node(name);
        }
        Ok(Answer::Done)
    }

    /// Writes the time of the last pod event on a NodeClaim's node (`status.lastPodEventTime`).
    /// Snapshots contain it.
    pub(crate) fn record_pod_event_time(&mut self, claim: &ClaimName, at: Timestamp) {
        if let Some(claim) = self.claims.get_mut(claim) {
            claim.last_pod_event = Some(at);
        }
    }

    /// Writes the hash of its EC2NodeClass on a NodeClaim.
    pub(crate) fn record_class_hash(&mut self, claim: &ClaimName, hash: VersionedHash) {
        let Some(record) = self.claims.get_mut(claim) else { return };
        record.drift.own_class_hash = Some(hash);
        let record = record.clone();
        self.emit(Object::Claim(record));
    }

    /// Ends the lifetime of a NodeClaim now; returns whether it has one.
    pub(crate) fn end_lifetime(&mut self, claim: &ClaimName, now: Timestamp) -> bool {
        let Some(record) = self.claims.get_mut(claim) else { return false };
        record.expire_after = record.created.map(|created| now.duration_since(created));
        let (record, lives) = (record.clone(), record.created.is_some());
        self.emit(Object::Claim(record));
        lives
    }

    fn drain(&mut self, claim: &ClaimName, name: &NodeName, deadline: Option<Timestamp>, now: Timestamp) -> Answer {
        let Some(node) = self.nodes.get_mut(name) else { return Answer::Done };
        let drain = Some(RecordedDrain { claim: claim.clone(), deadline, reason: Text::default() });
        if !is_disrupted(&node.taints) {
            node.taints.push(disrupted_taint());
        }
        if node.drain != drain {
            self.ledger.tainted.entry(node.provider_id.clone()).or_insert(now);
            node.drain = drain;
            self.emit_node(name);
        }
        if self.drains.insert(claim.clone(), (name.clone(), deadline)).is_none() {
            self.continue_drain(claim, now);
        }
        Answer::Later
    }

    fn remove_disrupted_taint(&mut self, claim: &ClaimName, name: &NodeName) -> Answer {
        let Some(node) = self.nodes.get_mut(name) else { return Answer::Done };
        if node.drain.as_ref().is_some_and(|drain| drain.claim == *claim) {
            return Answer::Unmet(format!("Node {name} is being drained"));
        }
        node.taints.retain(|taint| taint.key.as_ref() != DISRUPTED);
        self.emit_node(name);
        Answer::Done
    }

    /// Whether the Node of `claim` has the drain taint, with or without pods left to evict.
    #[must_use]
    pub(crate) fn is_draining(&self, claim: &ClaimName) -> bool {
        let provider = self.claims.get(claim).map(|claim| &claim.provider_id).filter(|id| !id.is_empty());
        provider.is_some_and(|provider| self.is_machine_draining(provider))
    }

    /// Whether the Node of an instance has the drain taint, by provider id and with or without a
    /// NodeClaim.
    #[must_use]
    pub(crate) fn is_machine_draining(&self, provider_id: &ProviderId) -> bool {
        let node = self.nodes.values().find(|node| node.provider_id == *provider_id);
        node.is_some_and(|node| node.drain.is_some())
    }

    /// A pod that would have to be rescheduled if the Node were removed.
    #[must_use]
    pub(crate) fn occupant(&self, node: &NodeName) -> Option<&PodRecord> {
        self.pods_on(node).find(|pod| pod.is_reschedulable())
    }

    /// Pods on a Node, without DaemonSet pods.
    fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = &PodRecord> {
        let pods = self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key));
        pods.filter(|pod| pod.daemon.is_none())
    }

    pub(super) fn continue_drain(&mut self, claim: &ClaimName, now: Timestamp) {
        let Some((node, deadline)) = self.drains.get(claim) else { return };
        let over = deadline.is_some_and(|deadline| deadline <= now);
        let leaving: Vec<PodRecord> = self.pods_on(node).cloned().collect();
        if leaving.is_empty() {
            self.drains.remove(claim);
            self.outbox.push(Change::Drained { claim: claim.clone() });
            return;
        }
        for pod in leaving.iter().filter(|pod| !pod.terminating && (over || !pod.blocks_disruption(now))) {
            let refused = self.budget_refuses(pod) && !over;
            if refused && !self.settings.evicts_by_force {
                continue;
            }
            self.record_move(pod, now);
            self.ledger.budgets_violated += u64::from(refused);
            self.terminate_pod(&pod.key, now);
        }
        self.schedule_event(now, DRAIN_POLL_MS, ClusterEvent::ContinueDrain(claim.clone()));
    }

    fn delete_claim(&mut self, claim: &ClaimName, node: Option<&NodeName>, now: Timestamp) {
        let provider = self.claims.get(claim).map(|claim| claim.provider_id.clone()).filter(|id| !id.is_empty());
        let joined = self.nodes.values().find(|node| Some(&node.provider_id) == provider.as_ref());
        let names = [node.cloned(), joined.map(|node| node.name.clone())];
        for name in names.into_iter().flatten() {
            self.remove_node(&name, now);
        }
        self.drains.remove(claim);
        if self.claims.remove(claim).is_some() {
            self.emit_deletion(Key::Claim(claim.clone()));
        }
    }

    /// Deletes a NodeClaim without its finalizers; instance and Node remain. Returns whether it
    /// existed.
    pub(crate) fn remove_claim(&mut self, claim: &ClaimName) -> bool {
        let was_there = self.claims.remove(claim).is_some();
        if was_there {
            self.emit_deletion(Key::Claim(claim.clone()));
        }
        was_there
    }

    pub(super) fn remove_node(&mut self, name: &NodeName, now: Timestamp) {
        if self.nodes.remove(name).is_none() {
            return;
        }
        self.ledger.record_node_removed(name);
        self.voluntary_drains.remove(name);
        self.used_nodes.remove(name);
        self.free.remove(name);
        self.emit_deletion(Key::Node(name.clone()));
        let pods: Vec<PodKey> = self.on_node.remove(name).into_iter().flatten().collect();
        for key in pods {
            if let Some(uid) = self.pods.get(&key).map(|pod| pod.uid.clone()) {
                self.remove_pod(&key, &uid, now);
            }
        }
    }
}

pub(super) fn disrupted_taint() -> Taint {
    Taint { key: Text::from(DISRUPTED), value: Text::default(), effect: Effect::NoSchedule }
}
