//! `fleetwright plan --disrupt`, as users see it.
//!
//! Four m5.xlarge cost 4 × 0.192 = 0.768. The empty node goes, and one of the two web servers moves beside the
//! database (1,500 of the 2,920 millicores that are free there): 0.384 is saved. The budget of two nodes is used
//! up then, and the PodDisruptionBudget holds the database.

use std::path::{Path, PathBuf};

use e2e::TempDir;
use serde_json::{Value, json};

use crate::fleetwright;

fn cluster() -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of the project").to_owned();
    root.join("tests/fixtures/disruption/cluster.yaml").display().to_string()
}

fn planned(more: &[&str]) -> String {
    let cluster = cluster();
    let ended = fleetwright(&[&["plan", "--disrupt", "-f", &cluster, "--now", "2026-11-01T00:00:00Z"], more].concat());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    ended.stdout
}

#[test]
fn the_document_has_commands_holds_and_cost() {
    let plan: Value = serde_json::from_str(&planned(&["-o", "json"])).unwrap();
    assert_eq!((&plan["apiVersion"], &plan["kind"]), (&json!("fleetwright.dev/v1"), &json!("DisruptionPlan")));
    let moved = json!([{"pod": "shop/web-5d8-a", "node": "ip-10-0-1-13"}]);
    assert_eq!(
        plan["commands"],
        json!([
            {"reason": "Empty", "nodes": ["ip-10-0-1-14"], "replacements": [], "placements": [], "savingsUsdPerHour": 0.192},
            {"reason": "Underutilized", "nodes": ["ip-10-0-1-11"], "replacements": [], "placements": moved,
             "savingsUsdPerHour": 0.192},
        ])
    );
    let held = plan["held"].as_array().unwrap().iter();
    let held: Vec<[&Value; 3]> =
        held.map(|held| [&held["node"], &held["by"][0]["code"], &held["by"][0]["object"]]).collect();
    assert_eq!(
        json!(held),
        json!([
            ["ip-10-0-1-12", "Budget", "NodePool/default"],
            ["ip-10-0-1-13", "PodDisruptionBudget", "PodDisruptionBudget/shop/db"],
        ])
    );
    let cost = &plan["cost"];
    assert_eq!((&cost["beforeUsdPerHour"], &cost["afterUsdPerHour"]), (&json!(0.768), &json!(0.384)));
    // The database stays, and a web server beside it leaves the other one without a place there: two nodes.
    assert_eq!(cost["lowerBoundUsdPerHour"], json!(0.384));
    // The day of the prices of us-east-1 in the built-in catalogue.
    assert_eq!(cost["priceDate"], json!("2026-07-20"));
}

#[test]
fn the_table_states_what_is_saved_and_what_holds_the_rest() {
    let table = planned(&[]);
    for line in [
        "2 nodes may be removed now, 0 nodes launched instead, and 1 pod moved: that saves $0.384 an hour (about $280 a month).",
        "Underutilized  ip-10-0-1-11  -            1           0.192",
        "allows no eviction now, and selects pod shop/db-0",
    ] {
        assert!(table.contains(line), "{line}\n{table}");
    }
    assert_eq!(planned(&["-o", "yaml"]).lines().next(), Some("apiVersion: fleetwright.dev/v1"));
}

#[test]
fn a_comment_has_commands_and_holds() {
    let comment = planned(&["-o", "markdown"]);
    let head =
        "### Fleetwright plan of disruption\n\n2 nodes may be removed now, 0 nodes launched instead, and 1 pod moved: ";
    assert!(comment.starts_with(head), "{comment}");
    for line in [
        "#### Commands\n\n| Reason | Nodes | Replaced by | Pods moved | Saves $/hour |\n|---|---|---|--:|--:|",
        "| Empty | `ip-10-0-1-14` | `-` | 0 | 0.192 |",
        "| Underutilized | `ip-10-0-1-11` | `-` | 1 | 0.192 |",
        "#### Nodes that stay\n\n| Node | Would go as | Held by | Code | Why |\n|---|---|---|---|---|\n",
        "| `ip-10-0-1-13` | Underutilized | `PodDisruptionBudget/shop/db` | PodDisruptionBudget | ",
    ] {
        assert!(comment.contains(line), "{line}\n{comment}");
    }
}

#[test]
fn a_threshold_above_the_savings_leaves_only_what_is_empty() {
    let plan: Value =
        serde_json::from_str(&planned(&["-o", "json", "--min-savings-usd", "0.1", "--churn-price-usd", "0.1"]))
            .unwrap();
    let reasons: Vec<&Value> = plan["commands"].as_array().unwrap().iter().map(|command| &command["reason"]).collect();
    // 0.192 is not more than 0.1 and 0.1 for the moved pod.
    assert_eq!(json!(reasons), json!(["Empty"]));
    assert!(
        plan["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("saves more than $0.10"))
    );
}

#[test]
fn an_input_without_a_node_is_refused() {
    let folder = TempDir::new();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n";
    let file = folder.write_file("pod.yaml", pod);
    let ended = fleetwright(&["plan", "--disrupt", "-f", &file]);
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    let message = "error: --disrupt: the input has no Node and no NodeClaim, so there is nothing to disrupt; capture the \
                   cluster with its nodes";
    assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
}

/// What Karpenter switches by them is always there, or not at all.
#[test]
fn feature_gates_that_change_nothing_here_are_noted() {
    let notes = |gates: &str| {
        let plan: Value = serde_json::from_str(&planned(&["-o", "json", "--feature-gates", gates])).unwrap();
        let notes = plan["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
        notes.filter(|note| note.contains("feature gate")).map(str::to_owned).collect::<Vec<String>>()
    };
    let expected = "the feature gate StaticCapacity changes nothing: static NodePools are always planned";
    assert_eq!(notes("StaticCapacity=true"), [expected]);
    assert_eq!(notes("NodeRepair=false,StaticCapacity=false"), [expected]);
    assert_eq!(notes("NodeRepair=true"), Vec::<String>::new());
}

#[test]
fn flags_that_do_not_apply_are_refused() {
    let cluster = cluster();
    for (arguments, message) in [
        (
            &["--disrupt", "-o", "svg"][..],
            "error: --disrupt is not printed as svg; use -o table, json, yaml or markdown",
        ),
        (&["--disrupt", "--feature-gates", "Drift=true"], "error: invalid value 'Drift=true'"),
        (&["--min-savings-usd", "1"], "error: the following required arguments were not provided:\n  --disrupt"),
    ] {
        let ended = fleetwright(&[&["plan", "-f", &cluster], arguments].concat());
        assert_eq!(ended.status, 2, "{arguments:?}");
        assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    }
}
