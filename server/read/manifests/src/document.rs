//! Bytes to objects: YAML with many documents, JSON values one after another, `kind: List` and
//! `kubectl get` dumps.
//!
//! A source is split at `---` lines; a part is JSON when it begins with a brace, else YAML. Managed
//! fields and similar bookkeeping are dropped while parsing, and for planning also the fields that
//! planning does not read ([`Detail`]). Size, depth, number of values and alias expansion are
//! limited, so that hostile input causes an error and does not exhaust memory.

mod lines;
mod split;
mod tree;

use std::sync::Arc;

use model::Text;
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use self::split::Chunk;
use self::tree::BoundedSeed;
use crate::{InputError, MAX_ERRORS, Source};
pub use lines::line_of;
pub use tree::{Detail, MAX_VALUES, ValueBudget};

/// Maximum size of a source, in bytes. Captures of the largest clusters are far smaller.
pub const MAX_SOURCE_BYTES: usize = 256 << 20;
/// Maximum nesting of lists and maps in YAML. `serde_json` limits JSON to 128.
const MAX_DEPTH: usize = 100;
/// Number of objects without a kind after which parsing of a source ends; each of them is an error.
const MAX_UNKNOWN_OBJECTS: usize = MAX_ERRORS;
/// Maximum nesting of `List` objects.
const MAX_LIST_DEPTH: usize = 4;

/// One object of a source, before validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Name of the source: a path, or `-` for standard input.
    pub source: Text,
    /// Number of the document in its source, from 1. All objects of a `List` have the number of its
    /// document.
    pub number: usize,
    /// The object, always a map.
    pub value: Value,
}

/// Parses `source` into objects. Lists are flattened, empty documents are skipped.
///
/// # Errors
/// One error for each document that cannot be parsed, with the line if known.
pub fn parse(source: &Source, value_budget: &ValueBudget, detail: Detail) -> Result<Vec<Document>, Vec<InputError>> {
    let refused = |message: String| vec![InputError::of_source(&source.name, message)];
    if source.bytes.len() > MAX_SOURCE_BYTES {
        let (found, allowed) = (source.bytes.len() >> 20, MAX_SOURCE_BYTES >> 20);
        return Err(refused(format!("{found} MiB is too large, at most {allowed} MiB are read; split the file")));
    }
    let text = decode(&source.bytes).map_err(refused)?;
    let name: Text = Arc::from(source.name.as_str());
    let lean = BoundedSeed::root(value_budget, detail);
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    let (mut number, mut strangers) = (0, 0);
    for chunk in split::chunks(text) {
        for parsed in parse_chunk(chunk, lean) {
            number += 1;
            let read = parsed.and_then(|value| {
                flatten(value, None, 0, &mut |value| {
                    strangers += usize::from(!value.contains_key("kind"));
                    documents.push(Document { source: name.clone(), number, value: Value::Object(value) });
                })
            });
            if let Err(message) = read {
                errors.push(InputError::of_document(&source.name, number, message));
            }
            if errors.len() >= MAX_ERRORS || strangers >= MAX_UNKNOWN_OBJECTS {
                return if errors.is_empty() { Ok(documents) } else { Err(errors) };
            }
        }
    }
    if errors.is_empty() { Ok(documents) } else { Err(errors) }
}

/// UTF-8 text without a byte order mark.
fn decode(bytes: &[u8]) -> Result<&str, String> {
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err("the text is UTF-16; save it as UTF-8".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        format!(
            "line {line}: the text is not UTF-8 (byte {} of the source); YAML and JSON must be",
            error.valid_up_to()
        )
    })?;
    Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text))
}

/// The values of one chunk, each parsed or an error, one at a time. A chunk of YAML holds one
/// value, a chunk of JSON any number.
fn parse_chunk<'s>(chunk: Chunk<'s>, lean: BoundedSeed<'s>) -> Box<dyn Iterator<Item = Result<Value, String>> + 's> {
    let Some((line, first)) = chunk.first_line() else { return Box::new(std::iter::empty()) };
    if first.starts_with('{') && !first.starts_with("{{") {
        return Box::new(parse_json(chunk, lean));
    }
    if let Some(reason) = split::not_an_object(first) {
        return Box::new(std::iter::once(Err(format!("line {line}: {reason}"))));
    }
    let parsed = Some(parse_yaml(&chunk, lean)).filter(|parsed| *parsed != Ok(Value::Null));
    Box::new(parsed.into_iter())
}

