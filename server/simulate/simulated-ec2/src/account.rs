//! An account in one region: its state, and the actions on it. Without I/O: parameters and a time come in, values go
//! out. Launched instances and their states are the cloud's ([`SimulatedCloud`]).
//!
//! Reading order: [`context`] (what an action gets), [`region`] (what is sold), [`launch_templates`], [`fleets`],
//! [`instances`], then the others.

mod addresses;
mod authorization;
mod clusters;
mod context;
mod events;
mod fleets;
mod identity;
mod images;
mod instance_profiles;
mod instances;
mod launch_templates;
mod network;
mod parameters;
mod prices;
mod queues;
mod region;
mod reservations;
mod rules;
mod sales;
mod session;

use std::collections::BTreeMap;

use cloud::simulated::{ChangeKind, SimulatedCloud};
use model::Timestamp;
use serde_json::Value;

use self::authorization::demand::Demand;
use self::fleets::Fleets;
use self::fleets::resolve::Resolver;
use self::identity::Sessions;
use self::instance_profiles::InstanceProfiles;
use self::instances::Instances;
use self::instances::status::Reports;
use self::launch_templates::{LaunchTemplates, check_tags};
use self::queues::{Location, QueueCall, Queues};
use self::region::Region;
use self::rules::Rules;
use crate::api_error::ApiError;
use crate::faults::switchboard::Switchboard;
use crate::service::Service;
use crate::settings::AccountSettings;
use crate::value::Fields;

pub(crate) use authorization::Caller;
pub(crate) use context::Context;
pub use instance_profiles::InstanceProfile;
pub(crate) use session::Session;

#[derive(Debug)]
pub(crate) struct Account {
    region: Region,
    templates: LaunchTemplates,
    instances: Instances,
    fleets: Fleets,
    profiles: InstanceProfiles,
    sessions: Sessions,
    reports: Reports,
    queues: Queues,
    rules: Rules,
    events: u64,
}

/// A call of a JSON service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonCall<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) service: Service,
    pub(crate) action: &'a str,
    pub(crate) body: &'a Value,
    /// Host and port that the caller used.
    pub(crate) host: &'a str,
    pub(crate) now: Timestamp,
}

impl Account {
    pub(crate) fn new(settings: AccountSettings) -> Self {
        let location = Location { region: settings.region.clone(), account: settings.account.clone() };
        Self {
            queues: Queues::new(location.clone()),
            rules: Rules::new(location),
            events: 0,
            templates: LaunchTemplates::new(&settings.launch_templates),
            profiles: InstanceProfiles::new(&settings),
            region: Region::new(settings),
            instances: Instances::default(),
            fleets: Fleets::default(),
            sessions: Sessions::default(),
            reports: Reports::default(),
        }
    }

    /// Changes what the account contains beside what calls have made: launch templates and instance profiles of
    /// the settings are those of its beginning.
    pub(crate) fn change_settings(&mut self, change: impl FnOnce(&mut AccountSettings)) {
        let mut settings = self.region.settings().clone();
        change(&mut settings);
        self.profiles.set_roles(&settings.roles);
        self.region = Region::new(settings);
    }

    /// Instance profiles by name.
    pub(crate) fn instance_profiles(&self) -> &BTreeMap<String, InstanceProfile> {
        self.profiles.all()
    }

    /// Brings the account up to date with the cloud, and sends the events of what has changed.
    pub(crate) fn follow(&mut self, cloud: &SimulatedCloud, faults: &mut Switchboard, now: Timestamp) {
        for change in self.instances.follow(cloud) {
            if let ChangeKind::Interrupted { kind, ends } = change.kind {
                self.reports.record(&change.instance, kind, change.at, ends);
            }
            self.events += 1;
            let instance = cloud.describe(&change.instance).ok();
            if let Some(event) = events::event(&self.region, &change, instance, self.events) {
                self.rules.publish(&event, &mut self.queues, faults, now);
            }
        }
    }

    /// The session with this access key.
    pub(crate) fn session(&self, key: &str) -> Option<&Session> {
        self.sessions.find(key)
    }

    pub(crate) fn revoke_sessions(&mut self) {
        self.sessions.revoke();
    }

    /// The caller with this access key. Long-term credentials are not checked, and may do everything.
    ///
    /// # Errors
    /// The service's error for a session that has ended or is not known.
    pub(crate) fn authenticate(&self, key: &str, service: Service, now: Timestamp) -> Result<Caller, ApiError> {
        match self.sessions.authenticate(key, service, now)? {
            Some(session) => Caller::new(session, self.profiles.role(&session.role)),
            None => Ok(Caller::default()),
        }
    }

    /// Answers a call of EC2.
    ///
    /// # Errors
    /// The error of the action; `InvalidAction` for one that is not simulated.
    pub(crate) fn answer_ec2(&mut self, call: &mut Context<'_>) -> Result<Fields, ApiError> {
        if call.caller.is_judged() {
            let demands = Demand::of_ec2(&self.region, &self.templates, &self.instances, call);
            call.caller.check(Service::Ec2, demands)?;
        }
        if call.action.starts_with("Describe") {
            let answer = self.describe(call)?;
            call.end_dry_run()?;
            return Ok(answer);
        }
        let resolver = Resolver { region: &self.region, templates: &self.templates, profiles: &self.profiles };
        match call.action {
            "CreateFleet" => self.fleets.create(&resolver, &mut self.instances, call),
            "RunInstances" => fleets::run_instances(&resolver, call),
            "TerminateInstances" => self.instances.terminate(call),
            "CreateTags" => self.create_tags(call),
            "CreateLaunchTemplate" => self.templates.create(call),
            "DeleteLaunchTemplate" => self.templates.delete(call),
            other => Err(unknown_action(other)),
        }
    }

