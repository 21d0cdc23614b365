//! Instances and their ownership tags.

use aws_sdk_ec2::types::{self, InstanceLifecycleType, InstanceStateName, Tag};
use cloud::provider::{Instance, InstanceState, LaunchRequest};
use model::{CapacityType, InstanceTypeName, ProviderId, Text, Timestamp, Zone};

/// Tag of every managed instance, with the value `true`.
pub(crate) const MANAGED: &str = "fleetwright.dev/managed";
/// Tag with the name of the cluster.
pub(crate) const CLUSTER: &str = "fleetwright.dev/cluster";
/// Tag with the UID of the cluster.
const CLUSTER_UID: &str = "fleetwright.dev/cluster-uid";
/// Tag with the name of the NodeClaim.
pub(crate) const CLAIM: &str = "fleetwright.dev/nodeclaim";
/// Tag with the name of the NodePool.
const POOL: &str = "fleetwright.dev/nodepool";
/// Tag with the name of the EC2NodeClass.
const NODE_CLASS: &str = "fleetwright.dev/nodeclass";

/// Tags of an instance. None of them is one that Karpenter selects by: a Karpenter in the same
/// cluster would garbage collect our instances.
pub(crate) fn tags(request: &LaunchRequest) -> Vec<(String, String)> {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    vec![
        pair(MANAGED, "true"),
        pair(CLUSTER, &request.cluster),
        pair(CLUSTER_UID, &request.cluster_uid),
        pair(CLAIM, &request.claim),
        pair(POOL, &request.pool),
        pair(NODE_CLASS, &request.node_class),
        // Cloud controllers treat an instance with this tag as a node of the cluster.
        (format!("kubernetes.io/cluster/{}", request.cluster), "owned".to_owned()),
    ]
}

/// `aws:///<zone>/<instance id>`.
pub(crate) fn provider_id(zone: &Zone, id: &str) -> ProviderId {
    ProviderId::from(format!("aws:///{zone}/{id}"))
}

/// Converts a listed instance; `None` when id, type, zone, state or launch time is missing. A
/// removed tag reads as empty.
pub(crate) fn read(instance: &types::Instance) -> Option<Instance> {
    let id = instance.instance_id()?;
    let zone = Zone::from(instance.placement()?.availability_zone()?);
    let tag = |key: &str| value(instance.tags(), key).unwrap_or_default();
    Some(Instance {
        id: Text::from(id),
        provider_id: provider_id(&zone, id),
        instance_type: InstanceTypeName::from(instance.instance_type()?.as_str()),
        zone,
        capacity_type: capacity_type(instance),
        state: state(instance.state()?.name()?),
        cluster: tag(CLUSTER).into(),
        cluster_uid: tag(CLUSTER_UID).into(),
        claim: tag(CLAIM).into(),
        pool: tag(POOL).into(),
        launched: Timestamp::from_millis(instance.launch_time()?.to_millis().ok()?),
    })
}

fn value<'t>(tags: &'t [Tag], key: &str) -> Option<&'t str> {
    tags.iter().find(|tag| tag.key() == Some(key))?.value()
}

fn capacity_type(instance: &types::Instance) -> CapacityType {
    match instance.instance_lifecycle() {
        Some(InstanceLifecycleType::Spot) => CapacityType::Spot,
        Some(InstanceLifecycleType::CapacityBlock | InstanceLifecycleType::InterruptibleCapacityReservation) => {
            CapacityType::Reserved
        }
        _ => CapacityType::OnDemand,
    }
}

/// A stopped instance counts as pending: it can be started, and it must be terminated.
fn state(name: &InstanceStateName) -> InstanceState {
    match name {
        InstanceStateName::Running => InstanceState::Running,
        InstanceStateName::ShuttingDown => InstanceState::ShuttingDown,
        InstanceStateName::Terminated => InstanceState::Terminated,
        _ => InstanceState::Pending,
    }
}

#[cfg(test)]
mod tests;
