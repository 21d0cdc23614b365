//! How cheap could it be? A lower bound on what any plan must pay that places the same pods.
//!
//! [`lower_bound`] takes the best of three arguments, each of which every plan must respect:
//! - `cover`: the resources of all pods, less what stands free, must be bought at offerings' prices. A linear program whose
//!   dual solution is made exact in integers, so that rounding never lifts the bound above the truth. Pods count by the
//!   offerings that they may use, so that pods who need dear machines are not covered by cheap ones.
//! - `alike`: the pods of one shape that are too many for what stands must go on machines that hold so many of them.
//! - `apart`: pods that exclude each other from a node need a machine each.
//!
//! Whatever is left out (limits, opt-in rules, spread, volumes, daemons) could only raise the cost. Existing room and
//! reserved machines are free. Work grows with shapes and offerings, not with pods.

mod access;
mod alike;
mod apart;
mod cover;
mod demand;
mod shelves;
mod simplex;
mod stock;

use crate::input::PlanningInput;
use crate::model::{MicroUsd, Text};
use crate::plan::Plan;

use demand::Demand;
use stock::Stock;

/// No plan that places the pods that `plan` places, under the same rules and with existing capacity used freely, costs
/// less per hour. Static nodes stay outside, as they do in a plan's cost.
#[must_use]
pub fn lower_bound(input: &PlanningInput, plan: &Plan) -> MicroUsd {
    let paid = plan.nodes.iter().fold(0_i64, |sum, node| sum.saturating_add(node.price.0));
    if paid <= 0 {
        return MicroUsd(0);
    }
    let demand = Demand::of(input, plan);
    let stock = Stock::of(input, &demand);
    let best = cover::Cover::of(&demand, &stock).bound(&demand, &stock);
    let best = best.max(alike::bound(&demand, &stock)).max(apart::bound(input, plan, &demand, &stock));
    MicroUsd(best.clamp(0, paid))
}

/// What one unit of each resource is worth at the optimum of the resource cover, in micro-dollars per hour and unit, by
/// resource; the dearest where pods of different kinds differ. A guide for choosing machines, not a promise.
#[must_use]
pub fn resource_prices(input: &PlanningInput, plan: &Plan) -> Vec<(Text, f64)> {
    let demand = Demand::of(input, plan);
    let stock = Stock::of(input, &demand);
    let prices = cover::Cover::of(&demand, &stock).prices();
    demand.resources.iter().cloned().zip(prices).collect()
}
