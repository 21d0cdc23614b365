//! Quotes and shown plans over the clusters of two replicas: the same from both, and without any effect.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use e2e::TempDir;
use serde_json::{Value, json};

use super::FOR_EVER;
use super::environment::{Server, wait_until};
use super::fleet_api::two_clusters;
use crate::fleetwright;
use crate::serve::json as get_json;

/// `fleetwright quote` with these arguments: the exit status, and the response.
fn quote(server: &Server, arguments: &[&str]) -> (i32, Value) {
    let address = format!("http://{}", server.grpc);
    let all = [&["quote", "--server", &address, "-o", "json"], arguments].concat();
    let ended = fleetwright(&all);
    assert!(ended.status <= 1, "{arguments:?}: {}", ended.stderr);
    let response = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout));
    (ended.status, response)
}

/// What a quote says of each cluster, without the odds and the time of the state, which change.
fn answers(response: &Value) -> Vec<Value> {
    let quotes = response["quotes"].as_array().unwrap_or_else(|| panic!("{response:#}")).clone();
    let without_changing = |mut quote: Value| {
        quote.as_object_mut().map(|fields| ["odds", "observeTime"].map(|changing| fields.remove(changing)));
        quote
    };
    quotes.into_iter().map(without_changing).collect()
}

fn of<'r>(response: &'r Value, cluster: &str) -> &'r Value {
    let quotes = response["quotes"].as_array().unwrap_or_else(|| panic!("{response:#}"));
    let found = quotes.iter().find(|quote| quote["cluster"] == *format!("clusters/{cluster}"));
    found.unwrap_or_else(|| panic!("no {cluster} in {response:#}"))
}

fn new_node_count(quote: &Value) -> i64 {
    quote["newNodes"].as_array().map_or(0, |nodes| nodes.iter().filter_map(|nodes| nodes["count"].as_i64()).sum())
}

/// The JSON that a replica answers to a POST, and the HTTP code.
fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let (address, body) = (&server.http, body.to_string());
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    // The body may be chunked; the JSON is its one line that begins with a brace.
    let line = answer.lines().find(|line| line.starts_with('{')).unwrap_or("{}");
    (code, serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

/// A pod set as the API has it, whose pods need a label that no node has.
fn impossible() -> Value {
    json!({
        "name": "rack",
        "count": 3,
        "template": {"spec": {
            "nodeSelector": {"example.com/rack": "r1"},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}],
        }},
    })
}

#[test]
fn both_replicas_quote_both_clusters_alike_and_launch_nothing() {
    let test = "both_replicas_quote_both_clusters_alike_and_launch_nothing";
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let (first, second) = (&environment.first, &environment.second);
    // More than either cluster has room for, and less than the limits of its NodePools.
    let pods = ["--pods", "40", "--cpu", "3", "--memory", "1Gi"];
    // The clusters change all the time.
    let response = wait_until(
        || format!("equal quotes; the first has\n{:#}", quote(first, &pods).1),
        || {
            let (status, response) = quote(first, &pods);
            assert_eq!((status, &response["clusterCount"]), (0, &Value::from(2)), "{response:#}");
            (answers(&response) == answers(&quote(second, &pods).1)).then_some(response)
        },
    );
    for cluster in ["shop", "bank"] {
        let answer = of(&response, cluster);
        assert_eq!(answer["fits"], true, "{answer:#}");
        assert!(new_node_count(answer) > 0, "{answer:#}");
        let price = |field: &str| answer[field].as_str().and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
        assert!(price("priceMicroUsdPerHour") >= price("lowerBoundMicroUsdPerHour"), "{answer:#}");
        assert!(price("lowerBoundMicroUsdPerHour") > 0, "{answer:#}");
        let probability = answer["odds"]["probability"].as_f64().unwrap_or_default();
        assert!(probability > 0.0 && probability <= 1.0, "{answer:#}");
    }
    // Nothing is launched or booked for it: every machine is that of pods that exist.
    let decisions = get_json(&first.http, "/v1/clusters/-/decisions?view=DECISION_VIEW_FULL").to_string();
    assert!(!decisions.contains("pods-0000"), "{decisions}");
    let named = quote(second, &[&pods[..], &["-C", "shop"]].concat()).1;
    assert_eq!((answers(&named).len(), &named["clusterCount"]), (1, &Value::from(1)), "{named:#}");
    let unknown = fleetwright(&[
        "quote",
        "--server",
        &format!("http://{}", first.grpc),
        "--pods",
        "1",
        "--cpu",
        "1",
        "-C",
        "shopp",
    ]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.stderr.contains("there is no cluster \"shopp\"; did you mean \"shop\"?"), "{}", unknown.stderr);
    drop(agents);
}

