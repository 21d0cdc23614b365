//! CreateFleet of type `instant`.
//!
//! How capacity enters: a pool (instance type, zone, capacity type) either has capacity for a number of instances
//! or has none, by the switchboard and by the fault profile of the cloud; there is no measure of how much more one
//! pool has than another. Instances are launched from the cheapest pool with capacity, then the next. A pool that was tried without success is an error of the response, also when
//! another pool has fulfilled the target. Overrides that can never launch, because of their template, image,
//! network or profile, are always errors of the response ([`resolve`]).

mod launch;
pub(crate) mod request;
pub(crate) mod resolve;

use std::collections::BTreeMap;

use self::launch::Launcher;
use self::request::FleetRequest;
use self::resolve::{Candidate, LaunchError, Resolver};
use super::authorization::demand::Demand;
use super::context::Context;
use super::instances::Instances;
use super::launch_templates::check_tags;
use crate::api_error::ApiError;
use crate::query::parameters::Parameters;
use crate::service::Service;
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
        let options = resolver.options(&request, call)?.into_iter();
        let options = options.map(|option| authorized(option?, resolver, &request, call)).collect();
        let answer = self.fulfil(&request, options, resolver, instances, call);
        if let Some(token) = token {
            self.tokens.insert(token.to_owned(), (call.parameters.clone(), answer.clone()));
        }
        Ok(answer)
    }

    /// Options that cannot launch are errors whatever is launched.
    fn fulfil(
        &mut self,
        request: &FleetRequest,
        options: Vec<Resolved>,
        resolver: &Resolver<'_>,
        instances: &mut Instances,
        call: &mut Context<'_>,
    ) -> Fields {
        self.created += 1;
        let fleet = format!("fleet-{:08x}-0000-4000-8000-{:012x}", self.created, call.now.as_millis());
        let (mut candidates, mut errors) = (Vec::new(), Vec::new());
        for option in options {
            match option {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => errors.push(error),
            }
        }
        // Equal ones stay in the order of the request, and a pool without a price comes last.
        candidates.sort_by_key(|candidate| candidate.price.map_or(i64::MAX, |price| price.0));
        let mut launcher = Launcher { request, fleet: &fleet, region: resolver.region, instances, call };
        let (groups, failed) = launcher.launch(&candidates);
        errors.extend(failed);
        Fields::new().with("fleetId", &fleet).list("errorSet", errors).list("fleetInstanceSet", groups)
    }
}

/// The option, if the caller may launch it: each launch is checked, beside CreateFleet for the whole call.
fn authorized(option: Candidate, resolver: &Resolver<'_>, request: &FleetRequest, call: &Context<'_>) -> Resolved {
    if !call.caller.is_judged() {
        return Ok(option);
    }
    match call.caller.check(Service::Ec2, Demand::of_launch(&option, resolver, request, call)) {
        Ok(()) => Ok(option),
        Err(error) => Err(option.fails(&error.code, error.message)),
    }
}

fn mismatch() -> ApiError {
    let message = "The client token was used with other parameters in an earlier request.";
    ApiError::new("IdempotentParameterMismatch", message)
}
