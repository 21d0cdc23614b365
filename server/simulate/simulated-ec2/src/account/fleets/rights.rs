//! Which options of a fleet the caller may launch.

use super::request::{FleetRequest, Target};
use super::resolve::{Candidate, LaunchError, Resolver};
use crate::account::authorization::demand::Demand;
use crate::account::authorization::demands::{arn, create, pass_role};
use crate::account::context::Context;
use crate::service::Service;

/// The action that each launch is checked as, beside CreateFleet for the whole call.
const RUN: &str = "RunInstances";

/// The options, of which those that the caller may not launch have failed.
pub(super) fn authorized(
    options: Vec<Result<Candidate, LaunchError>>,
    resolver: &Resolver<'_>,
    request: &FleetRequest,
    call: &Context<'_>,
) -> Vec<Result<Candidate, LaunchError>> {
    if !call.caller.is_judged() {
        return options;
    }
    let authorized = |option: Result<Candidate, LaunchError>| {
        let option = option?;
        match call.caller.check(Service::Ec2, demands(&option, resolver, request, call)) {
            Ok(()) => Ok(option),
            Err(error) => Err(option.fails(&error.code, error.message)),
        }
    };
    options.into_iter().map(authorized).collect()
}

/// What the launch of an option requires.
fn demands(option: &Candidate, resolver: &Resolver<'_>, request: &FleetRequest, call: &Context<'_>) -> Vec<Demand> {
    let region = resolver.region;
    let template = resolver.templates.by_id(&option.template);
    let of_template = |resource: &str| template.map(|found| found.data.tags_of(resource)).unwrap_or_default();
    let mut made = vec![
        ("instance/*", request.instance_tags.clone()),
        ("volume/*", call.parameters.tags_of("volume")),
        ("network-interface/*", of_template("network-interface")),
    ];
    if request.target == Target::Spot {
        made.push(("spot-instances-request/*", of_template("spot-instances-request")));
    }
    let mut demands: Vec<Demand> =
        made.iter().flat_map(|(resource, tags)| create(RUN, &arn(region, resource), tags)).collect();
    let run = |resource: &str| Demand::on(format!("ec2:{RUN}"), arn(region, resource));
    demands.extend(template.map(|found| run(&format!("launch-template/{}", found.id)).of(&found.tags)));
    demands.push(run(&format!("subnet/{}", option.subnet)));
    demands.extend(option.groups.iter().map(|group| run(&format!("security-group/{group}"))));
    let image = format!("arn:aws:ec2:{}::image/{}", region.settings().region, option.image);
    demands.push(Demand::on(format!("ec2:{RUN}"), image));
    let role = option.profile.as_ref().and_then(|name| resolver.profiles.find(name)?.role.as_ref());
    demands.extend(role.map(|role| pass_role(&region.settings().account, role)));
    demands
}
