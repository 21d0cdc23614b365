//! The gate before every gRPC method and every page: what it takes to pass, and who has passed.
//!
//! Only an agent's first message says for which cluster it speaks, and the session service judges it then. To get that far it
//! must show a certificate or the token of an issuer that some agent of the trust file has, and until it is admitted no more
//! than that message is read. Clients are judged here, and again while an answer lasts.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{Request as PageRequest, State};
use axum::http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use futures::StreamExt;
use futures::future::BoxFuture;
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::warn;

use super::admission::Admission;
use super::book::{Book, Shown};
use super::tls::Peer;
use super::{Refusal, Scope};

/// What a method asks of whoever calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// To be the agent of a cluster; judged when it says of which.
    Agent,
    /// To be a client with at least this scope.
    Client(Scope),
}

/// Every method, by its path. One that is missing is refused to everybody.
const METHODS: &[(&str, Needs)] = &[
    ("/fleetwright.v1.AgentService/Connect", Needs::Agent),
    ("/fleetwright.v1.FleetService/ListClusters", Needs::Client(Scope::Read)),
    ("/fleetwright.v1.FleetService/Watch", Needs::Client(Scope::Read)),
    ("/fleetwright.v1.FleetService/Freeze", Needs::Client(Scope::Operate)),
    ("/fleetwright.v1.FleetService/Thaw", Needs::Client(Scope::Operate)),
    ("/fleetwright.v1.FleetService/ListFreezes", Needs::Client(Scope::Read)),
    ("/fleetwright.v1.FleetService/ReleaseQuarantine", Needs::Client(Scope::Operate)),
    ("/fleetwright.v1.FleetService/AcceptClusterUid", Needs::Client(Scope::Operate)),
    ("/fleetwright.v1.FleetService/ConfirmRemovals", Needs::Client(Scope::Operate)),
    ("/fleetwright.v1.FleetService/ListDecisions", Needs::Client(Scope::Read)),
    ("/fleetwright.v1.FleetService/ReadLog", Needs::Client(Scope::Read)),
    ("/fleetwright.v1.FleetService/ReadContent", Needs::Client(Scope::Read)),
    ("/fleetwright.v1.FleetService/ListAudit", Needs::Client(Scope::Admin)),
    ("/grpc.health.v1.Health/Check", Needs::Nothing),
    ("/grpc.health.v1.Health/Watch", Needs::Nothing),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Needs::Client(Scope::Read)),
];

/// What the method at `path` needs; `None` when there is no such method.
pub(crate) fn needs(path: &str) -> Option<Needs> {
    METHODS.iter().find(|(method, _)| *method == path).map(|(_, needs)| *needs)
}

/// Puts the gate before a gRPC service.
#[derive(Clone)]
pub(crate) struct GateLayer(pub(crate) Arc<Book>);

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { book: Arc::clone(&self.0), inner }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    book: Arc<Book>,
    inner: S,
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The clone that was not asked whether it is ready stays behind.
        let behind = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, behind);
        let book = Arc::clone(&self.book);
        Box::pin(async move {
            let lasts = match pass(&book, &mut request).await {
                Ok(lasts) => lasts,
                Err(status) => return Ok(status.into_http()),
            };
            let response = inner.call(request).await?;
            Ok(match lasts {
                Some((token, scope)) => response.map(|body| while_trusted(body, book, token, scope)),
                None => response,
            })
        })
    }
}

