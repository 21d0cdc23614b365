//! What the definition of a key consists of, and the table of a program's keys.

use crate::ValueType;

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` in the file.
    pub path: &'static str,
    /// The flag without its dashes, `table-key`.
    pub flag: &'static str,
    /// What the environment variable begins with; `TABLE_KEY` follows.
    pub prefix: &'static str,
    pub kind: ValueType,
    /// Empty means unset.
    pub default: &'static str,
    pub example: &'static str,
    pub help: &'static str,
    /// Whether the value is hidden in output.
    pub secret: bool,
}

/// A table of keys: after `[table]`, each key with its type, its default, an example and its help.
#[macro_export]
macro_rules! keys {
    (
        $prefix:expr;
        $([$table:literal] $($name:literal: $kind:expr, $default:literal, $example:literal, $help:literal $(, $secret:ident)?;)+)+
    ) => {
        &[$($($crate::Key {
            path: concat!($table, ".", $name),
            flag: concat!($table, "-", $name),
            prefix: $prefix,
            kind: $kind,
            default: $default,
            example: $example,
            help: $help,
            secret: $crate::keys!(@ $($secret)?),
        }),+),+]
    };
    (@) => { false };
    (@ secret) => { true };
}

/// The keys of several tables, one after another; `N` is their number.
#[must_use]
pub const fn join<const N: usize>(tables: &[&[Key]]) -> [Key; N] {
    let mut all = [tables[0][0]; N];
    let (mut table, mut next) = (0, 0);
    while table < tables.len() {
        let mut key = 0;
        while key < tables[table].len() {
            all[next] = tables[table][key];
            (key, next) = (key + 1, next + 1);
        }
        table += 1;
    }
    all
}

impl Key {
    /// Environment variable of this key.
    #[must_use]
    pub fn variable(&self) -> String {
        self.variable_of(self.flag)
    }

    pub(crate) fn variable_of(&self, flag: &str) -> String {
        format!("{}{}", self.prefix, flag.replace('-', "_").to_uppercase())
    }

    /// The help of the flag: the meaning, and the other ways to set the value.
    #[must_use]
    pub fn flag_help(&self) -> String {
        let default = if self.default.is_empty() { String::new() } else { format!(" [default: {}]", self.default) };
        format!("{} [key: {}] [env: {}]{default}", self.help, self.path, self.variable())
    }

    /// Whether `text` is a valid value. A key without a default may be unset.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        (text.is_empty() && self.default.is_empty()) || self.kind.accepts(text)
    }
}

/// The keys of a program, and its other names.
#[derive(Debug)]
pub struct Schema {
    pub keys: &'static [Key],
    /// Prefix of the program's environment variables.
    pub prefix: &'static str,
    /// Variables with this prefix that set no key; a name that ends with `_` is the prefix of a family.
    pub other_variables: &'static [&'static str],
    /// Variables of other projects, and the paths that they set with the lowest precedence.
    pub external_variables: &'static [(&'static str, &'static str)],
    /// Paths and their former flags. They and their variables are accepted, and no help lists them.
    pub former_flags: &'static [(&'static str, &'static str)],
    /// Beginnings of old flags, and what they are now; the first that matches counts. An old name is
    /// an error that names the new one.
    pub renamed: &'static [(&'static str, &'static str)],
    /// Whether a file may have numbers and booleans in quotes.
    pub permits_quotes: bool,
    /// Where every key is listed: the end of an error about an unknown one.
    pub all_keys: &'static str,
}

impl Schema {
    /// The key with this path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.path == path)
    }

    /// The former flags of the key with this path.
    pub fn former_flags_of(&self, path: &'static str) -> impl Iterator<Item = &'static str> {
        self.former_flags.iter().filter(move |(of, _)| *of == path).map(|(_, flag)| *flag)
    }

    /// The key that the flag `old`, without its dashes, has become.
    #[must_use]
    pub fn renamed_flag(&self, old: &str) -> Option<&'static Key> {
        let new = self.renamed.iter().find_map(|(was, is)| Some(format!("{is}{}", old.strip_prefix(was)?)))?;
        self.keys.iter().find(|key| key.flag == new)
    }

    /// The new name of a path or environment variable.
    pub(crate) fn new_name(&self, old: &str) -> Option<String> {
        match old.strip_prefix(self.prefix) {
            Some(variable) => self.renamed_flag(&variable.to_lowercase().replace('_', "-")).map(Key::variable),
            None => self.renamed_flag(&old.replace('.', "-")).map(|key| key.path.to_owned()),
        }
    }
}
