//! A plan as message, within the length of one.

use fleetwright_proto::v1;
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use model::plan::{PlannedNode, Unschedulable};
use model::{Resources, Stop, Taint, quantity};
use prost::Message;

use crate::fleet::encode::reason;
use api_messages::enum_values;
use render::Rendering;

/// Bytes of a plan at most: the answer has little beside it.
const MAX_BYTES: usize = MAX_MESSAGE_BYTES - 1024;

/// Bytes of an entry beside its own: its field and its length.
const ENTRY_BYTES: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoMessage {
    /// The plan is longer than a message may be.
    TooLong,
    /// The client does not wait any more.
    Stopped,
}

/// The plan as message, unless it is too long for one, or `stop` is due before it is made.
pub(super) fn plan(rendering: &Rendering<'_>, stop: &Stop) -> Result<v1::Plan, NoMessage> {
    let (plan, report) = (rendering.plan, rendering.report);
    let mut limit = MessageLimit { left: MAX_BYTES, stop };
    let node = |node: &PlannedNode| planned_node(rendering, node);
    let placement = |(pod, node): &(u32, u32)| v1::PodPlacement {
        pod: rendering.pod_name(*pod),
        node: rendering.input.nodes[*node as usize].name.to_string(),
    };
    Ok(v1::Plan {
        nodes: limit.fill(plan.nodes.iter().map(node))?,
        static_nodes: limit.fill(plan.static_nodes.iter().map(node))?,
        placements: limit.fill(plan.placements.iter().map(placement))?,
        unschedulable: limit.fill(report.unschedulable.iter().map(|entry| unschedulable(rendering, entry)))?,
        cost: Some(v1::PlanCost {
            new_micro_usd_per_hour: report.new_cost.0,
            lower_bound_micro_usd_per_hour: report.lower_bound.0,
            price_date: rendering.price_date.unwrap_or_default().to_owned(),
        }),
        notes: limit.fill(rendering.notes.iter().cloned())?,
    })
}

/// The bytes that are left of a message. Each entry is counted as it is made, so that no more than a message is ever in memory.
struct MessageLimit<'s> {
    left: usize,
    stop: &'s Stop,
}

impl MessageLimit<'_> {
    fn fill<M: Message>(&mut self, entries: impl Iterator<Item = M>) -> Result<Vec<M>, NoMessage> {
        let mut filled = Vec::new();
        for entry in entries {
            if self.stop.is_due() {
                return Err(NoMessage::Stopped);
            }
            let bytes = entry.encoded_len() + ENTRY_BYTES;
            self.left = self.left.checked_sub(bytes).ok_or(NoMessage::TooLong)?;
            filled.push(entry);
        }
        Ok(filled)
    }
}

fn planned_node(rendering: &Rendering<'_>, node: &PlannedNode) -> v1::PlannedNode {
    let pool = &rendering.input.pools[node.pool as usize];
    v1::PlannedNode {
        name: node.name.to_string(),
        pool: pool.name.to_string(),
        node_class: pool.node_class.to_string(),
        capacity_type: enum_values::capacity_type(node.capacity_type.as_str()).into(),
        zones: node.zones.iter().map(ToString::to_string).collect(),
        instance_types: node
            .types
            .iter()
            .map(|option| pool.catalogue.types[*option as usize].name.to_string())
            .collect(),
        price_micro_usd_per_hour: node.price.0,
        credits_micro_usd_per_hour: node.credits.0,
        pods: node.pods.iter().map(|pod| rendering.pod_name(*pod)).collect(),
        labels: node.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        taints: node.taints.iter().map(taint).collect(),
        requests: quantities(&node.requests),
    }
}

fn taint(taint: &Taint) -> v1::Taint {
    v1::Taint { key: taint.key.to_string(), value: taint.value.to_string(), effect: taint.effect.as_str().to_owned() }
}

fn quantities(resources: &Resources) -> std::collections::HashMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_string(), quantity::render(name, amount))).collect()
}

