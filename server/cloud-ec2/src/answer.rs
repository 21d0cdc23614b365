//! From the answer of `CreateFleet` to what came of the order.
//!
//! An instant fleet answers with machines and errors side by side: an error stands for one option that was not to be had,
//! also when another option gave the machine. An answer is final for its token: sending the order again gives the same one,
//! so nothing in an answer without a machine makes the order worth sending again.

use std::collections::BTreeSet;

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::types::{CreateFleetError, CreateFleetInstance, FleetLaunchTemplateOverrides};
use cloud::provider::{CloudError, Instance, InstanceState, LaunchOutcome, LaunchRequest, Override};
use engine::model::{Text, Timestamp};

use crate::failure::{is_capacity, is_missing_spot_role};
use crate::machine;
use crate::request::CREATE_FLEET;
use crate::terms::Terms;

/// What an answer is read against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a LaunchRequest,
    /// The options that the fleet offered.
    pub(crate) offered: &'a [Override],
    /// What settings added to it.
    pub(crate) terms: &'a Terms,
    /// When the answer came.
    pub(crate) now: Timestamp,
}

/// What came of the order.
///
/// # Errors
/// [`CloudError::NoCapacity`] when every error is for want of capacity, [`CloudError::Refused`] by the first error that
/// is not, [`CloudError::Unknown`] when there is a machine of which type or zone is not told.
pub(crate) fn outcome(answer: &CreateFleetOutput, asked: Asked<'_>) -> Result<LaunchOutcome, CloudError> {
    let bought = answer.instances().iter().find_map(|group| Some((group, group.instance_ids().first()?)));
    match bought {
        Some((group, id)) => Ok(LaunchOutcome {
            instance: instance(group, id, asked)?,
            sold_out: in_order(
                answer.errors().iter().filter(|e| lacks_capacity(e)).filter_map(|e| of(e, asked)),
                asked,
            ),
        }),
        None => Err(nothing_bought(answer.errors(), asked)),
    }
}

fn instance(group: &CreateFleetInstance, id: &str, asked: Asked<'_>) -> Result<Instance, CloudError> {
    let choice = group.launch_template_and_overrides().and_then(|both| both.overrides());
    let kind = group.instance_type().or(choice.and_then(|choice| choice.instance_type()));
    let zone = choice.and_then(|choice| zone(choice, asked.terms)).or(group.availability_zone());
    let (Some(kind), Some(zone)) = (kind, zone) else {
        let operation = format!("{CREATE_FLEET} (it tells instance {id} without its type or zone)");
        return Err(CloudError::Unknown { operation: Text::from(operation) });
    };
    let request = asked.request;
    Ok(Instance {
        id: Text::from(id),
        provider_id: machine::provider_id(zone, id),
        instance_type: Text::from(kind.as_str()),
        zone: Text::from(zone),
        capacity_type: request.capacity_type,
        state: InstanceState::Pending,
        cluster: request.cluster.clone(),
        cluster_uid: request.cluster_uid.clone(),
        claim: request.claim.clone(),
        pool: request.pool.clone(),
        launched: asked.now,
    })
}

fn zone<'a>(choice: &'a FleetLaunchTemplateOverrides, terms: &'a Terms) -> Option<&'a str> {
    choice.availability_zone().or_else(|| terms.zone_of(choice.subnet_id()?))
}

fn nothing_bought(errors: &[CreateFleetError], asked: Asked<'_>) -> CloudError {
    if let Some(error) = errors.iter().find(|error| !lacks_capacity(error) && !lacks_spot_role(error)) {
        return CloudError::Refused {
            operation: Text::from(CREATE_FLEET),
            code: Text::from(error.error_code().unwrap_or("no code")),
            message: error.error_message().unwrap_or("no message").to_owned(),
        };
    }
    let all_of_it =
        errors.is_empty() || errors.iter().any(|error| lacks_spot_role(error) || of(error, asked).is_none());
    let sold_out = match all_of_it {
        true => asked.offered.to_vec(),
        false => in_order(errors.iter().filter_map(|error| of(error, asked)), asked),
    };
    CloudError::NoCapacity { sold_out }
}

fn lacks_capacity(error: &CreateFleetError) -> bool {
    error.error_code().is_some_and(is_capacity)
}

fn lacks_spot_role(error: &CreateFleetError) -> bool {
    error.error_code().is_some_and(is_missing_spot_role)
}

/// The option that an error is about; `None` when it does not say, and then it is about all of them.
fn of(error: &CreateFleetError, asked: Asked<'_>) -> Option<Override> {
    let choice = error.launch_template_and_overrides()?.overrides()?;
    let zone = Text::from(zone(choice, asked.terms)?);
    Some(Override { instance_type: Text::from(choice.instance_type()?.as_str()), zone })
}

/// Each option once, in the order in which they were offered.
fn in_order(options: impl Iterator<Item = Override>, asked: Asked<'_>) -> Vec<Override> {
    let found: BTreeSet<Override> = options.collect();
    asked.offered.iter().filter(|option| found.contains(option)).cloned().collect()
}

#[cfg(test)]
mod tests;
