//! The user's own settings: parsing, and the types of `settings.kubernetes`.

use toml::{Table, Value};

use crate::user_data::input::UserDataError;

/// Type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    Text,
    /// Bottlerocket converts the number.
    TextOrInteger,
    Texts,
    TableOfTexts,
    TableOfLists,
    TableOfTables,
}

/// Settings of `settings.kubernetes` (Bottlerocket's API reference). A setting that is not listed may
/// have any type.
const KINDS: &[(&str, Kind)] = &[
    ("allowed-unsafe-sysctls", Kind::Texts),
    ("api-server", Kind::Text),
    ("cloud-provider", Kind::Text),
    ("cluster-certificate", Kind::Text),
    ("cluster-domain", Kind::Text),
    ("cluster-name", Kind::Text),
    ("container-log-max-files", Kind::Integer),
    ("container-log-max-size", Kind::Text),
    ("cpu-cfs-quota-enforced", Kind::Boolean),
    ("cpu-manager-policy", Kind::Text),
    ("cpu-manager-policy-options", Kind::Texts),
    ("cpu-manager-reconcile-period", Kind::Text),
    ("credential-providers", Kind::TableOfTables),
    ("device-ownership-from-security-context", Kind::Boolean),
    ("event-burst", Kind::Integer),
    ("event-qps", Kind::Integer),
    ("eviction-hard", Kind::TableOfTexts),
    ("eviction-max-pod-grace-period", Kind::Integer),
    ("eviction-soft", Kind::TableOfTexts),
    ("eviction-soft-grace-period", Kind::TableOfTexts),
    ("image-gc-high-threshold-percent", Kind::TextOrInteger),
    ("image-gc-low-threshold-percent", Kind::TextOrInteger),
    ("kube-api-burst", Kind::Integer),
    ("kube-api-qps", Kind::Integer),
    ("kube-reserved", Kind::TableOfTexts),
    ("max-pods", Kind::Integer),
    ("node-labels", Kind::TableOfTexts),
    ("node-taints", Kind::TableOfLists),
    ("pod-pids-limit", Kind::Integer),
    ("registry-burst", Kind::Integer),
    ("registry-qps", Kind::Integer),
    ("seccomp-default", Kind::Boolean),
    ("server-tls-bootstrap", Kind::Boolean),
    ("shutdown-grace-period", Kind::Text),
    ("shutdown-grace-period-for-critical-pods", Kind::Text),
    ("static-pods", Kind::TableOfTables),
    ("system-reserved", Kind::TableOfTexts),
    ("topology-manager-policy", Kind::Text),
    ("topology-manager-scope", Kind::Text),
];

impl Kind {
    fn accepts(self, value: &Value) -> bool {
        let all_texts = |items: &Vec<Value>| items.iter().all(Value::is_str);
        let of = |each: fn(&Value) -> bool| value.as_table().is_some_and(|table| table.values().all(each));
        match self {
            Self::Boolean => value.is_bool(),
            Self::Integer => value.is_integer(),
            Self::Text => value.is_str(),
            Self::TextOrInteger => value.is_str() || value.is_integer(),
            Self::Texts => value.as_array().is_some_and(all_texts),
            Self::TableOfTexts => of(Value::is_str),
            // Bottlerocket accepts a single text as a list of one.
            Self::TableOfLists => of(|value| value.is_str() || Self::Texts.accepts(value)),
            Self::TableOfTables => of(Value::is_table),
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer => "an integer",
            Self::Text => "a text",
            Self::TextOrInteger => "a text or an integer",
            Self::Texts => "a list of texts",
            Self::TableOfTexts => "a table of texts",
            Self::TableOfLists => "a table of lists of texts",
            Self::TableOfTables => "a table of tables",
        }
    }
}

/// The document of `spec.userData`.
///
/// # Errors
/// [`UserDataError::Malformed`] when it is not TOML.
pub(super) fn parse(user_data: &str) -> Result<Table, UserDataError> {
    let malformed = |error: toml::de::Error| {
        let line =
            error.span().map_or(1, |span| 1 + user_data.bytes().take(span.start).filter(|b| *b == b'\n').count());
        UserDataError::Malformed { format: "TOML", problem: format!("line {line}: {}", error.message()) }
    };
    user_data.parse::<Table>().map_err(malformed)
}

/// The table `name` in `parent`, which is made if it is absent.
///
/// # Errors
/// [`UserDataError::Invalid`] when `path`, as it is named in the message, is no table.
pub(super) fn table<'t>(parent: &'t mut Table, name: &str, path: &str) -> Result<&'t mut Table, UserDataError> {
    match parent.entry(name).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(table) => Ok(table),
        other => Err(wrong_type(path, other, "a table")),
    }
}

/// Checks the types of the user's own settings, which Bottlerocket would refuse at boot.
///
/// # Errors
/// [`UserDataError::Invalid`] for the first setting of another type.
pub(super) fn check_types(kubernetes: &Table) -> Result<(), UserDataError> {
    for (name, value) in kubernetes {
        let kind = KINDS.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
        if let Some(kind) = kind.filter(|kind| !kind.accepts(value)) {
            return Err(wrong_type(&format!("settings.kubernetes.{name}"), value, kind.describe()));
        }
    }
    Ok(())
}

fn wrong_type(path: &str, value: &Value, allowed: &'static str) -> UserDataError {
    // A value may be long, or secret.
    let found = match value {
        Value::Table(_) => "a table with other values",
        Value::Array(_) => "a list with other values",
        other => other.type_str(),
    };
    UserDataError::Invalid { field: format!("spec.userData: {path}"), found: found.to_owned(), allowed }
}
