//! Desired statuses of NodePools, EC2NodeClasses and NodeClaims.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::StatusReporter;
use crate::ClassFacts;
use crate::nodeclaim::{ManagedClaim, StageKind};
use crate::status::{Condition, ConditionStatus, ObjectRef, StatusPatch, with_root};
use crate::step_view::StepView;
use cluster::condition_digest::{CONSISTENT, CONSOLIDATABLE, DRIFTED};
use cluster::planning::is_ephemeral;
use cluster::{ClaimRecord, ClassRecord, ClusterState, ConditionDigest, NodeRecord, PoolRecord};
use drift::{Drift, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY};
use model::node_class::{RESOLVED_CONDITIONS, Resolution};
use model::resources::NODES;
use model::{ClaimName, NotReady, Resources, Text};

/// Finalizer that keeps an EC2NodeClass until no NodeClaim needs it (Karpenter's AWS provider:
/// termination).
pub(super) const CLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";

const VALIDATION: &str = "ValidationSucceeded";

impl StatusReporter {
    /// The desired status of every managed object; `None` leaves the status unchanged for now.
    pub(super) fn desired_statuses(&mut self, view: &StepView<'_>) -> BTreeMap<ObjectRef, Option<StatusPatch>> {
        let mut contents = BTreeMap::new();
        let pools: Vec<PoolRecord> =
            view.state.pools().filter(|pool| view.state.unmanaged_reason(pool).is_none()).cloned().collect();
        for pool in &pools {
            let patch = self.pool_content(pool, view);
            contents.insert(ObjectRef::Pool(pool.pool.name.clone()), Some(patch));
        }
        // While Karpenter is active too, it writes the EC2NodeClasses; their owner cannot be
        // determined.
        if !view.state.is_karpenter_active() {
            let classes = view.state.classes();
            contents.extend(classes.map(|class| (ObjectRef::Class(class.name.clone()), class_content(class, view))));
        }
        let (mut up_to_date, mut passed_over) = (Vec::new(), 0);
        for machine in view.claims.iter() {
            if machine.stage() == StageKind::Initialized && self.up_to_date.contains(machine.name()) {
                passed_over += 1;
            } else if self.is_up_to_date(machine, view) {
                up_to_date.push(machine.name().clone());
            } else if view.state.is_claim_observed(machine.name()) {
                contents.insert(ObjectRef::Claim(machine.name().clone()), self.claim_content(machine, view));
            }
        }
        if passed_over < self.up_to_date.len() {
            let stays = |claim: &ClaimName| view.claims.get(claim).is_some_and(|m| m.stage() == StageKind::Initialized);
            self.up_to_date.retain(stays);
        }
        self.up_to_date.extend(up_to_date);
        contents
    }

    fn pool_content(&mut self, pool: &PoolRecord, view: &StepView<'_>) -> StatusPatch {
        let generation = pool.meta.generation;
        let (mut usage, mut nodes) = (Resources::new(), 0);
        for claim in view.state.claims().filter(|claim| claim.pool == pool.pool.name && claim.is_launched()) {
            usage.add(&claim.capacity);
            nodes += 1;
        }
        if nodes > 0 {
            usage.add(&Resources::from_iter([(NODES, nodes)]));
        }
        let conditions = vec![validation(pool), class_ready(pool, view.state), self.health.condition(pool)];
        let conditions = with_root(conditions, &["ValidationSucceeded", "NodeClassReady"], generation);
        StatusPatch { usage: Some(usage), conditions, ..StatusPatch::default() }
    }

