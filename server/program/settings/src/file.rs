//! Reads the keys of a configuration file, with their lines.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// A key of the file with its value.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `table.key`.
    pub(crate) name: String,
    /// Line of the key, from 1.
    pub(crate) line: usize,
    /// The value as written.
    pub(crate) value: toml::Value,
}

/// The keys of `text`, by table. The error of an invalid file has the line and the cause, and nothing
/// of the text, which may have a secret.
pub(crate) fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let invalid = |error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        format!("line {line}: not valid TOML: {}", error.message())
    };
    let mut lines = BTreeMap::new();
    find_lines("", DeTable::parse(text).map_err(invalid)?.get_ref(), text, &mut lines);
    let mut entries = Vec::new();
    flatten("", text.parse().map_err(invalid)?, &lines, &mut entries);
    entries.sort_by_key(|entry: &Entry| entry.line);
    Ok(entries)
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn joined(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn find_lines(prefix: &str, table: &DeTable<'_>, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let path = joined(prefix, name.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => find_lines(&path, inner, text, lines),
            _ => drop(lines.insert(path, line_of(text, name.span().start))),
        }
    }
}

fn flatten(prefix: &str, table: toml::Table, lines: &BTreeMap<String, usize>, entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let name = joined(prefix, &name);
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, lines, entries),
            value => entries.push(Entry { line: lines.get(&name).copied().unwrap_or(1), name, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_in_the_order_of_their_lines() {
        let entries = entries("# one\n[store]\nmigrate = true\n\n[cloud]\nseed = 5\n").unwrap();
        let lines: Vec<(&str, usize)> = entries.iter().map(|entry| (entry.name.as_str(), entry.line)).collect();
        assert_eq!(lines, [("store.migrate", 3), ("cloud.seed", 6)]);
    }

    #[test]
    fn an_error_has_the_line_and_the_cause_and_nothing_of_the_file() {
        for (text, expected) in [
            ("[cloud]\nseed = 1\nseed = 2\n", "line 3: not valid TOML: duplicate key"),
            ("[store]\ndatabase-url = c0ffee\n", "line 2: not valid TOML: "),
            ("[store]\n\ndatabase-url = \"c0ffee\n", "line 3: not valid TOML: "),
        ] {
            let error = entries(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains("c0ffee"), "{error}");
        }
    }
}
