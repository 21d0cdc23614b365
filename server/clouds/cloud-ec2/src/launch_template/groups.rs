//! From an order to its launch templates.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::provider::LaunchRequest;
use model::node_class::ReservationStatus;
use model::{CapacityType, InstanceTypeInput, InstanceTypeName, LaunchTemplateInput, Text};

use super::content::{ReservationTarget, TemplateContent};
use super::devices;
use crate::instance;
use crate::user_data::{self, UserDataInput};

/// Label of the tenancy that a NodeClaim requires.
const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// The tenancy of a NodeClaim that requires none (Karpenter AWS: launching).
const SHARED: &str = "default";

/// One launch template of an order, and the instance types that are launched from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateGroup {
    pub(crate) content: TemplateContent,
    pub(crate) instance_types: Vec<InstanceTypeName>,
}

/// Why an order cannot be launched as it is: code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unlaunchable {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// The templates of `request`, in the order of their first instance types. Instance types without an
/// image are left out.
///
/// # Errors
/// [`Unlaunchable`] when the user data cannot be made, or the NodeClass has no profile, no security
/// group or no image for these types, or the reservation cannot be used.
pub(crate) fn groups(
    request: &LaunchRequest,
    input: &LaunchTemplateInput,
    region: &str,
) -> Result<Vec<TemplateGroup>, Unlaunchable> {
    let mut known: BTreeMap<GroupKey, usize> = BTreeMap::new();
    let mut found: Vec<TemplateGroup> = Vec::new();
    for option in &request.overrides {
        let Some(kind) = input.instance_types.get(&option.instance_type) else { continue };
        let at = match known.get(&GroupKey::of(kind, input)) {
            Some(at) => *at,
            None => {
                let content = content(request, input, kind, region)?;
                found.push(TemplateGroup { content, instance_types: Vec::new() });
                known.insert(GroupKey::of(kind, input), found.len() - 1);
                found.len() - 1
            }
        };
        if !found[at].instance_types.contains(&option.instance_type) {
            found[at].instance_types.push(option.instance_type.clone());
        }
    }
    if found.is_empty() {
        return Err(Unlaunchable {
            code: "ImageNotFound",
            message: format!(
                "EC2NodeClass {} selects no image that boots one of the {} instance types of the order; see its \
                 status.amis and amiSelectorTerms",
                request.node_class,
                input.instance_types.len().max(1)
            ),
        });
    }
    Ok(found)
}

/// What instance types with one template share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    image: Text,
    max_pods: u32,
    efa: u32,
}

impl GroupKey {
    fn of(kind: &InstanceTypeInput, input: &LaunchTemplateInput) -> Self {
        Self { image: kind.image.clone(), max_pods: kind.max_pods, efa: efa_interfaces(kind, input) }
    }
}

fn efa_interfaces(kind: &InstanceTypeInput, input: &LaunchTemplateInput) -> u32 {
    if input.uses_efa && input.node_class.network_interfaces.is_empty() { kind.efa } else { 0 }
}

fn content(
    request: &LaunchRequest,
    input: &LaunchTemplateInput,
    kind: &InstanceTypeInput,
    region: &str,
) -> Result<TemplateContent, Unlaunchable> {
    let spec = &input.node_class;
    let groups: Vec<String> = input.status.security_groups.iter().flatten().map(|group| group.id.to_string()).collect();
    if groups.is_empty() {
        return Err(unresolved(request, "SecurityGroupsNotFound", "no security group"));
    }
    let Some(instance_profile) = input.status.instance_profile.as_ref().map(ToString::to_string) else {
        return Err(unresolved(request, "InstanceProfileNotFound", "no instance profile"));
    };
    Ok(TemplateContent {
        image: kind.image.to_string(),
        user_data: user_data(request, input, kind)?,
        instance_profile,
        block_devices: devices::block_devices(spec),
        metadata: devices::metadata(&spec.metadata_options, region),
        interfaces: devices::interfaces(spec, &groups, &input.cluster.dns, efa_interfaces(kind, input)),
        detailed_monitoring: spec.detailed_monitoring,
        enclave: input.uses_enclave,
        nested_virtualization: spec.nested_virtualization,
        tenancy: input.labels.get(TENANCY).map_or_else(|| SHARED.to_owned(), ToString::to_string),
        reservation: reservation(request, input)?,
        spot: request.capacity_type == CapacityType::Spot,
        tags: instance::shared_tags(request, &spec.tags),
    })
}

fn unresolved(request: &LaunchRequest, code: &'static str, what: &str) -> Unlaunchable {
    let class = &request.node_class;
    Unlaunchable { code, message: format!("EC2NodeClass {class} has {what} in its status; see its conditions") }
}

fn user_data(
    request: &LaunchRequest,
    input: &LaunchTemplateInput,
    kind: &InstanceTypeInput,
) -> Result<String, Unlaunchable> {
    let spec = &input.node_class;
    let rendered = user_data::render(&UserDataInput {
        cluster_name: request.cluster.clone(),
        cluster: Arc::clone(&input.cluster),
        family: spec.ami_family,
        labels: input.labels.clone(),
        capacity_type: request.capacity_type,
        taints: input.taints.clone(),
        startup_taints: input.startup_taints.clone(),
        max_pods: kind.max_pods,
        kubelet: spec.kubelet.clone(),
        kubelet_options: spec.kubelet_options.clone(),
        instance_store_raid0: spec.instance_store_raid0,
        user_data: spec.user_data.clone(),
        ami_version: Some(kind.image_name.clone()),
    });
    rendered.map_err(|error| Unlaunchable {
        code: "InvalidUserData",
        message: format!("the user data of EC2NodeClass {} cannot be made: {error}", request.node_class),
    })
}

/// The reservation of the order: open reservations are used only by orders that name them.
fn reservation(
    request: &LaunchRequest,
    input: &LaunchTemplateInput,
) -> Result<Option<ReservationTarget>, Unlaunchable> {
    let Some(id) = request.reservation.as_ref() else { return Ok(None) };
    let known = input.status.reservations.iter().flatten().find(|known| known.entry.id == *id);
    match known {
        Some(ReservationStatus { entry, .. }) if &*entry.reservation_type == "capacity-block" => Err(Unlaunchable {
            code: "CapacityBlock",
            message: format!("reservation {id} is a capacity block, and capacity blocks are not launched yet"),
        }),
        Some(ReservationStatus { entry, .. }) => {
            Ok(Some(ReservationTarget { id: id.to_string(), interruptible: entry.interruptible }))
        }
        None => Err(Unlaunchable {
            code: "CapacityReservationNotFound",
            message: format!("EC2NodeClass {} no longer has reservation {id} in its status", request.node_class),
        }),
    }
}
