//! Decodes the event stream of a watch: bytes in, [`WatchEvent`]s out.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

/// No object of the API is larger than 3 MiB (etcd holds 1.5 MiB, and JSON is longer than what it
/// holds).
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The object was added or modified.
    Added,
    Deleted,
    /// No object: the watch has reached this resource version.
    Bookmark {
        version: String,
        end_of_initial: bool,
    },
    /// A `Status` with the error.
    Error,
}

/// One line of a watch, decoded.
#[derive(Debug)]
pub(super) struct WatchEvent {
    pub(super) kind: EventKind,
    pub(super) object: Box<str>,
}

impl WatchEvent {
    /// The resource version that the watch has reached with this line.
    pub(super) fn version(&self) -> String {
        match &self.kind {
            EventKind::Bookmark { version, .. } => version.clone(),
            _ => object_name(&self.object).version,
        }
    }
}

/// Namespace, name and version of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectName {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) version: String,
}

pub(super) fn object_name(object: &str) -> ObjectName {
    let Ok(ObjectJson { metadata }) = serde_json::from_str(object) else { return ObjectName::default() };
    ObjectName { namespace: metadata.namespace, name: metadata.name, version: metadata.resource_version }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("the response has a line of more than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("the response has a line that is no watch event: {0}")]
    InvalidEvent(serde_json::Error),
}

#[derive(Debug, Default)]
pub(super) struct EventDecoder {
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
}

impl EventDecoder {
    /// The lines that `data` completes.
    pub(super) fn decode(&mut self, data: &[u8]) -> Result<VecDeque<WatchEvent>, DecodeError> {
        let mut events = VecDeque::new();
        let mut pieces = data.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.rest.len() + piece.len() > MAX_LINE_BYTES {
                return Err(DecodeError::TooLong);
            }
            if pieces.peek().is_none() {
                self.rest.extend_from_slice(piece);
            } else if self.rest.is_empty() {
                events.extend(decode_line(piece)?);
            } else {
                self.rest.extend_from_slice(piece);
                events.extend(decode_line(&self.rest)?);
                // Releases the capacity of a long line.
                self.rest = Vec::new();
            }
        }
        Ok(events)
    }
}

#[derive(Deserialize)]
struct EventJson<'e> {
    r#type: &'e str,
    #[serde(borrow)]
    object: &'e RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectJson {
    metadata: MetaJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetaJson {
    namespace: String,
    name: String,
    resource_version: String,
    annotations: AnnotationsJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotationsJson {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: String,
}

fn decode_line(line: &[u8]) -> Result<Option<WatchEvent>, DecodeError> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let event: EventJson<'_> = serde_json::from_slice(line).map_err(DecodeError::InvalidEvent)?;
    let object = event.object.get();
    let line = match event.r#type {
        "ADDED" | "MODIFIED" => EventKind::Added,
        "DELETED" => EventKind::Deleted,
        "BOOKMARK" => {
            let ObjectJson { metadata } = serde_json::from_str(object).map_err(DecodeError::InvalidEvent)?;
            let end_of_initial = metadata.annotations.initial_events_end == "true";
            EventKind::Bookmark { version: metadata.resource_version, end_of_initial }
        }
        _ => EventKind::Error,
    };
    Ok(Some(WatchEvent { kind: line, object: object.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDED: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}}"#;
    const END: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

    #[test]
    fn lines_are_whole_however_the_bytes_arrive() {
        let text = format!("{ADDED}\n{END}\n");
        for cut in 1..text.len() {
            let mut decoder = EventDecoder::default();
            let mut events = decoder.decode(&text.as_bytes()[..cut]).unwrap();
            events.extend(decoder.decode(&text.as_bytes()[cut..]).unwrap());
            assert_eq!(events.len(), 2, "cut at {cut}");
            assert_eq!(events[0].kind, EventKind::Added);
            assert_eq!(
                object_name(&events[0].object),
                ObjectName { namespace: "n".into(), name: "a".into(), version: "7".into() }
            );
            assert_eq!(events[1].kind, EventKind::Bookmark { version: "9".into(), end_of_initial: true });
        }
    }

    #[test]
    fn a_line_that_never_ends_is_not_kept() {
        let mut decoder = EventDecoder::default();
        let piece = vec![b'x'; 1024 * 1024];
        let fed: Result<Vec<_>, _> = (0..9).map(|_| decoder.decode(&piece)).collect();
        assert!(matches!(fed, Err(DecodeError::TooLong)));
    }

    #[test]
    fn an_error_event_is_decoded_as_an_error() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        let events = EventDecoder::default().decode(format!("{line}\n").as_bytes()).unwrap();
        assert_eq!(events[0].kind, EventKind::Error);
    }
}
