//! A server that asks everybody who they are, over TLS: clients with and without scopes, and an agent that shows nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use e2e::{Ended, Folder, Program, Running};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;

use crate::{PATIENCE, PROGRAM, fleetwright};

/// SHA-256 of `looker` and of `operator`, as `printf %s looker | sha256sum` prints them.
const LOOKER: &str = "d133efd9800e396abbeb9de0cc7a6f873d58159121a0fc587f8a2ec1208ad50a";
const OPERATOR: &str = "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23";

/// Trust in an issuer that has one key, which signs the token in the file `cluster`.
fn issue(folder: &Folder, cluster: &str) -> String {
    let key = EncodingKey::from_ec_der(&KeyPair::generate().expect("a key").serialize_der());
    let public = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("its public half");
    let keys = serde_json::to_vec(&JwkSet { keys: vec![public] }).expect("JSON");
    let _path = folder.file(&format!("{cluster}.json"), keys);
    let issuer = format!("https://{cluster}.example");
    let ends = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs() + 3600;
    let claims = json!({ "iss": issuer, "sub": "agent", "aud": "fleetwright", "exp": ends });
    let _path = folder.file(cluster, encode(&Header::new(Algorithm::ES256), &claims, &key).expect("a token"));
    format!(
        "[[agents]]\ncluster = '{cluster}'\n\
         token = {{ issuer = '{issuer}', subject = 'agent', jwks-file = '{cluster}.json' }}\n"
    )
}

struct Guarded {
    folder: Folder,
    server: Running,
    address: String,
}

impl Guarded {
    fn start() -> Self {
        let folder = Folder::new();
        let (certificate, key) = certificate();
        let certificate = folder.file("tls.crt", certificate);
        let key = folder.file("tls.key", key);
        let trust = folder.file(
            "trust.toml",
            format!(
                "[[clients]]\nname = 'looker'\nscope = 'read'\ntoken-sha256 = '{LOOKER}'\n\
                 [[clients]]\nname = 'operator'\nscope = 'admin'\ntoken-sha256 = '{OPERATOR}'\n{}{}",
                issue(&folder, "till"),
                issue(&folder, "shop"),
            ),
        );
        let _path = folder.file("looker", "looker\n");
        let _path = folder.file("operator", "operator\n");
        let _path = folder.file("stranger", "stranger\n");
        let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let files = ["--listen-tls-certificate", &certificate, "--listen-tls-key", &key, "--trust-file", &trust];
        let server = Program::new(PROGRAM, &[&arguments[..], &files[..]].concat()).start();
        let line = server.line_with(&["grpc://"], PATIENCE);
        let port = line.split("grpc://127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next()).expect("the port");
        let address = format!("https://localhost:{port}");
        Self { folder, server, address }
    }

    /// Runs a command as whoever holds this token.
    fn as_client(&self, token: Option<&str>, command: &[&str]) -> Ended {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let (authorities, token) = (path("tls.crt"), token.map(path));
        let mut arguments = command.to_vec();
        arguments.extend(["--server", &self.address, "--ca-file", &authorities]);
        if let Some(token) = &token {
            arguments.extend(["--token-file", token]);
        }
        fleetwright(&arguments)
    }
}

/// A certificate that vouches for itself, and its key, in PEM.
fn certificate() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters of a certificate");
    let certificate = certificate.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn whoever_shows_no_good_token_is_refused_and_orders_are_on_record_under_a_name() {
    let guarded = Guarded::start();
    let freeze = ["freeze", "--reason", "a test"];
    for (token, said) in [
        (None, "no bearer token was sent"),
        (Some("stranger"), "names no client with this token"),
        (Some("looker"), "looker has scope read; this needs scope operate"),
    ] {
        let ended = guarded.as_client(token, &freeze);
        assert_eq!(ended.status, 2, "{token:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{token:?}: {}", ended.stderr);
        let logged =
            guarded.server.line_with(&["a client is refused", "/fleetwright.v1.FleetService/Freeze"], PATIENCE);
        assert!(!logged.contains("stranger"), "the log never repeats what was shown: {logged}");
    }
    let ended = guarded.as_client(Some("operator"), &freeze);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let ended = guarded.as_client(Some("looker"), &["freezes", "-o", "json"]);
    assert!(ended.stdout.contains("a test"), "{}{}", ended.stdout, ended.stderr);
    // What was decided is for those who may read.
    let history = ["history", "-o", "json"];
    let ended = guarded.as_client(Some("looker"), &history);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "[]\n"), "{}", ended.stderr);
    let ended = guarded.as_client(None, &history);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("no bearer token was sent"), "{}", ended.stderr);
    let audit = guarded.as_client(Some("operator"), &["audit", "-o", "json"]);
    assert!(audit.stdout.contains("\"operator\""), "{}{}", audit.stdout, audit.stderr);
    assert_eq!(guarded.server.stop(PATIENCE), 0);
}

/// An agent that believes the server's certificate, and shows the token in this file.
fn agent(guarded: &Guarded, cluster: &str, token: Option<&str>) -> Running {
    let path = |name: &str| guarded.folder.path().join(name).display().to_string();
    let (authorities, token) = (path("tls.crt"), token.map(path));
    let mut arguments = vec!["simulated-agent", "--server", &guarded.address, "--cluster-name", cluster];
    arguments.extend(["--seed", "1", "--log", "warn", "--ca-file", &authorities]);
    if let Some(token) = &token {
        arguments.extend(["--token-file", token]);
    }
    Program::new(PROGRAM, &arguments).start()
}

#[test]
fn an_agent_speaks_for_nobody_until_it_shows_a_token_of_its_cluster() {
    let guarded = Guarded::start();
    // Nothing, and a client's token: neither gets past the gate. The agent of `till` does, and is no agent of `shop`.
    for token in [None, Some("operator"), Some("till")] {
        let agent = agent(&guarded, "shop", token);
        let told = agent.line_with(&["no conversation with the server"], PATIENCE);
        assert!(told.contains("not trusted to speak for cluster"), "{token:?}: {told}");
        assert!(!told.contains("till.example"), "a stranger hears nothing of issuers: {told}");
        let logged = guarded.server.line_with(&["an agent is refused"], PATIENCE);
        assert!(logged.contains("reason="), "{logged}");
    }
    let decided = guarded.server.read_lines();
    assert!(!decided.iter().any(|line| line.contains("deciding for this cluster")), "{decided:?}");
    let agent = agent(&guarded, "till", Some("till"));
    let _admitted = guarded.server.line_with(&["deciding for this cluster", "till"], PATIENCE);
    drop(agent);
    assert_eq!(guarded.server.stop(PATIENCE), 0);
}

#[test]
fn an_address_that_others_reach_is_refused_without_protection() {
    let ended = fleetwright(&["serve", "--listen-grpc", "0.0.0.0:0", "--listen-http", "127.0.0.1:0"]);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("can be reached from other machines"), "{}", ended.stderr);
}
