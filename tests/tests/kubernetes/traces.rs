//! The traces of machines on a real API server: from pending pods to Ready nodes, and to their removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, is_ready, wait_until};
use e2e::kubernetes::environment::{CLUSTER, Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use e2e::{Collector, ReceivedSpan};
use fleetwright_proto::v1;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use kube::ResourceExt;
use serde_json::json;
use tonic::transport::Endpoint;

const TIMEOUT: Duration = Duration::from_secs(120);

const PODS: i32 = 6;

/// The steps of the server, in the order in which they begin.
const STEPS: [&str; 9] = ["observe", "gather", "plan", "record", "create", "launch", "register", "ready", "bound"];

/// The agent's steps, each with the server's step that it is part of.
const AGENT_STEPS: [(&str, &str); 5] = [
    ("observe_pod", "observe"),
    ("create_node_claim", "create"),
    ("mark_launched", "mark_launched"),
    ("register_node", "register"),
    ("initialize_node", "initialize"),
];

const REMOVAL: [(&str, &str); 5] = [
    ("fleetwright", "drain"),
    ("fleetwright-agent", "drain_node"),
    ("fleetwright", "terminate"),
    ("fleetwright", "delete"),
    ("fleetwright-agent", "delete_node_claim"),
];

/// Six pods need machines; each that is Ready has one whole trace. Then they go.
pub(super) async fn of_ready_nodes(test_bed: Arc<TestBed>) -> ScenarioResult {
    let (collector, address) = Collector::start().await?;
    let server = format!("[trace]\ncollector = \"{address}\"\n");
    let environment = Environment::start(&test_bed, "traces", Options { server, ..Options::default() }).await?;
    let types = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] }]);
    environment.apply_pool("general", types, json!({})).await?;
    environment.cluster.deploy("web", 6, "900m", "500Mi", json!({})).await?;
    environment.cluster.wait_until_ready(PODS, TIMEOUT).await.with_context(|| environment.log_tails())?;
    let nodes: Vec<String> =
        environment.cluster.nodes().await?.iter().filter(|node| is_ready(node)).map(ResourceExt::name_any).collect();
    ensure!(nodes.len() == 3, "an m5.large has room for two of the pods: {nodes:?}");
    let pods: BTreeSet<String> = environment.cluster.pods().await?.iter().filter_map(ResourceExt::uid).collect();
    for node in &nodes {
        let whole = || async { Ok(or_pending(launch_trace(&collector.spans(), node, &pods))) };
        wait_until("a whole trace of the node", TIMEOUT, whole).await?;
    }
    ensure_decisions_name_their_traces(&environment, &collector.spans()).await?;
    let lines = environment.server.count_lines(&["trace_id="]);
    ensure!(lines > 0, "no log line of the server has a trace id:\n{}", environment.server.log_tail());
    environment.cluster.scale("web", 0).await?;
    environment.cluster.wait_until_nodes(0, TIMEOUT).await?;
    for node in &nodes {
        let whole = || async { Ok(or_pending(removal_trace(&collector.spans(), node))) };
        wait_until("a whole trace of the removal", TIMEOUT, whole).await?;
    }
    let spans = collector.spans().len();
    Ok(format!(
        "{} nodes with one trace each to Ready and one to their end, {spans} spans, {lines} log lines",
        nodes.len()
    ))
}

fn or_pending(found: anyhow::Result<()>) -> Poll<()> {
    found.map_or_else(|missing| Poll::Pending(format!("{missing:#}")), Poll::Ready)
}

/// The only trace with a span of this name of the machine.
fn trace_with<'s>(spans: &'s [ReceivedSpan], name: &str, machine: &str) -> anyhow::Result<Vec<&'s ReceivedSpan>> {
    let of = |span: &&ReceivedSpan| span.span.name == name && span.text("host.id") == Some(machine);
    let traces: BTreeSet<&[u8]> = spans.iter().filter(of).map(|span| &*span.span.trace_id).collect();
    ensure!(traces.len() == 1, "{} traces have a span {name} of {machine}", traces.len());
    Ok(spans.iter().filter(|span| traces.contains(&*span.span.trace_id)).collect())
}

