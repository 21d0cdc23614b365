//! Surplus credits of burstable types: what each planned node states, and the order of its options
//! that follows.

use super::launch::{Launch, Launches};
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::resources::CPU;
use model::taints::first_untolerated;
use model::{InstanceType, MicroUsd, NodePool};

pub(super) fn check(input: &PlanningInput, plan: &Plan, launches: &Launches<'_>, findings: &mut Findings<'_>) {
    let prices: Vec<Vec<(MicroUsd, &InstanceType)>> = launches.list.iter().map(prices_if_burstable).collect();
    let numbers = launches.of_node.iter().chain(&launches.of_static);
    for (node, number) in plan.nodes.iter().chain(&plan.static_nodes).zip(numbers) {
        let Some(number) = number.map(|number| number as usize) else { continue };
        let launch = &launches.list[number];
        credits_are_right(node, launch, findings);
        if !prices[number].is_empty() {
            least_cost_first(input, node, launch.pool, &prices[number], findings);
        }
    }
}

/// Surplus credits per hour of a machine in `pool` on which `cpu` millicores are requested.
#[must_use]
pub fn surplus_credits(pool: &NodePool, machine: &InstanceType, cpu: i64) -> MicroUsd {
    match machine.burstable {
        Some(burstable) if !pool.rules.ignores_credits && cpu > burstable.baseline => {
            let product = i128::from(cpu - burstable.baseline) * i128::from(burstable.credit_price.0);
            MicroUsd(i64::try_from(product / 1000).unwrap_or(i64::MAX))
        }
        _ => MicroUsd(0),
    }
}

/// Millicores that `pods` request, and all DaemonSets that tolerate the taints of `pool`: the most
/// that may be requested on one of its machines.
#[must_use]
pub fn most_cpu(input: &PlanningInput, pool: &NodePool, pods: &[u32]) -> i64 {
    let shapes = pods.iter().filter_map(|pod| input.pods.get(*pod as usize)).map(|pod| pod.shape);
    let daemons = input.daemons.iter().map(|daemon| daemon.shape);
    let tolerates = |shape: &u32| first_untolerated(&pool.taints, &input.shapes[*shape as usize].tolerations).is_none();
    let all = shapes.chain(daemons.filter(tolerates));
    all.map(|shape| input.shapes[shape as usize].requests.get(CPU)).fold(0, i64::saturating_add)
}

/// The options with their least price, in the order of the plan; empty when none is burstable.
fn prices_if_burstable<'a>(launch: &Launch<'a>) -> Vec<(MicroUsd, &'a InstanceType)> {
    if launch.machines().all(|machine| machine.burstable.is_none()) {
        return Vec::new();
    }
    let mut prices: Vec<(u32, MicroUsd, &InstanceType)> = Vec::with_capacity(launch.options.len());
    for outcome in &launch.outcomes {
        match prices.last_mut() {
            Some((option, price, _)) if *option == outcome.option => *price = outcome.offering.price.min(*price),
            _ => prices.push((outcome.option, outcome.offering.price, outcome.machine)),
        }
    }
    prices.into_iter().map(|(_, price, machine)| (price, machine)).collect()
}

fn credits_are_right(node: &PlannedNode, launch: &Launch<'_>, findings: &mut Findings<'_>) {
    let Some(first) = launch.machines().next() else { return };
    let expected = surplus_credits(launch.pool, first, node.requests.get(CPU));
    if node.credits != expected {
        let message = format!("its credits are {}, but {} pays {expected}", node.credits, first.name);
        findings.report_node(Rule::Credits, &node.name, message);
    }
}

/// No option has less price and credits than the first. A DaemonSet that runs on some options only
/// counts on every other one, so that an option is reported only if it certainly costs less.
fn least_cost_first(
    input: &PlanningInput,
    node: &PlannedNode,
    pool: &NodePool,
    prices: &[(MicroUsd, &InstanceType)],
    findings: &mut Findings<'_>,
) {
    let cpu = most_cpu(input, pool, &node.pods);
    let least = node.cost();
    let cost = |price: MicroUsd, machine| MicroUsd(price.0.saturating_add(surplus_credits(pool, machine, cpu).0));
    let cheaper = prices.iter().skip(1).find(|(price, machine)| cost(*price, machine) < least);
    if let Some((price, machine)) = cheaper {
        let message = format!(
            "its first option costs {least} with credits, but {} costs {}",
            machine.name,
            cost(*price, machine)
        );
        findings.report_node(Rule::Options, &node.name, message);
    }
}
