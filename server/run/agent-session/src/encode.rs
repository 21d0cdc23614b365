//! Encodes instructions of the controller as messages.

mod moment;
mod node_class;
mod requirement;
mod status;

use cluster::LaunchedFacts;
use controller::{ClaimOrder, Instruction, InstructionId, PodNomination};
use drift::{NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION_KEY, POOL_HASH, POOL_HASH_VERSION};
use fleetwright_proto::v1::instruction::Action;
use fleetwright_proto::v1::{self, connect_response};
use model::labels::NODEPOOL;
use model::{ClaimName, Labels, Millis, Requirements, Resources, Taint, Text, Timestamp, quantity};
use requirement::entries;

/// Annotation of NodeClaims that Fleetwright manages. NodeClaims without it are counted and never
/// modified.
pub const MANAGED: &str = cluster::external_autoscalers::MANAGED;

/// Wraps `message` in a response.
#[must_use]
pub fn response(message: connect_response::Message) -> v1::ConnectResponse {
    v1::ConnectResponse { message: Some(message) }
}

/// Message for `instruction`, sent at `now`.
#[must_use]
pub fn instruction(
    wire_id: &str,
    id: InstructionId,
    epoch: u64,
    deadline: Timestamp,
    instruction: &Instruction,
    now: Timestamp,
) -> v1::Instruction {
    v1::Instruction {
        id: wire_id.to_owned(),
        epoch,
        generation: id.0,
        deadline_ms: deadline.as_millis(),
        remaining_ms: Some(deadline.duration_since(now).get()),
        subject: instruction.subject(),
        action: Some(action(instruction, now)),
        traceparent: String::new(),
        first_pod: None,
    }
}

fn action(instruction: &Instruction, now: Timestamp) -> Action {
    // Deadlines are sent as times and as durations, because the agent's clock may differ.
    match instruction {
        Instruction::CreateClaim(order) => {
            Action::CreateNodeClaim(v1::CreateNodeClaim { node_claim: Some(claim(order)) })
        }
        Instruction::MarkLaunched { claim, facts } => Action::MarkLaunched(launched(claim, facts)),
        Instruction::RegisterNode { claim, node, labels, taints: added, nominations: pods } => {
            Action::RegisterNode(v1::RegisterNode {
                node_claim: claim.to_string(),
                node: node.to_string(),
                labels: pairs(labels),
                taints: taints(added),
                nominations: nominations(pods),
            })
        }
        Instruction::NominatePods { node, nominations: pods } => {
            Action::NominatePods(v1::NominatePods { node: node.to_string(), nominations: nominations(pods) })
        }
        Instruction::InitializeNode { claim, node } => {
            Action::InitializeNode(v1::InitializeNode { node_claim: claim.to_string(), node: node.to_string() })
        }
        Instruction::Drain { claim, node, provider_id, deadline, interruption, only_if_empty, reason } => {
            Action::DrainNode(v1::DrainNode {
                node_claim: claim.to_string(),
                node: node.to_string(),
                force_at_ms: deadline.map(|at| at.as_millis()),
                force_in_ms: deadline.map(|at| at.duration_since(now).get()),
                reason: reason.to_string(),
                provider_id: provider_id.to_string(),
                interruption: *interruption,
                only_if_empty: *only_if_empty,
            })
        }
        Instruction::RemoveDisruptedTaint { claim, node, provider_id } => {
            Action::RemoveDisruptedTaint(v1::RemoveDisruptedTaint {
                node_claim: claim.to_string(),
                node: node.to_string(),
                provider_id: provider_id.to_string(),
            })
        }
        Instruction::WriteStatus(order) => Action::WriteObject(status::write(order)),
        Instruction::RecordEvent(order) => Action::RecordEvent(status::event(order)),
        Instruction::DeleteClaim { claim, node, provider_id, reason } => Action::DeleteNodeClaim(v1::DeleteNodeClaim {
            node_claim: claim.to_string(),
            provider_id: provider_id.to_string(),
            node: node.as_ref().map(ToString::to_string).unwrap_or_default(),
            reason: reason.to_string(),
        }),
    }
}

fn nominations(pods: &[PodNomination]) -> Vec<v1::PodNomination> {
    let nomination = |nomination: &PodNomination| v1::PodNomination {
        namespace: nomination.pod.namespace.to_string(),
        name: nomination.pod.name.to_string(),
        uid: nomination.uid.to_string(),
    };
    pods.iter().map(nomination).collect()
}

