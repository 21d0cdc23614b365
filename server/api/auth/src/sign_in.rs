//! Signs browsers in and out: `/session`, beside the dashboard. A token signs in at once, and OpenID Connect through its redirect.
//!
//! | request | result |
//! |---|---|
//! | `GET /session` | who is signed in, and how a browser can sign in |
//! | `POST /session` with `{"token": …}` | a session: its cookie, and its key in the body |
//! | `DELETE /session` | the session ends at all replicas |
//! | `GET /session/oidc?path=…` | redirect to the identity provider |
//! | `GET /session/oidc/return` | a session, and redirect to the path with the key in the fragment, which no server sees |

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::authorizer::{Authorizer, IdentifiedClient};
use super::browser_session::{self, LIFETIME, PresentedSession, SessionSecrets, cookie};
use super::oidc::{self, OidcClient, PendingSignIn, RETURN_PATH};
use super::same_origin::check_same_origin;
use super::{AuthError, Client};

/// A token has at most 16 KiB.
const MAX_BODY_BYTES: usize = 20 * 1024;

/// Time between the redirect and the return, in seconds.
const PENDING_S: u64 = 600;

#[derive(Clone)]
struct SignIn {
    authorizer: Arc<Authorizer>,
    oidc: Arc<OidcClient>,
}

pub fn router(authorizer: Arc<Authorizer>) -> Router {
    Router::new()
        .route("/session", get(status).post(create).delete(end))
        .route("/session/oidc", get(begin_oidc))
        .route(RETURN_PATH, get(finish_oidc))
        .with_state(SignIn { authorizer, oidc: Arc::default() })
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionStatus {
    /// Whether the API answers: false when a sign-in is needed.
    is_authorized: bool,
    /// Name of the client; empty without authentication.
    client: String,
    scope: String,
    /// When the session ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_time: Option<Timestamp>,
    /// How a browser can sign in: `token`, `oidc`.
    methods: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Deserialize)]
struct TokenSignIn {
    token: String,
}

#[derive(Deserialize)]
struct OidcBegin {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
struct OidcReturn {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
}

#[derive(Debug, thiserror::Error)]
enum SignInError {
    /// The request is that of a page of another origin.
    #[error(transparent)]
    Origin(AuthError),
    #[error(transparent)]
    Credentials(#[from] AuthError),
}

impl IntoResponse for SignInError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Origin(_) => StatusCode::FORBIDDEN,
            Self::Credentials(_) => StatusCode::UNAUTHORIZED,
        };
        let message = serde_json::json!({ "error": { "code": status.as_u16(), "message": self.to_string() } });
        (status, Json(message)).into_response()
    }
}

fn signed_in(client: &Client, expires_ms: i64) -> SessionStatus {
    SessionStatus {
        is_authorized: true,
        client: client.name.clone(),
        scope: client.scope.to_string(),
        expire_time: Timestamp::from_millisecond(expires_ms).ok(),
        ..SessionStatus::default()
    }
}

async fn status(State(sign_in): State<SignIn>, headers: HeaderMap) -> Json<SessionStatus> {
    let authorizer = &sign_in.authorizer;
    if !authorizer.enforces() {
        return Json(SessionStatus { is_authorized: true, scope: "admin".to_owned(), ..SessionStatus::default() });
    }
    let session = match PresentedSession::of(&headers) {
        Some(presented) => authorizer.client_of_session(&presented).await.ok(),
        None => None,
    };
    let status =
        session.map_or_else(SessionStatus::default, |(client, session)| signed_in(&client, session.expires_ms));
    let methods = if authorizer.oidc().is_some() { vec!["oidc", "token"] } else { vec!["token"] };
    Json(SessionStatus { methods, ..status })
}

async fn create(State(sign_in): State<SignIn>, request: Request) -> Result<Response, SignInError> {
    check_same_origin(request.uri(), request.headers()).map_err(SignInError::Origin)?;
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let body = body.map_err(|_| AuthError(format!("the body has more than {MAX_BODY_BYTES} bytes")))?;
    let TokenSignIn { token } =
        serde_json::from_slice(&body).map_err(|_| AuthError("the body is not {\"token\": …}".to_owned()))?;
    let (secrets, status) = start(&sign_in.authorizer, token.trim()).await?;
    let status = SessionStatus { key: Some(secrets.key), ..status };
    Ok(([session_cookie(&secrets.id, LIFETIME.as_secs())?], no_store(), Json(status)).into_response())
}

