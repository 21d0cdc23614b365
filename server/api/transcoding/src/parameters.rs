//! Fields of a request message from its path and its query.

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value};

use crate::refusal::Refusal;
use crate::template::Captured;
use crate::{percent, scalar};

/// The most segments of a field's path in a query. They bound how deep messages are nested.
pub const MAX_FIELD_DEPTH: usize = 8;

/// A field of a message, or of a message in it: at least one descriptor.
pub(crate) struct FieldPath {
    parents: Vec<FieldDescriptor>,
    field: FieldDescriptor,
}

impl FieldPath {
    /// Looks up `path` in `message`, each segment by its JSON name or its name in the proto file. The error says what is
    /// wrong.
    pub(crate) fn resolve(message: &MessageDescriptor, path: &str) -> Result<Self, String> {
        if path.split('.').count() > MAX_FIELD_DEPTH {
            return Err(format!("it has more than {MAX_FIELD_DEPTH} segments"));
        }
        let mut parents: Vec<FieldDescriptor> = Vec::new();
        let mut message = message.clone();
        let (rest, last) = path.rsplit_once('.').map_or((None, path), |(rest, last)| (Some(rest), last));
        for segment in rest.into_iter().flat_map(|rest| rest.split('.')) {
            let field = find(&message, segment)?;
            match field.kind() {
                Kind::Message(inner) if !field.is_list() && !field.is_map() => message = inner,
                _ => return Err(format!("{segment} has no fields")),
            }
            parents.push(field);
        }
        Ok(Self { field: find(&message, last)?, parents })
    }

    /// Whether the field has one value that can be written as a text.
    pub(crate) fn is_singular_text(&self) -> bool {
        !self.field.is_list() && scalar::is_text(&self.field.kind())
    }

    /// The path with the names of the proto file: the same for all spellings.
    pub(crate) fn canonical(&self) -> String {
        let fields = self.parents.iter().chain([&self.field]);
        fields.map(FieldDescriptor::name).collect::<Vec<_>>().join(".")
    }

    fn first(&self) -> &FieldDescriptor {
        self.parents.first().unwrap_or(&self.field)
    }

    /// The message that has the field, which is made when it is not there.
    fn holder<'m>(&self, message: &'m mut DynamicMessage) -> Option<&'m mut DynamicMessage> {
        self.parents.iter().try_fold(message, |message, field| match message.get_field_mut(field) {
            Value::Message(inner) => Some(inner),
            _ => None,
        })
    }
}

fn find(message: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, String> {
    let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
    field.ok_or_else(|| format!("{} has no field {name:?}", message.full_name()))
}

/// Puts the captured texts into `message`. A field that the body has too must have the same value there.
pub(crate) fn set_captures(message: &mut DynamicMessage, captures: &[Captured<'_>]) -> Result<(), Refusal> {
    for capture in captures {
        let refuse = |problem: String| Refusal::field(capture.field_path, problem);
        let text =
            capture.value.as_ref().ok_or_else(|| refuse("its text in the path is not percent-encoded UTF-8".into()))?;
        let path = FieldPath::resolve(&message.descriptor(), capture.field_path).map_err(refuse)?;
        let value = scalar::value(&path.field.kind(), text).map_err(refuse)?;
        let holder = path.holder(message).ok_or_else(|| refuse("its message cannot be made".into()))?;
        if holder.has_field(&path.field) && *holder.get_field(&path.field) != value {
            return Err(refuse("it differs between path and body: send it in the path only".into()));
        }
        check_oneof(holder, &path.field).map_err(refuse)?;
        holder.set_field(&path.field, value);
    }
    Ok(())
}

/// Puts the parameters of `query` into `message`. Fields of the path, and `body_field`, are not for the query.
pub(crate) fn set_query(
    message: &mut DynamicMessage,
    query: &str,
    captures: &[Captured<'_>],
    body_field: Option<&FieldDescriptor>,
) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, text) = parameter.split_once('=').unwrap_or((parameter, ""));
        let decode = |text: &str| percent::decode(&text.replace('+', " "));
        let (Some(name), Some(text)) = (decode(name), decode(text)) else {
            return Err(Refusal::bad_request("INVALID_QUERY", format!("{parameter:?} is not percent-encoded UTF-8")));
        };
        let refuse = |problem: String| Refusal::field(&name, problem);
        let path = FieldPath::resolve(&message.descriptor(), &name).map_err(refuse)?;
        let canonical = path.canonical();
        if captures.iter().any(|capture| capture.field_path == canonical) {
            return Err(refuse("it is in the path: remove it from the query".into()));
        }
        if body_field.is_some_and(|field| field == path.first()) {
            return Err(refuse("it is the body: remove it from the query".into()));
        }
        if !seen.insert(canonical) && !path.field.is_list() {
            return Err(refuse("it is there twice, and has one value".into()));
        }
        set_parameter(message, &path, &text).map_err(refuse)?;
    }
    Ok(())
}

fn set_parameter(message: &mut DynamicMessage, path: &FieldPath, text: &str) -> Result<(), String> {
    if path.field.is_map() {
        return Err("it is a map, which the query cannot have".to_owned());
    }
    let value = scalar::value(&path.field.kind(), text)?;
    let holder = path.holder(message).ok_or("its message cannot be made")?;
    check_oneof(holder, &path.field)?;
    match holder.get_field_mut(&path.field) {
        Value::List(values) => values.push(value),
        single => *single = value,
    }
    Ok(())
}

/// Setting a field of a oneof would silently clear another one.
fn check_oneof(holder: &DynamicMessage, field: &FieldDescriptor) -> Result<(), String> {
    let Some(oneof) = field.containing_oneof() else { return Ok(()) };
    match oneof.fields().find(|other| other != field && holder.has_field(other)) {
        Some(other) => Err(format!("only one of {} and {} can be there", field.name(), other.name())),
        None => Ok(()),
    }
}
