//! The parameters of CreateFleet.

use crate::api_error::ApiError;
use crate::query::parameters::Parameters;
use crate::settings::Tags;

/// Fields of an override that the simulation understands.
const OVERRIDE: [&str; 5] = ["AvailabilityZone", "ImageId", "InstanceType", "Priority", "SubnetId"];

/// Maximum number of launch template configurations (API reference: CreateFleet).
const MAX_CONFIGS: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Spot,
    OnDemand,
    ReservedCapacity,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchOption {
    /// `LaunchTemplateSpecification`.
    pub(crate) template: Parameters,
    /// The override; empty where the configuration has none.
    pub(crate) overrides: Parameters,
}

/// A fleet of type `instant`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetRequest {
    pub(crate) token: Option<String>,
    pub(crate) total: u32,
    pub(crate) target: Target,
    pub(crate) options: Vec<LaunchOption>,
    pub(crate) instance_tags: Tags,
}

impl FleetRequest {
    /// Reads the parameters of the call.
    ///
    /// # Errors
    /// What is missing or invalid, and `UnsupportedOperation` for what EC2 has and the simulation does not.
    pub(crate) fn read(parameters: &Parameters) -> Result<Self, ApiError> {
        match parameters.get("Type") {
            Some("instant") => {}
            other => return Err(unsupported(&format!("fleets of type {}", other.unwrap_or("maintain")))),
        }
        let capacity = parameters.below("TargetCapacitySpecification");
        let total = capacity.number("TotalTargetCapacity")?.ok_or_else(|| ApiError::missing("TotalTargetCapacity"))?;
        Ok(Self {
            token: parameters.get("ClientToken").map(str::to_owned),
            total,
            target: read_target(&capacity, parameters)?,
            options: read_options(parameters)?,
            instance_tags: parameters.tags_of("instance"),
        })
    }
}

fn unsupported(what: &str) -> ApiError {
    ApiError::new("UnsupportedOperation", format!("The simulation of CreateFleet does not have {what}"))
}

/// The target, from whose pools the cheapest is launched: there is no other strategy here.
fn read_target(capacity: &Parameters, parameters: &Parameters) -> Result<Target, ApiError> {
    let strategy = |options: &str| parameters.get(&format!("{options}.AllocationStrategy"));
    match capacity.get("DefaultTargetCapacityType") {
        Some("spot") => match strategy("SpotOptions") {
            None | Some("lowest-price" | "price-capacity-optimized") => Ok(Target::Spot),
            Some(other) => Err(unsupported(&format!("the spot strategy {other}"))),
        },
        None | Some("on-demand") => match strategy("OnDemandOptions") {
            None | Some("lowest-price") => Ok(Target::OnDemand),
            Some(other) => Err(unsupported(&format!("the on-demand strategy {other}"))),
        },
        Some("reserved-capacity") => match parameters.list("ReservedCapacityOptions.ReservationType").as_slice() {
            ["interruptible-capacity-reservation"] => Ok(Target::ReservedCapacity),
            _ => Err(ApiError::missing("ReservedCapacityOptions.ReservationTypes")),
        },
        Some(other) => Err(unsupported(&format!("the target capacity type {other}"))),
    }
}

fn read_options(parameters: &Parameters) -> Result<Vec<LaunchOption>, ApiError> {
    let configs = parameters.structures("LaunchTemplateConfigs");
    if configs.is_empty() || configs.len() > MAX_CONFIGS {
        let message = format!("{} launch template configurations, where 1 to {MAX_CONFIGS} are allowed", configs.len());
        return Err(ApiError::new("InvalidParameterValue", message));
    }
    let mut options = Vec::new();
    for config in configs {
        let template = config.below("LaunchTemplateSpecification");
        let overrides = config.structures("Overrides");
        let unknown = overrides.iter().flat_map(|o| o.values().keys()).find(|name| !OVERRIDE.contains(&name.as_str()));
        if let Some(unknown) = unknown {
            return Err(unsupported(&format!("the override {unknown}")));
        }
        if overrides.is_empty() {
            options.push(LaunchOption { template: template.clone(), overrides: Parameters::default() });
        }
        options.extend(overrides.into_iter().map(|overrides| LaunchOption { template: template.clone(), overrides }));
    }
    Ok(options)
}
