//! Partial answers: which fields of the answer a request asks for.

use field_mask::{FieldMask, HEADER};
use http::HeaderMap;
use prost_reflect::{DynamicMessage, MessageDescriptor};

use crate::refusal::Refusal;
use crate::{json, percent};

/// The parameter with the mask. It is one of every method and no field of a request.
const PARAMETER: &str = "$fields";

/// The masks of a query, still encoded, and the query without them.
pub(crate) fn split(query: &str) -> (Vec<&str>, String) {
    let name = |parameter: &str| percent::decode(parameter.split('=').next().unwrap_or_default());
    let is_mask = |parameter: &&str| name(parameter).as_deref() == Some(PARAMETER);
    let (masks, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(is_mask);
    (masks.into_iter().map(|mask| mask.split_once('=').map_or("", |(_, text)| text)).collect(), rest.join("&"))
}

/// The mask of a request, from its query or its header; `None` for the whole answer.
pub(crate) fn mask(
    of_query: &[&str],
    headers: &HeaderMap,
    answer: &MessageDescriptor,
) -> Result<Option<FieldMask>, Refusal> {
    let decoded = of_query.iter().map(|text| percent::decode(&text.replace('+', " ")));
    let of_headers = headers.get_all(HEADER).iter().map(|text| text.to_str().ok().map(str::to_owned));
    let texts: Option<Vec<String>> = decoded.chain(of_headers).collect();
    let refuse = |problem: String| Refusal::field(PARAMETER, problem);
    let texts = texts.ok_or_else(|| refuse("it is not UTF-8, or its header is not ASCII".to_owned()))?;
    if texts.len() > 1 {
        return Err(refuse("it is there twice: write the paths into one, with commas".to_owned()));
    }
    let text = texts.first().map(String::as_str).unwrap_or_default();
    FieldMask::parse(text, answer).map_err(|error| refuse(error.to_string()))
}

/// The canonical JSON of a message, of which only the fields of the mask.
pub(crate) fn print(message: &DynamicMessage, mask: &FieldMask) -> Result<Vec<u8>, serde_json::Error> {
    let mut value = json::to_value(message)?;
    mask.retain_json(&mut value);
    Ok(json::bytes(&value))
}
