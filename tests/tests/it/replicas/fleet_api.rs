//! The API of each replica shows the whole fleet: its own clusters, those of the other one, and those that no replica
//! decides for now.

use e2e::Signal;
use serde_json::Value;

use super::environment::{Environment, Server, fleet_of, wait_until};
use super::{FOR_EVER, SHORT};
use crate::fleetwright;
use crate::serve::{get, json};

/// Both servers with a cluster each: `shop` is that of the first, `bank` that of the second.
pub(super) fn two_clusters(test: &str, lease: std::time::Duration) -> Option<(Environment, [e2e::RunningProcess; 2])> {
    let environment = Environment::start(test, lease, &[])?;
    let shop = environment.agent("shop");
    environment.wait_until_lease("cluster/shop", |_| true);
    environment.proxy.set_target(environment.second.grpc);
    let bank = environment.agent("bank");
    environment.wait_until_lease("cluster/bank", |_| true);
    for server in [&environment.first, &environment.second] {
        environment.wait_until_fleet(server, "both clusters, synced", |fleet| {
            ["shop", "bank"].iter().all(|name| {
                let is_shown = |cluster: &Value| cluster["synced"] == true && cluster["stale"] == false;
                fleet_of(fleet, name).is_some_and(is_shown)
            })
        });
    }
    assert_ne!(environment.lease("cluster/shop").owner, environment.lease("cluster/bank").owner);
    Some((environment, [shop, bank]))
}

/// All rows of a list, by pages of this size.
fn pages(server: &Server, path: &str, field: &str, size: usize) -> Vec<Value> {
    let (mut rows, mut token) = (Vec::new(), String::new());
    loop {
        let page = json(&server.http, &format!("{path}?pageSize={size}&pageToken={token}"));
        let found = page[field].as_array().unwrap_or_else(|| panic!("{path}: {page:#}")).clone();
        assert!(found.len() <= size, "{page:#}");
        rows.extend(found);
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return rows;
        }
    }
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["name"].as_str()).collect()
}

/// The nodes of both clusters, once both replicas say the same.
fn equal_nodes(first: &Server, second: &Server) -> Value {
    wait_until(
        || format!("equal nodes; the first has\n{:#}", json(&first.http, "/v1/clusters/-/nodes")),
        || {
            let read = |server: &Server| json(&server.http, "/v1/clusters/-/nodes?pageSize=1000")["nodes"].clone();
            let nodes = read(first);
            let of = |cluster: &str| {
                let prefix = format!("clusters/{cluster}/nodes/");
                nodes.as_array().is_some_and(|rows| names(rows).iter().any(|name| name.starts_with(&prefix)))
            };
            (of("shop") && of("bank") && nodes == read(second)).then(|| nodes.clone())
        },
    )
}

#[test]
fn every_replica_answers_for_the_whole_fleet() {
    let Some((environment, agents)) = two_clusters("every_replica_answers_for_the_whole_fleet", FOR_EVER) else {
        return;
    };
    let (first, second) = (&environment.first, &environment.second);
    // The clusters change all the time.
    let nodes = equal_nodes(first, second);
    let sorted = names(nodes.as_array().unwrap());
    assert!(sorted.is_sorted(), "{sorted:?}");

    // gRPC, by the command, and JSON over HTTP say the same, field by field.
    let server = format!("http://{}", first.grpc);
    wait_until(
        || "the same nodes over gRPC and over HTTP".to_owned(),
        || {
            let read = || json(&second.http, "/v1/clusters/-/nodes?pageSize=1000")["nodes"].clone();
            let before = read();
            let asked = fleetwright(&["fleet", "nodes", "--server", &server, "-o", "json"]);
            assert_eq!(asked.status, 0, "{}", asked.stderr);
            let by_grpc: Value =
                serde_json::from_str(&asked.stdout).unwrap_or_else(|error| panic!("{error}: {}", asked.stdout));
            // The clusters change; what did not change in between is compared.
            (before == read()).then(|| assert_eq!(by_grpc, before))
        },
    );

    // Pages are put together from both.
    wait_until(
        || "equal pages".to_owned(),
        || {
            let whole = pages(first, "/v1/clusters/-/nodes", "nodes", 1_000);
            let cut = pages(second, "/v1/clusters/-/nodes", "nodes", 1);
            (whole.len() >= 2 && whole == cut).then_some(())
        },
    );

    node_of_the_other(first);

    // The price of the fleet is the sum of its clusters.
    let cost = json(&second.http, "/v1/clusters/-:computeCost?groupBy=COST_GROUP_CLUSTER");
    let groups: Vec<&str> = cost["sums"].as_array().unwrap().iter().filter_map(|sum| sum["group"].as_str()).collect();
    assert!(groups.contains(&"clusters/shop") && groups.contains(&"clusters/bank"), "{cost:#}");

    costs_add_up((first, second), &server);

    // Decisions are those of the store, whichever replica made them.
    let decisions = json(&first.http, "/v1/clusters/-/decisions?view=DECISION_VIEW_FULL")["decisions"].clone();
    let text = decisions.to_string();
    assert!(text.contains("clusters/shop/decisions/") && text.contains("clusters/bank/decisions/"), "{text}");
    let name = decisions[0]["name"].as_str().unwrap();
    assert_eq!(json(&second.http, &format!("/v1/{name}")), decisions[0]);

    let missing = get(&first.http, "/v1/clusters/bankk/nodes");
    assert!(missing.starts_with("HTTP/1.1 404") && missing.contains("did you mean"), "{missing}");
    drop(agents);
}

