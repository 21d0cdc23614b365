//! What a mask says about messages of a type.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

/// The metadata of a call that has the mask of its answer. The name is that of AIP-157.
pub const HEADER: &str = "x-goog-fieldmask";

/// The most fields of a path. They bound how deep answers are searched.
pub const MAX_DEPTH: usize = 16;

/// A mask that is not one of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the field mask has {path:?}, but {problem}")]
pub struct MaskError {
    path: String,
    problem: String,
}

/// Some of the fields of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldMask {
    fields: Vec<Masked>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Masked {
    number: u32,
    json_name: String,
    kept: Selection,
}

/// How much of a field is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    Whole,
    /// Of each message that it has, these fields.
    Part(FieldMask),
}

impl FieldMask {
    /// The mask that `text` is for messages of this type; `None` when everything is kept.
    ///
    /// # Errors
    /// A path names a field that the message does not have, or leads through one that is not a message.
    pub fn parse(text: &str, message: &MessageDescriptor) -> Result<Option<Self>, MaskError> {
        let mut mask = Self::default();
        for path in text.split(',').map(str::trim).filter(|path| !path.is_empty()) {
            if path == "*" {
                return Ok(None);
            }
            mask.add(path, message).map_err(|problem| MaskError { path: path.to_owned(), problem })?;
        }
        Ok(if mask.fields.is_empty() { None } else { Some(mask) })
    }

    fn add(&mut self, path: &str, message: &MessageDescriptor) -> Result<(), String> {
        if path.split('.').count() > MAX_DEPTH {
            return Err(format!("a path has at most {MAX_DEPTH} fields"));
        }
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let field = find(message, name)?;
        let known = self.fields.iter().position(|masked| masked.number == field.number());
        let index = known.unwrap_or_else(|| {
            let (number, json_name) = (field.number(), field.json_name().to_owned());
            self.fields.push(Masked { number, json_name, kept: Selection::Part(Self::default()) });
            self.fields.len() - 1
        });
        let kept = &mut self.fields[index].kept;
        match (rest, kept) {
            (None, kept) => *kept = Selection::Whole,
            // What leads into a field that is kept as a whole is checked all the same.
            (Some(rest), Selection::Whole) => Self::default().add(rest, &fields_of(&field)?)?,
            (Some(rest), Selection::Part(mask)) => mask.add(rest, &fields_of(&field)?)?,
        }
        Ok(())
    }

    /// How much of the field with this number is kept; `None` for nothing.
    pub(crate) fn kept(&self, number: u32) -> Option<&Selection> {
        self.fields.iter().find(|masked| masked.number == number).map(|masked| &masked.kept)
    }

    /// Removes from the canonical JSON of a message what the mask does not have.
    pub fn retain_json(&self, json: &mut Value) {
        match json {
            Value::Object(members) => members.retain(|name, value| {
                let masked = self.fields.iter().find(|masked| masked.json_name == *name);
                if let Some(Selection::Part(mask)) = masked.map(|masked| &masked.kept) {
                    mask.retain_json(value);
                }
                masked.is_some()
            }),
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.retain_json(element)),
            _ => {}
        }
    }
}

fn find(message: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, String> {
    let field = message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name));
    field.ok_or_else(|| {
        let names: Vec<String> = message.fields().map(|field| field.name().to_owned()).collect();
        format!("{} has no field {name:?}; it has {}", message.full_name(), names.join(", "))
    })
}

/// The type of the messages in a field. Those of `google.protobuf` are values: a time is one text in JSON.
fn fields_of(field: &FieldDescriptor) -> Result<MessageDescriptor, String> {
    match field.kind() {
        Kind::Message(inner) if !field.is_map() && inner.package_name() != "google.protobuf" => Ok(inner),
        _ => Err(format!("{} has no fields of its own: end the path there", field.name())),
    }
}
