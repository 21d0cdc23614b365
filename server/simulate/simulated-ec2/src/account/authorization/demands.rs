//! What calls require (service authorization reference: actions, resources and condition keys of EC2 and IAM).

use super::demand::Demand;
use crate::account::context::Context;
use crate::account::instance_profiles::{InstanceProfile, InstanceProfiles, profile_arn};
use crate::account::instances::Instances;
use crate::account::launch_templates::{LaunchTemplate, LaunchTemplates};
use crate::account::region::Region;
use crate::settings::Tags;

const CREATE_ACTION: &str = "ec2:CreateAction";
const EC2: &str = "ec2.amazonaws.com";

/// ARN of an EC2 resource of the account.
pub(crate) fn arn(region: &Region, resource: &str) -> String {
    let settings = region.settings();
    format!("arn:aws:ec2:{}:{}:{resource}", settings.region, settings.account)
}

/// The right to give EC2 the role of a profile.
pub(crate) fn pass_role(account: &str, role: &str) -> Demand {
    Demand::on("iam:PassRole", format!("arn:aws:iam::{account}:role/{role}")).key("iam:PassedToService", EC2)
}

/// The rights to make a resource with these tags in a call of `action`.
pub(crate) fn create(action: &str, resource: &str, tags: &Tags) -> Vec<Demand> {
    let mut demands = vec![Demand::on(format!("ec2:{action}"), resource).requests(tags)];
    if !tags.is_empty() {
        demands.push(Demand::on("ec2:CreateTags", resource).requests(tags).key(CREATE_ACTION, action));
    }
    demands
}

impl Demand {
    /// What a call of EC2 requires as a whole. Resources that do not exist require nothing: the action refuses them.
    pub(crate) fn of_ec2(
        region: &Region,
        templates: &LaunchTemplates,
        instances: &Instances,
        call: &Context<'_>,
    ) -> Vec<Self> {
        let action = format!("ec2:{}", call.action);
        let sent = call.parameters;
        let on_template = |found: &LaunchTemplate| {
            Self::on(&action, arn(region, &format!("launch-template/{}", found.id))).of(&found.tags)
        };
        let on_instance = |id: &str| {
            let tags = call.cloud.describe(id).ok().map(|found| instances.tags(found, &region.settings().ownership));
            tags.map(|tags| Self::on(&action, arn(region, &format!("instance/{id}"))).of(&tags))
        };
        match call.action {
            "CreateLaunchTemplate" => {
                create(call.action, &arn(region, "launch-template/*"), &sent.tags_of("launch-template"))
            }
            "DeleteLaunchTemplate" => {
                let found = sent.get("LaunchTemplateName").and_then(|name| templates.named(name));
                found.or_else(|| templates.by_id(sent.get("LaunchTemplateId")?)).map(on_template).into_iter().collect()
            }
            "TerminateInstances" => sent.list("InstanceId").into_iter().filter_map(on_instance).collect(),
            "CreateTags" => {
                let ids = sent.list("ResourceId").into_iter();
                let on = |id: &str| templates.by_id(id).map(on_template).or_else(|| on_instance(id));
                ids.filter_map(on).map(|demand| demand.requests(&sent.tags("Tag"))).collect()
            }
            "CreateFleet" => {
                let configs = sent.structures("LaunchTemplateConfigs");
                let used = configs.iter().filter_map(|config| {
                    let reference = config.below("LaunchTemplateSpecification");
                    let named = reference.get("LaunchTemplateName").and_then(|name| templates.named(name));
                    named.or_else(|| templates.by_id(reference.get("LaunchTemplateId")?))
                });
                let mut demands = create(call.action, &arn(region, "fleet/*"), &sent.tags_of("fleet"));
                demands.extend(used.map(on_template));
                demands
            }
            _ => vec![Self::any(action)],
        }
    }

    /// What a call of IAM requires. A profile that does not exist requires nothing: the action refuses it.
    pub(crate) fn of_iam(account: &str, profiles: &InstanceProfiles, call: &Context<'_>) -> Vec<Self> {
        let action = format!("iam:{}", call.action);
        let sent = call.parameters;
        let name = sent.get("InstanceProfileName").unwrap_or_default();
        let on = |found: &InstanceProfile| Self::on(&action, profile_arn(account, &found.path, name)).of(&found.tags);
        let existing = profiles.find(name).map(on);
        let tags = sent.tags("Tags.member");
        match call.action {
            "CreateInstanceProfile" => {
                let made = profile_arn(account, sent.get("Path").unwrap_or("/"), name);
                vec![Self::on(action, made).requests(&tags)]
            }
            "AddRoleToInstanceProfile" => {
                let role = sent.get("RoleName").map(|role| pass_role(account, role));
                existing.into_iter().chain(role).collect()
            }
            "TagInstanceProfile" => existing.into_iter().map(|demand| demand.requests(&tags)).collect(),
            "GetInstanceProfile" | "DeleteInstanceProfile" | "RemoveRoleFromInstanceProfile" => {
                vec![existing.unwrap_or_else(|| Self::on(&action, profile_arn(account, "/", name)))]
            }
            _ => vec![Self::any(action)],
        }
    }
}
