//! Sign-in by token: what a browser must have, and when it ends.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::body::Body;
use axum::middleware::from_fn_with_state;
use futures::future::BoxFuture;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::browser_session::{BrowserSession, BrowserSessionStore, KEY_HEADER, Sha256Digest};
use crate::middleware::{PageAccess, authorize_page, public_page};
use crate::tests::issuer::Folder;

/// A trust file with one client. SHA-256 of "abc", from FIPS 180-2, appendix B.1.
const ALICE: &str = "[[clients]]\nname = 'alice'\nscope = 'operate'\n\
     token-sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'\n";

#[derive(Debug, Default)]
struct Table(Mutex<BTreeMap<Sha256Digest, BrowserSession>>);

impl BrowserSessionStore for Table {
    fn create<'a>(&'a self, session: &'a BrowserSession) -> BoxFuture<'a, Result<(), AuthError>> {
        self.0.lock().unwrap().insert(session.id_sha256, session.clone());
        Box::pin(async { Ok(()) })
    }

    fn find<'a>(&'a self, id_sha256: &'a Sha256Digest) -> BoxFuture<'a, Result<Option<BrowserSession>, AuthError>> {
        let found = self.0.lock().unwrap().get(id_sha256).cloned();
        Box::pin(async { Ok(found) })
    }

    fn delete<'a>(&'a self, id_sha256: &'a Sha256Digest) -> BoxFuture<'a, Result<(), AuthError>> {
        self.0.lock().unwrap().remove(id_sha256);
        Box::pin(async { Ok(()) })
    }

    fn delete_of<'a>(&'a self, client: &'a str, credential: &'a str) -> BoxFuture<'a, Result<(), AuthError>> {
        let is_other = |session: &BrowserSession| session.client != client || session.credential != credential;
        self.0.lock().unwrap().retain(|_, session| is_other(session));
        Box::pin(async { Ok(()) })
    }
}

/// A replica with a page that only clients read.
struct Replica {
    router: Router,
    folder: Folder,
    authorizer: Arc<Authorizer>,
}

impl Replica {
    fn new(name: &str, store: &Arc<Table>) -> Self {
        let folder = Folder::new(name);
        let store = Arc::clone(store);
        let authorizer = Authorizer::read(folder.write("auth.toml", ALICE)).unwrap().with_browser_sessions(store);
        let authorizer = Arc::new(authorizer);
        let page = Router::new().route("/metrics", get(async || "nodes 3"));
        let page = page.layer(from_fn_with_state(PageAccess::in_text(Arc::clone(&authorizer)), authorize_page));
        let public = router(Arc::clone(&authorizer))
            .layer(from_fn_with_state(PageAccess::in_text(Arc::clone(&authorizer)), public_page));
        Self { router: page.merge(public), folder, authorizer }
    }

    async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(uri).header("host", "fleet.example.com");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, 100_000).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Cookie and key after a sign-in.
    async fn sign_in(&self) -> (String, String) {
        let (status, headers, body) = self.send("POST", "/session", &[], r#"{"token": "abc"}"#).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let cookie = headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["client"], &body["scope"]), (&"alice".into(), &"operate".into()));
        (cookie.split(';').next().unwrap().to_owned(), body["key"].as_str().unwrap().to_owned())
    }

    async fn read(&self, cookie: &str, key: &str) -> StatusCode {
        self.send("GET", "/metrics", &[("cookie", cookie), (KEY_HEADER, key)], "").await.0
    }
}

#[tokio::test]
async fn a_request_needs_the_cookie_and_the_key_of_the_same_session() {
    let store = Arc::default();
    let replica = Replica::new("sign-in-both", &store);
    let ((cookie, key), (other_cookie, other_key)) = (replica.sign_in().await, replica.sign_in().await);
    assert_eq!(replica.read(&cookie, &key).await, StatusCode::OK);
    assert_eq!(replica.read(&format!("theme=dark; {other_cookie}"), &other_key).await, StatusCode::OK);
    for (cookie, key, what) in [
        (&*cookie, "", "a cookie alone"),
        ("", &*key, "a key alone"),
        (&cookie, &other_key, "the key of another session"),
        ("__Host-fleetwright-session=", &key, "an empty cookie"),
        (&cookie.replace("__Host-", ""), &key, "a cookie that any site of the domain may set"),
    ] {
        assert_eq!(replica.read(cookie, key).await, StatusCode::UNAUTHORIZED, "{what}");
    }
    let (status, headers, _) = replica.send("GET", "/metrics", &[], "").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(!headers[header::WWW_AUTHENTICATE].to_str().unwrap().contains("Basic"), "a browser asks for a password");
    // The store has no secret.
    let stored = format!("{:?}", store.0.lock().unwrap());
    assert!(!stored.contains(&key) && !stored.contains(cookie.split_once('=').unwrap().1));
}

