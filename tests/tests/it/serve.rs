//! `fleetwright serve`: starts, prints its configuration, responds, and stops on SIGTERM.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use e2e::{Program, TempDir, authority};

use crate::{PROGRAM, TIMEOUT, fleetwright};

/// Sends one HTTP request without a library and returns the whole response.
pub(crate) fn get(address: &str, path: &str) -> String {
    ask(address, path).unwrap_or_else(|error| panic!("{address}{path}: {error}"))
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
        Program::new(PROGRAM, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [_grpc, dashboard] = server.wait_for_urls(TIMEOUT);
    let address = authority(&dashboard).to_owned();
    let page = get(&address, "/");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.to_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(get(&address, "/page.js").contains("EventSource"));
    assert!(get(&address, "/healthz").ends_with("ok\n"));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/metrics").contains("# TYPE fleetwright_pods gauge"));
    assert!(get(&address, "/api/fleet").contains("\"clusters\":[]"));
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn a_trial_needs_no_database_and_says_that_its_cloud_is_simulated() {
    let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(PROGRAM, &[&["serve", "--dev"], &listeners[..]].concat())
        .env("DATABASE_URL", "postgres://127.0.0.1:1/nothing")
        .env("FLEETWRIGHT_CLOUD_PROVIDER", "ec2")
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
    let file = folder.write_file("fleetwright.toml", "[cloud]\nseed = 7\n[control]\nbatch-idle = \"2s\"\n");
    let ended = Program::new(PROGRAM, &["serve", "--config", &file, "--cloud-boot", "9s", "--print-config"])
        .env("DATABASE_URL", "postgres://someone:secret-word@db/x")
        .env("FLEETWRIGHT_CONTROL_BATCH_MAX", "20s")
        .run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    for line in
        ["seed = 7 # ", "batch-idle = \"2s\"", "batch-max = \"20s\" # environment", "boot = \"9s\" # flag --cloud-boot"]
    {
        assert!(ended.stdout.contains(line), "{line:?} is missing in:\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("secret-word"));
}

#[test]
fn an_unknown_key_is_rejected_with_the_nearest_one() {
    let folder = TempDir::new();
    let file = folder.write_file("fleetwright.toml", "[clud]\nseed = 7\n");
    let ended = fleetwright(&["serve", "--config", &file]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("no key \"clud.seed\"; did you mean \"cloud.seed\"?"), "{}", ended.stderr);
}

#[test]
fn an_address_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = fleetwright(&["serve", "--listen-grpc", &address, "--listen-http", "127.0.0.1:0"]);
    assert_eq!(ended.status, 3);
    assert!(ended.stderr.contains(&address), "{}", ended.stderr);
}