/// Ends with the first value that cannot be parsed, because the beginning of the next one is
/// unknown.
fn parse_json<'s>(chunk: Chunk<'s>, lean: BoundedSeed<'s>) -> impl Iterator<Item = Result<Value, String>> + 's {
    let mut failed = false;
    split::json_values(&chunk).map_while(move |piece| {
        if failed {
            return None;
        }
        let read = piece.and_then(|piece| parse_json_value(&piece, lean));
        failed = read.is_err();
        Some(read.or_else(|message| flow_yaml(&chunk, lean).map_err(|()| message)))
    })
}

fn parse_json_value(piece: &Chunk<'_>, lean: BoundedSeed<'_>) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(piece.text);
    lean.deserialize(&mut reader).map_err(|error| split::json_message(&error, piece))
}

/// Parses a short document that begins with a brace as YAML in flow style. In JSON the first key is
/// quoted, and such a document is an error.
fn flow_yaml(chunk: &Chunk<'_>, lean: BoundedSeed<'_>) -> Result<Value, ()> {
    let quoted = chunk.text.trim_start().trim_start_matches('{').trim_start().starts_with('"');
    if quoted || chunk.text.len() > 64 << 10 { Err(()) } else { parse_yaml(chunk, lean).map_err(|_| ()) }
}

fn parse_yaml(chunk: &Chunk<'_>, lean: BoundedSeed<'_>) -> Result<Value, String> {
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(chunk.text, yaml_options(), |reader| {
        lean.deserialize(reader)
    });
    parsed.map_err(|error| yaml_message(&error, chunk))
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4 * MAX_VALUES,
            max_nodes: 2 * MAX_VALUES,
            max_documents: 2,
            max_depth: MAX_DEPTH,
            max_total_scalar_bytes: MAX_SOURCE_BYTES,
            max_total_comment_bytes: MAX_SOURCE_BYTES,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 1_000_000,
            max_replay_stack_depth: 32,
        },
        emit_comments: false,
        with_snippet: false,
    }
}

fn yaml_message(error: &serde_saphyr::Error, chunk: &Chunk<'_>) -> String {
    let text = error.without_snippet().render_with_options(serde_saphyr::render_options! {
        snippets: serde_saphyr::SnippetMode::Off,
        line_offset: (chunk.line - 1) as u64,
    });
    let hint = error.location().and_then(|at| {
        let line = chunk.text.lines().nth(usize::try_from(at.line()).ok()?.checked_sub(1)?)?;
        split::hint(line)
    });
    format!("not valid YAML: {}{}", text.lines().next().unwrap_or_default(), hint.unwrap_or_default())
}

/// Passes every object in `value` to `take`: itself, or the items of a list.
fn flatten(
    value: Value,
    within: Option<(&str, &str)>,
    depth: usize,
    take: &mut impl FnMut(Map<String, Value>),
) -> Result<(), String> {
    let Value::Object(mut map) = value else {
        return Err(format!("found {}, a Kubernetes object is a map with apiVersion and kind", type_name(&value)));
    };
    let Some((version, kind)) = list_of(&map) else {
        inherit_kind(&mut map, within);
        take(map);
        return Ok(());
    };
    if depth == MAX_LIST_DEPTH {
        return Err(format!("lists within lists, more than {MAX_LIST_DEPTH} deep"));
    }
    let Some(Value::Array(items)) = map.remove("items") else { return Ok(()) };
    for item in items {
        flatten(item, Some((&version, &kind)), depth + 1, take).map_err(|message| format!("items: {message}"))?;
    }
    Ok(())
}

/// (apiVersion, kind of the items or empty) when `map` is a `List` object.
fn list_of(map: &Map<String, Value>) -> Option<(String, String)> {
    let kind = map.get("kind")?.as_str()?.strip_suffix("List")?;
    let named = map.get("metadata").and_then(|metadata| metadata.get("name")).is_some();
    let listed = matches!(map.get("items"), Some(Value::Array(_) | Value::Null))
        || (kind.is_empty() && !map.contains_key("items"));
    let version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    (listed && !named).then(|| (version.to_owned(), kind.to_owned()))
}

/// Sets apiVersion and kind on an item of a typed list (`PodList`), whose items do not have them.
fn inherit_kind(map: &mut Map<String, Value>, within: Option<(&str, &str)>) {
    let Some((version, kind)) = within.filter(|(_, kind)| !kind.is_empty()) else { return };
    if !map.contains_key("kind") && !map.contains_key("apiVersion") {
        map.insert("apiVersion".to_owned(), Value::from(version));
        map.insert("kind".to_owned(), Value::from(kind));
    }
}

/// The type of a value, for error messages.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
