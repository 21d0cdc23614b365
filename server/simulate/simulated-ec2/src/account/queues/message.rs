//! Messages of a queue, and the receipts by which they are deleted.

use model::Timestamp;
use serde_json::{Value, json};

use crate::api_error::ApiError;

#[derive(Debug, Clone)]
pub(super) struct Message {
    id: String,
    body: String,
    pub(super) sent: Timestamp,
    /// When it can be received, or received again.
    pub(super) visible: Timestamp,
    first_received: Option<Timestamp>,
    received: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Receipt {
    pub(super) number: u64,
    received: u64,
}

impl Receipt {
    /// Reads a receipt handle.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid`.
    pub(super) fn read(handle: &Value) -> Result<Self, ApiError> {
        let read = || {
            let (number, received) = handle.as_str()?.strip_prefix("receipt-")?.split_once('-')?;
            Some(Self { number: number.parse().ok()?, received: received.parse().ok()? })
        };
        read().ok_or_else(|| ApiError::new("ReceiptHandleIsInvalid", "The input receipt handle is invalid."))
    }
}

impl Message {
    pub(super) fn new(number: u64, body: &str, sent: Timestamp, visible: Timestamp) -> Self {
        let id = format!("00000000-0000-4000-9000-{number:012}");
        Self { id, body: body.to_owned(), sent, visible, first_received: None, received: 0 }
    }

    /// Hands message `number` out until `visible`.
    pub(super) fn receive(&mut self, number: u64, now: Timestamp, visible: Timestamp) -> Value {
        self.received += 1;
        self.visible = visible;
        let first = *self.first_received.get_or_insert(now);
        json!({
            "MessageId": self.id,
            "ReceiptHandle": format!("receipt-{number}-{}", self.received),
            "Body": self.body,
            "Attributes": {
                "SentTimestamp": self.sent.as_millis().to_string(),
                "ApproximateReceiveCount": self.received.to_string(),
                "ApproximateFirstReceiveTimestamp": first.as_millis().to_string(),
            },
        })
    }

    /// Whether `receipt` is of the last time that the message was received.
    pub(super) fn is_newest(&self, receipt: Receipt) -> bool {
        self.received == receipt.received
    }
}
