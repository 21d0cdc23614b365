//! A NodePool for tests.

use std::sync::Arc;

use model::{
    CapacityType, Catalogue, InstanceType, InstanceTypeName, Labels, MicroUsd, NodePool, Offering, PoolName, Resources,
    Text, Zone,
};

/// A pool with the types `t.2` and `t.4`.
pub(crate) fn pool() -> NodePool {
    NodePool {
        name: PoolName::from("p"),
        node_class: Text::from("default"),
        catalogue: Arc::new(Catalogue { types: vec![instance_type(2), instance_type(4)], offering_keys: Vec::new() }),
        ..NodePool::default()
    }
}

fn instance_type(vcpu: i64) -> InstanceType {
    let amounts = Resources::from_iter([("cpu", vcpu * 1000), ("pods", 20)]);
    let offering = Offering {
        zone: Zone::from("z"),
        capacity_type: CapacityType::Spot,
        price: MicroUsd(vcpu * 10_000),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    InstanceType {
        name: InstanceTypeName::from(format!("t.{vcpu}")),
        capacity: amounts.clone(),
        allocatable: amounts,
        offerings: vec![offering],
        ..InstanceType::default()
    }
}
