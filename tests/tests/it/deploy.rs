//! The settings in `deploy/` are valid for the programs, and the server starts with them.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Program, TempDir};
use rcgen::{CertificateParams, KeyPair};

use crate::{PROGRAM, TIMEOUT};

const AGENT: &str = env!("CARGO_BIN_EXE_fleetwright-e2e-agent");

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

fn text(path: &str) -> String {
    deploy(path).display().to_string()
}

/// Names and values in a file of settings.
fn variables(path: &str) -> Vec<(String, String)> {
    let file = fs::read_to_string(deploy(path)).expect("a file of settings");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once('=').expect("NAME=value"));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn with(program: Program, variables: &[(String, String)]) -> Program {
    variables.iter().fold(program, |program, (name, value)| program.env(name, value))
}

/// Environment variables of a container that are written in the manifest: `- name: NAME`.
fn named_in(path: &str) -> Vec<(String, String)> {
    let manifest = fs::read_to_string(deploy(path)).expect("a manifest");
    let names = manifest.lines().filter_map(|line| line.trim().strip_prefix("- name: FLEETWRIGHT_"));
    let value = |name: &str| match name {
        "STORE_DATABASE_URL" => "postgres://db.internal/fleetwright",
        _ => "10.0.0.7:7450",
    };
    names.map(|name| (format!("FLEETWRIGHT_{name}"), value(name).to_owned())).collect()
}

#[test]
fn every_setting_in_deploy_is_one_of_the_programs() {
    let of_server = [variables("server/server.env"), named_in("server/deployment.yaml")].concat();
    // Seven settings, the URL of the database from a Secret, and the address of the pod.
    assert_eq!(of_server.len(), 7 + 2, "{of_server:?}");
    let of_agent = variables("agent/run/agent.env");
    assert_eq!(of_agent.len(), 8, "{of_agent:?}");
    let (server_file, agent_file) = (text("fleetwright.toml"), text("agent.toml"));
    let programs = [
        with(Program::new(PROGRAM, &["serve", "--print-config"]), &of_server),
        Program::new(PROGRAM, &["serve", "--config", &server_file, "--print-config"]),
        with(Program::new(AGENT, &["--print-config"]), &of_agent),
        Program::new(AGENT, &["--config", &agent_file, "--print-config"]),
    ];
    for program in programs {
        let ended = program.run(TIMEOUT);
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert!(ended.stdout.contains("us-east-1"), "{}", ended.stdout);
    }
    let misspelt = with(Program::new(PROGRAM, &["serve", "--print-config"]), &of_server);
    let ended = misspelt.env("FLEETWRIGHT_LISTEN_GPRC", "127.0.0.1:0").run(TIMEOUT);
    assert_ne!(ended.status, 0, "a setting that there is not was taken");
}

#[test]
fn deleting_a_kustomization_leaves_the_namespace() {
    for folder in ["server", "agent/run"] {
        let kustomization = fs::read_to_string(deploy(folder).join("kustomization.yaml")).expect("a kustomization");
        let resources: Vec<&str> = kustomization.lines().filter_map(|line| line.strip_prefix("- ")).collect();
        assert!(resources.contains(&"deployment.yaml"), "{folder}: {resources:?}");
        for resource in resources.into_iter().filter(|resource| resource.ends_with(".yaml")) {
            let manifest = fs::read_to_string(deploy(folder).join(resource)).expect("a manifest");
            assert!(!manifest.contains("kind: Namespace"), "{folder}/{resource}");
        }
    }
}

/// The server with addresses at which two can run on one machine, and without a way to AWS.
fn here(arguments: &[&str]) -> Program {
    let listeners = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let nowhere = ["--cloud-endpoint", "http://127.0.0.1:1"];
    let program = Program::new(PROGRAM, &[&listeners[..], &nowhere, arguments].concat());
    let program = program.env("AWS_ACCESS_KEY_ID", "nobody").env("AWS_SECRET_ACCESS_KEY", "nothing");
    program.env("AWS_EC2_METADATA_DISABLED", "true")
}

#[test]
fn the_server_runs_by_its_settings_file() {
    let file = text("fleetwright.toml");
    let server = here(&["--config", &file]).start();
    let line = server.wait_for_line(&["dashboard"], TIMEOUT);
    assert!(line.starts_with('{'), "the settings ask for JSON: {line}");
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn the_server_runs_by_the_settings_of_its_manifests_and_the_trust_file() {
    let (folder, key) = (TempDir::new(), KeyPair::generate().unwrap());
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let certificate = folder.write_file("tls.crt", certificate.pem());
    let key = folder.write_file("tls.key", key.serialize_pem());
    let trust = text("auth.toml");
    let files = ["--listen-tls-certificate", &certificate, "--listen-tls-key", &key, "--auth-file", &trust];
    let server = with(here(&files), &variables("server/server.env")).start();
    let _line = server.wait_for_line(&["dashboard"], TIMEOUT);
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[test]
fn every_example_is_valid_and_each_of_its_pods_has_a_place() {
    // Pods: 6 of web; 2 of training; 3 of database and 12 of worker.
    let expected = [("general-purpose.yaml", 6), ("gpu.yaml", 2), ("weighted-spot.yaml", 3 + 12)];
    let files = fs::read_dir(deploy("examples")).expect("the examples");
    assert_eq!(files.count(), expected.len());
    for (name, pods) in expected {
        let path = text(&format!("examples/{name}"));
        let checked = Program::new(PROGRAM, &["validate", "--strict", &path]).run(TIMEOUT);
        assert_eq!(checked.status, 0, "{}", checked.stderr);
        let planned = Program::new(PROGRAM, &["plan", "--region", "us-east-1", &path]).run(TIMEOUT);
        assert_eq!(planned.status, 0, "{}{}", planned.stdout, planned.stderr);
        assert!(planned.stdout.starts_with(&format!("{pods} pods planned: ")), "{}", planned.stdout);
    }
}
