//! A server with authentication over TLS: clients with and without scopes, and an agent without
//! credentials.

use std::time::{SystemTime, UNIX_EPOCH};

use e2e::{ExitResult, Program, RunningProcess, TempDir};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;

use crate::{PROGRAM, SIMULATOR, TIMEOUT, fleetwright};

/// SHA-256 of the tokens `looker` and `operator`, as `printf %s looker | sha256sum` prints them.
const VIEWER_DIGEST: &str = "d133efd9800e396abbeb9de0cc7a6f873d58159121a0fc587f8a2ec1208ad50a";
const OPERATOR: &str = "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23";

/// Configuration of an issuer with one key, which signs the token in the file `cluster`.
fn issue(folder: &TempDir, cluster: &str) -> String {
    let key = EncodingKey::from_ec_der(&KeyPair::generate().expect("a key").serialize_der());
    let public = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("its public half");
    let keys = serde_json::to_vec(&JwkSet { keys: vec![public] }).expect("JSON");
    let _path = folder.write_file(&format!("{cluster}.json"), keys);
    let issuer = format!("https://{cluster}.example");
    let ends = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs() + 3600;
    let claims = json!({ "iss": issuer, "sub": "agent", "aud": "fleetwright", "exp": ends });
    let _path = folder.write_file(cluster, encode(&Header::new(Algorithm::ES256), &claims, &key).expect("a token"));
    format!(
        "[[agents]]\ncluster = '{cluster}'\n\
         token = {{ issuer = '{issuer}', subject = 'agent', jwks-file = '{cluster}.json' }}\n"
    )
}

struct SecuredServer {
    folder: TempDir,
    server: RunningProcess,
    address: String,
}

impl SecuredServer {
    fn start() -> Self {
        let folder = TempDir::new();
        let (certificate, key) = certificate();
        let certificate = folder.write_file("tls.crt", certificate);
        let key = folder.write_file("tls.key", key);
        let trust = folder.write_file(
            "auth.toml",
            format!(
                "[[clients]]\nname = 'looker'\nscope = 'read'\ntoken-sha256 = '{VIEWER_DIGEST}'\n\
                 [[clients]]\nname = 'operator'\nscope = 'admin'\ntoken-sha256 = '{OPERATOR}'\n{}{}",
                issue(&folder, "till"),
                issue(&folder, "shop"),
            ),
        );
        let _path = folder.write_file("looker", "looker\n");
        let _path = folder.write_file("operator", "operator\n");
        let _path = folder.write_file("stranger", "stranger\n");
        let arguments = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let files = ["--listen-tls-certificate", &certificate, "--listen-tls-key", &key, "--auth-file", &trust];
        let server = Program::new(SIMULATOR, &[&arguments[..], &files[..]].concat()).start();
        let [grpc, _dashboard] = server.wait_for_urls(TIMEOUT);
        // The certificate has this name.
        let address = grpc.replacen("127.0.0.1", "localhost", 1);
        Self { folder, server, address }
    }

    /// Runs a command with this token.
    fn as_client(&self, token: Option<&str>, command: &[&str]) -> ExitResult {
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

/// A self-signed certificate and its key, in PEM.
fn certificate() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters of a certificate");
    let certificate = certificate.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn clients_without_a_valid_token_are_rejected_and_commands_are_audited_by_name() {
    let guarded = SecuredServer::start();
    let freeze = ["freeze", "--reason", "a test"];
    for (token, expected) in [
        (None, "no bearer token was sent"),
        (Some("stranger"), "has no client with this token"),
        (Some("looker"), "looker has scope read; this needs scope operate"),
    ] {
        let ended = guarded.as_client(token, &freeze);
        assert_eq!(ended.status, 2, "{token:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{token:?}: {}", ended.stderr);
        let logged =
            guarded.server.wait_for_line(&["client rejected", "/fleetwright.v1.FleetService/CreateFreeze"], TIMEOUT);
        assert!(!logged.contains("stranger"), "the log never contains a token: {logged}");
    }
    let ended = guarded.as_client(Some("operator"), &freeze);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let ended = guarded.as_client(Some("looker"), &["freezes", "-o", "json"]);
    assert!(ended.stdout.contains("a test"), "{}{}", ended.stdout, ended.stderr);
    // Decisions require the read scope.
    let history = ["history", "-o", "json"];
    let ended = guarded.as_client(Some("looker"), &history);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "[]\n"), "{}", ended.stderr);
    let ended = guarded.as_client(None, &history);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("no bearer token was sent"), "{}", ended.stderr);
    let audit = guarded.as_client(Some("operator"), &["audit", "-o", "json"]);
    assert!(audit.stdout.contains("\"operator\""), "{}{}", audit.stdout, audit.stderr);
    assert_eq!(guarded.server.stop(TIMEOUT), 0);
}

