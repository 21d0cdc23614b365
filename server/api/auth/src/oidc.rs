//! Sign-in by OpenID Connect: the authorization code flow with PKCE (RFC 7636). The identity provider authenticates a person, and
//! the browser comes back with a code, for which the server gets an ID token; that token is verified like any other client's.
//!
//! What the return must match is in a cookie of its own, for ten minutes, because the return is a navigation from another site:
//! the state (RFC 6749, section 10.12), the nonce of the token (OpenID Connect Core, section 3.1.2.1), and the code verifier.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::AuthError;
use super::file::OidcSignIn;
use super::issuer::fetch::HttpsClient;
use super::token;

/// Name of the cookie between the redirect and the return.
pub(crate) const COOKIE: &str = "__Host-fleetwright-sign-in";

/// Path at which the browser returns.
pub(crate) const RETURN_PATH: &str = "/session/oidc/return";

/// Maximum number of requests to the identity provider in progress: anybody may begin a sign-in.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Maximum age of the endpoints of an identity provider.
const MAX_AGE: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Deserialize)]
struct Endpoints {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
}

#[derive(Debug, Deserialize)]
struct TokenResponse {
    id_token: String,
}

/// A sign-in between the redirect and the return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingSignIn {
    state: String,
    nonce: String,
    verifier: String,
    /// View of the dashboard to return to.
    path: String,
}

impl PendingSignIn {
    /// A new one, which returns to `path` if that is a path of this server, else to the first view.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(path: &str) -> Result<Self, AuthError> {
        let path = if is_own_path(path) { path } else { "/" };
        Ok(Self { state: token::random()?, nonce: token::random()?, verifier: token::random()?, path: path.to_owned() })
    }

    /// As the value of a cookie.
    pub(crate) fn to_cookie(&self) -> String {
        let path = URL_SAFE_NO_PAD.encode(&self.path);
        format!("{}.{}.{}.{path}", self.state, self.nonce, self.verifier)
    }

    /// The one in a cookie, if `state` is its.
    pub(crate) fn from_cookie(cookie: &str, state: &str) -> Option<Self> {
        let [known, nonce, verifier, path] = cookie.split('.').collect::<Vec<_>>().try_into().ok()?;
        let path = String::from_utf8(URL_SAFE_NO_PAD.decode(path).ok()?).ok()?;
        let is_expected = !known.is_empty() && known == state && is_own_path(&path);
        is_expected.then(|| Self {
            state: known.to_owned(),
            nonce: nonce.to_owned(),
            verifier: verifier.to_owned(),
            path,
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

/// Whether a browser stays at this server: `//host` and `/\host` are other hosts.
fn is_own_path(path: &str) -> bool {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\' && byte != b'#');
    path.starts_with('/') && !path.starts_with("//") && is_plain && path.len() <= 500
}

#[derive(Debug)]
pub(crate) struct OidcClient {
    requests: Arc<Semaphore>,
    /// Of the issuer that was asked last, with the time: anybody may begin a sign-in, and nobody makes the server ask each time.
    known: Mutex<Option<(Endpoints, Instant)>>,
}

impl Default for OidcClient {
    fn default() -> Self {
        Self { requests: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)), known: Mutex::default() }
    }
}

impl OidcClient {
    /// Address at the identity provider to which the browser goes.
    ///
    /// # Errors
    /// The identity provider does not answer.
    pub(crate) async fn authorization_url(
        &self,
        with: OidcSignIn,
        pending: &PendingSignIn,
    ) -> Result<String, AuthError> {
        let (redirect, client_id) = (with.redirect_uri(), with.client_id.clone());
        let endpoints = self.endpoints(with).await?;
        let query = [
            ("response_type", "code"),
            ("scope", "openid"),
            ("client_id", &*client_id),
            ("redirect_uri", &*redirect),
            ("state", &*pending.state),
            ("nonce", &*pending.nonce),
            ("code_challenge", &*pending.challenge()),
            ("code_challenge_method", "S256"),
        ];
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let joint = if endpoints.authorization_endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{}{joint}{}", endpoints.authorization_endpoint, query.join("&")))
    }

    /// The ID token for `code`. Its signature is not verified yet; its nonce is that of `pending`.
    ///
    /// # Errors
    /// The identity provider refuses the code or does not answer, or the token is of another sign-in.
    pub(crate) async fn id_token(
        &self,
        with: OidcSignIn,
        pending: PendingSignIn,
        code: String,
    ) -> Result<String, AuthError> {
        let endpoints = self.endpoints(with.clone()).await?;
        self.blocking(move || {
            let client = with.client()?;
            let redirect = with.redirect_uri();
            let mut form = vec![
                ("grant_type", "authorization_code"),
                ("code", &*code),
                ("redirect_uri", &*redirect),
                ("client_id", &*with.client_id),
                ("code_verifier", &*pending.verifier),
            ];
            let secret = with.secret()?;
            form.extend(secret.as_deref().map(|secret| ("client_secret", secret)));
            let answer: TokenResponse = client.post_form(&endpoints.token_endpoint, &form).map_err(failed)?;
            token::check_id_token(&answer.id_token, &pending.nonce, &with.client_id)?;
            Ok(answer.id_token)
        })
        .await
    }

    async fn endpoints(&self, with: OidcSignIn) -> Result<Endpoints, AuthError> {
        let known = self.known().clone();
        if let Some((endpoints, asked)) = known
            && endpoints.issuer == with.issuer
            && asked.elapsed() < MAX_AGE
        {
            return Ok(endpoints);
        }
        let endpoints = self.blocking(move || with.endpoints(&with.client()?)).await?;
        *self.known() = Some((endpoints.clone(), Instant::now()));
        Ok(endpoints)
    }

    fn known(&self) -> MutexGuard<'_, Option<(Endpoints, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        request: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
    ) -> Result<T, AuthError> {
        let Ok(permit) = Arc::clone(&self.requests).try_acquire_owned() else {
            return Err(AuthError("too many sign-ins at one time; try again".to_owned()));
        };
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            request()
        });
        task.await.map_err(|error| AuthError(format!("the request to the identity provider ended: {error}")))?
    }
}

