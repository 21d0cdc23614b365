//! The content of a launch template, its name, and the call that makes it: a field is declared, taken from an order and
//! written into the call in this file, or in [`devices`] if it is one of a disk, a network interface or the metadata service.

use std::sync::Arc;

use aws_sdk_ec2::operation::create_launch_template::builders::CreateLaunchTemplateInputBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateCpuOptionsRequest, LaunchTemplateEnclaveOptionsRequest,
    LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMarketOptionsRequest,
    LaunchTemplatePlacementRequest, LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest,
    MarketType, NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType, TagSpecification, Tenancy,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::provider::LaunchRequest;
use model::node_class::ReservationStatus;
use model::{CapacityType, InstanceTypeInput, LaunchTemplateInput};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::devices::{self, BlockDeviceMapping, Interface, Metadata};
use crate::instance::{self, tag};
use crate::user_data::{self, UserDataInput};

/// The operation, as errors name it.
pub(crate) const CREATE_TEMPLATE: &str = "CreateLaunchTemplate";

/// Label of the tenancy that a NodeClaim requires.
const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// The tenancy of a NodeClaim that requires none (Karpenter AWS: launching).
const SHARED: &str = "default";

/// Version of every template: a name means one content.
pub(crate) const TEMPLATE_VERSION: &str = "1";

/// Prefix of the names of our templates.
const PREFIX: &str = "fleetwright.dev/";

/// Length of a name's hash in hexadecimal digits: 128 bits.
const DIGITS: usize = 32;

/// Everything in a launch template. Changing the serialised form renames all templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TemplateContent {
    pub(crate) image: String,
    /// User data before base64; empty for none.
    pub(crate) user_data: String,
    pub(crate) instance_profile: String,
    pub(crate) block_devices: Vec<BlockDeviceMapping>,
    pub(crate) metadata: Metadata,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) detailed_monitoring: bool,
    pub(crate) enclave: bool,
    pub(crate) nested_virtualization: Option<bool>,
    /// `Placement.Tenancy`.
    pub(crate) tenancy: String,
    /// The capacity reservation of all instances.
    pub(crate) reservation: Option<ReservationTarget>,
    /// The instances are spot: their requests are tagged too.
    pub(crate) spot: bool,
    /// Tags of network interfaces and spot requests, in request order.
    pub(crate) tags: Vec<(String, String)>,
}

/// A capacity reservation to launch into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReservationTarget {
    pub(crate) id: String,
    /// The owner may reclaim the instances.
    pub(crate) interruptible: bool,
}

impl TemplateContent {
    /// What `request` launches instances of the type `kind` by.
    ///
    /// # Errors
    /// [`Unlaunchable`] when the user data cannot be made, or the NodeClass has no profile or no security group, or the
    /// reservation cannot be used.
    pub(super) fn of(
        request: &LaunchRequest,
        input: &LaunchTemplateInput,
        kind: &InstanceTypeInput,
        region: &str,
    ) -> Result<Self, Unlaunchable> {
        let spec = &input.node_class;
        let groups: Vec<String> =
            input.status.security_groups.iter().flatten().map(|group| group.id.to_string()).collect();
        if groups.is_empty() {
            return Err(unresolved(request, "SecurityGroupsNotFound", "no security group"));
        }
        let Some(instance_profile) = input.status.instance_profile.as_ref().map(ToString::to_string) else {
            return Err(unresolved(request, "InstanceProfileNotFound", "no instance profile"));
        };
        Ok(Self {
            image: kind.image.to_string(),
            user_data: rendered_user_data(request, input, kind)?,
            instance_profile,
            block_devices: devices::block_devices(spec),
            metadata: devices::metadata(&spec.metadata_options, region),
            interfaces: devices::interfaces(spec, &groups, &input.cluster.dns, devices::efa_interfaces(kind, input)),
            detailed_monitoring: spec.detailed_monitoring,
            enclave: input.uses_enclave,
            nested_virtualization: spec.nested_virtualization,
            tenancy: input.labels.get(TENANCY).map_or_else(|| SHARED.to_owned(), ToString::to_string),
            reservation: reservation(request, input)?,
            spot: request.capacity_type == CapacityType::Spot,
            tags: instance::shared_tags(request, &spec.tags),
        })
    }

