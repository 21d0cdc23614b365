//! EventBridge: rules of the default bus, and the queues that they send events to.

mod pattern;

use std::collections::BTreeMap;

use model::{Millis, Timestamp};
use serde_json::{Value, json};

use super::queues::{Location, Queues};
use crate::api_error::ApiError;
use crate::faults::switchboard::Switchboard;
use crate::query::paging::PageRequest;

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

    /// Answers an action of EventBridge; `None` for one that is not simulated.
    pub(crate) fn answer(
        &mut self,
        action: &str,
        body: &Value,
        limit: Option<usize>,
    ) -> Option<Result<Value, ApiError>> {
        Some(match action {
            "PutRule" => self.put(body),
            "DescribeRule" => self.describe(body),
            "ListRules" => self.list(body, limit),
            "DeleteRule" => self.delete(body),
            "PutTargets" => self.put_targets(body),
            "ListTargetsByRule" => self.list_targets(body, limit),
            "RemoveTargets" => self.remove_targets(body),
            _ => return None,
        })
    }

    /// Sends an event to the queues of all rules that match it. A queue whose policy does not allow it gets none.
    pub(crate) fn publish(&self, event: &Value, queues: &mut Queues, faults: &mut Switchboard, now: Timestamp) {
        let text = event.to_string();
        let matching = self.rules.values().filter(|rule| rule.enabled && pattern::matches(&rule.pattern, event));
        for arn in matching.flat_map(|rule| rule.targets.values()) {
            for delay in faults.next_message() {
                queues.deliver(arn, SERVICE, &text, now, Millis::new(delay));
            }
        }
    }

    fn arn(&self, name: &str) -> String {
        format!("arn:aws:events:{}:{}:rule/{name}", self.location.region, self.location.account)
    }

    fn put(&mut self, body: &Value) -> Result<Value, ApiError> {
        let name = text(body, "Name")?;
        let Some(text) = body["EventPattern"].as_str() else {
            return Err(ApiError::new("ValidationException", "The simulation has rules with an EventPattern only"));
        };
        let pattern = pattern::read(text)?;
        let targets = self.rules.get(name).map(|rule| rule.targets.clone()).unwrap_or_default();
        let enabled = body["State"].as_str() != Some("DISABLED");
        let description = body["Description"].as_str().map(str::to_owned);
        self.rules.insert(name.to_owned(), Rule { pattern, text: text.to_owned(), enabled, description, targets });
        Ok(json!({ "RuleArn": self.arn(name) }))
    }

    fn shown(&self, name: &str, rule: &Rule) -> Value {
        let state = if rule.enabled { "ENABLED" } else { "DISABLED" };
        let mut shown = json!({
            "Name": name,
            "Arn": self.arn(name),
            "EventPattern": rule.text,
            "State": state,
            "EventBusName": "default",
        });
        if let Some(description) = &rule.description {
            shown["Description"] = description.as_str().into();
        }
        shown
    }

    fn describe(&self, body: &Value) -> Result<Value, ApiError> {
        let name = text(body, "Name")?;
        let rule = self.rules.get(name).ok_or_else(|| unknown(name))?;
        Ok(self.shown(name, rule))
    }

    fn list(&self, body: &Value, limit: Option<usize>) -> Result<Value, ApiError> {
        let prefix = body["NamePrefix"].as_str().unwrap_or_default();
        let found = self.rules.iter().filter(|(name, _)| name.starts_with(prefix));
        let (page, token) = page(body, limit)?.take(found, |(name, _)| (*name).clone());
        let rules: Vec<Value> = page.into_iter().map(|(name, rule)| self.shown(name, rule)).collect();
        Ok(with_token(json!({ "Rules": rules }), token))
    }

    fn delete(&mut self, body: &Value) -> Result<Value, ApiError> {
        let name = text(body, "Name")?;
        if self.rules.get(name).is_some_and(|rule| !rule.targets.is_empty()) {
            return Err(ApiError::new("ValidationException", "Rule can't be deleted since it has targets."));
        }
        // A rule that does not exist is deleted without an error, as by EventBridge.
        self.rules.remove(name);
        Ok(json!({}))
    }

    fn find(&mut self, body: &Value) -> Result<&mut Rule, ApiError> {
        let name = text(body, "Rule")?;
        self.rules.get_mut(name).ok_or_else(|| unknown(name))
    }

    fn put_targets(&mut self, body: &Value) -> Result<Value, ApiError> {
        let rule = self.find(body)?;
        let mut targets = rule.targets.clone();
        for target in body["Targets"].as_array().into_iter().flatten() {
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

    fn list_targets(&mut self, body: &Value, limit: Option<usize>) -> Result<Value, ApiError> {
        let page = page(body, limit)?;
        let (targets, token) = page.take(&self.find(body)?.targets, |(id, _)| (*id).clone());
        let targets: Vec<Value> = targets.into_iter().map(|(id, arn)| json!({ "Id": id, "Arn": arn })).collect();
        Ok(with_token(json!({ "Targets": targets }), token))
    }

    fn remove_targets(&mut self, body: &Value) -> Result<Value, ApiError> {
        let rule = self.find(body)?;
        for id in body["Ids"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            rule.targets.remove(id);
        }
        Ok(json!({ "FailedEntryCount": 0, "FailedEntries": [] }))
    }
}

fn text<'b>(body: &'b Value, name: &str) -> Result<&'b str, ApiError> {
    body[name].as_str().ok_or_else(|| ApiError::new("ValidationException", format!("{name} is missing")))
}

fn page(body: &Value, limit: Option<usize>) -> Result<PageRequest, ApiError> {
    let size = body["Limit"].as_u64().and_then(|size| usize::try_from(size).ok());
    PageRequest::new(size, body["NextToken"].as_str(), limit)
        .map_err(|error| ApiError::new("ValidationException", error.message))
}

fn with_token(mut answer: Value, token: Option<String>) -> Value {
    if let Some(token) = token {
        answer["NextToken"] = token.into();
    }
    answer
}

fn unknown(name: &str) -> ApiError {
    let message = format!("Rule {name} does not exist on EventBus default.");
    ApiError { status: 400, ..ApiError::new("ResourceNotFoundException", message) }
}
