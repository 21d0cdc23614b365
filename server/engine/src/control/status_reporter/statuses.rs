//! What is to stand in NodePools, EC2NodeClasses and NodeClaims.

use std::collections::BTreeMap;

use crate::cluster::condition_digest::CONSOLIDATABLE;
use crate::cluster::planning::is_ephemeral;
use crate::cluster::{ClaimRecord, ClassRecord, ConditionDigest, NodeRecord, PoolRecord};
use crate::control::ClassFacts;
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::machine::{Machine, Stage};
use crate::control::status::{Condition, ConditionStatus, ObjectRef, StatusPatch, with_root};
use crate::model::resources::NODES;
use crate::model::{NotReady, Resources, Text};

/// Keeps an EC2NodeClass until no NodeClaim needs it (Karpenter's AWS provider: termination).
pub(super) const CLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";

/// What the AWS provider looks up for an EC2NodeClass.
const RESOLVED: [&str; 4] = ["AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady"];

impl ClusterController {
    /// What is to stand in every object that is ours to describe; `None` leaves one as it is for now.
    pub(super) fn contents(&mut self, desk: &Context<'_>) -> BTreeMap<ObjectRef, Option<StatusPatch>> {
        let mut contents = BTreeMap::new();
        let pools: Vec<PoolRecord> =
            self.state.pools().filter(|pool| self.state.left_to_others(pool).is_none()).cloned().collect();
        for pool in &pools {
            let content = self.pool_content(pool);
            contents.insert(ObjectRef::Pool(pool.pool.name.clone()), Some(content));
        }
        self.clerk.zones.follow(&pools);
        // Karpenter describes its own classes, and there is no telling whose they are while both work.
        if !self.state.karpenter_lives() {
            let classes = self.state.classes();
            contents
                .extend(classes.map(|class| (ObjectRef::Class(class.name.clone()), self.class_content(class, desk))));
        }
        let (mut described, mut passed_over) = (Vec::new(), 0);
        for machine in self.machines.values() {
            if machine.stage == Stage::Initialized && self.clerk.described.contains(&machine.claim) {
                passed_over += 1;
            } else if self.is_described(machine, desk) {
                described.push(machine.claim.clone());
            } else if self.state.has_seen_claim(&machine.claim) {
                contents.insert(ObjectRef::Claim(machine.claim.clone()), self.claim_content(machine, desk));
            }
        }
        if passed_over < self.clerk.described.len() {
            let stays = |claim: &Text| self.machines.get(claim).is_some_and(|m| m.stage == Stage::Initialized);
            self.clerk.described.retain(stays);
        }
        self.clerk.described.extend(described);
        contents
    }

    fn pool_content(&mut self, pool: &PoolRecord) -> StatusPatch {
        let generation = pool.meta.generation;
        let (mut usage, mut nodes) = (Resources::new(), 0);
        for claim in self.state.claims().filter(|claim| claim.pool == pool.pool.name && !claim.provider_id.is_empty()) {
            usage.add(&claim.capacity);
            nodes += 1;
        }
        if nodes > 0 {
            usage.add(&Resources::from_iter([(NODES, nodes)]));
        }
        let conditions = vec![validation(pool), self.class_ready(pool), self.clerk.health.condition(pool)];
        let conditions = with_root(conditions, &["ValidationSucceeded", "NodeClassReady"], generation);
        StatusPatch { usage: Some(usage), conditions, ..StatusPatch::default() }
    }

    fn class_ready(&self, pool: &PoolRecord) -> Condition {
        const KIND: &str = "NodeClassReady";
        let generation = pool.meta.generation;
        let lacks = |reason: &str, message: &Text| {
            Condition::lacks(KIND, ConditionStatus::False, reason, message.clone(), generation)
        };
        let class = self.state.class(&pool.pool.node_class);
        match (class, &pool.pool.not_ready) {
            (Some(class), _) if class.deleting => {
                lacks("NodeClassTerminating", &Text::from(format!("EC2NodeClass {} is being deleted", class.name)))
            }
            (Some(ClassRecord { invalid: Some(why), .. }), _) => lacks("NodeClassNotReady", why),
            (None, Some(NotReady::NodeClass(why))) => lacks("NodeClassNotFound", why),
            (Some(_), Some(NotReady::NodeClass(why))) => lacks("NodeClassNotReady", why),
            _ => Condition::holds(KIND, generation),
        }
    }

