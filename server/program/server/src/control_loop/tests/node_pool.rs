//! A NodePool with one instance type.

use cluster::{PoolDriftFacts, PoolMeta, PoolRecord};
use model::labels::{ARCH, INSTANCE_TYPE, OS};
use model::offering::SharedCatalogue;
use model::resources::{CPU, MEMORY, PODS};
use model::{
    CapacityType, Catalogue, DisruptionPolicy, InstanceType, InstanceTypeName, Labels, MicroUsd, NodePool, Offering,
    PoolName, Requirement, Requirements, Resources, Text, Zone,
};

pub(super) fn any_pool() -> PoolRecord {
    let pool = NodePool {
        name: PoolName::from("default"),
        node_class: Text::from("default"),
        catalogue: SharedCatalogue::new(Catalogue { types: vec![instance_type()], offering_keys: Vec::new() }),
        ..NodePool::default()
    };
    let (disruption, meta) = (DisruptionPolicy::default(), PoolMeta::default());
    PoolRecord { pool, disruption, revision: Text::from("1"), meta, drift: PoolDriftFacts::default() }
}

fn instance_type() -> InstanceType {
    let amounts = Resources::from_iter([(CPU, 2_000), (MEMORY, 8 << 30), (PODS, 30)]);
    let labels = [(ARCH, "amd64"), (OS, "linux"), (INSTANCE_TYPE, "a.2")];
    let offering = Offering {
        zone: Zone::from("zone-a"),
        capacity_type: CapacityType::Spot,
        price: MicroUsd(34_000),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    InstanceType {
        name: InstanceTypeName::from("a.2"),
        labels: labels.into_iter().map(|(key, value)| Requirement::equals(key, value)).collect::<Requirements>().into(),
        capacity: amounts.clone(),
        allocatable: amounts,
        exotic: false,
        burstable: None,
        offerings: vec![offering],
    }
}