async fn end(State(sign_in): State<SignIn>, request: Request) -> Result<Response, SignInError> {
    check_same_origin(request.uri(), request.headers()).map_err(SignInError::Origin)?;
    let authorizer = &sign_in.authorizer;
    if let Some(presented) = PresentedSession::of(request.headers()) {
        let (client, session) = authorizer.client_of_session(&presented).await?;
        authorizer.browser_sessions()?.end(&session).await?;
        info!(client = client.name, "signed out");
    }
    Ok((StatusCode::NO_CONTENT, [session_cookie("", 0)?]).into_response())
}

async fn begin_oidc(State(sign_in): State<SignIn>, Query(OidcBegin { path }): Query<OidcBegin>) -> Response {
    let redirect = async {
        let oidc = sign_in.authorizer.oidc().ok_or_else(|| AuthError("the trust file has no [oidc]".to_owned()))?;
        let pending = PendingSignIn::new(&path)?;
        let url = sign_in.oidc.authorization_url(oidc, &pending).await?;
        // Lax: the return is a navigation from the identity provider.
        let cookie = set_cookie(oidc::COOKIE, &pending.to_cookie(), "Lax", PENDING_S)?;
        Ok(([cookie, (header::LOCATION, header_value(&url)?)], no_store(), StatusCode::SEE_OTHER))
    };
    redirect
        .await
        .map_or_else(|error| refused(&error), |(headers, no_store, status)| (status, headers, no_store).into_response())
}

async fn finish_oidc(State(sign_in): State<SignIn>, Query(back): Query<OidcReturn>, headers: HeaderMap) -> Response {
    let redirect = async {
        let oidc = sign_in.authorizer.oidc().ok_or_else(|| AuthError("the trust file has no [oidc]".to_owned()))?;
        let pending =
            cookie(&headers, oidc::COOKIE).and_then(|cookie| PendingSignIn::from_cookie(&cookie, &back.state));
        let pending = pending
            .ok_or_else(|| AuthError("this browser has begun no such sign-in in the last ten minutes".to_owned()))?;
        if !back.error.is_empty() {
            return Err(AuthError(format!("the identity provider refused: {:?}", back.error)));
        }
        let path = pending.path().to_owned();
        let token = sign_in.oidc.id_token(oidc, pending, back.code).await?;
        let (secrets, _) = start(&sign_in.authorizer, &token).await?;
        let location = header_value(&format!("{path}#session-key={}", secrets.key))?;
        let session = session_cookie(&secrets.id, LIFETIME.as_secs())?;
        let mut headers = HeaderMap::from_iter([(header::LOCATION, location)]);
        for (name, value) in [session, set_cookie(oidc::COOKIE, "", "Lax", 0)?] {
            headers.append(name, value);
        }
        Ok((headers, no_store(), StatusCode::SEE_OTHER))
    };
    redirect
        .await
        .map_or_else(|error| refused(&error), |(headers, no_store, status)| (status, headers, no_store).into_response())
}

/// A session of the client with this token. It ends with the token at the latest.
async fn start(authorizer: &Authorizer, token: &str) -> Result<(SessionSecrets, SessionStatus), AuthError> {
    let identified =
        authorizer.identify_client(token).await.inspect_err(|error| warn!(reason = %error, "sign-in rejected"))?;
    let IdentifiedClient { client, credential: Some(credential), ends_at } = identified else {
        return Err(AuthError("a replica does not sign in".to_owned()));
    };
    let latest = SystemTime::now() + LIFETIME;
    let end = ends_at.map_or(latest, |ends_at| ends_at.min(latest));
    let expires_ms =
        end.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let status = signed_in(&client, expires_ms);
    info!(client = client.name, scope = %client.scope, "signed in");
    let secrets = authorizer.browser_sessions()?.create(client.name, credential, expires_ms).await?;
    Ok((secrets, status))
}

fn session_cookie(id: &str, max_age_s: u64) -> Result<(header::HeaderName, HeaderValue), AuthError> {
    set_cookie(browser_session::COOKIE, id, "Strict", max_age_s)
}

fn set_cookie(
    name: &str,
    value: &str,
    same_site: &str,
    max_age_s: u64,
) -> Result<(header::HeaderName, HeaderValue), AuthError> {
    let cookie = format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={same_site}; Max-Age={max_age_s}");
    Ok((header::SET_COOKIE, header_value(&cookie)?))
}

fn header_value(text: &str) -> Result<HeaderValue, AuthError> {
    HeaderValue::from_str(text).map_err(|_| AuthError("an address with characters that no header has".to_owned()))
}

const fn no_store() -> [(header::HeaderName, &'static str); 1] {
    [(header::CACHE_CONTROL, "no-store")]
}

fn refused(error: &AuthError) -> Response {
    warn!(reason = %error, "sign-in rejected");
    (StatusCode::UNAUTHORIZED, no_store(), format!("The sign-in failed: {error}.\nThe dashboard is at /\n"))
        .into_response()
}

#[cfg(test)]
mod tests;
