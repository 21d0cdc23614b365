//! What is answered: the actions that `cloud-ec2` and its tests call, with the parameters that they send.

use serde_json::Value;

use super::authorization::demand::Demand;
use super::fleets::resolve::Resolver;
use super::{Account, Context, clusters, instance_type_offerings, network, prices};
use crate::account::instances::status;
use crate::api_error::ApiError;
use crate::service::Service;
use crate::value::Fields;

#[derive(Debug)]
pub(crate) enum Answer {
    Xml(Fields),
    Json(Value),
}

/// Parameters that an action understands; one that ends with a dot stands for all below it. `None` for an action that is
/// not simulated.
fn parameters(action: &str) -> Option<&'static [&'static str]> {
    Some(match action {
        "AddRoleToInstanceProfile" => &["InstanceProfileName", "RoleName"],
        "AssumeRole" => &["DurationSeconds", "ExternalId", "RoleArn", "RoleSessionName", "Tags."],
        "CreateFleet" => &[
            "ClientToken",
            "Context",
            "LaunchTemplateConfigs.",
            "OnDemandOptions.AllocationStrategy",
            "ReservedCapacityOptions.ReservationType.",
            "SpotOptions.AllocationStrategy",
            "TagSpecification.",
            "TargetCapacitySpecification.DefaultTargetCapacityType",
            "TargetCapacitySpecification.TotalTargetCapacity",
            "Type",
        ],
        "CreateInstanceProfile" => &["InstanceProfileName", "Path", "Tags."],
        "CreateLaunchTemplate" => &["ClientToken", "LaunchTemplateData.", "LaunchTemplateName", "TagSpecification."],
        "CreateQueue" => &["Attributes", "QueueName"],
        "CreateTags" => &["ResourceId.", "Tag."],
        "DeleteLaunchTemplate" => &["LaunchTemplateName"],
        "DeleteMessageBatch" => &["Entries", "QueueUrl"],
        "DeleteQueue" => &["QueueUrl"],
        "DeleteRule" | "DescribeRule" => &["Name"],
        "DescribeAccessEntry" => &["name", "principalArn"],
        "DescribeAvailabilityZones" => &[],
        "DescribeCapacityReservations" => &["CapacityReservationId.", "Filter.", "MaxResults", "NextToken"],
        "DescribeCluster" => &["name"],
        "DescribeImages" => &["Filter.", "IncludeDeprecated", "MaxResults", "NextToken", "Owner."],
        "DescribeInstanceTypeOfferings" => &["LocationType", "MaxResults", "NextToken"],
        "DescribeInstances" => &["Filter.", "InstanceId.", "MaxResults", "NextToken"],
        "DescribeSpotPriceHistory" => &["MaxResults", "NextToken", "ProductDescription.", "StartTime"],
        "DescribeInstanceStatus"
        | "DescribeInstanceTypes"
        | "DescribeLaunchTemplates"
        | "DescribeSecurityGroups"
        | "DescribeSpotInstanceRequests"
        | "DescribeSubnets" => &["Filter.", "MaxResults", "NextToken"],
        "GetInstanceProfile" => &["InstanceProfileName"],
        "GetParameter" => &["Name"],
        "GetProducts" => &["Filters", "MaxResults", "NextToken", "ServiceCode"],
        "GetQueueAttributes" => &["AttributeNames", "QueueUrl"],
        "GetQueueUrl" => &["QueueName"],
        "ListTargetsByRule" => &["Rule"],
        "PutRule" => &["Description", "EventPattern", "Name", "State"],
        "PutTargets" => &["Rule", "Targets"],
        "ReceiveMessage" => {
            &["MaxNumberOfMessages", "MessageSystemAttributeNames", "QueueUrl", "VisibilityTimeout", "WaitTimeSeconds"]
        }
        "RemoveTargets" => &["Ids", "Rule"],
        "SetQueueAttributes" => &["Attributes", "QueueUrl"],
        "TagInstanceProfile" => &["InstanceProfileName", "Tags."],
        "TerminateInstances" => &["InstanceId."],
        _ => return None,
    })
}

/// Checks that everything that a call asks for is simulated.
fn check(call: &Context<'_>) -> Result<(), ApiError> {
    let known = parameters(call.action).ok_or_else(|| unknown_action(call))?;
    let is_known = |name: &&String| {
        let is = |known: &&str| name.as_str() == *known || known.ends_with('.') && name.starts_with(*known);
        matches!(name.as_str(), "Action" | "Version") || known.iter().any(is)
    };
    match call.parameters.values().keys().find(|name| !is_known(name)) {
        Some(name) => {
            let message = format!("The simulation of {} does not have the parameter {name}", call.action);
            Err(ApiError::new("UnknownParameter", message))
        }
        None => Ok(()),
    }
}

