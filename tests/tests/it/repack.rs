//! `fleetwright plan --repack`, `-o markdown` and `-o svg`, as users see them.
//!
//! The five nodes of the cluster cost 5 × 0.192 = 0.96. Its pods request 3.5 CPUs and 7 GiB, which an
//! m7i-flex.xlarge carries for 0.19152. A budget, an annotation and a local volume hold three nodes
//! for 3 × 0.192 = 0.576, in which the two other pods find room: 0.576 - 0.19152 = 0.38448 is held.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Program, TempDir};
use serde_json::{Value, json};

use crate::{PROGRAM, TIMEOUT, fleetwright};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the project").to_owned()
}

fn cluster() -> String {
    root().join("tests/fixtures/repack/cluster.yaml").display().to_string()
}

fn repacked(more: &[&str]) -> String {
    let cluster = cluster();
    let ended = fleetwright(&[&["plan", "--repack", "-f", &cluster], more].concat());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    ended.stdout
}

#[test]
fn the_document_has_what_is_paid_needed_and_held() {
    let plan: Value = serde_json::from_str(&repacked(&["-o", "json"])).unwrap();
    let cost = &plan["cost"];
    let figures = ["newUsdPerHour", "nowUsdPerHour", "neededUsdPerHour", "heldUsdPerHour"].map(|key| &cost[key]);
    assert_eq!(figures, [&json!(0.0), &json!(0.96), &json!(0.19152), &json!(0.38448)]);
    let held: Vec<(&Value, &Value, &Value, &Value)> = plan["held"]
        .as_array()
        .unwrap()
        .iter()
        .map(|held| (&held["node"], &held["reason"], &held["by"][0]["code"], &held["by"][0]["object"]))
        .collect();
    let node = |name: &'static str, code: &'static str, object: &'static str| [name, "Underutilized", code, object];
    let expected = [
        node("ip-10-0-1-11", "PodDisruptionBudget", "PodDisruptionBudget/shop/db"),
        node("ip-10-0-1-12", "DoNotDisrupt", "Pod/shop/report-7"),
        node("ip-10-0-1-13", "LocalVolume", "PersistentVolume/local-7"),
    ];
    assert_eq!(held.len(), expected.len(), "{held:?}");
    for ((node, reason, code, object), expected) in held.into_iter().zip(expected) {
        assert_eq!([node, reason, code, object].map(|value| value.as_str().unwrap()), expected);
    }
}

#[test]
fn a_plan_without_the_flag_has_neither_held_nodes_nor_their_costs() {
    let cluster = cluster();
    let ended = fleetwright(&["plan", "-f", &cluster, "-o", "json"]);
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(plan.get("held").is_none() && plan["cost"].get("nowUsdPerHour").is_none(), "{plan}");
}

#[test]
fn readme_shows_what_is_printed() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&repacked(&[])), "README.md lacks:\n{}", repacked(&[]));
    let comment = repacked(&["-o", "markdown"]);
    assert!(comment.starts_with("### Fleetwright: the cluster costs $0.96 an hour and needs $0.19152\n"), "{comment}");
}

#[test]
fn every_format_prints_a_repacked_cluster() {
    let has = |format: &str, words: &str| {
        let text = repacked(&["-o", format]);
        assert!(text.contains(words), "{format}: {text}");
    };
    has("table", "these hold $0.38448 an hour");
    has("wide", "shop/web-5d8-a, shop/web-5d8-b");
    has("yaml", "neededUsdPerHour: 0.19152");
    has("markdown", "| `Pod/shop/report-7` | DoNotDisrupt | 1 | 0.192 |");
    has("svg", "data-pod=\"shop/web-5d8-a\"");
}

#[test]
fn protection_is_judged_at_the_time_of_the_plan() {
    // The pod started at noon, and is protected for an hour.
    let folder = TempDir::new();
    let text = fs::read_to_string(cluster()).unwrap();
    let text = text.replace("do-not-disrupt: \"true\"", "do-not-disrupt: 1h");
    let text = text.replace(
        "cpu: 500m, memory: 1Gi}}}]}, status: {phase: Running",
        "cpu: 500m, memory: 1Gi}}}]}, status: {startTime: 2026-01-01T12:00:00Z, phase: Running",
    );
    let file = folder.write_file("cluster.yaml", text);
    let held = |now: &str| {
        let ended = fleetwright(&["plan", "--repack", "-f", &file, "-o", "json", "--now", now]);
        let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
        plan["held"].as_array().unwrap().len()
    };
    assert_eq!((held("2026-01-01T12:59:59Z"), held("2026-01-01T13:00:00Z")), (3, 2));
}

#[test]
fn a_capture_is_repacked_from_standard_input() {
    let text = fs::read_to_string(cluster()).unwrap();
    let from_pipe = Program::new(PROGRAM, &["plan", "--repack", "-f", "-"]).input(text).run(TIMEOUT);
    assert_eq!((from_pipe.status, from_pipe.stdout), (0, repacked(&[])));
}

#[test]
fn a_limit_is_applied_to_the_new_nodes_in_every_format() {
    let cluster = cluster();
    // Without the budget and the two other holds, a new node is launched for 0.19152.
    let folder = TempDir::new();
    let text = fs::read_to_string(&cluster).unwrap();
    let free: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("PodDisruptionBudget") && !line.contains("kind: PersistentVolume, "))
        .collect();
    let free = free
        .join("\n")
        .replace("do-not-disrupt: \"true\"", "do-not-disrupt: \"false\"")
        .replace("volumes: [{name: data, persistentVolumeClaim: {claimName: data-cache-0}}], ", "");
    let file = folder.write_file("cluster.yaml", free);
    for format in ["table", "json", "markdown", "svg"] {
        let run = |most: &str| fleetwright(&["plan", "--repack", "-f", &file, "-o", format, "--max-usd", most]);
        assert_eq!(run("0.19152").status, 0, "{format}");
        let over = run("0.1915");
        assert_eq!(
            (over.status, over.stderr.as_str()),
            (1, "the new nodes cost $0.19152 an hour, more than --max-usd 0.1915\n"),
            "{format}"
        );
        assert!(!over.stdout.is_empty());
    }
}

#[test]
fn flags_without_effect_together_are_refused() {
    let folder = TempDir::new();
    let pod = folder
        .write_file("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n");
    let cluster = cluster();
    let text = fs::read_to_string(&cluster).unwrap();
    let without_pool: Vec<&str> = text.lines().filter(|line| !line.contains("kind: NodePool")).collect();
    let without_pool = folder.write_file("without-pool.yaml", without_pool.join("\n"));
    for (arguments, message) in [
        (&["--repack", "-f", &without_pool][..], "error: --repack: the input has no NodePool"),
        (&["--repack", "-f", &pod], "error: --repack: the input has no Node whose price is known"),
        (&["-f", &cluster, "--compare", "karpenter", "-o", "svg"], "error: --compare has no effect with -o svg"),
        (&["-f", &cluster, "--explain-node", "n", "-o", "markdown"], "error: --explain-node prints text only"),
        (&["-f", &cluster, "--repack", "--disrupt"], "error: the argument '--repack' cannot be used with '--disrupt'"),
    ] {
        let ended = fleetwright(&[&["plan"], arguments].concat());
        assert_eq!(ended.status, 2, "{arguments:?}");
        assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    }
}
