//! Maps an order to `CreateFleet`. The same order yields the same bytes, as its client token
//! requires.

use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetInputBuilder;
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetOnDemandAllocationStrategy, FleetReservationType, FleetType,
    InstanceType, OnDemandOptionsRequest, ReservedCapacityOptionsRequest, ResourceType, SpotAllocationStrategy,
    SpotOptionsRequest, TagSpecification, TargetCapacitySpecificationRequest,
};
use cloud::provider::{CloudError, LaunchRequest, MAX_OVERRIDES, Override};
use model::{CapacityType, Text};
use sha2::{Digest, Sha256};

use crate::failure::CREATE_FLEET;
use crate::instance::tag;
use crate::launch_template::TEMPLATE_VERSION;
use crate::terms::{TemplateTerms, Terms};

/// Length of a client token in hexadecimal digits: 128 bits, half of EC2's maximum of 64
/// characters.
const TOKEN_DIGITS: usize = 32;

/// A `CreateFleet` call with its overrides.
#[derive(Debug)]
pub(crate) struct FleetRequest {
    pub(crate) call: CreateFleetInputBuilder,
    /// Overrides whose zone has a subnet and whose type has a launch template, best first.
    pub(crate) offered: Vec<Override>,
}

/// The `CreateFleet` for `request` with its `terms`.
///
/// # Errors
/// [`CloudError::Refused`] when the order cannot be expressed: no override, too many, none in a zone
/// with a subnet, or terms that say why.
pub(crate) fn fleet(request: &LaunchRequest, terms: &Terms) -> Result<FleetRequest, CloudError> {
    if let Some((code, message)) = &terms.refused {
        return Err(refused(code, message.clone()));
    }
    let offered = offered(request, terms)?;
    let builder = CreateFleetInputBuilder::default()
        .r#type(FleetType::Instant)
        .client_token(client_token(request))
        .set_launch_template_configs(Some(configs(&offered, terms)))
        .set_context(terms.context.clone());
    let builder = set_capacity_type(builder, request, terms);
    let tagged = [ResourceType::Instance, ResourceType::Volume, ResourceType::Fleet].map(|kind| tagged(kind, terms));
    Ok(FleetRequest { call: builder.set_tag_specifications(Some(tagged.into())), offered })
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
    let offered: Vec<Override> = request.overrides.iter().filter(|option| terms.offers(option)).cloned().collect();
    if offered.is_empty() {
        return Err(refused("SubnetsNotFound", no_subnet(request)));
    }
    Ok(offered)
}

fn no_subnet(request: &LaunchRequest) -> String {
    let mut zones: Vec<&str> = request.overrides.iter().map(|option| option.zone.as_ref()).collect();
    zones.sort_unstable();
    zones.dedup();
    let class = &request.node_class;
    format!(
        "EC2NodeClass {class} selects no subnet in a zone of the order ({}); see its status.subnets and \
         subnetSelectorTerms",
        zones.join(", ")
    )
}

/// Client token of the order. NodeClaim names are unique per cluster only, so the cluster is part
/// of it.
pub(crate) fn client_token(request: &LaunchRequest) -> String {
    // No cluster name contains a line feed, so different orders have different digests.
    let digest = Sha256::digest(format!("{}\n{}", request.cluster, request.token));
    digest.iter().take(TOKEN_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// One configuration for each template, with the overrides of its instance types.
fn configs(offered: &[Override], terms: &Terms) -> Vec<FleetLaunchTemplateConfigRequest> {
    let config = |template: &TemplateTerms| {
        let ranked = (0_u32..).zip(offered);
        let own = ranked
            .filter(|(_, option)| template.instance_types.iter().any(|kind| *kind == *option.instance_type.as_ref()));
        let overrides: Vec<_> = own.map(|(rank, option)| one_override(rank, option, template, terms)).collect();
        (!overrides.is_empty()).then(|| {
            let specification = FleetLaunchTemplateSpecificationRequest::builder()
                .launch_template_name(&template.name)
                .version(TEMPLATE_VERSION)
                .build();
            FleetLaunchTemplateConfigRequest::builder()
                .launch_template_specification(specification)
                .set_overrides(Some(overrides))
                .build()
        })
    };
    terms.templates.iter().filter_map(config).collect()
}

/// The zone is redundant beside the subnet, but errors echo the override, which identifies the zone
/// of a failure (Karpenter: launching).
fn one_override(
    rank: u32,
    option: &Override,
    template: &TemplateTerms,
    terms: &Terms,
) -> FleetLaunchTemplateOverridesRequest {
    FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(InstanceType::from(option.instance_type.as_ref()))
        .availability_zone(option.zone.as_ref())
        .image_id(&template.image)
        .set_subnet_id(terms.subnets.get(option.zone.as_ref()).cloned())
        .priority(f64::from(rank))
        .build()
}

/// Sets capacity type and allocation strategy: spot from the cheapest pools with a low risk of
/// interruption, on-demand from the cheapest (Karpenter's strategies). Reserved capacity is on-demand
/// to a fleet; the template names the reservation.
fn set_capacity_type(
    builder: CreateFleetInputBuilder,
    request: &LaunchRequest,
    terms: &Terms,
) -> CreateFleetInputBuilder {
    let (kind, builder) = match request.capacity_type {
        CapacityType::Spot => {
            let strategy = SpotAllocationStrategy::PriceCapacityOptimized;
            let options = SpotOptionsRequest::builder().allocation_strategy(strategy).build();
            (DefaultTargetCapacityType::Spot, builder.spot_options(options))
        }
        CapacityType::Reserved if terms.interruptible => {
            let kind = FleetReservationType::InterruptibleCapacityReservation;
            let options = ReservedCapacityOptionsRequest::builder().reservation_types(kind).build();
            (DefaultTargetCapacityType::ReservedCapacity, builder.reserved_capacity_options(options))
        }
        CapacityType::OnDemand | CapacityType::Reserved => {
            let strategy = FleetOnDemandAllocationStrategy::LowestPrice;
            let options = OnDemandOptionsRequest::builder().allocation_strategy(strategy).build();
            (DefaultTargetCapacityType::OnDemand, builder.on_demand_options(options))
        }
    };
    let one = TargetCapacitySpecificationRequest::builder().total_target_capacity(1).default_target_capacity_type(kind);
    builder.target_capacity_specification(one.build())
}

fn tagged(kind: ResourceType, terms: &Terms) -> TagSpecification {
    let tags = terms.tags.iter().map(tag).collect();
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags)).build()
}

#[cfg(test)]
mod tests;