/// Whether a request to a server that asks nobody who they are was meant for this machine. A web page from elsewhere whose name
/// was made to lead here would otherwise read the fleet through its visitor's browser.
fn local(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let header = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let asked = uri.authority().map(|authority| authority.as_str()).or_else(|| header(header::HOST));
    let origin = header(header::ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    for (what, host) in [("Host", asked), ("Origin", origin)] {
        if let Some(host) = host.filter(|host| !is_local(host)) {
            return Err(Refusal(format!(
                "{what} {host:?} is not this machine, and without trust.file this server answers requests for localhost only"
            )));
        }
    }
    Ok(())
}

fn is_local(host: &str) -> bool {
    let address = host.parse::<SocketAddr>().map(|address| address.ip());
    let address = address.or_else(|_| host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>());
    let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
    address.map_or_else(|_| name.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

/// What a client showed and needs, for as long as it is answered.
type Lasts = Option<(Option<String>, Scope)>;

async fn pass(book: &Book, request: &mut Request<Body>) -> Result<Lasts, Status> {
    if !book.asks() {
        local(request.uri(), request.headers()).map_err(|refusal| Status::permission_denied(refusal.to_string()))?;
    }
    let path = request.uri().path();
    let needs = needs(path).ok_or_else(|| Status::unimplemented(format!("there is no method {path}")))?;
    let shown = shown(request);
    let place = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.place));
    match needs {
        Needs::Nothing => {
            place.iter().for_each(|place| place.known());
            Ok(None)
        }
        Needs::Agent => {
            if let Err(refusal) = book.could_be_an_agent(&shown) {
                let peer = address(request.extensions().get::<Peer>());
                warn!(peer, reason = %refusal, "an agent is refused");
                return Err(Status::unauthenticated(NOT_AN_AGENT));
            }
            let stream = match &place {
                Some(place) => Some(place.begin_agent().ok_or_else(one_stream)?),
                None => None,
            };
            let admission = Admission::of(stream);
            let body = std::mem::take(request.body_mut());
            *request.body_mut() = admission.guard(body);
            request.extensions_mut().insert(shown);
            request.extensions_mut().insert(admission);
            Ok(None)
        }
        Needs::Client(scope) => match book.client(shown.token.as_deref(), scope).await {
            Ok(_) if !place.is_none_or(|place| place.admit_client()) => Err(full()),
            Ok(Some(client)) => {
                request.extensions_mut().insert(client);
                Ok(Some((shown.token, scope)))
            }
            Ok(None) => Ok(None),
            Err(refusal) => Err(refused(path, request.extensions().get::<Peer>(), &refusal)),
        },
    }
}

/// What an agent hears whose stream is ended because it may not speak for its cluster any more.
pub(crate) const AGENT_NO_LONGER: &str = "what opened this stream does not prove the cluster any more, because it has expired or \
    the trust file has changed; connect again with a fresh token or certificate";
/// What everybody hears who may not speak for a cluster: the same for clusters that exist and for others.
pub(crate) const NOT_AN_AGENT: &str =
    "not trusted to speak for cluster: what was shown does not prove it, and the server's log says why";

fn one_stream() -> Status {
    Status::resource_exhausted("a connection carries one Connect stream at a time; open another connection")
}

/// Every place of admitted peers is taken.
pub(crate) fn full() -> Status {
    Status::resource_exhausted(
        "this server has as many connections as its limit of open files allows; raise the limit, or add a replica",
    )
}

/// `body` to its end, or until its reader is trusted no longer. Asked again when the trust file changes, and every minute.
fn while_trusted(body: Body, book: Arc<Book>, token: Option<String>, scope: Scope) -> Body {
    let frames = BodyStream::new(body);
    let refused = Box::pin(async move { until_refused(&book, token.as_deref(), scope).await });
    let rest = futures::stream::unfold(Some((frames, refused)), async |left| {
        let (mut frames, mut refused) = left?;
        tokio::select! {
            frame = frames.next() => Some((frame?, Some((frames, refused)))),
            refusal = &mut refused => Some((Ok(last(&refusal)), None)),
        }
    });
    Body::new(StreamBody::new(rest))
}

async fn until_refused(book: &Book, token: Option<&str>, scope: Scope) -> Refusal {
    let mut changes = book.changes();
    loop {
        book.may_have_changed(&mut changes, None).await;
        if let Err(refusal) = book.client(token, scope).await {
            warn!(reason = %refusal, "an answer to a client is cut short");
            return refusal;
        }
    }
}

/// The trailers that tell a client why its answer ends.
fn last<D>(refusal: &Refusal) -> Frame<D> {
    let status = Status::unauthenticated(refusal.to_string());
    let (head, _) = status.into_http::<Body>().into_parts();
    Frame::trailers(head.headers)
}

fn address(peer: Option<&Peer>) -> String {
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.address.to_string())
}

fn refused(path: &str, peer: Option<&Peer>, refusal: &Refusal) -> Status {
    let peer = address(peer);
    warn!(path, peer, reason = %refusal, "a client is refused");
    Status::unauthenticated(format!("{refusal}; send `authorization: Bearer <token>`"))
}

fn shown(request: &Request<Body>) -> Shown {
    let certificates = request.extensions().get::<Peer>().map(|peer| peer.certificates.clone());
    Shown { token: bearer(request.headers()), certificates: certificates.unwrap_or_default() }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Pages that need nothing: whoever runs the server asks them without a token.
const OPEN_PAGES: [&str; 2] = ["/healthz", "/readyz"];

/// Stands before every page. Browsers send the token as the password of HTTP Basic authentication, under any name.
pub(crate) async fn before_pages(
    State(book): State<Arc<Book>>,
    request: PageRequest,
    next: Next,
) -> axum::response::Response {
    if !book.asks()
        && let Err(refusal) = local(request.uri(), request.headers())
    {
        return (StatusCode::FORBIDDEN, format!("{refusal}\n")).into_response();
    }
    let place = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.place));
    if OPEN_PAGES.contains(&request.uri().path()) {
        place.iter().for_each(|place| place.known());
        return next.run(request).await;
    }
    let token = bearer(request.headers()).or_else(|| password(request.headers()));
    match book.client(token.as_deref(), Scope::Read).await {
        Ok(_) if !place.is_none_or(|place| place.admit_client()) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", full().message())).into_response()
        }
        Ok(None) => next.run(request).await,
        Ok(Some(_)) => {
            let response = next.run(request).await;
            response.map(|body| {
                let trusted = async move { drop(until_refused(&book, token.as_deref(), Scope::Read).await) };
                axum::body::Body::from_stream(body.into_data_stream().take_until(Box::pin(trusted)))
            })
        }
        Err(refusal) => {
            warn!(path = request.uri().path(), reason = %refusal, "a reader of the page is refused");
            let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"fleetwright\", charset=\"UTF-8\"")];
            (StatusCode::UNAUTHORIZED, challenge, format!("{refusal}\n")).into_response()
        }
    }
}

fn password(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests;
