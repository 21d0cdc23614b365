//! Bytes to objects: YAML with many documents, JSON values one after another, `kind: List` and
//! `kubectl get` dumps.
//!
//! A source is cut at `---` lines; every piece is JSON when it begins with a brace, else YAML.
//! Managed fields and the like are dropped while parsing, and for planning what it never looks at
//! ([`Detail`]). Size, depth, number of values and alias expansion are bounded, so that hostile or
//! accidental input ends in an error and not in exhausted memory.

mod split;
mod tree;

use std::cell::Cell;
use std::sync::Arc;

use engine::model::Text;
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use self::split::Chunk;
use self::tree::BoundedSeed;
use crate::{InputError, MAX_ERRORS, Source};

/// The largest source that is read, in bytes. A dump of the largest clusters stays far below.
pub const MAX_SOURCE_BYTES: usize = 256 << 20;
/// Values (scalars, lists, maps) that all sources together may hold; some 100 bytes of memory each.
pub const MAX_VALUES: usize = 4_000_000;
/// Fields at the top of an object. Kinds have about ten; rubbish that happens to be YAML has any number.
const MAX_TOP_FIELDS: usize = 100;
/// Nesting of lists and maps in YAML. JSON is bounded by `serde_json` at 128.
const MAX_DEPTH: usize = 100;
/// Limit of objects without a kind; each of them will be refused.
const MAX_STRANGERS: usize = MAX_ERRORS;
/// Lists within lists that are looked into.
const MAX_LIST_DEPTH: usize = 4;

/// One object as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Name of the source.
    pub source: Text,
    /// Number of the document in its source, from 1. Objects of one `List` have one number.
    pub number: usize,
    /// The object; a map always.
    pub value: Value,
}

/// What is left of the value budget; one for all sources of a run.
#[derive(Debug)]
pub struct ValueBudget(Cell<usize>);

impl Default for ValueBudget {
    fn default() -> Self {
        Self(Cell::new(MAX_VALUES))
    }
}

/// How much of an object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// All but the bookkeeping of API server and kubelet.
    Whole,
    /// Of containers and volumes only what planning may look at: the rest is most of a captured cluster.
    Planning,
}

/// Reads `source` into objects. Lists are flattened, empty documents are skipped.
///
/// # Errors
/// Every document that cannot be read, with the line where known.
pub fn parse(source: &Source, value_budget: &ValueBudget, detail: Detail) -> Result<Vec<Document>, Vec<InputError>> {
    let refused = |message: String| vec![InputError::of_source(&source.name, message)];
    if source.bytes.len() > MAX_SOURCE_BYTES {
        let (found, allowed) = (source.bytes.len() >> 20, MAX_SOURCE_BYTES >> 20);
        return Err(refused(format!("{found} MiB is too large, at most {allowed} MiB are read; split the file")));
    }
    let text = decode(&source.bytes).map_err(refused)?;
    let name: Text = Arc::from(source.name.as_str());
    let lean = BoundedSeed::root(&value_budget.0, detail);
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
            if errors.len() >= MAX_ERRORS || strangers >= MAX_STRANGERS {
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

/// The values of one chunk, each read or refused, one at a time. A chunk of YAML holds one value, a
/// chunk of JSON any number.
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

/// Ends with the first value that cannot be read: where the next one would begin is not known.
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

/// A short document that begins with a brace and whose first key is bare may be YAML in flow style.
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
        adopt(&mut map, within);
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

/// (apiVersion, kind of the items or empty) when `map` is a list.
fn list_of(map: &Map<String, Value>) -> Option<(String, String)> {
    let kind = map.get("kind")?.as_str()?.strip_suffix("List")?;
    let named = map.get("metadata").and_then(|metadata| metadata.get("name")).is_some();
    let listed = matches!(map.get("items"), Some(Value::Array(_) | Value::Null))
        || (kind.is_empty() && !map.contains_key("items"));
    let version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    (listed && !named).then(|| (version.to_owned(), kind.to_owned()))
}

/// The items of a typed list (`PodList`) do not repeat their kind.
fn adopt(map: &mut Map<String, Value>, within: Option<(&str, &str)>) {
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
