//! HTTP responses.

use http::Response;

pub(super) fn plain(status: u16, body: &str) -> Response<String> {
    respond(status, "text/plain", body.to_owned())
}

pub(super) fn respond(status: u16, content_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(content_type));
    response
}