impl OidcSignIn {
    fn redirect_uri(&self) -> String {
        format!("{}{RETURN_PATH}", self.url.trim_end_matches('/'))
    }

    fn client(&self) -> Result<HttpsClient, AuthError> {
        HttpsClient::new(self.ca_file.as_deref()).map_err(failed)
    }

    fn endpoints(&self, client: &HttpsClient) -> Result<Endpoints, AuthError> {
        let endpoints: Endpoints = client.discovery(&self.issuer).map_err(failed)?;
        if endpoints.issuer == self.issuer {
            return Ok(endpoints);
        }
        Err(AuthError(format!("the discovery document has the issuer {:?}, not {:?}", endpoints.issuer, self.issuer)))
    }

    fn secret(&self) -> Result<Option<String>, AuthError> {
        let Some(file) = &self.client_secret_file else { return Ok(None) };
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) => Err(AuthError(format!("client-secret-file {}: {error}", file.display()))),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> AuthError {
    AuthError(format!("the identity provider does not answer: {error}"))
}

/// As the value of a query's parameter.
fn percent_encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_matches_the_sign_in_that_began_in_the_same_browser() {
        let pending = PendingSignIn::new("/clusters/shop?find=a").unwrap();
        let cookie = pending.to_cookie();
        assert_eq!(PendingSignIn::from_cookie(&cookie, &pending.state), Some(pending.clone()));
        for (cookie, state) in [(&*cookie, ""), (&cookie, "other"), ("", ""), ("...", ""), ("a.b", "a")] {
            assert_eq!(PendingSignIn::from_cookie(cookie, state), None, "{cookie} {state}");
        }
    }

    #[test]
    fn a_sign_in_returns_to_a_path_of_this_server_alone() {
        for path in ["//evil.example", "/\\evil.example", "https://evil.example", "", "clusters", "/a\r\nb", "/#a"] {
            assert_eq!(PendingSignIn::new(path).unwrap().path(), "/", "{path:?}");
        }
        assert_eq!(PendingSignIn::new("/clusters?order=-pending").unwrap().path(), "/clusters?order=-pending");
    }

    #[test]
    fn the_challenge_is_that_of_rfc_7636() {
        // Appendix B of the RFC.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let pending = PendingSignIn { verifier, ..PendingSignIn::new("/").unwrap() };
        assert_eq!(pending.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn parameters_are_percent_encoded() {
        assert_eq!(percent_encoded("https://a.b/c?d=e&f g~"), "https%3A%2F%2Fa.b%2Fc%3Fd%3De%26f%20g~");
    }
}
