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

/// Karpenter collects instances that have all three of its tags, and templates with its tag of the
/// cluster.
#[test]
fn a_karpenter_in_the_same_cluster_collects_nothing_of_ours() {
    let order = order(CapacityType::Spot, &[option("m5.large", "eu-west-1a")]);
    let of_class = BTreeMap::from([
        (Text::from("team"), Text::from("web")),
        (Text::from("fleetwright.dev/cluster"), Text::from("c9")),
        (Text::from("fleetwright.dev/nodeclaim"), Text::from("another")),
    ]);
    let tags = tags(&order, &of_class);
    let value = |key: &str| tags.iter().filter(|(own, _)| own == key).map(|(_, v)| v.as_str()).collect::<Vec<_>>();
    assert_eq!(value("kubernetes.io/cluster/c1"), ["owned"]);
    assert_eq!(value("team"), ["web"]);
    assert_eq!(value("fleetwright.dev/cluster"), ["c1"], "a NodeClass does not replace our tags");
    assert_eq!(value("fleetwright.dev/nodeclaim"), ["web-abcde"]);
    assert_eq!(value("karpenter.k8s.aws/ec2nodeclass"), [""; 0]);
    assert!(template_tags(&order).iter().all(|(key, _)| key != "eks:eks-cluster-name"));
}
