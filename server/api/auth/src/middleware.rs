//! Authorizes every gRPC method and every page. Which scope calls a method of the API is said by its option in `proto/`.
//!
//! An agent names its cluster only in its first message, so the session service authorizes it then.
//! To get that far it must present a certificate or a token of an issuer in the trust file; until
//! admission nothing beyond that message is read. Clients are authorized here, and checked again
//! while a response is streamed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use axum::extract::{Request as PageRequest, State};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use fleetwright_proto::{DESCRIPTOR_SET, v1};
use futures::future::BoxFuture;
use http_body::Frame;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::warn;

use super::admission::Admission;
use super::authorizer::{Authorizer, PresentedCredentials};
use super::browser_session::PresentedSession;
use super::connections::{Claimant, ConnectionSlot, NoSlot};
use super::revocable_body::RevocableBody;
use super::same_origin::{check_local, check_same_origin};
use super::tls::Peer;
use super::{AuthError, Client, ClientDenial, Scope};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessRequirement {
    /// No authentication.
    Public,
    /// Agent of a cluster; authorized once the cluster is known.
    Agent,
    /// Client with at least this scope.
    Client(Scope),
}

/// Scope of every method of the API that has one, by path.
static SCOPES: LazyLock<BTreeMap<String, Scope>> = LazyLock::new(|| scopes(DESCRIPTOR_SET));

/// The option `fleetwright.v1.access` of the methods in a descriptor set. Of a set that is not readable nobody calls any.
pub(crate) fn scopes(descriptor_set: &[u8]) -> BTreeMap<String, Scope> {
    let Ok(pool) = DescriptorPool::decode(descriptor_set) else { return BTreeMap::new() };
    let Some(option) = pool.get_extension_by_name("fleetwright.v1.access") else { return BTreeMap::new() };
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let scope = |method: MethodDescriptor| {
        let access = method.options().get_extension(&option).as_enum_number()?;
        let scope = match v1::Access::try_from(access).ok()? {
            v1::Access::Unspecified => return None,
            v1::Access::Read => Scope::Read,
            v1::Access::Plan => Scope::Plan,
            v1::Access::Operate => Scope::Operate,
            v1::Access::Admin => Scope::Admin,
        };
        Some((format!("/{}/{}", method.parent_service().full_name(), method.name()), scope))
    };
    methods.filter_map(scope).collect()
}

/// Requirement of the method at `path`; `None`, which is rejected, for an unknown method and for one that names no access.
pub(crate) fn requirement_for(path: &str) -> Option<AccessRequirement> {
    match path {
        "/fleetwright.v1.AgentService/Connect" => Some(AccessRequirement::Agent),
        "/grpc.health.v1.Health/Check" | "/grpc.health.v1.Health/Watch" => Some(AccessRequirement::Public),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
            Some(AccessRequirement::Client(Scope::Read))
        }
        _ => SCOPES.get(path).copied().map(AccessRequirement::Client),
    }
}

/// Tower layer of [`AuthService`].
#[derive(Clone)]
pub struct AuthLayer(pub Arc<Authorizer>);

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService { authorizer: Arc::clone(&self.0), inner }
    }
}

#[derive(Clone)]
pub struct AuthService<S> {
    authorizer: Arc<Authorizer>,
    inner: S,
}

impl<S> Service<Request<Body>> for AuthService<S>
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
        // Tower: only the instance that was polled ready may be called; its clone is polled later.
        let unpolled = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, unpolled);
        let authorizer = Arc::clone(&self.authorizer);
        Box::pin(async move {
            // Before the authorization: a change after it is not missed, however late the response is read.
            let changes = authorizer.changes();
            let grant = match authorize_request(&authorizer, &mut request).await {
                Ok(grant) => grant,
                Err(status) => return Ok(status.into_http()),
            };
            let response = inner.call(request).await?;
            Ok(match grant {
                Some((credentials, scope)) => {
                    response.map(|body| end_when_revoked(body, (authorizer, changes), credentials, scope))
                }
                None => response,
            })
        })
    }
}

/// Credentials and scope of a client, checked again while the response is streamed.
type ClientGrant = Option<(PresentedCredentials, Scope)>;

