//! Authentication by tokens and certificates, signed by real keys.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use serde_json::json;

use super::super::authorizer::{Authorizer, PresentedCredentials};
use super::super::file::IssuerTrust;
use super::super::tls::{Certificates, TlsFiles};
use super::super::token::verify;
use super::super::{ClientDenial, Scope};
use super::issuer::{Folder, ISSUER, Issuer, SUBJECT, agent_entry, now};

fn trust() -> IssuerTrust {
    IssuerTrust {
        issuer: ISSUER.to_owned(),
        subject: SUBJECT.to_owned(),
        audience: "fleetwright".to_owned(),
        jwks_file: None,
        ca_file: None,
    }
}

#[test]
fn a_token_with_any_invalid_claim_is_rejected() {
    let issuer = Issuer::new("k1");
    let check = |token: &str| verify(token, &trust(), &issuer.keys(), 1_000_000);
    let good = issuer.token(1_000_000, json!({}));
    assert_eq!(check(&good), Ok(1_003_600));
    // Thirty seconds of clock skew are tolerated, in both directions.
    assert!(check(&issuer.token(1_000_000, json!({ "exp": 999_971 }))).is_ok());
    assert!(check(&issuer.token(1_000_000, json!({ "nbf": 1_000_030 }))).is_ok());
    let rejected = [
        (issuer.token(1_000_000, json!({ "exp": 999_970 })), "expired"),
        (issuer.token(1_000_000, json!({ "nbf": 1_000_031 })), "not valid before"),
        (issuer.token(1_000_000, json!({ "aud": ["sts.amazonaws.com"] })), "audience"),
        (issuer.token(1_000_000, json!({ "aud": "other" })), "audience"),
        (issuer.token(1_000_000, json!({ "iss": "https://oidc.example/id/TWO" })), "issued by"),
        (issuer.token(1_000_000, json!({ "sub": "system:serviceaccount:default:default" })), "default:default"),
        (Issuer::new("k1").token(1_000_000, json!({})), "signature"),
        (Issuer::new("k2").token(1_000_000, json!({})), "no key of its issuer"),
        (unsigned(&good), "cannot be read"),
        (tampered(&good), "signature"),
        ("x".repeat(20_000), "longer than"),
        (String::new(), "cannot be read"),
    ];
    for (token, expected) in rejected {
        let error = check(&token).unwrap_err().to_string();
        assert!(error.contains(expected), "wanted {expected:?}, got {error:?}");
    }
}

/// Claims of `token` under the header of an unsigned token.
fn unsigned(token: &str) -> String {
    // {"alg":"none"}
    format!("eyJhbGciOiJub25lIn0.{}.", token.split('.').nth(1).unwrap())
}

fn tampered(token: &str) -> String {
    let other = Issuer::new("k1").token(1_000_000, json!({ "exp": 2_000_000 }));
    let parts: Vec<&str> = token.split('.').collect();
    format!("{}.{}.{}", parts[0], other.split('.').nth(1).unwrap(), parts[2])
}

#[test]
fn tokens_with_symmetric_signatures_are_rejected() {
    let issuer = Issuer::new("k1");
    let claims = json!({ "iss": ISSUER, "sub": SUBJECT, "aud": "fleetwright", "exp": 2_000_000 });
    let forged = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"public key")).unwrap();
    let denial = verify(&forged, &trust(), &issuer.keys(), 1_000_000).unwrap_err().to_string();
    assert!(denial.contains("is not accepted"), "{denial}");
}

fn presented_credentials(token: &str) -> PresentedCredentials {
    PresentedCredentials { token: Some(token.to_owned()), ..PresentedCredentials::default() }
}

#[tokio::test]
async fn an_agent_is_authorized_for_its_own_cluster_only() {
    let (one, two) = (Issuer::new("k"), Issuer::new("k"));
    let folder = Folder::new("agents");
    folder.write("one.json", &serde_json::to_string(&one.keys()).unwrap());
    folder.write("two.json", &serde_json::to_string(&two.keys()).unwrap());
    let text = agent_entry("one", "one.json") + &agent_entry("two", "two.json");
    let authorizer = Authorizer::read(folder.write("auth.toml", &text)).unwrap();
    let token = one.token(now(), json!({}));
    assert!(
        authorizer.authorize_agent("one", &presented_credentials(&token)).await.unwrap().is_some(),
        "a token expires"
    );
    for (cluster, credentials, expected) in [
        ("two", presented_credentials(&token), "signature"),
        ("three", presented_credentials(&token), "has no agent"),
        ("one", PresentedCredentials::default(), "no bearer token"),
    ] {
        let denial = authorizer.authorize_agent(cluster, &credentials).await.unwrap_err().to_string();
        assert!(denial.contains(expected), "{cluster}: {denial}");
        assert!(!denial.contains(&token), "the error never contains credentials");
    }
}

#[tokio::test]
async fn rotated_keys_are_loaded_without_a_restart() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let folder = Folder::new("rotation");
    folder.write("keys.json", &serde_json::to_string(&old.keys()).unwrap());
    let authorizer = Authorizer::read(folder.write("auth.toml", &agent_entry("one", "keys.json"))).unwrap();
    assert!(authorizer.authorize_agent("one", &presented_credentials(&new.token(now(), json!({})))).await.is_err());
    folder.write("keys.json", &serde_json::to_string(&new.keys()).unwrap());
    assert!(authorizer.authorize_agent("one", &presented_credentials(&new.token(now(), json!({})))).await.is_ok());
    assert!(authorizer.authorize_agent("one", &presented_credentials(&old.token(now(), json!({})))).await.is_err());
}

