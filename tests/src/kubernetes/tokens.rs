//! Tokens of service accounts: requested from the API server, as a kubelet does; or signed here
//! with the API server's own key, for tokens that it does not grant (expired or about to expire);
//! or forged.

use std::fs;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, decode_header, encode};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use p256::SecretKey;
use p256::elliptic_curve::rand_core::OsRng;
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use serde_json::{Value, json};

/// A token that the API server grants to the account, for these audiences (its own for none) and so
/// many seconds.
///
/// # Errors
/// When the API server grants no token.
pub async fn request_token(
    client: &Client,
    (namespace, name): (&str, &str),
    audiences: &[&str],
    seconds: i64,
) -> anyhow::Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let wanted: TokenRequest =
        serde_json::from_value(json!({ "spec": { "audiences": audiences, "expirationSeconds": seconds } }))?;
    let granted = accounts.create_token_request(name, &PostParams::default(), &wanted).await;
    let granted = granted.with_context(|| format!("no token for {namespace}/{name}"))?;
    let token = granted.status.and_then(|status| status.token);
    token.with_context(|| format!("the API server granted {namespace}/{name} nothing"))
}

/// Signs tokens as the API server does.
pub struct Signer {
    header: Header,
    claims: Value,
    key: EncodingKey,
    forged_key: EncodingKey,
}

impl Signer {
    /// Signs copies of `sample`, a token of the API server, with the key in `key_file`.
    ///
    /// # Errors
    /// When either cannot be read.
    pub fn new(sample: &str, key_file: &Path) -> anyhow::Result<Self> {
        let key = fs::read_to_string(key_file).with_context(|| format!("cannot read {}", key_file.display()))?;
        let claims = sample.split('.').nth(1).context("a token has three parts")?;
        Ok(Self {
            header: decode_header(sample)?,
            claims: serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?,
            key: encoding_key(&SecretKey::from_sec1_pem(&key).or_else(|_| SecretKey::from_pkcs8_pem(&key))?)?,
            forged_key: encoding_key(&SecretKey::random(&mut OsRng))?,
        })
    }

    /// The claim `iss` of every token.
    #[must_use]
    pub fn issuer(&self) -> &str {
        self.claims["iss"].as_str().unwrap_or_default()
    }

    /// The claim `sub` of the sample.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.claims["sub"].as_str().unwrap_or_default()
    }

    /// A token of the API server that ends at `expires_s`, in seconds since 1970.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn token_expiring_at(&self, expires_s: i64) -> anyhow::Result<String> {
        let mut claims = self.claims.clone();
        claims["exp"] = json!(expires_s);
        Ok(encode(&self.header, &claims, &self.key)?)
    }

    /// A copy of the sample that names the API server's key and is signed by another key.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn forged_token(&self) -> anyhow::Result<String> {
        Ok(encode(&self.header, &self.claims, &self.forged_key)?)
    }
}

fn encoding_key(key: &SecretKey) -> anyhow::Result<EncodingKey> {
    Ok(EncodingKey::from_ec_der(key.to_pkcs8_der()?.as_bytes()))
}