/// A resource of the other replica's cluster, and the reason of its node. A node may be removed between two
/// requests, or have no price before its launch: each attempt takes one of the nodes that exist.
fn node_of_the_other(first: &Server) {
    let (name, why) = wait_until(
        || format!("a node of bank from the first, which has\n{:#}", json(&first.http, "/v1/clusters/bank/nodes")),
        || {
            let nodes = json(&first.http, "/v1/clusters/bank/nodes?pageSize=1000")["nodes"].clone();
            let name = names(nodes.as_array()?).first().map(|name| (*name).to_owned())?;
            let node = json(&first.http, &format!("/v1/{name}"));
            let why = json(&first.http, &format!("/v1/{name}:explain"));
            let is_launched = node["priceMicroUsdPerHour"].as_str().is_some_and(|price| price != "0");
            (node["name"] == *name && is_launched && why["present"]["node"].is_string()).then_some((name, why))
        },
    );
    assert_eq!(why["present"]["node"].as_str(), name.rsplit('/').next(), "{why:#}");
}

/// What was written within the first minute is summed alike by both replicas, by the commands, and in the CSV.
fn costs_add_up((first, second): (&Server, &Server), server: &str) {
    let micro_usd = |value: &Value| value["amountMicroUsd"].as_str().and_then(|text| text.parse::<i64>().ok());
    let spend = wait_until(
        || {
            format!(
                "costs of both clusters: {}",
                json(&first.http, "/v1/clusters/-:computeSpend?groupBy=COST_GROUP_CLUSTER")
            )
        },
        || {
            // Costs may be written in between.
            let read = |server: &Server| json(&server.http, "/v1/clusters/-:computeSpend?groupBy=COST_GROUP_CLUSTER");
            let spend = read(first);
            (spend["sums"].as_array().is_some_and(|sums| sums.len() == 2) && spend["sums"] == read(second)["sums"])
                .then_some(spend)
        },
    );
    let parts: i64 = spend["sums"].as_array().into_iter().flatten().filter_map(micro_usd).sum();
    assert_eq!(Some(parts), micro_usd(&spend), "{spend:#}");
    let causes = spend["breakdown"].as_object().into_iter().flat_map(|causes| causes.values());
    let causes: i64 = causes.filter_map(|amount| amount.as_str()?.parse::<i64>().ok()).sum();
    assert_eq!(causes, parts, "{spend:#}");

    let table = fleetwright(&["fleet", "spend", "--server", server, "--per", "hour", "--by", "pool"]);
    assert!(table.status == 0 && table.stdout.contains("clusters/shop/pools/"), "{}{}", table.stdout, table.stderr);
    let savings = fleetwright(&["fleet", "savings", "--server", server]);
    assert_eq!(savings.status, 0, "{}", savings.stderr);
    let csv = fleetwright(&["fleet", "focus", "--server", server]);
    let rows: Vec<Vec<&str>> = csv.stdout.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "EffectiveCost").expect("the column");
    // No cell before it has a comma.
    let costs = rows[1..].iter().map(|row| row[column].replacen('.', "", 1).parse::<i64>().expect("an amount"));
    assert!(costs.sum::<i64>() >= parts, "{}", csv.stdout);
}

#[test]
fn the_clusters_of_a_killed_replica_are_stale_until_the_other_one_decides_for_them() {
    let test = "the_clusters_of_a_killed_replica_are_stale_until_the_other_one_decides_for_them";
    let Some((environment, agents)) = two_clusters(test, SHORT) else { return };
    let before = environment.lease("cluster/bank");
    environment.second.signal(Signal::Kill);
    environment.wait_until_fleet(&environment.first, "a stale cluster beside a current one", |fleet| {
        let is = |name: &str, stale: bool| fleet_of(fleet, name).is_some_and(|cluster| cluster["stale"] == stale);
        is("bank", true) && is("shop", false)
    });
    let nodes = json(&environment.first.http, "/v1/clusters/-/nodes");
    assert_eq!(nodes["unreachable"], serde_json::json!(["clusters/bank"]), "{nodes:#}");
    let one = get(&environment.first.http, "/v1/clusters/bank/nodes/x");
    assert!(one.starts_with("HTTP/1.1 503") && one.contains("no replica that answers decides"), "{one}");
    let server = format!("http://{}", environment.first.grpc);
    let why = fleetwright(&["why", "node", "x", "--cluster", "bank", "--server", &server]);
    assert!(why.status != 0 && why.stderr.contains("no replica that answers decides"), "{}", why.stderr);
    environment.proxy.set_target(environment.first.grpc);
    environment.proxy.drop_connections();
    environment.wait_until_lease("cluster/bank", |lease| lease.epoch > before.epoch);
    environment.wait_until_fleet(&environment.first, "the cluster of its successor", |fleet| {
        let is_current = |cluster: &Value| {
            cluster["stale"] == false && cluster["connected"] == true && cluster["replica"] != *before.owner
        };
        fleet_of(fleet, "bank").is_some_and(is_current)
    });
    wait_until(
        || "nodes of the cluster".to_owned(),
        || {
            let nodes = json(&environment.first.http, "/v1/clusters/-/nodes");
            let has_bank = nodes["nodes"].to_string().contains("clusters/bank/");
            (has_bank && nodes["unreachable"] == serde_json::json!([])).then_some(())
        },
    );
    drop(agents);
}
