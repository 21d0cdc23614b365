//! The parameters of CreateFleet.

use crate::api_error::ApiError;
use crate::query::parameters::Parameters;
use crate::settings::Tags;

/// Parameters that the simulation understands; those that end with `.` stand for all below them.
const KNOWN: [&str; 13] = [
    "Action",
    "ClientToken",
    "Context",
    "DryRun",
    "LaunchTemplateConfigs.",
    "OnDemandOptions.AllocationStrategy",
    "ReservedCapacityOptions.ReservationType.",
    "SpotOptions.AllocationStrategy",
    "TagSpecification.",
    "TargetCapacitySpecification.DefaultTargetCapacityType",
    "TargetCapacitySpecification.TotalTargetCapacity",
    "Type",
    "Version",
];

/// Fields of an override that the simulation understands.
const OVERRIDE: [&str; 5] = ["AvailabilityZone", "ImageId", "InstanceType", "Priority", "SubnetId"];

/// Maximum number of launch template configurations (API reference: CreateFleet).
const MAX_CONFIGS: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Spot,
    OnDemand,
    CapacityBlock,
    ReservedCapacity,
}

/// In which order pools are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Cheapest first.
    Price,
    /// By the priority of the override, smallest first.
    Priority,
    /// In the order of the request.
    Request,
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
    pub(crate) strategy: Strategy,
    pub(crate) options: Vec<LaunchOption>,
    pub(crate) instance_tags: Tags,
}

impl FleetRequest {
    /// Reads the parameters of the call.
    ///
    /// # Errors
    /// What is missing or invalid, and `UnsupportedOperation` for what EC2 has and the simulation does not.
    pub(crate) fn read(parameters: &Parameters) -> Result<Self, ApiError> {
        let is_known =
            |name: &&String| KNOWN.iter().any(|known| name == known || known.ends_with('.') && name.starts_with(known));
        if let Some(unknown) = parameters.values().keys().find(|name| !is_known(name)) {
            return Err(unsupported(&format!("the parameter {unknown}")));
        }
        match parameters.get("Type") {
            Some("instant") => {}
            other => return Err(unsupported(&format!("fleets of type {}", other.unwrap_or("maintain")))),
        }
        let capacity = parameters.below("TargetCapacitySpecification");
        let total = capacity.number("TotalTargetCapacity")?.ok_or_else(|| ApiError::missing("TotalTargetCapacity"))?;
        let (target, strategy) = read_target(&capacity, parameters)?;
        Ok(Self {
            token: parameters.get("ClientToken").map(str::to_owned),
            total,
            target,
            strategy,
            options: read_options(parameters)?,
            instance_tags: parameters.tags_of("instance"),
        })
    }
}

fn unsupported(what: &str) -> ApiError {
    ApiError::new("UnsupportedOperation", format!("The simulation of CreateFleet does not have {what}"))
}

fn read_target(capacity: &Parameters, parameters: &Parameters) -> Result<(Target, Strategy), ApiError> {
    let spot = parameters.get("SpotOptions.AllocationStrategy");
    let on_demand = parameters.get("OnDemandOptions.AllocationStrategy");
    match capacity.get("DefaultTargetCapacityType") {
        Some("spot") => match spot {
            None | Some("lowest-price" | "price-capacity-optimized") => Ok((Target::Spot, Strategy::Price)),
            Some("capacity-optimized") => Ok((Target::Spot, Strategy::Request)),
            Some("capacity-optimized-prioritized") => Ok((Target::Spot, Strategy::Priority)),
            Some(other) => Err(unsupported(&format!("the spot strategy {other}"))),
        },
        None | Some("on-demand") => match on_demand {
            None | Some("lowest-price") => Ok((Target::OnDemand, Strategy::Price)),
            Some("prioritized") => Ok((Target::OnDemand, Strategy::Priority)),
            Some(other) => Err(ApiError::invalid("OnDemandOptions.AllocationStrategy", other)),
        },
        Some("capacity-block") => Ok((Target::CapacityBlock, Strategy::Request)),
        Some("reserved-capacity") => match parameters.list("ReservedCapacityOptions.ReservationType").as_slice() {
            ["interruptible-capacity-reservation"] => Ok((Target::ReservedCapacity, Strategy::Request)),
            _ => Err(ApiError::missing("ReservedCapacityOptions.ReservationTypes")),
        },
        Some(other) => Err(ApiError::invalid("DefaultTargetCapacityType", other)),
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
