//! `fleetwright plan --disrupt`, as users see it.
//!
//! Four m5.xlarge cost 4 × 0.192 = 0.768. The empty node goes, and one of the two web servers moves beside the
//! database (1,500 of the 2,920 millicores that are free there): 0.384 is saved. The budget of two nodes is used
//! up then, and the PodDisruptionBudget holds the database.

use std::path::{Path, PathBuf};

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
fn flags_that_do_not_apply_are_refused() {
    let cluster = cluster();
    for (arguments, message) in [
        (&["--disrupt", "-o", "svg"][..], "error: --disrupt is not printed as svg"),
        (&["--disrupt", "--feature-gates", "Drift=true"], "error: invalid value 'Drift=true'"),
        (&["--min-savings-usd", "1"], "error: the following required arguments were not provided:\n  --disrupt"),
    ] {
        let ended = fleetwright(&[&["plan", "-f", &cluster], arguments].concat());
        assert_eq!(ended.status, 2, "{arguments:?}");
        assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    }
}
