//! CreateFleet of type `instant`, and dry runs of RunInstances.
//!
//! How capacity enters: a pool (instance type, zone, capacity type) either has capacity for a number of instances
//! or has none, by the switchboard and by the fault profile of the cloud; there is no measure of how much more one
//! pool has than another. A strategy orders the pools ([`strategy`]), and instances are launched from the first
//! pool with capacity, then the next. A pool that was tried without success is an error of the response, also when
//! another pool has fulfilled the target. Overrides that can never launch, because of their template, image,
//! network or profile, are always errors of the response ([`resolve`]).

mod launch;
mod request;
pub(crate) mod resolve;
mod rights;
mod strategy;

use std::collections::BTreeMap;

use self::launch::Launcher;
use self::request::FleetRequest;
use self::resolve::{Candidate, LaunchError, Resolver};
use super::context::Context;
use super::instances::Instances;
use super::launch_templates::check_tags;
use crate::api_error::ApiError;
use crate::query::parameters::Parameters;
use crate::value::Fields;

/// Client tokens with the calls and answers that they stand for.
#[derive(Debug, Default)]
pub(crate) struct Fleets {
    tokens: BTreeMap<String, (Parameters, Fields)>,
    created: u64,
}

/// One option of a fleet: what it launches, or why it cannot.
type Resolved = Result<Candidate, LaunchError>;

impl Fleets {
    pub(crate) fn create(
        &mut self,
        resolver: &Resolver<'_>,
        instances: &mut Instances,
        call: &mut Context<'_>,
    ) -> Result<Fields, ApiError> {
        let token = call.parameters.get("ClientToken").filter(|_| !call.cloud.faults().ignore_tokens);
        if let Some((sent, answer)) = token.and_then(|token| self.tokens.get(token)) {
            return if sent == call.parameters { Ok(answer.clone()) } else { Err(mismatch()) };
        }
        let request = FleetRequest::read(call.parameters)?;
        check_tags(&request.instance_tags)?;
        let options = rights::authorized(resolver.options(&request, call)?, resolver, &request, call);
        call.end_dry_run()?;
        let answer = self.fulfil(&request, options, resolver, instances, call);
        if let Some(token) = token {
            self.tokens.insert(token.to_owned(), (call.parameters.clone(), answer.clone()));
        }
        Ok(answer)
    }

    /// The quota of fleets comes first: a fleet that launches nothing counts too. Options that cannot launch are
    /// set aside before the others are ordered, so that they are errors whatever is launched.
    fn fulfil(
        &mut self,
        request: &FleetRequest,
        mut options: Vec<Resolved>,
        resolver: &Resolver<'_>,
        instances: &mut Instances,
        call: &mut Context<'_>,
    ) -> Fields {
        self.created += 1;
        let fleet = format!("fleet-{:08x}-0000-4000-8000-{:012x}", self.created, call.now.as_millis());
        if !call.faults.take_fleet() {
            let quota = |option: Resolved| match option {
                Ok(candidate) => {
                    Err(candidate.fails("MaxFleetCountExceeded", "You have reached the maximum number of fleets."))
                }
                failed => failed,
            };
            options = options.into_iter().map(quota).collect();
        }
        let (mut candidates, mut errors) = (Vec::new(), Vec::new());
        for option in options {
            match option {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => errors.push(error),
            }
        }
        strategy::order(&mut candidates, request.strategy);
        let mut launcher = Launcher { request, fleet: &fleet, region: resolver.region, instances, call };
        let (groups, failed) = launcher.launch(&candidates);
        errors.extend(failed);
        Fields::new().with("fleetId", &fleet).list("errorSet", errors).list("fleetInstanceSet", groups)
    }
}

fn mismatch() -> ApiError {
    let message = "The client token was used with other parameters in an earlier request.";
    ApiError::new("IdempotentParameterMismatch", message)
}

/// RunInstances, of which only the dry run is simulated.
///
/// # Errors
/// `DryRunOperation` for a launch that would succeed, else its error.
pub(crate) fn run_instances(resolver: &Resolver<'_>, call: &Context<'_>) -> Result<Fields, ApiError> {
    if !call.parameters.is_true("DryRun") {
        let message = "The simulation has RunInstances as a dry run only; CreateFleet launches instances";
        return Err(ApiError::new("UnsupportedOperation", message));
    }
    check_tags(&call.parameters.tags_of("instance"))?;
    resolver.direct(call)?;
    Err(ApiError::dry_run())
}
