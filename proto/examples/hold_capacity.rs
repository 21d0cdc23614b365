//! A client of CapacityService in Rust: quotes pods that do not exist yet, holds room for them in the cluster with the best
//! quote, waits for it, prints by what the pods take it, and releases it.
//!
//! `hold_capacity ADDRESS PODS CPU MEMORY`, for example `hold_capacity http://127.0.0.1:7450 3 1 2Gi`. The variable
//! `FLEETWRIGHT_TOKEN` has the bearer token, if the server requires one; its scope is `operate`.
//!
//! In a project of your own: `tonic` with `transport`, `prost` and `prost-types`, and the stubs that `tonic-prost-build`
//! makes from `proto/`. Here they are those of `fleetwright-proto` and `fleetwright-rpc`.

use std::env;
use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use fleetwright_proto::v1;
use fleetwright_rpc::v1::capacity_service_client::CapacityServiceClient;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [address, pods, cpu, memory] = words.as_slice() else {
        return Err("usage: hold_capacity ADDRESS PODS CPU MEMORY".into());
    };
    let pods = v1::PodSet {
        name: "workers".to_owned(),
        namespace: "default".to_owned(),
        count: pods.parse()?,
        template: Some(template(cpu, memory)),
    };
    let channel = Endpoint::from_shared(address.clone())?.connect().await?;
    let mut capacity = CapacityServiceClient::with_interceptor(channel.clone(), authenticate);
    let mut fleet = FleetServiceClient::with_interceptor(channel, authenticate);

    let request = v1::QuoteClustersRequest { pod_sets: vec![pods.clone()], max_clusters: 3, ..Default::default() };
    for quote in capacity.quote_clusters(request).await?.into_inner().quotes {
        println!("{}: fits={} price={}", quote.cluster, quote.fits, quote.price_micro_usd_per_hour);
    }

    let request = v1::CreateHoldRequest {
        // The cluster with the best quote.
        parent: "clusters/-".to_owned(),
        hold: Some(v1::Hold {
            pod_sets: vec![pods],
            kind: v1::HoldKind::Dedicated.into(),
            ttl: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
            ..v1::Hold::default()
        }),
        // The server holds once for all requests of this id, so that a call that failed can be repeated.
        request_id: request_id()?,
        ..v1::CreateHoldRequest::default()
    };
    let mut hold = match capacity.create_hold(request.clone()).await {
        Err(error) if error.code() == tonic::Code::Unavailable => capacity.create_hold(request).await?,
        answer => answer?,
    }
    .into_inner();

    let mut changes = fleet.watch_hold(v1::WatchHoldRequest { name: hold.name.clone() }).await?.into_inner();
    while hold.state() == v1::HoldState::Pending {
        hold = changes.message().await?.ok_or("the server ended the watch; ask again with GetHold")?;
    }
    println!("{}: {}", hold.name, hold.state().as_str_name());
    if hold.state() != v1::HoldState::Active {
        return Err(hold.message.into());
    }
    for (key, value) in &hold.node_selector {
        println!("nodeSelector {key}={value}");
    }
    for v1::HoldToleration { key, operator, value, effect } in &hold.tolerations {
        println!("toleration key={key} operator={operator} value={value} effect={effect}");
    }

    // The etag refuses the release if the hold has changed since.
    let request = v1::ReleaseHoldRequest { name: hold.name, etag: hold.etag, validate_only: false };
    println!("{}", capacity.release_hold(request).await?.into_inner().state().as_str_name());
    Ok(())
}

/// Adds the bearer token.
fn authenticate(mut request: Request<()>) -> Result<Request<()>, Status> {
    if let Ok(token) = env::var("FLEETWRIGHT_TOKEN") {
        let value = AsciiMetadataValue::try_from(format!("Bearer {token}"));
        request.metadata_mut().insert("authorization", value.map_err(|_| Status::invalid_argument("not a token"))?);
    }
    Ok(request)
}

/// A PodTemplateSpec with one container that requests this, as in a manifest.
fn template(cpu: &str, memory: &str) -> Struct {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let object = |fields: Vec<(&str, Value)>| {
        let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Value { kind: Some(Kind::StructValue(Struct { fields })) }
    };
    let requests = object(vec![("cpu", text(cpu)), ("memory", text(memory))]);
    let container = object(vec![("name", text("main")), ("resources", object(vec![("requests", requests)]))]);
    let containers = Value { kind: Some(Kind::ListValue(prost_types::ListValue { values: vec![container] })) };
    Struct { fields: [("spec".to_owned(), object(vec![("containers", containers)]))].into() }
}

/// A UUID (version 8, RFC 9562) of the time and the process.
fn request_id() -> Result<String, Box<dyn Error>> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let process = u128::from(std::process::id());
    let bits = (nanos << 48) | (process << 16);
    let uuid = (bits & !(0xf << 76) & !(0b11 << 62)) | (8 << 76) | (0b10 << 62);
    let hex = format!("{uuid:032x}");
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}
