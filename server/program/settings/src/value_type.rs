//! Types of values: what a key accepts, and its description.

use std::net::SocketAddr;
use std::time::Duration;

use crate::log_filter::is_log_filter;

/// Type of a key's value.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    Text,
    File,
    Directory,
    /// URL of an HTTP or gRPC endpoint.
    Url,
    /// Socket address, `host:port`; port 0 lets the operating system choose.
    Address,
    /// Non-negative integer.
    Number,
    /// Integer from 0 to 100.
    Percent,
    Boolean,
    /// Integer with a unit: `500ms`, `10s`, `2m`, `1h`, `1d`.
    Duration,
    /// Dollars, with at most six decimals.
    Dollars,
    /// Log filter: levels, in general and by module. With the description of the valid ones.
    LogFilter(&'static str),
    /// One of these words, separated by `|`.
    Choice(&'static str),
    Other(&'static OtherType),
}

/// A type that one program has.
#[derive(Debug)]
pub struct OtherType {
    pub name: &'static str,
    pub placeholder: &'static str,
    pub expected: fn() -> String,
    pub accepts: fn(&str) -> bool,
}

impl ValueType {
    /// Whether `text` is a valid value.
    #[must_use]
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::Text | Self::File | Self::Directory | Self::Url => true,
            Self::Address => text.parse::<SocketAddr>().is_ok(),
            Self::Number => text.parse::<u64>().is_ok(),
            Self::Percent => text.parse::<u64>().is_ok_and(|percent| percent <= 100),
            Self::Boolean => text.parse::<bool>().is_ok(),
            Self::Duration => parse_duration(text).is_some(),
            Self::Dollars => parse_micro_dollars(text).is_some(),
            Self::LogFilter(_) => is_log_filter(text),
            Self::Choice(words) => word_of(words, text).is_some(),
            Self::Other(other) => (other.accepts)(text),
        }
    }

    /// Description of the valid values, as the end of "write …".
    #[must_use]
    pub fn expected(self) -> String {
        let text = match self {
            Self::Text => "a text",
            Self::File => "the path of a file",
            Self::Directory => "the path of a directory",
            Self::Url => "a URL such as http://127.0.0.1:4317",
            Self::Address => "an address and a port, such as 127.0.0.1:7450",
            Self::Number => "a whole number from 0",
            Self::Percent => "a percentage from 0 to 100, without a sign",
            Self::Boolean => "true or false",
            Self::Duration => "a duration such as 500ms, 10s, 2m, 1h or 1d",
            Self::Dollars => "dollars such as 0 or 0.05, with at most six decimals",
            Self::LogFilter(accepted) => accepted,
            Self::Choice(words) => return words.replace('|', " or "),
            Self::Other(other) => return (other.expected)(),
        };
        text.to_owned()
    }

    /// Name of the type in descriptions of keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text | Self::LogFilter(_) => "string",
            Self::File | Self::Directory => "path",
            Self::Url => "url",
            Self::Address => "address",
            Self::Number | Self::Percent => "integer",
            Self::Boolean => "boolean",
            Self::Duration => "duration",
            Self::Dollars => "number",
            Self::Choice(_) => "enum",
            Self::Other(other) => other.name,
        }
    }

    /// Placeholder of the value in the help of the flags.
    #[must_use]
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::File => "FILE",
            Self::Directory => "DIRECTORY",
            Self::Url => "URL",
            Self::Address => "ADDRESS",
            Self::Number => "NUMBER",
            Self::Percent => "PERCENT",
            Self::Boolean => "BOOLEAN",
            Self::Duration => "DURATION",
            Self::Dollars => "DOLLARS",
            Self::LogFilter(_) => "FILTER",
            Self::Choice(words) => words,
            Self::Other(other) => other.placeholder,
        }
    }

    /// Whether a file has the value without quotes.
    pub(crate) fn is_unquoted(self) -> bool {
        self.is_integer() || matches!(self, Self::Boolean | Self::Dollars)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::Number | Self::Percent)
    }
}

/// The word `text` of `words`, which are separated by `|`.
pub(crate) fn word_of(words: &'static str, text: &str) -> Option<&'static str> {
    words.split('|').find(|word| *word == text)
}

/// Parses an amount of dollars that is not negative, exactly.
#[must_use]
pub fn parse_micro_dollars(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 6 {
        return None;
    }
    let micros: i64 = format!("{decimals:0<6}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

/// Parses `500ms`, `10s`, `2m`, `1h`, `1d`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_at_most_100() {
        assert!(["0", "50", "100"].iter().all(|text| ValueType::Percent.accepts(text)));
        assert!(["101", "150", "50%", "-1", ""].iter().all(|text| !ValueType::Percent.accepts(text)));
    }

    #[test]
    fn dollars_are_read_exactly_and_are_not_negative() {
        let read = parse_micro_dollars;
        assert_eq!([read("0"), read("1"), read("0.05"), read("2.000001")], [0, 1_000_000, 50_000, 2_000_001].map(Some));
        for text in ["", "-1", "1.", ".5", "0.0000001", "1e3", "99999999999999999999"] {
            assert!(!ValueType::Dollars.accepts(text), "{text}");
        }
    }
}
