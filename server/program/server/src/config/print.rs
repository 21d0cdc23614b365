//! Prints the effective configuration with the source of each value, and the help text of keys.

use std::fmt::Write;

use super::keys::{ConfigKey, KEYS};
use super::layers::Layers;
use super::origin::Origin;
use super::value_type::ValueType;

/// The effective configuration as a configuration file, with the source of each value. Secrets are
/// hidden.
#[must_use]
pub fn print(layers: &Layers) -> String {
    let mut text = String::new();
    let mut open = "";
    for key in KEYS {
        let (table, name) = key.path.split_once('.').unwrap_or(("", key.path));
        if table != open {
            let separator = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{separator}[{table}]\n"));
            open = table;
        }
        let (value, origin) = layers.get(key.path);
        text.push_str(&line(key, name, value, origin));
    }
    text
}

fn line(key: &ConfigKey, name: &str, value: &str, origin: &Origin) -> String {
    match value {
        "" => format!("# {name} is not set\n"),
        _ if key.secret => format!("{name} = \"(hidden)\" # {origin}\n"),
        value if key.kind.is_unquoted() => format!("{name} = {value} # {origin}\n"),
        value => format!("{name} = {} # {origin}\n", toml::Value::from(value)),
    }
}

/// Output of `fleetwright explain config…`: all keys, those of a table, or one. `None` for an
/// unknown path.
#[must_use]
pub fn explain(path: &str) -> Option<String> {
    let wanted = path.strip_prefix("config").filter(|rest| rest.is_empty() || rest.starts_with('.'))?;
    let wanted = wanted.trim_start_matches('.');
    if let Some(key) = super::keys::find(wanted) {
        return Some(describe(key));
    }
    let of_table =
        |key: &&ConfigKey| wanted.is_empty() || key.path.split_once('.').is_some_and(|(table, _)| table == wanted);
    let keys: Vec<&ConfigKey> = KEYS.iter().filter(of_table).collect();
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
fn type_of(key: &ConfigKey) -> &'static str {
    match key.kind {
        ValueType::Choice(words) => words,
        kind => kind.name(),
    }
}

fn describe(key: &ConfigKey) -> String {
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
