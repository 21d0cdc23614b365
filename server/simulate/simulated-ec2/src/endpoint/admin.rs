//! Control of the endpoint by other processes, below `/_simulated/`.
//!
//! `GET faults`, `POST faults` (replaces the fields of the body), `GET calls?after=NUMBER`, `GET ledger`, and
//! `POST interrupt` with `{"instance": "i-…", "kind": "spot_interrupted"}`.

use http::request::Parts;
use http::{Method, Response};
use model::interruption::InterruptionKind;
use serde_json::{Value, json};

use super::incoming::{plain, respond};
use super::state::Shared;

const JSON: &str = "application/json";

pub(super) fn answer(shared: &Shared, parts: &Parts, path: &str, body: &[u8]) -> Response<String> {
    let result = match (&parts.method, path) {
        (&Method::GET, "faults") => {
            serde_json::to_value(shared.state().switchboard.faults()).map_err(|e| e.to_string())
        }
        (&Method::POST, "faults") => set_faults(shared, body),
        (&Method::GET, "calls") => calls(shared, parts.uri.query().unwrap_or_default()),
        (&Method::GET, "ledger") => Ok(ledger(shared)),
        (&Method::POST, "interrupt") => interrupt(shared, body),
        _ => return plain(404, "there is no such path below /_simulated/\n"),
    };
    match result {
        Ok(body) => respond(200, JSON, body.to_string()),
        Err(error) => plain(400, &format!("{error}\n")),
    }
}

fn set_faults(shared: &Shared, body: &[u8]) -> Result<Value, String> {
    let update: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let mut state = shared.state();
    let faults = state.switchboard.faults().updated(&update);
    let faults = faults.map_err(|error| format!("the body does not describe faults: {error}"))?;
    let answer = serde_json::to_value(&faults).map_err(|error| error.to_string());
    state.switchboard.set(faults);
    answer
}

fn calls(shared: &Shared, query: &str) -> Result<Value, String> {
    let after = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "after");
    let after = after.map_or(Ok(0), |(_, number)| number.parse()).map_err(|_| "after is not a number".to_owned())?;
    let state = shared.state();
    let calls: Vec<_> = state.log.after(after).collect();
    serde_json::to_value(calls).map_err(|error| error.to_string())
}

/// All launched instances, from the ledger of the cloud.
fn ledger(shared: &Shared) -> Value {
    shared.advance();
    let cloud = shared.cloud.cloud();
    let entry = |entry: &cloud::simulated::LedgerEntry| {
        let instance = &entry.instance;
        json!({
            "id": instance.id.as_ref(),
            "token": entry.token.as_ref(),
            "cluster": instance.cluster.as_ref() as &str,
            "clusterUid": instance.cluster_uid.as_ref(),
            "claim": instance.claim.as_ref() as &str,
            "instanceType": instance.instance_type.as_ref() as &str,
            "zone": instance.zone.as_ref() as &str,
            "capacityType": instance.capacity_type.as_str(),
            "launchedMs": instance.launched.as_millis(),
            "endedMs": entry.ended.map(|ended| ended.as_millis()),
        })
    };
    cloud.ledger().entries().map(entry).collect()
}

fn interrupt(shared: &Shared, body: &[u8]) -> Result<Value, String> {
    let order: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let id = order["instance"].as_str().ok_or("instance is missing")?;
    let named = |kind: &&InterruptionKind| order["kind"].as_str() == Some(kind.as_str());
    let Some(kind) = InterruptionKind::ALL.iter().find(named) else {
        let known: Vec<&str> = InterruptionKind::ALL.iter().map(|kind| kind.as_str()).collect();
        return Err(format!("kind is none of {}", known.join(", ")));
    };
    let now = shared.cloud.now();
    let announced = shared.cloud.cloud().interrupt(id, *kind, now);
    shared.advance();
    Ok(json!({ "announced": announced }))
}
