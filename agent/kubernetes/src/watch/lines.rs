//! The lines of a watch: bytes as they arrive in, words of the API server out.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

/// No object of the API is larger than 3 MiB (etcd holds 1.5 MiB, and JSON is longer than what it holds).
const LONGEST: usize = 8 * 1024 * 1024;

/// What a line says about its object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It is there.
    Added,
    /// It is gone.
    Deleted,
    /// There is none: the watch stands here.
    Bookmark { version: String, end_of_initial: bool },
    /// It is a `Status` that says what went wrong.
    Error,
}

/// One line.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) line: Line,
    pub(super) object: Box<str>,
}

impl Word {
    /// The resource version up to which everything is known after this line.
    pub(super) fn version(&self) -> String {
        match &self.line {
            Line::Bookmark { version, .. } => version.clone(),
            _ => head(&self.object).version,
        }
    }
}

/// What names an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) version: String,
}

pub(super) fn head(object: &str) -> Head {
    let Ok(HeadJson { metadata }) = serde_json::from_str(object) else { return Head::default() };
    Head { namespace: metadata.namespace, name: metadata.name, version: metadata.resource_version }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("a line of more than {LONGEST} bytes")]
    TooLong,
    #[error("a line that is no event: {0}")]
    NoEvent(serde_json::Error),
}

/// Cuts a stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that `data` completes.
    pub(super) fn feed(&mut self, data: &[u8]) -> Result<VecDeque<Word>, LineError> {
        let mut words = VecDeque::new();
        let mut pieces = data.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.rest.len() + piece.len() > LONGEST {
                return Err(LineError::TooLong);
            }
            if pieces.peek().is_none() {
                self.rest.extend_from_slice(piece);
            } else if self.rest.is_empty() {
                words.extend(word(piece)?);
            } else {
                self.rest.extend_from_slice(piece);
                words.extend(word(&self.rest)?);
                // A line that was long is no reason to keep its room.
                self.rest = Vec::new();
            }
        }
        Ok(words)
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
struct HeadJson {
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

fn word(line: &[u8]) -> Result<Option<Word>, LineError> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let event: EventJson<'_> = serde_json::from_slice(line).map_err(LineError::NoEvent)?;
    let object = event.object.get();
    let line = match event.r#type {
        "ADDED" | "MODIFIED" => Line::Added,
        "DELETED" => Line::Deleted,
        "BOOKMARK" => {
            let HeadJson { metadata } = serde_json::from_str(object).map_err(LineError::NoEvent)?;
            let end_of_initial = metadata.annotations.initial_events_end == "true";
            Line::Bookmark { version: metadata.resource_version, end_of_initial }
        }
        _ => Line::Error,
    };
    Ok(Some(Word { line, object: object.into() }))
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
            let mut lines = Lines::default();
            let mut words = lines.feed(&text.as_bytes()[..cut]).unwrap();
            words.extend(lines.feed(&text.as_bytes()[cut..]).unwrap());
            assert_eq!(words.len(), 2, "cut at {cut}");
            assert_eq!(words[0].line, Line::Added);
            assert_eq!(head(&words[0].object), Head { namespace: "n".into(), name: "a".into(), version: "7".into() });
            assert_eq!(words[1].line, Line::Bookmark { version: "9".into(), end_of_initial: true });
        }
    }

    #[test]
    fn a_line_that_never_ends_is_not_kept() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1024 * 1024];
        let fed: Result<Vec<_>, _> = (0..9).map(|_| lines.feed(&piece)).collect();
        assert!(matches!(fed, Err(LineError::TooLong)));
    }

    #[test]
    fn an_error_is_told_as_one() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        let words = Lines::default().feed(format!("{line}\n").as_bytes()).unwrap();
        assert_eq!(words[0].line, Line::Error);
    }
}