/// Verifies the trace of a Ready node.
fn launch_trace(spans: &[ReceivedSpan], machine: &str, pods: &BTreeSet<String>) -> anyhow::Result<()> {
    let trace = trace_with(spans, "launch", machine)?;
    let find = |name: &str| trace.iter().find(|span| span.span.name == name && span.text("host.id") == Some(machine));
    let claim = find("launch").and_then(|span| span.text("fleetwright.nodeclaim")).context("no NodeClaim")?;
    // Spans of the decision have no NodeClaim.
    let of_machine = |span: &&&ReceivedSpan| span.text("fleetwright.nodeclaim").is_none_or(|of| of == claim);
    let mut first: BTreeMap<String, &ReceivedSpan> = BTreeMap::new();
    for span in trace.iter().filter(of_machine) {
        first.entry(format!("{} {}", span.service, span.span.name)).or_insert(*span);
    }
    let step_of = |service: &str, name: &str| {
        let step = first.get(&format!("{service} {name}")).copied();
        step.with_context(|| format!("no span {name} of {service}"))
    };
    let of_server = |name: &str| step_of("fleetwright", name);
    let steps = STEPS.iter().map(|name| of_server(name)).collect::<anyhow::Result<Vec<_>>>()?;
    for pair in steps.windows(2) {
        let [one, next] = [pair[0], pair[1]].map(|step| &step.span);
        ensure!(one.start_time_unix_nano <= next.start_time_unix_nano, "{} begins after {}", one.name, next.name);
    }
    for name in ["launch", "register", "ready", "bound"] {
        ensure!(of_server(name)?.text("host.id") == Some(machine), "another instance: {:?}", of_server(name)?);
    }
    for (name, parent) in AGENT_STEPS {
        let step = step_of("fleetwright-agent", name)?;
        let parents: Vec<_> = trace.iter().filter(|span| span.span.span_id == step.span.parent_span_id).collect();
        let [parent_span] = parents[..] else { anyhow::bail!("{} parents of {name}", parents.len()) };
        let (of, step) = (&parent_span.span, &step.span);
        ensure!(of.name == parent, "{name} is part of {}", of.name);
        let within =
            of.start_time_unix_nano <= step.start_time_unix_nano && step.end_time_unix_nano <= of.end_time_unix_nano;
        ensure!(within, "{step:?} is not within {of:?}");
    }
    let named = |uid: &str| pods.contains(uid);
    ensure!(of_server("observe")?.text("k8s.pod.uid").is_some_and(named), "{:?}", of_server("observe")?);
    let bound = of_server("bound")?.texts_of_events("k8s.pod.uid");
    ensure!(!bound.is_empty() && bound.iter().all(|uid| named(uid)), "{bound:?} of {pods:?}");
    let decision = trace.iter().find(|span| span.span.name == "decision").context("no span of the decision")?;
    ensure!(decision.text("k8s.cluster.name") == Some(CLUSTER), "{decision:?}");
    Ok(())
}

/// Verifies the trace of a removed node.
fn removal_trace(spans: &[ReceivedSpan], machine: &str) -> anyhow::Result<()> {
    let trace = trace_with(spans, "terminate", machine)?;
    let mut last = 0;
    for (service, name) in REMOVAL {
        let of = |span: &&&ReceivedSpan| {
            span.service == service && span.span.name == name && span.text("host.id") == Some(machine)
        };
        let step = trace.iter().find(of).with_context(|| format!("no span {name} of {service}"))?;
        ensure!(last <= step.span.start_time_unix_nano, "{name} begins before the step before it");
        last = step.span.start_time_unix_nano;
    }
    ensure!(trace.iter().any(|span| span.span.name == "decision"), "no span of the decision");
    Ok(())
}

/// `ListDecisions` names the trace of each decision that launched a machine.
async fn ensure_decisions_name_their_traces(environment: &Environment, spans: &[ReceivedSpan]) -> anyhow::Result<()> {
    let channel = Endpoint::from_shared(format!("http://{}", environment.grpc))?.connect().await?;
    let mut client = FleetServiceClient::new(channel);
    let request = v1::ListDecisionsRequest { parent: format!("clusters/{CLUSTER}"), ..Default::default() };
    let decisions = client.list_decisions(request).await?.into_inner().decisions;
    let named: BTreeSet<&str> = decisions.iter().map(|decision| &*decision.trace_id).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let launched = spans.iter().filter(|span| span.span.name == "launch").map(|span| hex(&span.span.trace_id));
    let unnamed: Vec<String> = launched.filter(|trace| !named.contains(&**trace)).collect();
    ensure!(unnamed.is_empty(), "no decision names the traces {unnamed:?}: {named:?}");
    Ok(())
}