async fn authorize_request(authorizer: &Authorizer, request: &mut Request<Body>) -> Result<ClientGrant, Status> {
    check_origin(authorizer, request.uri(), request.headers())
        .map_err(|denial| Status::permission_denied(denial.to_string()))?;
    let path = request.uri().path();
    let requirement = requirement_for(path).ok_or_else(|| Status::unimplemented(format!("unknown method {path}")))?;
    let authorized = request.extensions().get::<PresentedCredentials>().cloned();
    let credentials = authorized.unwrap_or_else(|| presented_credentials(request));
    let slot = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.slot));
    // A slot is taken only after authorization, so unauthenticated peers cannot exhaust them.
    match requirement {
        AccessRequirement::Public => {
            slot.iter().for_each(|slot| slot.mark_active());
            Ok(None)
        }
        AccessRequirement::Agent => {
            if let Err(denial) = authorizer.precheck_agent(&credentials) {
                let peer = address(request.extensions().get::<Peer>());
                warn!(peer, reason = %denial, "agent rejected");
                return Err(Status::unauthenticated(AGENT_REJECTED));
            }
            let stream = match &slot {
                Some(slot) => Some(slot.open_agent_stream().ok_or_else(one_stream)?),
                None => None,
            };
            let admission = Admission::of(stream);
            let body = std::mem::take(request.body_mut());
            *request.body_mut() = admission.limit_body(body);
            request.extensions_mut().insert(credentials);
            request.extensions_mut().insert(admission);
            Ok(None)
        }
        AccessRequirement::Client(scope) => match authorizer.authorize_client(&credentials, scope).await {
            Ok(client) => {
                admit(slot.as_deref(), client.as_ref())?;
                let Some(client) = client else { return Ok(None) };
                request.extensions_mut().insert(client);
                Ok(Some((credentials, scope)))
            }
            Err(denial) => Err(rejected(path, request.extensions().get::<Peer>(), &denial)),
        },
    }
}

/// Status of a stream that is closed because its agent is no longer authorized.
pub const AGENT_REVOKED: &str = "no longer authorized for this cluster: the credentials have expired or the trust file has \
    changed; reconnect with a current token or certificate";
/// Status of a rejected agent; equal for existing and unknown clusters.
pub const AGENT_REJECTED: &str =
    "not authorized for this cluster: the credentials do not match the trust file; the server's log has the reason";

fn one_stream() -> Status {
    Status::resource_exhausted("this connection already has a Connect stream; open another connection")
}

/// Takes a slot for the client of a request.
fn admit(slot: Option<&ConnectionSlot>, client: Option<&Client>) -> Result<(), Status> {
    let Some(slot) = slot else { return Ok(()) };
    let claimant = Claimant {
        name: client.filter(|client| !client.is_replica).map(|client| &*client.name),
        operates: client.is_none_or(|client| client.is_replica || client.scope >= Scope::Operate),
    };
    slot.admit_client(claimant).map_err(|why| match why {
        NoSlot::Full => full(),
        NoSlot::Share(held) => Status::resource_exhausted(format!(
            "{} has {held} connections open, its share; close some, or send several requests on one",
            claimant.name.unwrap_or_default()
        )),
    })
}

/// Checks that the client of a page may call the method at `path`, which is called by the request when its body has been read.
///
/// # Errors
/// `PERMISSION_DENIED`; methods that are not known are left to the call.
pub fn check_scope(path: &str, client: Option<&Client>) -> Result<(), Status> {
    match (requirement_for(path), client) {
        (Some(AccessRequirement::Client(needed)), Some(client)) if client.scope < needed => {
            Err(Status::permission_denied(client.lacks(needed)))
        }
        _ => Ok(()),
    }
}

/// Status when every admitted slot is in use.
pub fn full() -> Status {
    Status::resource_exhausted(
        "connection limit reached, derived from the limit of open files; raise that limit or add a replica",
    )
}

/// Streams `body` until its client is no longer authorized. Checked again when the trust file
/// changes, and every minute.
fn end_when_revoked(
    body: Body,
    (authorizer, changes): (Arc<Authorizer>, watch::Receiver<u64>),
    credentials: PresentedCredentials,
    scope: Scope,
) -> Body {
    let denied = async move { wait_until_denied(&authorizer, changes, &credentials, scope).await };
    Body::new(RevocableBody::new(body, denied, |denial| Some(denial_trailers(denial))))
}

/// `changes` was subscribed to before the client was authorized.
async fn wait_until_denied(
    authorizer: &Authorizer,
    mut changes: watch::Receiver<u64>,
    credentials: &PresentedCredentials,
    scope: Scope,
) -> ClientDenial {
    loop {
        authorizer.recheck_due(&mut changes, None).await;
        if let Err(denial) = authorizer.authorize_client(credentials, scope).await {
            warn!(reason = %denial, "closing response: client no longer authorized");
            return denial;
        }
    }
}

/// Trailers that carry the reason for the end of a response.
fn denial_trailers<D>(denial: &ClientDenial) -> Frame<D> {
    let (head, _) = denial_status(denial, denial.to_string()).into_http::<Body>().into_parts();
    Frame::trailers(head.headers)
}

fn address(peer: Option<&Peer>) -> String {
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.address.to_string())
}