fn unknown_action(call: &Context<'_>) -> ApiError {
    let message = format!("The action {} is not valid for this endpoint.", call.action);
    let is_form = matches!(call.service, Service::Ec2 | Service::Iam | Service::Sts);
    ApiError::new(if is_form { "InvalidAction" } else { "UnknownOperationException" }, message)
}

impl Account {
    /// Answers a call.
    ///
    /// # Errors
    /// The error of the action; `InvalidAction` or `UnknownOperationException` for one that is not simulated,
    /// `UnknownParameter` for a parameter that is not.
    pub(crate) fn answer(&mut self, call: &mut Context<'_>) -> Result<Answer, ApiError> {
        check(call)?;
        if call.caller.is_judged() && call.service != Service::Sts {
            call.caller.check(call.service, Demand::of_call(self, call))?;
        }
        match call.service {
            Service::Ec2 => self.answer_ec2(call).map(Answer::Xml),
            Service::Iam | Service::Sts => self.answer_identity(call).map(Answer::Xml),
            _ => self.answer_json(call).map(Answer::Json),
        }
    }

    fn answer_ec2(&mut self, call: &mut Context<'_>) -> Result<Fields, ApiError> {
        let region = &self.region;
        let resolver = Resolver { region, templates: &self.templates, profiles: &self.profiles };
        match call.action {
            "CreateFleet" => self.fleets.create(&resolver, &mut self.instances, call),
            "CreateLaunchTemplate" => self.templates.create(call),
            "CreateTags" => self.instances.create_tags(call, &region.settings().ownership),
            "DeleteLaunchTemplate" => self.templates.delete(call),
            "DescribeAvailabilityZones" => Ok(network::describe_zones(region)),
            "DescribeCapacityReservations" => network::describe_reservations(region, &self.instances, call),
            "DescribeImages" => network::describe_images(region, call),
            "DescribeInstances" => self.instances.describe(region, call),
            "DescribeInstanceStatus" => status::describe_status(region, &self.reports, call),
            "DescribeInstanceTypeOfferings" => instance_type_offerings::describe_offerings(region, call),
            "DescribeInstanceTypes" => instance_type_offerings::describe_types(region, call),
            "DescribeLaunchTemplates" => self.templates.describe(call),
            "DescribeSecurityGroups" => network::describe_security_groups(region, call),
            "DescribeSpotInstanceRequests" => status::describe_spot_requests(&self.reports, call),
            "DescribeSpotPriceHistory" => instance_type_offerings::describe_spot_prices(region, call),
            "DescribeSubnets" => network::describe_subnets(region, &self.instances.addresses, call),
            "TerminateInstances" => self.instances.terminate(call),
            _ => Err(unknown_action(call)),
        }
    }

    fn answer_identity(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        match call.action {
            "AssumeRole" => self.sessions.assume(&self.region.settings().account, &self.profiles, call),
            "AddRoleToInstanceProfile" => self.profiles.add_role(call),
            "CreateInstanceProfile" => self.profiles.create(call),
            "GetInstanceProfile" => self.profiles.get(call),
            "TagInstanceProfile" => self.profiles.tag(call),
            _ => Err(unknown_action(call)),
        }
    }

    fn answer_json(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let settings = self.region.settings();
        match call.action {
            "GetParameter" => clusters::get_parameter(settings, call),
            "DescribeCluster" => clusters::describe(settings, call),
            "DescribeAccessEntry" => clusters::describe_access_entry(settings, call),
            "GetProducts" => prices::get_products(&self.region, call),
            "CreateQueue" => self.queues.create(call),
            "DeleteMessageBatch" => self.queues.delete_batch(call),
            "DeleteQueue" => self.queues.delete(call),
            "GetQueueAttributes" => self.queues.attributes(call),
            "GetQueueUrl" => self.queues.url_of(call),
            "ReceiveMessage" => self.queues.receive(call),
            "SetQueueAttributes" => self.queues.set_attributes(call),
            "DeleteRule" => self.rules.delete(call),
            "DescribeRule" => self.rules.describe(call),
            "ListTargetsByRule" => self.rules.list_targets(call),
            "PutRule" => self.rules.put(call),
            "PutTargets" => self.rules.put_targets(call),
            "RemoveTargets" => self.rules.remove_targets(call),
            _ => Err(unknown_action(call)),
        }
    }
}
