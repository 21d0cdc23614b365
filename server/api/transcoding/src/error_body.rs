//! Statuses as HTTP codes and JSON.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Map, Value, json};
use tonic::{Code, Status};

use crate::json;

/// The messages of `google/rpc/error_details.proto`.
static DETAILS: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).ok());

/// The HTTP code of a status, as `google/rpc/code.proto` has it.
pub(crate) fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        // "Client closed request", which is no registered code.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The name of a code, as `google/rpc/code.proto` has it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// `{"error": …}` with this HTTP code. `pool` has the types of details that are the services' own.
pub(crate) fn error_body(status: &Status, http: StatusCode, pool: &DescriptorPool) -> Value {
    let error = json!({
        "code": http.as_u16(),
        "status": name(status.code()),
        "message": status.message(),
        "details": details(status, pool),
    });
    json!({ "error": error })
}

fn details(status: &Status, pool: &DescriptorPool) -> Vec<Value> {
    let decoded = tonic_types::pb::Status::decode(status.details()).unwrap_or_default();
    decoded.details.iter().map(|any| detail(&any.type_url, &any.value, pool)).collect()
}

/// The JSON of an Any. The bytes are in base64 when their type is not known.
fn detail(type_url: &str, bytes: &[u8], pool: &DescriptorPool) -> Value {
    let mut detail = Map::from_iter([("@type".to_owned(), Value::from(type_url))]);
    match known(type_url, bytes, pool) {
        Some(Value::Object(fields)) => detail.extend(fields),
        Some(other) => drop(detail.insert("value".to_owned(), other)),
        None => drop(detail.insert("value".to_owned(), Value::from(STANDARD.encode(bytes)))),
    }
    Value::Object(detail)
}

fn known(type_url: &str, bytes: &[u8], pool: &DescriptorPool) -> Option<Value> {
    let (_, name) = type_url.rsplit_once('/')?;
    let of_details = || DETAILS.as_ref()?.get_message_by_name(name);
    let message = of_details().or_else(|| pool.get_message_by_name(name))?;
    json::to_value(&DynamicMessage::decode(message, bytes).ok()?).ok()
}