fn certificate(name: &str) -> CertificateDer<'static> {
    let pair = KeyPair::generate().unwrap();
    CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&pair).unwrap().der().clone()
}

#[tokio::test]
async fn a_certificate_is_valid_for_its_own_name_only() {
    let folder = Folder::new("certificates");
    let text = "[[agents]]\ncluster = 'edge'\ncertificate-name = 'edge.agents.example'\n";
    let authorizer = Authorizer::read(folder.write("auth.toml", text)).unwrap();
    let with =
        |name: &str| PresentedCredentials { certificates: vec![certificate(name)], ..PresentedCredentials::default() };
    assert!(
        authorizer.authorize_agent("edge", &with("edge.agents.example")).await.unwrap().is_some(),
        "it is checked again in a minute"
    );
    let denial = authorizer.authorize_agent("edge", &with("*.agents.example")).await.unwrap_err().to_string();
    assert!(denial.contains("wildcard"), "{denial}");
    let denial = authorizer.authorize_agent("edge", &with("other.agents.example")).await.unwrap_err().to_string();
    assert!(denial.contains("not for \"edge.agents.example\""), "{denial}");
    let denial = authorizer.authorize_agent("edge", &PresentedCredentials::default()).await.unwrap_err().to_string();
    assert!(denial.contains("no client certificate"), "{denial}");
}

/// Writes an authority to `ca.crt` and a server certificate signed by it.
pub(super) fn authority(folder: &Folder) -> rcgen::Issuer<'static, KeyPair> {
    let mut about = CertificateParams::new(Vec::new()).unwrap();
    about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    folder.write("ca.crt", &about.self_signed(&key).unwrap().pem());
    let issuer = rcgen::Issuer::new(about, key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    folder.write("tls.crt", &server.pem());
    folder.write("tls.key", &key.serialize_pem());
    issuer
}

pub(super) fn authorities(folder: &Folder) -> Certificates {
    let path = |name: &str| folder.0.join(name);
    let files = TlsFiles { certificate: path("tls.crt"), key: path("tls.key"), client_ca: Some(path("ca.crt")) };
    Certificates::read(files).unwrap()
}

#[test]
fn a_certificate_is_valid_until_it_expires_and_while_its_authority_is_trusted() {
    let folder = Folder::new("verify");
    let issuer = authority(&folder);
    let certificates = authorities(&folder);
    let mut about = CertificateParams::new(vec!["edge.agents.example".to_owned()]).unwrap();
    // 2027-01-15T08:00:00Z, which is 1,800,000,000 s since 1970.
    about.not_before = rcgen::date_time_ymd(2020, 1, 1);
    about.not_after = rcgen::date_time_ymd(2027, 1, 15);
    let end = UNIX_EPOCH + Duration::from_secs(1_799_971_200);
    let credentials = [about.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone()];
    let minute = Duration::from_secs(60);
    let verified = |before: u64| certificates.verify_until(&credentials, end - Duration::from_secs(before), minute);
    assert_eq!(verified(3_600), Ok(end - Duration::from_secs(3_540)), "no end within the minute");
    // It is valid at its last second and not after it.
    assert_eq!(verified(30), Ok(end + Duration::from_secs(1)));
    assert!(
        certificates
            .verify_until(&credentials, end + Duration::from_secs(1), minute)
            .unwrap_err()
            .to_string()
            .contains("certificate is invalid")
    );
    // Another authority replaces the one that signed it.
    let _other = authority(&folder);
    let later = SystemTime::now() + minute;
    File::options().write(true).open(folder.0.join("ca.crt")).unwrap().set_modified(later).unwrap();
    assert!(certificates.refresh());
    assert!(verified(3_600).unwrap_err().to_string().contains("certificate is invalid"));
}

#[tokio::test]
async fn a_client_is_authorized_by_its_scope() {
    let folder = Folder::new("clients");
    // SHA-256 of "abc", from FIPS 180-2, appendix B.1.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let text = format!(
        "[[clients]]\nname = 'dashboard'\nscope = 'read'\ntoken-sha256 = '{abc}'\n\
         [[clients]]\nname = 'former'\nscope = 'admin'\nexpires = '2020-01-01T00:00:00Z'\n\
         token-sha256 = '5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5'\n"
    );
    let authorizer = Authorizer::read(folder.write("auth.toml", &text)).unwrap();
    assert_eq!(
        authorizer.authorize_client(&presented_credentials("abc"), Scope::Read).await.unwrap().unwrap().name,
        "dashboard"
    );
    for (credentials, scope, expected) in [
        (presented_credentials("abc"), Scope::Operate, "dashboard has scope read; this needs scope operate"),
        // SHA-256 of "12345".
        (presented_credentials("12345"), Scope::Read, "the token of former expired"),
        (presented_credentials("abcd"), Scope::Read, "has no client"),
        (PresentedCredentials::default(), Scope::Read, "no bearer token"),
    ] {
        let denial = authorizer.authorize_client(&credentials, scope).await.unwrap_err();
        assert!(denial.to_string().contains(expected), "{denial}");
        // A client that is known is told that its scope is too small, and not that it is unknown.
        assert_eq!(matches!(denial, ClientDenial::Scope(_)), scope == Scope::Operate, "{denial}");
    }
}