/// An agent that accepts the server's certificate and presents the token in this file.
fn agent(guarded: &SecuredServer, cluster: &str, token: Option<&str>) -> RunningProcess {
    let path = |name: &str| guarded.folder.path().join(name).display().to_string();
    let (authorities, token) = (path("tls.crt"), token.map(path));
    let mut arguments = vec!["simulated-agent", "--server", &guarded.address, "--cluster-name", cluster];
    arguments.extend(["--seed", "1", "--log", "warn", "--ca-file", &authorities]);
    if let Some(token) = &token {
        arguments.extend(["--token-file", token]);
    }
    Program::new(SIMULATOR, &arguments).start()
}

#[test]
fn an_agent_is_rejected_until_it_presents_a_token_of_its_cluster() {
    let guarded = SecuredServer::start();
    // Without a token and with a client's token authentication fails. The agent of `till` is
    // authenticated, but not authorized for `shop`.
    for token in [None, Some("operator"), Some("till")] {
        let agent = agent(&guarded, "shop", token);
        let output = agent.wait_for_line(&["cannot connect to the server"], TIMEOUT);
        assert!(output.contains("not authorized for this cluster"), "{token:?}: {output}");
        assert!(!output.contains("till.example"), "the message to the agent names no issuer: {output}");
        let logged = guarded.server.wait_for_line(&["agent rejected"], TIMEOUT);
        assert!(logged.contains("reason="), "{logged}");
    }
    let decided = guarded.server.take_stderr_lines();
    assert!(!decided.iter().any(|line| line.contains("acquired cluster lease")), "{decided:?}");
    let agent = agent(&guarded, "till", Some("till"));
    let _admitted = guarded.server.wait_for_line(&["acquired cluster lease", "till"], TIMEOUT);
    drop(agent);
    assert_eq!(guarded.server.stop(TIMEOUT), 0);
}

#[test]
fn a_public_address_is_rejected_without_protection() {
    let ended = fleetwright(&["serve", "--listen-grpc", "0.0.0.0:0", "--listen-http", "127.0.0.1:0"]);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("is not a loopback address"), "{}", ended.stderr);
}

/// The file is read before a store is chosen, so that no warning about the store hides what is wrong.
#[test]
fn a_wrong_trust_file_is_the_first_and_only_error() {
    let folder = TempDir::new();
    let trust = folder.write_file(
        "auth.toml",
        format!("[[clients]]\nname = 'looker'\nscope = 'write'\ntoken-sha256 = '{VIEWER_DIGEST}'\n"),
    );
    let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    for program in [SIMULATOR, PROGRAM] {
        let ended = Program::new(program, &[&["serve", "--auth-file", &trust], &listeners[..]].concat()).run(TIMEOUT);
        assert_eq!(ended.status, 3, "{}", ended.stderr);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let [error] = lines[..] else { panic!("{program}: {}", ended.stderr) };
        assert!(error.starts_with(&format!("error: trust file {trust}: line ")), "{error}");
        assert!(error.contains("unknown variant `write`"), "{error}");
    }
}
