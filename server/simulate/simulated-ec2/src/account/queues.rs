//! SQS: standard queues with visibility timeouts.

mod message;

use std::collections::{BTreeMap, BTreeSet};

use model::{Millis, Timestamp};
use serde_json::{Value, json};

use self::message::{Message, Receipt};
use super::context::Context;
use crate::api_error::ApiError;

/// Visibility timeout, retention and wait of a queue without its own, in seconds (API reference: SetQueueAttributes).
const DEFAULTS: [(&str, i64); 4] = [
    ("DelaySeconds", 0),
    ("MessageRetentionPeriod", 345_600),
    ("ReceiveMessageWaitTimeSeconds", 0),
    ("VisibilityTimeout", 30),
];

/// Other attributes that a queue may have.
const OTHERS: [&str; 5] = ["KmsMasterKeyId", "MaximumMessageSize", "Policy", "RedrivePolicy", "SqsManagedSseEnabled"];

/// Maximum number of messages of a call.
const BATCH: usize = 10;

#[derive(Debug, Default)]
struct Queue {
    attributes: BTreeMap<String, String>,
    /// By number, in the order of sending.
    messages: BTreeMap<u64, Message>,
    /// Numbers of messages by the time from which they can be received.
    visible: BTreeSet<(Timestamp, u64)>,
}

impl Queue {
    /// An attribute in seconds.
    fn seconds(&self, name: &str) -> i64 {
        let default = DEFAULTS.iter().find(|(known, _)| *known == name).map_or(0, |(_, seconds)| *seconds);
        self.attributes.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    fn drop_expired(&mut self, now: Timestamp) {
        let retention = Millis::from_secs(self.seconds("MessageRetentionPeriod"));
        while let Some(first) = self.messages.first_entry().filter(|first| now - first.get().sent > retention) {
            let (number, message) = first.remove_entry();
            self.visible.remove(&(message.visible, number));
        }
    }

    /// Messages that can be received at `now`; those that can for longest come first.
    fn due(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, u64)> {
        self.visible.iter().copied().take_while(move |(visible, _)| *visible <= now)
    }

    /// Deletes the message of the newest receipt; an older one deletes nothing, as SQS may do.
    fn remove(&mut self, receipt: Receipt) {
        if let Some(message) = self.messages.get(&receipt.number).filter(|message| message.is_newest(receipt)) {
            self.visible.remove(&(message.visible, receipt.number));
            self.messages.remove(&receipt.number);
        }
    }
}

/// Where the queues of an account are.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) region: String,
    pub(crate) account: String,
}

/// The queues of an account, by name.
#[derive(Debug)]
pub(crate) struct Queues {
    location: Location,
    queues: BTreeMap<String, Queue>,
    sent: u64,
}

impl Queues {
    pub(crate) fn new(location: Location) -> Self {
        Self { location, queues: BTreeMap::new(), sent: 0 }
    }

    /// ARN of the queue `name`.
    fn arn(&self, name: &str) -> String {
        format!("arn:aws:sqs:{}:{}:{name}", self.location.region, self.location.account)
    }

    /// Sends `body` to the queue with this ARN, where it is visible after `delay`, unless there is none, or its policy does not
    /// allow `service` to send.
    pub(crate) fn deliver(&mut self, arn: &str, service: &str, body: &str, now: Timestamp, delay: Millis) {
        let name = arn.rsplit(':').next().unwrap_or_default();
        let is_allowed = |queue: &Queue| queue.attributes.get("Policy").is_some_and(|policy| allows(policy, service));
        if self.arn(name) == arn
            && let Some(queue) = self.queues.get_mut(name).filter(|queue| is_allowed(queue))
        {
            self.sent += 1;
            queue.visible.insert((now + delay, self.sent));
            queue.messages.insert(self.sent, Message::new(self.sent, body, now, now + delay));
        }
    }

    fn url(&self, name: &str, host: &str) -> String {
        format!("http://{host}/{}/{name}", self.location.account)
    }

    /// The queue that `QueueUrl` names.
    fn find(&mut self, call: &Context<'_>) -> Result<(&mut Queue, String), ApiError> {
        let url = call.required("QueueUrl")?;
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        let queue = self.queues.get_mut(&name).ok_or_else(unknown_queue)?;
        queue.drop_expired(call.now);
        Ok((queue, name))
    }