    /// `None` for a class that none of our pools and machines use.
    fn class_content(&self, class: &ClassRecord, desk: &Context<'_>) -> Option<StatusPatch> {
        let pools: Vec<&PoolRecord> = self.state.pools().filter(|pool| pool.pool.node_class == class.name).collect();
        let ours = pools.iter().any(|pool| self.state.left_to_others(pool).is_none());
        let needed = self.state.claims().any(|claim| claim.node_class == class.name);
        if !ours && !class.held {
            return None;
        }
        let generation = class.generation;
        let valid = match &class.invalid {
            None => Condition::holds("ValidationSucceeded", generation),
            Some(why) => Condition::lacks(
                "ValidationSucceeded",
                ConditionStatus::False,
                "ValidationFailed",
                why.clone(),
                generation,
            ),
        };
        let facts = desk.settings.class_facts;
        let mut conditions: Vec<Condition> = RESOLVED.iter().map(|kind| resolution(kind, facts, generation)).collect();
        conditions.push(valid);
        let dependents: Vec<&str> = RESOLVED.iter().copied().chain(["ValidationSucceeded"]).collect();
        let zones = (facts == ClassFacts::Simulated).then(|| self.clerk.zones.of(&pools));
        Some(StatusPatch {
            zones,
            conditions: with_root(conditions, &dependents, generation),
            hold: (ours && !class.deleting).then_some(CLASS_FINALIZER),
            release: (class.deleting && class.held && !needed).then_some(CLASS_FINALIZER),
            ..StatusPatch::default()
        })
    }

    /// `None` while an instruction is under way that will change what is to be said, and once nobody reads it any more.
    fn claim_content(&self, machine: &Machine, desk: &Context<'_>) -> Option<StatusPatch> {
        let claim = self.state.claim(&machine.claim)?;
        let quiet = machine.waits_for.is_some() && machine.stage != Stage::Draining;
        if quiet || matches!(machine.stage, Stage::Planned | Stage::Creating | Stage::Launching | Stage::Deleting) {
            return None;
        }
        let node = self.state.node_of_claim(&machine.claim);
        let before = self.clerk.last_said(&ObjectRef::Claim(machine.claim.clone()));
        let mut conditions = vec![
            Condition::holds("Launched", 0),
            lasting("Registered", before, registered(machine, node)?),
            lasting("Initialized", before, initialized(machine, node, claim)?),
        ];
        if machine.stage == Stage::Initialized {
            conditions.push(match self.consolidatable(machine, node?, desk) {
                (ConditionStatus::True, ..) => Condition::holds(CONSOLIDATABLE, 0),
                (verdict, reason, message) => Condition::lacks(CONSOLIDATABLE, verdict, reason, message, 0),
            });
        }
        conditions.extend(leaving(machine, node.is_some()));
        conditions.extend(self.clerk.reasons.get(&machine.claim).map(|reason| Condition {
            reason: Text::from(*reason),
            message: machine.leaves.clone().unwrap_or_default(),
            ..Condition::holds("DisruptionReason", 0)
        }));
        let conditions = with_root(conditions, &["Launched", "Registered", "Initialized"], 0);
        let last_pod_event = node.and_then(|node| self.pod_event_to_stand(claim, node, desk.now));
        Some(StatusPatch { last_pod_event, conditions, ..StatusPatch::default() })
    }

    /// Whether all that can be said of a machine in service stands there already. Most machines are in service, and most looks
    /// at them find nothing new.
    fn is_described(&self, machine: &Machine, desk: &Context<'_>) -> bool {
        let goes = machine.stage != Stage::Initialized || self.clerk.reasons.contains_key(&machine.claim);
        let goes = goes || self.clerk.pod_events.is_due(&machine.claim, desk.now);
        if goes || machine.waits_for.is_some() || !self.state.has_seen_claim(&machine.claim) {
            return false;
        }
        let Some(said) = self.clerk.settled(&ObjectRef::Claim(machine.claim.clone())) else { return false };
        let Some(node) = self.state.node_of_claim(&machine.claim) else { return false };
        let of = |kind: &str| said.conditions.iter().find(|condition| condition.kind == kind);
        let holds = |kind: &str| of(kind).is_some_and(|condition| condition.verdict == ConditionStatus::True);
        let (verdict, reason, _) = self.consolidatable(machine, node, desk);
        let same = of(CONSOLIDATABLE).is_some_and(|said| said.verdict == verdict && &*said.reason == reason);
        let in_service = holds("Launched") && holds("Registered") && holds("Initialized");
        same && in_service && of("DisruptionReason").is_none()
    }

    /// Whether the machine was said to be consolidatable before, by a process that saw more of its pods: none has come or gone
    /// since this one first saw them.
    fn stood_so(&self, machine: &Machine, node: &NodeRecord) -> bool {
        let standing = self.state.claim(&machine.claim).map(|claim| claim.standing);
        standing.is_some_and(ConditionDigest::is_consolidatable)
            && self.state.quiet_since(&node.name) == self.state.synced_since()
    }

    /// Whether nothing has been said of the object here, and what is to be said stands there.
    pub(super) fn stands(&self, subject: &ObjectRef, content: &StatusPatch) -> bool {
        let ObjectRef::Claim(name) = subject else { return false };
        self.clerk.last_said(subject).is_none()
            && self.state.claim(name).is_some_and(|claim| {
                let moment = content.last_pod_event;
                claim.standing.says(content) && moment.is_none_or(|at| claim.last_pod_event == Some(at))
            })
    }

