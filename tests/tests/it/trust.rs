//! A server that asks everybody who they are, over TLS: clients with and without scopes, and an agent that shows nothing.

use e2e::{Ended, Folder, Program, Running};
use rcgen::{CertificateParams, KeyPair};

use crate::{PATIENCE, PROGRAM, fleetwright};

/// SHA-256 of `looker` and of `operator`, as `printf %s looker | sha256sum` prints them.
const LOOKER: &str = "d133efd9800e396abbeb9de0cc7a6f873d58159121a0fc587f8a2ec1208ad50a";
const OPERATOR: &str = "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23";

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
                 [[clients]]\nname = 'operator'\nscope = 'admin'\ntoken-sha256 = '{OPERATOR}'\n"
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

#[test]
fn an_agent_that_shows_nothing_speaks_for_nobody() {
    let guarded = Guarded::start();
    // It does not know who signed the certificate either, so it never gets as far as to say its name.
    let agent =
        ["simulated-agent", "--server", &guarded.address, "--cluster-name", "shop", "--seed", "1", "--log", "warn"];
    let agent = Program::new(PROGRAM, &agent).start();
    let told = agent.line_with(&["no conversation with the server"], PATIENCE);
    assert!(!told.contains("connected"), "{told}");
    let clusters = guarded.as_client(Some("looker"), &["freezes", "-o", "json"]);
    assert_eq!(clusters.status, 0, "{}", clusters.stderr);
    drop(agent);
    assert_eq!(guarded.server.stop(PATIENCE), 0);
}

#[test]
fn an_address_that_others_reach_is_refused_without_protection() {
    let ended = fleetwright(&["serve", "--listen-grpc", "0.0.0.0:0", "--listen-http", "127.0.0.1:0"]);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("can be reached from other machines"), "{}", ended.stderr);
}
