//! The message of a request.

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value};

use crate::refusal::Refusal;
use crate::routes::{BodyRule, Route};
use crate::template::Captured;
use crate::{json, parameters};

/// The message of a request with this body, path and query.
pub(crate) fn build(
    route: &Route,
    captures: &[Captured<'_>],
    query: &str,
    body: &[u8],
) -> Result<DynamicMessage, Refusal> {
    let input = route.method.input();
    let (mut message, body_field) = match &route.body {
        BodyRule::Nothing if body.is_empty() => (DynamicMessage::new(input), None),
        BodyRule::Nothing => {
            return Err(Refusal::bad_request("UNEXPECTED_BODY", "this method takes no body: use path and query"));
        }
        BodyRule::Whole if !query.is_empty() => {
            return Err(Refusal::bad_request("UNEXPECTED_QUERY", "this method takes no query: use the body"));
        }
        BodyRule::Whole => (parse(&input, body)?, None),
        BodyRule::Field(field) => {
            let mut message = DynamicMessage::new(input);
            if let Kind::Message(of) = field.kind() {
                message.set_field(field, Value::Message(parse(&of, body)?));
            }
            (message, Some(field))
        }
    };
    parameters::set_captures(&mut message, captures)?;
    parameters::set_query(&mut message, query, captures, body_field)?;
    Ok(message)
}

/// An empty body is a message without fields.
fn parse(of: &MessageDescriptor, body: &[u8]) -> Result<DynamicMessage, Refusal> {
    if body.is_empty() { Ok(DynamicMessage::new(of.clone())) } else { json::parse(of, body) }
}
