//! JSON in lines that a person can edit: what fits on one line is on one line, and a longer list or
//! map has a line for each entry.

use std::io::{self, Write};

use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Maximum width of a line that holds a list or map, in bytes.
const WIDTH: usize = 140;
/// Spaces before an entry, for each level.
const INDENT: usize = 2;

/// Writes `value` and a line end.
///
/// # Errors
/// Errors of `out`.
pub(crate) fn write(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    write_at(value, 0, 0, out)?;
    out.write_all(b"\n")
}

/// Writes `value`, which begins after `used` bytes of a line, at a level of nesting.
fn write_at(value: &Value, level: usize, used: usize, out: &mut dyn Write) -> io::Result<()> {
    let line = one_line(value)?;
    match value {
        Value::Array(items) if used + line.len() > WIDTH => {
            let entries = items.iter().map(|item| (Vec::new(), item));
            write_entries(b"[", entries, b"]", level, out)
        }
        Value::Object(fields) if used + line.len() > WIDTH => {
            let key = |key: &String| {
                let mut key = serde_json::to_vec(key)?;
                key.extend(b": ");
                Ok::<_, io::Error>(key)
            };
            let entries: Vec<(Vec<u8>, &Value)> =
                fields.iter().map(|(name, value)| Ok((key(name)?, value))).collect::<io::Result<_>>()?;
            write_entries(b"{", entries.into_iter(), b"}", level, out)
        }
        _ => out.write_all(&line),
    }
}

fn write_entries<'v>(
    open: &[u8],
    entries: impl Iterator<Item = (Vec<u8>, &'v Value)>,
    close: &[u8],
    level: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let spaces = |level: usize| " ".repeat(level * INDENT);
    out.write_all(open)?;
    for (at, (key, value)) in entries.enumerate() {
        let end = if at == 0 { "" } else { "," };
        write!(out, "{end}\n{}", spaces(level + 1))?;
        out.write_all(&key)?;
        write_at(value, level + 1, (level + 1) * INDENT + key.len(), out)?;
    }
    write!(out, "\n{}", spaces(level))?;
    out.write_all(close)
}

fn one_line(value: &Value) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    serde::Serialize::serialize(value, &mut Serializer::with_formatter(&mut line, Spaced))?;
    Ok(line)
}

/// A space after each comma and colon.
struct Spaced;

impl Spaced {
    fn separate<W: ?Sized + Write>(out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        Self::separate(out, first)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        Self::separate(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_does_not_fit_on_a_line_has_a_line_for_each_entry() {
        let long = "x".repeat(WIDTH - 12);
        let value = json!({ "a": [1, { "b": "c" }], "d": [long, long], "e": [] });
        let mut out = Vec::new();
        write(&value, &mut out).expect("a vector takes everything");
        let expected = format!(
            "{{\n  \"a\": [1, {{\"b\": \"c\"}}],\n  \"d\": [\n    \"{long}\",\n    \"{long}\"\n  ],\n  \"e\": []\n}}\n"
        );
        assert_eq!(String::from_utf8(out), Ok(expected));
    }
}
