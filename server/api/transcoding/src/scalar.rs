//! Values of fields from the texts of paths and queries.

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value};

/// The value of a field of this kind, or what is expected.
pub(crate) fn value(kind: &Kind, text: &str) -> Result<Value, String> {
    let expected = |what: &str| format!("{text:?} is not {what}");
    match kind {
        Kind::Bool => text.parse().map(Value::Bool).map_err(|_| expected("true or false")),
        Kind::String => Ok(Value::String(text.to_owned())),
        Kind::Bytes => bytes(text).map(|bytes| Value::Bytes(bytes.into())).ok_or_else(|| expected("base64")),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            text.parse().map(Value::I32).map_err(|_| expected("a whole number of 32 bits"))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            text.parse().map(Value::I64).map_err(|_| expected("a whole number of 64 bits"))
        }
        Kind::Uint32 | Kind::Fixed32 => {
            text.parse().map(Value::U32).map_err(|_| expected("a whole number of 32 bits without a sign"))
        }
        Kind::Uint64 | Kind::Fixed64 => {
            text.parse().map(Value::U64).map_err(|_| expected("a whole number of 64 bits without a sign"))
        }
        Kind::Float => float(text).map(|value| Value::F32(value as f32)).ok_or_else(|| expected("a number")),
        Kind::Double => float(text).map(Value::F64).ok_or_else(|| expected("a number")),
        Kind::Enum(of) => {
            let number = of.get_value_by_name(text).map(|value| value.number()).or_else(|| text.parse().ok());
            let names = || of.values().map(|value| value.name().to_owned()).collect::<Vec<_>>().join(", ");
            number.map(Value::EnumNumber).ok_or_else(|| expected(&format!("one of {}", names())))
        }
        Kind::Message(of) => message(of, text).map(Value::Message),
    }
}

/// Whether a field of this kind can be written as one text.
pub(crate) fn is_text(kind: &Kind) -> bool {
    !matches!(kind, Kind::Message(of) if !TEXT_MESSAGES.contains(&of.full_name()))
}

/// Messages whose JSON is a string, or for the wrappers may be one.
const TEXT_MESSAGES: [&str; 12] = [
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
    "google.protobuf.FieldMask",
    "google.protobuf.StringValue",
    "google.protobuf.BytesValue",
    "google.protobuf.BoolValue",
    "google.protobuf.Int32Value",
    "google.protobuf.Int64Value",
    "google.protobuf.UInt32Value",
    "google.protobuf.UInt64Value",
    "google.protobuf.FloatValue",
    "google.protobuf.DoubleValue",
];

fn message(of: &MessageDescriptor, text: &str) -> Result<DynamicMessage, String> {
    if !TEXT_MESSAGES.contains(&of.full_name()) {
        return Err(format!("it is a {}: name one of its fields, after a dot", of.full_name()));
    }
    let json = match text {
        "true" | "false" if of.full_name() == "google.protobuf.BoolValue" => serde_json::Value::Bool(text == "true"),
        _ => serde_json::Value::String(text.to_owned()),
    };
    DynamicMessage::deserialize(of.clone(), json).map_err(|error| error.to_string())
}

/// A number as JSON has it, and the three names that are none there.
fn float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let decode = |alphabet: &Alphabet| {
        let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        GeneralPurpose::new(alphabet, config).decode(text).ok()
    };
    decode(&URL_SAFE).or_else(|| decode(&STANDARD))
}
