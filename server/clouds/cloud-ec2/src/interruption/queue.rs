//! The SQS queue that receives the events of the account and region.
//!
//! A message is received at least once, and again after the visibility timeout unless it has been deleted. It must
//! be deleted only after what it says is recorded.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, MessageSystemAttributeName};
use model::Timestamp;

use super::message::{Message, Reception, parse};
use crate::call_error::CallError;

/// Messages of one receive and of one deletion (SQS: at most ten).
pub const MESSAGES_AT_ONCE: usize = 10;

/// How long a received message is hidden from other receivers. A spot instance ends two minutes after its notice, and
/// the notice of a receiver that crashed waits for this; a store that takes longer for a record only gets it twice.
const VISIBILITY: Duration = Duration::from_secs(10);

/// The longest wait of a receive for the first message (SQS).
pub const LONGEST_WAIT: Duration = Duration::from_secs(20);

const GET_URL: &str = "sqs:GetQueueUrl";
const RECEIVE: &str = "sqs:ReceiveMessage";
const DELETE: &str = "sqs:DeleteMessage";

/// Codes for a queue that does not exist, of the JSON protocol and of the query protocol.
const MISSING: [&str; 2] = ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"];

/// Why the queue cannot be used. Its text is one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueError {
    queue: String,
    call: CallError,
}

impl QueueError {
    /// Reason of a condition, in CamelCase. It is the same while the cause is.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        if self.is_missing() { "QueueMissing" } else { self.call.reason() }
    }

    fn is_missing(&self) -> bool {
        is_missing(self.call.code())
    }
}

/// Whether this is a code for a queue that does not exist.
pub(super) fn is_missing(code: &str) -> bool {
    MISSING.contains(&code)
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, call } = self;
        if self.is_missing() {
            return write!(
                f,
                "the queue {queue} does not exist in this account and region: create it with `fleetwright ec2 setup`, or correct \
                 interruption.queue"
            );
        }
        write!(f, "queue {queue}: {call}")
    }
}

impl std::error::Error for QueueError {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// By which this delivery is deleted.
    receipt: String,
    pub message: Message,
}

/// The queue. Calls may be made at the same time.
#[derive(Debug)]
pub struct Queue {
    client: Client,
    name: String,
    region: String,
    clock: fn() -> Timestamp,
    /// Address of the queue, once it was found.
    url: Mutex<Option<String>>,
}

impl Queue {
    pub(crate) fn new(client: Client, name: &str, region: &str, clock: fn() -> Timestamp) -> Self {
        Self { client, name: name.to_owned(), region: region.to_owned(), clock, url: Mutex::default() }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives up to [`MESSAGES_AT_ONCE`] messages. Waits up to `wait` for the first one.
    ///
    /// # Errors
    /// The queue does not exist, a right is missing, or SQS gives no usable answer.
    pub async fn receive(&self, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let url = self.url().await?;
        let call = self
            .client
            .receive_message()
            .queue_url(&url)
            .max_number_of_messages(count(MESSAGES_AT_ONCE as u64))
            .visibility_timeout(count(VISIBILITY.as_secs()))
            .wait_time_seconds(count(wait.min(LONGEST_WAIT).as_secs()))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
        let answer = call.send().await.map_err(|error| self.failed(CallError::read(RECEIVE, &error)))?;
        let messages = answer.messages.unwrap_or_default();
        Ok(messages.iter().filter_map(|message| self.delivery(message, account_of(&url))).collect())
    }

    /// Deletes these deliveries. Returns how many SQS has deleted; it delivers the others again.
    ///
    /// # Errors
    /// As [`Queue::receive`]. Deliveries of earlier calls are deleted.
    pub async fn delete(&self, deliveries: &[Delivery]) -> Result<usize, QueueError> {
        let url = self.url().await?;
        let mut deleted = 0;
        for batch in deliveries.chunks(MESSAGES_AT_ONCE) {
            let entries = batch.iter().enumerate().filter_map(|(number, delivery)| {
                let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
                entry.receipt_handle(&delivery.receipt).build().ok()
            });
            let call = self.client.delete_message_batch().queue_url(&url).set_entries(Some(entries.collect()));
            let answer = call.send().await.map_err(|error| self.failed(CallError::read(DELETE, &error)))?;
            deleted += answer.successful().len();
        }
        Ok(deleted)
    }

    /// A message without a receipt cannot be deleted, and is delivered again.
    fn delivery(&self, message: &aws_sdk_sqs::types::Message, account: Option<&str>) -> Option<Delivery> {
        let sent = message.attributes().and_then(|all| all.get(&MessageSystemAttributeName::SentTimestamp));
        let queued = Timestamp::from_millis(sent.and_then(|millis| millis.parse().ok()).unwrap_or_default());
        let receipt = message.receipt_handle()?.to_owned();
        let received = Reception { account, region: &self.region, queued, now: (self.clock)() };
        Some(Delivery { receipt, message: parse(message.body().unwrap_or_default(), &received) })
    }

    async fn url(&self) -> Result<String, QueueError> {
        let known = self.known_url().clone();
        if let Some(url) = known {
            return Ok(url);
        }
        let answer = self.client.get_queue_url().queue_name(&self.name).send().await;
        let answer = answer.map_err(|error| self.failed(CallError::read(GET_URL, &error)))?;
        let url = answer.queue_url().unwrap_or_default().to_owned();
        *self.known_url() = Some(url.clone());
        Ok(url)
    }

    fn known_url(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.url.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, call: CallError) -> QueueError {
        let error = QueueError { queue: self.name.clone(), call };
        if error.is_missing() {
            // A queue that is created again has its address looked up.
            *self.known_url() = None;
        }
        error
    }
}

/// Number of the account in the address of a queue, `https://sqs.<region>.amazonaws.com/<account>/<name>`.
fn account_of(url: &str) -> Option<&str> {
    let account = url.rsplit('/').nth(1)?;
    let is_number = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(account)
}

fn count(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