fn rejected(path: &str, peer: Option<&Peer>, denial: &ClientDenial) -> Status {
    let peer = address(peer);
    warn!(path, peer, reason = %denial, "client rejected");
    match denial {
        ClientDenial::Unauthenticated(_) => {
            denial_status(denial, format!("{denial}; send `authorization: Bearer <token>`"))
        }
        ClientDenial::Scope(_) => denial_status(denial, denial.to_string()),
    }
}

fn denial_status(denial: &ClientDenial, message: String) -> Status {
    match denial {
        ClientDenial::Unauthenticated(_) => Status::unauthenticated(message),
        ClientDenial::Scope(_) => Status::permission_denied(message),
    }
}

/// Some clients send the token as the password of HTTP Basic authentication.
fn presented_credentials<B>(request: &Request<B>) -> PresentedCredentials {
    let headers = request.headers();
    let token = bearer(headers).or_else(|| password(headers));
    let certificates = request.extensions().get::<Peer>().map(|peer| peer.certificates.clone());
    let session = PresentedSession::of(headers);
    PresentedCredentials { token, certificates: certificates.unwrap_or_default(), session }
}

/// With authentication pages of other origins are refused; without, also other hosts.
fn check_origin(authorizer: &Authorizer, uri: &Uri, headers: &HeaderMap) -> Result<(), AuthError> {
    if authorizer.enforces() { check_same_origin(uri, headers) } else { check_local(uri, headers) }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// The response to a request of a path that is refused with a status.
pub type Refusal = dyn Fn(&str, &Status) -> axum::response::Response + Send + Sync;

/// How pages are authorized, and how a refusal is told.
#[derive(Clone)]
pub struct PageAccess {
    pub authorizer: Arc<Authorizer>,
    /// Paths of the API have errors of one form.
    pub refuse: Arc<Refusal>,
}

impl PageAccess {
    /// Tells refusals as plain text.
    pub fn in_text(authorizer: Arc<Authorizer>) -> Self {
        Self { authorizer, refuse: Arc::new(|_, status| in_text(status)) }
    }
}

impl fmt::Debug for PageAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageAccess").finish_non_exhaustive()
    }
}

/// A refusal as plain text.
#[must_use]
pub fn in_text(status: &Status) -> axum::response::Response {
    let http = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (http, format!("{}\n", status.message())).into_response()
}

/// Serves pages without secrets to everybody: health, the files of the dashboard, the sign-in.
pub async fn public_page(
    State(access): State<PageAccess>,
    request: PageRequest,
    next: Next,
) -> axum::response::Response {
    if !access.authorizer.enforces()
        && let Err(denial) = check_local(request.uri(), request.headers())
    {
        return (access.refuse)(request.uri().path(), &Status::permission_denied(denial.to_string()));
    }
    if let Some(peer) = request.extensions().get::<Peer>() {
        peer.slot.mark_active();
    }
    next.run(request).await
}

/// Authorizes every other page: by bearer token, by the token as the password of HTTP Basic authentication with any user name,
/// or by the session of a browser. The client is an extension of the request.
pub async fn authorize_page(
    State(PageAccess { authorizer, refuse }): State<PageAccess>,
    mut request: PageRequest,
    next: Next,
) -> axum::response::Response {
    if let Err(denial) = check_origin(&authorizer, request.uri(), request.headers()) {
        return refuse(request.uri().path(), &Status::permission_denied(denial.to_string()));
    }
    let slot = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.slot));
    let credentials = presented_credentials(&request);
    let changes = authorizer.changes();
    let client = match authorizer.authorize_client(&credentials, Scope::Read).await {
        Ok(client) => client,
        Err(denial) => {
            warn!(path = request.uri().path(), reason = %denial, "page request rejected");
            let mut response = refuse(request.uri().path(), &denial_status(&denial, denial.to_string()));
            // A browser that is challenged for a password would ask for it instead of showing the sign-in.
            let challenge = HeaderValue::from_static("Bearer realm=\"fleetwright\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            return response;
        }
    };
    // A slot is taken only after authorization, so unauthenticated peers cannot exhaust them.
    if let Err(full) = admit(slot.as_deref(), client.as_ref()) {
        return refuse(request.uri().path(), &Status::unavailable(full.message()));
    }
    let Some(client) = client else { return next.run(request).await };
    request.extensions_mut().insert(client);
    // For the method behind the page, which does not get all headers.
    request.extensions_mut().insert(credentials.clone());
    let response = next.run(request).await;
    response.map(|body| {
        let denied = async move { wait_until_denied(&authorizer, changes, &credentials, Scope::Read).await };
        axum::body::Body::new(RevocableBody::new(body, denied, |_| None))
    })
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