    /// `None` while an instruction in flight will change the status, and once the NodeClaim is
    /// being removed.
    fn claim_content(&self, machine: &ManagedClaim, view: &StepView<'_>) -> Option<StatusPatch> {
        let claim = view.state.claim(machine.name())?;
        let quiet = machine.has_instruction_in_flight() && machine.stage() != StageKind::Draining;
        if quiet
            || matches!(
                machine.stage(),
                StageKind::Planned | StageKind::Creating | StageKind::Launching | StageKind::Deleting
            )
        {
            return None;
        }
        let node = view.state.node_of_claim(machine.name());
        let before = self.last_written(&ObjectRef::Claim(machine.name().clone()));
        let mut conditions = vec![
            Condition::met("Launched", 0),
            keep_if_true("Registered", before, registered(machine, node)?),
            keep_if_true("Initialized", before, initialized(machine, node, claim)?),
        ];
        if machine.stage() == StageKind::Initialized {
            conditions.extend(self.consistency.condition(machine.name()));
            conditions.push(match consolidatable(machine, node?, view) {
                (ConditionStatus::True, ..) => Condition::met(CONSOLIDATABLE, 0),
                (status, reason, message) => Condition::unmet(CONSOLIDATABLE, status, reason, message, 0),
            });
        }
        conditions.extend(leaving(machine, node.is_some()));
        conditions.extend(self.disruption_reasons.get(machine.name()).map(|reason| Condition {
            reason: Text::from(*reason),
            message: machine.termination_message(),
            ..Condition::met("DisruptionReason", 0)
        }));
        let drifted = drifted(claim, view);
        let annotations = class_hash_migration(claim, drifted.is_some(), view.state);
        let remove_conditions =
            if drifted.is_none() && is_shown_as_drifted(claim) { vec![DRIFTED] } else { Vec::new() };
        conditions.extend(drifted);
        let conditions = with_root(conditions, &["Launched", "Registered", "Initialized"], 0);
        let last_pod_event = node.and_then(|node| self.desired_pod_event(claim, node, view));
        Some(StatusPatch { last_pod_event, conditions, remove_conditions, annotations, ..StatusPatch::default() })
    }

    /// Whether the status of an initialized machine needs no change; true for most machines in most
    /// passes.
    fn is_up_to_date(&self, machine: &ManagedClaim, view: &StepView<'_>) -> bool {
        let changes = machine.stage() != StageKind::Initialized || self.disruption_reasons.contains_key(machine.name());
        let changes = changes || self.pod_events.is_due(machine.name(), view.now);
        if changes || machine.has_instruction_in_flight() || !view.state.is_claim_observed(machine.name()) {
            return false;
        }
        let Some(last) = self.last_successful(&ObjectRef::Claim(machine.name().clone())) else {
            return false;
        };
        let Some(node) = view.state.node_of_claim(machine.name()) else { return false };
        let of = |kind: &str| last.conditions.iter().find(|condition| condition.kind == kind);
        let holds = |kind: &str| of(kind).is_some_and(|condition| condition.status == ConditionStatus::True);
        let (status, reason, _) = consolidatable(machine, node, view);
        let same = of(CONSOLIDATABLE).is_some_and(|last| last.status == status && &*last.reason == reason);
        let Some(claim) = view.state.claim(machine.name()) else { return false };
        let drifted = drifted(claim, view);
        let same = same && class_hash_migration(claim, drifted.is_some(), view.state).is_empty();
        let same = same && of(DRIFTED) == drifted.as_ref() && (drifted.is_some() || !is_shown_as_drifted(claim));
        let consistent = self.consistency.condition(machine.name());
        let same = same && of(CONSISTENT) == consistent.as_ref();
        let initialized_cluster = holds("Launched") && holds("Registered") && holds("Initialized");
        same && initialized_cluster && of("DisruptionReason").is_none()
    }

    /// Whether this process has not written to the object and the cluster already has `patch`.
    pub(super) fn is_already_written(&self, subject: &ObjectRef, patch: &StatusPatch, view: &StepView<'_>) -> bool {
        let ObjectRef::Claim(name) = subject else { return false };
        self.last_written(subject).is_none()
            && patch.annotations.is_empty()
            && view.state.claim(name).is_some_and(|claim| {
                let moment = patch.last_pod_event;
                patch.is_shown(claim.condition_digest) && moment.is_none_or(|at| claim.last_pod_event == Some(at))
            })
    }
}

fn class_ready(pool: &PoolRecord, state: &ClusterState) -> Condition {
    const KIND: &str = "NodeClassReady";
    let generation = pool.meta.generation;
    let lacks = |reason: &str, message: &Text| {
        Condition::unmet(KIND, ConditionStatus::False, reason, message.clone(), generation)
    };
    let class = state.class(&pool.pool.node_class);
    match (class, &pool.pool.not_ready) {
        (Some(class), _) if class.deleting => {
            lacks("NodeClassTerminating", &Text::from(format!("EC2NodeClass {} is being deleted", class.name)))
        }
        (Some(ClassRecord { invalid: Some(why), .. }), _) => lacks("NodeClassNotReady", why),
        (None, Some(NotReady::NodeClass(why))) => lacks("NodeClassNotFound", why),
        (Some(_), Some(NotReady::NodeClass(why))) => lacks("NodeClassNotReady", why),
        _ => Condition::met(KIND, generation),
    }
}

