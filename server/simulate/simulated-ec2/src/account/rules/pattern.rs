//! Event patterns: every field of the pattern must match one of its values.

use serde_json::Value;

use crate::api_error::ApiError;

/// Reads a pattern.
///
/// # Errors
/// `InvalidEventPatternException` for text that is no pattern, and for content filters beside `prefix`, which are not
/// simulated.
pub(super) fn read(text: &str) -> Result<Value, ApiError> {
    let invalid = |what: &str| {
        ApiError::new("InvalidEventPatternException", format!("Event pattern is not valid. Reason: {what}"))
    };
    let pattern: Value = serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
    if pattern.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(invalid("it is not an object with fields"));
    }
    check(&pattern).map_err(|what| invalid(&what))?;
    Ok(pattern)
}

fn check(pattern: &Value) -> Result<(), String> {
    for (name, expected) in pattern.as_object().into_iter().flatten() {
        match expected {
            Value::Object(_) => check(expected)?,
            Value::Array(values) if !values.is_empty() => {
                let is_prefix = |value: &&Value| value.as_object().is_some_and(|filter| filter.keys().ne(["prefix"]));
                if values.iter().any(|value| is_prefix(&value)) {
                    return Err(format!("\"{name}\" has a content filter that is not simulated"));
                }
            }
            _ => return Err(format!("\"{name}\" must be an object or an array of values")),
        }
    }
    Ok(())
}

/// Whether `event` matches `pattern`.
pub(super) fn matches(pattern: &Value, event: &Value) -> bool {
    pattern.as_object().into_iter().flatten().all(|(name, expected)| match (expected, &event[name]) {
        (Value::Object(_), found) => matches(expected, found),
        (Value::Array(values), Value::Array(found)) => found.iter().any(|found| is_one_of(values, found)),
        (Value::Array(values), found) => is_one_of(values, found),
        _ => false,
    })
}

fn is_one_of(values: &[Value], found: &Value) -> bool {
    values.iter().any(|value| match value["prefix"].as_str() {
        Some(prefix) => found.as_str().is_some_and(|found| found.starts_with(prefix)),
        None => value == found,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_match_one_of_their_values() {
        let event = json!({ "source": "aws.ec2", "resources": ["a", "b"], "detail": { "state": "running", "n": 1 } });
        for (pattern, expected) in [
            (json!({ "source": ["aws.ec2"] }), true),
            (json!({ "source": ["aws.health"] }), false),
            (json!({ "source": ["aws.health", "aws.ec2"], "detail": { "state": ["running"] } }), true),
            (json!({ "source": ["aws.ec2"], "detail": { "state": ["stopped"] } }), false),
            (json!({ "detail": { "n": [1] } }), true),
            (json!({ "detail": { "missing": ["x"] } }), false),
            (json!({ "resources": ["b"] }), true),
            (json!({ "source": [{ "prefix": "aws." }] }), true),
        ] {
            assert_eq!(matches(&read(&pattern.to_string()).unwrap(), &event), expected, "{pattern}");
        }
        for refused in ["", "[]", "{}", "{\"a\": \"b\"}", "{\"a\": []}", "{\"a\": [{\"exists\": true}]}"] {
            assert!(read(refused).is_err(), "{refused}");
        }
    }
}
