//! An OpenTelemetry collector receives the spans of the demo's decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use e2e::Program;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::{PROGRAM, TIMEOUT};

/// Stores the received spans.
#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|of| of.scope_spans);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn text<'s>(span: &'s Span, key: &str) -> Option<&'s str> {
    let value = span.attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// The spans of a demo with one cluster.
fn spans_of_a_demo() -> Vec<Span> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let collector = Collector::default();
    let service = TraceServiceServer::new(collector.clone());
    runtime.spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
    let demo = Program::new(PROGRAM, &["demo", "--for", "60s", "--seed", "2", "--clusters", "1"]);
    let ended = demo.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    collector.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[test]
fn every_decision_that_launches_is_one_trace_from_its_first_pod_to_the_ids_of_its_instances() {
    let spans = spans_of_a_demo();
    let decisions: BTreeMap<&[u8], &Span> =
        spans.iter().filter(|span| span.name == "decision").map(|span| (&*span.span_id, span)).collect();
    let traces: BTreeSet<&[u8]> = decisions.values().map(|span| &*span.trace_id).collect();
    assert!(!decisions.is_empty() && traces.len() == decisions.len(), "a trace each: {decisions:?}");
    let mut steps: BTreeMap<&[u8], BTreeMap<&str, usize>> = BTreeMap::new();
    let mut machines = BTreeSet::new();
    for span in spans.iter().filter(|span| span.name != "decision") {
        // Spans of the exporter's own transport would have other names and no decision.
        let decision = decisions.get(&*span.parent_span_id).unwrap_or_else(|| panic!("no decision: {span:?}"));
        assert_eq!(span.trace_id, decision.trace_id, "{span:?}");
        assert!(decision.start_time_unix_nano <= span.start_time_unix_nano, "begins before its decision: {span:?}");
        assert!(span.end_time_unix_nano <= decision.end_time_unix_nano, "ends after its decision: {span:?}");
        *steps.entry(&span.parent_span_id).or_default().entry(&span.name).or_default() += 1;
        machines.extend(text(span, "instance.id"));
    }
    for (id, decision) in &decisions {
        let steps = steps.get(id).unwrap_or_else(|| panic!("without a step: {decision:?}"));
        let count = |step: &str| steps.get(step).copied().unwrap_or(0);
        assert!(count("gather") == 1 && count("record") >= 1, "{decision:?}: {steps:?}");
    }
    // A plan that is outdated when it is recorded is not executed, so some decisions lack steps.
    let whole = |steps: &&BTreeMap<&str, usize>| steps.keys().eq(&["create", "gather", "launch", "record"]);
    assert!(steps.values().any(|steps| whole(&steps)), "{steps:?}");
    // Thirty pods with three kinds of requirements need at least one instance of each.
    assert!(machines.len() >= 3, "{machines:?}");
}
