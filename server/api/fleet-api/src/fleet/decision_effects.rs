//! Decisions as the API has them, with what they launch, replace and remove. That part is stored with the decision in this
//! encoding, so that any replica answers.

use std::collections::{BTreeMap, BTreeSet};

use controller::{Decision, OutgoingNode, PlannedMachine};
use fleetwright_proto::v1;
use prost::Message;

use super::encode::trace_id;
use crate::views;
use api_messages::{enum_values, number, resource_names as names, signed, timestamp};

/// NodeClaims that are named of equal nodes.
const CLAIMS_NAMED: usize = 100;

/// NodePool, instance type and capacity type of nodes that are alike.
type Kind<'d> = (&'d str, &'d str, &'d str);

/// A decision, as its row in the store says it.
pub fn decision(decision: &Decision) -> v1::Decision {
    v1::Decision {
        name: names::child(&decision.cluster, "decisions", &decision.id.0.to_string()),
        number: signed(decision.id.0),
        decide_time: Some(timestamp(decision.at)),
        kind: enum_values::decision_kind(decision.reason.as_str()).into(),
        summary: views::summary(decision),
        reasons: views::reasons(decision).collect(),
        trace_id: trace_id(&decision.cluster, decision.id.0, decision.at),
        ..effects(decision)
    }
}

/// The fields of a decision that say what it does, and no others.
pub fn effects(decision: &Decision) -> v1::Decision {
    let planned_by: BTreeSet<u64> = decision.removed.iter().filter_map(|node| Some(node.planned_by?.0)).collect();
    let name = |number: &u64| names::child(&decision.cluster, "decisions", &number.to_string());
    v1::Decision {
        launches: grouped(decision.launches.iter().map(launch)),
        removals: grouped(decision.removed.iter().map(outgoing)),
        replacements: grouped(decision.replaced.iter().map(outgoing)),
        moved_pod_count: number(decision.moved_pods()),
        savings_micro_usd_per_hour: decision.savings().0,
        planned_by: planned_by.iter().map(name).collect(),
        assigned_pod_count: number(decision.assignments.len()),
        unschedulable_pod_count: number(decision.unplaced.len()),
        ..v1::Decision::default()
    }
}

/// The fields as they are stored; none of a row of an earlier version.
pub(super) fn stored(bytes: &[u8]) -> v1::Decision {
    v1::Decision::decode(bytes).unwrap_or_default()
}

/// One node: its kind, its NodeClaim, its price and its pods.
type One<'d> = (Kind<'d>, &'d str, i64, usize);

fn launch(machine: &PlannedMachine) -> One<'_> {
    let planned = machine.launch.options.first();
    let instance_type = planned.map_or("", |option| &**option.instance_type);
    let kind = (&**machine.claim.pool, instance_type, machine.launch.capacity_type.as_str());
    (kind, &machine.claim.name, planned.map_or(0, |option| option.price.0), machine.pods.len())
}

fn outgoing(node: &OutgoingNode) -> One<'_> {
    ((&node.pool, &node.instance_type, &node.capacity_type), &node.claim, node.price.0, 0)
}

fn grouped<'d>(nodes: impl Iterator<Item = One<'d>>) -> Vec<v1::DecisionNodes> {
    let mut groups: BTreeMap<Kind<'d>, v1::DecisionNodes> = BTreeMap::new();
    for (kind, claim, price, pods) in nodes {
        let (pool, instance_type, capacity_type) = kind;
        let group = groups.entry(kind).or_insert_with(|| v1::DecisionNodes {
            pool: pool.to_owned(),
            instance_type: instance_type.to_owned(),
            capacity_type: enum_values::capacity_type(capacity_type).into(),
            ..v1::DecisionNodes::default()
        });
        group.count += 1;
        group.price_micro_usd_per_hour += price;
        group.pod_count += number(pods);
        if group.node_claims.len() < CLAIMS_NAMED {
            group.node_claims.push(claim.to_owned());
        }
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use controller::{DecisionId, DecisionReason};
    use model::removal::RemovalReason;
    use model::{MicroUsd, PodKey, Timestamp};

    use super::*;

    fn node(number: usize, planned_by: Option<u64>) -> OutgoingNode {
        OutgoingNode {
            claim: format!("old-{number}").into(),
            node: format!("ip-{number}").into(),
            pool: "default".into(),
            instance_type: "m5.4xlarge".into(),
            capacity_type: "on-demand".into(),
            price: MicroUsd(768_000),
            planned_by: planned_by.map(DecisionId),
        }
    }

    fn decision() -> Decision {
        Decision::new(
            DecisionId(17),
            "shop".into(),
            DecisionReason::Disruption(RemovalReason::Underutilized),
            1,
            Timestamp::default(),
        )
    }

    #[test]
    fn a_plan_of_consolidation_says_what_goes_what_moves_and_what_is_saved() {
        let pod = |number: usize| PodKey { namespace: "default".into(), name: format!("p-{number}").into() };
        let planned = Decision {
            replaced: (0..125).map(|number| node(number, None)).collect(),
            assignments: (0..3).map(|number| (pod(number), "ip-9".into())).collect(),
            new_cost: MicroUsd(6_000_000),
            ..decision()
        };
        let made = effects(&planned);
        let [replaced] = made.replacements.as_slice() else { panic!("one kind: {:?}", made.replacements) };
        // 125 × $0.768 are $96 an hour; the new ones cost $6.
        assert_eq!((replaced.count, replaced.price_micro_usd_per_hour), (125, 96_000_000));
        assert_eq!((made.moved_pod_count, made.savings_micro_usd_per_hour), (3, 90_000_000));
        assert_eq!(replaced.node_claims.len(), 100);
        assert_eq!(replaced.capacity_type(), v1::CapacityType::OnDemand);
        assert_eq!(stored(&made.encode_to_vec()), made);
    }

    #[test]
    fn a_removal_names_the_decisions_that_planned_it() {
        let removing = Decision { removed: vec![node(1, Some(17)), node(2, Some(16)), node(3, None)], ..decision() };
        let made = effects(&removing);
        assert_eq!(made.planned_by, ["clusters/shop/decisions/16", "clusters/shop/decisions/17"]);
        assert_eq!((made.removals[0].count, made.savings_micro_usd_per_hour), (3, 0));
        assert_eq!(effects(&decision()), v1::Decision::default());
    }
}