/// `None` for an EC2NodeClass that no managed NodePool or machine uses.
fn class_content(class: &ClassRecord, view: &StepView<'_>) -> Option<StatusPatch> {
    let pools: Vec<&PoolRecord> = view.state.pools().filter(|pool| pool.pool.node_class == class.name).collect();
    let managed = pools.iter().any(|pool| view.state.unmanaged_reason(pool).is_none());
    // The finalizer of a class that is no longer used is still removed once no NodeClaim needs it.
    let needed = view.state.claims().any(|claim| claim.node_class == class.name);
    if !managed && !class.has_finalizer {
        return None;
    }
    let generation = class.generation;
    let valid = match &class.invalid {
        None => Condition::met(VALIDATION, generation),
        Some(why) => Condition::unmet(VALIDATION, ConditionStatus::False, "ValidationFailed", why.clone(), generation),
    };
    let facts = view.settings().class_facts;
    let resolved = view.node_classes.resolved(&class.name);
    // A class that is deleted may have lost its NodePools, and then nothing resolves it.
    let is_awaited = resolved.is_none() && class.invalid.is_none() && !class.deleting;
    if facts == ClassFacts::Resolved && is_awaited {
        // The first resolution follows in seconds; until then the previous owner's conditions stay.
        return None;
    }
    let of = |kind| resolved.and_then(|resolved| resolved.conditions.get(kind));
    let resolution = |kind| match facts {
        ClassFacts::Simulated => Condition::met(kind, generation),
        ClassFacts::Resolved => resolution(kind, of(kind), generation),
    };
    let mut conditions: Vec<Condition> = RESOLVED_CONDITIONS.into_iter().map(resolution).collect();
    conditions.push(match of(VALIDATION) {
        Some(found) if class.invalid.is_none() => self::resolution(VALIDATION, Some(found), generation),
        _ => valid,
    });
    let dependents: Vec<&str> = RESOLVED_CONDITIONS.into_iter().chain([VALIDATION]).collect();
    let zones = (facts == ClassFacts::Simulated).then(|| view.region.zones().for_pools(&pools));
    Some(StatusPatch {
        zones,
        node_class: resolved.map(|resolved| Arc::new(resolved.status.clone())),
        conditions: with_root(conditions, &dependents, generation),
        add_finalizer: (managed && !class.deleting).then_some(CLASS_FINALIZER),
        remove_finalizer: (class.deleting && class.has_finalizer && !needed).then_some(CLASS_FINALIZER),
        ..StatusPatch::default()
    })
}

/// The condition `Drifted`, while the NodeClaim has drifted (Karpenter: it is absent otherwise).
fn drifted(claim: &ClaimRecord, view: &StepView<'_>) -> Option<Condition> {
    let Drift { reason, message } = view.state.drift_of(claim, view.now)?;
    Some(Condition { reason: Text::from(reason.as_str()), message, ..Condition::met(DRIFTED, 0) })
}

/// The annotations with the hash of the EC2NodeClass, for a NodeClaim that has none of the current version: it was
/// launched by Karpenter or by another version of this server. One that has drifted keeps its hash (Karpenter: hash
/// version).
fn class_hash_migration(claim: &ClaimRecord, is_drifted: bool, state: &ClusterState) -> Vec<(Text, Text)> {
    let pool = state.pool(&claim.pool).filter(|pool| state.unmanaged_reason(pool).is_none());
    let current = pool.filter(|_| claim.ours).and_then(|pool| pool.drift.own_class_hash.as_ref());
    let Some((hash, version)) = current else { return Vec::new() };
    let pair = |key: &str, value: &Text| (Text::from(key), value.clone());
    let with_version = |hash: &Text| vec![pair(NODE_CLASS_HASH, hash), pair(NODE_CLASS_HASH_VERSION_KEY, version)];
    match &claim.drift.own_class_hash {
        Some((_, known)) if known == version => Vec::new(),
        Some((old, _)) if is_drifted => with_version(old),
        None if is_drifted => Vec::new(),
        _ => with_version(hash),
    }
}

/// Whether a previous process wrote `Consolidatable` and no pod event has happened since the
/// first accepted snapshot.
fn was_consolidatable(machine: &ManagedClaim, node: &NodeRecord, state: &ClusterState) -> bool {
    let standing = state.claim(machine.name()).map(|claim| claim.condition_digest);
    standing.is_some_and(ConditionDigest::is_consolidatable) && state.last_pod_event(&node.name) == state.synced_since()
}