fn launched(claim: &ClaimName, facts: &LaunchedFacts) -> v1::MarkLaunched {
    v1::MarkLaunched {
        node_claim: claim.to_string(),
        provider_id: facts.provider_id.to_string(),
        labels: pairs(&facts.labels),
        capacity: quantities(&facts.capacity),
        allocatable: quantities(&facts.allocatable),
        image_id: facts.image.to_string(),
    }
}

fn claim(order: &ClaimOrder) -> v1::NodeClaimRecord {
    let mut labels = order.labels.clone();
    labels.entry(NODEPOOL.into()).or_insert_with(|| order.pool.as_text().clone());
    v1::NodeClaimRecord {
        name: order.name.to_string(),
        labels: pairs(&labels),
        annotations: annotations(order),
        node_class: Some(v1::NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: order.node_class.to_string(),
        }),
        requirements: requirements(&order.requirements),
        taints: taints(&order.taints),
        startup_taints: taints(&order.startup_taints),
        requests: quantities(&order.requests),
        termination_grace_period: order.termination_grace_period.map(duration).unwrap_or_default(),
        expire_after: order.expire_after.map_or_else(|| "Never".to_owned(), duration),
        owner: Some(v1::Owner {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodePool".to_owned(),
            name: order.pool.to_string(),
            uid: String::new(),
        }),
        ..v1::NodeClaimRecord::default()
    }
}

fn annotations(order: &ClaimOrder) -> Vec<v1::StringPair> {
    let pair = |key: &str, value: &str| v1::StringPair { key: key.to_owned(), value: value.to_owned() };
    let hash = order.pool_hash.iter();
    let hash = hash.flat_map(|(hash, version)| [pair(POOL_HASH, hash), pair(POOL_HASH_VERSION, version)]);
    let class = order
        .class_hash
        .iter()
        .flat_map(|(hash, version)| [pair(NODE_CLASS_HASH, hash), pair(NODE_CLASS_HASH_VERSION_KEY, version)]);
    [pair(MANAGED, "true")].into_iter().chain(hash).chain(class).collect()
}

/// Whole seconds, as in the API; fractions round up.
fn duration(duration: Millis) -> String {
    format!("{}s", duration.get().max(0).unsigned_abs().div_ceil(1_000))
}

/// Entries of `spec.requirements`. A requirement with two bounds, or with bounds and excluded
/// values, takes one entry for each.
fn requirements(requirements: &Requirements) -> Vec<v1::ClaimRequirement> {
    requirements.iter().flat_map(entries).collect()
}

fn pairs(labels: &Labels) -> Vec<v1::StringPair> {
    labels.iter().map(|(key, value)| v1::StringPair { key: key.to_string(), value: value.to_string() }).collect()
}

fn taints(taints: &[Taint]) -> Vec<v1::Taint> {
    let message = |taint: &Taint| v1::Taint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.as_str().to_owned(),
    };
    taints.iter().map(message).collect()
}

fn quantities(resources: &Resources) -> Vec<v1::Quantity> {
    let message = |(name, amount): (&Text, i64)| v1::Quantity {
        resource: name.to_string(),
        amount: quantity::render(name, amount),
    };
    resources.iter().map(message).collect()
}

#[cfg(test)]
mod tests {
    use model::{Operator, Requirement};

    use super::*;

    fn rendered(requirement: &Requirement) -> Vec<String> {
        entries(requirement).iter().map(|e| format!("{} {} {}", e.key, e.operator, e.values.join(","))).collect()
    }

    fn make(operator: Operator, values: &[&str]) -> Requirement {
        Requirement::new("k", operator, values.iter().map(|v| Text::from(*v)))
    }

