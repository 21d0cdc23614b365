//! `DescribeInstances` with filters and pages, and `TerminateInstances`.

use axum::http::StatusCode;

use super::{Answer, FakeState, Form, Machine, element, error, numbered, ok};

pub(super) fn terminate(fake: &mut FakeState, form: &Form) -> Answer {
    let mut changes = String::new();
    for id in numbered(form, "InstanceId") {
        let Some(machine) = fake.machines.get_mut(id) else { return not_found(id) };
        let before = machine.state;
        machine.state = if before == "terminated" { before } else { "shutting-down" };
        let states = state("currentState", machine.state) + &state("previousState", before);
        changes += &element("item", &(element("instanceId", id) + &states));
    }
    ok("TerminateInstances", &element("instancesSet", &changes))
}

pub(super) fn describe(fake: &FakeState, form: &Form) -> Answer {
    let ids = numbered(form, "InstanceId");
    if let Some(unknown) = ids.iter().find(|id| !fake.machines.contains_key(**id)) {
        return not_found(unknown);
    }
    let first: usize = form.get("NextToken").map_or(0, |token| token.parse().unwrap());
    if first > 0 && fake.second_page_fails {
        return error(StatusCode::SERVICE_UNAVAILABLE, "RequestLimitExceeded", "Request limit exceeded.");
    }
    let wanted =
        |(id, machine): &(&String, &Machine)| (ids.is_empty() || ids.contains(&id.as_str())) && passes(machine, form);
    let found: Vec<_> = fake.machines.iter().filter(wanted).collect();
    let page = fake.page.unwrap_or(usize::MAX);
    let shown: String = found.iter().skip(first).take(page).map(|(id, machine)| reservation(id, machine)).collect();
    let last = first.saturating_add(page);
    let next = if last < found.len() { element("nextToken", &last.to_string()) } else { String::new() };
    ok("DescribeInstances", &(element("reservationSet", &shown) + &next))
}

fn not_found(id: &str) -> Answer {
    error(StatusCode::BAD_REQUEST, "InvalidInstanceID.NotFound", &format!("The instance ID '{id}' does not exist"))
}

/// Whether a machine passes every filter of the call.
fn passes(machine: &Machine, form: &Form) -> bool {
    let filter = |number: usize| {
        let name = form.get(&format!("Filter.{number}.Name"))?;
        Some((name.as_str(), numbered(form, &format!("Filter.{number}.Value"))))
    };
    (1..).map_while(filter).all(|(name, values)| match name.strip_prefix("tag:") {
        Some(key) => machine.tags.get(key).is_some_and(|value| values.contains(&value.as_str())),
        None => name == "instance-state-name" && values.contains(&machine.state),
    })
}

fn reservation(id: &str, machine: &Machine) -> String {
    let tag = |(key, value): (&String, &String)| element("item", &(element("key", key) + &element("value", value)));
    let instance = [
        element("instanceId", id),
        element("instanceType", &machine.instance_type),
        state("instanceState", machine.state),
        element("placement", &element("availabilityZone", &machine.zone)),
        element("launchTime", "2026-01-02T03:04:05.000Z"),
        if machine.spot { element("instanceLifecycle", "spot") } else { String::new() },
        element("tagSet", &machine.tags.iter().map(tag).collect::<String>()),
    ];
    element("item", &element("instancesSet", &element("item", &instance.concat())))
}

fn state(element_name: &str, name: &str) -> String {
    element(element_name, &element("name", name))
}
