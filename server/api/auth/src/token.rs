//! Verifies a signed token (JWT) by an issuer's keys at a given time.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

use super::AuthError;
use super::file::IssuerTrust;

/// A random token of 256 bits.
///
/// # Errors
/// The system has no random numbers.
pub fn random() -> Result<String, AuthError> {
    let mut bytes = [0; 32];
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| AuthError("the system has no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Tolerated clock skew between issuer and server, in seconds.
pub const LEEWAY_S: i64 = 30;

/// Asymmetric algorithms only: the keys of an issuer are public.
const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
];

/// Maximum length; a service-account token has about 1,000 characters.
const MAX_BYTES: usize = 16 * 1024;

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: i64,
    #[serde(default)]
    nbf: i64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn is_one(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Many(audiences) => audiences.len() <= 1,
        }
    }

    fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::One(audience) => audience == wanted,
            Self::Many(audiences) => audiences.iter().any(|audience| audience == wanted),
        }
    }
}

/// Key id in the header of a token, if any.
///
/// # Errors
/// The token is malformed or its algorithm is not accepted.
pub fn key_id(token: &str) -> Result<Option<String>, AuthError> {
    if token.len() > MAX_BYTES {
        return Err(AuthError(format!("the token is longer than {MAX_BYTES} bytes")));
    }
    let header = decode_header(token).map_err(|error| AuthError(format!("the token cannot be read: {error}")))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(AuthError(format!("the token's signature algorithm {:?} is not accepted", header.alg)));
    }
    Ok(header.kid)
}

/// Issuer in the unverified claims of a token.
///
/// # Errors
/// The token is malformed or its algorithm is not accepted.
pub(crate) fn claimed_issuer(token: &str) -> Result<String, AuthError> {
    unverified(token)?.iss.ok_or_else(|| AuthError("the token cannot be read: it has no claim iss".to_owned()))
}

/// Checks that an ID token is of this sign-in at this client: by its nonce, and by the party that it was issued to. Its
/// signature is not verified here.
///
/// # Errors
/// As [`claimed_issuer`], or the token is of another sign-in or another client.
pub(crate) fn check_id_token(token: &str, nonce: &str, client_id: &str) -> Result<(), AuthError> {
    let claims = unverified(token)?;
    if claims.nonce.as_deref() != Some(nonce) {
        return Err(AuthError("the ID token is of another sign-in: its nonce differs".to_owned()));
    }
    match (claims.azp, claims.aud) {
        (Some(party), _) if party != client_id => {
            Err(AuthError(format!("the ID token was issued to {party:?} (azp), not to {client_id:?}")))
        }
        (None, Some(audiences)) if !audiences.is_one() => {
            Err(AuthError("the ID token has several audiences and does not say to whom it was issued (azp)".to_owned()))
        }
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
struct UnverifiedClaims {
    iss: Option<String>,
    nonce: Option<String>,
    aud: Option<Audience>,
    /// The party that an ID token was issued to; required beside several audiences (OpenID Connect Core 1.0, 3.1.3.7).
    azp: Option<String>,
}

fn unverified(token: &str) -> Result<UnverifiedClaims, AuthError> {
    let _key = key_id(token)?;
    let unreadable = || AuthError("the token cannot be read: it has no claims".to_owned());
    let claims = token.split('.').nth(1).ok_or_else(unreadable)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| unreadable())?;
    serde_json::from_slice(&claims).map_err(|_| unreadable())
}

/// Verifies a token; returns its expiry in seconds since 1970.
///
/// # Errors
/// Wrong issuer, audience or subject, invalid signature, or not valid at `now_s`.
pub fn verify(token: &str, issuer: &IssuerTrust, keys: &JwkSet, now_s: i64) -> Result<i64, AuthError> {
    let claims = verify_signature(token, keys)?;
    let refuse = |why: String| Err(AuthError(why));
    if claims.iss != issuer.issuer {
        return refuse(format!("the token is issued by {:?}, not by {:?}", claims.iss, issuer.issuer));
    }
    if !claims.aud.contains(&issuer.audience) {
        return refuse(format!("the token does not have the audience {:?}", issuer.audience));
    }
    if claims.sub != issuer.subject {
        return refuse(format!("the token has the subject {:?}, not {:?}", claims.sub, issuer.subject));
    }
    if claims.exp.saturating_add(LEEWAY_S) <= now_s {
        return refuse(format!("the token expired {} s ago", now_s.saturating_sub(claims.exp)));
    }
    if claims.nbf > now_s.saturating_add(LEEWAY_S) {
        return refuse(format!("the token is not valid before {} s from now", claims.nbf.saturating_sub(now_s)));
    }
    Ok(claims.exp)
}

/// Verifies the signature and returns the claims. A token without key id is tried with all keys.
fn verify_signature(token: &str, keys: &JwkSet) -> Result<Claims, AuthError> {
    let named = key_id(token)?;
    let header = decode_header(token).map_err(|error| AuthError(format!("the token cannot be read: {error}")))?;
    let mut validation = Validation::new(header.alg);
    // The caller verifies the claims, at its own time.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    let fits = |id: &Option<String>| named.is_none() || *id == named;
    let candidates = keys.keys.iter().filter(|key| fits(&key.common.key_id));
    let mut why = "no key of its issuer has the token's key id".to_owned();
    for key in candidates {
        let attempt = DecodingKey::from_jwk(key).and_then(|key| decode::<Claims>(token, &key, &validation));
        match attempt {
            Ok(good) => return Ok(good.claims),
            Err(error) => why = error.to_string(),
        }
    }
    Err(AuthError(format!("the token's signature is invalid: {why}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A token with these claims, whose signature nobody has verified.
    fn token(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.{}", part(&json!({"alg": "ES256"})), part(claims), URL_SAFE_NO_PAD.encode("signature"))
    }

    #[test]
    fn an_id_token_is_accepted_for_the_client_that_it_was_issued_to_alone() {
        let check = |claims: Value| check_id_token(&token(&claims), "n", "us").map_err(|error| error.to_string());
        assert_eq!(check(json!({"nonce": "n", "aud": "us"})), Ok(()));
        assert_eq!(check(json!({"nonce": "n", "aud": ["us"]})), Ok(()));
        assert_eq!(check(json!({"nonce": "n", "aud": ["us", "them"], "azp": "us"})), Ok(()));
        for (claims, expected) in [
            (json!({"nonce": "n", "aud": "us", "azp": "them"}), "issued to \"them\""),
            (json!({"nonce": "n", "aud": ["us", "them"], "azp": "them"}), "issued to \"them\""),
            (json!({"nonce": "n", "aud": ["us", "them"]}), "does not say to whom"),
            (json!({"nonce": "m", "aud": "us"}), "of another sign-in"),
            (json!({"aud": "us"}), "of another sign-in"),
        ] {
            let refused = check(claims.clone()).expect_err("it is refused");
            assert!(refused.contains(expected), "{claims}: {refused}");
        }
    }
}
