//! HTTP and JSON for gRPC services, as the `google.api.http` options of their methods describe it (AIP-127).
//!
//! A [`Transcoder`] is made from a descriptor set, and its service is in front of the gRPC services themselves: a request
//! becomes a gRPC request that is called in process, with the client's `authorization` and the extensions of its connection.
//! What may be called is therefore decided in one place, the layers of the gRPC services.
//!
//! # Requests
//!
//! - A field that the path captures has the decoded text of its segments. In a capture of several segments `%2F` remains
//!   as it is, so that an encoded slash never makes another resource name.
//! - With `body: "*"` the body is the whole request, otherwise a field or nothing. All other fields come from the query:
//!   `a.b=1` for nested fields, repeated parameters for repeated fields; enums by name. Names are `lowerCamel` or as in the
//!   proto file.
//! - `POST`, `PUT` and `PATCH` require `Content-Type: application/json`, also without a body. A form of another site cannot
//!   send it, and the response has no CORS headers.
//! - Unknown fields, duplicate members of objects, a field in path and query, and a singular parameter that is there twice
//!   are refused with the field's name. Bounds: [`MAX_BODY_BYTES`], [`MAX_QUERY_BYTES`], [`MAX_JSON_DEPTH`],
//!   [`MAX_JSON_VALUES`], [`MAX_FIELD_DEPTH`].
//!
//! # Responses
//!
//! The parameter `$fields`, or the header `X-Goog-FieldMask`, has a mask of the answer (AIP-157), as [`field_mask`] reads it.
//!
//! Canonical proto3 JSON with `lowerCamel` names, of which a `double` with 17 digits may be read with another last digit. 64-bit integers are strings, and default values are there, so that no
//! field vanishes.
//! Errors are `{"error": {"code", "status", "message", "details"}}` with the HTTP code of the status.
//!
//! The answer to a GET request has an `ETag`. With that tag in `If-None-Match` the answer is `304 Not Modified`, without a body,
//! as long as it would be the same.
//!
//! A server stream is a sequence of lines, each `{"result": …}`, or `{"error": …}` as the last one. With
//! `Accept: text/event-stream` it is a sequence of server-sent events: each message is the data of one, an error that of the
//! last one, whose name is `error`, and comments keep the connection alive. Each message is sent at once. A client that
//! disconnects ends the call.
//!
//! # Commands
//!
//! `FUZZ_SECONDS=60 FUZZ_SEED=7 cargo test --release -p fleetwright-transcoding fuzz` sends random paths, queries and bodies.
//! Without the variables the test is short.
//!
//! Reading order: [`Transcoder`], `http_rule` and `template` (what the options say), `routes`, `parameters` and `message` (from
//! a request to a message), `service`, `stream` and `error_body` (from an answer to a response).

mod codec;
mod entity_tag;
mod error_body;
mod http_rule;
mod json;
mod json_cache;
mod message;
mod parameters;
mod partial;
mod percent;
mod refusal;
mod routes;
mod scalar;
mod service;
mod stream;
mod template;
mod transcoder;

pub use json::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
pub use parameters::MAX_FIELD_DEPTH;
pub use routes::RouteError;
pub use service::{MAX_BODY_BYTES, MAX_QUERY_BYTES, TranscodingService};
pub use transcoder::Transcoder;

#[cfg(test)]
mod tests;
