//! `CreateLaunchTemplate` and `DeleteLaunchTemplate`.

use axum::http::StatusCode;

use super::{Answer, FakeState, Form, element, error, ok};

pub(super) fn answer(fake: &mut FakeState, form: &Form) -> Answer {
    fake.template_calls.push(form.clone());
    let (action, name) = (form["Action"].as_str(), form["LaunchTemplateName"].clone());
    let exists = fake.templates.contains_key(&name);
    let refused = |code: &str| error(StatusCode::BAD_REQUEST, &format!("InvalidLaunchTemplateName.{code}"), &name);
    match action {
        "CreateLaunchTemplate" if exists => return refused("AlreadyExistsException"),
        "CreateLaunchTemplate" => drop(fake.templates.insert(name.clone(), form.clone())),
        "DeleteLaunchTemplate" if exists => drop(fake.templates.remove(&name)),
        _ => return refused("NotFoundException"),
    }
    ok(action, &element("launchTemplate", &element("launchTemplateName", &name)))
}