    pub(crate) fn create(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let name = call.required("QueueName")?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !(1..=80).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err(invalid(
                "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
            ));
        }
        let attributes = read_attributes(&call.body["Attributes"])?;
        if let Some(queue) = self.queues.get(name) {
            let differs = attributes.iter().any(|(key, value)| queue.attributes.get(key) != Some(value));
            if differs {
                let message = "A queue already exists with the same name and a different value for an attribute";
                return Err(ApiError::new("QueueNameExists", message));
            }
        }
        self.queues.entry(name.to_owned()).or_insert_with(|| Queue { attributes, ..Queue::default() });
        Ok(json!({ "QueueUrl": self.url(name, call.host) }))
    }

    pub(crate) fn url_of(&self, call: &Context<'_>) -> Result<Value, ApiError> {
        let name = call.required("QueueName")?;
        self.queues.get(name).map(|_| json!({ "QueueUrl": self.url(name, call.host) })).ok_or_else(unknown_queue)
    }

    pub(crate) fn attributes(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let now = call.now;
        let (queue, name) = self.find(call)?;
        let mut all = queue.attributes.clone();
        for (attribute, _) in DEFAULTS {
            all.insert(attribute.to_owned(), queue.seconds(attribute).to_string());
        }
        let visible = queue.due(now).count();
        all.insert("ApproximateNumberOfMessages".to_owned(), visible.to_string());
        all.insert("ApproximateNumberOfMessagesNotVisible".to_owned(), (queue.messages.len() - visible).to_string());
        all.insert("QueueArn".to_owned(), self.arn(&name));
        let wanted: Vec<&str> = call.items("AttributeNames").filter_map(Value::as_str).collect();
        all.retain(|attribute, _| wanted.contains(&"All") || wanted.contains(&attribute.as_str()));
        Ok(json!({ "Attributes": all }))
    }

    pub(crate) fn set_attributes(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let attributes = read_attributes(&call.body["Attributes"])?;
        self.find(call)?.0.attributes.extend(attributes);
        Ok(json!({}))
    }

    pub(crate) fn delete(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let (_, name) = self.find(call)?;
        self.queues.remove(&name);
        Ok(json!({}))
    }

    pub(crate) fn receive(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let (queue, _) = self.find(call)?;
        let most = number(call.body, "MaxNumberOfMessages", (1, 10))?.unwrap_or(1);
        let timeout = number(call.body, "VisibilityTimeout", (0, 43_200))?;
        let timeout = Millis::from_secs(timeout.unwrap_or_else(|| queue.seconds("VisibilityTimeout")));
        number(call.body, "WaitTimeSeconds", (0, 20))?;
        let due: Vec<(Timestamp, u64)> = queue.due(call.now).take(usize::try_from(most).unwrap_or(BATCH)).collect();
        let mut received = Vec::new();
        for (visible, number) in due {
            if let Some(message) = queue.messages.get_mut(&number) {
                queue.visible.remove(&(visible, number));
                queue.visible.insert((call.now + timeout, number));
                received.push(message.receive(number, call.now, call.now + timeout));
            }
        }
        if received.is_empty() { Ok(json!({})) } else { Ok(json!({ "Messages": received })) }
    }

    pub(crate) fn delete_batch(&mut self, call: &Context<'_>) -> Result<Value, ApiError> {
        let (queue, _) = self.find(call)?;
        let entries: Vec<&Value> = call.items("Entries").collect();
        if entries.is_empty() || entries.len() > BATCH {
            let code = if entries.is_empty() { "EmptyBatchRequest" } else { "TooManyEntriesInBatchRequest" };
            return Err(ApiError::new(code, format!("{} entries, where 1 to {BATCH} are allowed", entries.len())));
        }
        let ids: BTreeSet<&str> = entries.iter().filter_map(|entry| entry["Id"].as_str()).collect();
        if ids.len() < entries.len() {
            return Err(ApiError::new("BatchEntryIdsNotDistinct", "Two or more batch entries have the same Id"));
        }
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for entry in entries {
            match Receipt::read(&entry["ReceiptHandle"]) {
                Ok(receipt) => {
                    queue.remove(receipt);
                    successful.push(json!({ "Id": entry["Id"] }));
                }
                Err(error) => failed.push(
                    json!({ "Id": entry["Id"], "Code": error.code, "Message": error.message, "SenderFault": true }),
                ),
            }
        }
        Ok(json!({ "Successful": successful, "Failed": failed }))
    }
}

fn read_attributes(attributes: &Value) -> Result<BTreeMap<String, String>, ApiError> {
    let mut read = BTreeMap::new();
    for (name, value) in attributes.as_object().into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| invalid(&format!("The attribute {name} is not a string")))?;
        let is_number = DEFAULTS.iter().any(|(known, _)| known == name);
        if is_number && value.parse::<i64>().is_err()
            || name == "Policy" && serde_json::from_str::<Value>(value).is_err()
        {
            return Err(ApiError::new("InvalidAttributeValue", format!("Invalid value for the parameter {name}.")));
        }
        if !is_number && !OTHERS.contains(&name.as_str()) {
            return Err(ApiError::new("InvalidAttributeName", format!("Unknown Attribute {name}.")));
        }
        read.insert(name.clone(), value.to_owned());
    }
    Ok(read)
}

/// Whether a queue policy allows `service` to send messages. Conditions are not evaluated.
fn allows(policy: &str, service: &str) -> bool {
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return false };
    let has = |value: &Value, wanted: &[&str]| match value {
        Value::String(text) => wanted.contains(&text.as_str()),
        Value::Array(items) => items.iter().filter_map(Value::as_str).any(|text| wanted.contains(&text)),
        _ => false,
    };
    let actions = ["sqs:SendMessage", "SQS:SendMessage", "sqs:*", "*"];
    policy["Statement"].as_array().into_iter().flatten().any(|statement| {
        statement["Effect"] == "Allow"
            && has(&statement["Principal"]["Service"], &[service])
            && has(&statement["Action"], &actions)
    })
}

fn number(body: &Value, name: &str, (least, most): (i64, i64)) -> Result<Option<i64>, ApiError> {
    match body[name].as_i64() {
        Some(number) if !(least..=most).contains(&number) => {
            let message =
                format!("Value {number} for parameter {name} is invalid. Reason: Must be between {least} and {most}.");
            Err(ApiError::new("InvalidParameterValue", message))
        }
        found => Ok(found),
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::new("InvalidParameterValue", message)
}

fn unknown_queue() -> ApiError {
    ApiError::new("QueueDoesNotExist", "The specified queue does not exist.")
}
