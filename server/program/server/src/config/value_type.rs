//! Types of values: what a key accepts, and its description.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use controller::FeatureGates;
use model::{BudgetLimit, MicroUsd};

use crate::telemetry;

/// Type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Any string.
    Text,
    /// Path of a file.
    File,
    /// Path of a directory.
    Directory,
    /// URL of an HTTP or gRPC endpoint.
    Url,
    /// URL of a PostgreSQL database.
    DatabaseUrl,
    /// Socket address, `host:port`; port 0 lets the operating system choose.
    Address,
    /// Non-negative integer.
    Number,
    /// Integer from 0 to 100.
    Percent,
    /// `true` or `false`.
    Boolean,
    /// Integer with a unit: `500ms`, `10s`, `2m`, `1h`, `1d`.
    Duration,
    /// Dollars, with at most six decimals.
    Dollars,
    /// Feature gates by Karpenter's names, `NodeRepair=true`.
    FeatureGates,
    /// Number of nodes, or a percentage of them such as `10%`; empty for no limit.
    NodeLimit,
    /// Log filter: levels, in general and by module.
    LogFilter,
    /// One of these words, separated by `|`.
    Choice(&'static str),
}

impl ValueType {
    /// Whether `text` is a valid value.
    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::Text | Self::File | Self::Directory | Self::Url => true,
            Self::DatabaseUrl => text.is_empty() || store_postgres::postgres::is_url(text),
            Self::Address => text.parse::<SocketAddr>().is_ok(),
            Self::Number => text.parse::<u64>().is_ok(),
            Self::Percent => text.parse::<u64>().is_ok_and(|percent| percent <= 100),
            Self::Boolean => text.parse::<bool>().is_ok(),
            Self::Duration => parse_duration(text).is_some(),
            Self::Dollars => parse_dollars(text).is_some(),
            Self::FeatureGates => parse_feature_gates(text).is_some(),
            Self::NodeLimit => text.is_empty() || parse_node_limit(text).is_some(),
            Self::LogFilter => telemetry::is_filter(text),
            Self::Choice(words) => word_of(words, text).is_some(),
        }
    }

    /// Description of the valid values, as the end of "write …".
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::File => "the path of a file".to_owned(),
            Self::Directory => "the path of a directory".to_owned(),
            Self::Url => "a URL such as http://127.0.0.1:4317".to_owned(),
            Self::DatabaseUrl => "a PostgreSQL URL such as postgres://user@host:5432/database".to_owned(),
            Self::Address => "an address and a port, such as 127.0.0.1:7450".to_owned(),
            Self::Number => "a whole number from 0".to_owned(),
            Self::Percent => "a percentage from 0 to 100, without a sign".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Duration => DURATION.to_owned(),
            Self::Dollars => "dollars such as 0 or 0.05, with at most six decimals".to_owned(),
            Self::FeatureGates => {
                let gates: Vec<String> = FeatureGates::NAMES.iter().map(|name| format!("{name}=true")).collect();
                format!("feature gates such as {}", gates.join(","))
            }
            Self::NodeLimit => "a number of nodes such as 5, or 0% to 100%".to_owned(),
            Self::LogFilter => telemetry::ACCEPTED_FILTERS.to_owned(),
            Self::Choice(words) => words.replace('|', " or "),
        }
    }

    /// Name of the type in the output of `explain`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text | Self::LogFilter => "string",
            Self::File | Self::Directory => "path",
            Self::Url | Self::DatabaseUrl => "url",
            Self::Address => "address",
            Self::Number | Self::Percent => "integer",
            Self::Boolean => "boolean",
            Self::Duration => "duration",
            Self::Dollars => "number",
            Self::FeatureGates => "map",
            Self::NodeLimit => "integer or percentage",
            Self::Choice(_) => "enum",
        }
    }

    /// Placeholder of the value in the help of the flags.
    #[must_use]
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::File => "FILE",
            Self::Directory => "DIRECTORY",
            Self::Url | Self::DatabaseUrl => "URL",
            Self::Address => "ADDRESS",
            Self::Number => "NUMBER",
            Self::Percent => "PERCENT",
            Self::Boolean => "BOOLEAN",
            Self::Duration => "DURATION",
            Self::Dollars => "DOLLARS",
            Self::FeatureGates => "GATE=BOOLEAN,…",
            Self::NodeLimit => "NUMBER|PERCENT%",
            Self::LogFilter => "FILTER",
            Self::Choice(words) => words,
        }
    }

    /// Whether a file has the value without quotes.
    pub(super) fn is_unquoted(self) -> bool {
        matches!(self, Self::Number | Self::Percent | Self::Boolean | Self::Dollars)
    }
}

