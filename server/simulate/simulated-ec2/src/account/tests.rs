//! The account without HTTP: parameters and a time in, values out.

mod describe;
mod fleets;
mod identity;
mod instances;
mod json;
mod launch_errors;
mod messages;
mod reservations;
mod sessions;
mod templates;

use cloud::simulated::FaultProfile;
use model::{MicroUsd, Timestamp};
use serde_json::Value;

use super::*;
use crate::faults::Faults;
use crate::query::parameters::Parameters;
use crate::settings::TemplateSeed;
use crate::value::Fields;

/// Time of the first call: 2026-09-01T00:00:00Z.
const START: i64 = 1_788_220_800_000;
const BOOT_MS: i64 = 20_000;
const SHUTDOWN_MS: i64 = 5_000;

/// An account on its cloud, at a time.
struct Fixture {
    account: Account,
    cloud: SimulatedCloud,
    switchboard: Switchboard,
    now: Timestamp,
    x86_image: String,
    caller: Caller,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// An account in eu-west-1 for cluster `blue`, with a template `nodes` for images of x86, changed by `change`.
    fn with(change: impl FnOnce(&mut AccountSettings)) -> Self {
        let mut settings = AccountSettings::new("eu-west-1", "blue");
        let x86_image = settings.images.iter().find(|image| image.architecture == "x86_64").unwrap().id.clone();
        let data = [("ImageId".to_owned(), x86_image.clone())].into();
        settings.launch_templates.push(TemplateSeed { name: "nodes".to_owned(), data });
        change(&mut settings);
        let faults = FaultProfile { boot_ms: (BOOT_MS, BOOT_MS), shutdown_ms: SHUTDOWN_MS, ..FaultProfile::default() };
        Self {
            account: Account::new(settings),
            cloud: SimulatedCloud::new(faults, None),
            switchboard: Switchboard::new(Faults::default()),
            now: Timestamp::from_millis(START),
            x86_image,
            caller: Caller::default(),
        }
    }

    fn faults(&mut self, faults: Faults) {
        self.switchboard.set(faults);
    }

    fn wait(&mut self, millis: i64) {
        self.now = self.now + model::Millis::new(millis);
    }

    fn answer(
        &mut self,
        service: Service,
        action: &str,
        parameters: &Parameters,
        body: &Value,
    ) -> Result<Answer, ApiError> {
        self.cloud.tick(self.now);
        self.account.follow(&self.cloud, &mut self.switchboard, self.now);
        let (cloud, faults, now, host) = (&mut self.cloud, &mut self.switchboard, self.now, "ec2.test");
        let caller = &self.caller;
        self.account.answer(&mut Context { service, action, parameters, body, host, caller, now, cloud, faults })
    }

    fn form(&mut self, service: Service, action: &str, form: &str) -> Result<Fields, ApiError> {
        match self.answer(service, action, &Parameters::read(form.as_bytes()), &Value::Null)? {
            Answer::Xml(fields) => Ok(fields),
            Answer::Json(body) => panic!("{body}"),
        }
    }

    /// Calls an action of EC2 with a form, whose values need no escapes.
    fn call(&mut self, action: &str, form: &str) -> Result<Fields, ApiError> {
        self.form(Service::Ec2, action, form)
    }

    fn code(&mut self, action: &str, form: &str) -> String {
        self.call(action, form).map_or_else(|error| error.code, |_| "none".to_owned())
    }

    /// Calls an action of IAM.
    fn iam(&mut self, action: &str, form: &str) -> Result<Fields, ApiError> {
        self.form(Service::Iam, action, form)
    }

    /// Calls AssumeRole.
    fn assume(&mut self, form: &str) -> Result<Fields, ApiError> {
        self.form(Service::Sts, "AssumeRole", form)
    }

    fn json(&mut self, service: Service, action: &str, body: &Value) -> Result<Value, ApiError> {
        match self.answer(service, action, &Parameters::of_json(body), body)? {
            Answer::Json(body) => Ok(body),
            Answer::Xml(fields) => panic!("{fields:?}"),
        }
    }

    /// CreateFleet from the template `nodes` for `total` instances.
    fn fleet(&mut self, kind: &str, total: u32, overrides: &[&str]) -> Fields {
        self.call("CreateFleet", &fleet_form(kind, total, overrides)).unwrap()
    }

    /// Launches on-demand instances of a type in zone a, and returns their ids.
    fn launch(&mut self, instance_type: &str, total: u32) -> Vec<String> {
        let answer =
            self.fleet("on-demand", total, &[&format!("InstanceType={instance_type}&AvailabilityZone=eu-west-1a")]);
        let group = answer.items("fleetInstanceSet")[0].fields().unwrap().clone();
        (0..total as usize).map(|at| group.text(&format!("instanceIds/{at}"))).collect()
    }
}

/// The form of a fleet from the template `nodes`; each override is `Name=value&Name=value`.
fn fleet_form(kind: &str, total: u32, overrides: &[&str]) -> String {
    let mut form = format!(
        "Type=instant&TargetCapacitySpecification.TotalTargetCapacity={total}&\
         TargetCapacitySpecification.DefaultTargetCapacityType={kind}&\
         LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=nodes&\
         LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=%24Latest"
    );
    for (at, sent) in (1..).zip(overrides) {
        for field in sent.split('&') {
            form += &format!("&LaunchTemplateConfigs.1.Overrides.{at}.{field}");
        }
    }
    form
}

/// Instance types of the answer's groups, each with its number of instances.
fn groups(answer: &Fields) -> Vec<(String, usize)> {
    let group = |node: &crate::value::Node| {
        let group = node.fields().unwrap();
        (group.text("instanceType"), group.items("instanceIds").len())
    };
    answer.items("fleetInstanceSet").iter().map(group).collect()
}

fn errors(answer: &Fields) -> Vec<String> {
    answer.texts("errorSet", "errorCode")
}

fn usd(micros: i64) -> MicroUsd {
    MicroUsd(micros)
}
