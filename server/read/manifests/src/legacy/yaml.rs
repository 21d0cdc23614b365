//! Writes readable YAML: block style, two spaces, keys in their original order, quotes only where
//! needed.

use std::fmt::Write;

use serde_json::Value;

/// Writes `objects` as one YAML stream, documents separated by `---`.
#[must_use]
pub fn write<'v>(objects: impl IntoIterator<Item = &'v Value>) -> String {
    let mut out = String::new();
    for object in objects {
        if !out.is_empty() {
            out.push_str("---\n");
        }
        block(&mut out, object, 0, false);
    }
    out
}

/// Writes `value` at `depth`. With `inline` the current line has already begun (after a dash), and
/// the first key continues it.
fn block(out: &mut String, value: &Value, depth: usize, inline: bool) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, value)) in fields.iter().enumerate() {
                indent(out, if inline && index == 0 { 0 } else { depth });
                out.push_str(&quoted(key));
                out.push(':');
                entry(out, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(out, depth);
                out.push_str("- ");
                block(out, item, depth + 1, true);
            }
        }
        other => {
            out.push_str(&scalar(other, depth));
            out.push('\n');
        }
    }
}

/// Writes the value after `key:` of a map at `depth`. A list is indented like its key.
fn entry(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            block(out, value, depth + 1, false);
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_array) => {
            out.push(' ');
            out.push_str(&value.to_string());
            out.push('\n');
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(out, value, depth, false);
        }
        other => {
            out.push(' ');
            block(out, other, depth + 1, true);
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    let _ = write!(out, "{:width$}", "", width = 2 * depth);
}

/// A scalar, or an empty list or map.
fn scalar(value: &Value, depth: usize) -> String {
    match value {
        Value::String(text) if is_block(text) => literal(text, depth),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Whether a literal block can represent the lines of a text unchanged.
fn is_block(text: &str) -> bool {
    let odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{FEFF}' | '\u{2028}' | '\u{2029}' | '\u{85}')
    };
    text.contains('\n') && !text.starts_with([' ', '\n', '\t']) && !text.chars().any(odd)
}

/// `text` as a literal block. The chomping indicator after the bar preserves the line breaks at its
/// end.
fn literal(text: &str, depth: usize) -> String {
    let body = text.trim_end_matches('\n');
    let sign = match text.len() - body.len() {
        0 => "-",
        1 => "",
        _ => "+",
    };
    let mut block = format!("|{sign}");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        block.push('\n');
        if !line.is_empty() {
            indent(&mut block, depth.max(1));
            block.push_str(line);
        }
    }
    block
}

/// `text` as a plain scalar if every YAML parser reads it as this string, else in double quotes.
fn quoted(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

/// Whether a plain scalar is read as a string: keywords and numbers of YAML 1.1 and 1.2 require
/// quotes.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 11] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan"];
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_' | '$');
    let inner =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '@' | '=' | '+' | '(' | ')' | '$');
    let colons = |c: char| c == ':';
    let with_digit_first = |text: &str| {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < text.len()
            && rest.chars().next().is_some_and(|c| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E' | 'x' | 'o' | 'b'))
    };
    (text.starts_with(first) || with_digit_first(text))
        && text.chars().all(|c| inner(c) || colons(c))
        && !text.ends_with(':')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_written_in_block_style() {
        let object = json!({
            "kind": "NodePool", "metadata": {"name": "a"},
            "spec": {"limits": {"cpu": "1000"}, "list": [{"key": "x/y", "values": ["on", "2", "c7g", "30d"]}, "z"], "none": [], "weight": 3, "flag": "true"},
        });
        let expected = "kind: NodePool\nmetadata:\n  name: a\nspec:\n  limits:\n    cpu: \"1000\"\n  list:\n  - key: x/y\n    values:\n    - \"on\"\n    - \"2\"\n    \
                        - c7g\n    - 30d\n  - z\n  none: []\n  weight: 3\n  flag: \"true\"\n";
        assert_eq!(write([&object]), expected);
    }

    #[test]
    fn what_is_written_reads_back_as_it_was() {
        let texts = [
            "", " a", "a: b", "a #b", "#", "1e3", "0x1f", "1:30", "12:30:45", "~", "null", "No", "a\nb\n", "a\n\n  b",
            "a\n\n", "\ta", "ü", "a\rb\n", "x:", "- a", "1_000", "0o7", "1d", "%a", "5%", "\"", "'",
        ];
        let object = json!({"texts": texts, "map": {"a.b/c": texts[12], "on": null, "n": -1.5, "deep": [[1, "2"], []]}, "last": [{"text": texts[13], "k": {}}]});
        let options = serde_saphyr::options! {};
        let back: Value = serde_saphyr::from_str_with_options(&write([&object]), options).unwrap();
        assert_eq!(back, object);
    }
}
