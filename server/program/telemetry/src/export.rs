//! Exports spans to a collector.
//!
//! Spans of decisions are values that have ended ([`trace::Span`]), with ids of their own, which no
//! tracer of OpenTelemetry takes: they go to its batch processors directly, which drop spans while
//! their queue is full. Spans of `tracing` within a call are exported by its OpenTelemetry layer, as
//! parts of the call's span.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use model::Timestamp;
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanEvents, SpanLinks, SpanProcessor as _,
};
use tonic::transport::ClientTlsConfig;
use trace::{Attribute, Kind, Span, Value};
use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Layer, Registry};

use super::sampler::Sampler;

/// `service.name` of the spans of servers. OTEL_SERVICE_NAME replaces it.
const SERVER: &str = "fleetwright";

/// `service.name` of the spans of agents.
const AGENT: &str = "fleetwright-agent";

const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Spans that wait for the collector, about 1 KB each; further ones are dropped. A thousand machines
/// have some ten thousand.
const MAX_QUEUE: usize = 16_384;

/// The exporter of this process; never set without a collector.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// The exporter of this process. `None` without a collector: then nothing is traced.
pub fn exporter() -> Option<&'static Exporter> {
    EXPORTER.get()
}

/// The running export. Dropping it flushes pending spans, which must happen before the runtime ends.
#[derive(Debug)]
#[must_use]
pub struct Traces(Option<&'static Exporter>);

impl Traces {
    pub(super) fn off() -> Self {
        Self(None)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        let Some(Exporter { server, agents, calls, .. }) = self.0 else { return };
        let flushed = [server, agents].map(|processor| processor.shutdown_with_timeout(FLUSH_TIMEOUT));
        for flushed in flushed.into_iter().chain([calls.shutdown_with_timeout(FLUSH_TIMEOUT)]) {
            if let Err(error) = flushed {
                warn!(%error, "could not flush traces to collector");
            }
        }
    }
}

#[derive(Debug)]
pub struct Exporter {
    sampler: Sampler,
    server: BatchSpanProcessor,
    agents: BatchSpanProcessor,
    /// Makes the spans of `tracing`.
    calls: SdkTracerProvider,
    scope: InstrumentationScope,
}

/// Starts the export to `collector`. `instance` is `service.instance.id`.
pub(super) fn start(collector: &str, instance: &str) -> Result<Traces, ExporterBuildError> {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let server = resource(server_name(), [version, KeyValue::new("service.instance.id", instance.to_owned())]);
    let calls = SdkTracerProvider::builder().with_resource(server.clone());
    let exporter = Exporter {
        sampler: Sampler::from_environment(),
        calls: calls.with_span_processor(processor(collector, &server)?).build(),
        server: processor(collector, &server)?,
        agents: processor(collector, &resource(AGENT.into(), []))?,
        scope: InstrumentationScope::builder(SERVER).with_version(env!("CARGO_PKG_VERSION")).build(),
    };
    // A second export in one process changes nothing.
    Ok(Traces(Some(EXPORTER.get_or_init(|| exporter))))
}

fn server_name() -> Cow<'static, str> {
    std::env::var("OTEL_SERVICE_NAME").map_or(SERVER.into(), Cow::Owned)
}

fn resource(service: Cow<'static, str>, attributes: impl IntoIterator<Item = KeyValue>) -> Resource {
    Resource::builder().with_service_name(service).with_attributes(attributes).build()
}

fn processor(collector: &str, resource: &Resource) -> Result<BatchSpanProcessor, ExporterBuildError> {
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(collector);
    let encrypted = collector.starts_with("https://");
    let exporter =
        if encrypted { exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots()) } else { exporter };
    let config = BatchConfigBuilder::default().with_max_queue_size(MAX_QUEUE).build();
    let mut processor = BatchSpanProcessor::builder(exporter.build()?).with_batch_config(config).build();
    processor.set_resource(resource);
    Ok(processor)
}

impl Exporter {
    /// Exports the spans of `tracing` of our own crates: those of the transport would produce further spans.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        tracing_opentelemetry::layer()
            .with_tracer(self.calls.tracer(SERVER))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target(SERVER, LevelFilter::INFO))
    }

    /// The parent of spans that are parts of a span with these ids.
    pub fn parent(&self, of: trace::SpanContext) -> Context {
        let sampled = self.sampler.is_sampled(of.trace());
        let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let (trace, span) = (TraceId::from_bytes(of.trace().to_bytes()), SpanId::from_bytes(of.span().to_bytes()));
        Context::new().with_remote_span_context(SpanContext::new(trace, span, flags, true, TraceState::NONE))
    }

    pub fn export(&self, spans: Vec<Span>) {
        self.send(&self.server, spans);
    }

    /// Exports spans that an agent has sent.
    pub fn export_of_agent(&self, spans: Vec<Span>) {
        self.send(&self.agents, spans);
    }

    fn send(&self, to: &BatchSpanProcessor, spans: Vec<Span>) {
        let sampled = spans.into_iter().filter(|span| self.sampler.is_sampled(span.context.trace()));
        sampled.for_each(|span| to.on_end(self.data(span)));
    }

    fn data(&self, span: Span) -> SpanData {
        let trace = TraceId::from_bytes(span.context.trace().to_bytes());
        let id = SpanId::from_bytes(span.context.span().to_bytes());
        let mut events = SpanEvents::default();
        events.events = span.events.into_iter().map(event).collect();
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.to_bytes())),
            parent_span_is_remote: matches!(span.kind, Kind::Server),
            span_kind: match span.kind {
                Kind::Internal => SpanKind::Internal,
                Kind::Client => SpanKind::Client,
                Kind::Server => SpanKind::Server,
            },
            name: span.name,
            start_time: moment(span.start),
            end_time: moment(span.end),
            attributes: key_values(span.attributes),
            dropped_attributes_count: 0,
            events,
            links: SpanLinks::default(),
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn event(event: trace::SpanEvent) -> Event {
    Event::new(event.name, moment(event.at), key_values(event.attributes), 0)
}

fn key_values(attributes: Vec<Attribute>) -> Vec<KeyValue> {
    attributes.into_iter().map(key_value).collect()
}

fn key_value(Attribute { key, value }: Attribute) -> KeyValue {
    let key = Key::from(key);
    match value {
        Value::Text(text) => KeyValue::new(key, text),
        Value::Int(number) => KeyValue::new(key, number),
        Value::Float(number) => KeyValue::new(key, number),
    }
}

fn moment(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_millis().max(0).unsigned_abs())
}