    /// Name of the template with this content.
    pub(crate) fn name(&self) -> String {
        // Strings, numbers and lists of them always serialize.
        let digest = Sha256::digest(serde_json::to_vec(self).unwrap_or_default());
        let hash: String = digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{hash}")
    }
}

/// Why an order cannot be launched as it is: code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unlaunchable {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

fn unresolved(request: &LaunchRequest, code: &'static str, what: &str) -> Unlaunchable {
    let class = &request.node_class;
    Unlaunchable { code, message: format!("EC2NodeClass {class} has {what} in its status; see its conditions") }
}

fn rendered_user_data(
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

/// The call that makes the template `name` with `content`. `tags` are those of the template itself.
pub(crate) fn create_call(
    name: &str,
    content: &TemplateContent,
    tags: &[(String, String)],
) -> CreateLaunchTemplateInputBuilder {
    let tags = tags.iter().map(tag).collect();
    let tagged = TagSpecification::builder().resource_type(ResourceType::LaunchTemplate).set_tags(Some(tags)).build();
    CreateLaunchTemplateInputBuilder::default()
        .launch_template_name(name)
        .launch_template_data(data(content))
        .tag_specifications(tagged)
}

fn data(content: &TemplateContent) -> RequestLaunchTemplateData {
    let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(&content.instance_profile);
    let monitoring = LaunchTemplatesMonitoringRequest::builder().enabled(content.detailed_monitoring);
    let disks: Vec<_> = content.block_devices.iter().map(BlockDeviceMapping::request).collect();
    let mut tagged = vec![tagged(ResourceType::NetworkInterface, content)];
    if content.spot {
        tagged.push(self::tagged(ResourceType::SpotInstancesRequest, content));
    }
    let encoded = (!content.user_data.is_empty()).then(|| STANDARD.encode(&content.user_data));
    RequestLaunchTemplateData::builder()
        .image_id(&content.image)
        .set_user_data(encoded)
        .iam_instance_profile(profile.build())
        .monitoring(monitoring.build())
        // EC2 refuses an empty list.
        .set_block_device_mappings((!disks.is_empty()).then_some(disks))
        .metadata_options(content.metadata.request())
        .set_network_interfaces(Some(content.interfaces.iter().map(Interface::request).collect()))
        .set_tag_specifications(Some(tagged))
        .placement(placement(&content.tenancy))
        .set_enclave_options(
            content.enclave.then(|| LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build()),
        )
        .set_cpu_options(content.nested_virtualization.map(cpu_options))
        .capacity_reservation_specification(reservation_request(content.reservation.as_ref()))
        .set_instance_market_options(market(content.reservation.as_ref()))
        .build()
}

fn tagged(kind: ResourceType, content: &TemplateContent) -> LaunchTemplateTagSpecificationRequest {
    let tags = content.tags.iter().map(tag).collect();
    LaunchTemplateTagSpecificationRequest::builder().resource_type(kind).set_tags(Some(tags)).build()
}

fn placement(tenancy: &str) -> LaunchTemplatePlacementRequest {
    LaunchTemplatePlacementRequest::builder().tenancy(Tenancy::from(tenancy)).build()
}

fn cpu_options(nested: bool) -> LaunchTemplateCpuOptionsRequest {
    let nested =
        if nested { NestedVirtualizationSpecification::Enabled } else { NestedVirtualizationSpecification::Disabled };
    LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested).build()
}

/// Without a reservation the instances use none, not even an open one (Karpenter AWS:
/// `CapacityReservationSpecification`).
fn reservation_request(target: Option<&ReservationTarget>) -> LaunchTemplateCapacityReservationSpecificationRequest {
    let builder = LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match target {
        None => builder.capacity_reservation_preference(CapacityReservationPreference::None).build(),
        Some(target) => builder
            .capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
            .capacity_reservation_target(
                CapacityReservationTarget::builder().capacity_reservation_id(&target.id).build(),
            )
            .build(),
    }
}

fn market(target: Option<&ReservationTarget>) -> Option<LaunchTemplateInstanceMarketOptionsRequest> {
    target.filter(|target| target.interruptible)?;
    let kind = MarketType::InterruptibleCapacityReservation;
    Some(LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(kind).build())
}
