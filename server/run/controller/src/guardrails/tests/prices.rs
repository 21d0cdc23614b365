//! Limits in dollars count the price of the catalogue, whatever the NodeOverlays of a cluster say.

use std::sync::Arc;

use super::fixture::{Fixture, real, snapshot};
use crate::Settings;
use cluster::testing::{pod, text};
use cluster::{ClusterSnapshot, Object, PoolRecord};
use model::MicroUsd;

/// Clusters whose only instance type is a t.2 at $0.02 an hour: without overlays, with one of `price: "0"` or
/// `priceAdjustment: "-100%"`, and with one that doubles the price.
const HONEST: (i64, Option<i64>) = (20_000, None);
const FREE: (i64, Option<i64>) = (0, Some(20_000));
const DOUBLE: (i64, Option<i64>) = (40_000, Some(20_000));

fn pool(priced: (i64, Option<i64>)) -> PoolRecord {
    let mut record = cluster::testing::pool();
    let catalogue = Arc::make_mut(&mut record.pool.catalogue);
    catalogue.types.truncate(1);
    let offering = &mut catalogue.types[0].offerings[0];
    (offering.price, offering.catalogue_price) = (MicroUsd(priced.0), priced.1.map(MicroUsd));
    record
}

/// A cluster with 120 pods, each of which needs a t.2, that may launch machines of $0.36 an hour.
fn launched(priced: (i64, Option<i64>)) -> Fixture {
    let limited = |settings: &mut Settings| settings.guardrails.launches.cluster.usd_per_hour = MicroUsd(360_000);
    let mut world = Fixture::planned_by(real, limited);
    let pods = (0..120).map(|number| pod(&format!("p{number}"), 1_500)).collect();
    world.connect("c", ClusterSnapshot { pools: vec![pool(priced)], ..snapshot(0, pods) });
    world.run_to(60_000);
    world
}

#[test]
fn a_cluster_launches_no_more_by_overlays_that_lower_its_prices() {
    // 0.36 / 0.02, and 0.36 / 0.04.
    for (priced, expected) in [(HONEST, 18), (FREE, 18), (DOUBLE, 9)] {
        assert_eq!(launched(priced).done.launches.len(), expected, "{priced:?}");
    }
}

#[test]
fn machines_cost_what_the_catalogue_says() {
    let world = launched(FREE);
    let cost = |name: &str| world.controller.view(&text("c")).expect(name).machines().map(price).sum::<i64>();
    let order = &world.done.launches[0].1;
    assert_eq!(order.options.iter().map(|option| option.price.0).collect::<Vec<_>>(), [20_000]);
    assert_eq!(world.done.decisions[0].new_cost, MicroUsd(360_000));
    assert_eq!(cost("the cluster is there"), 360_000);
}

fn price(machine: &crate::view::MachineView) -> i64 {
    machine.instance.as_ref().map_or(0, |instance| instance.price.0)
}

#[test]
fn options_of_an_order_stay_in_the_order_of_the_overlays() {
    // The t.4 is free by an overlay, the t.2 costs $0.02: the t.4 is tried first, and counts $0.04.
    let mut record = cluster::testing::pool();
    let catalogue = Arc::make_mut(&mut record.pool.catalogue);
    let offering = &mut catalogue.types[1].offerings[0];
    (offering.price, offering.catalogue_price) = (MicroUsd(0), Some(offering.price));
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", ClusterSnapshot { pools: vec![record], ..snapshot(0, Vec::new()) });
    world.observe("c", Object::Pod(pod("p", 1_500)));
    world.run_to(10_000);
    let options = &world.done.launches[0].1.options;
    let named: Vec<(&str, i64)> = options.iter().map(|option| (&**option.instance_type, option.price.0)).collect();
    assert_eq!(named, [("t.4", 40_000), ("t.2", 20_000)]);
}
