//! The content of a launch template as a `CreateLaunchTemplate` call.

use aws_sdk_ec2::operation::create_launch_template::builders::CreateLaunchTemplateInputBuilder;
use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget, ConnectionTrackingSpecificationRequest,
    LaunchTemplateBlockDeviceMappingRequest, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateCpuOptionsRequest, LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateEnclaveOptionsRequest,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMarketOptionsRequest, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
    LaunchTemplateInstanceMetadataTagsState, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest,
    LaunchTemplatePlacementRequest, LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest,
    MarketType, NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType, TagSpecification, Tenancy,
    VolumeType,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::content::{BlockDeviceMapping, Ebs, Interface, Metadata, ReservationTarget, TemplateContent};
use crate::request::tag;

/// The operation, as errors name it.
pub(crate) const CREATE_TEMPLATE: &str = "CreateLaunchTemplate";

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
    let disks: Vec<_> = content.block_devices.iter().map(disk).collect();
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
        .metadata_options(metadata(&content.metadata))
        .set_network_interfaces(Some(content.interfaces.iter().map(interface).collect()))
        .set_tag_specifications(Some(tagged))
        .placement(placement(&content.tenancy))
        .set_enclave_options(
            content.enclave.then(|| LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build()),
        )
        .set_cpu_options(content.nested_virtualization.map(cpu_options))
        .capacity_reservation_specification(reservation(content.reservation.as_ref()))
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
fn reservation(target: Option<&ReservationTarget>) -> LaunchTemplateCapacityReservationSpecificationRequest {
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

fn disk(mapping: &BlockDeviceMapping) -> LaunchTemplateBlockDeviceMappingRequest {
    LaunchTemplateBlockDeviceMappingRequest::builder()
        .set_device_name(mapping.device.clone())
        .set_ebs(mapping.ebs.as_ref().map(ebs))
        .build()
}

fn ebs(volume: &Ebs) -> LaunchTemplateEbsBlockDeviceRequest {
    LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(volume.delete_on_termination)
        .set_encrypted(volume.encrypted)
        .set_iops(volume.iops)
        .set_kms_key_id(volume.kms_key_id.clone())
        .set_snapshot_id(volume.snapshot_id.clone())
        .set_throughput(volume.throughput)
        .set_volume_initialization_rate(volume.initialization_rate)
        .set_volume_size(volume.size_gib)
        .set_volume_type(volume.volume_type.as_deref().map(VolumeType::from))
        .build()
}

/// Tags stay out of the metadata service, which refuses keys with a slash.
fn metadata(options: &Metadata) -> LaunchTemplateInstanceMetadataOptionsRequest {
    use LaunchTemplateInstanceMetadataEndpointState as Endpoint;
    use LaunchTemplateInstanceMetadataProtocolIpv6 as Ipv6;
    let endpoint = if options.endpoint { Endpoint::Enabled } else { Endpoint::Disabled };
    let ipv6 = options.ipv6.map(|on| if on { Ipv6::Enabled } else { Ipv6::Disabled });
    let tokens = match options.tokens_required {
        true => LaunchTemplateHttpTokensState::Required,
        false => LaunchTemplateHttpTokensState::Optional,
    };
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(endpoint)
        .set_http_protocol_ipv6(ipv6)
        .http_put_response_hop_limit(options.hop_limit)
        .http_tokens(tokens)
        .instance_metadata_tags(LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn interface(wanted: &Interface) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = wanted.connection_tracking.as_ref().map(|timeouts| {
        ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(timeouts.tcp_established)
            .set_udp_stream_timeout(timeouts.udp_stream)
            .set_udp_timeout(timeouts.udp)
            .build()
    });
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(wanted.card)
        .device_index(wanted.device)
        .set_interface_type(wanted.kind.map(str::to_owned))
        .set_groups(Some(wanted.security_groups.clone()))
        .set_associate_public_ip_address(wanted.associate_public_ip)
        .set_ipv4_prefix_count(wanted.ipv4_prefixes)
        .set_ipv6_prefix_count(wanted.ipv6_prefixes)
        .set_primary_ipv6(wanted.primary_ipv6.then_some(true))
        .set_ipv6_address_count(wanted.primary_ipv6.then_some(1))
        .set_connection_tracking_specification(tracking)
        .build()
}
