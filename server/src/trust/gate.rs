//! The gate before every gRPC method and every page: what it takes to pass, and who has passed.
//!
//! Agents pass with whatever they show, because only their first message says for which cluster they speak; the session
//! service judges it then. Clients are judged here.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{Request as PageRequest, State};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use futures::future::BoxFuture;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::warn;

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
            match pass(&book, &mut request).await {
                Ok(()) => inner.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

async fn pass(book: &Book, request: &mut Request<Body>) -> Result<(), Status> {
    let path = request.uri().path();
    let needs = needs(path).ok_or_else(|| Status::unimplemented(format!("there is no method {path}")))?;
    let shown = shown(request);
    match needs {
        Needs::Nothing => {}
        Needs::Agent => {
            request.extensions_mut().insert(shown);
        }
        Needs::Client(scope) => match book.client(shown.token.as_deref(), scope).await {
            Ok(client) => {
                if let Some(client) = client {
                    request.extensions_mut().insert(client);
                }
            }
            Err(refusal) => return Err(refused(path, request.extensions().get::<Peer>(), &refusal)),
        },
    }
    Ok(())
}

fn refused(path: &str, peer: Option<&Peer>, refusal: &Refusal) -> Status {
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.address.to_string());
    warn!(path, peer, reason = %refusal, "a client is refused");
    Status::unauthenticated(format!("{refusal}; send `authorization: Bearer <token>`"))
}

fn shown(request: &Request<Body>) -> Shown {
    let certificate = request.extensions().get::<Peer>().and_then(|peer| peer.certificate.clone());
    Shown { token: bearer(request.headers()), certificate }
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
    if OPEN_PAGES.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let token = bearer(request.headers()).or_else(|| password(request.headers()));
    match book.client(token.as_deref(), Scope::Read).await {
        Ok(_) => next.run(request).await,
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
