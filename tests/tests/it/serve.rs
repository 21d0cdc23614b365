//! `fleetwright serve`: starts, prints its configuration, responds, and stops on SIGTERM.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use e2e::{Program, TempDir, authority};

use crate::{PROGRAM, SIMULATOR, TIMEOUT, fleetwright};

/// Sends one HTTP request without a library and returns the whole response.
pub(crate) fn get(address: &str, path: &str) -> String {
    ask(address, path).unwrap_or_else(|error| panic!("{address}{path}: {error}"))
}

/// The answer of the API; null if it is no JSON object.
pub(crate) fn json(address: &str, path: &str) -> Value {
    let answer = get(address, path);
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    // The body may be chunked; the JSON is its one line that begins with a brace.
    let json = body.lines().find(|line| line.starts_with('{')).unwrap_or("{}");
    serde_json::from_str(json).unwrap_or_default()
}

/// The only cluster of a server.
pub(crate) fn only_cluster(address: &str) -> Value {
    json(address, "/v1/clusters")["clusters"][0].clone()
}

fn ask(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn it_serves_the_page_health_and_metrics_and_stops_on_sigterm() {
    let server =
        Program::new(SIMULATOR, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [_grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let address = authority(&dashboard).to_owned();
    let page = get(&address, "/");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.to_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(get(&address, "/assets/queries.js").contains("clusters:watch"));
    assert!(get(&address, "/healthz").ends_with("ok\n"));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/metrics").contains("# TYPE fleetwright_pods gauge"));
    assert!(get(&address, "/v1/clusters").contains("\"clusters\":[]"));
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn a_trial_needs_no_database_and_says_that_its_cloud_is_simulated() {
    let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(SIMULATOR, &[&["serve", "--dev"], &listeners[..]].concat())
        .env("DATABASE_URL", "postgres://127.0.0.1:1/nothing")
        .start();
    let warned = server.wait_for_line(&["no instance is bought"], TIMEOUT);
    assert!(warned.contains("WARN") && warned.contains("simulated"), "{warned}");
    let urls = server.wait_for_urls(TIMEOUT);
    assert!(urls.iter().all(|url| url.starts_with("http://127.0.0.1:")), "{urls:?}");
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn the_configuration_in_force_is_printed_without_secrets() {
    let folder = TempDir::new();
    let file = folder.write_file("fleetwright.toml", "[store]\nconnections = 7\n[control]\nbatch-idle = \"2s\"\n");
    let ended = Program::new(PROGRAM, &["serve", "--config", &file, "--shutdown-grace", "9s", "--print-config"])
        .env("DATABASE_URL", "postgres://someone:secret-word@db/x")
        .env("FLEETWRIGHT_CONTROL_BATCH_MAX", "20s")
        .run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    for line in [
        "connections = 7 # ",
        "batch-idle = \"2s\"",
        "batch-max = \"20s\" # environment",
        "grace = \"9s\" # flag --shutdown-grace",
    ] {
        assert!(ended.stdout.contains(line), "{line:?} is missing in:\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("secret-word"));
}

#[test]
fn an_unknown_key_is_rejected_with_the_nearest_one() {
    let folder = TempDir::new();
    let file = folder.write_file("fleetwright.toml", "[clud]\nregion = \"eu-west-1\"\n");
    let ended = fleetwright(&["serve", "--config", &file]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("no key \"clud.region\"; did you mean \"cloud.region\"?"), "{}", ended.stderr);
}

#[test]
fn an_address_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = fleetwright(&["serve", "--listen-grpc", &address, "--listen-http", "127.0.0.1:0"]);
    assert_eq!(ended.status, 3);
    assert!(ended.stderr.contains(&address), "{}", ended.stderr);
}

/// Clients whose tokens are their names, as `auth.file` has them.
const CLIENTS: &str = r#"
[[clients]]
name = "reader"
token-sha256 = "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30"
scope = "read"

[[clients]]
name = "operator"
token-sha256 = "06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23"
scope = "operate"
"#;

fn request(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout above zero");
    let length = body.len();
    write!(stream, "{head}\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .expect("the server reads and answers");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the server reads and answers");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_api_over_http_has_the_rights_of_its_methods() {
    let folder = TempDir::new();
    let file = folder.write_file("auth.toml", CLIENTS);
    let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(SIMULATOR, &[&["serve", "--dev", "--auth-file", &file], &listeners[..]].concat()).start();
    let [_grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let address = authority(&dashboard).to_owned();
    let get_with = |authorization: &str| request(&address, &format!("GET /v1/clusters HTTP/1.1{authorization}"), "");
    let refused = get_with("");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("no bearer token was sent"), "{refused}");
    assert!(get_with("\r\nAuthorization: Bearer wrong").starts_with("HTTP/1.1 401"));
    assert!(get_with("\r\nAuthorization: Bearer reader").starts_with("HTTP/1.1 200"));
    // A browser sends the token as a password; the user name says nothing.
    assert!(get_with("\r\nAuthorization: Basic YW55Ym9keTpyZWFkZXI=").starts_with("HTTP/1.1 200"));
    let freeze = |token: &str, content_type: &str| {
        let head =
            format!("POST /v1/freezes HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: {content_type}");
        request(&address, &head, r#"{"reason": "a test"}"#)
    };
    let refused = freeze("reader", "application/json");
    assert!(!refused.starts_with("HTTP/1.1 200") && refused.contains("this needs scope operate"), "{refused}");
    // A form of another site cannot send JSON.
    assert!(freeze("operator", "text/plain").starts_with("HTTP/1.1 415"));
    let frozen = freeze("operator", "application/json");
    assert!(frozen.starts_with("HTTP/1.1 200") && frozen.contains("\"creator\":\"operator\""), "{frozen}");
    let audit = request(&address, "GET /v1/auditEntries HTTP/1.1\r\nAuthorization: Bearer operator", "");
    assert!(!audit.starts_with("HTTP/1.1 200") && audit.contains("this needs scope admin"), "{audit}");
    assert_eq!(server.stop(TIMEOUT), 0);
}
