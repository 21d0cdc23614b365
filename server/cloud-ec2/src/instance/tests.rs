use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::builders::InstanceBuilder;
use aws_sdk_ec2::types::{InstanceState as State, InstanceType, Placement};

use super::*;
use crate::testing::{option, order};

fn listed(state: InstanceStateName) -> InstanceBuilder {
    let tag = |key: &str, value: &str| Tag::builder().key(key).value(value).build();
    types::Instance::builder()
        .instance_id("i-1")
        .instance_type(InstanceType::from("m5.large"))
        .placement(Placement::builder().availability_zone("eu-west-1a").build())
        .state(State::builder().name(state).build())
        .launch_time(DateTime::from_millis(1_700_000_000_123))
        .tags(tag("fleetwright.dev/cluster", "c1"))
        .tags(tag("fleetwright.dev/nodepool", "web"))
}

#[test]
fn a_listed_instance_has_its_tags_and_a_removed_tag_is_empty() {
    let machine = read(&listed(InstanceStateName::Running).build()).unwrap();
    assert_eq!(machine.provider_id.as_ref(), "aws:///eu-west-1a/i-1");
    assert_eq!((machine.cluster.as_ref(), machine.pool.as_ref(), machine.claim.as_ref()), ("c1", "web", ""));
    assert_eq!(
        (machine.capacity_type, machine.launched),
        (CapacityType::OnDemand, Timestamp::from_millis(1_700_000_000_123))
    );
}

#[test]
fn the_lifecycle_determines_the_capacity_type() {
    let paid = |lifecycle| {
        let instance = listed(InstanceStateName::Running).instance_lifecycle(lifecycle).build();
        read(&instance).map(|machine| machine.capacity_type)
    };
    assert_eq!(paid(InstanceLifecycleType::Spot), Some(CapacityType::Spot));
    assert_eq!(paid(InstanceLifecycleType::CapacityBlock), Some(CapacityType::Reserved));
}

#[test]
fn a_stopped_instance_is_not_terminated() {
    let state = |name| read(&listed(name).build()).map(|machine| machine.state);
    assert_eq!(state(InstanceStateName::Stopped), Some(InstanceState::Pending));
    assert_eq!(state(InstanceStateName::Stopping), Some(InstanceState::Pending));
    assert_eq!(state(InstanceStateName::ShuttingDown), Some(InstanceState::ShuttingDown));
    assert_eq!(state(InstanceStateName::Terminated), Some(InstanceState::Terminated));
}

#[test]
fn an_instance_without_a_zone_is_rejected() {
    assert_eq!(read(&listed(InstanceStateName::Running).set_placement(None).build()), None);
}

#[test]
fn no_tag_matches_karpenters_garbage_collection() {
    let tags = tags(&order(CapacityType::Spot, &[option("m5.large", "eu-west-1a")]));
    let keys: Vec<&str> = tags.iter().map(|(key, _)| key.as_str()).collect();
    assert!(keys.contains(&"kubernetes.io/cluster/c1"), "{keys:?}");
    assert!(keys.iter().all(|key| !key.starts_with("karpenter") && !key.starts_with("eks:")), "{keys:?}");
}