    fn describe(&self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let region = &self.region;
        match call.action {
            "DescribeAvailabilityZones" => network::describe_zones(region, call),
            "DescribeCapacityReservations" => reservations::describe(region, &self.instances, call),
            "DescribeImages" => images::describe(region, call),
            "DescribeInstances" => self.instances.describe(region, call),
            "DescribeInstanceStatus" => self.instances.describe_status(region, &self.reports, call),
            "DescribeInstanceTypeOfferings" => sales::describe_offerings(region, call),
            "DescribeInstanceTypes" => sales::describe_types(region, call),
            "DescribeLaunchTemplates" => self.templates.describe(call),
            "DescribePlacementGroups" => network::describe_placement_groups(call),
            "DescribeSecurityGroups" => network::describe_security_groups(region, call),
            "DescribeSpotInstanceRequests" => self.instances.describe_spot_requests(&self.reports, call),
            "DescribeSpotPriceHistory" => sales::describe_spot_prices(region, call),
            "DescribeSubnets" => network::describe_subnets(region, &self.instances.addresses, call),
            other => Err(unknown_action(other)),
        }
    }

    /// CreateTags of instances and launch templates.
    fn create_tags(&mut self, call: &Context<'_>) -> Result<Fields, ApiError> {
        let (ids, tags) = (call.parameters.list("ResourceId"), call.parameters.tags("Tag"));
        if ids.is_empty() || tags.is_empty() {
            return Err(ApiError::missing(if ids.is_empty() { "ResourceId" } else { "Tag" }));
        }
        check_tags(&tags)?;
        call.end_dry_run()?;
        for id in ids {
            let ownership = &self.region.settings().ownership;
            match id.starts_with("lt-") {
                true if self.templates.add_tags(id, &tags) => {}
                true => {
                    let message = format!("The launch template ID '{id}' does not exist");
                    return Err(ApiError::new("InvalidLaunchTemplateId.NotFound", message));
                }
                false => self.instances.add_tags(call, id, &tags, ownership)?,
            }
        }
        Ok(Fields::new().with("return", true))
    }

    /// Answers a call of IAM or STS; `caller` is the access key.
    ///
    /// # Errors
    /// The error of the action; `InvalidAction` for one that is not simulated.
    pub(crate) fn answer_identity(&mut self, caller: &str, call: &Context<'_>) -> Result<Fields, ApiError> {
        let account = &self.region.settings().account;
        let of_sts = self.sessions.answer(account, &self.profiles, caller, call);
        if of_sts.is_none() && call.caller.is_judged() {
            call.caller.check(Service::Iam, Demand::of_iam(account, &self.profiles, call))?;
        }
        of_sts.or_else(|| self.profiles.answer(call)).unwrap_or_else(|| Err(unknown_action(call.action)))
    }

    /// Answers a call of SSM, Pricing, EKS, SQS or EventBridge.
    ///
    /// # Errors
    /// The error of the action; `UnknownOperationException` for one that is not simulated.
    pub(crate) fn answer_json(&mut self, call: JsonCall<'_>, faults: &mut Switchboard) -> Result<Value, ApiError> {
        call.caller
            .check(call.service, vec![Demand::any(format!("{}:{}", call.service.name(), right_of(call.action)))])?;
        let settings = self.region.settings();
        let limit = faults.page_size(call.action);
        let name = || call.body["name"].as_str().unwrap_or_default();
        let unknown = || Err(ApiError::new("UnknownOperationException", format!("{} is not simulated", call.action)));
        match (call.service, call.action) {
            (Service::Ssm, action) => {
                parameters::answer(&settings.parameters, action, call.body).unwrap_or_else(unknown)
            }
            (Service::Sqs, action) => {
                let call = QueueCall { action, body: call.body, host: call.host, now: call.now };
                self.queues.answer(call).unwrap_or_else(unknown)
            }
            (Service::EventBridge, action) => self.rules.answer(action, call.body, limit).unwrap_or_else(unknown),
            (Service::Pricing, "GetProducts") => prices::get_products(&self.region, call.body, limit),
            (Service::Eks, "DescribeCluster") => clusters::describe(settings, name()),
            (Service::Eks, "ListAccessEntries") => {
                let size = call.body["maxResults"].as_str().and_then(|size| size.parse().ok());
                clusters::list_access_entries(settings, name(), (size, call.body["nextToken"].as_str()), limit)
            }
            (Service::Eks, "DescribeAccessEntry") => {
                let principal = call.body["principalArn"].as_str().unwrap_or_default();
                clusters::describe_access_entry(settings, name(), principal)
            }
            _ => unknown(),
        }
    }
}

/// The right that an action of a JSON service requires: that for a batch is the one for a single message.
fn right_of(action: &str) -> &str {
    action.strip_suffix("Batch").unwrap_or(action)
}

fn unknown_action(action: &str) -> ApiError {
    ApiError::new("InvalidAction", format!("The action {action} is not valid for this endpoint."))
}

#[cfg(test)]
mod tests;