/// Condition status, reason and message.
fn consolidatable(
    machine: &ManagedClaim,
    node: &NodeRecord,
    view: &StepView<'_>,
) -> (ConditionStatus, &'static str, &'static str) {
    let pool = view.state.pool(machine.pool()).filter(|pool| pool.pool.replicas.is_none());
    let from = pool
        .zip(view.state.last_pod_event(&node.name))
        .and_then(|(pool, since)| pool.disruption.consolidatable_from(since));
    match from {
        Some(from) if from <= view.now || was_consolidatable(machine, node, view.state) => {
            (ConditionStatus::True, CONSOLIDATABLE, "")
        }
        Some(_) => (ConditionStatus::False, "PodEvents", "consolidateAfter has not passed since the last pod event"),
        None => (ConditionStatus::False, "Never", "the NodePool does not consolidate its nodes"),
    }
}

/// Whether the cluster shows the condition `Drifted`.
fn is_shown_as_drifted(claim: &ClaimRecord) -> bool {
    claim.drift.drifted_since.is_some()
}

fn validation(pool: &PoolRecord) -> Condition {
    const KIND: &str = "ValidationSucceeded";
    let own = match &pool.pool.not_ready {
        Some(NotReady::NodePool(why)) if !pool.meta.deleting => Some(why),
        _ => None,
    };
    match pool.meta.invalid.as_ref().or(own) {
        Some(why) => Condition::unmet(
            KIND,
            ConditionStatus::False,
            "NodePoolValidationFailed",
            why.clone(),
            pool.meta.generation,
        ),
        None => Condition::met(KIND, pool.meta.generation),
    }
}

/// The condition for what was resolved; Unknown while the class cannot be resolved.
fn resolution(kind: &'static str, found: Option<&Resolution>, generation: i64) -> Condition {
    let unmet =
        |status, reason: &Text, message: &Text| Condition::unmet(kind, status, reason, message.clone(), generation);
    match found {
        Some(Resolution::Met) => Condition::met(kind, generation),
        Some(Resolution::Missing { reason, message }) => unmet(ConditionStatus::False, reason, message),
        Some(Resolution::Unknown { reason, message }) => unmet(ConditionStatus::Unknown, reason, message),
        None => Condition::unmet(kind, ConditionStatus::Unknown, "NotResolved", "not looked up yet", generation),
    }
}

/// A condition of the launch phase that was true stays true.
fn keep_if_true(kind: &str, before: Option<&StatusPatch>, now: Condition) -> Condition {
    let held = before.and_then(|patch| patch.conditions.iter().find(|one| one.kind == kind));
    held.filter(|one| one.status == ConditionStatus::True).cloned().unwrap_or(now)
}

/// `None` while the agent is about to register the Node.
fn registered(machine: &ManagedClaim, node: Option<&NodeRecord>) -> Option<Condition> {
    const KIND: &str = "Registered";
    match node {
        Some(node) if node.is_registered() => Some(Condition::met(KIND, 0)),
        Some(_) if !machine.stage().is_terminating() => None,
        Some(_) => Some(Condition::unmet(
            KIND,
            ConditionStatus::Unknown,
            "NotRegistered",
            "the machine is being terminated before registration",
            0,
        )),
        None => {
            let message = format!("no Node has the provider id {}", machine.provider_id());
            Some(Condition::unmet(KIND, ConditionStatus::Unknown, "NodeNotFound", message, 0))
        }
    }
}

/// `None` while the agent is about to initialize the Node (Karpenter: initialization, in this
/// order).
fn initialized(machine: &ManagedClaim, node: Option<&NodeRecord>, claim: &ClaimRecord) -> Option<Condition> {
    let waits = |reason: &str, message: String| {
        Some(Condition::unmet("Initialized", ConditionStatus::Unknown, reason, message, 0))
    };
    let Some(node) = node.filter(|node| node.is_registered()) else {
        return waits("NodeNotRegistered", "the Node is not registered".to_owned());
    };
    if node.is_initialized() {
        return Some(Condition::met("Initialized", 0));
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
        None if machine.stage().is_terminating() => {
            waits("Leaving", "the machine is being terminated before initialization".to_owned())
        }
        None => None,
    }
}

fn leaving(machine: &ManagedClaim, has_node: bool) -> Vec<Condition> {
    let reason = machine.termination_message();
    match machine.stage() {
        StageKind::Draining => vec![Condition::unmet("Drained", ConditionStatus::Unknown, "Draining", reason, 0)],
        StageKind::Terminating if has_node => {
            vec![Condition::met("Drained", 0), Condition::met("InstanceTerminating", 0)]
        }
        StageKind::Terminating => vec![Condition::met("InstanceTerminating", 0)],
        _ => Vec::new(),
    }
}