#[test]
fn what_fits_nowhere_and_what_is_frozen_is_said_with_its_reason() {
    let test = "what_fits_nowhere_and_what_is_frozen_is_said_with_its_reason";
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let (first, second) = (&environment.first, &environment.second);
    let folder = TempDir::new();
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rack"},
        "spec": impossible()["template"]["spec"],
    });
    let file = folder.write_file("pod.json", manifest.to_string());
    let (status, response) = quote(first, &["-f", &file]);
    assert_eq!(status, 1);
    for cluster in ["shop", "bank"] {
        let answer = of(&response, cluster);
        assert_eq!((&answer["fits"], &answer["blockers"][0]["pods"]["podSet"]), (&json!(false), &json!("rack")));
        let reason = &answer["blockers"][0]["reasons"][0];
        assert!(reason["message"].as_str().is_some_and(|text| text.contains("example.com/rack")), "{answer:#}");
    }

    let address = format!("http://{}", first.grpc);
    let frozen = fleetwright(&["freeze", "--server", &address, "--cluster", "bank", "--reason", "moving"]);
    assert_eq!(frozen.status, 0, "{}", frozen.stderr);
    // More than the cluster has room for.
    let pods = ["--pods", "40", "--cpu", "3"];
    wait_until(
        || format!("a quote that names the freeze, and not\n{:#}", quote(first, &pods).1),
        || {
            let response = quote(first, &pods).1;
            let answer = of(&response, "bank");
            let reason = answer["blockers"][0]["reasons"][0]["message"].as_str().unwrap_or_default();
            (answer["fits"] == false && reason.contains("cluster bank is frozen by")).then_some(())
        },
    );
    // The frozen cluster comes last.
    let response = quote(second, &pods).1;
    let fits: Vec<bool> = answers(&response).iter().map(|answer| answer["fits"] == true).collect();
    assert_eq!(fits, [true, false], "{response:#}");
    drop(agents);
}

#[test]
fn a_plan_with_other_pods_is_shown_by_any_replica_and_errors_name_their_fields() {
    let test = "a_plan_with_other_pods_is_shown_by_any_replica_and_errors_name_their_fields";
    let Some((environment, agents)) = two_clusters(test, FOR_EVER) else { return };
    let template = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}});
    let pods = json!({"name": "batch", "count": 40, "template": template});
    for server in [&environment.first, &environment.second] {
        let asked = json!({"podSets": [pods, impossible()], "withoutPendingPods": true});
        let (code, response) = post(server, "/v1/clusters/shop:plan", &asked);
        assert_eq!(code, 200, "{response:#}");
        let plan = &response["plan"];
        // How many depends on the nodes that there are.
        assert!(plan["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{plan:#}");
        let left: Vec<&str> = plan["unschedulable"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .filter_map(|pod| pod["pod"].as_str())
            .collect();
        assert_eq!(left, ["default/rack-000000", "default/rack-000001", "default/rack-000002"]);
    }
    let wrong = json!({"podSets": [{"name": "a", "count": 1, "template": {"spec": {"containers": [{"name": "A"}]}}}]});
    for path in ["/v1/clusters/shop:plan", "/v1/clusters:quote"] {
        let (code, response) = post(&environment.second, path, &wrong);
        assert_eq!(code, 400, "{response:#}");
        let details = response["error"]["details"].to_string();
        assert!(details.contains("INVALID_FIELD") && details.contains("fleetwright.dev"), "{details}");
        assert!(details.contains("pod_sets[0].template.spec.containers[0].name"), "{details}");
    }
    let (code, response) = post(&environment.first, "/v1/clusters/nowhere:plan", &json!({}));
    assert_eq!(code, 404, "{response:#}");
    assert!(response["error"]["details"].to_string().contains("CLUSTER_NOT_FOUND"), "{response:#}");
    drop(agents);
}
