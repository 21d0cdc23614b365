//! Splits a source into documents and examines the beginning of each.

use serde::de::IgnoredAny;

/// A part of a source between document markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'s> {
    /// The line of the source on which `text` begins, from 1.
    pub line: usize,
    /// The text, markers excluded.
    pub text: &'s str,
}

impl<'s> Chunk<'s> {
    /// The first line with content, and its number; `None` when the chunk has only blank lines,
    /// comments and directives.
    pub fn first_line(&self) -> Option<(usize, &'s str)> {
        let content = |line: &str| !line.is_empty() && !line.starts_with(['#', '%']);
        self.text.lines().enumerate().map(|(at, line)| (self.line + at, line.trim())).find(|(_, line)| content(line))
    }
}

/// The chunks of `text` between lines that begin with `---` or `...`. YAML allows such lines only
/// as markers, and JSON has none. An iterator, because invalid input may have millions of chunks.
pub fn chunks(text: &str) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = Some(Chunk { line: 1, text });
    std::iter::from_fn(move || {
        let chunk = rest.take()?;
        let Some((at, lines)) = marker(chunk.text) else { return Some(chunk) };
        rest = Some(Chunk { line: chunk.line + lines, text: &chunk.text[at + MARKER..] });
        Some(Chunk { line: chunk.line, text: &chunk.text[..at] })
    })
}

/// Length of a marker, in bytes.
const MARKER: usize = 3;

/// Offset of the first marker of `text`, and the number of line breaks before it. A chunk after a
/// marker begins in the middle of a line.
fn marker(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) {
            return Some((at, number));
        }
        at += line.len();
    }
    None
}

/// The consecutive values of a chunk of JSON, each as a chunk; if the rest is invalid, its error
/// comes last. One pass over the text finds the ends of the values.
pub fn json_values<'s>(chunk: &Chunk<'s>) -> impl Iterator<Item = Result<Chunk<'s>, String>> + use<'s> {
    let (text, first_line) = (chunk.text, chunk.line);
    let whole = *chunk;
    let mut scan = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut line = first_line;
    std::iter::from_fn(move || {
        let start = scan.byte_offset();
        let scanned = scan.next()?;
        let piece = &text[start..scan.byte_offset()];
        let found = Chunk { line, text: piece };
        line += piece.bytes().filter(|byte| *byte == b'\n').count();
        Some(scanned.map(|_| found).map_err(|error| json_message(&error, &whole)))
    })
}

/// The error with its position in the source.
pub fn json_message(error: &serde_json::Error, chunk: &Chunk<'_>) -> String {
    let line = chunk.line + error.line().saturating_sub(1);
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("line {line}, column {}: not valid JSON: {text}", error.column())
}

fn is_marker(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// The reason why a document with this first line cannot be a Kubernetes object. It is evaluated
/// before any parser runs, so that the time to reject invalid input does not depend on its size.
pub fn not_an_object(first: &str) -> Option<String> {
    let head = first.get(..first.len().min(4096)).unwrap_or(first);
    if head.contains("{{") {
        return Some(format!("a template, not a manifest: {}; render it first (helm template)", shorten(head)));
    }
    if head.starts_with(['[', '-']) {
        return Some("found a list; write the objects as documents, or as items of kind: List".to_owned());
    }
    let control = head.chars().any(|c| c.is_control() && c != '\t');
    if control || !(head.contains(':') || head.starts_with(['{', '?', '&', '!', '*'])) {
        return Some(format!(
            "found {}; a Kubernetes object in YAML or JSON begins like apiVersion: v1",
            shorten(head)
        ));
    }
    None
}

/// A likely cause of the YAML parser's error on this line.
pub fn hint(line: &str) -> Option<&'static str> {
    if line.trim_start_matches(' ').starts_with('\t') {
        return Some(" (the line is indented with a tab; YAML requires spaces)");
    }
    line.contains("{{").then_some(" (the line looks like a template; render it first, for example with helm template)")
}

fn shorten(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}
