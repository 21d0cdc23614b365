//! What is wrong, as the operator who was called reads it.

use std::time::Instant;

use e2e::{Program, authority};
use fleetwright_proto::v1::connect_response::Message as Answer;
use serde_json::{Value, json};

use crate::agent_stream::AgentStream;
use crate::serve;
use crate::{SIMULATOR, TIMEOUT, fleetwright};

/// Code, severity, resource and command of each problem, once `is_it` accepts them.
fn problems(server: &str, is_it: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let listed = fleetwright(&["fleet", "problems", "--server", server, "-o", "json"]);
        assert_eq!(listed.status, 0, "{}", listed.stderr);
        let rows: Value = serde_json::from_str(&listed.stdout).expect("JSON");
        let of = |row: &Value| json!([row["severity"], row["code"], row["resource"], row["command"]]);
        let shown: Vec<Value> = rows.as_array().expect("rows").iter().map(of).collect();
        if is_it(&shown) {
            return shown;
        }
        assert!(Instant::now() < end, "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_what_is_wrong_worst_first_with_what_to_type() {
    let server =
        Program::new(SIMULATOR, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [address, dashboard] = server.wait_for_urls(TIMEOUT);
    let nothing = tokio::task::block_in_place(|| problems(&address, |_| true));
    assert_eq!((nothing.len(), &nothing[0][1]), (1, &json!("NoCluster")));
    let connect = nothing[0][3].as_str().expect("a command");
    assert!(connect.contains("kubectl apply --server-side -k deploy/agent/run"), "{connect}");

    let mut agent = AgentStream::open(&address, "shop").await;
    assert!(matches!(agent.answer().await, Ok(Answer::Welcome(_))));
    let freeze = ["freeze", "--reason", "incident 4", "--cluster", "shop", "--server", &address];
    assert_eq!(tokio::task::block_in_place(|| fleetwright(&freeze)).status, 0);
    let expected = [
        json!([
            "SEVERITY_WARNING",
            "NotSynced",
            "clusters/shop",
            "fleetwright fleet clusters --filter 'name = \"clusters/shop\"' -o yaml"
        ]),
        json!(["SEVERITY_INFO", "Frozen", "clusters/shop", "fleetwright thaw --id 1"]),
    ];
    let seen = tokio::task::block_in_place(|| problems(&address, |seen| seen == expected.as_slice()));
    assert_eq!(seen, expected);

    drop(agent);
    let seen = tokio::task::block_in_place(|| problems(&address, |seen| seen[0][1] == "AgentDisconnected"));
    assert_eq!((&seen[0][0], seen.len()), (&json!("SEVERITY_CRITICAL"), 2));
    let page = tokio::task::block_in_place(|| {
        serve::json(
            authority(&dashboard),
            "/v1/clusters/shop/problems?filter=severity=SEVERITY_INFO&$fields=problems.reason",
        )
    });
    let reason = page["problems"][0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("incident 4, by "), "{reason}");
    let unknown = fleetwright(&["fleet", "problems", "--cluster", "shpo", "--server", &address]);
    assert!(unknown.stderr.contains("there is no cluster \"shpo\""), "{}", unknown.stderr);
    assert_eq!(server.stop(TIMEOUT), 0);
}
