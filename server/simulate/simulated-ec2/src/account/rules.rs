//! EventBridge: rules of the default bus, and the queues that they send events to.

mod pattern;

use std::collections::BTreeMap;

use model::{Millis, Timestamp};
use serde_json::{Value, json};

use super::context::Context;
use super::queues::{Location, Queues};
use crate::api_error::ApiError;
use crate::faults::switchboard::Switchboard;

/// Maximum number of targets of a rule (EventBridge: quotas).
const MAX_TARGETS: usize = 5;

/// The principal that sends events to queues.
const SERVICE: &str = "events.amazonaws.com";

#[derive(Debug, Clone)]
struct Rule {
    pattern: Value,
    text: String,
    enabled: bool,
    description: Option<String>,
    /// ARN by id.
    targets: BTreeMap<String, String>,
}

/// The rules of an account, by name.
#[derive(Debug)]
pub(crate) struct Rules {
    location: Location,
    rules: BTreeMap<String, Rule>,
}

impl Rules {
    pub(crate) fn new(location: Location) -> Self {
        Self { location, rules: BTreeMap::new() }
    }

    /// Sends an event to the queues of all rules that match it. A queue whose policy does not allow it gets none.
    pub(crate) fn publish(&self, event: &Value, queues: &mut Queues, faults: &mut Switchboard, now: Timestamp) {
        let matching = self.rules.values().filter(|rule| rule.enabled && pattern::matches(&rule.pattern, event));
        let targets: Vec<&String> = matching.flat_map(|rule| rule.targets.values()).collect();
        if targets.is_empty() {
            return;
        }
        let text = event.to_string();
        for arn in targets {
            for delay in faults.delays_of_next_message() {
                queues.deliver(arn, SERVICE, &text, now, Millis::new(delay));
            }
        }
    }

    fn arn(&self, name: &str) -> String {
        format!("arn:aws:events:{}:{}:rule/{name}", self.location.region, self.location.account)
    }

    pub(crate) fn put(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let (name, text) = (call.required("Name")?, call.required("EventPattern")?);
        let pattern = pattern::read(text)?;
        let targets = self.rules.get(name).map(|rule| rule.targets.clone()).unwrap_or_default();
        let enabled = call.parameters.get("State") != Some("DISABLED");
        let description = call.parameters.get("Description").map(str::to_owned);
        self.rules.insert(name.to_owned(), Rule { pattern, text: text.to_owned(), enabled, description, targets });
        Ok(json!({ "RuleArn": self.arn(name) }))
    }

    pub(crate) fn describe(&self, call: &Context<'_>) -> Result<Value, ApiError> {
        let name = call.required("Name")?;
        let rule = self.rules.get(name).ok_or_else(|| unknown(name))?;
        let mut shown = json!({
            "Name": name,
            "Arn": self.arn(name),
            "EventPattern": rule.text,
            "State": if rule.enabled { "ENABLED" } else { "DISABLED" },
            "EventBusName": "default",
        });
        if let Some(description) = &rule.description {
            shown["Description"] = description.as_str().into();
        }
        Ok(shown)
    }

    pub(crate) fn delete(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let name = call.required("Name")?;
        if self.rules.get(name).is_some_and(|rule| !rule.targets.is_empty()) {
            return Err(ApiError::new("ValidationException", "Rule can't be deleted since it has targets."));
        }
        // A rule that does not exist is deleted without an error, as by EventBridge.
        self.rules.remove(name);
        Ok(json!({}))
    }

    fn find(&mut self, call: &Context<'_>) -> Result<&mut Rule, ApiError> {
        let name = call.required("Rule")?;
        self.rules.get_mut(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn put_targets(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let rule = self.find(call)?;
        let mut targets = rule.targets.clone();
        for target in call.items("Targets") {
            let (id, arn) = (text(target, "Id")?, text(target, "Arn")?);
            if !arn.starts_with("arn:aws:sqs:") {
                return Err(ApiError::new("ValidationException", "The simulation has SQS queues as targets only"));
            }
            targets.insert(id.to_owned(), arn.to_owned());
        }
        if targets.len() > MAX_TARGETS {
            let message = format!("The requested resource exceeds the maximum number allowed: {MAX_TARGETS} targets");
            return Err(ApiError::new("LimitExceededException", message));
        }
        rule.targets = targets;
        Ok(json!({ "FailedEntryCount": 0, "FailedEntries": [] }))
    }

    /// Targets of a rule, of which there are fewer than a page has.
    pub(crate) fn list_targets(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let targets = self.find(call)?.targets.iter().map(|(id, arn)| json!({ "Id": id, "Arn": arn }));
        Ok(json!({ "Targets": targets.collect::<Vec<_>>() }))
    }

    pub(crate) fn remove_targets(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let rule = self.find(call)?;
        for id in call.items("Ids").filter_map(Value::as_str) {
            rule.targets.remove(id);
        }
        Ok(json!({ "FailedEntryCount": 0, "FailedEntries": [] }))
    }
}

fn text<'b>(body: &'b Value, name: &str) -> Result<&'b str, ApiError> {
    body[name].as_str().ok_or_else(|| ApiError::new("ValidationException", format!("{name} is missing")))
}

fn unknown(name: &str) -> ApiError {
    let message = format!("Rule {name} does not exist on EventBus default.");
    ApiError { status: 400, ..ApiError::new("ResourceNotFoundException", message) }
}
