//! What is attacked: a server that asks everybody who they are, over TLS, with agents of honest clusters.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::json;

use crate::kubernetes::authority::Authority;
use crate::{Folder, Program, Running};

/// Honest clusters.
pub(super) const HONEST: usize = 10;
/// Far longer than a start takes, for machines that are busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// SHA-256 of `looker`, as `printf %s looker | sha256sum` prints it.
const LOOKER: &str = "d133efd9800e396abbeb9de0cc7a6f873d58159121a0fc587f8a2ec1208ad50a";

/// The honest load comes and goes for many minutes, and is to be decided for in all of them.
const UNBOUNDED: [&str; 16] = [
    "--rails-launches-per-cluster",
    "0",
    "--rails-launches-per-fleet",
    "0",
    "--rails-launch-dollars-per-cluster",
    "0",
    "--rails-launch-dollars-per-fleet",
    "0",
    "--rails-removals-per-cluster",
    "0",
    "--rails-removals-per-fleet",
    "0",
    "--rails-removal-percent-per-cluster",
    "0",
    "--rails-removal-percent-per-fleet",
    "0",
];

/// A server under attack.
#[derive(Debug)]
pub(super) struct Ground {
    folder: Folder,
    /// The server's log.
    pub(super) server: Running,
    agents: Vec<Running>,
    /// Where agents connect, `127.0.0.1:port`.
    pub(super) grpc: String,
    /// Where the page is.
    pub(super) http: String,
    /// An issuer that takes connections and answers none.
    _hanging: TcpListener,
}

impl Ground {
    /// Starts the server and the agents of honest clusters, and waits until all are let in.
    pub(super) fn start(program: &str) -> anyhow::Result<Self> {
        let folder = Folder::new();
        let authority = Authority::new("attack")?;
        let server = authority.certify(&["localhost"])?;
        let ca = folder.file("ca.crt", authority.pem());
        let (certificate, key) = (folder.file("tls.crt", server.certificate), folder.file("tls.key", server.key));
        let hanging = TcpListener::bind("127.0.0.1:0")?;
        let mut trust = format!("[[clients]]\nname = 'looker'\nscope = 'read'\ntoken-sha256 = '{LOOKER}'\n");
        for cluster in (0..HONEST).map(honest).chain(["evil".to_owned()]) {
            trust.push_str(&issue(&folder, &cluster)?);
        }
        // Somebody else's token, of an issuer that hangs.
        let issuer = format!("https://{}", hanging.local_addr()?);
        sign(&folder, "made-up", &issuer)?;
        trust.push_str(&format!(
            "[[agents]]\ncluster = 'hangs'\ntoken = {{ issuer = '{issuer}', subject = 'agent', ca-file = '{ca}' }}\n"
        ));
        let trust = folder.file("trust.toml", trust);
        let arguments = ["fleetwright", "serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let files = ["--listen-tls-certificate", &certificate, "--listen-tls-key", &key, "--trust-file", &trust];
        let server = Program::new(program, &[&arguments[..], &files, &UNBOUNDED].concat()).start();
        let line = server.line_with(&["grpc://", "http://"], PATIENCE);
        let at = |scheme: &str| {
            let rest = line.split(scheme).nth(1).and_then(|rest| rest.split([';', '/', ' ', '"']).next());
            rest.map(str::to_owned).context("the server tells its addresses")
        };
        let (grpc, http) = (at("grpc://")?, at("http://")?);
        let mut ground = Self { folder, server, agents: Vec::new(), grpc, http, _hanging: hanging };
        for number in 0..HONEST {
            ground.agents.push(ground.agent(program, number));
        }
        for _ in 0..HONEST {
            let _let_in = ground.server.line_with(&["deciding for this cluster"], PATIENCE);
        }
        Ok(ground)
    }

    fn agent(&self, program: &str, number: usize) -> Running {
        let cluster = honest(number);
        let (port, seed) = (self.grpc.rsplit(':').next().unwrap_or_default(), number.to_string());
        let server = format!("https://localhost:{port}");
        let (ca, token) = (self.text("ca.crt"), self.text(&cluster));
        let arguments = ["fleetwright", "simulated-agent", "--server", &server, "--cluster-name", &cluster];
        let more = ["--seed", &seed, "--repeat", "--log", "warn", "--ca-file", &ca, "--token-file", &token];
        Program::new(program, &[&arguments[..], &more].concat()).start()
    }

    /// What agents of honest clusters have complained of since they were asked last.
    pub(super) fn complaints(&self) -> Vec<String> {
        let all = self.agents.iter().flat_map(Running::read_lines);
        all.filter(|line| line.contains("no conversation with the server")).collect()
    }

    /// A file of the ground.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as text.
    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn honest(number: usize) -> String {
    format!("honest-{number}")
}

/// Trust in an issuer with one key, which signs the token in the file `cluster`.
fn issue(folder: &Folder, cluster: &str) -> anyhow::Result<String> {
    let issuer = format!("https://{cluster}.example");
    let public = sign(folder, cluster, &issuer)?;
    let _path = folder.file(&format!("{cluster}.json"), serde_json::to_vec(&JwkSet { keys: vec![public] })?);
    Ok(format!(
        "[[agents]]\ncluster = '{cluster}'\n\
         token = {{ issuer = '{issuer}', subject = 'agent', jwks-file = '{cluster}.json' }}\n"
    ))
}

/// Writes a token of `issuer` into the file `name`; the public half of its key.
fn sign(folder: &Folder, name: &str, issuer: &str) -> anyhow::Result<Jwk> {
    let key = EncodingKey::from_ec_der(&KeyPair::generate()?.serialize_der());
    let public = Jwk::from_encoding_key(&key, Algorithm::ES256)?;
    let ends = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + 86_400;
    let claims = json!({ "iss": issuer, "sub": "agent", "aud": "fleetwright", "exp": ends });
    let _path = folder.file(name, encode(&Header::new(Algorithm::ES256), &claims, &key)?);
    Ok(public)
}
