//! Writes values as YAML in block style, with sorted keys.
//!
//! Every text is in double quotes, with escapes for all but printable ASCII. So no text can be read
//! as another type, end its line, or leave the ASCII that mail headers allow.

use std::fmt::Write as _;

use serde_json::Value;

/// The document of `value`, without a line feed at its end.
pub(super) fn write(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, 0);
    out.truncate(out.trim_end_matches('\n').len());
    out
}

fn write_value(out: &mut String, value: &Value, depth: usize) {
    let indentation = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, field) in fields {
                out.push_str(&indentation);
                out.push_str(&key(name));
                out.push(':');
                write_nested(out, field, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut nested = String::new();
                write_value(&mut nested, item, depth + 1);
                // The item replaces the last two spaces of its first line by its dash.
                let _ = write!(out, "{indentation}- {}", nested.trim_start_matches(' '));
            }
        }
        scalar => {
            out.push_str(&write_scalar(scalar));
            out.push('\n');
        }
    }
}

/// The value of a field, after its colon. Items of a list have the indentation of their field.
fn write_nested(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            write_value(out, value, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            write_value(out, value, depth);
        }
        scalar => {
            out.push(' ');
            write_value(out, scalar, depth);
        }
    }
}

/// A value of one line: a scalar, `{}` or `[]`.
fn write_scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

/// Plain names that YAML 1.1 reads as another type.
const RESERVED: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];

/// A key, without quotes where it is a plain name.
fn key(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        && !RESERVED.contains(&name.to_ascii_lowercase().as_str());
    if plain { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        let _ = match character {
            '"' | '\\' => write!(out, "\\{character}"),
            '\n' => write!(out, "\\n"),
            ' '..='~' => write!(out, "{character}"),
            other if u32::from(other) <= 0xFFFF => write!(out, "\\u{:04X}", u32::from(other)),
            other => write!(out, "\\U{:08X}", u32::from(other)),
        };
    }
    out.push('"');
    out
}