/// The word `text` of `words`, which are separated by `|`.
pub(super) fn word_of(words: &'static str, text: &str) -> Option<&'static str> {
    words.split('|').find(|word| *word == text)
}

/// Parses `NodeRepair=true`; gates that are not named are off.
pub(crate) fn parse_feature_gates(text: &str) -> Option<FeatureGates> {
    let mut gates = FeatureGates::default();
    for (name, value) in parse_pairs(text)? {
        gates.set(&name, value.parse().ok()?).then_some(())?;
    }
    Some(gates)
}

/// Parses `5` or `10%`.
pub(super) fn parse_node_limit(text: &str) -> Option<BudgetLimit> {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    match text.strip_suffix('%') {
        Some(percent) => number(percent).filter(|percent| *percent <= 100).map(BudgetLimit::Percent),
        None => number(text).map(BudgetLimit::Nodes),
    }
}

/// Parses an amount of dollars that is not negative, exactly.
pub(crate) fn parse_dollars(text: &str) -> Option<MicroUsd> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 6 {
        return None;
    }
    let micros: i64 = format!("{decimals:0<6}").parse().ok()?;
    let amount = whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?;
    Some(MicroUsd(amount))
}

/// Description of a duration.
const DURATION: &str = "a duration such as 500ms, 10s, 2m, 1h or 1d";

/// Parses a duration of the command line.
///
/// # Errors
/// The valid format.
pub fn parse_duration_flag(text: &str) -> Result<Duration, InvalidDuration> {
    parse_duration(text).ok_or(InvalidDuration)
}

/// The error of a text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("write {DURATION}")]
pub struct InvalidDuration;

/// Parses `500ms`, `10s`, `2m`, `1h`, `1d`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// Parses `a=b,c=d`; an empty text has no pairs.
fn parse_pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        let (name, value) = pair.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())?;
        if pairs.insert(name.to_owned(), value.to_owned()).is_some() {
            return None;
        }
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_up_to_days() {
        // 1 h is 3,600 s, and 14 d are 14 · 86,400 s.
        for (text, seconds) in [("90s", 90), ("2m", 120), ("1h", 3_600), ("14d", 1_209_600)] {
            assert_eq!(parse_duration_flag(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["1w", "d", "1", "-1s", "1.5h"] {
            let error = parse_duration_flag(text).unwrap_err().to_string();
            assert_eq!(error, "write a duration such as 500ms, 10s, 2m, 1h or 1d", "{text}");
        }
    }

    #[test]
    fn a_percentage_is_at_most_100() {
        assert!(["0", "50", "100"].iter().all(|text| ValueType::Percent.accepts(text)));
        assert!(["101", "150", "50%", "-1", ""].iter().all(|text| !ValueType::Percent.accepts(text)));
    }

    #[test]
    fn feature_gates_have_karpenters_names_and_are_on_or_off() {
        let repairs = |text| parse_feature_gates(text).map(|gates| gates.node_repair);
        assert_eq!(
            [repairs(""), repairs("NodeRepair=false"), repairs("NodeRepair=true")],
            [false, false, true].map(Some)
        );
        for text in ["NodeRepair", "NodeRepair=yes", "noderepair=true", "Other=true", "NodeRepair=true,NodeRepair=true"]
        {
            assert!(!ValueType::FeatureGates.accepts(text), "{text}");
        }
        // Gates that change nothing here are gates of Karpenter's.
        assert!(ValueType::FeatureGates.accepts("StaticCapacity=true,ReservedCapacity=false"));
        assert_eq!(
            ValueType::FeatureGates.expected(),
            "feature gates such as NodeRepair=true,SpotToSpotConsolidation=true"
        );
    }

    #[test]
    fn a_limit_of_nodes_is_a_number_or_a_percentage() {
        assert_eq!(["5", "10%"].map(parse_node_limit), [BudgetLimit::Nodes(5), BudgetLimit::Percent(10)].map(Some));
        for text in ["-1", "+1", "101%", "%", "5 %", "ten"] {
            assert!(!ValueType::NodeLimit.accepts(text), "{text}");
        }
        assert!(ValueType::NodeLimit.accepts(""), "no limit");
    }

    #[test]
    fn only_urls_of_postgresql_are_database_urls() {
        for url in ["", "postgres://a@b/c", "postgresql://b/c"] {
            assert!(ValueType::DatabaseUrl.accepts(url), "{url}");
        }
        for url in ["mysql://a@b/c", "b/c", "postgres:b"] {
            assert!(!ValueType::DatabaseUrl.accepts(url), "{url}");
        }
    }

    #[test]
    fn dollars_are_read_exactly_and_are_not_negative() {
        let read = |text| parse_dollars(text).map(|amount| amount.0);
        assert_eq!([read("0"), read("1"), read("0.05"), read("2.000001")], [0, 1_000_000, 50_000, 2_000_001].map(Some));
        for text in ["", "-1", "1.", ".5", "0.0000001", "1e3", "99999999999999999999"] {
            assert!(!ValueType::Dollars.accepts(text), "{text}");
        }
    }
}
