//! What calls require (service authorization reference: actions, resources and condition keys of EC2 and IAM).

use super::demand::Demand;
use crate::account::Account;
use crate::account::context::Context;
use crate::account::fleets::request::{FleetRequest, Target};
use crate::account::fleets::resolve::{Candidate, Resolver};
use crate::account::instance_profiles::{InstanceProfile, profile_arn};
use crate::account::launch_templates::LaunchTemplate;
use crate::account::region::Region;
use crate::query::parameters::Parameters;
use crate::settings::Tags;

/// The action that each launch of a fleet is checked as.
const RUN: &str = "RunInstances";

/// ARN of an EC2 resource of the account.
fn arn(region: &Region, resource: &str) -> String {
    let settings = region.settings();
    format!("arn:aws:ec2:{}:{}:{resource}", settings.region, settings.account)
}

/// The right to give EC2 the role of a profile.
fn pass_role(account: &str, role: &str) -> Demand {
    let role = format!("arn:aws:iam::{account}:role/{role}");
    Demand::on("iam:PassRole", role).key("iam:PassedToService", "ec2.amazonaws.com")
}

/// The rights to make a resource with these tags in a call of `action`.
fn create(action: &str, resource: &str, tags: &Tags) -> Vec<Demand> {
    let mut demands = vec![Demand::on(format!("ec2:{action}"), resource).requests(tags)];
    if !tags.is_empty() {
        demands.push(Demand::on("ec2:CreateTags", resource).requests(tags).key("ec2:CreateAction", action));
    }
    demands
}

impl Demand {
    /// What a call requires as a whole. Resources that do not exist require nothing: the action refuses them.
    pub(crate) fn of_call(account: &Account, call: &Context<'_>) -> Vec<Self> {
        let (region, sent) = (&account.region, call.parameters);
        let number = &region.settings().account;
        // The right for a batch is that for a single message.
        let action = call.action.strip_suffix("Batch").unwrap_or(call.action);
        let action = format!("{}:{action}", call.service.name());
        let template = |name: &str| account.templates.named(sent.get(name)?);
        let on_template = |found: &LaunchTemplate| {
            Self::on(&action, arn(region, &format!("launch-template/{}", found.id))).of(&found.tags)
        };
        let on_instance = |id: &str| {
            let tags = account.instances.tags(call.cloud.describe(id).ok()?, &region.settings().ownership);
            Some(Self::on(&action, arn(region, &format!("instance/{id}"))).of(&tags))
        };
        let profile = sent.get("InstanceProfileName").unwrap_or_default();
        let on_profile =
            |found: &InstanceProfile| Self::on(&action, profile_arn(number, &found.path, profile)).of(&found.tags);
        let existing = account.profiles.find(profile).map(on_profile);
        let tags = || sent.tags("Tags.member");
        match call.action {
            "CreateLaunchTemplate" => {
                create(call.action, &arn(region, "launch-template/*"), &sent.tags_of("launch-template"))
            }
            "DeleteLaunchTemplate" => template("LaunchTemplateName").map(on_template).into_iter().collect(),
            "TerminateInstances" => sent.list("InstanceId").into_iter().filter_map(on_instance).collect(),
            "CreateTags" => {
                let demands = sent.list("ResourceId").into_iter().filter_map(on_instance);
                demands.map(|demand| demand.requests(&sent.tags("Tag"))).collect()
            }
            "CreateFleet" => {
                let mut demands = create(call.action, &arn(region, "fleet/*"), &sent.tags_of("fleet"));
                let configs = sent.structures("LaunchTemplateConfigs");
                let on_used = |config: &Parameters| {
                    let name = config.get("LaunchTemplateSpecification.LaunchTemplateName");
                    name.and_then(|name| account.templates.named(name)).map(on_template)
                };
                demands.extend(configs.iter().filter_map(on_used));
                demands
            }
            "CreateInstanceProfile" => {
                let made = profile_arn(number, sent.get("Path").unwrap_or("/"), profile);
                vec![Self::on(action, made).requests(&tags())]
            }
            "AddRoleToInstanceProfile" => {
                existing.into_iter().chain(sent.get("RoleName").map(|role| pass_role(number, role))).collect()
            }
            "TagInstanceProfile" => existing.into_iter().map(|demand| demand.requests(&tags())).collect(),
            "GetInstanceProfile" => {
                vec![existing.unwrap_or_else(|| Self::on(&action, profile_arn(number, "/", profile)))]
            }
            _ => vec![Self::any(action)],
        }
    }

    /// What the launch of an option of a fleet requires.
    pub(crate) fn of_launch(
        option: &Candidate,
        resolver: &Resolver<'_>,
        request: &FleetRequest,
        call: &Context<'_>,
    ) -> Vec<Self> {
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
        let mut demands: Vec<Self> =
            made.iter().flat_map(|(resource, tags)| create(RUN, &arn(region, resource), tags)).collect();
        let run = |resource: &str| Self::on(format!("ec2:{RUN}"), arn(region, resource));
        demands.extend(template.map(|found| run(&format!("launch-template/{}", found.id)).of(&found.tags)));
        demands.push(run(&format!("subnet/{}", option.subnet)));
        demands.extend(option.groups.iter().map(|group| run(&format!("security-group/{group}"))));
        let image = format!("arn:aws:ec2:{}::image/{}", region.settings().region, option.image);
        demands.push(Self::on(format!("ec2:{RUN}"), image));
        let role = option.profile.as_ref().and_then(|name| resolver.profiles.find(name)?.role.as_ref());
        demands.extend(role.map(|role| pass_role(&region.settings().account, role)));
        demands
    }
}
