//! Maps the response of `CreateFleet` to a launch result.
//!
//! An instant fleet returns instances and errors side by side: an error concerns one override
//! without capacity, also when another override succeeded. A response is final for its token:
//! repeating the order returns the same one, so an order without an instance in its response is not
//! repeated.

use std::collections::BTreeMap;

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::types::{CreateFleetError, CreateFleetInstance, FleetLaunchTemplateOverrides};
use cloud::provider::{CloudError, Instance, InstanceDetails, InstanceState, LaunchOutcome, LaunchRequest, Override};
use model::{InstanceTypeName, RefusedOption, Text, Timestamp, Zone};

use crate::error_class::{is_capacity, is_missing_spot_role};
use crate::failure::{CREATE_FLEET, refused, refused_option};
use crate::instance;
use crate::terms::Terms;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) request: &'a LaunchRequest,
    pub(crate) offered: &'a [Override],
    pub(crate) terms: &'a Terms,
    pub(crate) now: Timestamp,
}

/// The launch result of a response.
///
/// # Errors
/// [`CloudError::InsufficientCapacity`] when every error concerns capacity, [`CloudError::Refused`]
/// for the first other error, [`CloudError::Unknown`] when an instance has no type or zone.
pub(crate) fn outcome(answer: &CreateFleetOutput, asked: RequestContext<'_>) -> Result<LaunchOutcome, CloudError> {
    let launched = answer.instances().iter().find_map(|group| Some((group, group.instance_ids().first()?)));
    match launched {
        Some((group, id)) => Ok(LaunchOutcome {
            instance: instance(group, id, asked)?,
            unavailable: in_request_order(answer.errors().iter().filter(|error| lacks_capacity(error)), asked),
        }),
        None => Err(launch_error(answer.errors(), asked)),
    }
}

fn instance(group: &CreateFleetInstance, id: &str, asked: RequestContext<'_>) -> Result<Instance, CloudError> {
    let choice = group.launch_template_and_overrides().and_then(|both| both.overrides());
    let kind = group.instance_type().or(choice.and_then(|choice| choice.instance_type()));
    let zone = choice.and_then(|choice| zone(choice, asked.terms)).or(group.availability_zone()).map(Zone::from);
    let (Some(kind), Some(zone)) = (kind, zone) else {
        let operation = format!("{CREATE_FLEET} (it returned instance {id} without its type or zone)");
        return Err(CloudError::Unknown { operation: Text::from(operation) });
    };
    let request = asked.request;
    Ok(Instance {
        id: Text::from(id),
        provider_id: instance::provider_id(&zone, id),
        instance_type: InstanceTypeName::from(kind.as_str()),
        zone,
        capacity_type: request.capacity_type,
        state: InstanceState::Pending,
        cluster: request.cluster.clone(),
        cluster_uid: request.cluster_uid.clone(),
        claim: request.claim.clone(),
        pool: request.pool.clone(),
        launched: asked.now,
        details: details(choice, &InstanceTypeName::from(kind.as_str()), asked),
    })
}

/// What the fleet launched from: the override that it echoes, else the order's terms. Security groups
/// are in the template, and listings show them.
fn details(
    choice: Option<&FleetLaunchTemplateOverrides>,
    kind: &InstanceTypeName,
    asked: RequestContext<'_>,
) -> InstanceDetails {
    let of_terms = asked.terms.template_of(kind).map(|template| template.image.as_str());
    InstanceDetails {
        image: Text::from(choice.and_then(|choice| choice.image_id()).or(of_terms).unwrap_or_default()),
        subnet: Text::from(choice.and_then(|choice| choice.subnet_id()).unwrap_or_default()),
        security_groups: Vec::new(),
        reservation: asked.request.reservation.clone(),
    }
}

fn zone<'a>(choice: &'a FleetLaunchTemplateOverrides, terms: &'a Terms) -> Option<&'a str> {
    choice.availability_zone().or_else(|| terms.zone_of(choice.subnet_id()?))
}

fn launch_error(errors: &[CreateFleetError], asked: RequestContext<'_>) -> CloudError {
    if let Some(error) = errors.iter().find(|error| !lacks_capacity(error) && !lacks_spot_role(error)) {
        let (code, message) = (error.error_code().unwrap_or("no code"), error.error_message().unwrap_or("no message"));
        return refused(CREATE_FLEET, code, message);
    }
    let all_of_it =
        errors.is_empty() || errors.iter().any(|error| lacks_spot_role(error) || option_of(error, asked).is_none());
    let unavailable = if all_of_it {
        // One error concerns all overrides, else the fleet gave no reason.
        let general = errors.iter().find(|error| lacks_spot_role(error) || option_of(error, asked).is_none());
        let code = general.and_then(CreateFleetError::error_code).unwrap_or("UnfulfillableCapacity");
        asked.offered.iter().map(|option| refused_option(option, code)).collect()
    } else {
        in_request_order(errors.iter(), asked)
    };
    CloudError::InsufficientCapacity { unavailable }
}

fn lacks_capacity(error: &CreateFleetError) -> bool {
    error.error_code().is_some_and(is_capacity)
}

fn lacks_spot_role(error: &CreateFleetError) -> bool {
    error.error_code().is_some_and(is_missing_spot_role)
}

/// The override that an error concerns; `None` when it names none and concerns all of them.
fn option_of(error: &CreateFleetError, asked: RequestContext<'_>) -> Option<Override> {
    let choice = error.launch_template_and_overrides()?.overrides()?;
    let zone = Zone::from(zone(choice, asked.terms)?);
    Some(Override { instance_type: InstanceTypeName::from(choice.instance_type()?.as_str()), zone })
}

/// Each override once, with its first error, in the order of the request.
fn in_request_order<'e>(
    errors: impl Iterator<Item = &'e CreateFleetError>,
    asked: RequestContext<'_>,
) -> Vec<RefusedOption> {
    let mut codes: BTreeMap<Override, &str> = BTreeMap::new();
    for error in errors {
        if let (Some(option), Some(code)) = (option_of(error, asked), error.error_code()) {
            codes.entry(option).or_insert(code);
        }
    }
    let refused = |option: &Override| codes.get(option).map(|code| refused_option(option, code));
    asked.offered.iter().filter_map(refused).collect()
}

#[cfg(test)]
mod tests;
