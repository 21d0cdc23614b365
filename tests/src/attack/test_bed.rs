//! The server under attack: authentication and TLS, with agents of honest clusters.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::json;

use crate::kubernetes::certificate_authority::CertificateAuthority;
use crate::{Program, RunningProcess, TempDir};

pub(super) const HONEST_CLUSTERS: usize = 10;
/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(120);

/// SHA-256 of the token `looker`, as `printf %s looker | sha256sum` prints it.
const VIEWER_DIGEST: &str = "d133efd9800e396abbeb9de0cc7a6f873d58159121a0fc587f8a2ec1208ad50a";

/// Disables rate limits: the honest load varies for many minutes and must be served all the time.
const UNBOUNDED: [&str; 16] = [
    "--guardrails-launches-per-cluster",
    "0",
    "--guardrails-launches-per-fleet",
    "0",
    "--guardrails-launch-dollars-per-cluster",
    "0",
    "--guardrails-launch-dollars-per-fleet",
    "0",
    "--guardrails-removals-per-cluster",
    "0",
    "--guardrails-removals-per-fleet",
    "0",
    "--guardrails-removal-percent-per-cluster",
    "0",
    "--guardrails-removal-percent-per-fleet",
    "0",
];

#[derive(Debug)]
pub(super) struct TestBed {
    folder: TempDir,
    /// The server process; its standard error is the log.
    pub(super) server: RunningProcess,
    agents: Vec<RunningProcess>,
    /// gRPC address, `127.0.0.1:port`.
    pub(super) grpc: String,
    /// HTTP address.
    pub(super) http: String,
    /// An issuer that accepts connections and never responds.
    _hanging: TcpListener,
}

impl TestBed {
    /// Starts the server and the agents of honest clusters, and waits until all are connected.
    pub(super) fn start(program: &str) -> anyhow::Result<Self> {
        let folder = TempDir::new();
        let authority = CertificateAuthority::new("attack")?;
        let server = authority.issue_certificate(&["localhost"])?;
        let ca = folder.write_file("ca.crt", authority.pem());
        let (certificate, key) =
            (folder.write_file("tls.crt", server.certificate), folder.write_file("tls.key", server.key));
        let hanging = TcpListener::bind("127.0.0.1:0")?;
        let mut trust = format!("[[clients]]\nname = 'looker'\nscope = 'read'\ntoken-sha256 = '{VIEWER_DIGEST}'\n");
        for cluster in (0..HONEST_CLUSTERS).map(honest).chain(["evil".to_owned()]) {
            trust.push_str(&issue(&folder, &cluster)?);
        }
        // A token of the issuer that does not respond.
        let issuer = format!("https://{}", hanging.local_addr()?);
        sign(&folder, "made-up", &issuer)?;
        trust.push_str(&format!(
            "[[agents]]\ncluster = 'hangs'\ntoken = {{ issuer = '{issuer}', subject = 'agent', ca-file = '{ca}' }}\n"
        ));
        let trust = folder.write_file("auth.toml", trust);
        let arguments = ["fleetwright-sim", "serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let files = ["--listen-tls-certificate", &certificate, "--listen-tls-key", &key, "--auth-file", &trust];
        let server = Program::new(program, &[&arguments[..], &files, &UNBOUNDED].concat()).start();
        let [grpc, http] = server.wait_for_urls(TIMEOUT).map(|url| crate::authority(&url).to_owned());
        let mut test_bed = Self { folder, server, agents: Vec::new(), grpc, http, _hanging: hanging };
        for number in 0..HONEST_CLUSTERS {
            test_bed.agents.push(test_bed.agent(program, number));
        }
        for _ in 0..HONEST_CLUSTERS {
            let _let_in = test_bed.server.wait_for_line(&["acquired cluster lease"], TIMEOUT);
        }
        Ok(test_bed)
    }

    fn agent(&self, program: &str, number: usize) -> RunningProcess {
        let cluster = honest(number);
        let (port, seed) = (self.grpc.rsplit(':').next().unwrap_or_default(), number.to_string());
        let server = format!("https://localhost:{port}");
        let (ca, token) = (self.text("ca.crt"), self.text(&cluster));
        let arguments = ["fleetwright-sim", "simulated-agent", "--server", &server, "--cluster-name", &cluster];
        let more = ["--seed", &seed, "--repeat", "--log", "warn", "--ca-file", &ca, "--token-file", &token];
        Program::new(program, &[&arguments[..], &more].concat()).start()
    }

    /// Disconnects and failed connections that the honest agents have logged since the last call.
    pub(super) fn lost_streams(&self) -> Vec<String> {
        let all = self.agents.iter().flat_map(RunningProcess::take_stderr_lines);
        let lost = ["disconnected from the server", "cannot connect to the server"];
        all.filter(|line| lost.iter().any(|event| line.contains(event))).collect()
    }

    /// Path of a file of the test bed.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same path as text.
    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn honest(number: usize) -> String {
    format!("honest-{number}")
}

/// Configuration of an issuer with one key, which signs the token in the file `cluster`.
pub(super) fn issue(folder: &TempDir, cluster: &str) -> anyhow::Result<String> {
    let issuer = format!("https://{cluster}.example");
    let public = sign(folder, cluster, &issuer)?;
    let _path = folder.write_file(&format!("{cluster}.json"), serde_json::to_vec(&JwkSet { keys: vec![public] })?);
    Ok(format!(
        "[[agents]]\ncluster = '{cluster}'\n\
         token = {{ issuer = '{issuer}', subject = 'agent', jwks-file = '{cluster}.json' }}\n"
    ))
}

/// Writes a token of `issuer` into the file `name`; the public half of its key.
fn sign(folder: &TempDir, name: &str, issuer: &str) -> anyhow::Result<Jwk> {
    let key = EncodingKey::from_ec_der(&KeyPair::generate()?.serialize_der());
    let public = Jwk::from_encoding_key(&key, Algorithm::ES256)?;
    let ends = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + 86_400;
    let claims = json!({ "iss": issuer, "sub": "agent", "aud": "fleetwright", "exp": ends });
    let _path = folder.write_file(name, encode(&Header::new(Algorithm::ES256), &claims, &key)?);
    Ok(public)
}
