//! Decodes instructions for the simulated cluster. Fields that the simulation does not use are
//! dropped.

use cluster::LaunchedFacts;
use controller::{ClaimOrder, Instruction, PodNomination};
use drift::{NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY, POOL_HASH, POOL_HASH_VERSION, VersionedHash};
use fleetwright_proto::v1;
use manifests::karpenter::duration;
use model::quantity::{self, QuantityError};
use model::taints::Effect;
use model::{
    ClaimName, Labels, NodeName, Operator, PodKey, PoolName, Requirement, Requirements, Resources, Taint, Text,
    Timestamp,
};
use serde_json::Value;
use v1::instruction::Action;

/// Whether `instruction` only writes a status or an Event. A simulated cluster stores neither,
/// except the [`conditions`] of NodeClaims, their last [`pod_event`] and [`class_hash`]; such writes succeed at
/// once.
pub(crate) fn only_tells(instruction: &v1::Instruction) -> bool {
    matches!(instruction.action, Some(Action::WriteObject(_) | Action::RecordEvent(_)))
}

/// The NodeClaim and the conditions that `instruction` writes.
pub fn conditions(instruction: &v1::Instruction) -> Option<(ClaimName, Vec<v1::Condition>)> {
    let Some(Action::WriteObject(write)) = &instruction.action else { return None };
    let status: Value = serde_json::from_slice(&write.status).ok()?;
    let entries = status.get("conditions").filter(|_| write.kind() == v1::ObjectKind::NodeClaim)?.as_array()?;
    let condition = |entry: &Value| {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (r#type, status, reason, message) = (text("type"), text("status"), text("reason"), text("message"));
        v1::Condition { r#type, status, reason, message, last_transition_ms: 0 }
    };
    Some((write.name.as_str().into(), entries.iter().map(condition).collect()))
}

/// The status that an instruction writes into an EC2NodeClass.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenStatus {
    /// Name of the EC2NodeClass.
    pub name: String,
    status: Value,
}

/// The status that `instruction` writes into an EC2NodeClass.
pub fn node_class_status(instruction: &v1::Instruction) -> Option<WrittenStatus> {
    let Some(Action::WriteObject(write)) = &instruction.action else { return None };
    let is_class = write.kind() == v1::ObjectKind::Ec2NodeClass && !write.status.is_empty();
    let status = is_class.then(|| serde_json::from_slice(&write.status).ok())??;
    Some(WrittenStatus { name: write.name.clone(), status })
}

impl WrittenStatus {
    /// Merges the status into that of `object`, conditions by their types. A condition that is not written is kept;
    /// the server writes all of its own.
    pub fn apply(self, object: &mut Value) {
        let Value::Object(fields) = self.status else { return };
        let of_type = |one: &Value| one["type"].as_str().unwrap_or_default().to_owned();
        for (field, value) in fields {
            if field != "conditions" {
                object["status"][field] = value;
                continue;
            }
            let written = value.as_array().cloned().unwrap_or_default();
            let kept = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_replaced = |one: &Value| written.iter().any(|new| of_type(new) == of_type(one));
            let conditions: Vec<Value> =
                kept.into_iter().filter(|one| !is_replaced(one)).chain(written.clone()).collect();
            object["status"]["conditions"] = Value::Array(conditions);
        }
    }
}

/// The NodeClaim and the time of the last pod event that `instruction` writes.
pub fn pod_event(instruction: &v1::Instruction) -> Option<(ClaimName, Timestamp)> {
    let Some(Action::WriteObject(write)) = &instruction.action else { return None };
    let status: Value = serde_json::from_slice(&write.status).ok()?;
    let at: jiff::Timestamp = status.get("lastPodEventTime")?.as_str()?.parse().ok()?;
    Some((write.name.as_str().into(), Timestamp::from_millis(at.as_millisecond())))
}

/// The NodeClaim and the hash of its EC2NodeClass that `instruction` writes.
pub fn class_hash(instruction: &v1::Instruction) -> Option<(ClaimName, VersionedHash)> {
    let Some(Action::WriteObject(write)) = &instruction.action else { return None };
    let written = hash(&write.annotations, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY)?;
    (write.kind() == v1::ObjectKind::NodeClaim).then(|| (write.name.as_str().into(), written))
}

/// An invalid field of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstructionError {
    #[error("an instruction to create a NodeClaim names none")]
    NoNodeClaim,
    #[error("unknown operator {0:?}")]
    Operator(String),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error("unknown taint effect {0:?}")]
    TaintEffect(String),
}

