//! Holds through either replica: one for each request, with its room in the cluster of the other one.

use serde_json::Value;

use super::FOR_EVER;
use super::environment::{Server, wait_until};
use super::fleet_api::two_clusters;
use crate::fleetwright;
use crate::serve::json;

const PODS: [&str; 6] = ["--pods", "2", "--cpu", "2", "--memory", "1Gi"];

/// A command about holds: the exit status, the hold, and what was said.
fn run(server: &Server, arguments: &[&str]) -> (i32, Value, String) {
    let address = format!("http://{}", server.grpc);
    let ended = fleetwright(&[arguments, &["--server", &address, "-o", "json"]].concat());
    (ended.status, serde_json::from_str(&ended.stdout).unwrap_or_default(), ended.stderr)
}

#[test]
fn a_hold_is_created_once_used_and_released_through_either_replica() {
    let test = "a_hold_is_created_once_used_and_released_through_either_replica";
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let (first, second) = (&environment.first, &environment.second);

    // `bank` is the cluster of the second replica. The same request at both: one hold.
    let id = ["--request-id", "7d444840-9dc0-11d1-b245-5ffdce74fad2"];
    let asked = [&["hold", "-C", "bank"][..], &PODS, &id].concat();
    let (status, hold, said) = run(first, &asked);
    assert_eq!(status, 0, "{said}");
    let name = hold["name"].as_str().expect("a hold has a name");
    assert!(name.starts_with("clusters/bank/holds/h-"), "{hold:#}");
    assert_eq!(run(second, &asked).1["name"], *name);
    let other = [&["hold", "-C", "bank", "--pods", "3", "--cpu", "2"][..], &id].concat();
    let (status, _, said) = run(second, &other);
    assert!(status == 2 && said.contains("belongs to another request"), "{status} {said}");

    // Its room is bought, and both replicas say so.
    let active = wait_until(
        || format!("an active hold; it is\n{:#}", json(&first.http, &format!("/v1/{name}"))),
        || Some(json(&first.http, &format!("/v1/{name}"))).filter(|hold| hold["state"] == "HOLD_STATE_ACTIVE"),
    );
    assert_eq!(json(&second.http, &format!("/v1/{name}")), active);
    let node = active["nodes"][0]["node"].as_str().expect("a node");
    assert!(active["priceMicroUsdPerHour"].as_str().is_some_and(|price| price != "0"), "{active:#}");
    assert_eq!(active["nodeSelector"], active["podLabels"]);
    let listed = json(&second.http, "/v1/clusters/bank/holds?filter=state=HOLD_STATE_ACTIVE");
    assert_eq!(listed["holds"][0], active, "{listed:#}");
    let nodes = json(&first.http, "/v1/clusters/bank/nodes").to_string();
    assert!(nodes.contains(node), "{nodes}");

    // Commit and release, by the etag that was read.
    let (status, _, said) = run(first, &["commit", name, "--etag", "1"]);
    assert!(status == 2 && said.contains("has etag"), "{status} {said}");
    let etag = json(&first.http, &format!("/v1/{name}"))["etag"].as_str().unwrap().to_owned();
    let (status, committed, said) = run(first, &["commit", name, "--etag", &etag]);
    assert_eq!((status, &committed["state"]), (0, &Value::from("HOLD_STATE_COMMITTED")), "{said}");
    assert!(committed["expireTime"].is_null(), "{committed:#}");
    let (status, released, said) = run(second, &["release", name]);
    assert_eq!((status, &released["state"]), (0, &Value::from("HOLD_STATE_RELEASED")), "{said}");
    wait_until(
        || format!("the node {node} is removed"),
        || (!json(&second.http, "/v1/clusters/bank/nodes").to_string().contains(node)).then_some(()),
    );
    let (status, _, said) = run(second, &["commit", name]);
    assert!(status == 2 && said.contains("only an ACTIVE hold is committed"), "{status} {said}");

    // What cannot be held is said, and nothing is written.
    let before = json(&first.http, "/v1/clusters/-/holds");
    let (status, _, said) = run(first, &["hold", "-C", "bnak", "--pods", "1", "--cpu", "1", "--validate-only"]);
    assert!(status == 2 && said.contains("there is no cluster"), "{status} {said}");
    let (status, best, said) = run(first, &["hold", "--pods", "1", "--cpu", "1", "--validate-only"]);
    assert_eq!((status, best["name"].as_str()), (0, Some("")), "{said}");
    assert!(["clusters/bank", "clusters/shop"].iter().any(|cluster| best["cluster"] == **cluster), "{best:#}");
    assert_eq!(json(&first.http, "/v1/clusters/-/holds"), before);
    drop(agents);
}