fn unschedulable(rendering: &Rendering<'_>, entry: &Unschedulable) -> v1::UnschedulablePod {
    v1::UnschedulablePod {
        pod: rendering.pod_name(entry.pod),
        reasons: entry.reasons.iter().map(reason).collect(),
        fits_if: entry.fits_if.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use model::input::PlanningInput;
    use model::plan::{Plan, PlanReport, Reason, ReasonCode};
    use model::{
        CapacityType, Catalogue, Effect, InstanceType, Labels, MicroUsd, Node, NodePool, NodeStage, Pod, Zone,
    };

    use super::*;

    /// A NodePool that launches these instance types.
    fn pool(name: &str, types: &[&str]) -> NodePool {
        let machine = |name: &&str| InstanceType { name: (*name).into(), ..InstanceType::default() };
        NodePool {
            name: name.into(),
            node_class: format!("class-of-{name}").into(),
            catalogue: Arc::new(Catalogue { types: types.iter().map(machine).collect(), offering_keys: Vec::new() }),
            ..NodePool::default()
        }
    }

    /// The pods `shop/web-0` to `shop/web-3`, the Nodes `n-1` and `n-2`, and two NodePools.
    fn input() -> PlanningInput {
        let pod = |number: usize| Pod {
            namespace: "shop".into(),
            name: format!("web-{number}").into(),
            workload: "Deployment/web".into(),
            ..Pod::default()
        };
        let node = |name: &str| Node {
            name: name.into(),
            pool: None,
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::new(),
            capacity: Resources::new(),
            stage: NodeStage::Initialized,
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: None,
        };
        PlanningInput {
            pods: (0..4).map(pod).collect(),
            nodes: ["n-1", "n-2"].map(node).into(),
            pools: vec![pool("batch", &["tiny"]), pool("web", &["large", "medium", "small"])],
            ..PlanningInput::default()
        }
    }

    /// `web-0` and `web-2` on a new node, `web-1` on `n-2`, and `web-3` without a place; and a node of a static NodePool.
    fn made() -> (Plan, PlanReport) {
        let launched = PlannedNode {
            name: "web-1".into(),
            pool: 1,
            capacity_type: CapacityType::Spot,
            zones: Arc::from(["lab-b", "lab-a"].map(Zone::from)),
            types: Arc::from([2, 0]),
            price: MicroUsd(34_500),
            credits: MicroUsd(1_250),
            reservation: None,
            pods: vec![0, 2],
            labels: Arc::new(Labels::from([("team".into(), "shop".into())])),
            taints: Arc::from([Taint { key: "dedicated".into(), value: "web".into(), effect: Effect::NoExecute }]),
            requests: Resources::from_iter([("cpu", 2_500), ("memory", 3 << 30), ("nvidia.com/gpu", 1), ("pods", 3)]),
        };
        let static_node = PlannedNode {
            name: "batch-1".into(),
            pool: 0,
            capacity_type: CapacityType::OnDemand,
            zones: Arc::from(["lab-a"].map(Zone::from)),
            types: Arc::from([0]),
            price: MicroUsd(9_000),
            credits: MicroUsd(0),
            reservation: None,
            pods: Vec::new(),
            labels: Arc::default(),
            taints: Arc::from([]),
            requests: Resources::new(),
        };
        let reason = |pool: Option<&str>, code: ReasonCode, message: &str| Reason {
            pool: pool.map(Into::into),
            code,
            message: message.to_owned(),
        };
        let reasons = Arc::from([
            reason(Some("web"), ReasonCode::Taints, "does not tolerate dedicated=web:NoExecute"),
            reason(None, ReasonCode::StepLimit, "the steps are used up"),
        ]);
        let fits_if = Arc::from(["it tolerates dedicated=web:NoExecute".to_owned()]);
        let plan = Plan {
            nodes: vec![launched],
            static_nodes: vec![static_node],
            placements: vec![(1, 1)],
            unschedulable: vec![3],
            order: vec![0, 1, 2],
        };
        let report = PlanReport {
            unschedulable: vec![Unschedulable { pod: 3, reasons, fits_if }],
            new_cost: MicroUsd(35_750),
            lower_bound: MicroUsd(20_000),
            ..PlanReport::default()
        };
        (plan, report)
    }

    /// The nodes of [`made`] as messages.
    fn expected_nodes() -> [v1::PlannedNode; 2] {
        let text = str::to_owned;
        let launched = v1::PlannedNode {
            name: text("web-1"),
            pool: text("web"),
            node_class: text("class-of-web"),
            capacity_type: v1::CapacityType::Spot.into(),
            zones: vec![text("lab-b"), text("lab-a")],
            instance_types: vec![text("small"), text("large")],
            price_micro_usd_per_hour: 34_500,
            credits_micro_usd_per_hour: 1_250,
            pods: vec![text("shop/web-0"), text("shop/web-2")],
            labels: HashMap::from([(text("team"), text("shop"))]),
            taints: vec![v1::Taint { key: text("dedicated"), value: text("web"), effect: text("NoExecute") }],
            requests: HashMap::from([
                (text("cpu"), text("2500m")),
                (text("memory"), text("3Gi")),
                (text("nvidia.com/gpu"), text("1")),
                (text("pods"), text("3")),
            ]),
        };
        let static_node = v1::PlannedNode {
            name: text("batch-1"),
            pool: text("batch"),
            node_class: text("class-of-batch"),
            capacity_type: v1::CapacityType::OnDemand.into(),
            zones: vec![text("lab-a")],
            instance_types: vec![text("tiny")],
            price_micro_usd_per_hour: 9_000,
            ..v1::PlannedNode::default()
        };
        [launched, static_node]
    }

    #[test]
    fn a_message_has_the_nodes_places_reasons_cost_and_notes_of_the_plan() {
        let (input, (made, report), notes) = (input(), made(), ["a note".to_owned(), "another one".to_owned()]);
        let rendering = Rendering {
            input: &input,
            plan: &made,
            report: &report,
            price_date: Some("2026-03-04"),
            notes: &notes,
            comparison: None,
            repacking: None,
        };
        let [launched, static_node] = expected_nodes();
        let reason = |pool: &str, code: &str, message: &str| v1::Reason {
            pool: pool.to_owned(),
            code: code.to_owned(),
            message: message.to_owned(),
        };
        let expected = v1::Plan {
            nodes: vec![launched],
            static_nodes: vec![static_node],
            placements: vec![v1::PodPlacement { pod: "shop/web-1".to_owned(), node: "n-2".to_owned() }],
            unschedulable: vec![v1::UnschedulablePod {
                pod: "shop/web-3".to_owned(),
                reasons: vec![
                    reason("web", "Taints", "does not tolerate dedicated=web:NoExecute"),
                    reason("", "StepLimit", "the steps are used up"),
                ],
                fits_if: vec!["it tolerates dedicated=web:NoExecute".to_owned()],
            }],
            cost: Some(v1::PlanCost {
                new_micro_usd_per_hour: 35_750,
                lower_bound_micro_usd_per_hour: 20_000,
                price_date: "2026-03-04".to_owned(),
            }),
            notes: notes.to_vec(),
        };
        assert_eq!(plan(&rendering, &Stop::never()), Ok(expected));
        let undated = Rendering { price_date: None, ..rendering };
        let cost = plan(&undated, &Stop::never()).expect("a plan").cost.expect("a cost");
        assert_eq!(cost.price_date, "");
    }

    #[test]
    fn a_plan_is_never_longer_than_a_message_and_ends_when_nobody_waits() {
        let (never, due) = (Stop::never(), Stop::when(|| true));
        let note = |bytes: usize| "x".repeat(bytes);
        // A text of 93 bytes is an entry of 95 as a message, with its field and its length.
        let mut limit = MessageLimit { left: 2 * (95 + ENTRY_BYTES), stop: &never };
        assert_eq!(limit.fill([note(93), note(93)].into_iter()).map(|notes| notes.len()), Ok(2));
        assert_eq!(limit.left, 0);
        assert_eq!(limit.fill([note(1)].into_iter()), Err(NoMessage::TooLong));
        assert_eq!(MessageLimit { left: 10_000, stop: &due }.fill([note(1)].into_iter()), Err(NoMessage::Stopped));
    }
}