    #[test]
    fn every_kind_of_requirement_has_equivalent_entries() {
        assert_eq!(rendered(&make(Operator::In, &["b", "a"])), ["k In a,b"]);
        assert_eq!(rendered(&make(Operator::DoesNotExist, &[])), ["k DoesNotExist "]);
        assert_eq!(rendered(&make(Operator::Exists, &[])), ["k Exists "]);
        let between = make(Operator::Gt, &["3"]).intersection(&make(Operator::Lt, &["9"]));
        assert_eq!(rendered(&between), ["k Gt 3", "k Lt 9"]);
        let without = between.intersection(&make(Operator::NotIn, &["5"]));
        assert_eq!(rendered(&without), ["k Gt 3", "k Lt 9", "k NotIn 5"]);
        assert_eq!(rendered(&make(Operator::NotIn, &["a"])), ["k NotIn a"]);
        let present = make(Operator::Exists, &[]).intersection(&make(Operator::NotIn, &["a"]));
        assert_eq!(rendered(&present), ["k Exists ", "k NotIn a"]);
    }

    /// Karpenter's CRDs up to 1.8 know no `Gte` and `Lte`, and none accepts a negative bound.
    #[test]
    fn bounds_are_written_as_every_release_of_karpenter_reads_them() {
        assert_eq!(rendered(&make(Operator::Gte, &["1"])), ["k Gt 0"]);
        assert_eq!(rendered(&make(Operator::Gte, &["0"])), ["k Exists "]);
        assert_eq!(rendered(&make(Operator::Lte, &["8"])), ["k Lt 9"]);
        assert_eq!(rendered(&make(Operator::Lt, &["0"])), ["k Lt 0"]);
        assert_eq!(rendered(&make(Operator::Lte, &["9223372036854775807"])), ["k Exists "]);
        let gpus = make(Operator::Gte, &["0"]).intersection(&make(Operator::NotIn, &["3"]));
        assert_eq!(rendered(&gpus), ["k Exists ", "k NotIn 3"]);
    }

    #[test]
    fn a_claim_has_its_pool_as_owner_and_its_expiry() {
        let order = ClaimOrder {
            name: "general-1".into(),
            pool: "general".into(),
            node_class: "default".into(),
            labels: Labels::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Requirements::new(),
            requests: Resources::from_iter([("cpu", 1_500), ("memory", 1 << 30)]),
            expire_after: None,
            termination_grace_period: Some(Millis::new(1_500)),
            pool_hash: Some(("a1".into(), "fleetwright-1".into())),
            class_hash: Some(("b2".into(), "fleetwright-1".into())),
        };
        let record = claim(&order);
        assert_eq!(record.expire_after, "Never");
        assert_eq!(record.termination_grace_period, "2s");
        assert_eq!(record.labels[0], v1::StringPair { key: NODEPOOL.into(), value: "general".into() });
        let amounts: Vec<_> = record.requests.iter().map(|q| q.amount.as_str()).collect();
        assert_eq!(amounts, ["1500m", "1Gi"]);
        let annotations: Vec<_> =
            record.annotations.iter().map(|pair| (pair.key.as_str(), pair.value.as_str())).collect();
        let hash =
            [("fleetwright.dev/nodepool-hash", "a1"), ("fleetwright.dev/nodepool-hash-version", "fleetwright-1")];
        let class = [
            ("fleetwright.dev/ec2nodeclass-hash", "b2"),
            ("fleetwright.dev/ec2nodeclass-hash-version", "fleetwright-1"),
        ];
        assert_eq!(annotations, [(MANAGED, "true"), hash[0], hash[1], class[0], class[1]]);
    }

    fn drain_of(claim: &str, deadline: Option<Timestamp>) -> Instruction {
        Instruction::Drain {
            claim: claim.into(),
            node: "n".into(),
            provider_id: "aws:///z/i-1".into(),
            deadline,
            interruption: true,
            only_if_empty: true,
            reason: "why".into(),
        }
    }

    #[test]
    fn deadlines_are_also_sent_as_durations_and_nodes_with_their_instance() {
        let drain = drain_of("a", Some(Timestamp::from_millis(90_000)));
        let message = instruction(
            "3-7",
            InstructionId(7),
            3,
            Timestamp::from_millis(130_000),
            &drain,
            Timestamp::from_millis(100_000),
        );
        assert_eq!((message.deadline_ms, message.remaining_ms), (130_000, Some(30_000)));
        let Some(Action::DrainNode(order)) = message.action else { panic!("no drain") };
        // The deadline had passed ten seconds before.
        assert_eq!((order.force_at_ms, order.force_in_ms), (Some(90_000), Some(0)));
        assert_eq!((order.provider_id.as_str(), order.interruption, order.only_if_empty), ("aws:///z/i-1", true, true));
    }
}
