//! Instances and their ownership tags.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{self, InstanceLifecycleType, InstanceStateName, Tag};
use cloud::provider::{Instance, InstanceDetails, InstanceState, LaunchRequest};
use model::{CapacityType, InstanceTypeName, ProviderId, Text, Timestamp, Zone};

/// Tag of every managed instance, with the value `true`.
pub(crate) const MANAGED: &str = "fleetwright.dev/managed";
/// Tag with the name of the cluster.
pub(crate) const CLUSTER: &str = "fleetwright.dev/cluster";
/// Tag with the UID of the cluster.
pub(crate) const CLUSTER_UID: &str = "fleetwright.dev/cluster-uid";
/// Tag with the name of the NodeClaim.
pub(crate) const CLAIM: &str = "fleetwright.dev/nodeclaim";
/// Tag with the name of the NodePool.
const POOL: &str = "fleetwright.dev/nodepool";
/// Tag with the name of the EC2NodeClass.
const NODE_CLASS: &str = "fleetwright.dev/nodeclass";

/// Karpenter's tag with the name of the NodePool: cost reports and IAM policies use it.
const KARPENTER_POOL: &str = "karpenter.sh/nodepool";
/// EKS's tag with the name of the cluster.
const EKS_CLUSTER: &str = "eks:eks-cluster-name";

/// Tags of an instance, its volumes and its fleet: those of the NodeClass below our own.
///
/// Karpenter garbage collects instances with its tags of NodePool, cluster *and* EC2NodeClass
/// (`karpenter.k8s.aws/ec2nodeclass`). The last one is left out, so that a Karpenter in the same
/// cluster leaves ours alone.
pub(crate) fn tags(request: &LaunchRequest, of_class: &BTreeMap<Text, Text>) -> Vec<(String, String)> {
    let mut tags = shared_tags(request, of_class);
    tags.push((CLAIM.to_owned(), request.claim.to_string()));
    tags
}

/// Tags that all launches of a NodePool share: those of network interfaces and spot requests, which
/// launch templates have.
pub(crate) fn shared_tags(request: &LaunchRequest, of_class: &BTreeMap<Text, Text>) -> Vec<(String, String)> {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let own = [
        pair(MANAGED, "true"),
        pair(CLUSTER, &request.cluster),
        pair(CLUSTER_UID, &request.cluster_uid),
        pair(POOL, &request.pool),
        pair(NODE_CLASS, &request.node_class),
        pair(KARPENTER_POOL, &request.pool),
        pair(EKS_CLUSTER, &request.cluster),
        // Cloud controllers treat an instance with this tag as a node of the cluster.
        (format!("kubernetes.io/cluster/{}", request.cluster), "owned".to_owned()),
    ];
    let is_own = |key: &str| own.iter().any(|(own, _)| own == key) || key == CLAIM;
    let of_class = of_class.iter().filter(|(key, _)| !is_own(key)).map(|(key, value)| pair(key, value));
    own.iter().cloned().chain(of_class).collect()
}

/// A tag as EC2 takes it.
pub(crate) fn tag((key, value): &(String, String)) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// Tags of a launch template. EKS's tag of the cluster is left out: a Karpenter in the same cluster deletes the templates
/// that have it. Policies confine sessions of a cluster to its templates by [`CLUSTER`].
pub(crate) fn template_tags(request: &LaunchRequest) -> Vec<(String, String)> {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    vec![
        pair(MANAGED, "true"),
        pair(CLUSTER, &request.cluster),
        pair(CLUSTER_UID, &request.cluster_uid),
        pair(NODE_CLASS, &request.node_class),
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
        details: details(instance),
    })
}

fn details(instance: &types::Instance) -> InstanceDetails {
    let groups = instance.security_groups().iter().filter_map(|group| group.group_id());
    let mut security_groups: Vec<Text> = groups.map(Text::from).collect();
    security_groups.sort();
    InstanceDetails {
        image: Text::from(instance.image_id().unwrap_or_default()),
        subnet: Text::from(instance.subnet_id().unwrap_or_default()),
        security_groups,
        reservation: instance.capacity_reservation_id().map(Text::from),
    }
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
        // An on-demand instance of ours uses no open reservation: its template says so.
        _ if instance.capacity_reservation_id().is_some() => CapacityType::Reserved,
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
