//! SSM: GetParameter and GetParameters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api_error::ApiError;

/// Maximum number of names of GetParameters (API reference).
const MAX_NAMES: usize = 10;

/// Answers an action of SSM; `None` for one that is not simulated.
pub(crate) fn answer(
    parameters: &BTreeMap<String, String>,
    action: &str,
    body: &Value,
) -> Option<Result<Value, ApiError>> {
    Some(match action {
        "GetParameter" => get(parameters, body),
        "GetParameters" => get_all(parameters, body),
        _ => return None,
    })
}

fn get(parameters: &BTreeMap<String, String>, body: &Value) -> Result<Value, ApiError> {
    let name = body["Name"].as_str().ok_or_else(|| ApiError::new("ValidationException", "Name is missing"))?;
    let value = parameters.get(name).ok_or_else(|| ApiError::new("ParameterNotFound", ""))?;
    Ok(json!({ "Parameter": shown(name, value) }))
}

fn get_all(parameters: &BTreeMap<String, String>, body: &Value) -> Result<Value, ApiError> {
    let names: Vec<&str> = body["Names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !(1..=MAX_NAMES).contains(&names.len()) {
        let message = format!("{} names, where 1 to {MAX_NAMES} are allowed", names.len());
        return Err(ApiError::new("ValidationException", message));
    }
    let (known, unknown): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| parameters.contains_key(*name));
    let found: Vec<Value> = known.into_iter().map(|name| shown(name, &parameters[name])).collect();
    Ok(json!({ "Parameters": found, "InvalidParameters": unknown }))
}

fn shown(name: &str, value: &str) -> Value {
    json!({ "Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "text" })
}
