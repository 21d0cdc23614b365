//! HTTP requests as calls of gRPC services in process.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use prost::bytes::Bytes;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::codec::EncodedCodec;
use crate::entity_tag;
use crate::error_body::{error_body, http_code};
use crate::refusal::Refusal;
use crate::stream::{Format, StreamBody};
use crate::transcoder::Transcoder;
use crate::{json, message, partial};

/// The most bytes of a body.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The most bytes of a query.
pub const MAX_QUERY_BYTES: usize = 16 * 1024;

/// Headers that the call has too: who calls, and for which trace. Cookies are not among them.
const FORWARDED: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::USER_AGENT,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The service of a [`Transcoder`] in front of gRPC services.
#[derive(Clone)]
pub struct TranscodingService<S> {
    transcoder: Transcoder,
    inner: S,
}

impl Transcoder {
    /// A service that answers HTTP requests by calls of `inner`, the gRPC services with their layers.
    #[must_use]
    pub fn service<S>(&self, inner: S) -> TranscodingService<S> {
        TranscodingService { transcoder: self.clone(), inner }
    }
}

impl Transcoder {
    /// The path of the gRPC method that a request of this HTTP method and path calls; `None` if it calls none.
    #[must_use]
    pub fn rpc_path(&self, method: &Method, path: &str) -> Option<&str> {
        self.table().find(method, path).ok().map(|(route, _)| route.rpc_path.path())
    }

    /// The response to a request that fails with `status`, in the form of all errors.
    #[must_use]
    pub fn error_response(&self, status: &Status) -> Response<Body> {
        failed(status, http_code(status.code()), self)
    }
}

impl<S> fmt::Debug for TranscodingService<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TranscodingService").finish_non_exhaustive()
    }
}

impl<S, B> tower::Service<Request<B>> for TranscodingService<S>
where
    S: GrpcService<Body> + Clone + Send + 'static,
    S::Future: Send,
    S::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Each call waits for a clone of the inner service.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { transcoder, inner } = self.clone();
        Box::pin(async move { Ok(answer(&transcoder, inner, request.map(Body::new)).await) })
    }
}

/// Why a request has no result.
enum Failure {
    /// It became no call.
    Refused(Refusal),
    Called(Status),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Called(status)
    }
}

async fn answer<S>(transcoder: &Transcoder, inner: S, request: Request<Body>) -> Response<Body>
where
    S: GrpcService<Body>,
    S::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<BoxError>,
{
    match call(transcoder, inner, request).await {
        Ok(response) => response,
        Err(Failure::Refused(refusal)) => {
            let mut response = failed(&refusal.status(transcoder.domain()), refusal.http, transcoder);
            let allow = refusal.allow.and_then(|allow| HeaderValue::from_str(&allow).ok());
            response.headers_mut().extend(allow.map(|allow| (header::ALLOW, allow)));
            response
        }
        Err(Failure::Called(status)) => failed(&status, http_code(status.code()), transcoder),
    }
}

async fn call<S>(transcoder: &Transcoder, inner: S, request: Request<Body>) -> Result<Response<Body>, Failure>
where
    S: GrpcService<Body>,
    S::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let (route, captures) = transcoder.table().find(&parts.method, parts.uri.path())?;
    let query = parts.uri.query().unwrap_or_default();
    if query.len() > MAX_QUERY_BYTES {
        return Err(Refusal::query_too_long(query.len(), MAX_QUERY_BYTES).into());
    }
    check_content(&parts.method, &parts.headers)?;
    let (masks, query) = partial::split(query);
    let mask = partial::mask(&masks, &parts.headers, &route.method.output())?;
    let message = message::build(route, &captures, &query, &read(body).await?)?;
    let metadata = MetadataMap::from_headers(forwarded(&parts.headers));
    let request = tonic::Request::from_parts(metadata, parts.extensions, message);
    // Only the services of this process answer, and they bound what they answer.
    let mut client = Grpc::new(inner).max_decoding_message_size(usize::MAX);
    let not_ready = |error| Status::unavailable(format!("the service is not ready: {}", Into::<BoxError>::into(error)));
    client.ready().await.map_err(not_ready)?;
    if !route.method.is_server_streaming() {
        let codec = EncodedCodec::new(route.method.output());
        let message = client.unary(request, route.rpc_path.clone(), codec).await?.into_inner();
        let tag = if parts.method == Method::GET { entity_tag::tag(&message) } else { None };
        let is_known = tag.as_ref().is_some_and(|tag| entity_tag::is_known(&parts.headers, tag));
        let mut response = if is_known {
            response(StatusCode::NOT_MODIFIED, "application/json", Body::empty())
        } else {
            let name = route.method.full_name();
            let unprinted = |status: Status| Status::internal(format!("the answer of {name}: {}", status.message()));
            let json = transcoder.answers().print(&route.method.output(), message, mask.as_ref()).map_err(unprinted)?;
            response(StatusCode::OK, "application/json", Body::new(http_body_util::Full::from(json)))
        };
        response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
        return Ok(response);
    }
    let format = if accepts_events(&parts.headers) { Format::events() } else { Format::Lines };
    let codec = EncodedCodec::new(route.method.output());
    let messages = client.server_streaming(request, route.rpc_path.clone(), codec).await?.into_inner();
    let content_type = format.content_type();
    let body = Body::new(StreamBody::new(messages, format, (route.method.output(), mask), transcoder.clone()));
    Ok(response(StatusCode::OK, content_type, body))
}

/// Only `application/json` is accepted where a method may change something: a form cannot have it, and a script of another
/// site asks the server first, which has no CORS headers.
fn check_content(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    if text(header::CONTENT_ENCODING).is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(Refusal::media_type("a body with a Content-Encoding is not accepted: send it without"));
    }
    if ![Method::POST, Method::PUT, Method::PATCH].contains(method) {
        return Ok(());
    }
    let essence = text(header::CONTENT_TYPE).and_then(|of| of.split(';').next()).map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(Refusal::media_type(&format!("a {method} must have Content-Type: application/json, also without a body")))
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::body_too_large(MAX_BODY_BYTES)),
        Err(error) => Err(Refusal::bad_request("INCOMPLETE_BODY", format!("the body cannot be read: {error}"))),
    }
}

fn forwarded(headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = HeaderMap::new();
    for name in FORWARDED {
        for value in headers.get_all(&name) {
            forwarded.append(name.clone(), value.clone());
        }
    }
    forwarded
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
    types.any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn failed(status: &Status, http: StatusCode, transcoder: &Transcoder) -> Response<Body> {
    let body = json::bytes(&error_body(status, http, transcoder.pool()));
    let mut response = response(http, "application/json", Body::new(http_body_util::Full::from(body)));
    let headers = response.headers_mut();
    if status.code() == Code::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let delay = status.get_details_retry_info().and_then(|info| info.retry_delay);
    // The header has whole seconds: a client must not come too early.
    let seconds = delay.map(|delay| delay.as_secs() + u64::from(delay.subsec_nanos() > 0));
    headers.extend(seconds.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
    response
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
