//! A token issuer and a folder of settings. The tests of the agent service include this file too.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://oidc.example/id/ONE";
pub(crate) const SUBJECT: &str = "system:serviceaccount:fleetwright-system:fleetwright-agent";

/// Issuer with one P-256 key.
pub struct Issuer {
    key: EncodingKey,
    public: Jwk,
}

impl Issuer {
    pub fn new(key_id: &str) -> Self {
        let pair = KeyPair::generate().unwrap();
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let mut public = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        public.common.key_id = Some(key_id.to_owned());
        Self { key, public }
    }

    pub fn keys(&self) -> JwkSet {
        JwkSet { keys: vec![self.public.clone()] }
    }

    /// Valid token for an hour from `now`, with `changes` to its claims.
    pub fn token(&self, now: i64, changes: Value) -> String {
        let mut claims =
            json!({ "iss": ISSUER, "sub": SUBJECT, "aud": ["fleetwright"], "exp": now + 3600, "nbf": now });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = Header { kid: self.public.common.key_id.clone(), ..Header::new(Algorithm::ES256) };
        encode(&header, &claims, &self.key).unwrap()
    }
}

/// Directory with a trust file and key sets.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fleetwright-auth-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Rewrites a file so that its modification time changes: file systems may be coarser than a
    /// test is fast.
    pub fn change(&self, name: &str, text: &str) {
        let later = SystemTime::now() + Duration::from_secs(60);
        File::options().write(true).open(self.write(name, text)).unwrap().set_modified(later).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

pub fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

pub fn agent_entry(cluster: &str, keys: &str) -> String {
    format!(
        "[[agents]]\ncluster = '{cluster}'\ntoken = {{ issuer = '{ISSUER}', subject = '{SUBJECT}', jwks-file = '{keys}' }}\n"
    )
}
