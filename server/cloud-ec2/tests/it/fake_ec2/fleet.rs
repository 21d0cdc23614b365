//! `CreateFleet` of type `instant` for one machine.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use super::{Answer, FakeState, Form, Machine, element, error, ok};

pub(super) fn create(fake: &mut FakeState, form: &Form) -> Answer {
    let token = form["ClientToken"].clone();
    if let Some((sent, answer)) = fake.tokens.get(&token) {
        let other = "the client token was used with other parameters";
        let mismatch = || error(StatusCode::BAD_REQUEST, "IdempotentParameterMismatch", other);
        return if sent == form { answer.clone() } else { mismatch() };
    }
    // Every template is looked up before anything is launched; an unknown one ends the call.
    let named = (1..).map_while(|number| {
        form.get(&format!("LaunchTemplateConfigs.{number}.LaunchTemplateSpecification.LaunchTemplateName"))
    });
    if let Some(unknown) = named.into_iter().find(|name| !fake.templates.contains_key(*name)) {
        return error(StatusCode::BAD_REQUEST, "InvalidLaunchTemplateName.NotFoundException", unknown);
    }
    let answer = launch(fake, form);
    fake.tokens.insert(token, (form.clone(), answer.clone()));
    answer
}

fn launch(fake: &mut FakeState, form: &Form) -> Answer {
    let (mut errors, mut launched) = (String::new(), String::new());
    for (instance_type, zone) in overrides(form) {
        if fake.unavailable.contains(&(instance_type.clone(), zone.clone())) {
            let code = element("errorCode", "InsufficientInstanceCapacity") + &element("errorMessage", "no capacity");
            errors += &element("item", &(chosen(&instance_type, &zone) + &code));
            continue;
        }
        let id = format!("i-{}", fake.machines.len() + 1);
        let ids = element("instanceIds", &element("item", &id)) + &element("instanceType", &instance_type);
        launched = element("item", &(chosen(&instance_type, &zone) + &ids));
        let spot = form["TargetCapacitySpecification.DefaultTargetCapacityType"] == "spot";
        fake.machines.insert(id, Machine { instance_type, zone, spot, state: "pending", tags: tags(form) });
        break;
    }
    let lists = element("errorSet", &errors) + &element("fleetInstanceSet", &launched);
    ok("CreateFleet", &(element("fleetId", "fleet-1") + &lists))
}

fn overrides(form: &Form) -> Vec<(String, String)> {
    let at = |number: usize| {
        let prefix = format!("LaunchTemplateConfigs.1.Overrides.{number}");
        let field = |name: &str| form.get(&format!("{prefix}.{name}")).cloned();
        Some((field("InstanceType")?, field("AvailabilityZone")?))
    };
    (1..).map_while(at).collect()
}

fn chosen(instance_type: &str, zone: &str) -> String {
    let overrides = element("instanceType", instance_type) + &element("availabilityZone", zone);
    element("launchTemplateAndOverrides", &element("overrides", &overrides)) + &element("lifecycle", "spot")
}

fn tags(form: &Form) -> BTreeMap<String, String> {
    let at = |number: usize| {
        let field = |name: &str| form.get(&format!("TagSpecification.1.Tag.{number}.{name}")).cloned();
        Some((field("Key")?, field("Value")?))
    };
    (1..).map_while(at).collect()
}
