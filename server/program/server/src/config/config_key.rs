//! What the definition of a key consists of.

use super::value_type::ValueType;

/// Prefix of the server's environment variables.
pub(super) const PREFIX: &str = "FLEETWRIGHT_";

/// A configuration key.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    /// `table.key` in the file; the flag is `--table-key`, the environment variable
    /// `FLEETWRIGHT_TABLE_KEY`.
    pub path: &'static str,
    /// Flag without its dashes.
    pub flag: &'static str,
    /// Type of the value.
    pub kind: ValueType,
    /// Default value; empty means unset.
    pub default: &'static str,
    /// Help text of `--help` and `explain`.
    pub help: &'static str,
    /// Example value.
    pub example: &'static str,
    /// Whether the value is hidden in output.
    pub secret: bool,
}

impl ConfigKey {
    /// Environment variable of this key.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.flag.replace('-', "_").to_uppercase())
    }

    /// The help of the flag: the meaning, and the other ways to set the value.
    #[must_use]
    pub fn flag_help(&self) -> String {
        let default = if self.default.is_empty() { String::new() } else { format!(" [default: {}]", self.default) };
        format!("{} [key: {}] [env: {}]{default}", self.help, self.path, self.variable())
    }
}

/// The definition of a key that is no secret.
pub(super) const fn key(
    path: &'static str,
    flag: &'static str,
    kind: ValueType,
    default: &'static str,
    example: &'static str,
    help: &'static str,
) -> ConfigKey {
    ConfigKey { path, flag, kind, default, help, example, secret: false }
}
