//! Maps an order to `CreateFleet`. The same order yields the same bytes, as its client token
//! requires.

use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetInputBuilder;
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetType, InstanceType,
    OnDemandOptionsRequest, ResourceType, SpotAllocationStrategy, SpotOptionsRequest, Tag, TagSpecification,
    TargetCapacitySpecificationRequest,
};
use cloud::provider::{CloudError, LaunchRequest, MAX_OVERRIDES, Override};
use model::{CapacityType, Text};
use sha2::{Digest, Sha256};

use crate::failure::CREATE_FLEET;
use crate::settings::Settings;
use crate::terms::Terms;

/// Length of a client token in hexadecimal digits: 128 bits, half of EC2's maximum of 64
/// characters.
const TOKEN_DIGITS: usize = 32;

/// A `CreateFleet` call with its overrides.
#[derive(Debug)]
pub(crate) struct FleetRequest {
    pub(crate) call: CreateFleetInputBuilder,
    /// Overrides whose zone has a subnet, best first.
    pub(crate) offered: Vec<Override>,
    /// Settings of the request.
    pub(crate) terms: Terms,
}

/// The `CreateFleet` for `request`.
///
/// # Errors
/// [`CloudError::Refused`] when the order cannot be expressed: reserved capacity, no override, too
/// many, or none in a zone with a subnet; and when the recorded terms are unreadable.
pub(crate) fn fleet(request: &LaunchRequest, settings: &Settings) -> Result<FleetRequest, CloudError> {
    let terms = Terms::of(request, settings)?;
    let offered = offered(request, &terms)?;
    let builder = CreateFleetInputBuilder::default()
        .r#type(FleetType::Instant)
        .client_token(client_token(request))
        .launch_template_configs(template(&offered, &terms));
    let builder = set_capacity_type(builder, request.capacity_type)?;
    let tagged = [ResourceType::Instance, ResourceType::Volume].map(|kind| tagged(kind, &terms));
    Ok(FleetRequest { call: builder.set_tag_specifications(Some(tagged.into())), offered, terms })
}

fn refused(code: &str, message: String) -> CloudError {
    CloudError::Refused { operation: Text::from(CREATE_FLEET), code: Text::from(code), message }
}

fn offered(request: &LaunchRequest, terms: &Terms) -> Result<Vec<Override>, CloudError> {
    let options = request.overrides.len();
    if options == 0 || options > MAX_OVERRIDES {
        let message = format!("{options} overrides, where 1 to {MAX_OVERRIDES} are allowed");
        return Err(refused("InvalidParameterValue", message));
    }
    let has_subnet = |option: &&Override| terms.subnets.contains_key(option.zone.as_ref());
    let offered: Vec<Override> = request.overrides.iter().filter(has_subnet).cloned().collect();
    if offered.is_empty() {
        return Err(refused("NoSubnet", no_subnet(request)));
    }
    Ok(offered)
}

fn no_subnet(request: &LaunchRequest) -> String {
    let mut zones: Vec<&str> = request.overrides.iter().map(|option| option.zone.as_ref()).collect();
    zones.sort_unstable();
    zones.dedup();
    format!("cloud.subnets names no subnet for any zone of the order ({})", zones.join(", "))
}

/// Client token of the order. NodeClaim names are unique per cluster only, so the cluster is part
/// of it.
fn client_token(request: &LaunchRequest) -> String {
    // No cluster name contains a line feed, so different orders have different digests.
    let digest = Sha256::digest(format!("{}\n{}", request.cluster, request.token));
    digest.iter().take(TOKEN_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

fn template(offered: &[Override], terms: &Terms) -> FleetLaunchTemplateConfigRequest {
    let specification = FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&terms.template)
        .version(&terms.version)
        .build();
    let overrides = (0_u32..).zip(offered).map(|(rank, option)| one_override(rank, option, terms)).collect();
    FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some(overrides))
        .build()
}

/// The zone is redundant beside the subnet, but errors echo the override, which identifies the zone
/// of a failure (Karpenter: launching).
fn one_override(rank: u32, option: &Override, terms: &Terms) -> FleetLaunchTemplateOverridesRequest {
    FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(InstanceType::from(option.instance_type.as_ref()))
        .availability_zone(option.zone.as_ref())
        .set_subnet_id(terms.subnets.get(option.zone.as_ref()).cloned())
        .priority(f64::from(rank))
        .build()
}

/// Sets capacity type and allocation strategy: spot from the cheapest pools with a low risk of
/// interruption, on-demand from the cheapest (Karpenter's strategies).
fn set_capacity_type(
    builder: CreateFleetInputBuilder,
    capacity_type: CapacityType,
) -> Result<CreateFleetInputBuilder, CloudError> {
    let (kind, builder) = match capacity_type {
        CapacityType::Spot => {
            let strategy = SpotAllocationStrategy::PriceCapacityOptimized;
            let options = SpotOptionsRequest::builder().allocation_strategy(strategy).build();
            (DefaultTargetCapacityType::Spot, builder.spot_options(options))
        }
        CapacityType::OnDemand => {
            let strategy = FleetOnDemandAllocationStrategy::LowestPrice;
            let options = OnDemandOptionsRequest::builder().allocation_strategy(strategy).build();
            (DefaultTargetCapacityType::OnDemand, builder.on_demand_options(options))
        }
        CapacityType::Reserved => {
            let message = "a capacity reservation is targeted by a launch template of its own, and there is one template \
                           for all machines; leave `reserved` out of the pool's capacity types";
            return Err(refused("ReservedCapacity", message.to_owned()));
        }
    };
    let one = TargetCapacitySpecificationRequest::builder().total_target_capacity(1).default_target_capacity_type(kind);
    Ok(builder.target_capacity_specification(one.build()))
}

fn tagged(kind: ResourceType, terms: &Terms) -> TagSpecification {
    let tag = |(key, value): &(String, String)| Tag::builder().key(key).value(value).build();
    let tags = terms.tags.iter().map(tag).collect();
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags)).build()
}

#[cfg(test)]
mod tests;
