//! What each crate does not depend on. Cargo resolves the dependencies; no test of the crates
//! themselves could notice one that is not used yet.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A crate of the project and packages that must not be among its dependencies, direct or not. A
/// name that ends with `-` is the prefix of a family.
const RULES: [(&str, &[&str]); 47] = [
    ("fleetwright-proto", &["fleetwright-", "tonic", "tokio"]),
    ("fleetwright-settings", &["fleetwright-", "clap", "tokio"]),
    ("fleetwright-model", &["fleetwright-", "tokio", "serde"]),
    ("fleetwright-api-budget", &["fleetwright-store", "fleetwright-cloud", "fleetwright-controller", "tokio", "serde"]),
    ("fleetwright-odds", &["fleetwright-store", "fleetwright-cloud", "fleetwright-controller", "tokio", "serde"]),
    ("fleetwright-cost", &["fleetwright-store", "fleetwright-cloud", "fleetwright-controller", "tokio", "serde"]),
    (
        "fleetwright-trace",
        &["fleetwright-store", "fleetwright-cloud", "fleetwright-proto", "opentelemetry", "tokio", "serde"],
    ),
    ("fleetwright-scheduler", &["fleetwright-verifier", "fleetwright-controller", "fleetwright-explain", "tokio"]),
    ("fleetwright-verifier", &["fleetwright-scheduler", "fleetwright-controller", "fleetwright-explain", "tokio"]),
    (
        "fleetwright-binding",
        &["fleetwright-scheduler", "fleetwright-controller", "fleetwright-explain", "tokio", "serde"],
    ),
    ("fleetwright-explain", &["fleetwright-scheduler", "fleetwright-controller", "tokio"]),
    (
        "fleetwright-karpenter-baseline",
        &["fleetwright-scheduler", "fleetwright-verifier", "fleetwright-planner", "tokio"],
    ),
    ("fleetwright-planner", &["fleetwright-controller", "fleetwright-manifests", "tokio", "serde"]),
    ("fleetwright-quote", &["fleetwright-controller", "fleetwright-manifests", "tokio", "serde"]),
    (
        "fleetwright-drift",
        &["fleetwright-planner", "fleetwright-controller", "fleetwright-manifests", "tokio", "serde"],
    ),
    ("fleetwright-disruption", &["fleetwright-controller", "fleetwright-manifests", "tokio", "serde"]),
    ("fleetwright-repack", &["fleetwright-controller", "fleetwright-manifests", "tokio", "serde"]),
    (
        "fleetwright-cluster",
        &["fleetwright-planner", "fleetwright-controller", "fleetwright-manifests", "tokio", "serde"],
    ),
    ("fleetwright-controller", &["fleetwright-scheduler", "fleetwright-store", "fleetwright-proto", "tokio", "serde"]),
    ("fleetwright-manifests", &["fleetwright-cloud", "fleetwright-scheduler", "fleetwright-controller", "tokio"]),
    (
        "fleetwright-planning-input",
        &["fleetwright-planner", "fleetwright-scheduler", "fleetwright-controller", "tokio"],
    ),
    ("fleetwright-cloud", &["aws-", "tokio"]),
    (
        "fleetwright-simulated-ec2",
        &["aws-", "fleetwright-cloud-ec2", "fleetwright-server", "fleetwright-controller", "fleetwright-simulation"],
    ),
    (
        "fleetwright-store",
        &[
            "fleetwright-scheduler",
            "fleetwright-verifier",
            "fleetwright-controller",
            "tonic",
            "axum",
            "clap",
            "sqlx",
            "tokio",
        ],
    ),
    (
        "fleetwright-store-postgres",
        &["fleetwright-scheduler", "fleetwright-verifier", "fleetwright-controller", "tonic"],
    ),
    ("fleetwright-decision-log", &["tokio", "tonic", "sqlx"]),
    ("fleetwright-auth", &["fleetwright-store", "fleetwright-agent-session", "fleetwright-model"]),
    ("fleetwright-agent-session", &["tonic", "tokio", "sqlx"]),
    ("fleetwright-listing", &["fleetwright-", "tokio", "serde"]),
    ("fleetwright-top", &["fleetwright-proto", "crossterm", "ratatui-crossterm", "tokio", "serde"]),
    ("fleetwright-field-mask", &["fleetwright-"]),
    (
        "fleetwright-transcoding",
        &["fleetwright-proto", "fleetwright-rpc", "fleetwright-model", "fleetwright-auth", "fleetwright-server"],
    ),
    ("fleetwright-replica", &["tokio", "sqlx", "tonic"]),
    ("fleetwright-command", &["fleetwright-server-settings", "fleetwright-store", "fleetwright-controller", "tokio"]),
    ("fleetwright-server-settings", &["fleetwright-store-postgres", "fleetwright-fleet-api", "sqlx"]),
    ("fleetwright-telemetry", &["fleetwright-store", "fleetwright-fleet-api", "sqlx"]),
    ("fleetwright-metrics", &["fleetwright-", "tokio", "serde"]),
    ("fleetwright-api-messages", &["fleetwright-controller", "fleetwright-planner", "sqlx"]),
    ("fleetwright-render", &["fleetwright-controller", "fleetwright-store", "tokio"]),
    (
        "fleetwright-fleet-api",
        &["fleetwright-store-postgres", "fleetwright-cloud-ec2", "fleetwright-client", "fleetwright-server", "sqlx"],
    ),
    ("fleetwright-dashboard", &["fleetwright-store-postgres", "fleetwright-cloud-ec2", "fleetwright-server", "sqlx"]),
    (
        "fleetwright-client",
        &["fleetwright-fleet-api", "fleetwright-auth", "fleetwright-replica", "fleetwright-store-postgres", "sqlx"],
    ),
    ("fleetwright-offline", &["fleetwright-fleet-api", "fleetwright-server", "fleetwright-replica"]),
    (
        "fleetwright-server",
        &[
            "fleetwright-simulation",
            "fleetwright-agent",
            "fleetwright",
            "fleetwright-sim",
            "fleetwright-client",
            "fleetwright-offline",
        ],
    ),
    ("fleetwright", &["fleetwright-simulation", "fleetwright-simulated-ec2", "fleetwright-sim"]),
    ("fleetwright-sim", &["aws-", "kube", "fleetwright", "fleetwright-agent-kubernetes"]),
    ("fleetwright-agent", &["fleetwright-model", "fleetwright-auth", "fleetwright-server"]),
];

/// Names of all packages that `package` depends on, outside of tests and build scripts.
fn dependencies(package: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the project");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"]);
    let output = cargo.args(["--format", "{p}", "--package", package]).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("names of packages");
    let names = tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| *name != package);
    names.map(str::to_owned).collect()
}

fn is_excluded(name: &str, excluded: &[&str]) -> bool {
    excluded.iter().any(|rule| if rule.ends_with('-') { name.starts_with(rule) } else { name == *rule })
}

#[test]
fn no_crate_has_a_dependency_that_it_must_not_have() {
    let mut found = Vec::new();
    for (package, excluded) in RULES {
        let names = dependencies(package).into_iter().filter(|name| is_excluded(name, excluded));
        found.extend(names.map(|name| format!("{package} depends on {name}")));
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Without this, a change of Cargo's output could hide every dependency.
#[test]
fn dependencies_that_exist_are_found() {
    let planner = dependencies("fleetwright-planner");
    for name in ["fleetwright-scheduler", "fleetwright-verifier", "fleetwright-model", "smallvec"] {
        assert!(planner.contains(name), "{name} is not among {planner:?}");
    }
    assert!(is_excluded("fleetwright-scheduler", &["fleetwright-"]) && !is_excluded("serde_json", &["serde"]));
}
