//! The help text of keys.

use std::fmt::Write;

use settings::{Key, ValueType};

use super::keys::KEYS;

/// Output of `fleetwright explain config…`: all keys, those of a table, or one. `None` for an
/// unknown path.
#[must_use]
pub fn explain(path: &str) -> Option<String> {
    let wanted = path.strip_prefix("config").filter(|rest| rest.is_empty() || rest.starts_with('.'))?;
    let wanted = wanted.trim_start_matches('.');
    if let Some(key) = super::keys::find(wanted) {
        return Some(describe(key));
    }
    let of_table = |key: &&Key| wanted.is_empty() || key.path.split_once('.').is_some_and(|(table, _)| table == wanted);
    let keys: Vec<&Key> = KEYS.iter().filter(of_table).collect();
    if keys.is_empty() {
        return None;
    }
    let mut text = String::from(
        "Configuration of `fleetwright serve`: TOML file, environment variables, flags; later ones take precedence.\n\n",
    );
    for key in keys {
        let default = if key.default.is_empty() { String::new() } else { format!(" [default: {}]", key.default) };
        let _infallible = writeln!(text, "config.{} <{}>{default}\n    {}", key.path, type_of(key), key.help);
    }
    Some(text)
}

/// The type in the list of keys: of an enum, its words.
fn type_of(key: &Key) -> &'static str {
    match key.kind {
        ValueType::Choice(words) => words,
        kind => kind.name(),
    }
}

fn describe(key: &Key) -> String {
    let default = if key.default.is_empty() { "(none)" } else { key.default };
    format!(
        "FIELD:       config.{}\nTYPE:        {}: {}\nDEFAULT:     {default}\nFLAG:        --{}\nENVIRONMENT: {}\nEXAMPLE:     {}\n\n{}\n",
        key.path,
        key.kind.name(),
        key.kind.expected(),
        key.flag,
        key.variable(),
        key.example,
        key.help,
    )
}
