//! The JSON of the latest messages. Clients that watch or poll the same get equal messages at nearly the same time; each is
//! decoded and printed once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use field_mask::FieldMask;
use prost::bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;

use crate::{json, partial};

/// Messages that are kept: those of a few different watches of one moment.
const MESSAGES: usize = 16;

/// The shortest message that is kept, in bytes: a shorter one is printed in the time that it takes to find it.
const MIN_BYTES: usize = 1024;

/// The longest message that is kept, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

struct Entry {
    descriptor: MessageDescriptor,
    /// Every dashboard asks for the same fields.
    mask: Option<FieldMask>,
    message: Bytes,
    json: Bytes,
}

/// Encoded messages with their JSON, the latest last.
#[derive(Default)]
pub(crate) struct JsonCache {
    entries: Mutex<VecDeque<Entry>>,
}

impl JsonCache {
    /// The canonical JSON of an encoded message, or of the fields that a mask names.
    ///
    /// # Errors
    /// `INTERNAL` if the bytes are no message of this type, or it has no JSON.
    pub(crate) fn print(
        &self,
        descriptor: &MessageDescriptor,
        message: Bytes,
        mask: Option<&FieldMask>,
    ) -> Result<Bytes, Status> {
        if !(MIN_BYTES..=MAX_BYTES).contains(&message.len()) {
            return print(descriptor, message, mask);
        }
        // Held while the message is printed: others that wait for the same one would print it too.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |entry: &&Entry| entry.message == message && entry.mask.as_ref() == mask && entry.descriptor == *descriptor;
        if let Some(entry) = entries.iter().find(is_same) {
            return Ok(entry.json.clone());
        }
        let json = print(descriptor, message.clone(), mask)?;
        if entries.len() == MESSAGES {
            entries.pop_front();
        }
        let mask = mask.cloned();
        entries.push_back(Entry { descriptor: descriptor.clone(), mask, message, json: json.clone() });
        Ok(json)
    }
}

fn print(descriptor: &MessageDescriptor, message: Bytes, mask: Option<&FieldMask>) -> Result<Bytes, Status> {
    let name = descriptor.full_name();
    let decoded = DynamicMessage::decode(descriptor.clone(), message)
        .map_err(|error| Status::internal(format!("the message is not a {name}: {error}")))?;
    let json = match mask {
        Some(mask) => partial::print(&decoded, mask),
        None => json::print(&decoded),
    };
    let json = json.map_err(|error| Status::internal(format!("a message has no JSON: {error}")))?;
    Ok(json.into())
}
