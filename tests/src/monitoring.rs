//! The alerts and boards of `deploy/`, and what they select.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Beginnings of the names of metrics of a real cloud, which the demo does not have.
const OF_EC2: [&str; 3] = ["fleetwright_ec2_", "fleetwright_catalogue_", "fleetwright_interruption_queue_"];

/// A path below `deploy/`.
#[must_use]
pub fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// The text of a file below `deploy/`.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn read(path: &str) -> String {
    fs::read_to_string(deploy(path)).unwrap_or_else(|error| panic!("deploy/{path}: {error}"))
}

/// Texts after a mark at the begin of lines.
#[must_use]
pub fn after<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(mark)).collect()
}

/// Words of a text that begin as names of metrics do.
#[must_use]
pub fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    words.filter(|word| word.starts_with("fleetwright_") || word.starts_with("karpenter_")).collect()
}

/// Expressions of all panels of a board.
#[must_use]
pub fn exprs(board: &Value) -> Vec<String> {
    let panels = board["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.filter_map(|target| target["expr"].as_str().map(str::to_owned)).collect()
}

/// The boards by name.
///
/// # Panics
/// When one of them is no JSON.
#[must_use]
pub fn boards() -> Vec<(&'static str, Value)> {
    ["fleet", "cluster", "cost", "server"]
        .map(|name| {
            let text = read(&format!("grafana/{name}.json"));
            (name, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
        })
        .into()
}

/// Selectors of an expression, for all jobs and clusters.
#[must_use]
pub fn selectors(expr: &str) -> BTreeSet<String> {
    let of = |metric: &str| {
        let begins = expr.match_indices(metric).map(|(at, _)| at + metric.len());
        let selector = |at: usize| match expr[at..].strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((labels, _)) => format!("{metric}{{{labels}}}"),
            None => metric.to_owned(),
        };
        // A longer name begins as this one.
        let is_whole = |at: &usize| !expr[*at..].starts_with(|one: char| one.is_ascii_alphanumeric() || one == '_');
        begins.filter(is_whole).map(selector).collect::<Vec<String>>()
    };
    let found = metrics(expr).into_iter().flat_map(of);
    found.map(|selector| selector.replace("$job", ".*").replace("$cluster", ".*")).collect()
}

/// Selectors of all boards, and metrics of all alerts: alerts select what is rare, so that their metrics suffice. Those of a real
/// cloud alone, or all others.
#[must_use]
pub fn wanted(of_ec2: bool) -> BTreeSet<String> {
    let mut wanted: BTreeSet<String> =
        boards().iter().flat_map(|(_, board)| exprs(board)).flat_map(|expr| selectors(&expr)).collect();
    wanted.extend(metrics(&after(&read("prometheus/alerts.yaml"), "expr: ").join(" ")).into_iter().map(str::to_owned));
    wanted.retain(|selector| OF_EC2.iter().any(|prefix| selector.starts_with(prefix)) == of_ec2);
    wanted
}
