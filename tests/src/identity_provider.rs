//! An OpenID Connect provider over HTTPS that signs one person in without asking: discovery, keys, authorization code with PKCE.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::kubernetes::certificate_authority::CertificateAuthority;

/// A sign-in that was authorized and has its token yet to come.
struct Authorized {
    nonce: String,
    challenge: String,
}

struct Provider {
    url: String,
    client_id: String,
    subject: String,
    key: EncodingKey,
    keys: JwkSet,
    /// By code.
    authorized: Mutex<HashMap<String, Authorized>>,
}

/// Serves until the process ends; returns the address of the issuer.
///
/// # Errors
/// When it cannot listen, or has no key.
pub fn serve(authority: &CertificateAuthority, client_id: &str, subject: &str) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("https://localhost:{}", listener.local_addr()?.port());
    let issued = authority.issue_certificate(&["localhost"])?;
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())?;
    let private = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(crypto).with_safe_default_protocol_versions()?;
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], private)?);
    let key = EncodingKey::from_ec_der(&KeyPair::generate()?.serialize_der());
    let keys = JwkSet { keys: vec![Jwk::from_encoding_key(&key, Algorithm::ES256)?] };
    let provider = Provider {
        url: url.clone(),
        client_id: client_id.to_owned(),
        subject: subject.to_owned(),
        key,
        keys,
        authorized: Mutex::default(),
    };
    let provider = Arc::new(provider);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (provider, config) = (Arc::clone(&provider), Arc::clone(&config));
            thread::spawn(move || answer(&provider, config, connection));
        }
    });
    Ok(url)
}

/// Answers one request and closes the connection.
fn answer(provider: &Provider, config: Arc<ServerConfig>, connection: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).ok()?, connection));
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok()?;
        match header.trim().split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let (status, location, body) = provider.respond(&target, &String::from_utf8(body).ok()?);
    let location = location.map(|to| format!("Location: {to}\r\n")).unwrap_or_default();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{location}Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let stream = stream.get_mut();
    stream.write_all((head + &body).as_bytes()).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

impl Provider {
    /// Status, where to go, and body.
    fn respond(&self, target: &str, body: &str) -> (&'static str, Option<String>, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path {
            "/.well-known/openid-configuration" => {
                let url = &self.url;
                let endpoints = json!({
                    "issuer": url, "jwks_uri": format!("{url}/keys"),
                    "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
                });
                ("200 OK", None, endpoints.to_string())
            }
            "/keys" => ("200 OK", None, json!(self.keys).to_string()),
            "/authorize" => self.authorize(&parameters(query)),
            "/token" => self.token(&parameters(body)),
            _ => ("404 Not Found", None, "{}".to_owned()),
        }
    }

    fn authorize(&self, asked: &HashMap<String, String>) -> (&'static str, Option<String>, String) {
        let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
        if get("client_id") != self.client_id
            || get("response_type") != "code"
            || get("code_challenge_method") != "S256"
        {
            return ("400 Bad Request", None, "{}".to_owned());
        }
        let code = format!("code{}", self.authorized().len());
        let authorized = Authorized { nonce: get("nonce"), challenge: get("code_challenge") };
        self.authorized().insert(code.clone(), authorized);
        ("302 Found", Some(format!("{}?code={code}&state={}", get("redirect_uri"), get("state"))), String::new())
    }

    fn token(&self, asked: &HashMap<String, String>) -> (&'static str, Option<String>, String) {
        let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
        let authorized = self.authorized().remove(&get("code"));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
        let Some(authorized) = authorized.filter(|authorized| authorized.challenge == challenge) else {
            return ("400 Bad Request", None, json!({"error": "invalid_grant"}).to_string());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
        let claims = json!({
            "iss": self.url, "sub": self.subject, "aud": self.client_id, "exp": now + 3600, "nonce": authorized.nonce,
        });
        let token = encode(&Header::new(Algorithm::ES256), &claims, &self.key).expect("claims are signed");
        ("200 OK", None, json!({"id_token": token, "token_type": "Bearer", "access_token": "none"}).to_string())
    }

    fn authorized(&self) -> std::sync::MutexGuard<'_, HashMap<String, Authorized>> {
        self.authorized.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parameters of a query or a form.
fn parameters(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        bytes.extend(u8::from_str_radix(code, 16));
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
