//! What an override launches together with its template, and why it cannot.

use std::collections::BTreeSet;

use model::MicroUsd;

use super::request::{FleetRequest, LaunchOption, Target};
use crate::account::context::Context;
use crate::account::instance_profiles::InstanceProfiles;
use crate::account::launch_templates::{LaunchTemplate, LaunchTemplates};
use crate::account::region::Region;
use crate::api_error::ApiError;
use crate::query::parameters::Parameters;
use crate::settings::{Subnet, Tags};
use crate::value::{Fields, Node};

/// Addresses of one IPv4 prefix.
const PREFIX: u32 = 16;

/// An option that can launch, if there is capacity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) subnet: String,
    pub(crate) image: String,
    pub(crate) groups: Vec<String>,
    pub(crate) profile: Option<String>,
    /// Id of its template.
    pub(crate) template: String,
    pub(crate) template_tags: Tags,
    pub(crate) secondary_addresses: u32,
    /// Price of its capacity type per hour.
    pub(crate) price: Option<MicroUsd>,
    pub(crate) reservation_target: Option<String>,
    pub(crate) reservation_preference: Option<String>,
    pub(crate) market: Option<String>,
    pub(crate) lifecycle: &'static str,
    pub(crate) echo: Fields,
}

impl Candidate {
    pub(crate) fn fails(&self, code: &str, message: impl Into<String>) -> LaunchError {
        LaunchError {
            code: code.to_owned(),
            message: message.into(),
            lifecycle: self.lifecycle,
            echo: self.echo.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchError {
    code: String,
    message: String,
    lifecycle: &'static str,
    echo: Fields,
}

impl From<LaunchError> for Node {
    fn from(error: LaunchError) -> Self {
        Fields::new()
            .with("launchTemplateAndOverrides", error.echo)
            .with("lifecycle", error.lifecycle)
            .with("errorCode", error.code)
            .with("errorMessage", error.message)
            .into()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Resolver<'a> {
    pub(crate) region: &'a Region,
    pub(crate) templates: &'a LaunchTemplates,
    pub(crate) profiles: &'a InstanceProfiles,
}

impl Resolver<'_> {
    /// Resolves every option of a fleet, before anything is launched: what fails the call as a whole must leave no
    /// instance behind.
    ///
    /// # Errors
    /// An unknown template, and two overrides for one pool, which fail the call as a whole.
    pub(crate) fn options(
        &self,
        request: &FleetRequest,
        call: &Context<'_>,
    ) -> Result<Vec<Result<Candidate, LaunchError>>, ApiError> {
        let (mut pools, mut resolved) = (BTreeSet::new(), Vec::new());
        for option in &request.options {
            let template = self.templates.resolve(&option.template, call)?;
            let lifecycle = if request.target == Target::Spot { "spot" } else { "on-demand" };
            let echo = echo(&template.id, &option.overrides);
            resolved.push(match self.candidate(template, &option.overrides, request.target, call) {
                Ok(found) if !pools.insert((found.instance_type.clone(), found.subnet.clone())) => {
                    return Err(duplicate(option));
                }
                Ok(found) => Ok(Candidate { echo, lifecycle, ..found }),
                Err(error) => Err(LaunchError { code: error.code, message: error.message, lifecycle, echo }),
            });
        }
        Ok(resolved)
    }

    /// The subnet comes first: offerings and price depend on its zone, groups on its VPC.
    fn candidate(
        &self,
        template: &LaunchTemplate,
        overrides: &Parameters,
        target: Target,
        call: &Context<'_>,
    ) -> Result<Candidate, ApiError> {
        let data = &template.data;
        let either = |name: &str| overrides.get(name).or_else(|| data.get(name));
        let instance_type = either("InstanceType").ok_or_else(|| ApiError::missing("InstanceType"))?;
        let subnet = self.subnet(overrides)?;
        self.check_type(instance_type, subnet)?;
        let image = either("ImageId").ok_or_else(|| ApiError::missing("ImageId"))?;
        self.check_image(image, instance_type)?;
        let price = match target {
            Target::Spot => self.region.spot_price(instance_type, &subnet.zone, call.now),
            _ => self.region.on_demand_price(instance_type),
        };
        Ok(Candidate {
            instance_type: instance_type.to_owned(),
            zone: subnet.zone.clone(),
            subnet: subnet.id.clone(),
            image: image.to_owned(),
            groups: self.groups(data, subnet)?,
            profile: self.profile(data, call)?,
            template: template.id.clone(),
            template_tags: template_tags(template),
            secondary_addresses: secondary_addresses(data)?,
            price,
            reservation_target: reservation(data, "CapacityReservationTarget.CapacityReservationId"),
            reservation_preference: reservation(data, "CapacityReservationPreference"),
            market: data.get("InstanceMarketOptions.MarketType").map(str::to_owned),
            lifecycle: "on-demand",
            echo: Fields::new(),
        })
    }

    /// The subnet of a launch: the named one, else one of the named zone.
    fn subnet(&self, overrides: &Parameters) -> Result<&Subnet, ApiError> {
        let (id, zone) = (overrides.get("SubnetId"), overrides.get("AvailabilityZone"));
        let unknown_zone =
            |zone: &str| ApiError::new("InvalidParameterValue", format!("Invalid availability zone: [{zone}]"));
        match (id, zone) {
            (Some(id), zone) => {
                let unknown =
                    || ApiError::new("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist"));
                let subnet = self.region.subnet(id).ok_or_else(unknown)?;
                match zone.filter(|zone| *zone != subnet.zone) {
                    Some(zone) => Err(ApiError::new(
                        "InvalidParameterValue",
                        format!("The subnet '{id}' is not in the zone '{zone}'"),
                    )),
                    None => Ok(subnet),
                }
            }
            (None, Some(zone)) => self.region.subnet_in(zone).ok_or_else(|| unknown_zone(zone)),
            (None, None) => self.region.settings().subnets.first().ok_or_else(|| ApiError::missing("SubnetId")),
        }
    }

    fn check_type(&self, instance_type: &str, subnet: &Subnet) -> Result<(), ApiError> {
        if self.region.instance_type(instance_type).is_none() {
            let message = format!("Invalid value '{instance_type}' for InstanceType.");
            return Err(ApiError::new("InvalidParameterValue", message));
        }
        if !self.region.is_offered(instance_type, &subnet.zone) {
            let message = format!(
                "Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({}).",
                subnet.zone
            );
            return Err(ApiError::new("Unsupported", message));
        }
        Ok(())
    }

    fn check_image(&self, id: &str, instance_type: &str) -> Result<(), ApiError> {
        if !id.starts_with("ami-") {
            return Err(ApiError::new(
                "InvalidAMIID.Malformed",
                format!("Invalid id: \"{id}\" (expecting \"ami-...\")"),
            ));
        }
        let unknown = || ApiError::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"));
        let image = self.region.image(id).ok_or_else(unknown)?;
        if image.state != "available" {
            return Err(ApiError::new("InvalidAMIID.Unavailable", format!("The image ID '{id}' is not available")));
        }
        let wanted = self.region.architecture(instance_type);
        if image.architecture != wanted {
            let message = format!(
                "The architecture '{wanted}' of the specified instance type does not match the architecture '{}' of the \
                 specified AMI.",
                image.architecture
            );
            return Err(ApiError::new("InvalidParameterValue", message));
        }
        Ok(())
    }

    /// The groups of the launch, or the default group of the VPC.
    fn groups(&self, data: &Parameters, subnet: &Subnet) -> Result<Vec<String>, ApiError> {
        let mut ids: Vec<&str> = data.list("SecurityGroupId");
        if ids.is_empty() {
            ids = data.list("NetworkInterface.1.SecurityGroupId");
        }
        for id in &ids {
            let unknown =
                || ApiError::new("InvalidGroup.NotFound", format!("The security group '{id}' does not exist"));
            let group = self.region.security_group(id).ok_or_else(unknown)?;
            if group.vpc != subnet.vpc {
                let message = format!("Security group {id} and subnet {} belong to different networks.", subnet.id);
                return Err(ApiError::new("InvalidParameter", message));
            }
        }
        if ids.is_empty() {
            return Ok(self.region.default_group(&subnet.vpc).into_iter().map(|group| group.id.clone()).collect());
        }
        Ok(ids.into_iter().map(str::to_owned).collect())
    }

    /// The name of the instance profile, which must exist for a while and have a role.
    fn profile(&self, data: &Parameters, call: &Context<'_>) -> Result<Option<String>, ApiError> {
        let Some(name) = data.get("IamInstanceProfile.Name") else { return Ok(None) };
        let lag = call.faults.lag().instance_profiles_ms;
        let found = self.profiles.find(name).filter(|profile| call.is_visible(profile.created, lag));
        let Some(profile) = found else {
            let message = format!(
                "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            );
            return Err(ApiError::new("InvalidParameterValue", message));
        };
        if profile.role.is_none() {
            let message = format!("IAM Instance Profile \"{name}\" has no associated IAM Roles");
            return Err(ApiError::new("InvalidParameterValue", message));
        }
        Ok(Some(name.to_owned()))
    }
}

/// Tags of the template for instances, and those that EC2 adds.
fn template_tags(template: &LaunchTemplate) -> Tags {
    let mut tags = template.data.tags_of("instance");
    tags.insert("aws:ec2launchtemplate:id".to_owned(), template.id.clone());
    tags.insert("aws:ec2launchtemplate:version".to_owned(), "1".to_owned());
    tags
}

fn reservation(data: &Parameters, name: &str) -> Option<String> {
    data.get(&format!("CapacityReservationSpecification.{name}")).map(str::to_owned)
}

/// Addresses beside the primary one that the first interface asks for.
fn secondary_addresses(data: &Parameters) -> Result<u32, ApiError> {
    let interface = data.below("NetworkInterface.1");
    let prefixes: u32 = interface.number("Ipv4PrefixCount")?.unwrap_or(0);
    let addresses: u32 = interface.number("SecondaryPrivateIpAddressCount")?.unwrap_or(0);
    Ok(prefixes.saturating_mul(PREFIX).saturating_add(addresses))
}

/// `LaunchTemplateAndOverrides` of a response: the template by id, and the override as sent.
fn echo(template: &str, overrides: &Parameters) -> Fields {
    let specification = Fields::new().with("launchTemplateId", template).with("version", 1_u64);
    let sent = Fields::new()
        .maybe("instanceType", overrides.get("InstanceType"))
        .maybe("subnetId", overrides.get("SubnetId"))
        .maybe("availabilityZone", overrides.get("AvailabilityZone"))
        .maybe("priority", overrides.get("Priority"))
        .maybe("imageId", overrides.get("ImageId"));
    Fields::new().with("launchTemplateSpecification", specification).with("overrides", sent)
}

fn duplicate(option: &LaunchOption) -> ApiError {
    let pool = |name: &str| option.overrides.get(name).unwrap_or("-");
    let message = format!(
        "The fleet configuration contains duplicate instance pools: {} {}",
        pool("InstanceType"),
        pool("SubnetId")
    );
    ApiError::new("InvalidFleetConfig", message)
}