#[tokio::test]
async fn requests_of_other_origins_are_refused_with_a_stolen_session_too() {
    let replica = Replica::new("sign-in-origin", &Arc::default());
    let (cookie, key) = replica.sign_in().await;
    let stolen = [("cookie", &*cookie), (KEY_HEADER, &*key)];
    for forged in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
    {
        let headers = [stolen[0], stolen[1], forged];
        assert_eq!(replica.send("GET", "/metrics", &headers, "").await.0, StatusCode::FORBIDDEN, "{forged:?}");
        assert_eq!(replica.send("DELETE", "/session", &headers, "").await.0, StatusCode::FORBIDDEN, "{forged:?}");
        let body = r#"{"token": "abc"}"#;
        assert_eq!(replica.send("POST", "/session", &[forged], body).await.0, StatusCode::FORBIDDEN, "{forged:?}");
    }
    assert_eq!(replica.read(&cookie, &key).await, StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_at_every_replica_when_its_browser_signs_out() {
    let store = Arc::default();
    let (one, other) = (Replica::new("sign-in-one", &store), Replica::new("sign-in-other", &store));
    let (cookie, key) = one.sign_in().await;
    assert_eq!(other.read(&cookie, &key).await, StatusCode::OK);
    let (status, ..) = one.send("DELETE", "/session", &[("cookie", &cookie)], "").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "without its key");
    let (status, headers, _) = other.send("DELETE", "/session", &[("cookie", &cookie), (KEY_HEADER, &key)], "").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert!(headers[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(other.read(&cookie, &key).await, StatusCode::UNAUTHORIZED, "at once");
    // The other replica reads it again after five seconds.
    let gone = async {
        while one.read(&cookie, &key).await != StatusCode::UNAUTHORIZED {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.expect("the session has ended");
}

#[tokio::test]
async fn a_session_has_the_scope_that_the_trust_file_gives_now_and_ends_with_its_credential() {
    let store = Arc::default();
    let replica = Replica::new("sign-in-revoked", &store);
    let (cookie, key) = replica.sign_in().await;
    let headers = [("cookie", &*cookie), (KEY_HEADER, &*key)];
    let status =
        async || serde_json::from_str::<Value>(&replica.send("GET", "/session", &headers, "").await.2).unwrap();
    assert_eq!(status().await["scope"], "operate");
    let until = async |is_expected: fn(&Value) -> bool| {
        let reached = async {
            while !is_expected(&status().await) {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), reached).await.expect("the trust file is read again");
    };
    replica.folder.change("auth.toml", &ALICE.replace("operate", "read"));
    until(|status| status["scope"] == "read").await;
    // Another token for the same name: somebody had the old one.
    replica.folder.change("auth.toml", &ALICE.replace("ba7816bf", "00000000"));
    until(|status| status["isAuthorized"] == false).await;
    assert_eq!(replica.read(&cookie, &key).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_entry_that_was_removed_and_is_added_again_revives_no_session() {
    let store: Arc<Table> = Arc::default();
    let replica = Replica::new("sign-in-removed", &store);
    let (cookie, key) = replica.sign_in().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let watched = tokio::spawn(Arc::clone(&replica.authorizer).watch_files(stop.clone()));
    let other = ALICE.replace("alice", "bob").replace("ba7816bf", "00000000");
    replica.folder.change("auth.toml", &other);
    // The browser asks nothing meanwhile.
    let ended = async {
        while !store.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), ended).await.expect("the sessions are deleted");
    replica.folder.change("auth.toml", ALICE);
    let trusted = async {
        while replica.send("POST", "/session", &[], r#"{"token": "abc"}"#).await.0 != StatusCode::OK {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), trusted).await.expect("the entry is trusted again");
    assert_eq!(replica.read(&cookie, &key).await, StatusCode::UNAUTHORIZED);
    stop.cancel();
    watched.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_expired_session_is_refused() {
    let store: Arc<Table> = Arc::default();
    let (cookie, key) = Replica::new("sign-in-expired", &store).sign_in().await;
    // Another replica reads it as it is stored.
    let replica = Replica::new("sign-in-expired-elsewhere", &store);
    store.0.lock().unwrap().values_mut().for_each(|session| session.expires_ms = 1_000_000);
    assert_eq!(replica.read(&cookie, &key).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_wrong_sign_in_is_refused_with_the_reason() {
    let replica = Replica::new("sign-in-wrong", &Arc::default());
    let huge = format!("{{\"token\": \"{}\"}}", "x".repeat(30_000));
    for (body, expected) in [
        (r#"{"token": "abcd"}"#, "no client with this token"),
        ("abc", "the body is not"),
        (&*huge, "more than 20480 bytes"),
    ] {
        let (status, headers, answer) = replica.send("POST", "/session", &[], body).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert!(answer.contains(expected) && !headers.contains_key(header::SET_COOKIE), "{answer}");
    }
    let (status, _, answer) = replica.send("GET", "/session/oidc?path=/", &[], "").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(answer.contains("the trust file has no [oidc]"), "{answer}");
}
