//! A signed token (JWT), judged by an issuer's keys at a moment.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

use super::Refusal;
use super::file::IssuerTrust;

/// Clocks of issuer and server may differ by this many seconds.
pub(crate) const LEEWAY_S: i64 = 30;

/// Tokens signed by a secret that both sides know are not among them: the keys of an issuer are public.
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

/// A longer one is none: a service-account token has about 1,000 characters.
const LONGEST: usize = 16 * 1024;

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
    fn holds(&self, wanted: &str) -> bool {
        match self {
            Self::One(audience) => audience == wanted,
            Self::Many(audiences) => audiences.iter().any(|audience| audience == wanted),
        }
    }
}

/// The key that a token says it is signed by; `None` when it names none.
///
/// # Errors
/// When it is no token of the kinds that are accepted.
pub(crate) fn key_id(token: &str) -> Result<Option<String>, Refusal> {
    if token.len() > LONGEST {
        return Err(Refusal(format!("the token is longer than {LONGEST} bytes")));
    }
    let header = decode_header(token).map_err(|error| Refusal(format!("the token cannot be read: {error}")))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(Refusal(format!("the token is signed by {:?}, which proves nothing here", header.alg)));
    }
    Ok(header.kid)
}

/// Who issued a token, by its own word: nothing of it is verified.
///
/// # Errors
/// When it is no token of the kinds that are accepted.
pub(crate) fn claimed_issuer(token: &str) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Claimed {
        iss: String,
    }
    let _key = key_id(token)?;
    let unreadable = || Refusal("the token cannot be read: its claims name no issuer".to_owned());
    let claims = token.split('.').nth(1).ok_or_else(unreadable)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| unreadable())?;
    serde_json::from_slice::<Claimed>(&claims).map(|claimed| claimed.iss).map_err(|_| unreadable())
}

/// Seconds since 1970 at which a good token ends.
///
/// # Errors
/// Why it is none of `issuer`'s, or is not meant for this server and subject, or not at this moment (`now_s`).
pub(crate) fn judge(token: &str, issuer: &IssuerTrust, keys: &JwkSet, now_s: i64) -> Result<i64, Refusal> {
    let claims = verified(token, keys)?;
    let refuse = |why: String| Err(Refusal(why));
    if claims.iss != issuer.issuer {
        return refuse(format!("the token is issued by {:?}, not by {:?}", claims.iss, issuer.issuer));
    }
    if !claims.aud.holds(&issuer.audience) {
        return refuse(format!("the token is not meant for audience {:?}", issuer.audience));
    }
    if claims.sub != issuer.subject {
        return refuse(format!("the token is {:?}'s, not {:?}'s", claims.sub, issuer.subject));
    }
    if claims.exp.saturating_add(LEEWAY_S) <= now_s {
        return refuse(format!("the token has expired {} s ago", now_s.saturating_sub(claims.exp)));
    }
    if claims.nbf > now_s.saturating_add(LEEWAY_S) {
        return refuse(format!("the token is valid only in {} s", claims.nbf.saturating_sub(now_s)));
    }
    Ok(claims.exp)
}

/// The claims, when one of the keys signed them. A token that names no key is tried with all.
fn verified(token: &str, keys: &JwkSet) -> Result<Claims, Refusal> {
    let named = key_id(token)?;
    let header = decode_header(token).map_err(|error| Refusal(format!("the token cannot be read: {error}")))?;
    let mut validation = Validation::new(header.alg);
    // The claims are judged by the caller, at the moment that it names.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    let fits = |id: &Option<String>| named.is_none() || *id == named;
    let candidates = keys.keys.iter().filter(|key| fits(&key.common.key_id));
    let mut why = "no key of its issuer has the name that the token gives".to_owned();
    for key in candidates {
        let attempt = DecodingKey::from_jwk(key).and_then(|key| decode::<Claims>(token, &key, &validation));
        match attempt {
            Ok(good) => return Ok(good.claims),
            Err(error) => why = error.to_string(),
        }
    }
    Err(Refusal(format!("the token's signature does not hold: {why}")))
}
