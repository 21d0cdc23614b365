//! Messages as JSON.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::refusal::Refusal;

/// The most nested objects and arrays of a body. A message nests at most three times as deep as its JSON, which is less than
/// the 100 levels that decoders of messages accept.
pub const MAX_JSON_DEPTH: usize = 32;

/// The most values of a body: members and elements. A value of two bytes can take a kilobyte in a message, and a body is read
/// before the services decide whether the caller may send it.
pub const MAX_JSON_VALUES: usize = 50_000;

/// The message that `json` is.
pub(crate) fn parse(message: &MessageDescriptor, json: &[u8]) -> Result<DynamicMessage, Refusal> {
    check(json)?;
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(json);
    let deserializer = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(message.clone(), deserializer, &options).map_err(|error| {
        let path = track.path().to_string();
        if path == "." { invalid(&error) } else { Refusal::field(&path, error.to_string()) }
    })
}

/// The canonical JSON of a message, default values included.
pub(crate) fn print(message: &DynamicMessage) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = Vec::new();
    let options = SerializeOptions::new().skip_default_fields(false);
    message.serialize_with_options(&mut serde_json::Serializer::new(&mut json), &options)?;
    Ok(json)
}

pub(crate) fn to_value(message: &DynamicMessage) -> Result<serde_json::Value, serde_json::Error> {
    let options = SerializeOptions::new().skip_default_fields(false);
    message.serialize_with_options(serde_json::value::Serializer, &options)
}

/// A value whose serialisation cannot fail, as its keys are texts.
pub(crate) fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn invalid(error: &serde_json::Error) -> Refusal {
    Refusal::bad_request("INVALID_JSON", format!("the body cannot be read as JSON: {error}"))
}

/// Refuses what is not one JSON text, is nested too deep, has too many values, or has an object with two members of one name.
fn check(json: &[u8]) -> Result<(), Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let values = Cell::new(0);
    let checked = Structure { depth: 0, values: &values }.deserialize(&mut deserializer);
    checked.and_then(|()| deserializer.end()).map_err(|error| invalid(&error))
}

/// A value inside of `depth` objects and arrays.
#[derive(Clone, Copy)]
struct Structure<'v> {
    depth: usize,
    /// Values of the body so far.
    values: &'v Cell<usize>,
}

impl Structure<'_> {
    fn inner<E: Error>(self) -> Result<Self, E> {
        if self.depth == MAX_JSON_DEPTH {
            return Err(E::custom(format!("it has more than {MAX_JSON_DEPTH} nested objects and arrays")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Structure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.values.get() == MAX_JSON_VALUES {
            return Err(D::Error::custom(format!("it has more than {MAX_JSON_VALUES} values")));
        }
        self.values.set(self.values.get() + 1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Structure<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while elements.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format!("the member {name:?} is there twice")));
            }
            names.insert(name);
            members.next_value_seed(inner)?;
        }
        Ok(())
    }
}
