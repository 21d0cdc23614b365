//! A lower bound on the cost of any plan that places the same pods.
//!
//! [`lower_bound`] takes the best of three bounds, each valid for every plan:
//! - `cover`: the resources of all pods, less free existing capacity, must be launched at
//!   offerings' prices. A linear program whose dual solution is made exact in integers, so that
//!   rounding never raises the bound above the optimum. Pods count by the offerings that they may
//!   use, so that cheap offerings do not cover pods that need expensive ones.
//! - `by_shape`: pods of one shape beyond existing capacity need machines with a known number of
//!   such pods each.
//! - `exclusive_pods`: pods that exclude each other from a node need a machine each.
//!
//! Ignored constraints (limits, opt-in rules, spread, volumes, DaemonSets) could only raise the
//! cost. Existing capacity and reserved machines are free. Burstable machines cost their credits too, except
//! in `by_pods` and `exclusive_pods`. Work grows with shapes and offerings,
//! not with pods.

mod by_pods;
mod by_shape;
mod catalogue_lookup;
mod cover;
mod demand;
mod exclusive_pods;
mod node_constraints;
mod offered_types;
mod pod_values;
mod supply;

use model::input::PlanningInput;
use model::plan::Plan;
use model::{MicroUsd, Text};

use super::CompileCache;
use demand::Demand;
pub(crate) use offered_types::OfferedTypes;
pub use pod_values::PodValues;
use supply::Supply;

/// A lower bound on the hourly cost of any plan that places the pods of `plan` under the same
/// rules, with existing capacity free. Static nodes are excluded, as in a plan's cost.
#[must_use]
pub fn lower_bound(input: &PlanningInput, plan: &Plan) -> MicroUsd {
    lower_bound_with(input, plan, &mut CompileCache::default())
}

/// Same bound as [`lower_bound`]; faster when `cache` holds the pools of similar inputs.
#[must_use]
pub fn lower_bound_with(input: &PlanningInput, plan: &Plan, cache: &mut CompileCache) -> MicroUsd {
    let paid = plan.nodes.iter().fold(0_i64, |sum, node| sum.saturating_add(node.cost().0));
    if paid <= 0 {
        return MicroUsd(0);
    }
    let demand = Demand::of(input, plan);
    let supply = Supply::of(input, &demand, cache.offered_types());
    let best = cover::Cover::of(&demand, &supply).bound(&demand, &supply);
    let best = best.max(by_shape::bound(&demand, &supply)).max(exclusive_pods::bound(input, plan, &demand, &supply));
    MicroUsd(best.clamp(0, paid))
}

/// A bound as [`lower_bound_with`], sharper by the work of up to `steps`: the pods are not cut.
#[must_use]
pub fn sharper_bound(input: &PlanningInput, plan: &Plan, steps: u64, cache: &mut CompileCache) -> MicroUsd {
    let paid = plan.nodes.iter().fold(0_i64, |sum, node| sum.saturating_add(node.cost().0));
    if paid <= 0 || steps == 0 {
        return MicroUsd(0);
    }
    let demand = Demand::of(input, plan);
    let steps = cache.budget(steps);
    let supply = Supply::of(input, &demand, cache.offered_types());
    MicroUsd(by_pods::bound(input, plan, &demand, &supply, &steps).clamp(0, paid))
}

/// Shadow price of each resource at the optimum of the resource cover, in micro-dollars per hour
/// and unit; the maximum over pod groups. Guidance for choosing machines, not a bound.
#[must_use]
pub fn resource_prices(input: &PlanningInput, plan: &Plan) -> Vec<(Text, f64)> {
    let demand = Demand::of(input, plan);
    let supply = Supply::of(input, &demand, &mut OfferedTypes::default());
    let prices = cover::Cover::of(&demand, &supply).prices();
    demand.resources.iter().cloned().zip(prices).collect()
}