/// Decodes `instruction`; `None` for kinds that this agent does not support.
///
/// # Errors
/// When a field is invalid.
pub fn instruction(instruction: v1::Instruction) -> Result<Option<Instruction>, InstructionError> {
    let Some(action) = instruction.action else { return Ok(None) };
    // Statuses and Events are handled before, so this agent does not support them here.
    Ok(Some(match action {
        Action::CreateNodeClaim(create) => {
            Instruction::CreateClaim(claim(create.node_claim.ok_or(InstructionError::NoNodeClaim)?)?)
        }
        Action::MarkLaunched(mark) => Instruction::MarkLaunched {
            claim: mark.node_claim.into(),
            facts: LaunchedFacts {
                provider_id: mark.provider_id.into(),
                labels: labels(mark.labels),
                capacity: resources(mark.capacity)?,
                allocatable: resources(mark.allocatable)?,
                image: mark.image_id.into(),
            },
        },
        Action::RegisterNode(register) => Instruction::RegisterNode {
            claim: register.node_claim.into(),
            node: register.node.into(),
            labels: labels(register.labels),
            taints: taints(register.taints)?,
            nominations: register.nominations.into_iter().map(nomination).collect(),
        },
        Action::NominatePods(order) => Instruction::NominatePods {
            node: order.node.into(),
            nominations: order.nominations.into_iter().map(nomination).collect(),
        },
        Action::InitializeNode(initialize) => {
            Instruction::InitializeNode { claim: initialize.node_claim.into(), node: initialize.node.into() }
        }
        Action::DrainNode(drain) => Instruction::Drain {
            claim: drain.node_claim.into(),
            node: drain.node.into(),
            provider_id: drain.provider_id.into(),
            interruption: drain.interruption,
            only_if_empty: drain.only_if_empty,
            deadline: drain.force_at_ms.map(Timestamp::from_millis),
            reason: drain.reason.into(),
        },
        Action::RemoveDisruptedTaint(taint) => Instruction::RemoveDisruptedTaint {
            claim: taint.node_claim.into(),
            node: taint.node.into(),
            provider_id: taint.provider_id.into(),
        },
        Action::DeleteNodeClaim(delete) => Instruction::DeleteClaim {
            claim: delete.node_claim.into(),
            node: Some(delete.node).filter(|node| !node.is_empty()).map(NodeName::from),
            provider_id: delete.provider_id.into(),
            reason: delete.reason.into(),
        },
        Action::WriteObject(_) | Action::RecordEvent(_) => return Ok(None),
    }))
}

fn nomination(nomination: v1::PodNomination) -> PodNomination {
    PodNomination {
        pod: PodKey { namespace: nomination.namespace.into(), name: nomination.name.into() },
        uid: nomination.uid.into(),
    }
}

fn claim(record: v1::NodeClaimRecord) -> Result<ClaimOrder, InstructionError> {
    let labels = labels(record.labels);
    let owner = record.owner.map(|owner| owner.name).unwrap_or_default();
    let pool = labels.get(model::labels::NODEPOOL).map_or_else(|| PoolName::from(owner), PoolName::from);
    Ok(ClaimOrder {
        name: record.name.into(),
        pool,
        node_class: record.node_class.map(|class| class.name).unwrap_or_default().into(),
        labels,
        taints: taints(record.taints)?,
        startup_taints: taints(record.startup_taints)?,
        requirements: requirements(record.requirements)?,
        requests: resources(record.requests)?,
        expire_after: duration::parse(&record.expire_after),
        termination_grace_period: None,
        pool_hash: hash(&record.annotations, POOL_HASH, POOL_HASH_VERSION),
        class_hash: hash(&record.annotations, NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY),
    })
}

fn hash(pairs: &[v1::StringPair], key: &str, version: &str) -> Option<VersionedHash> {
    annotation(pairs, key).zip(annotation(pairs, version))
}

fn annotation(pairs: &[v1::StringPair], key: &str) -> Option<Text> {
    pairs.iter().find(|pair| pair.key == key).map(|pair| Text::from(pair.value.as_str()))
}

fn requirements(entries: Vec<v1::ClaimRequirement>) -> Result<Requirements, InstructionError> {
    let mut requirements = Requirements::default();
    for entry in entries {
        let unknown = || InstructionError::Operator(entry.operator.clone());
        let operator = Operator::parse(&entry.operator).ok_or_else(unknown)?;
        let requirement = Requirement::new(&entry.key, operator, entry.values.into_iter().map(Text::from));
        requirements.add(requirement.with_min_values(entry.min_values));
    }
    Ok(requirements)
}

fn resources(quantities: Vec<v1::Quantity>) -> Result<Resources, InstructionError> {
    let read = |entry: v1::Quantity| {
        let amount = quantity::parse(&entry.resource, &entry.amount)?;
        Ok((Text::from(entry.resource), amount))
    };
    quantities.into_iter().map(read).collect()
}

fn taints(taints: Vec<v1::Taint>) -> Result<Vec<Taint>, InstructionError> {
    let read = |taint: v1::Taint| {
        let effects = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
        let effect = effects.into_iter().find(|effect| effect.as_str() == taint.effect);
        let effect = effect.ok_or_else(|| InstructionError::TaintEffect(taint.effect.clone()))?;
        Ok(Taint { key: taint.key.into(), value: taint.value.into(), effect })
    };
    taints.into_iter().map(read).collect()
}

fn labels(pairs: Vec<v1::StringPair>) -> Labels {
    pairs.into_iter().map(|pair| (pair.key.into(), pair.value.into())).collect()
}
