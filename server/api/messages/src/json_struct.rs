//! `google.protobuf.Struct` from and to JSON.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde_json::{Map, Number, Value};

/// Integers up to this are numbers of a Struct without loss: its numbers are doubles.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The JSON of `message`, with its fields in the order of their names. A double without fraction is an integer, and one
/// that is not finite is a text: JSON has no such number.
pub fn to_json(message: &Struct) -> Value {
    let fields = message.fields.iter().map(|(name, value)| (name.clone(), value_to_json(value)));
    Value::Object(fields.collect())
}

fn value_to_json(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => number_to_json(*number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::StructValue(message)) => to_json(message),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(value_to_json).collect()),
    }
}

fn number_to_json(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= MAX_EXACT {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
}

/// The Struct of a JSON object. Integers beyond 2⁵³ become the nearest double.
pub fn from_json(fields: Map<String, Value>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name, value_from_json(value))).collect() }
}

fn value_from_json(value: Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(value),
        // Every number of `serde_json` without its arbitrary precision is a double, if a rounded one.
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(value_from_json).collect() }),
        Value::Object(fields) => Kind::StructValue(from_json(fields)),
    };
    ProtoValue { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn number(number: f64) -> Value {
        value_to_json(&ProtoValue { kind: Some(Kind::NumberValue(number)) })
    }

    #[test]
    fn json_is_read_back_and_integers_stay_integers() {
        let written = json!({"a": 1, "b": [true, null, "x", -2.5], "c": {"d": 0}});
        let Value::Object(fields) = written.clone() else { panic!("it is an object") };
        assert_eq!(to_json(&from_json(fields)), written);
        assert_eq!((number(1.0).to_string(), number(-3.0).to_string()), ("1".to_owned(), "-3".to_owned()));
        assert_eq!(number(0.5).to_string(), "0.5");
    }

    #[test]
    fn numbers_that_are_no_integer_or_no_number_are_not_cut_off() {
        assert_eq!(number(1e300), json!(1e300));
        assert_eq!(number(f64::NAN), json!("NaN"));
        assert_eq!(number(f64::INFINITY), json!("inf"));
        assert_eq!(number(9_007_199_254_740_992.0), json!(9_007_199_254_740_992_i64));
    }
}