    /// ConditionStatus, reason and message.
    fn consolidatable(
        &self,
        machine: &Machine,
        node: &NodeRecord,
        desk: &Context<'_>,
    ) -> (ConditionStatus, &'static str, &'static str) {
        let pool = self.state.pool(&machine.pool).filter(|pool| pool.pool.replicas.is_none());
        let from =
            pool.zip(self.state.quiet_since(&node.name)).and_then(|(pool, since)| pool.life.consolidatable_from(since));
        match from {
            Some(from) if from <= desk.now || self.stood_so(machine, node) => {
                (ConditionStatus::True, CONSOLIDATABLE, "")
            }
            Some(_) => {
                (ConditionStatus::False, "PodEvents", "consolidateAfter has not passed since the last pod event")
            }
            None => (ConditionStatus::False, "Never", "the NodePool does not consolidate its nodes"),
        }
    }
}

fn validation(pool: &PoolRecord) -> Condition {
    const KIND: &str = "ValidationSucceeded";
    let own = match &pool.pool.not_ready {
        Some(NotReady::NodePool(why)) if !pool.meta.deleting => Some(why),
        _ => None,
    };
    match pool.meta.invalid.as_ref().or(own) {
        Some(why) => Condition::lacks(
            KIND,
            ConditionStatus::False,
            "NodePoolValidationFailed",
            why.clone(),
            pool.meta.generation,
        ),
        None => Condition::holds(KIND, pool.meta.generation),
    }
}

fn resolution(kind: &'static str, facts: ClassFacts, generation: i64) -> Condition {
    match facts {
        ClassFacts::Simulated => Condition::holds(kind, generation),
        ClassFacts::Unresolved => Condition::lacks(
            kind,
            ConditionStatus::Unknown,
            "NotResolved",
            "machines are launched by the server's launch template and subnets; what this EC2NodeClass selects is not looked up",
            generation,
        ),
    }
}

/// What was true of a machine's way into service stays true.
fn lasting(kind: &str, before: Option<&StatusPatch>, now: Condition) -> Condition {
    let held = before.and_then(|content| content.conditions.iter().find(|one| one.kind == kind));
    held.filter(|one| one.verdict == ConditionStatus::True).cloned().unwrap_or(now)
}

/// `None` while the agent is about to say so itself.
fn registered(machine: &Machine, node: Option<&NodeRecord>) -> Option<Condition> {
    const KIND: &str = "Registered";
    match node {
        Some(node) if node.is_registered() => Some(Condition::holds(KIND, 0)),
        Some(_) if !machine.stage.is_leaving() => None,
        Some(_) => Some(Condition::lacks(
            KIND,
            ConditionStatus::Unknown,
            "NotRegistered",
            "the machine goes before it was registered",
            0,
        )),
        None => {
            let message = format!("no Node has the provider id {}", machine.provider_id);
            Some(Condition::lacks(KIND, ConditionStatus::Unknown, "NodeNotFound", message, 0))
        }
    }
}

/// `None` while the agent is about to say so itself (Karpenter: initialisation, in this order).
fn initialized(machine: &Machine, node: Option<&NodeRecord>, claim: &ClaimRecord) -> Option<Condition> {
    let waits = |reason: &str, message: String| {
        Some(Condition::lacks("Initialized", ConditionStatus::Unknown, reason, message, 0))
    };
    let Some(node) = node.filter(|node| node.is_registered()) else {
        return waits("NodeNotRegistered", "the Node is not registered".to_owned());
    };
    if node.is_initialized() {
        return Some(Condition::holds("Initialized", 0));
    }
    if !node.ready {
        return waits("NodeNotReady", format!("Node {} is not ready", node.name));
    }
    if let Some(taint) = node.taints.iter().find(|taint| claim.startup_taints.contains(taint)) {
        return waits("StartupTaintsExist", format!("startup taint {} is still there", taint.key));
    }
    if let Some(taint) = node.taints.iter().find(|taint| is_ephemeral(taint)) {
        return waits("KnownEphemeralTaintsExist", format!("taint {} is still there", taint.key));
    }
    let lacking = claim.requests.iter().find(|(name, amount)| *amount != 0 && node.allocatable.get(name) == 0);
    match lacking {
        Some((name, _)) => waits("ResourceNotRegistered", format!("the Node does not report {name} yet")),
        None if machine.stage.is_leaving() => waits("Leaving", "the machine goes before it was in service".to_owned()),
        None => None,
    }
}

fn leaving(machine: &Machine, has_node: bool) -> Vec<Condition> {
    let reason = machine.leaves.clone().unwrap_or_default();
    match machine.stage {
        Stage::Draining => vec![Condition::lacks("Drained", ConditionStatus::Unknown, "Draining", reason, 0)],
        Stage::Terminating if has_node => {
            vec![Condition::holds("Drained", 0), Condition::holds("InstanceTerminating", 0)]
        }
        Stage::Terminating => vec![Condition::holds("InstanceTerminating", 0)],
        _ => Vec::new(),
    }
}
